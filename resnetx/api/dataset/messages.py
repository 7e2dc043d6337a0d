"""Published collectives as figures (collectives.yaml), predicted without calibration."""

from collections.abc import Callable, Iterator
from functools import cache

from resnetx.api.dataset.known import KnownFigure, id_of
from resnetx.interconnect import alpha_beta, collective
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.errors import error_of
from resnetx.interconnect.published import Cluster, PublishedCollective, load_published, published_collectives
from resnetx.operations import OPERATIONS
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.units import size_text

MIB = 2**20
UNITS = {"busbw_GBps": "busbw GB/s", "algbw_GBps": "algbw GB/s", "time_us": "us"}


def collectives() -> Iterator[KnownFigure]:
    """Collectives alone, not calibrated."""
    for each in published_collectives():
        entry, cluster = each.entry, each.entry.cluster
        size = size_text(each.size_bytes).replace(" ", "")
        where = (
            entry.collective,
            entry.system,
            f"{cluster.nodes}x" if cluster else None,
            entry.library,
            each.gpus,
            size,
            each.unit.partition("_")[0],
        )
        figure = PublishedFigure(
            id=id_of(*where, source=entry.source),
            kind=_kind(each),
            value=each.value,
            unit=UNITS[each.unit],
            system=entry.system,
            nodes=cluster.nodes if cluster else 1,
            network=cluster.network if cluster else None,
            nics=cluster.nics if cluster else None,
            gpus=each.gpus,
            library=entry.library,
            collective=entry.collective,
            size_bytes=each.size_bytes,
            source=entry.source,
            seen=entry.seen,
        )
        yield KnownFigure(figure, _by_plan(each, figure.id), _by_alpha_beta(each))


def _kind(each: PublishedCollective) -> str:
    if each.entry.collective != "allreduce":
        return "other collectives"
    nodes = "one node" if each.entry.cluster is None else "several nodes"
    return f"all-reduce, {nodes}" + ", below 1 MiB" * (each.size_bytes < MIB)


def _plan(each: PublishedCollective) -> CollectivePlan:
    entry = each.entry
    return _planned(entry.system, entry.cluster, entry.collective, each.gpus, entry.library)


@cache
def _planned(system: str, cluster: Cluster | None, name: str, gpus: int, library: str) -> CollectivePlan:
    """A plan takes a search of rings, and serves every size."""
    return collective.plan(load_published(system, cluster), name, range(gpus), library)


def _by_plan(each: PublishedCollective, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        made = _plan(each)
        time_s, error = made.cost(each.size_bytes).time_s, error_of(made, each.size_bytes).q90
        ends = [_in_unit(each, time_s * factor) for factor in (1 + error, max(1 - error, 1e-3))]
        return FigurePrediction(id=name, predicted=_in_unit(each, time_s), low=min(ends), high=max(ends))

    return own


def _by_alpha_beta(each: PublishedCollective) -> Callable[[], float]:
    return lambda: _in_unit(each, alpha_beta.time_s(_plan(each), each.size_bytes))


def _in_unit(each: PublishedCollective, time_s: float) -> float:
    """A time as the figure has it."""
    if each.unit == "time_us":
        return time_s * 1e6
    algbw_GBps = each.size_bytes / time_s / 1e9
    factor = OPERATIONS[each.entry.collective].bus_factor(each.gpus)
    return algbw_GBps * factor if each.unit == "busbw_GBps" else algbw_GBps
