"""Where the leader changes between two systems, as one quantity grows and all else is equal.

payload     over workloads of one batch, by the bytes of their gradients
intensity   over workloads and batches, by activations per parameter on each GPU
gpus        of one workload and batch
message     of one collective alone, by its size

Between two neighbouring points that differ in who leads, the crossing is where the logarithm of the ratio is zero, on
a straight line over the logarithm of the axis. What is known is only that it lies between the two. Points at which the
systems are level are passed over.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from resnetx.record.system_comparison import Axis, CollectivePoint, Crossing, Estimate, SystemPoint
from resnetx.reporting.systems.rate_ratios import lead, over


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
    return f"{point.gpus} GPU{'s' * (point.gpus > 1)}"


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
    for each in collectives:
        lines[each.collective, each.library, each.gpus][each.system][each.size_bytes] = each.algbw_Bps
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
