"""All queries of NVML, the NVIDIA driver's management library.

NVML answers "not supported" where others raise: `Nvml.ask` makes an `Unknown` of it. It shows all GPUs of the host,
numbered by PCI bus id, whatever CUDA_VISIBLE_DEVICES says (`visible_gpus` reads that).

References: NVML API reference; Multi-Instance GPU User Guide.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from resnetx.measure.machine.host_gpus import HostGpus
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
    """NVML, initialised; `module` replaces pynvml in tests. It stays open until the process ends."""
    if module is None:
        import pynvml  # type: ignore[import-untyped]

        module = pynvml
    nvml = Nvml(module)
    opened = nvml.ask("nvmlInit")
    return Unknown(f"no NVIDIA driver answers ({opened})") if isinstance(opened, Unknown) else nvml


def cuda_of_driver(module: Any = None) -> tuple[int, int] | None:
    """The newest CUDA whose programs the driver runs, as (13, 0); None where it does not tell."""
    nvml = open_nvml(module)
    version = nvml if isinstance(nvml, Unknown) else nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(version, Unknown):
        return None
    return version // 1000, version % 1000 // 10  # 13020 is 13.2


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
    """GPUs on NVSwitches that have not been initialised yet: CUDA does not start on them.

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


@dataclass(frozen=True)
class Found:
    """The GPU that CUDA computes on."""

    handle: Any  # of the whole GPU
    uuid: str  # as NVML writes it: "GPU-..."; "MIG-..." where CUDA was given an instance of a divided GPU
    divided: bool  # by MIG: others may compute on the rest of it


def found_by(uuid: str, nvml: Nvml) -> Found | Unknown:
    """The GPU with a UUID as CUDA reports it, without a prefix: of a GPU, or of a MIG instance.

    Indices cannot be used: CUDA's depend on CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, NVML's on neither.
    """
    handle = nvml.ask("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}")
    if not isinstance(handle, Unknown):
        mode = nvml.ask("nvmlDeviceGetMigMode", handle)  # now, and after a restart; unknown before Ampere
        return Found(handle, f"GPU-{uuid}", divided=not isinstance(mode, Unknown) and bool(mode[0]))
    instance = nvml.ask("nvmlDeviceGetHandleByUUID", f"MIG-{uuid}")
    if isinstance(instance, Unknown):
        return handle
    whole = nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", instance)
    return whole if isinstance(whole, Unknown) else Found(whole, f"MIG-{uuid}", divided=True)


def full_uuid(uuid: str, module: Any = None) -> str:
    """A UUID as CUDA reports it, with the prefix that shows its kind."""
    nvml = open_nvml(module)
    found = nvml if isinstance(nvml, Unknown) else found_by(uuid, nvml)
    return f"GPU-{uuid}" if isinstance(found, Unknown) else found.uuid


@cache  # without the driver's persistence mode, each query takes seconds
def present(module: Any = None) -> HostGpus:
    """The GPUs of the host that NVML shows; it is closed afterwards."""
    nvml = open_nvml(module)
    count = nvml if isinstance(nvml, Unknown) else nvml.ask("nvmlDeviceGetCount")
    if isinstance(nvml, Unknown) or isinstance(count, Unknown):
        return HostGpus(())
    handles = [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    uuids = [_uuid(nvml, handle) for handle in handles]
    instances = [_instances(nvml, handle) for handle in handles]
    nvml.ask("nvmlShutdown")
    return HostGpus(tuple(uuids), tuple(map(tuple, instances)))


def _uuid(nvml: Nvml, handle: Any) -> str:
    """ "" where it cannot be had, as of a GPU that has failed."""
    uuid = handle if isinstance(handle, Unknown) else nvml.ask("nvmlDeviceGetUUID", handle)
    return "" if isinstance(uuid, Unknown) else uuid


def _instances(nvml: Nvml, handle: Any) -> list[str]:
    """The UUIDs of the instances that MIG has made of a GPU; none where it is whole."""
    most = handle if isinstance(handle, Unknown) else nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    if isinstance(most, Unknown):
        return []
    found = [nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index) for index in range(most)]
    return [_uuid(nvml, instance) for instance in found if not isinstance(instance, Unknown)]
