"""What has to agree before a difference on several GPUs is attributed to the interconnect: one-GPU rates, and clocks.

Tallent et al. 2017, 2.1, capped both machines at one clock and checked that one GPU was as fast in either.
"""

import math
from collections.abc import Sequence

from resnetx.record import RunSummary
from resnetx.record.comparison import Agreement, Control
from resnetx.reporting.compare.pairs import Pair, mean
from resnetx.statistics import Summary
from resnetx.units import si

TOLERANCE = 0.03  # two steps of 15 MHz of a GPU's clock are 2 to 3 %

_ORDER: tuple[Agreement, ...] = ("differ", "open", "agree")  # the first that any point shows is the whole's


def one_gpu_rates(pairs: Sequence[Pair]) -> Control:
    """Whether one GPU is as fast in both studies, with every workload."""
    ratios = [(mean([pair.rate]), pair) for pair in pairs if pair.gpus == 1 and pair.good]
    if not ratios:
        return Control(name="one-GPU rate", agreement="unknown", why="no one-GPU point ran well in both")
    judged = [agreement(ratio) for ratio, _ in ratios]
    overall = next(each for each in _ORDER if each in judged)
    deciding = [each for each, judgement in zip(ratios, judged, strict=True) if judgement == overall]
    ratio, pair = max(deciding, key=lambda each: abs(math.log(each[0].median)))
    others = f"{len(deciding)} of {len(ratios)} points, " * (len(ratios) > 1)
    return Control(
        name="one-GPU rate",
        agreement=overall,
        why=f"{others}largest difference at {pair.words}: B / A {in_words(ratio)}",
    )


def agreement(ratio: Summary) -> Agreement:
    """Whether a ratio is 1 within the tolerance, is not, or may be either. A range counts as what it is worth."""
    half = ratio.spread * ratio.median
    low, high = (ratio.median - half, ratio.median + half) if ratio.kind == "range" else (ratio.low, ratio.high)
    if max(1 - low, high - 1) <= TOLERANCE:
        return "agree"
    beyond = abs(ratio.median - 1) > TOLERANCE
    return "differ" if beyond and not low <= 1 <= high else "open"


def clocks(pairs: Sequence[Pair]) -> Control:
    """Whether the GPUs ran at the same sustained clock at every point, and held one where they were locked at it."""
    known = [
        (pair.b.sm_clock_Hz / pair.a.sm_clock_Hz, pair)
        for pair in pairs
        if pair.a.sm_clock_Hz is not None and pair.b.sm_clock_Hz is not None
    ]
    if not known:
        return Control(name="SM clock", agreement="unknown", why="no SM clock is recorded in both")
    ratio, pair = max(known, key=lambda each: abs(math.log(each[0])))
    clock_a, clock_b = (si(side.sm_clock_Hz or 0, "Hz") for side in (pair.a, pair.b))
    why = f"largest difference at {pair.words}: {clock_a} in A, {clock_b} in B"
    locks = [
        _locked("A", [run for pair in pairs for run in pair.a.good_runs]),
        _locked("B", [run for pair in pairs for run in pair.b.good_runs]),
    ]
    if any(locks):
        why += "; " + ", ".join(words or f"{letter} was not locked" for letter, words in zip("AB", locks, strict=True))
    if abs(ratio - 1) > TOLERANCE:
        return Control(name="SM clock", agreement="differ", why=why)
    held = not any(words and "held" not in words for words in locks)
    return Control(name="SM clock", agreement="agree" if held else "open", why=why)


def _locked(study: str, runs: Sequence[RunSummary]) -> str:
    """Whether a study held the clocks that its GPUs were locked at (`clock=`); "" where they were not."""
    asked = [run for run in runs if run.request.clock is not None]
    if not asked:
        return ""
    clocks = " and ".join(dict.fromkeys(f"{run.request.clock} MHz" for run in asked))
    failed = [run for run in asked if run.clock is None or run.clock.why_not]
    if failed:
        why = failed[0].clock.why_not if failed[0].clock else "its clocks could not be read"
        return f"{study} was locked at {clocks} and did not keep to it in {len(failed)} of {len(runs)} runs ({why})"
    return f"{study} held {clocks} in every window" + f" of {len(asked)} of {len(runs)} runs" * (len(asked) < len(runs))


def in_words(ratio: Summary) -> str:
    """A ratio with its ends: "1.210 (1.190 to 1.230)"."""
    return f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio.n > 1 else f"{ratio.median:.3f} (1 run)"
