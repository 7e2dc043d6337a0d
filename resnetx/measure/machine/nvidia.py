"""The GPUs that the driver shows, who uses them, and how they are wired, whether the run uses them or not.

All of it comes from NVML, the wiring too, and not from `nvidia-smi`: no child process, and no text to parse. What a GPU
or a driver does not support is an `Unknown` with NVML's reason. Where torch is built for ROCm, AMD SMI takes NVML's
place (`amd`).

References: NVML API reference; nvidia-smi(1) for the words of its topology matrix.
"""

import ctypes
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from resnetx.host import kernel_file, kernel_text
from resnetx.measure.machine import amd
from resnetx.measure.machine.host_facts import HostGpus, run_pids
from resnetx.packages import hip_version
from resnetx.record import Gpu, GpuProcess, MemoryHealth, Unknown, known, of_known

# All queries of NVML, the NVIDIA driver's management library.
#
# NVML answers "not supported" where others raise: `Nvml.ask` makes an `Unknown` of it. It shows all GPUs of the host,
# numbered by PCI bus id, whatever CUDA_VISIBLE_DEVICES says (`gpus_here` reads that).
#
# References: NVML API reference; Multi-Instance GPU User Guide.


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
class FoundGraphics:
    """The GPU that CUDA computes on."""

    handle: Any  # of the whole GPU
    uuid: str  # as NVML writes it: "GPU-..."; "MIG-..." where CUDA was given an instance of a divided GPU
    divided: bool  # by MIG: others may compute on the rest of it


def found_by(uuid: str, nvml: Nvml) -> FoundGraphics | Unknown:
    """The GPU with a UUID as CUDA reports it, without a prefix: of a GPU, or of a MIG instance.

    Indices cannot be used: CUDA's depend on CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, NVML's on neither.
    """
    handle = nvml.ask("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}")
    if not isinstance(handle, Unknown):
        mode = nvml.ask("nvmlDeviceGetMigMode", handle)  # now, and after a restart; unknown before Ampere
        return FoundGraphics(handle, f"GPU-{uuid}", divided=not isinstance(mode, Unknown) and bool(mode[0]))
    instance = nvml.ask("nvmlDeviceGetHandleByUUID", f"MIG-{uuid}")
    if isinstance(instance, Unknown):
        return handle
    whole = nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", instance)
    return whole if isinstance(whole, Unknown) else FoundGraphics(whole, f"MIG-{uuid}", divided=True)


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


_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # the kernel's PROC_PID_INIT_INO

# nvmlGpuTopologyLevel_t: the nearest thing in common of two GPUs, from "same board" to "different CPU sockets".
_PCIE_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


@dataclass(frozen=True)
class Graphics:
    """The driver's part of `record.Environment`."""

    driver: str | Unknown
    gpus: list[Gpu] | Unknown
    gpu_processes: list[GpuProcess] | Unknown
    topology: str | Unknown
    topology_fingerprint: str | Unknown


def no_graphics(why: Unknown, driver: str | Unknown | None = None) -> Graphics:
    """A machine whose driver shows no GPU; `driver`: its version, where that is known all the same."""
    return Graphics(driver or why, why, why, why, why)


def graphics_here(module: Any = None) -> Graphics:
    """What the driver says of GPUs; `module` stands in for pynvml, or for amdsmi."""
    return _amd(module) if hip_version() else _nvidia(module)


def _amd(amdsmi: Any) -> Graphics:
    driver, opened = amd.driver_version(), amd.gpus_by_amdsmi(amdsmi)
    if isinstance(opened, Unknown):
        return no_graphics(opened, driver)
    smi, places = opened
    handles = list(places.values())
    gpus = [amd.gpu(smi, index, place, handle) for index, (place, handle) in enumerate(places.items())]
    wires = amd.wires(smi, handles)
    processes = _foreign(amd.processes(smi, handles))
    return Graphics(driver, gpus, processes, topology_text(gpus, wires), topology_fingerprint(gpus, wires))


def _nvidia(nvml: Any) -> Graphics:
    """The GPUs of this host by NVML, with their wiring and the processes of others on them."""
    opened = open_nvml(nvml)
    count = opened if isinstance(opened, Unknown) else opened.ask("nvmlDeviceGetCount")
    if isinstance(opened, Unknown) or isinstance(count, Unknown):
        return no_graphics(count)
    driver = opened.ask("nvmlSystemGetDriverVersion")
    answers = [(index, opened.ask("nvmlDeviceGetHandleByIndex", index)) for index in range(count)]
    handles = {index: handle for index, handle in answers if not isinstance(handle, Unknown)}  # a failed GPU has none
    if not handles:
        return no_graphics(Unknown("the driver shows no GPU"), driver)
    gpus = [_gpu(opened, index, handle) for index, handle in handles.items()]
    wires = _wires(opened, list(handles.values()))
    processes = _foreign(_processes(opened, handles))
    return Graphics(driver, gpus, processes, topology_text(gpus, wires), topology_fingerprint(gpus, wires))


