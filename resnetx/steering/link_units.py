"""Bandwidth steering: which links a node should have for a traffic, where its links can be rearranged.

    problem = steering_problem(traffic, built)      # [to][from]: bytes, and bandwidth units as the node is built
    best(problem).units                             # [to][from]: units that minimise the total RTL

RTL, the relative transmission latency of a pair, is its traffic over its units; a GPU's is the sum over what it sends,
a column of the matrices. The units of a source GPU are its own, so each source is a problem by itself: `exhaustive`
tries every division of its units, as the paper does, `greedy` gives one unit after the other to where it saves most.
Limits on what GPUs can receive tie the sources together: `receivers` solves that. docs/steer.md has the proofs.

Reference: Anderson et al. 2018, "Optically Connected and Reconfigurable GPU Architecture for Optimized Peer-to-Peer
Access" (MEMSYS), section 2.2.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from resnetx.errors import ConfigError

# RTL, the relative transmission latency: traffic over bandwidth units, by pair, by source GPU, and in total.
#
# Matrices are [i][j]: from GPU j to GPU i, as in the paper (section 2.2). "An aggregate RTL for each GPU is calculated
# by summing the RTLs from the appropriate column": column j has what GPU j sends.

Traffic = Sequence[Sequence[float]]  # [to][from]: bytes, or any multiple of them
Units = tuple[tuple[int, ...], ...]  # [to][from]: bandwidth units
Rows = tuple[tuple[float, ...], ...]


def normalised(traffic: Traffic) -> Rows:
    """Traffic over the largest of any pair, as the paper states it; without any traffic, as it is."""
    largest = max(map(max, traffic))
    return tuple(tuple(share / largest if largest else 0.0 for share in row) for row in traffic)


def pair_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> Rows:
    """RTL of each pair; 0 where nothing is sent, infinite where something is and no link is there."""
    return tuple(
        tuple((sent / count if count else math.inf) if sent else 0.0 for sent, count in zip(row, counts, strict=True))
        for row, counts in zip(traffic, units, strict=True)
    )


def source_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """The aggregate of each GPU: its column, over all that it sends to."""
    return tuple(map(sum, zip(*pair_rtl(traffic, units), strict=True)))


def total_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> float:
    return sum(source_rtl(traffic, units))


def slowest_pair(traffic: Traffic, units: Sequence[Sequence[int]]) -> float:
    """The largest RTL of a pair: what the exchange takes if all links carry their traffic at once."""
    return max(map(max, pair_rtl(traffic, units)))


def received(units: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The units that end at each GPU: the receivers that it needs."""
    return tuple(map(sum, units))


# What is to be steered: the traffic, the units as they are built, and where they can go.
#
# steering_problem(traffic, built, reachable)     # refuses, in a sentence, what has no answer


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


# How one GPU divides its units among its targets, one for each at least, to minimise the sum of traffic / units: the
# paper's search, and the greedy one. Of equal divisions they take the one that moves the fewest links.

SAME = 1e-12  # relative: RTLs that differ by less are the same


@dataclass(frozen=True)
class Division:
    """Units for each target of a source, and how many RTLs or gains were calculated to find them."""

    units: tuple[int, ...]
    evaluations: int


def evaluations(targets: int, units: int) -> int:
    """The RTLs that the exhaustive search calculates for one GPU: c x C(k - 1, k - c), section 2.2."""
    return targets * math.comb(units - 1, units - targets)


def exhaustive(source: Source) -> Division:
    """Every division of the units, as in the paper."""
    best, least, moved, evaluated = source.built, math.inf, 0, 0
    for units in _divisions(len(source.targets), source.units):
        rtl = sum(sent / count for sent, count in zip(source.sent, units, strict=True))
        evaluated += len(units)
        moves = sum(abs(count - built) for count, built in zip(units, source.built, strict=True))
        if rtl < least * (1 - SAME) or (rtl <= least * (1 + SAME) and moves < moved):
            best, least, moved = units, min(rtl, least), moves
    return Division(best, evaluated)


