"""Patterns of applications, timed: the messages of an iteration around a computation that is waited out.

All ranks meet, then each sends and receives what comes before it computes, waits, and sends and receives the rest; all
messages of a round go at once. An iteration counts with the slowest rank's time, and what that rank did not spend on
the wait is communication. What was received is checked byte by byte, in an iteration behind those that are timed.
"""

import time
from collections.abc import Sequence
from itertools import product

import torch

from resnetx import patterns
from resnetx.measure.bench import arrays
from resnetx.measure.bench.arrays import Timed
from resnetx.measure.launch import hang
from resnetx.measure.rank.distributed import Ranks
from resnetx.patterns import HOST, PatternMessage, Round, Rounds
from resnetx.record import BenchRequest, PatternPoint, SkippedArray
from resnetx.units import si, size_text


def measure(request: BenchRequest, ranks: Ranks) -> Timed[PatternPoint]:
    """Every pattern at every size of its problem, scaled in every way that is asked for."""
    usable = arrays.usable_bytes(ranks)
    points, skipped = [], []
    for name, scaling in product(request.patterns, request.scalings):
        file = patterns.load(name)
        whole_s = file.compute if request.compute_s is None else request.compute_s
        for size_bytes in request.pattern_sizes_bytes or [file.size_bytes]:
            rounds = patterns.rounds(name, ranks.world_size, size_bytes, scaling)
            needed = max(ranks.gather(sum(data_of_rank(rounds, ranks.rank).values())))
            if needed > usable:
                what = f"{name} of {size_text(size_bytes)} takes {size_text(needed)} of memory in a rank"
                skipped.append(SkippedArray(name, size_bytes, f"{what}, and {si(usable, 'B')} can be had"))
                continue
            compute_s = patterns.compute_s(whole_s, ranks.world_size, scaling)
            hang.begin(f"{name} of {size_text(size_bytes)}, {scaling} scaling")
            exchange = PatternExchange(rounds, ranks)
            for _ in range(request.warmup):
                _iteration(exchange, 0.0, ranks)
            every = ranks.gather([_iteration(exchange, compute_s, ranks) for _ in range(request.iterations)])
            slowest = [max(of_ranks) for of_ranks in zip(*every, strict=True)]
            points.append(
                PatternPoint(
                    pattern=name,
                    scaling=scaling,
                    size_bytes=size_bytes,
                    compute_s=compute_s,
                    sent_bytes=rounds.sent_bytes(ranks.world_size),
                    times_s=[total_s for total_s, _ in slowest],
                    communication_s=[communication_s for _, communication_s in slowest],
                    wrong=sum(ranks.gather(exchange.wrong_bytes())),
                )
            )
    if not points:
        raise MemoryError(f"{skipped[0].reason}; ask for smaller sizes with size=")
    return Timed(points, skipped)


def _iteration(exchange: "PatternExchange", compute_s: float, ranks: Ranks) -> tuple[float, float]:
    """Seconds of this rank, and those that it did not spend computing."""
    exchange.synchronize()
    ranks.barrier()
    start = time.perf_counter()
    exchange.run(exchange.rounds.before)
    computing = time.perf_counter()
    time.sleep(compute_s)
    computed = time.perf_counter()
    exchange.run(exchange.rounds.after)
    stop = time.perf_counter()
    return stop - start, stop - start - (computed - computing)


Datum = tuple[int, int]  # the rank whose data it is, and which of them


def data_of_rank(rounds: Rounds, rank: int) -> dict[Datum, int]:
    """The bytes of all data that a rank sends or receives."""
    messages = [message for round in (*rounds.before, *rounds.after) for message in round]
    return {(message.origin, message.number): message.size_bytes for message in messages if message.includes(rank)}


class PatternExchange:
    """One rank's messages, and the memory that they go from and to."""

    def __init__(self, rounds: Rounds, ranks: Ranks) -> None:
        self._ranks, mine = ranks, data_of_rank(rounds, ranks.rank)
        self.rounds = Rounds(*([_of_rank(round, ranks.rank) for round in part] for part in rounds))
        self._data = {datum: _bytes(size, ranks.device) for datum, size in mine.items()}
        streams = any(HOST in (message.source, message.target) for round in self.rounds.before for message in round)
        # Memory of the host: what the device gets, and what comes back from it.
        sizes = mine.values() if streams else ()
        self._hosts = [tuple(_bytes(size, torch.device("cpu"), ranks.device) for _ in range(2)) for size in sizes]

    def run(self, rounds: Sequence[Round]) -> None:
        """Sends and receives, until this rank's part of it has ended."""
        for round in rounds:
            sent = [(self._of(message), message.target) for message in round if message.source == self._ranks.rank]
            received = [(self._of(message), message.source) for message in round if message.target == self._ranks.rank]
            if self._hosts:
                self._copy(to_host=bool(sent))
            else:
                for work in self._ranks.starts_exchange(sent, received):
                    work.wait()
            self.synchronize()

    def synchronize(self) -> None:
        """Returns when the device has done what was asked of it."""
        if self._ranks.device.type == "cuda":
            torch.cuda.synchronize(self._ranks.device)

    def wrong_bytes(self) -> int:
        """Bytes that are not what they should be behind one more iteration, into memory that was cleared before."""
        for (origin, number), data in self._data.items():
            own = origin == self._ranks.rank and not self._hosts
            arrays.write(data, _period(origin, number)) if own else data.fill_(arrays.CLEAR)
        for given, got in self._hosts:
            arrays.write(given, _period(self._ranks.rank, 0))
            got.fill_(arrays.CLEAR)
        self.synchronize()
        self._ranks.barrier()
        self.run(self.rounds.before)
        self.run(self.rounds.after)
        wrong = sum(arrays.unlike(data, _period(*datum)) for datum, data in self._data.items())
        return wrong + sum(arrays.unlike(got, _period(self._ranks.rank, 0)) for _, got in self._hosts)

    def _of(self, message: PatternMessage) -> torch.Tensor:
        return self._data[message.origin, message.number]

    def _copy(self, to_host: bool) -> None:
        for (given, got), data in zip(self._hosts, self._data.values(), strict=True):
            target, source = (got, data) if to_host else (data, given)
            target.copy_(source, non_blocking=True)


def _of_rank(round: Round, rank: int) -> Round:
    return [message for message in round if message.includes(rank)]


def _bytes(size: int, device: torch.device, copied_to: torch.device | None = None) -> torch.Tensor:
    """Memory that was written to; of the host, pinned where a GPU copies it."""
    pinned = copied_to is not None and copied_to.type == "cuda"
    return torch.zeros(size, dtype=torch.uint8, device=device, pin_memory=pinned)


def _period(origin: int, number: int) -> torch.Tensor:
    """One period of what the data of a rank hold."""
    return arrays.pattern(origin).roll(number).to(torch.uint8)
