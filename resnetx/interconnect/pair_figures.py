"""Pair copies that others measured, as `results/published/pairs.yaml` has them, and what the model says of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import msgspec

from resnetx.interconnect.fitted import FOLDER
from resnetx.interconnect.graph import System
from resnetx.interconnect.pair_costs import PairFit, pair_cost
from resnetx.interconnect.paths import Path, PathKind, Transport, copy_path
from resnetx.interconnect.system import load
from resnetx.loading import own_yaml
from resnetx.units import size

SYSTEM = "dgx1-p100"
MATRIX_BYTES = 40_000_000  # of the copies that bandwidths of a matrix are of: ten million integers

Direction = Literal["one-way", "both-ways"]


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Medians over the pairs of a class, by size."""

    pairs: str
    transport: Transport
    example: tuple[int, int]
    time_us: dict[str | int, float]
    both_ways_GBps: dict[str | int, float] = {}
    fitted: list[str] = []
    fitted_both_ways: list[str] = []


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of each ordered pair."""

    transport: Transport
    direction: Direction
    bandwidth_GBps: list[list[float]] | None = None
    latency_us: list[list[float]] | None = None


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    series: list[Series]
    matrices: list[Matrix]


@dataclass(frozen=True)
class PairFigure:
    """One figure as a time: of one copy, or until both have ended."""

    path: Path
    direction: Direction
    size_bytes: int
    time_s: float
    fitted: bool

    @property
    def kind(self) -> PathKind:
        return self.path.kind

    def predicted_s(self, fit: PairFit | None = None) -> float:
        cost = pair_cost(self.path, self.size_bytes, fit)
        return cost.time_s if self.direction == "one-way" else cost.both_ways_s


@cache
def published() -> Published:
    """The file."""
    found: Published = own_yaml(FOLDER / "pairs.yaml", Published)
    return found


@cache
def figures() -> tuple[PairFigure, ...]:
    """All figures that the model says something of: not those of copies that a third GPU relays."""
    system = load(SYSTEM)
    series = [figure for each in published().series for figure in _of_series(system, each)]
    return (*series, *(figure for each in published().matrices for figure in _of_matrix(system, each)))


def _of_series(system: System, series: Series) -> Iterator[PairFigure]:
    path = copy_path(system, *series.example, series.transport)
    for key, time_us in series.time_us.items():
        yield PairFigure(path, "one-way", size(str(key)), time_us * 1e-6, str(key) in series.fitted)
    for key, rate_GBps in series.both_ways_GBps.items():
        size_bytes = size(str(key))
        time_s = 2 * size_bytes / (rate_GBps * 1e9)
        yield PairFigure(path, "both-ways", size_bytes, time_s, str(key) in series.fitted_both_ways)


def _of_matrix(system: System, matrix: Matrix) -> Iterator[PairFigure]:
    for source, row in enumerate(matrix.latency_us or matrix.bandwidth_GBps or []):
        for target, figure in enumerate(row):
            path = copy_path(system, source, target, "auto" if matrix.transport == "peer" else matrix.transport)
            if path.kind == "local" or (path.kind == "host" and matrix.transport == "peer"):
                continue
            if matrix.latency_us:
                yield PairFigure(path, matrix.direction, 1, figure * 1e-6, fitted=False)
            else:
                moved = MATRIX_BYTES * (2 if matrix.direction == "both-ways" else 1)
                yield PairFigure(path, matrix.direction, MATRIX_BYTES, moved / (figure * 1e9), fitted=False)
