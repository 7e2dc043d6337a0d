"""Systems side by side: who is ahead at each point of a prediction, by how much, and where the leader changes.

Points are compared that differ in their system only. The library generation is held alike, too, where any system has
been asked for several (NCCL 1 against NCCL 1); else every system has its own.
"""

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
from resnetx.record.machine import how_many, unit_by_library
from resnetx.record.prediction import PredictedPoint, Prediction
from resnetx.record.system_comparison import (
    Axis,
    CheckedClaim,
    CollectivePoint,
    CopyPoint,
    Crossing,
    Estimate,
    Margin,
    Outcome,
    SystemComparison,
    SystemPoint,
    SystemSide,
)
from resnetx.reporting.study.results import settings_label, varying_settings
from resnetx.reporting.systems.rate_ratios import lead, over, point_words, ratio, refuse_unsound, side_of, simple_model
from resnetx.request import Request


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
        raise ConfigError(f"systems={','.join(systems)}: a comparison needs at least two systems; name another one")
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
    keys = varying_settings([(request, "") for point in points if (request := _without_devices(point.request))])
    alike = [[cell[system] for system in systems if system in cell] for cell in cells.values()]
    return [_compared(each, by_library, _variant(each[0], points, keys)) for each in alike]


def _several_libraries(points: Iterable[PredictedPoint]) -> bool:
    by_system = defaultdict(set)
    for point in points:
        by_system[point.system].add(point.library)
    return any(len(libraries) > 1 for libraries in by_system.values())


def _identity(point: PredictedPoint, by_library: bool) -> tuple[object, ...]:
    names = (point.workload, point.batch_size, point.gpus, point.strategy, point.precision, point.framework)
    request = _without_devices(point.request)
    return *names, point.library if by_library else "", request.key if request else "", *_machine(point)


def _machine(point: PredictedPoint) -> list[str]:
    """Settings of the machine in which points differ; systems of several nodes have names of their own."""
    return [f"{name} {value}" for name, value in point.varied.items() if name != "nodes"]


def _without_devices(request: Request | None) -> Request | None:
    """Which GPUs are taken may differ from system to system, and says nothing of what runs on them."""
    return msgspec.structs.replace(request, devices=None) if request else None


def _variant(point: PredictedPoint, points: Sequence[PredictedPoint], keys: Sequence[str]) -> str:
    """What tells it from points with the same workload, batch and GPUs; an imported trace has no more than names."""
    names = ("framework",) if point.request else ("precision", "strategy", "framework")
    varying = [name for name in names if len({getattr(each, name) for each in points}) > 1]
    settings = settings_label(point.request, keys) if point.request else ""
    return ", ".join(filter(None, [settings, *(getattr(point, name) for name in varying), *_machine(point)]))


def _compared(alike: Sequence[PredictedPoint], by_library: bool, variant: str) -> SystemPoint:
    """One point on all systems, `alike` in all but the system (and its library)."""
    point, sides = alike[0], [side_of(each) for each in alike]
    return SystemPoint(
        workload=point.workload,
        batch_size=point.batch_size,
        gpus=point.gpus,
        strategy=point.strategy,
        precision=point.precision,
        library=point.library if by_library or len({each.library for each in alike}) == 1 else "",
        variant=variant,
        gradient_bytes=point.gradient_bytes,
        intensity_per_gpu=point.intensity_per_gpu,
        request=_without_devices(point.request),
        sides=sides,
        margin=_margin(sides),
    )


def _margin(sides: Sequence[SystemSide]) -> Margin | None:
    """By how much the fastest system is ahead of the second; None where fewer than two have a rate."""
    able = sorted((side for side in sides if side.iterations_per_s), key=_slowness)
    if len(able) < 2:
        return None
    first, second = able[:2]
    margin_ratio = ratio(first, second)
    return Margin(
        first=first.system,
        second=second.system,
        ratio=margin_ratio,
        lead=lead(margin_ratio),
        simple_model=simple_model(first, second),
    )


def _slowness(side: SystemSide) -> float:
    assert side.iterations_per_s, "only sides that have a rate"
    return 1 / side.iterations_per_s.value


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


Line = tuple[str, str]  # library, and what is fixed in words


def crossings(points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint] = ()) -> list[Crossing]:
    """All crossings between any two systems, by axis."""
    crossed: list[Crossing] = []
    for axis, (place, line) in _AXES.items():
        crossed += _over_points(axis, points, place, line)
    return [*crossed, *_over_messages(collectives)]


# ---- lines of points


def _gpus(point: SystemPoint) -> str:
    return how_many(point.gpus, unit_by_library(point.library))


def _words(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _by_payload(point: SystemPoint) -> Line:
    return point.library, _words(_gpus(point), f"batch {point.batch_size}", point.variant)


def _by_intensity(point: SystemPoint) -> Line:
    return point.library, _words(_gpus(point), point.variant)


def _by_gpus(point: SystemPoint) -> Line:
    return point.library, _words(point.workload, f"batch {point.batch_size}", point.variant)


_AXES: dict[Axis, tuple[Callable[[SystemPoint], float | None], Callable[[SystemPoint], Line]]] = {
    "payload": (lambda point: point.gradient_bytes, _by_payload),
    "intensity": (lambda point: point.intensity_per_gpu, _by_intensity),
    "gpus": (lambda point: point.gpus, _by_gpus),
}


def _over_points(
    axis: Axis,
    points: Sequence[SystemPoint],
    place: Callable[[SystemPoint], float | None],
    line: Callable[[SystemPoint], Line],
) -> Iterator[Crossing]:
    """Where the leader of two systems changes along an axis; `place`: of a point on it, `line`: what points share."""
    for a, b in combinations(dict.fromkeys(side.system for point in points for side in point.sides), 2):
        lines: dict[Line, list[_Place]] = defaultdict(list)
        for point in points:
            at, margin = place(point), over(point, a, b)
            if at and margin:
                lines[line(point)].append(_Place(at, margin))
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
        yield Crossing(
            axis=axis,
            at=_zero(below, above),
            between=[below.at, above.at],
            below=systems[below.log_margin < 0],
            above=systems[above.log_margin < 0],
            library=library,
            fixed=fixed,
            shown=all(lead(each.margin) == "ahead" for each in (below, above)) if with_ends else None,
        )


def _zero(below: _Place, above: _Place) -> float:
    """Where a straight line through both, on logarithmic axes, has a ratio of 1."""
    share = below.log_margin / (below.log_margin - above.log_margin)
    return math.exp(math.log(below.at) + share * (math.log(above.at) - math.log(below.at)))


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
