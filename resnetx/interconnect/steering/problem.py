"""What is to be steered: the traffic, the units as they are built, and where they can go.

steering_problem(traffic, built, reachable)     # refuses, in a sentence, what has no answer
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from resnetx.errors import ConfigError
from resnetx.interconnect.steering.rtl import Rows, Traffic, Units


@dataclass(frozen=True)
class Source:
    """One sending GPU: what it sends to whom, and how many units it has for that."""

    gpu: int
    targets: tuple[int, ...]  # the GPUs that it must reach
    sent: tuple[float, ...]  # to each of them, more than 0
    built: tuple[int, ...]  # units to each of them
    units: int  # in all, those to other GPUs included


@dataclass(frozen=True)
class SteeringProblem:
    """All sources. Matrices are [to][from]."""

    traffic: Rows
    built: Units

    @property
    def gpus(self) -> int:
        return len(self.traffic)

    @cached_property
    def sources(self) -> list[Source]:
        """The GPUs that send anything."""
        columns = zip(zip(*self.traffic, strict=True), zip(*self.built, strict=True), strict=True)
        return [_source(gpu, sent, built) for gpu, (sent, built) in enumerate(columns) if any(sent)]

    def with_columns(self, columns: dict[int, dict[int, int]]) -> Units:
        """Units of the sources that are given (source -> target -> units); those of others stay as they are built."""
        return tuple(
            tuple(columns[by].get(to, 0) if by in columns else self.built[to][by] for by in range(self.gpus))
            for to in range(self.gpus)
        )


def _source(gpu: int, sent: Sequence[float], built: Sequence[int]) -> Source:
    """`sent`, `built`: a column of the traffic, and of the units."""
    targets = tuple(to for to, amount in enumerate(sent) if amount > 0)
    return Source(gpu, targets, tuple(sent[to] for to in targets), tuple(built[to] for to in targets), sum(built))


def steering_problem(
    traffic: Traffic, built: Sequence[Sequence[int]], reachable: Sequence[Sequence[bool]] | None = None
) -> SteeringProblem:
    """The problem, if it has an answer. `reachable` [to][from]: unless given, whatever is linked as built."""
    _refuse_no_matrix(traffic, len(built))
    for to, row in enumerate(traffic):
        for by, sent in enumerate(row):
            if sent and not (reachable[to][by] if reachable else built[to][by]):
                raise ConfigError(
                    f"traffic[{to}][{by}]={sent:g}: GPU {by} sends to GPU {to}, and no link can join them; expected 0 "
                    "there, or a system whose switch joins them"
                )
    problem = SteeringProblem(tuple(map(tuple, traffic)), tuple(map(tuple, built)))
    for source in problem.sources:
        if source.units < len(source.targets):
            raise ConfigError(
                f"traffic: GPU {source.gpu} sends to {len(source.targets)} GPUs and has {source.units} bandwidth "
                "units; expected at least one unit for each"
            )
    if not problem.sources:
        raise ConfigError("traffic: all of it is 0; expected at least one pair of GPUs that send each other something")
    return problem


def _refuse_no_matrix(traffic: Traffic, gpus: int) -> None:
    """Refuses what is no square matrix of amounts, or one of other GPUs."""
    for row in traffic:
        if len(row) != len(traffic):
            raise ConfigError(
                f"traffic: {len(traffic)} rows, one of them of {len(row)} columns; expected as many columns as rows"
            )
    if len(traffic) != gpus:
        raise ConfigError(f"traffic: of {len(traffic)} GPUs, and the system has {gpus}; expected a row for each GPU")
    for to, row in enumerate(traffic):
        for by, sent in enumerate(row):
            if not (math.isfinite(sent) and sent >= 0):
                raise ConfigError(f"traffic[{to}][{by}]={sent:g}: expected a number of bytes, 0 or more")
        if row[to]:
            raise ConfigError(f"traffic[{to}][{to}]={row[to]:g}: GPU {to} needs no link to itself; expected 0")
