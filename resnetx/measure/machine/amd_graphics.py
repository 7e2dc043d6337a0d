"""AMD's GPUs as `record.Environment` has them, who uses them, and how they are wired. All of it comes from AMD SMI.

None of this has run on an AMD machine yet: names and units are those of amdsmi 7.0.2.

Reference: AMD SMI Python API (ROCm documentation).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from resnetx.measure.machine.amd import AmdSmi, driver_version, handles, open_amdsmi
from resnetx.record import Gpu, Unknown, known

_MB = 2**20  # AMD SMI's MB of memory
_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}  # of PCIe, by million transfers in a second


def gpus_by_amdsmi(module: Any = None) -> tuple[AmdSmi, dict[str, Any]] | Unknown:
    """AMD SMI, and the handle of each GPU by its PCI address; `module` stands in for amdsmi."""
    smi = open_amdsmi(module)
    if isinstance(smi, Unknown):
        return smi
    found = handles(smi)
    if isinstance(found, Unknown):
        return found
    return (smi, found) if found else Unknown(f"AMD SMI shows no GPU (driver: {driver_version()})")


def gpu(smi: AmdSmi, index: int, place: str, handle: Any) -> Gpu:
    """One GPU."""
    asic, pcie = "amdsmi_get_gpu_asic_info", "amdsmi_get_pcie_info"
    memory = smi.fact("vram_size", "amdsmi_get_gpu_vram_info", handle)
    limit_uW = smi.fact("power_cap", "amdsmi_get_power_cap_info", handle)
    clock_MHz = smi.fact("max_clk", "amdsmi_get_clock_info", handle, smi.module.AmdSmiClkType.GFX)
    return Gpu(
        index=index,
        name=_text(smi.fact("market_name", asic, handle), "AMD GPU without a name"),
        uuid=_text(smi.ask("amdsmi_get_gpu_device_uuid", handle), ""),
        pci_bus_id=f"0000{place}",  # with a domain of eight digits, as NVML has it
        compute_capability=_text(smi.fact("target_graphics_version", asic, handle), ""),  # "gfx942"
        memory_bytes=known(_then(memory, lambda MB: MB * _MB)),
        power_limit_W=known(_then(limit_uW, lambda uW: uW / 1e6)),
        sm_clock_max_Hz=known(_then(clock_MHz, lambda MHz: MHz * 1e6)),
        ecc=known(_then(smi.ask("amdsmi_get_gpu_ecc_enabled", handle), bool)),  # a bit for each block that has it
        mig=known(Unknown("AMD GPUs have no MIG")),
        pcie_generation=known(_generation(smi.fact("pcie_metric.pcie_speed", pcie, handle))),
        pcie_generation_max=known(_generation(smi.fact("pcie_static.max_pcie_speed", pcie, handle))),
        pcie_width=known(smi.fact("pcie_metric.pcie_width", pcie, handle)),
        pcie_width_max=known(smi.fact("pcie_static.max_pcie_width", pcie, handle)),
        nvlinks_active=known(Unknown("AMD GPUs have no NVLink; the topology shows XGMI")),
        memory_health=known(Unknown("not asked of AMD GPUs")),
    )


def processes(smi: AmdSmi, gpus: Sequence[Any]) -> list[tuple[int, int, int]] | Unknown:
    """(GPU, process id, bytes) of every process on the GPUs, ours too."""
    found = []
    for index, handle in enumerate(gpus):
        here = smi.ask("amdsmi_get_gpu_process_list", handle)
        if isinstance(here, Unknown):
            return here
        if not all(isinstance(process, Mapping) for process in here):
            return Unknown("this amdsmi is too old to describe processes")
        found += [(index, process["pid"], process["memory_usage"]["vram_mem"]) for process in here]
    return found


def wires(smi: AmdSmi, gpus: Sequence[Any]) -> list[list[str]]:
    """How each GPU reaches each other one: "X", "XGMI 50 GB/s", "PCIE", and "2 hops" where there is something between.

    The rate is that of the link at its best, as AMD SMI tells it.
    """
    kinds = smi.module.AmdSmiLinkType

    def wire(one: int, other: int) -> str:
        if one == other:
            return "X"
        link = smi.ask("amdsmi_topo_get_link_type", gpus[one], gpus[other])
        if isinstance(link, Unknown):
            return "N/A"
        if link["type"] == kinds.AMDSMI_LINK_TYPE_PCIE:
            return f"PCIE {link['hops']} hops"
        if link["type"] != kinds.AMDSMI_LINK_TYPE_XGMI:
            return "N/A"
        rate_MBps = smi.fact("max_bandwidth", "amdsmi_get_minmax_bandwidth_between_processors", gpus[one], gpus[other])
        rate = "" if isinstance(rate_MBps, Unknown) or not rate_MBps else f" {rate_MBps / 1000:g} GB/s"
        return f"XGMI{rate}" + f" {link['hops']} hops" * bool(link["hops"] > 1)

    return [[wire(one, other) for other in range(len(gpus))] for one in range(len(gpus))]


def direct_links(module: Any = None) -> list[tuple[str, str]]:
    """The pairs of GPUs, by their addresses, with an XGMI link of their own: those of the least weight, 15 a link.

    AMD SMI says XGMI, one hop, also of GPUs that reach each other through others (ROCm/rocm-systems issue 5763).
    """
    opened = gpus_by_amdsmi(module)
    if isinstance(opened, Unknown):
        return []
    smi, places = opened
    weights: dict[tuple[str, str], int] = {}
    for one, other in combinations(places, 2):
        kind = smi.fact("type", "amdsmi_topo_get_link_type", places[one], places[other])
        weight = smi.ask("amdsmi_topo_get_link_weight", places[one], places[other])
        if kind == smi.module.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI and not isinstance(weight, Unknown):
            weights[one, other] = weight
    return [pair for pair, weight in weights.items() if weight == min(weights.values())]


def pcie_replays(module: Any = None) -> dict[str, int | Unknown]:
    """Replays that PCIe has counted, by the address of each GPU."""
    opened = gpus_by_amdsmi(module)
    if isinstance(opened, Unknown):
        return {}
    smi, places = opened
    name, call = "pcie_metric.pcie_replay_count", "amdsmi_get_pcie_info"
    return {place: smi.fact(name, call, handle) for place, handle in places.items()}


def _generation(speed: int | Unknown) -> int | Unknown:
    return speed if isinstance(speed, Unknown) else _GENERATIONS.get(speed, Unknown(f"{speed} MT/s is not a PCIe rate"))


def _then(answer: Any, convert: Callable[[Any], Any]) -> Any:
    return answer if isinstance(answer, Unknown) else convert(answer)


def _text(answer: Any, otherwise: str) -> str:
    return otherwise if isinstance(answer, Unknown) else str(answer)
