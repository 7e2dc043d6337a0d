"""What published statements can be checked on: points, workloads, collectives and copies, all as items of one form.

A statement (`claim_checks.Claim`) picks items by their kind and by `where`, and reads a quantity of them, on one system
or as the ratio of two. A kind of item is one function here; the checks know none of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from resnetx.choices import Model
from resnetx.operations import OPERATIONS
from resnetx.record.comparisons import CollectivePoint, CopyPoint, Estimate, SystemPoint, SystemSide
from resnetx.reporting.compared_systems import over, quotient
from resnetx.units import how_many, size_text
from resnetx.workloads import counts, tables

# Kinds of items, and their variant, too: no setting changes them.
WORKLOADS: str = "workloads"
COPIES: str = "copies"
TRAFFIC: str = "traffic"
NO_SYSTEM = ""  # under which a quantity stands that is one for all systems
CONVENTION = "caffe"  # in which the paper counts

Values = Mapping[str, Mapping[str, Estimate]]  # quantity -> system (or pair of GPUs on it) -> value in base units


@dataclass(frozen=True)
class Item:
    """What checks read of one point, workload, collective or copy; of the facts it has those that its kind has."""

    of: str
    variant: str
    words: str
    values: Values
    workload: str = ""
    batch_size: int | None = None
    gpus: int | None = None
    size_bytes: int | None = None
    ratios: Mapping[tuple[str, str, str], Estimate] = field(default_factory=dict)  # of errors that are not independent
    is_open: bool = False  # nothing determines it on one of the systems

    def ratio(self, quantity: str, system: str, other: str) -> Estimate | None:
        """A quantity on one system over the same on another; None where either has none."""
        values = self.values.get(quantity, {})
        if not {system, other} <= values.keys():
            return None
        estimate = self.ratios.get((quantity, system, other))
        return estimate or quotient(values[system], values[other])


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """An estimate and its ends, times a factor."""
    return Estimate(value=estimate.value * factor, low=estimate.low * factor, high=estimate.high * factor)


def exact(value: float) -> Estimate:
    """A value that is no prediction, or whose error nobody states."""
    return Estimate(value=value, low=value, high=value)


# ---- points ---------------------------------------------------------------------------------------------------------


def of_points(points: Iterable[SystemPoint], systems: Sequence[str]) -> Iterator[Item]:
    """Rates and times, and whether a system lacks the memory (`missing`) or waits for its input (`input_bound`)."""
    for point in points:
        sides = [side for side in point.sides if side.system in systems]
        rates = {side.system: side.iterations_per_s for side in sides if side.iterations_per_s}
        limits = {side.system: exact(side.limited_by == "input") for side in sides if side.limited_by}
        yield Item(
            of="points",
            variant=", ".join(filter(None, [point.library, point.variant])),
            words=f"{point.workload}, batch {point.batch_size}, {how_many(point.gpus, 'GPU')}",
            values={
                "iterations_per_s": rates,
                "missing": {side.system: exact(side.outcome == "oom") for side in sides if side.outcome != "refused"},
                "input_bound": limits,
                **_shares_of(sides),
            },
            workload=point.workload,
            batch_size=point.batch_size,
            gpus=point.gpus,
            is_open=any(side.open for side in sides),
            ratios={
                ("iterations_per_s", a, b): estimate
                for a in rates
                for b in rates
                if a != b and (estimate := over(point, a, b))
            },
        )


def _shares_of(sides: Sequence[SystemSide]) -> Values:
    """The speed-up; the times of a step and the share of communication that is exposed, whose errors nobody states."""
    values: dict[str, dict[str, Estimate]] = defaultdict(dict)
    for side in sides:
        if side.speedup is not None:
            low, high = side.speedup_interval or (side.speedup, side.speedup)
            values["speedup"][side.system] = Estimate(value=side.speedup, low=low, high=high)
        for name in ("compute_s", "communication_s"):
            if (found := getattr(side, name)) is not None:
                values[name][side.system] = exact(found)
        if side.communication_s and side.exposed_communication_s is not None:
            values["exposed"][side.system] = exact(side.exposed_communication_s / side.communication_s)
    return values


# ---- workloads ------------------------------------------------------------------------------------------------------


def of_workloads(points: Sequence[SystemPoint]) -> Iterator[Item]:
    """The work of each batch, whole (without `gpus`) and on each number of GPUs."""
    batches = {(point.workload, point.batch_size): point for point in points if point.request}
    for (workload, batch_size), point in batches.items():
        assert point.request, "only points of known workloads"
        if work := _work(point.request.model, point.request.image_size):
            yield _workload(workload, batch_size, None, _of_batch(*work, batch_size))
    for point in {(point.workload, point.batch_size, point.gpus): point for point in points if point.request}.values():
        assert point.request, "only points of known workloads"
        if work := _work(point.request.model, point.request.image_size):
            per_gpu = counts.intensity(*work, point.batch_size) / point.gpus
            yield _workload(point.workload, point.batch_size, point.gpus, {"intensity_per_gpu": per_gpu})


@cache
def _work(model: Model, image_size: int) -> tuple[int, int] | None:
    """(activations of an image, parameters); None where the layers are not kept as data."""
    layers = tables.kept(model, image_size)
    if layers is None:
        return None
    return counts.activations(layers, image_size, CONVENTION), counts.parameters(layers, CONVENTION)


def _of_batch(activations: int, parameters: int, batch_size: int) -> dict[str, float]:
    return {
        "activations": activations,
        "parameters": parameters,
        "activations_per_batch": activations * batch_size,
        "intensity": counts.intensity(activations, parameters, batch_size),
        "payload": counts.BYTES_PER_PARAMETER * parameters,
    }


def _workload(workload: str, batch_size: int, gpus: int | None, figures: Mapping[str, float]) -> Item:
    on = f", {how_many(gpus, 'GPU')}" if gpus else ""
    return Item(
        of=WORKLOADS,
        variant=WORKLOADS,
        words=f"{workload}, batch {batch_size}{on}",
        values={name: {NO_SYSTEM: exact(value)} for name, value in figures.items()},
        workload=workload,
        batch_size=batch_size,
        gpus=gpus,
    )


# ---- messages alone -------------------------------------------------------------------------------------------------


def of_collectives(collectives: Iterable[CollectivePoint]) -> Iterator[Item]:
    """Each collective at each size: its time and bandwidths, and which share of the largest size's (`saturation`)."""
    curves: dict[tuple[str, str, int], dict[str, dict[int, Estimate]]] = defaultdict(lambda: defaultdict(dict))
    for point in collectives:
        rate = _with_error(point.algbw_Bps, point.error or 0.0)
        curves[point.collective, point.library, point.gpus][point.system][point.size_bytes] = rate
    for (collective, library, gpus), systems in curves.items():
        for size_bytes, values in _by_size("algbw", systems):
            words = f"{collective}, {how_many(gpus, 'GPU')}"
            factor = OPERATIONS[collective].bus_factor(gpus)
            bus = {system: scaled(rate, factor) for system, rate in values["algbw"].items()}
            values = {**values, "busbw": bus, "time": _times(values["algbw"], size_bytes)}
            yield Item(collective, library, words, values, gpus=gpus, size_bytes=size_bytes)


