"""What the GPU, its links and the host's CPUs did during the windows, read beside the measurement.

What can only be sampled (clock, power, throttling) is sampled by one thread, ten times a second, in every second
window: the others show whether that slows a step down. What counts up by itself (energy, link errors, CPU time) is read
twice: before the first window and after the last. Where NVML has no answer, the field says why, as an `Unknown`.

References: NVML API reference (clock event reasons; field values).
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from typing import Any

from resnetx.measure.machine.amd import AmdGpu, amd_gpu
from resnetx.measure.machine.host_facts import cpu_times, host_load
from resnetx.measure.machine.nvidia import Nvml, active_nvlinks, found_by, open_nvml
from resnetx.measure.machine.readings import Counters, Number, Readings, SensorSample, increase, times
from resnetx.packages import hip_version
from resnetx.record import GpuSamples, LinkCounters, Unknown, known, of_known

# NVML refreshes utilisation and power only every 0.02 to 1 s, depending on the GPU, and every call costs CPU time that
# launching kernels may need: more often than this buys little.
PERIOD_S = 0.1


@dataclass(frozen=True)
class GpuTraffic:
    """Bytes that a GPU has (sent, received) so far."""

    nvlink: tuple[int, int] | Unknown
    pcie: tuple[int, int] | Unknown


def gpu_traffic(gpu: int) -> GpuTraffic | Unknown:
    """The byte counters of the GPU that torch gives this number."""
    found = _find_gpu([gpu])
    if isinstance(found, NvmlGpu):
        return found.traffic()
    return found if isinstance(found, Unknown) else Unknown("traffic of AMD GPUs is not counted")


class Sensors:
    """One rank's readings: `start` just before the first window, `stop` just after the last."""

    def __init__(self, devices: list[int] | None, rank: int, module: Any = None) -> None:
        """`devices`: torch's index of the rank's GPU as the only entry, or None on a CPU; `module`: a stand-in for
        pynvml, or for amdsmi."""
        self._rank = rank
        self._gpu = _find_gpu(devices, module)

    def start(self) -> None:
        """Reads what counts up; the energy last, so that no reading of links, in which the GPU idles, is in it."""
        if isinstance(self._gpu, Unknown):
            self._cpus = cpu_times()
            return
        self._counters, self._cpus = self._gpu.counters(), cpu_times()
        self._taken: list[list[tuple[float, SensorSample]]] = []  # of each time that it was sampled
        self._started, self._energy_J = time.perf_counter(), self._gpu.energy_J()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Samples the GPU as long as the block lasts."""
        if isinstance(self._gpu, Unknown):
            yield
            return
        sampler = _Sampler(self._gpu)
        sampler.start()
        try:
            yield
        finally:
            self._taken.append(sampler.finish())

    def stop(self) -> Readings:
        """What was read; its structs are yet to be sealed."""
        if isinstance(self._gpu, Unknown):
            return Readings(self._gpu, self._gpu, host_load(self._cpus, cpu_times()))
        taken = [*chain(*self._taken)] or [(time.perf_counter(), self._gpu.sample())]
        energy_J = increase(self._gpu.energy_J(), self._energy_J)
        duration_s, load = time.perf_counter() - self._started, host_load(self._cpus, cpu_times())
        samples = _gpu_samples(self._rank, taken, self._started, duration_s, energy_J)
        now = self._gpu.counters()
        risen = {name: known(increase(count, getattr(self._counters, name))) for name, count in vars(now).items()}
        links = LinkCounters(rank=self._rank, **risen)
        return Readings(samples, links, load, [[sample for _, sample in each] for each in self._taken])


# ---- one GPU --------------------------------------------------------------------------------------------------------

# How NVML counts what one NVLink did: (unit, names of its fields). The first choice that a GPU supports is taken: the
# second is for Blackwell, which dropped some of the first; GPUs up to Ampere number the fields by link.
_Choices = tuple[tuple[int, tuple[str, ...]], ...]
_NVLINK_ERRORS: _Choices = (
    (1, ("NVLINK_ERROR_DL_REPLAY", "NVLINK_ERROR_DL_RECOVERY", "NVLINK_ERROR_DL_CRC")),
    (1, ("NVLINK_COUNT_RCV_ERRORS", "NVLINK_COUNT_LINK_RECOVERY_EVENTS")),
    (1, ("NVLINK_REPLAY_ERROR_COUNT_L{link}", "NVLINK_RECOVERY_ERROR_COUNT_L{link}")),
)
_NVLINK_SENT_BYTES: _Choices = ((1024, ("NVLINK_THROUGHPUT_DATA_TX",)), (1, ("NVLINK_COUNT_XMIT_BYTES",)))
_NVLINK_RECEIVED_BYTES: _Choices = ((1024, ("NVLINK_THROUGHPUT_DATA_RX",)), (1, ("NVLINK_COUNT_RCV_BYTES",)))
_ALL_INSTANCES = Unknown("MIG divides this GPU, which only reports the power of all instances together")
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


class NvmlGpu:
    """NVML's readings of one GPU."""

    def __init__(self, nvml: Nvml, handle: Any, divided: bool = False) -> None:
        """`divided`: by MIG, so that others may compute on it."""
        self._nvml = nvml
        self._handle = handle
        self._divided = divided
        self._nvlinks = active_nvlinks(nvml, handle)

    def sample(self) -> SensorSample:
        """The readings that change from moment to moment."""
        ask, handle, names = self._nvml.ask, self._handle, self._nvml.module
        use = ask("nvmlDeviceGetUtilizationRates", handle)
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if isinstance(reasons, Unknown):  # drivers before R535 know it by its old name
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return SensorSample(
            sm_clock_Hz=times(1e6, ask("nvmlDeviceGetClockInfo", handle, names.NVML_CLOCK_SM)),
            power_W=times(1e-3, self._power_mW()),
            temperature_C=times(1.0, ask("nvmlDeviceGetTemperature", handle, names.NVML_TEMPERATURE_GPU)),
            busy=use if isinstance(use, Unknown) else use.gpu / 100,
            throttle_reasons=reasons,
        )

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

    def energy_J(self) -> float | Unknown:
        """What the GPU has used since the driver was loaded."""
        if self._divided:
            return _ALL_INSTANCES
        return times(1e-3, self._nvml.ask("nvmlDeviceGetTotalEnergyConsumption", self._handle))

    def counters(self) -> Counters:
        """The readings of links that only count up; some ninety calls of NVML where 18 NVLinks are up."""
        return Counters(
            pcie_replays=self._nvml.ask("nvmlDeviceGetPcieReplayCounter", self._handle),
            nvlink_errors=self._over_nvlinks(_NVLINK_ERRORS),
            nvlink_sent_bytes=self._over_nvlinks(_NVLINK_SENT_BYTES),
            nvlink_received_bytes=self._over_nvlinks(_NVLINK_RECEIVED_BYTES),
        )

    def traffic(self) -> GpuTraffic:
        """Bytes over all active NVLinks, and over PCIe."""
        return GpuTraffic(
            nvlink=pair(self._over_nvlinks(_NVLINK_SENT_BYTES), self._over_nvlinks(_NVLINK_RECEIVED_BYTES)),
            pcie=pair(self._field("PCIE_COUNT_TX_BYTES", 0), self._field("PCIE_COUNT_RX_BYTES", 0)),
        )

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


