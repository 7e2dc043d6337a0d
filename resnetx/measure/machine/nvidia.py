"""The GPUs that the driver shows, who uses them, and how they are wired, whether the run uses them or not.

All of it comes from NVML, the wiring too, and not from `nvidia-smi`: no child process, and no text to parse. What a GPU
or a driver does not support is an `Unknown` with NVML's reason. Where torch is built for ROCm, AMD SMI takes NVML's
place (`amd_graphics`).

References: NVML API reference; nvidia-smi(1) for the words of its topology matrix.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resnetx.host import kernel_file, kernel_text
from resnetx.measure.machine import amd, amd_graphics
from resnetx.measure.machine.host_load import run_pids
from resnetx.measure.machine.nvml import Nvml, active_nvlinks, open_nvml
from resnetx.packages import hip_version
from resnetx.record import Gpu, GpuProcess, MemoryHealth, Unknown, known

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
    driver, opened = amd.driver_version(), amd_graphics.gpus_by_amdsmi(amdsmi)
    if isinstance(opened, Unknown):
        return no_graphics(opened, driver)
    smi, places = opened
    handles = list(places.values())
    gpus = [amd_graphics.gpu(smi, index, place, handle) for index, (place, handle) in enumerate(places.items())]
    wires = amd_graphics.wires(smi, handles)
    processes = _foreign(amd_graphics.processes(smi, handles))
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
        pci_bus_id=_then(ask("nvmlDeviceGetPciInfo", handle), lambda pci: pci.busId.lower()),
        compute_capability=_then(
            ask("nvmlDeviceGetCudaComputeCapability", handle), lambda version: ".".join(map(str, version))
        ),
        memory_bytes=known(_then(ask("nvmlDeviceGetMemoryInfo", handle), lambda memory: memory.total)),
        power_limit_W=known(_then(ask("nvmlDeviceGetEnforcedPowerLimit", handle), lambda limit_mW: limit_mW / 1e3)),
        sm_clock_max_Hz=known(
            _then(
                ask("nvmlDeviceGetMaxClockInfo", handle, nvml.module.NVML_CLOCK_SM), lambda clock_MHz: clock_MHz * 1e6
            )
        ),
        ecc=known(_then(ask("nvmlDeviceGetEccMode", handle), lambda modes: bool(modes[0]))),  # now, and after a restart
        mig=known(_then(ask("nvmlDeviceGetMigMode", handle), lambda modes: bool(modes[0]))),
        pcie_generation=known(ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)),  # an idle GPU lowers it
        pcie_generation_max=known(ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
        pcie_width=known(ask("nvmlDeviceGetCurrPcieLinkWidth", handle)),
        pcie_width_max=known(ask("nvmlDeviceGetMaxPcieLinkWidth", handle)),
        nvlinks_active=known(_then(links, len)),
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
        remapped_rows=known(_then(rows, lambda each: each[0] + each[1])),
        remapping_pending=known(_then(rows, lambda each: bool(each[2]))),
        remapping_failed=known(_then(rows, lambda each: bool(each[3]))),
    )


def _then(answer: Any, convert: Callable[[Any], Any]) -> Any:
    return answer if isinstance(answer, Unknown) else convert(answer)


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
    ours = run_pids()
    return [
        GpuProcess(gpu=gpu, pid=pid, memory_bytes=known(memory), name=known(_process_name(pid)))
        for gpu, pid, memory in processes
        if pid not in ours
    ]


def _process_name(pid: int) -> str | Unknown:
    return kernel_text(f"proc/{pid}/comm") or Unknown("it has ended, or /proc does not show it")


def _wires(nvml: Nvml, handles: list[Any]) -> list[list[str]]:
    """How each GPU reaches each other one, in the words of `nvidia-smi topo`: "X", "NV4", "PIX", "PXB", "SYS" ..."""
    buses = [_then(nvml.ask("nvmlDeviceGetPciInfo", handle), lambda pci: pci.busId) for handle in handles]
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
    return Counter(str(_then(end, lambda pci: pci.busId)) for end in ends)


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
