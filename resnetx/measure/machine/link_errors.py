"""Links of GPUs and network cards now against what is possible, and the errors that they have counted.

NVML counts replays of PCIe, and for each NVLink the checksums that failed and what was sent again. A link that is
narrower than it can be is a card in the wrong slot, or one that does not sit well; a GPU at rest lowers its generation.

Reference: NVML API reference, nvmlDeviceGetPcieReplayCounter and nvmlDeviceGetNvLinkErrorCounter.
"""

from collections.abc import Callable, Sequence
from typing import Any

from resnetx.measure.machine import amd_graphics
from resnetx.measure.machine.nvml import Nvml, active_nvlinks, open_nvml
from resnetx.measure.machine.pci_devices import PciDevice
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
