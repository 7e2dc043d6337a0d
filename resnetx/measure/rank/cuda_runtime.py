"""What torch does not offer of the CUDA runtime: peer access on and off, and copies on a stream of one's choice.

The only module that uses cuda-bindings. Its runtime works in the contexts that torch has made (each device's primary
context), so that streams, events and memory are torch's.

Reference: CUDA Runtime API, "Peer Device Memory Access" and "Memory Management".
"""

import ctypes
import mmap
from typing import Any

import torch

from resnetx.errors import ConfigError
from resnetx.measure.rank import numa
from resnetx.packages import hip_version


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
        with numa.memory_on(numa_node):
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
