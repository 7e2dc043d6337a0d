"""Published collectives as figures (collectives.yaml), predicted without calibration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from resnetx.api.dataset.known import KnownFigure, id_of
from resnetx.interconnect import collective
from resnetx.interconnect.alpha_beta import AlphaBeta, alpha_beta
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.published import Cluster, Entry, load_published, measured_devices, published
from resnetx.operations import OPERATIONS
from resnetx.prediction.messages import error_of
from resnetx.record.score import FigurePrediction, PublishedFigure
from resnetx.units import size_text

MIB = 2**20
UNITS = {"busbw_GBps": "busbw GB/s", "algbw_GBps": "algbw GB/s", "time_us": "us"}


@dataclass(frozen=True)
class _Place:
    """Where a figure of an entry belongs."""

    entry: Entry
    gpus: int
    size_bytes: int

    @property
    def cluster(self) -> Cluster | None:
        return self.entry.cluster

    @property
    def nodes(self) -> int:
        """That the GPUs which took part are in; of one GPU a node, as many as GPUs."""
        if self.cluster is None:
            return 1
        return self.gpus if self.cluster.one_gpu_each else self.cluster.nodes

    @property
    def unit(self) -> str:
        return UNITS[self.entry.figures[0]]

    @property
    def kind(self) -> str:
        if self.entry.collective != "allreduce":
            return "other collectives"
        return f"all-reduce, {'several nodes' if self.cluster else 'one node'}" + ", below 1 MiB" * (
            self.size_bytes < MIB
        )

    @property
    def plan(self) -> CollectivePlan:
        return _planned(*self._planned_for)

    @property
    def alpha_beta(self) -> AlphaBeta:
        return _alpha_beta(*self._planned_for)

    @property
    def _planned_for(self) -> tuple[str, Cluster | None, str, int, str]:
        entry = self.entry
        return entry.system, entry.cluster, entry.collective, self.gpus, entry.library

    def in_unit(self, time_s: float) -> float:
        """A time as the figure has it."""
        if self.unit == "us":
            return time_s * 1e6
        algbw_GBps = self.size_bytes / time_s / 1e9
        factor = OPERATIONS[self.entry.collective].bus_factor(self.gpus)
        return algbw_GBps * factor if self.unit == "busbw GB/s" else algbw_GBps


def collectives() -> Iterator[KnownFigure]:
    """Collectives alone: no ratios of two, no calls that send nothing, and nothing twice that is calibrated, too."""
    for entry in published().entries:
        if entry.figures[0] != "ratio" and not entry.nothing_sent:
            for _, gpus, size_bytes, value in entry.points():
                place = _Place(entry, gpus, size_bytes)
                figure = _figure(place, value)
                yield KnownFigure(figure, _by_plan(place, figure.id), _by_alpha_beta(place))


def _figure(place: _Place, value: float) -> PublishedFigure:
    entry, cluster = place.entry, place.cluster
    several = f"{cluster.nodes}x{cluster.nics}{cluster.network}" if cluster else None
    size = size_text(place.size_bytes).replace(" ", "")
    unit = place.unit.partition(" ")[0]
    where = (entry.collective, entry.system, several, entry.library, place.gpus, size, unit)
    return PublishedFigure(
        id=id_of(*where, source=entry.source),
        kind=place.kind,
        value=value,
        unit=place.unit,
        system=entry.system,
        nodes=place.nodes,
        network=cluster.network if cluster else None,
        nics=cluster.nics if cluster else None,
        gpus=place.gpus,
        library=entry.library,
        collective=entry.collective,
        size_bytes=place.size_bytes,
        source=entry.source,
        seen=entry.seen,
    )


@cache
def _planned(system: str, cluster: Cluster | None, name: str, gpus: int, library: str) -> CollectivePlan:
    """A plan takes a search of rings, and serves every size."""
    chosen = load_published(system, cluster)
    return collective.plan(chosen, name, measured_devices(chosen, cluster, gpus), library)


@cache
def _alpha_beta(system: str, cluster: Cluster | None, name: str, gpus: int, library: str) -> AlphaBeta:
    return alpha_beta(_planned(system, cluster, name, gpus, library))


def _by_plan(place: _Place, name: str) -> Callable[[], FigurePrediction]:
    def own() -> FigurePrediction:
        time_s, error = place.plan.cost(place.size_bytes).time_s, error_of(place.plan, [place.size_bytes])
        ends = [place.in_unit(time_s * factor) for factor in (1 + error, max(1 - error, 1e-3))]
        return FigurePrediction(id=name, predicted=place.in_unit(time_s), low=min(ends), high=max(ends))

    return own


def _by_alpha_beta(place: _Place) -> Callable[[], float]:
    return lambda: place.in_unit(place.alpha_beta.time_s(place.size_bytes))
