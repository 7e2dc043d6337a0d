"""NVML, the driver's library that knows of GPUs what CUDA does not tell: asked here, and nowhere else directly.

NVML answers "not supported" where others raise: `Nvml.ask` makes an `Unknown` of it. It shows all GPUs of the host,
numbered by PCI bus id, whatever CUDA_VISIBLE_DEVICES says.

References: NVML API reference; CUDA C++ Programming Guide, "CUDA Environment Variables".
"""

import ctypes
import os
from functools import cache
from itertools import takewhile
from typing import Any

from resnetx.record import Unknown


class Nvml:
    """NVML, for which "not supported" is an answer: `ask` gives what a call returns, or `Unknown` with the reason."""

    def __init__(self, module: Any) -> None:
        self.module = module  # pynvml: functions and constants by their C names

    def ask(self, call: str, *arguments: Any) -> Any:
        try:
            return getattr(self.module, call)(*arguments)
        except self.module.NVMLError as error:
            return Unknown(f"{call}: {error}")


def open_nvml(module: Any = None) -> Nvml | Unknown:
    """NVML, ready to be asked; `module` stands in for pynvml. It stays open until the process ends."""
    if module is None:
        import pynvml  # type: ignore[import-untyped]

        module = pynvml
    nvml = Nvml(module)
    opened = nvml.ask("nvmlInit")
    return Unknown(f"no NVIDIA driver answers ({opened})") if isinstance(opened, Unknown) else nvml


def active_nvlinks(nvml: Nvml, handle: Any) -> list[int] | Unknown:
    """The numbers of a GPU's NVLinks that are up."""
    active: list[int] = []
    for link in range(nvml.module.NVML_NVLINK_MAX_LINKS):
        state = nvml.ask("nvmlDeviceGetNvLinkState", handle, link)
        if isinstance(state, Unknown):  # behind its last link; or, at link 0, a GPU without any
            return active if link else state
        if state == nvml.module.NVML_FEATURE_ENABLED:
            active.append(link)
    return active


def fabric_not_ready(module: Any = None) -> list[int]:
    """GPUs that reach others through NVSwitches which nobody has set up yet: CUDA does not start on them.

    The fabric manager does that when the machine boots (Fabric Manager User Guide). Drivers before R535 do not tell.
    """
    nvml = open_nvml(module)
    count = nvml if isinstance(nvml, Unknown) else nvml.ask("nvmlDeviceGetCount")
    if isinstance(nvml, Unknown) or isinstance(count, Unknown):
        return []
    names, found = nvml.module, []
    for index in range(count):
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        info = names.c_nvmlGpuFabricInfoV_t()
        if isinstance(handle, Unknown) or isinstance(
            nvml.ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info)), Unknown
        ):
            continue
        if info.state in (names.NVML_GPU_FABRIC_STATE_NOT_STARTED, names.NVML_GPU_FABRIC_STATE_IN_PROGRESS):
            found.append(index)
    return found


def gpus_here(module: Any = None) -> int:
    """GPUs that a run on this machine can use; 0 on a machine without any. Loads no torch."""
    present, visible = _present(module), os.environ.get("CUDA_VISIBLE_DEVICES")
    return present if visible is None else min(present, _visible(visible, present))


@cache  # without the driver's persistence mode, each asking takes seconds
def _present(module: Any) -> int:
    """GPUs of the host."""
    nvml = open_nvml(module)
    if isinstance(nvml, Unknown):
        return 0
    present = nvml.ask("nvmlDeviceGetCount")
    nvml.ask("nvmlShutdown")
    return 0 if isinstance(present, Unknown) else present


def _visible(names: str, present: int) -> int:
    """GPUs that CUDA shows of a list of numbers, or of UUIDs: the first that is invalid, as -1 and "" are, ends it."""

    def valid(name: str) -> bool:
        return int(name) < present if name.isdecimal() else name.startswith(("GPU-", "MIG-"))

    return len(list(takewhile(valid, (name.strip() for name in names.split(",")))))
