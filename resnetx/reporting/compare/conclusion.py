"""The conclusion of a comparison in sentences: the figures first, then what a difference may be due to."""

from collections import Counter
from collections.abc import Iterator

from resnetx.record.comparison import ComparedPoint, Comparison, Control, Mean, StudySide
from resnetx.record.machine import how_many, on_cores
from resnetx.reporting.compare.controls import in_words
from resnetx.statistics import Summary
from resnetx.table import ONLY_WITH_ALL, Answer, Column, as_shown
from resnetx.units import to_interval

ENDS = {"interval": "95 % interval", "range": "range"}  # what `Summary.low` and `high` are


def conclusion(comparison: Comparison) -> list[str]:
    """Sentences in the order in which they matter."""
    same = ["A and B are one study: every ratio is 1."] * (comparison.a.folder == comparison.b.folder)
    if not comparison.means:
        return [*same, "No case ran well in both studies: there is nothing to compare.", *_settings(comparison)]
    return [*same, _answer(comparison), *_settings(comparison), _attribution(comparison)]


def _answer(comparison: Comparison) -> str:
    """The mean on the largest number of GPUs, and of how many points the runs show it."""
    last, counts = comparison.means[-1], Counter(point.verdict for point in comparison.points)
    few, different = counts["too few runs to decide"], counts["different"]
    common = sum(counts.values()) - counts["not measured"]
    value, low, high = to_interval(last.ratio.median, last.ratio.low, last.ratio.high)
    much = f"{value} times ({low} to {high})" if last.ratio.n > 1 else f"{value} times"
    what = f"B trains {much} as fast as A on {how_many(last.gpus, comparison.unit, 'one')}{on_cores(comparison.unit)}"
    means = f" (geometric mean of {last.points} cases)" * (last.points > 1)
    if few == common:
        enough = comparison.enough_runs
        remedy = f"repeats={enough} would decide all {common} common cases" if enough else "more repeats would"
        return f"Not decided: {what}{means}, from too few runs; {remedy}."
    shown = (
        f"{different} of {common} common cases differ"
        if different
        else f"no difference is shown at {common - few} cases"
    )
    shown += f", {few} have too few runs to decide" * bool(few)
    speedup = f" Its speed-up there is {in_words(last.speedup_ratio)} times that of A." if last.speedup_ratio else ""
    return f"{what}{means}: {shown} (permutation tests, at most 5 % false).{speedup}"


def _settings(comparison: Comparison) -> Iterator[str]:
    if comparison.settings:
        settings = [
            f"{setting.name} ({', '.join(setting.a)} in A, {', '.join(setting.b)} in B)"
            for setting in comparison.settings
        ]
        yield f"Measured with different settings, to which a difference may be due: {'; '.join(settings)}."


def _attribution(comparison: Comparison) -> str:
    """What differences on several GPUs may be due to, by the controls."""
    if comparison.means[-1].gpus == 1:
        return "Only one-GPU points ran well in both: they say nothing about the interconnect."
    rate, clock = comparison.controls
    tolerance = f"{100 * comparison.tolerance:.0f} %"
    if wrong := [control for control in (rate, clock) if control.agreement == "differ"]:
        causes = " and ".join(f"{control.name}s differ by more than {tolerance} ({control.why})" for control in wrong)
        return (
            f"{_upper(causes)}: a difference on several GPUs is not due to the interconnect alone; read the ratio of "
            "speed-ups, each over its own one GPU (a faster GPU also leaves less time in which to hide communication)."
        )
    return _upper(_without_difference(rate, clock, tolerance))


def _without_difference(rate: Control, clock: Control, tolerance: str) -> str:
    if rate.agreement == "unknown":
        return f"{rate.why}: how much of a difference is due to the interconnect is unknown; measure gpus=1 in both."
    if rate.agreement == "open":
        return (
            f"whether one-GPU rates agree within {tolerance} is not shown ({rate.why}): a difference on several GPUs "
            "cannot be attributed to the interconnect yet; raise repeats."
        )
    clocks = "SM clocks are not known" if clock.agreement == "unknown" else "so do SM clocks"
    return (
        f"one-GPU rates agree within {tolerance} ({rate.why}) and {clocks}: a difference on several GPUs is due to how "
        "they exchange gradients, or to what else is listed as different."
    )


def _upper(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


# ---- columns --------------------------------------------------------------------------------------------------------


def shown_comparison(compared: Comparison) -> Answer:
    """The conclusion, and the means over the cases."""
    return Answer(conclusion(compared), as_shown(mean_columns(compared), compared.means))


def mean_columns(compared: Comparison) -> list[Column[Mean]]:
    """The geometric means over the cases on each number of GPUs."""
    return [
        Column(f">{compared.unit}s", lambda mean: f"{mean.gpus}"),
        Column(">cases", lambda mean: f"{mean.points}"),
        Column(">rate B / A", lambda mean: _ratio(mean.ratio)),
        Column("ends", lambda mean: _ratio_ends(mean.ratio)),
        Column(">speed-up B / A", lambda mean: _ratio(mean.speedup_ratio)),
        Column("its ends", lambda mean: _ratio_ends(mean.speedup_ratio), 2),
        Column(">of cases", lambda mean: f"{mean.speedup_points}" if mean.speedup_ratio else "", 1),
    ]


def compared_columns(compared: Comparison) -> list[Column[ComparedPoint]]:
    """Each case that is in both studies."""
    baselines = ", ".join(dict.fromkeys(point.baseline for point in compared.points if point.speedup_ratio))
    kinds = {point.ratio.kind for point in compared.points if point.ratio}
    ends = " or ".join(words for kind, words in ENDS.items() if kind in kinds)
    return [
        Column("workload", lambda point: point.workload),
        Column(">batch", lambda point: point.batch.removeprefix("batch ")),
        Column("settings", lambda point: point.variant),
        Column(f">{compared.unit}s", lambda point: f"{point.request.gpus}"),
        Column(">rate B / A", lambda point: _ratio(point.ratio)),
        Column("ends", lambda point: _ratio_ends(point.ratio), help=f"of the ratio, {ends or 'range'}."),
        Column("difference", lambda point: point.verdict),
        Column(">p", lambda point: "" if point.adjusted_p is None else f"{point.adjusted_p:.2g}", 5, _OF_TESTS),
        Column(">speed-up B / A", lambda point: _ratio(point.speedup_ratio), 7, f"over {baselines}." * bool(baselines)),
        Column("its ends", lambda point: _ratio_ends(point.speedup_ratio), 6),
        Column(">A images/s", lambda point: _side_rate(point.a), 4),
        Column(">B images/s", lambda point: _side_rate(point.b), 4),
        Column(">A runs", lambda point: _side_runs(point.a), 3),
        Column(">B runs", lambda point: _side_runs(point.b), 3),
        Column("A limited by", lambda point: point.a.limited_by, ONLY_WITH_ALL),
        Column("B limited by", lambda point: point.b.limited_by, ONLY_WITH_ALL),
    ]


_OF_TESTS = "of permutation tests, adjusted for the number of cases."


def _ratio(ratio: Summary | None) -> str:
    return "" if ratio is None else f"{ratio.median:.3f}"


def _ratio_ends(ratio: Summary | None) -> str:
    return f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio and ratio.n > 1 else ""


def _side_rate(side: StudySide) -> str:
    return f"{side.images_per_s.median:,.3g}" if side.images_per_s else side.outcome


def _side_runs(side: StudySide) -> str:
    return f"{side.images_per_s.n}" if side.images_per_s else "0"
