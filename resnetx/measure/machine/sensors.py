"""What the GPU, its links and the host's CPUs did during the windows, read beside the measurement.

What can only be sampled (clock, power, throttling) is sampled by one thread, ten times a second. What counts up by
itself (energy, link errors, CPU time) is read twice: before the first window and after the last. Where NVML has no
answer, the field says why, as an `Unknown`.

References: NVML API reference (clock event reasons; field values).
"""

import threading
import time
from itertools import pairwise
from typing import Any

from resnetx.measure.machine.amd_sensors import AmdGpu, amd_gpu
from resnetx.measure.machine.host_load import cpu_times, host_load
from resnetx.measure.machine.nvml import Nvml, active_nvlinks, found_by, open_nvml
from resnetx.packages import hip_version
from resnetx.record import Unknown

# NVML refreshes utilisation and power only every 0.02 to 1 s, depending on the GPU, and every call costs CPU time that
# launching kernels may need: more often than this buys little.
PERIOD_S = 0.1


class Sensors:
    """One rank's readings: `start` just before the first window, `stop` just after the last."""

    def __init__(self, devices: list[int] | None, rank: int, module: Any = None) -> None:
        """`devices`: torch's index of the rank's GPU as the only entry, or None on a CPU; `module`: a stand-in for
        pynvml, or for amdsmi."""
        self._rank = rank
        self._gpu = _find_gpu(devices, module)

    def start(self) -> None:
        if not isinstance(self._gpu, Unknown):
            self._counters = self._gpu.counters()
        self._cpus = cpu_times()
        self._started = time.perf_counter()
        if not isinstance(self._gpu, Unknown):
            self._sampler = _Sampler(self._gpu)
            self._sampler.start()

    def stop(self) -> dict[str, Any]:
        """`gpu_samples`, `link_counters` and `host_load` as a record has them."""
        if isinstance(self._gpu, Unknown):
            of_gpu: dict[str, Any] = {"gpu_samples": self._gpu, "link_counters": self._gpu}
        else:
            of_gpu = self._stop_gpu(self._gpu)
        return {**of_gpu, "host_load": host_load(self._cpus, cpu_times())}

    def _stop_gpu(self, gpu: "Gpu | AmdGpu") -> dict[str, Any]:
        counted = {name: _increase(now, self._counters[name]) for name, now in gpu.counters().items()}
        duration_s = time.perf_counter() - self._started
        columns = _columns(self._sampler.finish(), self._started)
        energy_J = counted.pop("energy_J")
        if isinstance(energy_J, Unknown) and not isinstance(columns["power_W"], Unknown):
            energy_J = _integral(columns["time_s"], columns["power_W"], duration_s)
        return {
            "gpu_samples": {"rank": self._rank, **columns, "energy_J": energy_J},
            "link_counters": {"rank": self._rank, **counted},
        }


# ---- one GPU --------------------------------------------------------------------------------------------------------

# How NVML counts what one NVLink did: (unit, names of its fields). The first choice that a GPU supports is taken: the
# second is for Blackwell, which dropped some of the first; GPUs up to Ampere number the fields by link.
_Choices = tuple[tuple[int, tuple[str, ...]], ...]
_NVLINK_FIELDS: dict[str, _Choices] = {
    "nvlink_errors": (
        (1, ("NVLINK_ERROR_DL_REPLAY", "NVLINK_ERROR_DL_RECOVERY", "NVLINK_ERROR_DL_CRC")),
        (1, ("NVLINK_COUNT_RCV_ERRORS", "NVLINK_COUNT_LINK_RECOVERY_EVENTS")),
        (1, ("NVLINK_REPLAY_ERROR_COUNT_L{link}", "NVLINK_RECOVERY_ERROR_COUNT_L{link}")),
    ),
    "nvlink_sent_bytes": ((1024, ("NVLINK_THROUGHPUT_DATA_TX",)), (1, ("NVLINK_COUNT_XMIT_BYTES",))),
    "nvlink_received_bytes": ((1024, ("NVLINK_THROUGHPUT_DATA_RX",)), (1, ("NVLINK_COUNT_RCV_BYTES",))),
}
_ALL_INSTANCES = Unknown("MIG divides this GPU, which only reports the power of all instances together")
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


