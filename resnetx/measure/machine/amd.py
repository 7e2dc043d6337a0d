"""AMD GPUs: all queries of AMD SMI, the driver's library, and the kernel's own list of GPUs.

AMD SMI raises where it has no answer, or says "N/A": `AmdSmi.ask` and `AmdSmi.fact` make an `Unknown` of both. It knows
GPUs by their PCI addresses, as the kernel and HIP do; HIP's own numbers and UUIDs are different from AMD SMI's.

None of this has run on an AMD machine yet: names and units are those of amdsmi 7.0.2.

References: AMD SMI Python API (ROCm documentation); Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from resnetx.host import kernel_file, kernel_text
from resnetx.measure.machine.host_facts import HostGpus
from resnetx.measure.machine.readings import Counters, SensorSample, times
from resnetx.record import Gpu, Unknown, known, of_known

_KFD = "sys/class/kfd/kfd/topology/nodes"  # of the kernel's driver for computing: CPUs and GPUs


class AmdSmi:
    """AMD SMI, for which "not supported" is an answer."""

    def __init__(self, module: Any) -> None:
        self.module = module  # the module amdsmi

    def ask(self, call: str, *arguments: Any) -> Any:
        """What a call returns, or `Unknown` with the reason; functions come and go with versions of the package."""
        function = getattr(self.module, call, None)
        if function is None:
            return Unknown(f"{call}: not in this version of amdsmi")
        try:
            return function(*arguments)
        except self.module.AmdSmiException as error:
            return Unknown(f"{call}: {' '.join(str(error).split())}")

    def fact(self, name: str, call: str, *arguments: Any) -> Any:
        """One entry of what a call returns; names parted by dots lead into entries of entries."""
        answer = self.ask(call, *arguments)
        for part in name.split("."):
            if isinstance(answer, Unknown):
                return answer
            answer = answer.get(part, "N/A")
        return Unknown(f"{call}: {name} is not reported") if answer in ("N/A", "") else answer


def open_amdsmi(module: Any = None) -> AmdSmi | Unknown:
    """AMD SMI, initialised; `module` replaces amdsmi in tests. It stays open until the process ends."""
    if module is None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints where it finds no library
                import amdsmi
        except ModuleNotFoundError:
            return Unknown("amdsmi is not installed")
        except Exception as error:  # of ROCm's library below it, anything may be missing
            return Unknown(f"amdsmi does not load ({error})")
        module = amdsmi
    smi = AmdSmi(module)
    opened = smi.ask("amdsmi_init")
    return Unknown(f"no AMD driver answers ({opened})") if isinstance(opened, Unknown) else smi


def handles(smi: AmdSmi) -> dict[str, Any] | Unknown:
    """PCI address ("0000:c1:00.0") of each GPU -> its handle, in AMD SMI's order; one that has failed has none."""
    every = smi.ask("amdsmi_get_processor_handles")
    if isinstance(every, Unknown):
        return every
    places = [(smi.ask("amdsmi_get_gpu_device_bdf", handle), handle) for handle in every]
    return {place.lower(): handle for place, handle in places if not isinstance(place, Unknown)}


def driver_version() -> str | Unknown:
    """Of the kernel's amdgpu driver."""
    if not kernel_file("sys/module/amdgpu").exists():
        return Unknown("the kernel has not loaded amdgpu, AMD's driver")
    return kernel_text("sys/module/amdgpu/version") or f"amdgpu of {kernel_text('proc/sys/kernel/osrelease')}"


def present() -> HostGpus:
    """The GPUs that the kernel offers for computing, which needs no library. Those of a control group alone, in one."""
    nodes = sorted(kernel_file(_KFD).glob("[0-9]*"), key=lambda folder: int(folder.name))
    no_gpu = ("", "0")  # one that may not be used, and cannot be read; a CPU
    gpus = [node for node in nodes if kernel_text(node / "gpu_id") not in no_gpu]
    return HostGpus(tuple(_uuid(kernel_text(node / "properties")) for node in gpus))


