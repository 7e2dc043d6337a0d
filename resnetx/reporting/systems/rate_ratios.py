"""Margins of one system over another at a point, and whether they show who is ahead.

The interval of a margin comes from those of the two predictions. Errors that are independent of each other are added
in squares, as logarithms. What both systems get from one source is no reason for doubt: where compute comes from the
same trace or roofline and both have like GPUs (one chip, at one clock and memory rate), its error lengthens both
iterations, and only the difference of what it does to either is left. What scaling costs one library on two systems is
partly the same: `SHARED_SCALING`. The errors of messages and of input are taken as independent from system to system.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.errors import ConfigError
from resnetx.record.machine import how_many, unit_by_library
from resnetx.record.prediction import PredictedPoint, Prediction
from resnetx.record.system_comparison import Estimate, Lead, SimpleModel, SystemPoint, SystemSide

# Of the variance of the error of what scaling costs, what two systems with one library share, where it is of one kind
# (one node or several, server or all-reduce, loader or not). Counted over published rates of one source, network,
# precision and number of GPUs on two systems each: 0.50 of 30 pairs by three sources, and with each source left out
# 0.37 to 0.56 (tests/prediction/test_shared_scaling.py).
SHARED_SCALING = 0.2
LEVEL = 0.005  # relative: rates closer than this are level; two runs on one machine differ by about as much
SHORTEST = 1e-3  # of an iteration: an interval may reach down to no time at all, and a rate has to be finite


def side(point: SystemPoint, system: str) -> SystemSide | None:
    """A point on one system; None where it was not predicted there."""
    return next((each for each in point.sides if each.system == system), None)


def side_of(point: PredictedPoint) -> SystemSide:
    """What is predicted of a point on one system."""
    rate = _rate(point, point.interval_s)
    batch = point.batch_size
    images = Estimate(value=rate.value * batch, low=rate.low * batch, high=rate.high * batch) if rate else None
    return SystemSide(
        system=point.system,
        library=point.library,
        outcome=point.outcome,
        reason=point.reason,
        iterations_per_s=rate,
        images_per_s=images,
        speedup=point.speedup,
        speedup_interval=point.speedup_interval,
        limited_by=point.limited_by,
        limit_share=point.limit_share,
        compute_s=point.compute_s,
        communication_s=point.communication_s,
        exposed_communication_s=point.exposed_communication_s,
        compute_source=point.compute_source,
        compute_error=point.compute_error,
        compute_where=point.compute_where,
        open=point.open,
        gpu=point.gpu,
        by_compute=_rate(point, point.interval_by_compute_s) if point.interval_by_compute_s else None,
        by_scaling=_rate(point, point.interval_by_scaling_s) if point.interval_by_scaling_s else None,
    )


def _rate(point: PredictedPoint, interval_s: Sequence[float] | None) -> Estimate | None:
    """Iterations/s: the slow end of an interval of the iteration is the low one of its rate."""
    if point.outcome != "ok" or point.iteration_s is None:
        return None
    low_s, high_s = interval_s or (point.iteration_s, point.iteration_s)
    shortest_s = min(max(low_s, SHORTEST * point.iteration_s), point.iteration_s)  # a foreign end may be one ulp off
    longest_s = max(high_s, point.iteration_s)
    return Estimate(value=1 / point.iteration_s, low=1 / longest_s, high=1 / shortest_s)


def over(point: SystemPoint, a: str, b: str) -> Estimate | None:
    """The rate on system `a` over that on system `b`; None where either has none."""
    above, below = side(point, a), side(point, b)
    if not (above and below and above.iterations_per_s and below.iterations_per_s):
        return None
    return ratio(above, below)


def ratio(above: SystemSide, below: SystemSide) -> Estimate:
    """The rate of one side over that of another; both have one."""
    assert above.iterations_per_s and below.iterations_per_s, "only sides that can run have a ratio"
    ours, theirs = _doubt(above), _doubt(below)
    up, down = _squares(ours, theirs), _squares(theirs, ours)
    if _one_source(above, below):
        shifts = (ours.compute_up - theirs.compute_up, theirs.compute_down - ours.compute_down)
        up += max(0.0, *shifts) ** 2 - ours.compute_up**2 - theirs.compute_down**2
        down += min(0.0, *shifts) ** 2 - ours.compute_down**2 - theirs.compute_up**2
    if _one_kind_of_scaling(above, below, ours, theirs):
        up -= 2 * SHARED_SCALING * ours.scaling_up * theirs.scaling_down
        down -= 2 * SHARED_SCALING * ours.scaling_down * theirs.scaling_up
    value = above.iterations_per_s.value / below.iterations_per_s.value
    ends = (math.exp(-math.sqrt(max(0.0, down))), math.exp(math.sqrt(max(0.0, up))))
    return Estimate(value=value, low=value * ends[0], high=value * ends[1])


def quotient(above: Estimate, below: Estimate) -> Estimate:
    """One estimate over another whose error is independent of its own."""
    (up, down), (their_up, their_down) = _ends(above), _ends(below)
    value = above.value / below.value
    low, high = math.exp(-math.hypot(down, their_up)), math.exp(math.hypot(up, their_down))
    return Estimate(value=value, low=value * low, high=value * high)


def lead(margin: Estimate) -> Lead:
    """Whether a margin of one system over another shows who is ahead."""
    if abs(margin.value - 1) < LEVEL:
        return "level"
    return "open" if margin.low <= 1 <= margin.high else "ahead"


@dataclass(frozen=True)
class _Doubt:
    """By how much a rate may be higher or lower, as logarithms: in all, and by one error alone."""

    up: float
    down: float
    compute_up: float
    compute_down: float
    scaling_up: float
    scaling_down: float


def _doubt(side: SystemSide) -> _Doubt:
    assert side.iterations_per_s, "only sides that have a rate"
    parts = [(0.0, 0.0) if alone is None else _ends(alone) for alone in (side.by_compute, side.by_scaling)]
    return _Doubt(*_ends(side.iterations_per_s), *parts[0], *parts[1])


def _squares(above: _Doubt, below: _Doubt) -> float:
    """Of how much a ratio may be higher, if all errors were independent."""
    return above.up**2 + below.down**2


def _ends(rate: Estimate) -> tuple[float, float]:
    return _log(rate.high, rate.value), _log(rate.value, rate.low)


def _log(above: float, below: float) -> float:
    """ln of a ratio; without end where a foreign record has no rate at an end."""
    return math.log(above / below) if above > 0 < below else math.inf


def _one_source(a: SystemSide, b: SystemSide) -> bool:
    """Whether both compute on like GPUs, and what they take is from one trace or one roofline."""
    if a.compute_source is None or not equal_gpus(a, b):
        return False
    return (a.compute_source, a.compute_where, a.compute_error) == (b.compute_source, b.compute_where, b.compute_error)


def _one_kind_of_scaling(a: SystemSide, b: SystemSide, ours: _Doubt, theirs: _Doubt) -> bool:
    """Whether what scaling costs is of one library, and of one kind: then its error is one."""
    ends = ((ours.scaling_up, theirs.scaling_up), (ours.scaling_down, theirs.scaling_down))
    return a.library == b.library and all(math.isclose(own, other, abs_tol=1e-9) for own, other in ends)


# The simple model of Tallent et al. 2017, section 4.4, the naive baseline of every comparison of systems.
#
# "The expected overall DGX-1 performance advantage is therefore the workload's fraction of communication multiplied by
# the DGX-1's `allreduce` performance advantage", as both systems have equal GPUs.
#
# With compute c on both and communication m1 and m2, nothing overlapping, the second system takes
#
#     (c + m2) / (c + m1) - 1  =  m1 / (c + m1)  x  (m2 / m1 - 1)
#     advantage                =  share          x  all-reduce advantage
#
# longer. So the product is exact for steps that hide no communication, if the share is that of the first system's step
# (the paper does not say whose). It knows neither overlap nor input, host or unequal GPUs: what a prediction says
# beyond it is due to those.


def simple_model(first: SystemSide, second: SystemSide) -> SimpleModel | None:
    """What it expects of the first system over the second; None where it lacks figures, or the GPUs are not equal."""
    if not (equal_gpus(first, second) and first.compute_s):
        return None
    if first.communication_s is None or second.communication_s is None:
        return None
    share = first.communication_s / (first.compute_s + first.communication_s)
    advantage = second.communication_s / first.communication_s - 1 if first.communication_s > 0 else 0.0
    return SimpleModel(communication_share=share, allreduce_advantage=advantage, ratio=1 + share * advantage)


def equal_gpus(a: SystemSide, b: SystemSide) -> bool:
    """Whether both have one chip, at one clock and memory rate; False where that is not known.

    How long they compute says nothing: a V100 and an A100 may take the same time for other reasons.
    """
    if a.gpu is None or b.gpu is None:
        return False
    return (a.gpu.chip, a.gpu.clock_Hz, a.gpu.memory_Bps) == (b.gpu.chip, b.gpu.clock_Hz, b.gpu.memory_Bps)


# Whether a prediction can be one: records may come from anywhere, and what follows divides and takes logarithms.

ROUNDING = 1e-9  # relative: an end of an interval that is no farther inside than this is the iteration itself


def refuse_unsound(prediction: Prediction) -> None:
    """A `ConfigError` that names the first point whose figures cannot be those of a prediction."""
    for point in prediction.points:
        if problem := _problem(point):
            raise ConfigError(
                f"{point_words(point)} on {point.system} with {point.library}: {problem} is no prediction; make it "
                "anew with `resnetx predict`"
            )


def _problem(point: PredictedPoint) -> str:
    """What no prediction can have, in a phrase; "" where nothing is wrong."""
    if min(point.batch_size, point.gpus) < 1 or point.gradient_bytes < 0:
        return f"batch {point.batch_size} over {point.gpus} GPUs with {point.gradient_bytes} bytes of gradients"
    if point.intensity_per_gpu is not None and not 0 < point.intensity_per_gpu < math.inf:
        return f"an intensity of {point.intensity_per_gpu}"
    if point.iteration_s is None:
        return "an iteration without a time" if point.outcome == "ok" and not point.open else ""
    for ends in (point.interval_s, point.interval_by_compute_s, point.interval_by_scaling_s):
        if not _holds(ends or [point.iteration_s] * 2, point.iteration_s):
            return f"{point.iteration_s} s within {' to '.join(map(str, ends or ()))} s"
    parts = (point.compute_s, point.communication_s, point.exposed_communication_s, point.compute_error)
    if any(part is not None and not 0 <= part < math.inf for part in parts):
        return "a part or an error below zero"
    return ""


def _holds(ends: Sequence[float], iteration_s: float) -> bool:
    """Whether an interval holds the iteration, but for what other sums of the same figures round to."""
    if len(ends) != 2 or not iteration_s > 0:
        return False
    low_s, high_s = ends
    return 0 <= low_s <= iteration_s * (1 + ROUNDING) and iteration_s * (1 - ROUNDING) <= high_s < math.inf


def point_words(point: PredictedPoint) -> str:
    """A predicted point in words."""
    gpus = how_many(point.gpus, unit_by_library(point.library))
    return f"{point.workload}, batch {point.batch_size}, {gpus}, {point.strategy}, {point.precision}"
