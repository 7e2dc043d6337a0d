"""What torch does not offer of the CUDA runtime: peer access on and off, and copies on a stream of one's choice.

The only module that uses cuda-bindings. Its runtime works in the contexts that torch has made (each device's primary
context), so that streams, events and memory are torch's.

Reference: CUDA Runtime API, "Peer Device Memory Access" and "Memory Management".
"""

import ctypes
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from resnetx.copies import Flow, Place
from resnetx.errors import ConfigError
from resnetx.measure.machine.sensors import GpuTraffic, gpu_traffic
from resnetx.measure.rank import nodes
from resnetx.packages import hip_version
from resnetx.record import Unknown
from resnetx.units import si


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


# What a copy went over, by evidence: peer access, and the byte counters of the GPUs before and after.
#
# NVML counts the bytes of NVLinks (not on every GPU) and of PCIe (from Hopper on, and drivers that tell). Other copies
# meanwhile count, too: a share of half tells which way the bytes took, not how many there were.
#
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
    unknown = next((each.path for each in seen if isinstance(each.path, Unknown)), None)
    path = unknown if unknown is not None else " and ".join(dict.fromkeys(each.path for each in seen))
    return Seen(path, list(dict.fromkeys(line for each in seen for line in each.evidence)))


_Risen = tuple[tuple[int, int] | Unknown, tuple[int, int] | Unknown]  # (sent, received) over NVLink, and over PCIe


def _path(risen: Mapping[int, _Risen], source: Place, moved_bytes: int, peers: bool | None) -> str | Unknown:
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
    if isinstance(after, Unknown) or isinstance(before, Unknown):
        reason = after if isinstance(after, Unknown) else before
        assert isinstance(reason, Unknown)
        return reason, reason
    return _both(after.nvlink, before.nvlink), _both(after.pcie, before.pcie)


def _both(after: tuple[int, int] | Unknown, before: tuple[int, int] | Unknown) -> tuple[int, int] | Unknown:
    if isinstance(after, Unknown):
        return after
    if isinstance(before, Unknown):
        return before
    if after[0] < before[0] or after[1] < before[1]:
        return Unknown("the counter started again in between")
    return after[0] - before[0], after[1] - before[1]
