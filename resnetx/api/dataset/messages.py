"""Published collectives as figures (collectives.yaml), predicted without calibration."""

from collections.abc import Callable, Iterator
from functools import cache

from resnetx.api.dataset.known import KnownFigure, id_of
from resnetx.interconnect import alpha_beta, collective
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.system import load
from resnetx.interconnect.validation import PublishedCollective, published_collectives
from resnetx.operations import OPERATIONS
from resnetx.prediction.messages import error_of
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.units import size_text

MIB = 2**20
UNITS = {"busbw_GBps": "busbw GB/s", "algbw_GBps": "algbw GB/s", "time_us": "us"}


def collectives() -> Iterator[KnownFigure]:
    """Collectives alone, not calibrated."""
    for each in published_collectives():
        several = each.nodes if each.nodes and each.nodes > 1 else None
        size = size_text(each.size_bytes).replace(" ", "")
        where = (
            each.collective,
            each.system,
            several and f"{several}x",
            each.library,
            each.gpus,
            size,
            each.unit.partition("_")[0],
        )
        figure = PublishedFigure(
            id=id_of(*where, source=each.source),
            kind=_kind(each),
            value=each.value,
            unit=UNITS[each.unit],
            system=each.system,
            nodes=each.nodes,
            network=each.network,
            nics=each.nics,
            gpus=each.gpus,
            library=each.library,
            collective=each.collective,
            size_bytes=each.size_bytes,
            source=each.source,
            seen=each.seen,
        )
        yield KnownFigure(figure, _by_plan(each, figure.id), _by_alpha_beta(each))


def _kind(each: PublishedCollective) -> str:
    if each.collective != "allreduce":
        return "other collectives"
    nodes = "several nodes" if each.nodes and each.nodes > 1 else "one node"
    return f"all-reduce, {nodes}" + ", below 1 MiB" * (each.size_bytes < MIB)


def _plan(each: PublishedCollective) -> CollectivePlan:
    return _planned((each.system, each.nodes, each.network, each.nics), each.collective, each.gpus, each.library)


@cache
def _planned(on: tuple[str, int | None, str | None, int | None], name: str, gpus: int, library: str) -> CollectivePlan:
    """A plan takes a search of rings, and serves every size."""
    return collective.plan(load(*on), name, range(gpus), library)


def _by_plan(each: PublishedCollective, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        made = _plan(each)
        time_s, error = made.cost(each.size_bytes).time_s, error_of(made)
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
    factor = OPERATIONS[each.collective].bus_factor(each.gpus)
    return algbw_GBps * factor if each.unit == "busbw_GBps" else algbw_GBps
