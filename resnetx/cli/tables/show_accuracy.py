"""The screen of a prediction compared with the study that checks it."""

from resnetx.cli import show
from resnetx.record.comparison import Accuracy, CheckedPoint
from resnetx.reporting.compare.accuracy import ADVANTAGES, TOTALS, checked_columns

NAMED = 3  # systems, and cases that only one side has, by name; --all names all


def accuracy(checked: Accuracy) -> None:
    """The cases with the largest error, then how far off each system was; --all: every case."""
    for warning in checked.warnings:
        show.say(f"look: {warning}", indent=2)
    ranked = sorted(checked.points, key=_distance, reverse=True) if len(checked.points) > show.ROWS else checked.points
    shown = show.first(ranked, show.ROWS)
    title = "Case by case" + f": the {len(shown)} with the largest error" * (len(shown) < len(ranked))
    show.listing(checked_columns(checked.points), shown, title)
    if show.everything():
        show.say()
        show.listing(TOTALS, checked.totals, "Prediction errors", every=True)
    _advantages(checked)
    if len(checked.totals) > 1 and not show.everything():
        of_each = [
            f"{total.system} with {total.library} {total.mean_absolute_error:.1%} ({total.covered} of {total.points})"
            for total in checked.totals
        ]
        more = f", {len(of_each) - NAMED} more" * (len(of_each) > NAMED)
        show.say(f"sure: mean error, and how many lie in the interval: {', '.join(of_each[:NAMED])}{more}.")
    for what, points in (("not measured", checked.not_measured), ("not predicted", checked.not_predicted)):
        if points:
            named = show.first(points, NAMED)
            more = f", and {len(points) - len(named)} more" * (len(named) < len(points))
            show.say(f"{what}: {'; '.join(named)}{more}.")
    digest = f" ({checked.prediction[:8]})" * show.everything()
    made = f"predicted at {checked.made_at}{digest}; measured by study {checked.study} ({checked.folder})"
    cases = f"; all {len(ranked)} cases: --all" * (len(shown) < len(ranked))
    show.say(f"more: {made}{cases}; where it went: resnetx explain A B")


def _distance(point: CheckedPoint) -> float:
    return 0.0 if point.error is None else abs(point.error)


def _advantages(checked: Accuracy) -> None:
    """Which strategy is faster; without --all where that was predicted wrongly."""
    shown = [advantage for advantage in checked.advantages if show.everything() or advantage.right is False]
    if shown:
        show.say()
        show.listing(ADVANTAGES, shown, "One strategy over another: ratio of rates")
    elif decided := sum(advantage.right is not None for advantage in checked.advantages):
        show.say(f"one strategy over another: {decided} that the measurement decides, all predicted rightly: --all")
