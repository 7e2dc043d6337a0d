"""AMD SMI's readings of one GPU during the windows, under the names of NVML's readings in `sensors`.

None of this has run on an AMD machine yet: names and units are those of amdsmi 7.0.2.

Reference: AMD SMI Python API (ROCm documentation).
"""

from typing import Any

from resnetx.measure.machine.amd import AmdSmi, handles, open_amdsmi
from resnetx.measure.machine.readings import Counters, Sample, times
from resnetx.record import Unknown

_NOT_NVML = Unknown("AMD SMI has nothing like NVML's clock event reasons")
_NO_NVLINK = Unknown("AMD GPUs have no NVLink")


class AmdGpu:
    """One GPU of AMD SMI."""

    def __init__(self, smi: AmdSmi, handle: Any) -> None:
        self._smi, self._handle = smi, handle

    def sample(self) -> Sample:
        """The readings that change from moment to moment."""
        names, fact, handle = self._smi.module, self._smi.fact, self._handle
        hot = (names.AmdSmiTemperatureType.JUNCTION, names.AmdSmiTemperatureMetric.CURRENT)
        temperature = self._smi.ask("amdsmi_get_temp_metric", handle, *hot)
        return Sample(
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
        return step_uJ if isinstance(step_uJ, Unknown) else times(step_uJ * 1e-6, steps)

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
    smi = open_amdsmi(module)
    if isinstance(smi, Unknown):
        return smi
    found = handles(smi)
    if isinstance(found, Unknown):
        return found
    if not hasattr(properties, "pci_bus_id"):
        return Unknown("this torch does not report a GPU's PCI address, which AMD SMI needs")
    place = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}."
    here = [handle for address, handle in found.items() if address.startswith(place)]
    if len(here) != 1:  # a partitioned GPU shows as several
        return Unknown(f"AMD SMI shows {len(here)} GPUs at PCI address {place}*")
    return AmdGpu(smi, here[0])
