"""Copies between the GPUs of one node, and between them and memory of the host: rank 0 drives all of them.

    stream of the first flow   [ sleeping kernel ..... ][gate] mark [copy] mark [copy] mark ...
    streams of other flows                   (wait for the gate) mark [copy] mark (wait) mark [copy] mark ...

Copies are queued while the first stream is held back (`device`), so that they run without the host. Flows wait for each
other behind every copy; both ways at once, the time is that until both have ended. A relay copies in pieces. Memory
that is not pinned is copied by the host itself, and timed from there.

Whether GPUs reach each other's memory is set before each copy: `transport` host has it off, the others on where they
can. How much went over NVLink and PCIe is read off the GPUs' counters, once for each pair, around some larger copies.

References: nvbandwidth (copies behind a held stream, both directions); CUDA samples, p2pBandwidthLatencyTest.
"""

import ctypes
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from resnetx.copies import HOST, CopyPlace, Entry, Flow
from resnetx.errors import ConfigError
from resnetx.inputs import nothing
from resnetx.launching import TransportName
from resnetx.measure.bench import arrays
from resnetx.measure.bench.arrays import CLEAR, Observed, by_first, data_of
from resnetx.measure.machine.readings import increase
from resnetx.measure.machine.sensors import GpuTraffic, gpu_traffic, pair
from resnetx.measure.rank import nodes
from resnetx.measure.rank.device import MOST_LAUNCHES, held_back, mark, seconds_between, timed
from resnetx.measure.rank.distributed import Ranks
from resnetx.packages import hip_version
from resnetx.record import Unknown, of_known
from resnetx.record.bench_record import Endpoint
from resnetx.units import si

# ---- cuda runtime ---------------------------------------------------------------------------------------------------
# What torch does not offer of the CUDA runtime (cuda-bindings, in torch's contexts): peer access on and off, and copies
# on a stream of one's choice.
# Reference: CUDA Runtime API, "Peer Device Memory Access" and "Memory Management".


class CudaError(RuntimeError):
    """A call of the runtime that failed."""


