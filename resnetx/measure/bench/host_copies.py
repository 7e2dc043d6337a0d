"""Copies between ranks that one rank sends and the other receives, over the process group: gloo's sockets on CPUs.

    source   waits for the others [start] send ............
    target   posts its receive, says so   ........ received [end]

A copy lasts from the moment the source starts to send until the target has it all, by one clock on one host
(CLOCK_MONOTONIC); between hosts the target sends it back, and half of the round trip counts, as in the OSU benchmarks.
Nobody starts before a receive is posted; the other ranks wait, and use no CPU.
"""

import mmap
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from resnetx.copies import HOST, CopyPlace, Entry, Flow
from resnetx.host import node_name
from resnetx.inputs.folders import resident_share
from resnetx.measure.bench import arrays
from resnetx.measure.bench.arrays import CLEAR, Observed, by_first, data_of, ended_together
from resnetx.measure.launch import launched_folder
from resnetx.measure.rank import nodes, results
from resnetx.measure.rank.distributed import DistributedWork, HostGroup, Ranks
from resnetx.record import Unknown
from resnetx.record.bench_record import Endpoint

RELAYED_BYTES = 2**20  # of each piece that a relay passes on while it receives the next one
_DATA, _READY, _BACK = 0, 1, 2  # tags


@dataclass(frozen=True)
class Times:
    """When this rank started to send a flow, and when it had received it, each timing; by its own clock."""

    met_s: list[float] = field(default_factory=list)  # when all were ready
    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    round_trip_s: list[float] = field(default_factory=list)  # at the source of a flow to another host


