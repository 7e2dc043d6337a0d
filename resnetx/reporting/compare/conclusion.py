"""The conclusion of a comparison in sentences: the figures first, then what a difference may be due to."""

from collections import Counter
from collections.abc import Iterator

from resnetx.record.comparison import Comparison, Control
from resnetx.reporting.compare.controls import in_words
from resnetx.units import to_interval

ENDS = {"interval": "95 % interval", "range": "range"}  # what `Summary.low` and `high` are


def conclusion(comparison: Comparison) -> list[str]:
    """Sentences in the order in which they matter."""
    same = ["A and B are one study: every ratio is 1."] * (comparison.a.folder == comparison.b.folder)
    if not comparison.means:
        return [*same, "No point ran well in both studies: there is nothing to compare.", *_settings(comparison)]
    return [*same, _answer(comparison), *_settings(comparison), _attribution(comparison)]


def _answer(comparison: Comparison) -> str:
    """The mean on the largest number of GPUs, and of how many points the runs show it."""
    last, counts = comparison.means[-1], Counter(point.verdict for point in comparison.points)
    few, different = counts["too few runs to decide"], counts["different"]
    common = sum(counts.values()) - counts["not measured"]
    value, low, high = to_interval(last.ratio.median, last.ratio.low, last.ratio.high)
    much = f"{value} times ({low} to {high})" if last.ratio.n > 1 else f"{value} times"
    what = f"B trains {much} as fast as A on {_gpus(last.gpus)}"
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
            f"whether one-GPU rates agree within {tolerance} is open ({rate.why}): a difference on several GPUs cannot "
            "be attributed to the interconnect yet; raise repeats."
        )
    clocks = "SM clocks are not known" if clock.agreement == "unknown" else "so do SM clocks"
    return (
        f"one-GPU rates agree within {tolerance} ({rate.why}) and {clocks}: a difference on several GPUs is due to how "
        "they exchange gradients, or to what else is listed as different."
    )


def _upper(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count > 1)}"