def _divisions(targets: int, units: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `units` as a sum of so many numbers of at least 1."""
    if targets == 1:
        yield (units,)
        return
    for first in range(1, units - targets + 2):
        for rest in _divisions(targets - 1, units - first):
            yield (first, *rest)


def greedy(source: Source) -> Division:
    """One unit for each target, and each of the others to where it saves most; docs/steer.md proves it optimal."""
    units = [1] * len(source.targets)
    heap = [_gain(source, units, index) for index in range(len(units))]
    heapq.heapify(heap)
    evaluated = len(heap)
    for _ in range(source.units - len(units)):
        place = heap[0][2]
        units[place] += 1
        heapq.heapreplace(heap, _gain(source, units, place))
        evaluated += 1
    return Division(tuple(units), evaluated)


def _gain(source: Source, units: Sequence[int], index: int) -> tuple[float, bool, int]:
    """What the next unit saves, as a heap sorts it: most first; of equal gains, that of a link which is there."""
    count = units[index]
    return -source.sent[index] / (count * (count + 1)), count >= source.built[index], index


# The best units for a problem, and what finding them took.

Method = Literal["exhaustive", "greedy", "linear program"]
MOST_EVALUATIONS = 100_000  # RTLs of all GPUs that the exhaustive search may calculate: a tenth of a second


@dataclass(frozen=True)
class Steered:
    """Units [to][from], by which method, and the RTLs that it calculated; null: the solver counts none."""

    units: Units
    method: Method
    evaluations: int | None


def best(problem: SteeringProblem, receivers: Sequence[int] | None = None) -> Steered:
    """The units with the least total RTL; what is built, where nothing is better.

    `receivers`: the most units that each GPU can receive; unless given, as many as are sent to it, as in the paper.
    """
    if receivers is not None:
        return Steered(
            _unless_as_good(problem, within_receivers(problem, receivers), receivers), "linear program", None
        )
    sources = problem.sources
    few = sum(evaluations(len(source.targets), source.units) for source in sources) <= MOST_EVALUATIONS
    divisions = {source: (exhaustive if few else greedy)(source) for source in sources}
    columns = {
        source.gpu: dict(zip(source.targets, division.units, strict=True)) for source, division in divisions.items()
    }
    evaluated = sum(division.evaluations for division in divisions.values())
    return Steered(problem.with_columns(columns), "exhaustive" if few else "greedy", evaluated)


def _unless_as_good(problem: SteeringProblem, found: Units, receivers: Sequence[int]) -> Units:
    """The units as they are built where they keep the limits and no others are better."""
    kept = all(count <= limit for count, limit in zip(received(problem.built), receivers, strict=True))
    linked = all(
        count for row, counts in zip(problem.traffic, problem.built, strict=True)
        for sent, count in zip(row, counts, strict=True) if sent
    )  # fmt: skip
    if not (kept and linked):
        return found
    before, after = (total_rtl(problem.traffic, units) for units in (problem.built, found))
    return found if after < before * (1 - SAME) else problem.built


def receivers_added(problem: SteeringProblem, units: Units) -> tuple[int, ...]:
    """The receivers that each GPU needs beyond those it has."""
    return tuple(max(0, after - before) for before, after in zip(received(problem.built), received(units), strict=True))


# Phases of an application, each with its own traffic: one configuration for all of them, or a new one for each, where
# that saves more (by the ratio of both RTLs) than setting the switch, which stands still meanwhile.


@dataclass(frozen=True)
class PhaseChoice:
    """One phase with the configuration for all phases, and with its own."""

    rtl_shared: float
    rtl_own: float

    @property
    def saved(self) -> float:
        """The share of the phase's transmission time that its own configuration saves."""
        return 1 - self.rtl_own / self.rtl_shared

    def break_even_s(self, reconfiguration_s: float) -> float:
        """How long the phase must transmit, with the shared configuration, for its own to be worth setting."""
        return reconfiguration_s / self.saved if self.saved > 0 else math.inf

    def gain_s(self, duration_s: float, reconfiguration_s: float) -> float:
        """What setting its own configuration wins; negative: it costs more than it saves."""
        return duration_s * self.saved - reconfiguration_s


def phase_choice(traffic: Traffic, shared: Units, own: Units) -> PhaseChoice:
    return PhaseChoice(total_rtl(traffic, shared), total_rtl(traffic, own))


# Steering within limits on what each GPU can receive: a transport problem, solved exactly by HiGHS. Each unit of a flow
# beyond its first is a variable between 0 and 1 that saves traffic / (n (n + 1)); rows are what sources have and
# receivers take. The matrix is totally unimodular: docs/steer.md.


def within_receivers(problem: SteeringProblem, receivers: Sequence[int]) -> Units:
    """The units that minimise the total RTL where GPU i receives at most receivers[i] of them.

    A unit that no receiver is left for is not used. Sources without traffic get none.
    """
    import numpy as np
    from scipy.optimize import linprog  # type: ignore[import-untyped]
    from scipy.sparse import csr_array  # type: ignore[import-untyped]

    _refuse_too_few(problem, receivers)
    steps = _further_units(problem)
    units = {(to, by): 1 for source in problem.sources for by in [source.gpu] for to in source.targets}
    if steps:
        gains = np.array([problem.traffic[to][by] / (count * (count + 1)) for to, by, count in steps])
        sources = [by for _, by, _ in steps]
        targets = [problem.gpus + to for to, _, _ in steps]
        columns = np.arange(len(steps))
        rows = csr_array(
            (np.ones(2 * len(steps)), (np.array(sources + targets), np.concatenate([columns, columns]))),
            shape=(2 * problem.gpus, len(steps)),
        )
        found = linprog(
            -gains / gains.max(),
            A_ub=rows,
            b_ub=[*_left_of_sources(problem), *_left_of_receivers(problem, receivers)],
            bounds=(0, 1),
            method="highs-ds",
        )
        assert found.success, found.message
        assert np.allclose(found.x, found.x.round(), atol=1e-6), "a vertex that is no whole number of units"
        for (to, by, _), taken in zip(steps, found.x.round(), strict=True):
            units[to, by] += int(taken)
    return tuple(tuple(units.get((to, by), 0) for by in range(problem.gpus)) for to in range(problem.gpus))


def _further_units(problem: SteeringProblem) -> list[tuple[int, int, int]]:
    """(to, from, units that are there before) of every unit that a flow could get beyond its first."""
    return [
        (to, source.gpu, count)
        for source in problem.sources
        for to in source.targets
        for count in range(1, source.units - len(source.targets) + 1)
    ]


def _left_of_sources(problem: SteeringProblem) -> list[int]:
    """The units of each source beyond the first of each flow."""
    left = {source.gpu: source.units - len(source.targets) for source in problem.sources}
    return [left.get(gpu, 0) for gpu in range(problem.gpus)]


def _left_of_receivers(problem: SteeringProblem, receivers: Sequence[int]) -> list[int]:
    return [limit - sum(sent > 0 for sent in row) for limit, row in zip(receivers, problem.traffic, strict=True)]


def _refuse_too_few(problem: SteeringProblem, receivers: Sequence[int]) -> None:
    if len(receivers) != problem.gpus:
        raise ConfigError(
            f"receivers={list(receivers)}: expected one limit for all GPUs, or one for each of {problem.gpus}"
        )
    for gpu, left in enumerate(_left_of_receivers(problem, receivers)):
        if left < 0:
            flows = receivers[gpu] - left
            raise ConfigError(
                f"receivers={receivers[gpu]}: GPU {gpu} is sent to by {flows} GPUs, each of which needs a unit; "
                f"expected at least {flows}"
            )
