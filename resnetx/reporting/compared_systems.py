"""Systems side by side: margins of one over another, who is ahead, and where the leader changes."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from typing import Any

import msgspec

from resnetx import __version__
from resnetx.errors import ConfigError
from resnetx.record import SCHEMA
from resnetx.record.comparisons import (
    Axis,
    CheckedClaim,
    CheckedPoint,
    CollectivePoint,
    CopyPoint,
    Crossing,
    Estimate,
    Lead,
    Margin,
    Outcome,
    SimpleModel,
    SystemComparison,
    SystemPoint,
    SystemSide,
)
from resnetx.record.prediction import PredictedPoint, Prediction
from resnetx.request import Request, settings_label, varying_settings
from resnetx.settings.table import tagged
from resnetx.table import fields
from resnetx.units import how_many, unit_by_library

# ---- rate ratios ----------------------------------------------------------------------------------------------------
# Margins of one system over another at a point, and whether they show who is ahead. Independent errors are added in
# squares, as logarithms; what both systems get from one source is no doubt: with one trace or roofline and like GPUs
# only the difference of its error is left, and of what scaling costs one library `SHARED_SCALING` is shared.

# Of the variance of the error of what scaling costs, what two systems with one library share. Counted over published
# rates of one source, network, precision and number of GPUs on two systems each: 0.47 of 146 pairs by 18 sources, and
# with each source left out 0.43 to 0.61 (tests/prediction/test_shared_scaling.py); 0.35 of the first 72.
SHARED_SCALING = 0.2
LEVEL = 0.005  # relative: rates closer than this are level; two runs on one machine differ by about as much
SHORTEST = 1e-3  # of an iteration: an interval may reach down to no time at all, and a rate has to be finite


def side(point: SystemPoint, system: str) -> SystemSide | None:
    """A point on one system; None where it was not predicted there."""
    return next((each for each in point.sides if each.system == system), None)


def side_of(point: PredictedPoint) -> SystemSide:
    """What is predicted of a point on one system."""
    rate, batch = _rate(point, point.interval_s), point.batch_size
    scales = point.interval_by_scaling_s and not point.rate_known  # else that is the error of its own rate
    images = Estimate(value=rate.value * batch, low=rate.low * batch, high=rate.high * batch) if rate else None
    return SystemSide(
        **fields(point, "system", "library", "outcome", "reason", "speedup", "speedup_interval", "gpu", "open"),
        **fields(point, "limited_by", "limit_share", "compute_source", "compute_error", "compute_where"),
        **fields(point, "compute_s", "communication_s", "exposed_communication_s"),
        iterations_per_s=rate,
        images_per_s=images,
        between=[1 / end for end in reversed(point.interval_s)] if point.open and point.interval_s else None,
        by_compute=_rate(point, point.interval_by_compute_s) if point.interval_by_compute_s else None,
        by_scaling=_rate(point, point.interval_by_scaling_s) if scales else None,
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
    up, down = ours.up**2 + theirs.down**2, theirs.up**2 + ours.down**2  # if all errors were independent
    if _one_source(above, below):
        shifts = (ours.compute_up - theirs.compute_up, theirs.compute_down - ours.compute_down)
        up += max(0.0, *shifts) ** 2 - ours.compute_up**2 - theirs.compute_down**2
        down += min(0.0, *shifts) ** 2 - ours.compute_down**2 - theirs.compute_up**2
    if above.library == below.library and math.isfinite(up + down):
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


def case_words(point: SystemPoint | CheckedPoint) -> str:
    """ "AlexNet, batch 256, 8 GPUs, bf16"."""
    gpus = how_many(point.gpus, unit_by_library(point.library))
    return ", ".join(filter(None, [point.workload, f"batch {point.batch_size}", gpus, point.variant]))


def point_words(point: PredictedPoint) -> str:
    """A predicted point in words."""
    gpus = how_many(point.gpus, unit_by_library(point.library))
    return f"{point.workload}, batch {point.batch_size}, {gpus}, {point.strategy}, {point.precision}"


# ---- comparison -----------------------------------------------------------------------------------------------------
# Systems side by side: who is ahead at each point of a prediction, by how much, and where the leader changes.
#
# Points are compared that differ in their system only. The library generation is held alike, too, where any system has
# been asked for several (NCCL 1 against NCCL 1); else every system has its own.


def compare_systems(
    prediction: Prediction,
    collectives: Sequence[CollectivePoint] = (),
    copies: Sequence[CopyPoint] = (),
) -> SystemComparison:
    """The systems of a prediction side by side. `collectives`, `copies`: what messages alone cost on them.

    It has no claims: `literature.explanations.with_statements` adds what papers state of the same.
    """
    refuse_unsound(prediction)
    systems = list(dict.fromkeys(point.system for point in prediction.points))
    if len(systems) < 2:
        raise ConfigError(
            f"systems={','.join(systems)}: a comparison needs at least two systems; name another one, or ask `resnetx "
            "predict`, which sets the cases of one side by side"
        )
    points = side_by_side(prediction.points, systems)
    return SystemComparison(
        kind="system comparison",
        schema=SCHEMA,
        resnetx=__version__,
        prediction=prediction.digest,
        made_at=prediction.made_at,
        systems=systems,
        points=points,
        crossings=crossings(points, collectives),
        claims=[],
        collectives=list(collectives),
        copies=list(copies),
    )


def side_by_side(points: Sequence[PredictedPoint], systems: Sequence[str]) -> list[SystemPoint]:
    """The points, each with its sides in the order of `systems`; points in the order of the prediction."""
    by_library = _several_libraries(points)
    cells: dict[tuple[object, ...], dict[str, PredictedPoint]] = defaultdict(dict)
    for point in points:
        cell = cells[_identity(point, by_library)]
        if point.system in cell:
            raise ConfigError(
                f"{point_words(point)} on {point.system} is predicted twice; expected one prediction of each case"
            )
        cell[point.system] = point
    keys = settings_that_vary(points)
    alike = [[cell[system] for system in systems if system in cell] for cell in cells.values()]
    return [_compared(points_alike, by_library, _variant(points_alike[0], points, keys)) for points_alike in alike]


def settings_that_vary(points: Iterable[PredictedPoint]) -> list[str]:
    """The settings in which predicted points differ, but for their devices and what is of a run alone."""
    requests = [(request, "") for point in points if (request := _without_devices(point.request))]
    return [key for key in varying_settings(requests) if key not in tagged("run")]


def _several_libraries(points: Iterable[PredictedPoint]) -> bool:
    by_system = defaultdict(set)
    for point in points:
        by_system[point.system].add(point.library)
    return any(len(libraries) > 1 for libraries in by_system.values())


def _identity(point: PredictedPoint, by_library: bool) -> tuple[object, ...]:
    names = (point.workload, point.batch_size, point.gpus, point.strategy, point.precision, point.framework)
    request = _without_devices(point.request)
    return *names, point.library if by_library else "", request.key if request else "", *point.machine_labels


def _without_devices(request: Request | None) -> Request | None:
    """Which GPUs are taken may differ from system to system, and says nothing of what runs on them."""
    return msgspec.structs.replace(request, devices=None) if request else None


def _variant(point: PredictedPoint, points: Sequence[PredictedPoint], keys: Sequence[str]) -> str:
    """What tells it from points with the same workload, batch and GPUs; an imported trace has no more than names."""
    names = ("framework",) if point.request else ("precision", "strategy", "framework")
    varying = [name for name in names if len({getattr(each, name) for each in points}) > 1]
    settings = settings_label(point.request, keys) if point.request else ""
    return ", ".join(filter(None, [settings, *(getattr(point, name) for name in varying), *point.machine_labels]))


def _compared(alike: Sequence[PredictedPoint], by_library: bool, variant: str) -> SystemPoint:
    """One point on all systems, `alike` in all but the system (and its library)."""
    point, sides = alike[0], [side_of(each) for each in alike]
    return SystemPoint(
        **fields(point, "workload", "batch_size", "gpus", "strategy", "precision"),
        **fields(point, "gradient_bytes", "intensity_per_gpu"),
        library=point.library if by_library or len({each.library for each in alike}) == 1 else "",
        variant=variant,
        request=_without_devices(point.request),
        sides=sides,
        margin=_margin(sides),
    )


def _margin(sides: Sequence[SystemSide]) -> Margin | None:
    """By how much the fastest system is ahead of the second; None where fewer than two have a rate."""
    able = [(side.iterations_per_s.value, side) for side in sides if side.iterations_per_s]
    if len(able) < 2:
        return None
    (_, first), (_, second) = sorted(able, key=lambda pair: -pair[0])[:2]
    margin_ratio = ratio(first, second)
    return Margin(
        first=first.system,
        second=second.system,
        ratio=margin_ratio,
        lead=lead(margin_ratio),
        simple_model=simple_model(first, second),
    )


# Where the leader changes between two systems, as one quantity grows and all else is equal.
#
# payload     over workloads of one batch, by the bytes of their gradients
# intensity   over workloads and batches, by activations per parameter on each GPU
# gpus        of one workload and batch
# message     of one collective alone, by its size
#
# Between two neighbouring points that differ in who leads, the crossing is where the logarithm of the ratio is zero, on
# a straight line over the logarithm of the axis. What is known is only that it lies between the two. Points at which
# the systems are level are passed over.


@dataclass(frozen=True)
class _Place:
    """A point of a line: where it is, and by how much the first of two systems leads there."""

    at: float
    margin: Estimate

    @property
    def log_margin(self) -> float:
        return math.log(self.margin.value)


def crossings(points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint] = ()) -> list[Crossing]:
    """All crossings between any two systems, by axis."""
    crossed: list[Crossing] = []
    for axis in _AXES:
        crossed += _over_points(axis, points)
    return [*crossed, *_over_messages(collectives)]


# ---- lines of points


def _gpus(point: SystemPoint) -> str:
    return how_many(point.gpus, unit_by_library(point.library))


def _words(*parts: str) -> str:
    return ", ".join(filter(None, parts))


# Of an axis: where on it a point is, and what points of one line share beside their library, in words.
_AXES: dict[Axis, tuple[Callable[[SystemPoint], float | None], Callable[[SystemPoint], str]]] = {
    "payload": (
        lambda point: point.gradient_bytes,
        lambda point: _words(_gpus(point), f"batch {point.batch_size}", point.variant),
    ),
    "intensity": (lambda point: point.intensity_per_gpu, lambda point: _words(_gpus(point), point.variant)),
    "gpus": (
        lambda point: point.gpus,
        lambda point: _words(point.workload, f"batch {point.batch_size}", point.variant),
    ),
}


def _over_points(axis: Axis, points: Sequence[SystemPoint]) -> Iterator[Crossing]:
    """Where the leader of two systems changes along an axis."""
    place, words = _AXES[axis]
    for a, b in combinations(dict.fromkeys(side.system for point in points for side in point.sides), 2):
        lines: dict[tuple[str, str], list[_Place]] = defaultdict(list)
        for point in points:
            at, margin = place(point), over(point, a, b)
            if at and margin:
                lines[point.library, words(point)].append(_Place(at, margin))
        for (library, fixed), places in lines.items():
            yield from _along(axis, places, (a, b), library, fixed, with_ends=True)


# ---- lines of messages


def _over_messages(collectives: Sequence[CollectivePoint]) -> Iterator[Crossing]:
    lines: dict[tuple[Any, ...], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for point in collectives:
        lines[point.collective, point.library, point.gpus][point.system][point.size_bytes] = point.algbw_Bps
    for (collective, library, gpus), rates in lines.items():
        for a, b in combinations(rates, 2):
            shared = sorted(rates[a].keys() & rates[b].keys())
            ratios = [(size, rates[a][size] / rates[b][size]) for size in shared]
            places = [_Place(size, Estimate(value=value, low=value, high=value)) for size, value in ratios]
            yield from _along("message", places, (a, b), library, f"{collective}, {gpus} GPUs", with_ends=False)


# ---- along one line


def _along(
    axis: Axis, places: Iterable[_Place], systems: tuple[str, str], library: str, fixed: str, with_ends: bool
) -> Iterator[Crossing]:
    """Where the leader changes between neighbours on one line; `with_ends`: margins have errors, and may be open."""
    leading = sorted((place for place in places if lead(place.margin) != "level"), key=lambda each: each.at)
    for below, above in pairwise(leading):
        if (below.log_margin > 0) == (above.log_margin > 0):
            continue
        # Where a straight line through both, on logarithmic axes, has a ratio of 1.
        share = below.log_margin / (below.log_margin - above.log_margin)
        yield Crossing(
            axis=axis,
            at=math.exp(math.log(below.at) + share * (math.log(above.at) - math.log(below.at))),
            between=[below.at, above.at],
            below=systems[below.log_margin < 0],
            above=systems[above.log_margin < 0],
            library=library,
            fixed=fixed,
            shown=all(lead(neighbour.margin) == "ahead" for neighbour in (below, above)) if with_ends else None,
        )


# ---- statements ----------------------------------------------------------------------------------------------------

_OF_ALL: tuple[Outcome, ...] = ("miss", "open", "not predicted", "hit", "given")  # of what all has to agree, the first


def counted(checked: Iterable[CheckedClaim]) -> list[CheckedClaim]:
    """Each sentence of a paper once for each library, with the outcome of all that is checked of it.

    A hit is what holds in every check of the sentence, and under each way in which what the paper leaves open may have
    been; where these ways differ it is open. What repeats another statement is left out.
    """
    sentences = groupby(
        (claim for claim in checked if not claim.repeats), lambda claim: (claim.paper, claim.section, claim.says)
    )
    claims: list[CheckedClaim] = []
    for _, rows in sentences:
        by_variant: dict[str, list[CheckedClaim]] = defaultdict(list)
        for row in rows:
            by_variant[row.variant].append(row)
        claims += map(_of_sentence, by_variant.values())
    return claims


def _of_sentence(rows: Sequence[CheckedClaim]) -> CheckedClaim:
    ways: dict[str, list[CheckedClaim]] = defaultdict(list)
    for row in rows:
        ways[row.alternative].append(row)
    first, *claims = (min(way, key=lambda row: _OF_ALL.index(row.outcome)) for way in ways.values())
    if any(other.outcome != first.outcome for other in claims):
        return msgspec.structs.replace(first, outcome="open", cause="")
    return first