def _uuid(properties: str) -> str:
    """ "GPU-" and sixteen hexadecimal digits, as ROCR_VISIBLE_DEVICES takes it; "" of a GPU that has no number."""
    facts = dict(line.split(maxsplit=1) for line in properties.splitlines() if " " in line)
    number = int(facts.get("unique_id", "0"))
    return f"GPU-{number:016x}" if number else ""


# AMD's GPUs as `record.Environment` has them, who uses them, and how they are wired. All of it comes from AMD SMI.

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
        memory_bytes=known(of_known(lambda MB: MB * _MB, memory)),
        power_limit_W=known(of_known(lambda uW: uW / 1e6, limit_uW)),
        sm_clock_max_Hz=known(of_known(lambda MHz: MHz * 1e6, clock_MHz)),
        ecc=known(of_known(bool, smi.ask("amdsmi_get_gpu_ecc_enabled", handle))),  # a bit for each block that has it
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


def _text(answer: Any, otherwise: str) -> str:
    return otherwise if isinstance(answer, Unknown) else str(answer)


# AMD SMI's readings of one GPU during the windows, under the names of NVML's readings in `sensors`.

_NOT_NVML = Unknown("AMD SMI has nothing like NVML's clock event reasons")
_NO_NVLINK = Unknown("AMD GPUs have no NVLink")


class AmdGpu:
    """One GPU of AMD SMI."""

    def __init__(self, smi: AmdSmi, handle: Any) -> None:
        self._smi, self._handle = smi, handle

    def sample(self) -> SensorSample:
        """The readings that change from moment to moment."""
        names, fact, handle = self._smi.module, self._smi.fact, self._handle
        hot = (names.AmdSmiTemperatureType.JUNCTION, names.AmdSmiTemperatureMetric.CURRENT)
        temperature = self._smi.ask("amdsmi_get_temp_metric", handle, *hot)
        return SensorSample(
            sm_clock_Hz=times(1e6, fact("clk", "amdsmi_get_clock_info", handle, names.AmdSmiClkType.GFX)),
            power_W=times(1.0, self._power_W()),
            temperature_C=times(1.0, temperature),
            busy=times(0.01, fact("gfx_activity", "amdsmi_get_gpu_activity", handle)),
            throttle_reasons=_NOT_NVML,
        )

    def _power_W(self) -> int | Unknown:
        """The power of this instant (from MI300 on), or a mean of the last moments."""
        found: list[int | Unknown] = [
            self._smi.fact(f"{kind}_socket_power", "amdsmi_get_power_info", self._handle)
            for kind in ("current", "average")
        ]
        return next((power for power in found if not isinstance(power, Unknown)), found[0])

    def energy_J(self) -> float | Unknown:
        """What the GPU has used since some moment."""
        steps = self._smi.fact("energy_accumulator", "amdsmi_get_energy_count", self._handle)
        step_uJ = self._smi.fact("counter_resolution", "amdsmi_get_energy_count", self._handle)
        return of_known(lambda step, count: step * 1e-6 * count, step_uJ, steps)

    def counters(self) -> Counters:
        """The readings of links that only count up."""
        return Counters(
            pcie_replays=self._smi.fact("pcie_metric.pcie_replay_count", "amdsmi_get_pcie_info", self._handle),
            nvlink_errors=_NO_NVLINK,
            nvlink_sent_bytes=_NO_NVLINK,
            nvlink_received_bytes=_NO_NVLINK,
        )


def amd_gpu(properties: Any, module: Any = None) -> AmdGpu | Unknown:
    """The GPU with these properties, as torch gives them; `module` stands in for amdsmi."""
    opened = gpus_by_amdsmi(module)
    if isinstance(opened, Unknown):
        return opened
    smi, found = opened
    if not hasattr(properties, "pci_bus_id"):
        return Unknown("this torch does not report a GPU's PCI address, which AMD SMI needs")
    place = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}."
    here = [handle for address, handle in found.items() if address.startswith(place)]
    if len(here) != 1:  # a partitioned GPU shows as several
        return Unknown(f"AMD SMI shows {len(here)} GPUs at PCI address {place}*")
    return AmdGpu(smi, here[0])
