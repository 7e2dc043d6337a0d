"""Copies of CPU ranks within memory that all of them have mapped: what peer access is between GPUs.

    | host | rank 0: out, in | rank 1: out, in | ...

One rank copies: the source, or the target where the source is memory of the host. Nobody has to notice the end, as
caches are coherent. The memory is a file without a name that rank 0 holds and the others open by its process (Linux):
nothing is left in any folder, however a rank ends.
"""

import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from resnetx.copies import HOST, Entry, Flow, Place
from resnetx.measure.bench import checks
from resnetx.measure.bench.observed import CLEAR, Observed, data_of, ended_together
from resnetx.measure.rank import numa
from resnetx.measure.rank.distributed import Ranks


class MappedCopies:
    """Copies between parts of memory that all ranks of this host share."""

    def __init__(self, most_bytes: int, ranks: Ranks, numa_node: int | None = None) -> None:
        """`numa_node`: where memory of the host lies."""
        self._ranks, self._most_bytes = ranks, -(-most_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        shared = _shared((1 + 2 * ranks.world_size) * self._most_bytes, ranks)
        self._memory = torch.frombuffer(shared, dtype=torch.uint8)
        with numa.memory_on(numa_node):  # who writes first decides where pages lie
            if ranks.first:
                self._part(HOST, 0).zero_()
        for number in (0, 1):
            self._part(ranks.rank, number).zero_()
        ranks.barrier()
        self._numa_node = numa_node

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        mine = [place for place, flow in enumerate(entry.flows) if _copier(flow) == self._ranks.rank]
        several = len(entry.flows) > 1
        for place in mine:
            self._fill(entry.flows[place], entry.size_bytes)
        self._ranks.barrier()
        times_s: dict[int, list[float]] = {place: [] for place in mine}
        for _ in range(warmups + timings):
            if several:
                self._ranks.barrier()  # all start together
            for place in mine:
                times_s[place].append(self._copy(entry.flows[place], entry.size_bytes))
        every = self._ranks.gather((times_s, {place: self._wrong(entry, place) for place in mine}))
        timed = {place: times[warmups:] for times_of, _ in every for place, times in times_of.items()}
        wrong = {place: count for _, wrong_of in every for place, count in wrong_of.items()}
        places = range(len(entry.flows))
        return Observed(
            times_s=ended_together(entry, [timed[place] for place in places]),
            wrong=[wrong[place] for place in places],
            endpoint="pageable",
            path="shared memory",
            evidence=["one rank copies, in memory that all ranks of the host have mapped", *self._binding(entry)],
        )

    def _copy(self, flow: Flow, size_bytes: int) -> float:
        source, target = self._source(flow, size_bytes), self._target(flow, size_bytes)
        start_s = time.perf_counter()
        target.copy_(source)
        return time.perf_counter() - start_s

    def _fill(self, flow: Flow, size_bytes: int) -> None:
        checks.write(self._source(flow, size_bytes), data_of(flow.source))
        self._target(flow, size_bytes).fill_(CLEAR)

    def _wrong(self, entry: Entry, place: int) -> int:
        flow = entry.flows[place]
        return checks.unlike(self._target(flow, entry.size_bytes), data_of(flow.source))

    def _source(self, flow: Flow, size_bytes: int) -> torch.Tensor:
        return self._part(flow.source, 0)[:size_bytes]

    def _target(self, flow: Flow, size_bytes: int) -> torch.Tensor:
        return self._part(flow.target, 0 if flow.target == HOST else 1)[:size_bytes]

    def _part(self, place: Place, number: int) -> torch.Tensor:
        """The memory of the host; of a rank the memory it sends from (0) or receives in (1)."""
        index = 0 if isinstance(place, str) else 1 + 2 * place + number
        return self._memory[index * self._most_bytes : (index + 1) * self._most_bytes]

    def _binding(self, entry: Entry) -> list[str]:
        if self._numa_node is None or not any(HOST in (flow.source, flow.target) for flow in entry.flows):
            return []
        return [f"memory of the host on NUMA node {self._numa_node}"]


def _copier(flow: Flow) -> int:
    places: Sequence[Place] = (flow.source, flow.target)
    return next(place for place in places if isinstance(place, int))


def _shared(size_bytes: int, ranks: Ranks) -> mmap.mmap:
    """Memory that all ranks map; it lasts as long as one of them does."""
    handle = os.memfd_create("resnetx-copies") if ranks.first else -1
    if ranks.first:
        os.ftruncate(handle, size_bytes)
    process, number = ranks.gather((os.getpid(), handle))[0]
    if not ranks.first:
        handle = os.open(Path(f"/proc/{process}/fd/{number}"), os.O_RDWR)
    mapped = mmap.mmap(handle, size_bytes)
    ranks.barrier()
    os.close(handle)
    return mapped