def _gpu(nvml: Nvml, index: int, handle: Any) -> Gpu:
    ask = nvml.ask
    links = active_nvlinks(nvml, handle)
    return Gpu(
        index=index,
        name=ask("nvmlDeviceGetName", handle),
        uuid=ask("nvmlDeviceGetUUID", handle),
        pci_bus_id=of_known(lambda pci: pci.busId.lower(), ask("nvmlDeviceGetPciInfo", handle)),
        compute_capability=of_known(
            lambda version: ".".join(map(str, version)), ask("nvmlDeviceGetCudaComputeCapability", handle)
        ),
        memory_bytes=known(of_known(lambda memory: memory.total, ask("nvmlDeviceGetMemoryInfo", handle))),
        power_limit_W=known(of_known(lambda limit_mW: limit_mW / 1e3, ask("nvmlDeviceGetEnforcedPowerLimit", handle))),
        sm_clock_max_Hz=known(
            of_known(
                lambda clock_MHz: clock_MHz * 1e6, ask("nvmlDeviceGetMaxClockInfo", handle, nvml.module.NVML_CLOCK_SM)
            )
        ),
        ecc=known(of_known(lambda now_and_next: bool(now_and_next[0]), ask("nvmlDeviceGetEccMode", handle))),
        mig=known(of_known(lambda now_and_next: bool(now_and_next[0]), ask("nvmlDeviceGetMigMode", handle))),
        pcie_generation=known(ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)),  # an idle GPU lowers it
        pcie_generation_max=known(ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
        pcie_width=known(ask("nvmlDeviceGetCurrPcieLinkWidth", handle)),
        pcie_width_max=known(ask("nvmlDeviceGetMaxPcieLinkWidth", handle)),
        nvlinks_active=known(of_known(len, links)),
        memory_health=known(_memory_health(nvml, handle)),
    )


def _memory_health(nvml: Nvml, handle: Any) -> MemoryHealth | Unknown:
    """Errors of memory since the driver was loaded; rows are remapped from Ampere on."""
    names, errors = nvml.module, "nvmlDeviceGetTotalEccErrors"
    counted = [
        nvml.ask(errors, handle, kind, names.NVML_VOLATILE_ECC)
        for kind in (names.NVML_MEMORY_ERROR_TYPE_CORRECTED, names.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    ]
    rows = nvml.ask("nvmlDeviceGetRemappedRows", handle)  # (for corrected errors, for others, pending, failed)
    if isinstance(rows, Unknown) and all(isinstance(count, Unknown) for count in counted):
        return rows
    return MemoryHealth(
        ecc_corrected=known(counted[0]),
        ecc_uncorrected=known(counted[1]),
        remapped_rows=known(of_known(lambda each: each[0] + each[1], rows)),
        remapping_pending=known(of_known(lambda each: bool(each[2]), rows)),
        remapping_failed=known(of_known(lambda each: bool(each[3]), rows)),
    )


def _processes(nvml: Nvml, handles: Mapping[int, Any]) -> list[tuple[int, int, int | Unknown]] | Unknown:
    """(GPU, process id, bytes) of every process that computes on the GPUs, ours too."""
    found = []
    for gpu, handle in handles.items():
        processes = nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle)
        if isinstance(processes, Unknown):
            return processes
        for process in processes:
            memory = process.usedGpuMemory
            memory = Unknown("the driver does not report it") if memory is None else memory
            found.append((gpu, process.pid, memory))
    return found


def _foreign(processes: Sequence[tuple[int, int, int | Unknown]] | Unknown) -> list[GpuProcess] | Unknown:
    """The processes on GPUs that do not belong to this run."""
    if str(kernel_file("proc/self/ns/pid").readlink()) != _FIRST_PID_NAMESPACE:
        return Unknown("in this container process ids are not the host's, which the driver reports")
    if isinstance(processes, Unknown):
        return processes
    ours, gone = run_pids(), Unknown("it has ended, or /proc does not show it")
    return [
        GpuProcess(gpu=gpu, pid=pid, memory_bytes=known(memory), name=known(kernel_text(f"proc/{pid}/comm") or gone))
        for gpu, pid, memory in processes
        if pid not in ours
    ]


def _wires(nvml: Nvml, handles: list[Any]) -> list[list[str]]:
    """How each GPU reaches each other one, in the words of `nvidia-smi topo`: "X", "NV4", "PIX", "PXB", "SYS" ..."""
    buses = [of_known(lambda pci: pci.busId, nvml.ask("nvmlDeviceGetPciInfo", handle)) for handle in handles]
    far_ends = [_far_ends(nvml, handle) for handle in handles]

    def wire(one: int, other: int) -> str:
        if one == other:
            return "X"
        if direct := far_ends[one][buses[other]]:
            return f"NV{direct}"
        status = nvml.ask(
            "nvmlDeviceGetP2PStatus", handles[one], handles[other], nvml.module.NVML_P2P_CAPS_INDEX_NVLINK
        )
        if status == nvml.module.NVML_P2P_STATUS_OK:  # through NVSwitches: as wide as the narrower end
            return f"NV{min(far_ends[one].total(), far_ends[other].total())}"
        level = nvml.ask("nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other])
        return _PCIE_LEVELS.get(level, "N/A")

    return [[wire(one, other) for other in range(len(handles))] for one in range(len(handles))]


def _far_ends(nvml: Nvml, handle: Any) -> "Counter[str]":
    """PCI bus id of what is at the other end of each active NVLink -> number of links to it."""
    links = active_nvlinks(nvml, handle)
    if isinstance(links, Unknown):
        return Counter()
    ends = [nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link) for link in links]
    return Counter(str(of_known(lambda pci: pci.busId, end)) for end in ends)