class CudaRuntime:
    """The runtime's functions, which raise where they fail."""

    def __init__(self) -> None:
        if hip_version():
            raise ConfigError("copy: copies between GPUs need NVIDIA's CUDA runtime; on AMD GPUs use collective=")
        try:
            from cuda.bindings import runtime
        except ModuleNotFoundError:
            raise ConfigError(
                "copy: cuda-bindings is not installed, by which copies are started: python -m pip install cuda-bindings"
            ) from None
        self._runtime: Any = runtime

    @property
    def version(self) -> str:
        """ "13.0"."""
        (number,) = self._call(self._runtime.cudaRuntimeGetVersion())
        return f"{number // 1000}.{number % 1000 // 10}"

    def can_reach(self, gpu: int, other: int) -> bool:
        """Whether a GPU could reach the memory of another one."""
        (can,) = self._call(self._runtime.cudaDeviceCanAccessPeer(gpu, other))
        return bool(can)

    def set_peers(self, gpu: int, other: int, on: bool) -> None:
        """Whether a GPU reaches the memory of another one from now on."""
        codes = self._runtime.cudaError_t
        with torch.cuda.device(gpu):
            if on:
                (code,) = self._runtime.cudaDeviceEnablePeerAccess(other, 0)
            else:
                (code,) = self._runtime.cudaDeviceDisablePeerAccess(other)
        if code in (codes.cudaErrorPeerAccessAlreadyEnabled, codes.cudaErrorPeerAccessNotEnabled):
            self._runtime.cudaGetLastError()  # torch would take it for an error of its own
        else:
            self._call((code,))

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: torch.cuda.Stream) -> None:
        """Queues a copy; between two GPUs directly where they are peers, else as the driver does it."""
        size_bytes, pointers = source.numel() * source.element_size(), (target.data_ptr(), source.data_ptr())
        if source.is_cuda and target.is_cuda and source.device != target.device:
            self._call(
                self._runtime.cudaMemcpyPeerAsync(
                    pointers[0], target.device.index, pointers[1], source.device.index, size_bytes, stream.cuda_stream
                )
            )
        else:
            kind = self._runtime.cudaMemcpyKind.cudaMemcpyDefault
            self._call(self._runtime.cudaMemcpyAsync(*pointers, size_bytes, kind, stream.cuda_stream))

    def device_memory(self, size_bytes: int, gpu: int) -> torch.Tensor:
        return torch.zeros(size_bytes, dtype=torch.uint8, device=torch.device("cuda", gpu))

    def host_memory(self, size_bytes: int, *, pinned: bool, numa_node: int | None) -> torch.Tensor:
        """Memory of the host, on a NUMA node if one is named; it lasts as long as the process."""
        with nodes.memory_on(numa_node):
            memory = mmap.mmap(-1, -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE)
            found = torch.frombuffer(memory, dtype=torch.uint8)
            found.zero_()  # whoever writes first decides where pages lie
        if pinned:
            portable = self._runtime.cudaHostRegisterPortable
            self._call(self._runtime.cudaHostRegister(found.data_ptr(), ctypes.c_size_t(len(memory)).value, portable))
        return found[:size_bytes]

    def _call(self, answer: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a function returns behind its code."""
        code, *values = answer
        if code != self._runtime.cudaError_t.cudaSuccess:
            _, text = self._runtime.cudaGetErrorString(code)
            raise CudaError(f"{code.name}: {text.decode() if isinstance(text, bytes) else text}")
        return tuple(values)


# What a copy went over, by evidence: peer access, and the byte counters of NVLinks (not on every GPU) and of PCIe (from
# Hopper on, and drivers that tell). As other copies count, too, they tell the way (a share of half), not how much.
# Reference: NVML API reference, field values (NVLINK_THROUGHPUT_DATA_TX, PCIE_COUNT_TX_BYTES).

SHARE = 0.5  # of the bytes copied, that a counter rose by at least, where they went that way


@dataclass(frozen=True)
class Seen:
    """The way of a copy, and what shows it."""

    path: str | Unknown
    evidence: list[str]


def watched(
    copy: Callable[[], None],
    moved_bytes: int,
    flow: Flow,
    gpus: Mapping[int, int],
    peers: bool | None,
    read: Callable[[int], GpuTraffic | Unknown] = gpu_traffic,
) -> Seen:
    """What a copy of so many bytes goes over.

    `gpus`: CUDA's numbers by place; `peers`: whether they reach each other, None where a host takes part.
    """
    before = {index: read(gpu) for index, gpu in gpus.items()}
    copy()
    after = {index: read(gpu) for index, gpu in gpus.items()}
    risen = {index: _risen(after[index], before[index]) for index in gpus}
    evidence = [f"peer access {'on' if peers else 'off'}"] if peers is not None else []
    for place, (nvlink, pcie) in risen.items():
        sends = place == flow.source
        for name, count in (("NVLink", nvlink), ("PCIe", pcie)):
            verb = "sent" if sends else "received"
            if isinstance(count, Unknown):
                evidence.append(f"{name} of GPU {place}: {count}")
            else:
                evidence.append(
                    f"{name} of GPU {place} {verb} {si(_counted(count, sends), 'B')} of {si(moved_bytes, 'B')}"
                )
    return Seen(_path(risen, flow.source, moved_bytes, peers), evidence)


def together(seen: Sequence[Seen]) -> Seen:
    """The ways of several copies at once; one where they are alike."""
    unknown = next((copy.path for copy in seen if isinstance(copy.path, Unknown)), None)
    path = unknown if unknown is not None else " and ".join(dict.fromkeys(copy.path for copy in seen))
    return Seen(path, list(dict.fromkeys(line for copy in seen for line in copy.evidence)))


_Risen = tuple[tuple[int, int] | Unknown, tuple[int, int] | Unknown]  # (sent, received) over NVLink, and over PCIe


def _path(risen: Mapping[int, _Risen], source: CopyPlace, moved_bytes: int, peers: bool | None) -> str | Unknown:
    for name, which in (("nvlink", 0), ("pcie", 1)):
        counts = [
            _counted(count, index == source)
            for index, both in risen.items()
            if not isinstance(count := both[which], Unknown)
        ]
        if counts and min(counts) >= SHARE * moved_bytes:
            return "host" if name == "pcie" and peers is False else name
    if peers is False:
        return "host"  # without peer access the driver stages copies there
    reasons = [count for both in risen.values() for count in both if isinstance(count, Unknown)]
    return Unknown(f"no counter shows it ({reasons[0]})" if reasons else "no counter shows it")


def _counted(count: tuple[int, int], sends: bool) -> int:
    return count[0] if sends else count[1]


def _risen(after: GpuTraffic | Unknown, before: GpuTraffic | Unknown) -> _Risen:
    def of(way: Callable[[GpuTraffic], Any]) -> tuple[int, int] | Unknown:
        return of_known(lambda last, first: of_known(_both, way(last), way(first)), after, before)

    return of(lambda traffic: traffic.nvlink), of(lambda traffic: traffic.pcie)


def _both(after: tuple[int, int], before: tuple[int, int]) -> tuple[int, int] | Unknown:
    return pair(increase(after[0], before[0]), increase(after[1], before[1]))


# ---- gpu copies -----------------------------------------------------------------------------------------------------

PIECES, LEAST_PIECE_BYTES = 16, 2**20  # of what is relayed
PROBE_BYTES, PROBES = 2**26, 4  # of the copies that counters are read around


@dataclass(frozen=True)
class _Lane:
    """One flow on its stream."""

    flow: Flow
    source: torch.Tensor
    target: torch.Tensor
    stream: torch.cuda.Stream
    launches: int  # of one copy
    copy: Callable[[], None]  # queues one copy on the stream
    marks: list[torch.cuda.Event] = field(default_factory=list)

    def on(self) -> AbstractContextManager[None]:
        """Makes the stream the current one."""
        context: AbstractContextManager[None] = torch.cuda.stream(self.stream)
        return context


class GpuCopies:
    """Copies by the copy engines of the GPUs of this node."""

    def __init__(
        self,
        most_bytes: int,
        ranks: Ranks,
        *,
        endpoint: Endpoint | None = None,
        transport: TransportName = "auto",
        numa_node: int | None = None,
        runtime: CudaRuntime | None = None,
    ) -> None:
        """`endpoint`: of memory of the host, pinned unless it is set; `runtime` replaces CUDA's in tests."""
        self._ranks, self._transport, self._numa_node = ranks, transport, numa_node
        self._endpoint: Endpoint = endpoint or "pinned"
        self._gpus: list[int] = ranks.gather(ranks.device.index)
        self._paths: dict[tuple[CopyPlace, CopyPlace], Seen] = {}
        if ranks.first:
            self._runtime = runtime or CudaRuntime()
            self._memory = {
                index: [self._runtime.device_memory(most_bytes, gpu) for _ in range(2)]
                for index, gpu in enumerate(self._gpus)
            }
            self._host = self._runtime.host_memory(
                most_bytes, pinned=self._endpoint == "pinned", numa_node=self._numa_node
            )
            self._streams = {
                index: torch.cuda.Stream(torch.device("cuda", gpu)) for index, gpu in enumerate(self._gpus)
            }

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        return by_first(self._ranks, lambda: self._observe(entry, warmups, timings))

    def _observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        self._connect(entry.flows)
        seen = self._seen(entry.flows)
        lanes = [self._lane(flow, entry.size_bytes) for flow in entry.flows]
        for lane in lanes:
            arrays.write(lane.source, data_of(lane.flow.source))
        for lane in lanes:
            lane.target.fill_(CLEAR)
        for gpu in self._gpus:
            torch.cuda.synchronize(gpu)  # data was written on other streams
        times_s, by = self._timed(lanes, warmups + timings, both_ways=entry.direction == "both-ways")
        return Observed(
            times_s=[times[warmups:] for times in times_s],
            wrong=[arrays.unlike(lane.target, data_of(lane.flow.source)) for lane in lanes],
            endpoint=self._endpoint if self._touches_host(entry.flows) else "device",
            path=seen.path,
            evidence=[*seen.evidence, *by, *self._host_memory(entry.flows)],
        )

    # ---- timing -----------------------------------------------------------------------------------------------------

    def _timed(self, lanes: Sequence[_Lane], count: int, *, both_ways: bool) -> tuple[list[list[float]], list[str]]:
        """[flow][copy] seconds, of both ways at once those until both have ended; and what to say of the clock."""
        if self._endpoint == "pageable" and self._touches_host([lane.flow for lane in lanes]):
            return self._timed_by_host(lanes, count, "it copies memory that is not pinned")
        launches = sum(lane.launches + 2 + len(lanes) for lane in lanes)  # with marks, and waiting for each other
        at_once = max(1, MOST_LAUNCHES // launches)
        times_s: list[list[float]] = [[] for _ in lanes[: 1 if both_ways else None]]
        while len(times_s[0]) < count:
            some = self._held_back(lanes, min(at_once, count - len(times_s[0])), both_ways)
            if isinstance(some, Unknown):
                found, by = self._timed_by_host(lanes, count, some)
                return found[: len(times_s)], by
            for times, more in zip(times_s, some, strict=True):
                times += more
        return times_s, []

    def _held_back(self, lanes: Sequence[_Lane], count: int, both_ways: bool) -> list[list[float]] | Unknown:
        """The same of a few copies, queued behind a kernel that sleeps."""
        first = lanes[0]
        device = torch.device("cuda", self._gpu_of(first.flow))
        with torch.cuda.device(device), first.on():
            queued = held_back(lambda: self._queue(lanes, count), device)
        if isinstance(queued, Unknown):
            return queued
        return [
            [seconds_between(*pair) for pair in _pairs(lanes, lane, both_ways)]
            for lane in lanes[: 1 if both_ways else None]
        ]

    def _queue(self, lanes: Sequence[_Lane], count: int) -> None:
        first, *others = lanes
        gate = mark()
        for lane in lanes:
            lane.marks.clear()
        for lane in others:
            lane.stream.wait_event(gate)
        for _ in range(count):
            self._mark(lanes)
            for lane in lanes:
                with lane.on():
                    lane.copy()
            if others:
                self._mark(lanes)
                _wait_for_each_other(lanes)
        self._mark(lanes)
        for lane in others:  # so that waiting for the first stream is waiting for all
            first.stream.wait_event(lane.marks[-1])

    def _mark(self, lanes: Sequence[_Lane]) -> None:
        for lane in lanes:
            with lane.on():
                lane.marks.append(mark())

    def _timed_by_host(self, lanes: Sequence[_Lane], count: int, why: str) -> tuple[list[list[float]], list[str]]:
        """[flow][copy] seconds until the host sees that all have ended; and what to say of that."""

        def copy_all() -> None:
            for lane in lanes:
                with lane.on():
                    lane.copy()
            for lane in lanes:
                lane.stream.synchronize()

        device = torch.device("cuda", self._gpu_of(lanes[0].flow))
        times_s = [timed(copy_all, 1, device, nothing) for _ in range(count)]
        return [times_s for _ in lanes], [f"timed by the host: {why}"]

    # ---- one flow ---------------------------------------------------------------------------------------------------

    def _lane(self, flow: Flow, size_bytes: int) -> _Lane:
        source, target = self._source(flow.source)[:size_bytes], self._target(flow.target)[:size_bytes]
        stream = self._streams[self._place_of(flow)]
        if flow.through is None:
            return _Lane(flow, source, target, stream, 1, lambda: self._runtime.copy(target, source, stream))
        piece_bytes = max(LEAST_PIECE_BYTES, -(-size_bytes // PIECES))
        between = self._target(flow.through)[:size_bytes]
        pieces = list(
            zip(source.split(piece_bytes), between.split(piece_bytes), target.split(piece_bytes), strict=True)
        )
        onward = self._streams[flow.through]

        def relay() -> None:
            for start, stop, end in pieces:
                self._runtime.copy(stop, start, stream)
                onward.wait_stream(stream)
                self._runtime.copy(end, stop, onward)
            stream.wait_stream(onward)

        return _Lane(flow, source, target, stream, 4 * len(pieces) + 2, relay)

    def _source(self, place: CopyPlace) -> torch.Tensor:
        return self._host if place == HOST else self._memory[_gpu(place)][0]

    def _target(self, place: CopyPlace) -> torch.Tensor:
        return self._host if place == HOST else self._memory[_gpu(place)][1]

    def _place_of(self, flow: Flow) -> int:
        """The GPU that copies: the source where it is one."""
        return _gpu(flow.source if flow.source != HOST else flow.target)

    def _gpu_of(self, flow: Flow) -> int:
        return self._gpus[self._place_of(flow)]

    # ---- peers and paths --------------------------------------------------------------------------------------------

    def _connect(self, flows: Sequence[Flow]) -> None:
        """Sets whether the GPUs of these flows reach each other's memory."""
        for a, b in _steps(flows):
            for one, other in ((self._gpus[a], self._gpus[b]), (self._gpus[b], self._gpus[a])):
                if one == other:
                    continue
                can = self._runtime.can_reach(one, other)
                if not can and self._transport in ("peer", "pcie"):
                    raise ConfigError(
                        f"transport={self._transport}: GPU {one} cannot reach the memory of GPU {other}; use "
                        "transport=auto or host, or devices= that can"
                    )
                if can:
                    self._runtime.set_peers(one, other, self._transport != "host")

    def _are_peers(self, a: int, b: int) -> bool:
        return self._transport != "host" and self._runtime.can_reach(self._gpus[a], self._gpus[b])

    def _seen(self, flows: Sequence[Flow]) -> Seen:
        """What the pairs of these flows go over, looked at once for each pair."""
        found = []
        for flow in flows:
            key = (flow.source, flow.target)
            if flow.through is not None:
                found += [self._seen([Flow(a, b)]) for a, b in _steps([flow])]
                continue
            if key not in self._paths:
                self._paths[key] = self._look(flow)
            found.append(self._paths[key])
        return together(found)

    def _look(self, flow: Flow) -> Seen:
        if flow.source == flow.target:
            return Seen("local", [])
        lane = self._lane(flow, min(PROBE_BYTES, len(self._host)))
        gpus = {index: self._gpus[index] for index in flow.places}
        peers = None if HOST in (flow.source, flow.target) else self._are_peers(_gpu(flow.source), _gpu(flow.target))

        def copy() -> None:
            for _ in range(PROBES):
                with lane.on():
                    lane.copy()
            lane.stream.synchronize()

        return watched(copy, PROBES * len(lane.source), flow, gpus, peers)

    def _touches_host(self, flows: Sequence[Flow]) -> bool:
        return any(HOST in (flow.source, flow.target) for flow in flows)

    def _host_memory(self, flows: Sequence[Flow]) -> list[str]:
        if not self._touches_host(flows) or self._numa_node is None:
            return []
        return [f"memory of the host on NUMA node {self._numa_node}"]


def _wait_for_each_other(lanes: Sequence[_Lane]) -> None:
    """Whatever each stream does next begins when all have come to their latest marks."""
    for lane in lanes:
        for other in lanes:
            if other is not lane:
                lane.stream.wait_event(other.marks[-1])


def _pairs(lanes: Sequence[_Lane], lane: _Lane, both_ways: bool) -> Iterable[tuple[torch.cuda.Event, torch.cuda.Event]]:
    """The marks around each copy of a lane; both ways at once, until both have ended."""
    if len(lanes) == 1:
        return pairwise(lane.marks)
    begins, ends = lane.marks[::2], lane.marks[1::2]
    return pairwise(begins) if both_ways else zip(begins, ends, strict=False)


def _steps(flows: Sequence[Flow]) -> list[tuple[int, int]]:
    """The copies between GPUs that flows are made of."""
    ways = [[place for place in (flow.source, flow.through, flow.target) if isinstance(place, int)] for flow in flows]
    return [step for way in ways for step in pairwise(way)]


def _gpu(place: CopyPlace) -> int:
    assert isinstance(place, int), f"{place!r} is no GPU"
    return place