class Gpu:
    """NVML's readings of one GPU."""

    def __init__(self, nvml: Nvml, handle: Any, divided: bool = False) -> None:
        """`divided`: by MIG, so that others may compute on it."""
        self._nvml = nvml
        self._handle = handle
        self._divided = divided
        self._nvlinks = active_nvlinks(nvml, handle)

    def sample(self) -> dict[str, Any]:
        """The readings that change from moment to moment."""
        ask, handle, names = self._nvml.ask, self._handle, self._nvml.module
        use = ask("nvmlDeviceGetUtilizationRates", handle)
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if isinstance(reasons, Unknown):  # drivers before R535 know it by its old name
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return {
            "sm_clock_Hz": _times(1e6, ask("nvmlDeviceGetClockInfo", handle, names.NVML_CLOCK_SM)),
            "power_W": _times(1e-3, self._power_mW()),
            "temperature_C": _times(1.0, ask("nvmlDeviceGetTemperature", handle, names.NVML_TEMPERATURE_GPU)),
            "busy": use if isinstance(use, Unknown) else use.gpu / 100,
            "throttle_reasons": reasons,
        }

    def _power_mW(self) -> int | Unknown:
        """The power of this instant; on GPUs that do not tell it, what they call the usage.

        That is the mean of the last second from Ampere on (GA100 excepted): in short windows, of the warm-up.
        """
        if self._divided:
            return _ALL_INSTANCES
        instant = self._field("POWER_INSTANT", 0)
        if not isinstance(instant, Unknown):
            return instant
        usage: int | Unknown = self._nvml.ask("nvmlDeviceGetPowerUsage", self._handle)
        return usage

    def counters(self) -> dict[str, Any]:
        """The readings that only count up."""
        energy_mJ = self._nvml.ask("nvmlDeviceGetTotalEnergyConsumption", self._handle)
        return {
            "energy_J": _ALL_INSTANCES if self._divided else _times(1e-3, energy_mJ),
            "pcie_replays": self._nvml.ask("nvmlDeviceGetPcieReplayCounter", self._handle),
            **{name: self._over_nvlinks(choices) for name, choices in _NVLINK_FIELDS.items()},
        }

    def _over_nvlinks(self, choices: _Choices) -> int | Unknown:
        """The sum of a counter over all active links."""
        if isinstance(self._nvlinks, Unknown):
            return self._nvlinks
        if not self._nvlinks:
            return Unknown("no NVLink of this GPU is up")
        for unit, names in choices:
            values = [self._field(name, link) for name in names for link in self._nvlinks]
            known = [value for value in values if not isinstance(value, Unknown)]
            if len(known) == len(values):
                return unit * sum(known)
        return next(value for value in values if isinstance(value, Unknown))

    def _field(self, name: str, link: int) -> int | Unknown:
        nvml = self._nvml.module
        field = getattr(nvml, f"NVML_FI_DEV_{name.format(link=link)}", None)
        if field is None:
            return Unknown(f"{name}: not in this version of nvidia-ml-py for link {link}")
        answer = self._nvml.ask("nvmlDeviceGetFieldValues", self._handle, [(field, link)])
        if isinstance(answer, Unknown):
            return answer
        if answer[0].nvmlReturn != nvml.NVML_SUCCESS:
            return Unknown(f"{name}: {nvml.NVMLError(answer[0].nvmlReturn)}")
        return int(getattr(answer[0].value, _VALUE_MEMBERS[answer[0].valueType]))


def _find_gpu(devices: list[int] | None, module: Any) -> Gpu | AmdGpu | Unknown:
    """The GPU that torch calls `devices[0]`. NVML numbers GPUs in its own way and does not see CUDA_VISIBLE_DEVICES."""
    if devices is None:
        return Unknown("the run uses no GPU")
    import torch

    (device,) = devices
    if hip_version():
        return amd_gpu(torch.cuda.get_device_properties(device), module)
    nvml = open_nvml(module)
    if isinstance(nvml, Unknown):
        return nvml
    found = found_by(str(torch.cuda.get_device_properties(device).uuid), nvml)
    return found if isinstance(found, Unknown) else Gpu(nvml, found.handle, found.divided)


class _Sampler(threading.Thread):
    """Samples one GPU from its start until `finish`."""

    def __init__(self, gpu: Gpu | AmdGpu) -> None:
        super().__init__(name="resnetx-sensors", daemon=True)
        self._gpu = gpu
        self._samples: list[tuple[float, dict[str, Any]]] = []
        self._finished = threading.Event()

    def run(self) -> None:
        while True:
            self._samples.append((time.perf_counter(), self._gpu.sample()))
            if self._finished.wait(PERIOD_S):
                return

    def finish(self) -> list[tuple[float, dict[str, Any]]]:
        """The samples, each with its time (of `perf_counter`)."""
        self._finished.set()
        self.join()
        return self._samples


def _columns(samples: list[tuple[float, dict[str, Any]]], start: float) -> dict[str, Any]:
    """One list per reading. A reading that the GPU never gives is `Unknown`; a sample that lacks another is dropped."""
    first = samples[0][1]
    given = [name for name, value in first.items() if not isinstance(value, Unknown)]
    whole = [(at, sample) for at, sample in samples if not any(isinstance(sample[name], Unknown) for name in given)]
    return {
        "time_s": [at - start for at, _ in whole],
        **{name: [sample[name] for _, sample in whole] if name in given else first[name] for name in first},
    }


def _integral(times_s: list[float], values: list[float], end_s: float) -> float:
    """The integral from 0 to `end_s` of values that each hold until the next one's time."""
    edges = pairwise([0.0, *times_s[1:], end_s])
    return sum(value * (after - before) for value, (before, after) in zip(values, edges, strict=True))


def _times(factor: float, value: Any) -> Any:
    return value if isinstance(value, Unknown) else value * factor


def _increase(now: Any, before: Any) -> Any:
    for value in (now, before):
        if isinstance(value, Unknown):
            return value
    return now - before if now >= before else Unknown("the counter started again in between")
