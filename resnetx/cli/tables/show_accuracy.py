"""The screen of a prediction compared with the study that checks it."""

from collections.abc import Callable, Sequence

from resnetx.cli import show
from resnetx.record.comparison import Accuracy, CheckedPoint
from resnetx.statistics import Summary

POINTS = 24  # the most that are shown, those that are furthest off; --all shows all
NAMED = 5  # points that only one side has, by name


def accuracy(checked: Accuracy) -> None:
    """How far off the prediction was: in all, point by point, and in the order of strategies."""
    show.say(
        f"Predicted at {checked.made_at} (digest {checked.prediction[:8]}), measured by study {checked.study} on "
        f"{checked.node} ({checked.folder})"
    )
    for warning in checked.warnings:
        show.say(f"warning: {warning}", indent=2)
    _totals(checked)
    _points(checked.points)
    _advantages(checked)
    _rest(checked)


def _totals(checked: Accuracy) -> None:
    columns = [
        "system", "library", ">points", ">mean |error|", ">worst", "at", ">bias", ">within", ">covered", ">overlap",
        ">signs right",
    ]  # fmt: skip
    rows = [
        [
            total.system,
            total.library,
            f"{total.points}",
            f"{total.mean_absolute_error:.1%}",
            f"{total.worst_error:+.1%}",
            total.worst_point,
            f"{total.bias:+.1%}",
            *(f"{count} of {total.points}" for count in (total.within, total.covered, total.overlapping)),
            f"{total.advantages_right} of {total.advantages}" if total.advantages else "none decided",
        ]
        for total in checked.totals
    ]
    note = (
        "error: predicted / measured - 1 of the time of an iteration. within: no more than 10 %, or twice the measured "
        "interval, and covered. covered: the measured median is in the predicted interval. signs: which strategy is "
        "faster, where the measurement decides it. Only points on several GPUs: on one GPU, a trace predicts itself."
    )
    show.say()
    show.table("Prediction errors", columns, rows, note, ["overlap", "at", "points", "signs right", "bias"])


def _points(points: Sequence[CheckedPoint]) -> None:
    """The points as a table: all of them, or those with the largest errors."""
    columns = [
        "workload", ">batch", "variant", ">GPUs", "system", "library", ">predicted ms", "interval",
        ">measured ms", "its range", ">runs", ">error", ">allowed", "verdict", "covered", "made before",
    ]  # fmt: skip
    least = [
        "made before", "runs", "its range", "library", "covered", "interval", "allowed", "verdict",
    ]  # fmt: skip
    shown = points if len(points) <= POINTS else show.first(sorted(points, key=_distance, reverse=True), POINTS)
    title = "Point by point" + f": the {len(shown)} with the largest error" * (len(shown) < len(points))
    show.say()
    show.table(title, columns, list(map(_row, shown)), least=least)
    if len(shown) < len(points):
        show.say(f"--all shows all {len(points)} points.")


def _distance(point: CheckedPoint) -> float:
    return 0.0 if point.error is None else abs(point.error)


def _row(point: CheckedPoint) -> list[str]:
    measured, interval_s = point.measured_s, point.predicted_interval_s
    return [
        point.workload,
        f"{point.batch_size}",
        point.variant,
        f"{point.gpus}",
        point.system,
        point.library,
        point.predicted_outcome if point.predicted_s is None else _ms(point.predicted_s),
        " to ".join(map(_ms, interval_s or [])),
        *([_ms(measured.median), _range(measured, _ms)] if measured else [point.measured_outcome, ""]),
        f"{measured.n}" if measured else "0",
        "" if point.error is None else f"{point.error:+.1%}",
        "" if point.allowed is None else f"{point.allowed:.1%}",
        _verdict(point),
        _yes(point.covered),
        _yes(point.made_before),
    ]


def _verdict(point: CheckedPoint) -> str:
    """What the prediction said of its own error comes first; nothing outside of its interval is within anything."""
    if point.error is not None and point.covered is False:
        return "outside the stated interval"
    return "" if point.within is None else "within" if point.within else "off"


def _advantages(checked: Accuracy) -> None:
    if not checked.advantages:
        return
    columns = [
        "workload", ">batch", ">GPUs", "system", "strategy", "over", ">predicted", ">measured", "its range", "sign",
    ]  # fmt: skip
    rows = [
        [
            advantage.workload,
            f"{advantage.batch_size}",
            f"{advantage.gpus}",
            advantage.system,
            advantage.strategy,
            advantage.over,
            f"{advantage.predicted:.3f}",
            f"{advantage.measured.median:.3f}",
            _range(advantage.measured, "{:.3f}".format),
            "not decided" if advantage.right is None else "right" if advantage.right else "wrong",
        ]
        for advantage in checked.advantages
    ]
    show.say()
    show.table("One strategy over another: ratio of rates", columns, rows, least=["its range"])


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