def topology_text(gpus: list[Gpu], wires: list[list[str]]) -> str:
    """The matrix of `nvidia-smi topo -m`, without its rows for network adapters: GPUs, and the CPUs next to each."""
    names = [f"GPU{gpu.index}" for gpu in gpus]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for name, gpu, row in zip(names, gpus, wires, strict=True):
        # The kernel writes four digits less than NVML.
        device = kernel_file("sys/bus/pci/devices") / gpu.pci_bus_id[4:]
        near = [kernel_text(device / "local_cpulist") or "N/A", kernel_text(device / "numa_node") or "N/A"]
        lines.append("\t".join([name, *row, *near]))
    return "\n".join(lines)


def topology_fingerprint(gpus: list[Gpu], wires: list[list[str]]) -> str:
    """Equal on machines where GPUs of the same numbers are wired alike; it knows nothing of bus ids and GPU models."""
    slots = [[gpu.pcie_generation_max, gpu.pcie_width] for gpu in gpus]
    return hashlib.sha256(json.dumps([wires, slots]).encode()).hexdigest()[:12]


# ---- visible gpus ---------------------------------------------------------------------------------------------------
# The GPUs that a process on this machine can use: those of the host that CUDA_VISIBLE_DEVICES leaves it.
#
# Schedulers set the variable to numbers or to UUIDs, which may be cut short as long as they fit one GPU only. CUDA
# shows what stands before the first entry that names no GPU, and of the instances of divided GPUs (MIG) one at a time.
# ROCm has two such lists, one within the other.
#
# References: CUDA C++ Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User Guide; ROCm
# documentation, "GPU isolation techniques".


def gpus_here(module: Any = None) -> int:
    """GPUs that a run on this machine can use; 0 on a machine without any. Loads no torch; `module`: of `open_nvml`."""
    visible = _visible(module)
    return min(1, len(visible.uuids)) if visible.divided else len(visible.uuids)


def uuids_here(module: Any = None) -> tuple[str, ...]:
    """The UUIDs of the GPUs that a process on this machine can use, or of their instances."""
    return _visible(module).uuids


def _visible(module: Any) -> HostGpus:
    visible = _host(module)
    for name in _variables():
        visible = HostGpus(tuple(_shown(_words(name), visible)), visible.instances)
    return visible


def hidden_by_mistake(module: Any = None) -> str:
    """Why a variable hides all GPUs of this host although it names some, in one sentence; "" where none does.

    Without this a run would take CPUs instead. "", -1 and words that are no names of GPUs hide them on purpose.
    """
    visible = _host(module)
    for name in _variables():
        first, before = _words(name)[0], len(visible.uuids)
        visible = HostGpus(tuple(_shown(_words(name), visible)), visible.instances)
        if before and not visible.uuids:
            on_purpose = not first.isdecimal() and not first.startswith(("GPU-", "MIG-"))
            return "" if on_purpose else _mistaken(name, before)
    return ""


def _mistaken(name: str, count: int) -> str:
    lists = "rocminfo" if hip_version() else "nvidia-smi -L"
    return (
        f"{name}={os.environ[name]} selects none of this machine's {count} GPU{'s' * (count > 1)} (numbers from 0, or "
        f"UUIDs: {lists} lists them); name some of them without repetition, or set it to -1 to use CPUs"
    )


def _host(module: Any) -> HostGpus:
    return amd.present() if hip_version() else present(module)


def _variables() -> list[str]:
    """The variables that are set and count, each for what the one before it left."""
    if not hip_version():
        return ["CUDA_VISIBLE_DEVICES"] if "CUDA_VISIBLE_DEVICES" in os.environ else []
    of_hip = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in os.environ]
    return ["ROCR_VISIBLE_DEVICES"] * ("ROCR_VISIBLE_DEVICES" in os.environ) + of_hip[:1]


def _words(variable: str) -> list[str]:
    return [name.strip() for name in os.environ[variable].split(",")]


def _shown(names: Sequence[str], host: HostGpus) -> list[str]:
    """The UUIDs that CUDA shows of a list: up to the first that names no GPU; none where one is named twice."""
    found: list[str] = []
    for name in names:
        uuid = host.named(name)
        if uuid is None:
            break
        if uuid in found:
            return []
        found.append(uuid)
        if uuid.startswith("MIG-"):
            return found[: max(1, len(found) - 1)]
    return found
