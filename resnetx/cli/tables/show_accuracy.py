"""The screen of a prediction compared with the study that checks it."""

from collections.abc import Callable

from resnetx.cli import show
from resnetx.record.comparison import Accuracy, CheckedAdvantage, CheckedPoint, Total
from resnetx.statistics import Summary
from resnetx.table import Column

_OF_INTERVALS = "measurements that lie in the predicted interval."
NAMED = 5  # points that only one side has, by name


def accuracy(checked: Accuracy) -> None:
    """How far off the prediction was: by system, case by case, and in the order of strategies."""
    for warning in checked.warnings:
        show.say(f"look: {warning}", indent=2)
    if checked.totals:
        note = "error: predicted / measured - 1 of a step's time on several GPUs; on one, a trace predicts itself."
        show.listing(_TOTALS, checked.totals, "Prediction errors", note)
        show.say()
    ranked = sorted(checked.points, key=_distance, reverse=True) if len(checked.points) > show.ROWS else checked.points
    shown = show.first(ranked, show.ROWS)
    title = "Case by case" + f": the {len(shown)} with the largest error" * (len(shown) < len(ranked))
    show.listing(_POINTS, shown, title, f"--all shows all {len(ranked)}." * (len(shown) < len(ranked)))
    _advantages(checked)
    _rest(checked)
    digest = f" ({checked.prediction[:8]})" * show.everything()
    show.say(f"predicted at {checked.made_at}{digest}; measured by study {checked.study} ({checked.folder})")


_TOTALS: list[Column[Total]] = [
    Column("system", lambda total: total.system),
    Column("library", lambda total: total.library),
    Column(">cases", lambda total: f"{total.points}", 3),
    Column(">mean |error|", lambda total: f"{total.mean_absolute_error:.1%}"),
    Column(">worst", lambda total: f"{total.worst_error:+.1%}"),
    Column("at", lambda total: total.worst_point, 2),
    Column(">bias", lambda total: f"{total.bias:+.1%}", 5, "the mean with its sign."),
    Column(">in interval", lambda total: f"{total.covered} of {total.points}", help=_OF_INTERVALS),
    Column(">overlap", lambda total: f"{total.overlapping} of {total.points}", 1),
    Column(
        ">order right",
        lambda total: f"{total.advantages_right} of {total.advantages}" if total.advantages else "none decided",
        4,
        "which strategy is faster, where the measurement decides it.",
    ),
]


def _distance(point: CheckedPoint) -> float:
    return 0.0 if point.error is None else abs(point.error)


def _settings(point: CheckedPoint) -> str:
    """In which cases differ, but for the lab's system, which has a column."""
    return ", ".join(word for word in point.variant.split(", ") if word != f"lab.system={point.system}")


_POINTS: list[Column[CheckedPoint]] = [
    Column("workload", lambda point: point.workload),
    Column(">batch", lambda point: f"{point.batch_size}"),
    Column("settings", lambda point: _settings(point)),
    Column(">GPUs", lambda point: f"{point.gpus}"),
    Column("system", lambda point: point.system),
    Column("library", lambda point: point.library, 4),
    Column(">predicted ms", lambda point: _predicted(point)),
    Column("interval", lambda point: " to ".join(map(_ms, point.predicted_interval_s or [])), 4),
    Column(">measured ms", lambda point: _ms(point.measured_s.median) if point.measured_s else point.measured_outcome),
    Column("its range", lambda point: _range(point.measured_s, _ms) if point.measured_s else "", 3),
    Column(">runs", lambda point: f"{point.measured_s.n}" if point.measured_s else "0", 2),
    Column(">error", lambda point: "" if point.error is None else f"{point.error:+.1%}"),
    Column("in interval", lambda point: _yes(point.covered), 8),
    Column("made before", lambda point: _yes(point.made_before), 1),
]


def _predicted(point: CheckedPoint) -> str:
    return point.predicted_outcome if point.predicted_s is None else _ms(point.predicted_s)


def _advantages(checked: Accuracy) -> None:
    """Which strategy is faster; without --all where that was predicted wrongly."""
    shown = [advantage for advantage in checked.advantages if show.everything() or advantage.right is False]
    if shown:
        show.say()
        show.listing(_ADVANTAGES, shown, "One strategy over another: ratio of rates")
    elif decided := sum(advantage.right is not None for advantage in checked.advantages):
        show.say(f"One strategy over another: {decided} that the measurement decides, all predicted rightly: --all.")


_ADVANTAGES: list[Column[CheckedAdvantage]] = [
    Column("workload", lambda advantage: advantage.workload),
    Column(">batch", lambda advantage: f"{advantage.batch_size}"),
    Column(">GPUs", lambda advantage: f"{advantage.gpus}"),
    Column("system", lambda advantage: advantage.system),
    Column("strategy", lambda advantage: advantage.strategy),
    Column("over", lambda advantage: advantage.over),
    Column(">predicted", lambda advantage: f"{advantage.predicted:.3f}"),
    Column(">measured", lambda advantage: f"{advantage.measured.median:.3f}"),
    Column("its range", lambda advantage: _range(advantage.measured, "{:.3f}".format), 1),
    Column(
        "order", lambda advantage: "not decided" if advantage.right is None else "right" if advantage.right else "wrong"
    ),
]


def _rest(checked: Accuracy) -> None:
    """The points that only one side has: not measured, or not predicted."""
    for what, points in (("Not measured", checked.not_measured), ("Not predicted", checked.not_predicted)):
        if points:
            shown = show.first(points, NAMED)
            more = f", and {len(points) - len(shown)} more" * (len(shown) < len(points))
            show.say(f"{what}: {'; '.join(shown)}{more}.")


def _range(summary: Summary, text: Callable[[float], str]) -> str:
    """The ends of an interval, or of the range of few runs."""
    return f"{text(summary.low)} to {text(summary.high)}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _yes(fact: bool | None) -> str:
    return "" if fact is None else "yes" if fact else "no"