class SentCopies:
    """Copies between ranks by send and receive."""

    def __init__(self, most_bytes: int, ranks: Ranks, endpoint: Endpoint, host_group: HostGroup | None = None) -> None:
        """`endpoint`: where the data lies; `host_group`: the ranks over memory of their hosts, where that is not how
        they have joined."""
        self._ranks, self._endpoint, self._host_group = ranks, endpoint, host_group
        on_device = endpoint == "device"
        self._group = None if on_device else host_group
        self._on_gpus = on_device and ranks.device.type == "cuda"
        device = ranks.device if on_device else torch.device("cpu")
        pinned = endpoint == "pinned"
        self._sent, self._received = (
            torch.zeros(most_bytes, dtype=torch.uint8, device=device, pin_memory=pinned) for _ in range(2)
        )
        self._nodes = ranks.gather(node_name())

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        times = [Times() for _ in entry.flows]
        taking_part = sorted(set().union(*(flow.places for flow in entry.flows)))
        sent, received = self._sent[: entry.size_bytes], self._received[: entry.size_bytes]
        if self._ranks.rank in taking_part:
            arrays.write(sent, data_of(self._ranks.rank))
            if self._on_gpus:  # NCCL connects two ranks when they first send to each other, whatever the size
                self._copy(entry.flows, sent[:1], received[:1], [Times() for _ in entry.flows], taking_part)
            received.fill_(CLEAR)
            for _ in range(warmups + timings):
                self._copy(entry.flows, sent, received, times, taking_part)
        every = self._ranks.gather((times, [self._wrong(flow, received) for flow in entry.flows]))
        seconds = [
            self._seconds(flow, [of_rank[index] for of_rank, _ in every], len(entry.flows))[warmups:]
            for index, flow in enumerate(entry.flows)
        ]
        return Observed(
            times_s=ended_together(entry, seconds),
            wrong=[sum(of_rank[place] for _, of_rank in every) for place in range(len(entry.flows))],
            endpoint=self._endpoint,
            path="socket" if self._over_sockets else "network",
            evidence=[*self._way(), *self._clock(entry.flows)],
        )

    # ---- one timing -------------------------------------------------------------------------------------------------

    def _copy(
        self,
        flows: tuple[Flow, ...],
        sent: torch.Tensor,
        received: torch.Tensor,
        times: list[Times],
        taking_part: list[int],
    ) -> None:
        """This rank's part of all flows, once."""
        if self._on_gpus:
            self._exchange(flows, sent, received, times, taking_part)
            return
        me = self._ranks.rank
        incoming = [(flow, self._posted(flow, received)) for flow in flows if me in (flow.target, flow.through)]
        self._meet(flows, taking_part)
        met_s = time.perf_counter()
        outgoing: list[DistributedWork] = []
        for flow, noted in zip(flows, times, strict=True):
            noted.met_s.append(met_s)
            if flow.source == me:
                noted.start_s.append(time.perf_counter())
                outgoing += self._sends(flow, sent)
        for flow, works in incoming:
            if flow.through == me:
                outgoing += self._passed_on(flow, works, received)
            else:
                self._wait(works)
                times[flows.index(flow)].end_s.append(time.perf_counter())
        self._wait(outgoing)
        self._send_back(flows, sent, received, times)

    def _exchange(
        self,
        flows: tuple[Flow, ...],
        sent: torch.Tensor,
        received: torch.Tensor,
        times: list[Times],
        taking_part: list[int],
    ) -> None:
        """The same between memory of GPUs: what NCCL sends and receives starts at once, once all are ready."""
        me = self._ranks.rank
        self._meet(flows, taking_part)
        met_s = time.perf_counter()
        sends = [(sent, _rank(flow.target)) for flow in flows if flow.source == me]
        receives = [(received, _rank(flow.source)) for flow in flows if flow.target == me]
        self._wait(self._ranks.starts_exchange(sends, receives))
        end_s = time.perf_counter()
        for flow, noted in zip(flows, times, strict=True):
            noted.met_s.append(met_s)
            if flow.source == me:
                noted.start_s.append(met_s)
            if flow.target == me:
                noted.end_s.append(end_s)
        self._send_back(flows, sent, received, times)

    def _send_back(
        self, flows: tuple[Flow, ...], sent: torch.Tensor, received: torch.Tensor, times: list[Times]
    ) -> None:
        """To another host, whose clock differs: the way back, which makes a round trip of a single copy."""
        (flow, *others), me = flows, self._ranks.rank
        if others or not self._apart(flow):
            return
        if flow.target == me:
            self._wait(self._starts_back([(received, _rank(flow.source))], []))
        if flow.source == me:
            self._wait(self._starts_back([], [(sent, _rank(flow.target))]))
            times[0].round_trip_s.append(time.perf_counter() - times[0].start_s[-1])

    def _starts_back(
        self, sends: list[tuple[torch.Tensor, int]], receives: list[tuple[torch.Tensor, int]]
    ) -> list[DistributedWork]:
        """As the way there: a send of NCCL by itself would queue behind all else that its ranks exchange."""
        if self._on_gpus:
            return self._ranks.starts_exchange(sends, receives)
        return [
            *(self._ranks.starts_send(tensor, target, self._group, _BACK) for tensor, target in sends),
            *(self._ranks.starts_receive(tensor, source, self._group, _BACK) for tensor, source in receives),
        ]

    def _posted(self, flow: Flow, received: torch.Tensor) -> list[DistributedWork]:
        """Receives of a flow, one for each piece."""
        sender = flow.source if flow.through in (None, self._ranks.rank) else flow.through
        return [
            self._ranks.starts_receive(piece, _rank(sender), self._group, _DATA) for piece in _pieces(flow, received)
        ]

    def _sends(self, flow: Flow, sent: torch.Tensor) -> list[DistributedWork]:
        target = flow.target if flow.through is None else flow.through
        return [self._ranks.starts_send(piece, _rank(target), self._group, _DATA) for piece in _pieces(flow, sent)]

    def _passed_on(self, flow: Flow, works: list[DistributedWork], received: torch.Tensor) -> list[DistributedWork]:
        """Sends each piece on as soon as it is there, while the next ones come in."""
        sends = []
        for piece, work in zip(_pieces(flow, received), works, strict=True):
            self._wait([work])
            sends.append(self._ranks.starts_send(piece, _rank(flow.target), self._group, _DATA))
        return sends

    def _meet(self, flows: tuple[Flow, ...], taking_part: list[int]) -> None:
        """Waits until all that take part are ready. Of one flow, only its source has to know."""
        first = _rank(flows[0].source)
        if self._ranks.rank == first:
            others, then = [rank for rank in taking_part if rank != first], (self._hear, self._tell)
        else:
            others, then = [first], (self._tell, self._hear)
        for each in then[: 2 if len(flows) > 1 else 1]:
            each(others)

    def _tell(self, others: list[int]) -> None:
        for rank in others:
            self._ranks.starts_send(_token(), rank, self._host_group, _READY).wait()

    def _hear(self, others: list[int]) -> None:
        for rank in others:
            self._ranks.starts_receive(_token(), rank, self._host_group, _READY).wait()

    def _wait(self, works: list[DistributedWork]) -> None:
        for work in works:
            work.wait()
        if self._on_gpus:
            torch.cuda.synchronize(self._ranks.device)  # `wait` of NCCL makes the stream wait, not the host

    # ---- what it says -----------------------------------------------------------------------------------------------

    def _apart(self, flow: Flow) -> bool:
        return self._nodes[_rank(flow.source)] != self._nodes[_rank(flow.target)]

    def _seconds(self, flow: Flow, by_rank: list[Times], flows: int) -> list[float]:
        """Of each timing of a flow."""
        source, target = by_rank[_rank(flow.source)], by_rank[_rank(flow.target)]
        if not self._apart(flow):
            return [end - start for start, end in zip(source.start_s, target.end_s, strict=True)]
        if flows == 1:
            return [round_trip_s / 2 for round_trip_s in source.round_trip_s]
        return [end - met for met, end in zip(target.met_s, target.end_s, strict=True)]

    def _wrong(self, flow: Flow, received: torch.Tensor) -> int:
        return arrays.unlike(received, data_of(flow.source)) if flow.target == self._ranks.rank else 0

    @property
    def _over_sockets(self) -> bool:
        return self._ranks.device.type == "cpu" or self._endpoint != "device"

    def _way(self) -> list[str]:
        return results.over_sockets(self._ranks.way).evidence if self._over_sockets else []

    def _clock(self, flows: tuple[Flow, ...]) -> list[str]:
        if not any(map(self._apart, flows)):
            return []
        return ["half of a round trip" if len(flows) == 1 else "from the target's start to its end, by its own clock"]