def pair(sent: int | Unknown, received: int | Unknown) -> tuple[int, int] | Unknown:
    """Both counts, or why one of them is not known."""
    return of_known(lambda *both: both, sent, received)


def _find_gpu(devices: list[int] | None, module: Any = None) -> NvmlGpu | AmdGpu | Unknown:
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
    return found if isinstance(found, Unknown) else NvmlGpu(nvml, found.handle, found.divided)


class _Sampler(threading.Thread):
    """Samples one GPU from its start until `finish`."""

    def __init__(self, gpu: NvmlGpu | AmdGpu) -> None:
        super().__init__(name="resnetx-sensors", daemon=True)
        self._gpu = gpu
        self._samples: list[tuple[float, SensorSample]] = []
        self._finished = threading.Event()

    def run(self) -> None:
        over = self._finished.wait(PERIOD_S / 2)  # a window's edges are not what it is about
        while not over or not self._samples:
            self._samples.append((time.perf_counter(), self._gpu.sample()))
            over = over or self._finished.wait(PERIOD_S)

    def finish(self) -> list[tuple[float, SensorSample]]:
        """The samples, each with its time (of `perf_counter`)."""
        self._finished.set()
        self.join()
        return self._samples


def _gpu_samples(
    rank: int, taken: list[tuple[float, SensorSample]], start: float, duration_s: float, energy_J: float | Unknown
) -> GpuSamples:
    """The samples, of which those are dropped that lack what others have; the energy from the power where need be."""
    whole = [(at - start, sample) for at, sample in taken if _missing(sample) <= _missing(taken[0][1])]
    columns = {
        field.name: _column([getattr(sample, field.name) for _, sample in whole]) for field in fields(SensorSample)
    }
    times_s, power_W = [at_s for at_s, _ in whole], columns["power_W"]
    if isinstance(energy_J, Unknown) and not isinstance(power_W, Unknown):
        # The integral from 0 to `end_s` of values that each hold until the next one's time.
        edges = pairwise([0.0, *times_s[1:], duration_s])
        energy_J = sum(value * (after - before) for value, (before, after) in zip(power_W, edges, strict=True))
    return GpuSamples(
        rank=rank,
        time_s=times_s,
        energy_J=known(energy_J),
        **{name: known(readings) for name, readings in columns.items()},
    )


def _missing(sample: SensorSample) -> set[str]:
    return {field.name for field in fields(sample) if isinstance(getattr(sample, field.name), Unknown)}


def _column(readings: Sequence[Number | Unknown]) -> list[Number] | Unknown:
    """The readings of all samples, or why the GPU never gives any."""
    if isinstance(readings[0], Unknown):
        return readings[0]
    return [reading for reading in readings if not isinstance(reading, Unknown)]
