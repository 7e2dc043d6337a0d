"""Stands for cuda.bindings.runtime, which has a runtime of its own that asks a driver: calls of the null CUDA.

Copied beside the libraries, so that it imports nothing of the tests.
"""

import ctypes
from enum import IntEnum

_runtime = ctypes.CDLL("libcudart.so.13")


class cudaError_t(IntEnum):  # noqa: N801  (names of cuda-bindings)
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInvalidDevice = 101
    cudaErrorPeerAccessUnsupported = 217
    cudaErrorInvalidResourceHandle = 400
    cudaErrorPeerAccessAlreadyEnabled = 704
    cudaErrorPeerAccessNotEnabled = 705
    cudaErrorNotSupported = 801


class cudaMemcpyKind(IntEnum):  # noqa: N801
    cudaMemcpyDefault = 4


cudaHostRegisterPortable = 1


def cudaRuntimeGetVersion():
    found = ctypes.c_int()
    return cudaError_t(_runtime.cudaRuntimeGetVersion(ctypes.byref(found))), found.value


def cudaDeviceCanAccessPeer(gpu, other):
    found = ctypes.c_int()
    return cudaError_t(_runtime.cudaDeviceCanAccessPeer(ctypes.byref(found), gpu, other)), found.value


def cudaDeviceEnablePeerAccess(other, flags):
    return (cudaError_t(_runtime.cudaDeviceEnablePeerAccess(other, flags)),)


def cudaDeviceDisablePeerAccess(other):
    return (cudaError_t(_runtime.cudaDeviceDisablePeerAccess(other)),)


def cudaGetLastError():
    return (cudaError_t(_runtime.cudaGetLastError()),)


def cudaMemcpyPeerAsync(target, to, source, start, size_bytes, stream):
    call = _runtime.cudaMemcpyPeerAsync
    sizes = (ctypes.c_void_p(target), to, ctypes.c_void_p(source), start, ctypes.c_size_t(size_bytes))
    return (cudaError_t(call(*sizes, ctypes.c_void_p(int(stream)))),)


def cudaMemcpyAsync(target, source, size_bytes, kind, stream):
    sizes = (ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(size_bytes), int(kind))
    return (cudaError_t(_runtime.cudaMemcpyAsync(*sizes, ctypes.c_void_p(int(stream)))),)


def cudaHostRegister(start, size_bytes, flags):
    return (cudaError_t(_runtime.cudaHostRegister(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes), flags)),)


def cudaGetErrorString(code):
    text = _runtime.cudaGetErrorString
    text.restype = ctypes.c_char_p
    return cudaError_t.cudaSuccess, text(int(code))