def _token() -> torch.Tensor:
    """What says that a rank is ready."""
    return torch.zeros(1, dtype=torch.uint8)


def _rank(place: object) -> int:
    assert isinstance(place, int), f"{place!r} is no rank"
    return place


def _pieces(flow: Flow, data: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (data,) if flow.through is None else data.split(RELAYED_BYTES)


# Copies of CPU ranks within memory that all of them have mapped: what peer access is between GPUs.
#
#     | host | rank 0: out, in | rank 1: out, in | ...
#
# One rank copies: the source, or the target where the source is memory of the host. Nobody has to notice the end, as
# caches are coherent. The memory is a file without a name that rank 0 holds and the others open by its process (Linux):
# nothing is left in any folder, however a rank ends.


class MappedCopies:
    """Copies between parts of memory that all ranks of this host share."""

    def __init__(self, most_bytes: int, ranks: Ranks, numa_node: int | None = None) -> None:
        """`numa_node`: where memory of the host lies."""
        self._ranks, self._most_bytes = ranks, -(-most_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        shared = _shared((1 + 2 * ranks.world_size) * self._most_bytes, ranks)
        self._memory = torch.frombuffer(shared, dtype=torch.uint8)
        with nodes.memory_on(numa_node):  # who writes first decides where pages lie
            if ranks.first:
                self._part(HOST, 0).zero_()
        for number in (0, 1):
            self._part(ranks.rank, number).zero_()
        ranks.barrier()
        self._numa_node = numa_node

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        mine = [index for index, flow in enumerate(entry.flows) if _copier(flow) == self._ranks.rank]
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
        arrays.write(self._source(flow, size_bytes), data_of(flow.source))
        self._target(flow, size_bytes).fill_(CLEAR)

    def _wrong(self, entry: Entry, index: int) -> int:
        flow = entry.flows[index]
        return arrays.unlike(self._target(flow, entry.size_bytes), data_of(flow.source))

    def _source(self, flow: Flow, size_bytes: int) -> torch.Tensor:
        return self._part(flow.source, 0)[:size_bytes]

    def _target(self, flow: Flow, size_bytes: int) -> torch.Tensor:
        return self._part(flow.target, 0 if flow.target == HOST else 1)[:size_bytes]

    def _part(self, place: CopyPlace, number: int) -> torch.Tensor:
        """The memory of the host; of a rank the memory it sends from (0) or receives in (1)."""
        index = 0 if isinstance(place, str) else 1 + 2 * place + number
        return self._memory[index * self._most_bytes : (index + 1) * self._most_bytes]

    def _binding(self, entry: Entry) -> list[str]:
        if self._numa_node is None or not any(HOST in (flow.source, flow.target) for flow in entry.flows):
            return []
        return [f"memory of the host on NUMA node {self._numa_node}"]


def _copier(flow: Flow) -> int:
    places: Sequence[CopyPlace] = (flow.source, flow.target)
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


# Reads of a file into memory of the host, by rank 0: cold, from storage, or warm, from the page cache.
#
# The file lies in the folder of the run. It is written through to storage, as pages that are not cannot be dropped;
# before each cold read the kernel is asked to drop its pages (posix_fadvise), and how many it has kept is evidence:
# file systems in memory keep all of them.

KEPT_SHARE = 0.01  # of pages in memory, up to which a file counts as cold
_CHUNK_BYTES = 2**26


class StorageCopies:
    """Reads of a file of the run's own."""

    def __init__(self, most_bytes: int, ranks: Ranks) -> None:
        self._ranks = ranks
        self._memory = torch.zeros(most_bytes if ranks.first else 0, dtype=torch.uint8)

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        return by_first(self._ranks, lambda: self._read(entry, warmups, timings))

    def _read(self, entry: Entry, warmups: int, timings: int) -> Observed:
        cold = entry.kind == "storage-cold"
        target = self._memory[: entry.size_bytes]
        target.fill_(CLEAR)
        run = launched_folder()
        with tempfile.NamedTemporaryFile(dir=run.path if run else Path.cwd(), prefix="read-") as file:
            _write(file.fileno(), entry)
            kept: list[float | Unknown] = []
            times_s = []
            for _ in range(timings if cold else warmups + timings):
                if cold:
                    kept.append(_dropped(Path(file.name), file.fileno()))
                start_s = time.perf_counter()
                _read_all(file.fileno(), target)
                times_s.append(time.perf_counter() - start_s)
        warm = not cold or any(isinstance(share, Unknown) or share > KEPT_SHARE for share in kept)
        return Observed(
            times_s=[times_s[-timings:]],
            wrong=[arrays.unlike(target, data_of(entry.flows[0].source))],
            endpoint="pageable",
            path="page cache" if warm else "storage",
            evidence=_evidence(kept) if cold else ["read before, so that it is in memory"],
        )


def _write(handle: int, entry: Entry) -> None:
    """The data of storage, through to the disk."""
    left = entry.size_bytes
    period = data_of(entry.flows[0].source)
    chunk = torch.empty(min(left, _CHUNK_BYTES // len(period) * len(period)), dtype=torch.uint8)
    arrays.write(chunk, period)
    view = chunk.numpy().data
    while left:
        left -= os.write(handle, view[:left]) if left < len(view) else _whole(handle, view)
    os.fsync(handle)


def _whole(handle: int, view: memoryview) -> int:
    """Writes all of it, so that the next chunk begins with a period."""
    done = 0
    while done < len(view):
        done += os.write(handle, view[done:])
    return done


def _read_all(handle: int, target: torch.Tensor) -> None:
    view, done = target.numpy().data, 0
    while done < len(view):
        done += os.preadv(handle, [view[done:]], done)


def _dropped(path: Path, handle: int) -> float | Unknown:
    """Asks the kernel to drop the file's pages; the share of them that it has kept."""
    if not hasattr(os, "posix_fadvise"):
        return Unknown("this system cannot be asked to drop a file's pages")
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return resident_share([path])


def _evidence(kept: list[float | Unknown]) -> list[str]:
    reasons = [str(share) for share in kept if isinstance(share, Unknown)]
    if reasons:
        return [f"not known to be cold: {reasons[0]}"]
    most = max((share for share in kept if not isinstance(share, Unknown)), default=0.0)
    if most > KEPT_SHARE:
        return [f"not cold: {most:.0%} of the file's pages stayed in memory, as on file systems in memory"]
    return ["the file's pages were dropped before each read (posix_fadvise)"]
