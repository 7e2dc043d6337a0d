"""Collective operations: what each moves, what a ring does for it, how it is run, and what it has to make.

One entry of `OPERATIONS` is all that is known of a collective; the cost model, the bench, its checks and its tables
read it. The root of an operation is rank 0. Loads no torch: `run` is given torch.distributed.

Reference: nccl-tests, doc/PERFORMANCE.md (bus bandwidth), and src/*.cu for what its sizes are of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

ALL = None  # stands for a part: the whole array; for a rank: the sum over all of them
Place = Literal["in", "out"]  # of the result: where the data was, or elsewhere


@dataclass(frozen=True)
class Made:
    """What a part of a rank's result has to hold: a part of another rank's data, or of the sum over all ranks."""

    part: int | None  # of the result
    rank: int | None  # whose data it is
    of: int | None = -1  # the part of that rank's data; -1: the same one

    @property
    def source(self) -> int | None:
        return self.part if self.of == -1 else self.of


Expected = list[Made]  # for each part of a rank's result that is looked at


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One collective over an array; `size` is that of the whole array, as nccl-tests counts it."""

    name: str
    program: str  # of nccl-tests, less "_perf"
    bus_factor: Callable[[int], float]  # busbw / algbw over so many ranks
    rounds: int = 1  # in which a ring passes the array along: once, or to add up and then to hand out
    # Of what libraries run as messages between ranks, all at once, and not around rings: by (sender, receiver, ranks),
    # the share of the array that one sends the other.
    sends: Callable[[int, int, int], float] | None = None
    along_a_chain: bool = False  # to or from the root, so that the chain has to fill
    in_parts: bool = False  # each rank gives, or gets, a part of the array of its own
    own_part: bool = False  # which is all that a rank has before
    gets_part: bool = False  # and all that it has after
    places: tuple[Place, ...] = ("in",)  # that torch has of it; the first one unless another is asked for
    gloo_moves: float = 1.0  # times what a ring would: where gloo makes it of another operation
    gloo_makes_it_of: str = ""  # that operation
    # (torch.distributed, what this rank gives, what it gets, its rank, ranks): the whole array, or its part of it
    run: Callable[[Any, Any, Any, int, int], object]
    expected: Callable[[int, int], Expected]  # by (rank, ranks)

    @property
    def adds(self) -> bool:
        """Whether ranks' values are added up on the way."""
        return any(made.rank is ALL for made in self.expected(0, 2))

    def messages(self, ranks: int) -> tuple[int, int]:
        """(sent, received) by rank 0, which has most to do; of an operation that is messages."""
        sends = self.sends
        assert sends is not None, f"{self.name} goes around rings"
        others = range(1, ranks)
        return sum(sends(0, rank, ranks) > 0 for rank in others), sum(sends(rank, 0, ranks) > 0 for rank in others)

    def steps(self, ranks: int) -> int:
        """How many messages a rank sends, or receives, one after the other."""
        return max(self.messages(ranks)) if self.sends else self.rounds * (ranks - 1)


def _to_next(dist: Any, given: Any, got: Any, rank: int, ranks: int) -> None:
    """Every rank sends to the next one and receives from the one before, at once."""
    sends = dist.P2POp(dist.isend, given, (rank + 1) % ranks)
    receives = dist.P2POp(dist.irecv, got, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="allreduce",
            program="all_reduce",
            bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
            rounds=2,
            run=lambda dist, _, whole, *__: dist.all_reduce(whole),
            expected=lambda *_: [Made(ALL, ALL)],
        ),
        Operation(
            name="broadcast",
            program="broadcast",
            bus_factor=lambda _: 1.0,
            along_a_chain=True,
            run=lambda dist, _, whole, *__: dist.broadcast(whole, 0),
            expected=lambda *_: [Made(ALL, 0)],
        ),
        Operation(
            name="reduce",
            program="reduce",
            bus_factor=lambda _: 1.0,
            along_a_chain=True,
            run=lambda dist, _, whole, *__: dist.reduce(whole, 0),
            expected=lambda rank, _: [Made(ALL, ALL)] if rank == 0 else [],
        ),
        Operation(
            name="allgather",
            program="all_gather",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            in_parts=True,
            own_part=True,
            places=("in", "out"),
            run=lambda dist, part, whole, *_: dist.all_gather_into_tensor(whole, part),
            expected=lambda _, ranks: [Made(part, part) for part in range(ranks)],
        ),
        Operation(
            name="reduce_scatter",
            program="reduce_scatter",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            in_parts=True,
            gets_part=True,
            places=("in", "out"),
            gloo_moves=2.0,
            gloo_makes_it_of="a whole all-reduce",
            run=lambda dist, whole, part, *_: dist.reduce_scatter_tensor(part, whole),
            expected=lambda rank, _: [Made(rank, ALL)],
        ),
        Operation(
            name="alltoall",
            program="alltoall",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if sender != receiver else 0.0,
            in_parts=True,
            places=("out",),
            run=lambda dist, whole, got, *_: dist.all_to_all_single(got, whole),
            expected=lambda rank, ranks: [Made(part, part, of=rank) for part in range(ranks)],
        ),
        Operation(
            name="sendrecv",
            program="sendrecv",
            bus_factor=lambda _: 1.0,
            sends=lambda sender, receiver, ranks: float(receiver == (sender + 1) % ranks),
            places=("out",),
            run=_to_next,
            expected=lambda rank, ranks: [Made(ALL, (rank - 1) % ranks)],
        ),
        Operation(
            name="gather",
            program="gather",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if sender and not receiver else 0.0,
            in_parts=True,
            own_part=True,
            places=("in", "out"),
            run=lambda dist, part, whole, rank, ranks: dist.gather(
                part, None if rank else list(whole.chunk(ranks)), dst=0
            ),
            expected=lambda rank, ranks: [] if rank else [Made(part, part) for part in range(ranks)],
        ),
        Operation(
            name="scatter",
            program="scatter",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if receiver and not sender else 0.0,
            in_parts=True,
            gets_part=True,
            places=("in", "out"),
            run=lambda dist, whole, part, rank, ranks: dist.scatter(
                part, None if rank else list(whole.chunk(ranks)), src=0
            ),
            expected=lambda rank, _: [Made(rank, 0)],
        ),
    )
}
