"""Collective operations: what each moves, what a ring does for it, how it is run, and what it has to make.

One entry of `OPERATIONS` is all that is known of a collective; the cost model, the bench, its checks and its tables
read it. The root of an operation is rank 0. Loads no torch: `run` is given torch.distributed.

Reference: nccl-tests, doc/PERFORMANCE.md (bus bandwidth).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ALL = None  # stands for a part: the whole array; for a rank: the sum over all of them

# What a rank's array has to hold: (part of the array, rank whose values these are) for each part that is looked at.
Expected = list[tuple[int | None, int | None]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One collective over an array; `size` is that of the whole array, as nccl-tests counts it."""

    name: str
    program: str  # of nccl-tests, less "_perf"
    bus_factor: Callable[[int], float]  # busbw / algbw over so many ranks
    rounds: int  # in which a ring passes the array along: once, or to add up and then to hand out
    along_a_chain: bool = False  # to or from the root, so that the chain has to fill
    in_parts: bool = False  # each rank gives, or gets, a part of the array of its own
    own_part: bool = False  # which is all that a rank has before
    gloo_moves: float = 1.0  # times what a ring would: where gloo makes it of another operation
    run: Callable[[Any, Any, Any], object]  # (torch.distributed, the whole array, this rank's part of it)
    expected: Callable[[int, int], Expected]  # by (rank, ranks)

    @property
    def adds(self) -> bool:
        """Whether ranks' values are added up on the way."""
        return any(rank is ALL for _, rank in self.expected(0, 2))


OPERATIONS = {
    each.name: each
    for each in (
        Operation(
            name="allreduce",
            program="all_reduce",
            bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
            rounds=2,
            run=lambda dist, whole, _: dist.all_reduce(whole),
            expected=lambda *_: [(ALL, ALL)],
        ),
        Operation(
            name="broadcast",
            program="broadcast",
            bus_factor=lambda _: 1.0,
            rounds=1,
            along_a_chain=True,
            run=lambda dist, whole, _: dist.broadcast(whole, 0),
            expected=lambda *_: [(ALL, 0)],
        ),
        Operation(
            name="reduce",
            program="reduce",
            bus_factor=lambda _: 1.0,
            rounds=1,
            along_a_chain=True,
            run=lambda dist, whole, _: dist.reduce(whole, 0),
            expected=lambda rank, _: [(ALL, ALL)] if rank == 0 else [],
        ),
        Operation(
            name="allgather",
            program="all_gather",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            rounds=1,
            in_parts=True,
            own_part=True,
            run=lambda dist, whole, part: dist.all_gather_into_tensor(whole, part),
            expected=lambda _, ranks: [(part, part) for part in range(ranks)],
        ),
        Operation(
            name="reduce_scatter",
            program="reduce_scatter",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            rounds=1,
            in_parts=True,
            gloo_moves=2.0,  # it is made of a whole all-reduce
            run=lambda dist, whole, part: dist.reduce_scatter_tensor(part, whole),
            expected=lambda rank, _: [(rank, ALL)],
        ),
    )
}
