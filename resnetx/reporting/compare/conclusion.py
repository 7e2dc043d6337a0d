"""The conclusion of a comparison in sentences: the figures first, then what a difference may be due to."""

from collections import Counter
from collections.abc import Iterator

from resnetx.record.comparison import Comparison, Control
from resnetx.reporting.compare.controls import in_words

ENDS = {"interval": "95 % interval", "range": "range"}  # what `Summary.low` and `high` are


def conclusion(comparison: Comparison) -> list[str]:
    """Sentences in the order in which they matter."""
    if not comparison.means:
        return [*_settings(comparison), "No point ran well in both studies: there is nothing to compare."]
    return [*_settings(comparison), *_figures(comparison), _significance(comparison), _attribution(comparison)]


def _settings(comparison: Comparison) -> Iterator[str]:
    if comparison.a.folder == comparison.b.folder:
        yield "A and B are one study: every ratio is 1."
    if comparison.settings:
        settings = [
            f"{setting.name} ({', '.join(setting.a)} in A, {', '.join(setting.b)} in B)"
            for setting in comparison.settings
        ]
        yield f"Measured with different settings, to which a difference may be due: {'; '.join(settings)}."


def _figures(comparison: Comparison) -> Iterator[str]:
    """The means on the largest number of GPUs."""
    last = comparison.means[-1]
    points = f"{last.points} point{'s' * (last.points > 1)}"
    yield (
        f"On {_gpus(last.gpus)} B has {in_words(last.ratio)} times the images/s of A: "
        f"geometric mean of {points}" + f", with its {ENDS[last.ratio.kind]}" * (last.ratio.n > 1) + "."
    )
    if last.speedup_ratio:
        yield f"Its speed-up there is {in_words(last.speedup_ratio)} times that of A."


def _significance(comparison: Comparison) -> str:
    counts = Counter(point.verdict for point in comparison.points)
    text = f"{sum(counts.values()) - counts['not measured']} points: {counts['different']} different, "
    text += f"{counts['no difference shown']} with no difference shown, "
    text += f"{counts['too few runs to decide']} with too few runs to decide"
    if counts["too few runs to decide"] and comparison.enough_runs:
        text += f" (repeats={comparison.enough_runs} is enough for all)"
    return f"{text}; permutation tests, at most 5 % of the differences false."


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