def of_copies(copies: Iterable[CopyPoint]) -> Iterator[Item]:
    """Each size of copies: on "gx8 0-4" (the system, the two GPUs) the rate, the time and `saturation`; and whether as
    `peers`, and what this copy and the opposite one get at once (`duplex`)."""
    curves: dict[str, dict[int, Estimate]] = defaultdict(dict)
    peers: dict[str, Estimate] = {}
    duplex: dict[str, Estimate] = {}
    for copy in copies:
        way = ["host" if copy.source is None else copy.source, copy.through, copy.target]
        pair = f"{copy.system} {'-'.join(str(place) for place in way if place is not None)}"
        rate = copy.size_bytes / copy.time_s
        curves[pair][copy.size_bytes] = exact(rate) if copy.error is None else _with_error(rate, copy.error)
        peers[pair] = exact(copy.peers)
        if copy.duplex_Bps is not None:
            duplex[pair] = exact(copy.duplex_Bps)
    for size_bytes, values in _by_size("rate", curves):
        words = f"copies of {size_text(size_bytes)}"
        both = {"peers": peers, "duplex": duplex, "time": _times(values["rate"], size_bytes)}
        yield Item(COPIES, COPIES, words, {**values, **both}, size_bytes=size_bytes)


@dataclass(frozen=True)
class Traffic:
    """What GPUs send each other in a step, by a way of exchanging gradients, and what steering for it does."""

    workload: str
    place: str
    figures: Mapping[str, float]  # quantity -> value


def of_traffic(traffic: Iterable[Traffic]) -> Iterator[Item]:
    """Each workload: on "v100 replicated" (the case, whose variables are where) the bytes between peers (`peer`), and
    what steering saves (`rtl_saved`), adds (`receivers_added`) and calculates (`rtl_evaluations`)."""
    places: dict[str, dict[str, dict[str, Estimate]]] = defaultdict(lambda: defaultdict(dict))
    for each in traffic:
        for quantity, value in each.figures.items():
            places[each.workload][quantity][each.place] = exact(value)
    for workload, found in places.items():
        yield Item(TRAFFIC, TRAFFIC, f"{workload}, a step", found, workload=workload)


def _with_error(rate_Bps: float, error: float) -> Estimate:
    """A rate whose time is off by a relative error."""
    return Estimate(value=rate_Bps, low=rate_Bps / (1 + error), high=rate_Bps / max(1 - error, 1e-3))


def _times(rates: Mapping[str, Estimate], size_bytes: int) -> dict[str, Estimate]:
    """The seconds that a size takes at each rate."""
    of = {
        system: (size_bytes / rate.value, size_bytes / rate.high, size_bytes / rate.low)
        for system, rate in rates.items()
    }
    return {system: Estimate(value=value, low=low, high=high) for system, (value, low, high) in of.items()}


def _by_size(quantity: str, systems: Mapping[str, Mapping[int, Estimate]]) -> Iterator[tuple[int, Values]]:
    """Curves cut into items: each size with what the systems have there."""
    largest = {system: curve[max(curve)] for system, curve in systems.items()}
    for size_bytes in sorted({size for curve in systems.values() for size in curve}):
        there = {system: curve[size_bytes] for system, curve in systems.items() if size_bytes in curve}
        # The error of a curve is mostly one factor for all of it, which a share of the curve's own end does not have.
        shares = {system: exact(rate.value / largest[system].value) for system, rate in there.items()}
        yield size_bytes, {quantity: there, "saturation": shares}
