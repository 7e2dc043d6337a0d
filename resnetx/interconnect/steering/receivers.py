"""Steering within limits on what each GPU can receive: a transport problem, solved exactly by HiGHS.

The first unit of each flow is fixed, and each further one is a variable of its own between 0 and 1 that saves
traffic / (n (n + 1)), less with every unit of the same flow. Rows say that a source has no more units than it has, and
that a GPU receives no more than it can. Each variable is in one row of each kind, so the matrix is that of a bipartite
graph, which is totally unimodular: every vertex of the linear program is a whole number of units, and the simplex
method ends at a vertex. docs/steer.md has the argument in full.
"""

from collections.abc import Sequence

from resnetx.errors import ConfigError
from resnetx.interconnect.steering.problem import SteeringProblem
from resnetx.interconnect.steering.rtl import Units


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
