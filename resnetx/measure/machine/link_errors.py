"""Links of GPUs and network cards now against what is possible, and the errors that they have counted.

NVML counts replays of PCIe, and for each NVLink the checksums that failed and what was sent again. A link that is
narrower than it can be is a card in the wrong slot, or one that does not sit well; a GPU at rest lowers its generation.
While a run is on, `ErrorWatch` hears of the errors of its GPUs as the driver reports them.

References: NVML API reference, nvmlDeviceGetPcieReplayCounter, nvmlDeviceGetNvLinkErrorCounter and nvmlEventSetWait;
NVIDIA, Xid Errors (docs.nvidia.com/deploy/xid-errors).
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from resnetx.measure.machine import amd_graphics
from resnetx.measure.machine.nvml import Nvml, active_nvlinks, open_nvml
from resnetx.measure.machine.pci_devices import PciDevice
from resnetx.measure.machine.visible_gpus import uuids_here
from resnetx.packages import hip_version
from resnetx.record import Gpu, Unknown, known
from resnetx.record.topology import DeviceLink, NvlinkErrors
from resnetx.record.unknown import seal

MOST_NVLINKS_LISTED = 64


def gpu_links(gpus: Sequence[Gpu], module: Any = None) -> list[DeviceLink]:
    """One for each GPU; `module` stands in for pynvml."""
    counted = _by_amd_smi(module) if hip_version() else _by_nvml(module)
    return [_gpu_link(place, gpu, *counted(gpu)) for place, gpu in enumerate(gpus)]


def card_links(devices: Sequence[PciDevice]) -> list[DeviceLink]:
    """One for each network card that is a PCI device."""
    cards = [device for device in devices if device.kind == "nic"]
    return [_card_link(place, card) for place, card in enumerate(cards)]


Counted = Callable[[Gpu], tuple[Any, Any]]  # (replays of PCIe, errors of each NVLink) of a GPU


def _by_amd_smi(module: Any) -> Counted:
    replays, why = amd_graphics.pcie_replays(module), Unknown("AMD SMI does not tell it of this GPU")
    no_links = Unknown("AMD GPUs have no NVLink, and AMD SMI counts no errors of a link of XGMI")
    return lambda gpu: (replays.get(gpu.pci_bus_id[4:], why), no_links)


def _by_nvml(module: Any) -> Counted:
    nvml = open_nvml(module)

    def counted(gpu: Gpu) -> tuple[Any, Any]:
        handle = nvml if isinstance(nvml, Unknown) else nvml.ask("nvmlDeviceGetHandleByIndex", gpu.index)
        if isinstance(nvml, Unknown) or isinstance(handle, Unknown):
            return handle, handle
        return nvml.ask("nvmlDeviceGetPcieReplayCounter", handle), _nvlink_errors(nvml, handle)

    return counted


def _gpu_link(place: int, gpu: Gpu, replays: Any, links: Any) -> DeviceLink:
    return _device_link(
        f"gpu{place}",
        gpu.name,
        gpu.pci_bus_id,
        (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width, gpu.pcie_width_max),
        Unknown("the driver does not tell it of this GPU"),
        replays=replays,
        speed_Bps=Unknown("a GPU is no network card"),
        nvlinks=links,
    )


def _card_link(place: int, card: PciDevice) -> DeviceLink:
    return _device_link(
        f"nic{place}",
        card.label,
        card.address,
        (card.generation, card.generation_max, card.lanes, card.lanes_max),
        Unknown("the kernel does not tell it of this card"),
        replays=Unknown("the kernel counts no replays"),
        speed_Bps=_or(card.speed_Bps, Unknown("it is down, or has no speed (a virtual card)")),
        nvlinks=Unknown("a network card has no NVLink"),
    )


def _device_link(
    device: str,
    name: str,
    address: str,
    pcie: tuple[Any, Any, Any, Any],
    why: Unknown,
    *,
    replays: Any,
    speed_Bps: Any,
    nvlinks: Any,
) -> DeviceLink:
    """`pcie`: generation and its maximum, lanes and their maximum; `why` one of them may not be known."""
    generation, generation_max, width, width_max = (known(_or(value, why)) for value in pcie)
    return seal(
        DeviceLink(
            device=device,
            name=name,
            pci_bus_id=address,
            pcie_generation=generation,
            pcie_generation_max=generation_max,
            pcie_width=width,
            pcie_width_max=width_max,
            pcie_replays=known(replays),
            speed_Bps=known(speed_Bps),
            nvlinks=known(nvlinks),
            unknown={},
        )
    )


def _nvlink_errors(nvml: Nvml, handle: Any) -> list[Any] | Unknown:
    """Of each NVLink that is up."""
    links = active_nvlinks(nvml, handle)
    if isinstance(links, Unknown):
        return links
    names = nvml.module
    kinds = [names.NVML_NVLINK_ERROR_DL_CRC_FLIT, names.NVML_NVLINK_ERROR_DL_CRC_DATA,
             names.NVML_NVLINK_ERROR_DL_REPLAY, names.NVML_NVLINK_ERROR_DL_RECOVERY]  # fmt: skip
    return [
        NvlinkErrors(link, *(known(nvml.ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, kind)) for kind in kinds))
        for link in links[:MOST_NVLINKS_LISTED]
    ]


def _or(value: Any, why: Unknown) -> Any:
    return why if value is None else value


# ---- while a run is on ----------------------------------------------------------------------------------------------

_XIDS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "GPU stopped processing",
    48: "double-bit ECC error",
    64: "row remapping failure",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP RPC timeout",
}
_CLEAN_UP = 45  # of a process that was killed, or that failed for another error: it explains nothing
_LAST_WAIT_MS = 200  # the driver may report an error a moment after it has ended a process
_WAIT_MS = 60_000
_MOST_TOLD = 8


class ErrorWatch:
    """Errors of this node's GPUs while a run is on, kept in a file as they are reported, one a line.

    Critical ones (Xid) are events, for which a thread waits without asking the GPU; those of NVLinks are counters, read
    at the start and by `finish`. GPUs are numbered as by nvidia-smi, and are those that the run can see: another job
    may use them, too. Where no NVIDIA driver answers, it does nothing.
    """

    def __init__(self, path: Path, module: Any = None) -> None:
        self._path, self._told = path, 0
        self._lock = threading.Lock()
        self._gpus: list[tuple[Any, Any]] = []  # number, handle
        uuids = [] if hip_version() else uuids_here(module)
        nvml = open_nvml(module) if uuids else Unknown("no GPU")
        if isinstance(nvml, Unknown):
            return
        self._nvml = nvml
        handles = [nvml.ask("nvmlDeviceGetHandleByUUID", uuid) for uuid in uuids if not uuid.startswith("MIG-")]
        found = [handle for handle in handles if not isinstance(handle, Unknown)]
        self._gpus = [(nvml.ask("nvmlDeviceGetIndex", handle), handle) for handle in found]
        self._before = [self._link_errors(handle) for _, handle in self._gpus]
        self._events = nvml.ask("nvmlEventSetCreate")
        if isinstance(self._events, Unknown):
            return
        xid = nvml.module.nvmlEventTypeXidCriticalError
        for _, handle in self._gpus:
            nvml.ask("nvmlDeviceRegisterEvents", handle, xid, self._events)
        threading.Thread(target=self._listen, name="resnetx-gpu-errors", daemon=True).start()

    def finish(self) -> None:
        """Tells what NVLinks have counted; to be called once, when a rank of the run has failed."""
        if not self._gpus:
            return
        if not isinstance(self._events, Unknown):
            for _ in range(_MOST_TOLD):  # until none comes for a while, in which the thread tells what it has taken
                if not self._take(_LAST_WAIT_MS):
                    break
        for (number, handle), before in zip(self._gpus, self._before, strict=True):
            if (count := self._link_errors(handle) - before) > 0:
                self._tell(f"GPU {number} counted {count} NVLink errors")

    def _listen(self) -> None:
        while self._take(_WAIT_MS) is not None:
            pass

    def _take(self, wait_ms: int) -> bool | None:
        """Waits for one event and tells it; False where none came, null where waiting makes no sense any more."""
        names = self._nvml.module
        try:
            event = names.nvmlEventSetWait_v2(self._events, wait_ms)
        except names.NVMLError as error:
            return False if error.value == names.NVML_ERROR_TIMEOUT else None
        if event.eventData != _CLEAN_UP:
            number = self._nvml.ask("nvmlDeviceGetIndex", event.device)
            meaning = _XIDS.get(event.eventData)
            self._tell(f"GPU {number} reported Xid {event.eventData}" + (f" ({meaning})" if meaning else ""))
        return True

    def _link_errors(self, handle: Any) -> int:
        links = _nvlink_errors(self._nvml, handle)
        if isinstance(links, Unknown):
            return 0
        return sum(
            count or 0 for link in links for count in (link.crc_flit, link.crc_data, link.replays, link.recoveries)
        )

    def _tell(self, line: str) -> None:
        with self._lock:
            self._told += 1
            if self._told <= _MOST_TOLD:
                with self._path.open("a") as file:
                    file.write(line + "\n")
