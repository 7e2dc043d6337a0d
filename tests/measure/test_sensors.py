"""Sensors: NVML through a fake of two GPUs, and a run on CPUs for real."""

import sys
import time
from types import SimpleNamespace

import pynvml
import pytest
import torch

from resnetx.measure.machine.sensors import PERIOD_S, Sensors
from resnetx.record import Unknown
from tests.sealed_part import sealed_part

pytestmark = pytest.mark.slow

POWER_CAP = 0x4


class TwoGpus:
    """NVML of a machine with two GPUs of two NVLinks each. What it does not define, it does not support.

    Constants, and the names of functions, are the real ones: a name that NVML does not have is an AttributeError.
    """

    uuids = ("GPU-aaaa", "GPU-bbbb")

    def __init__(self) -> None:
        self.readings = 0  # of the counters: one at the start, one at the end
        self.samples = 0

    def __getattr__(self, name: str):
        real = getattr(pynvml, name)
        return self._refuse if name.startswith("nvml") and callable(real) else real

    def _refuse(self, *_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return self.uuids.index(uuid)

    def nvmlDeviceGetClockInfo(self, gpu: int, clock: int) -> int:
        assert clock == pynvml.NVML_CLOCK_SM
        return (1410, 1200)[gpu]

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        return 250_000

    def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> int:
        return 55

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=98, memory=40)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: int) -> int:
        self.samples += 1
        return POWER_CAP

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:
        return pynvml.NVML_FEATURE_ENABLED if link < 2 else self._refuse()

    def nvmlDeviceGetPcieReplayCounter(self, gpu: int) -> int:
        self.readings += 1
        return 7 if self.readings == 1 else 10

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:
        supported = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES)
        return [
            SimpleNamespace(
                nvmlReturn=pynvml.NVML_SUCCESS if field in supported else pynvml.NVML_ERROR_NOT_SUPPORTED,
                valueType=pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
                value=SimpleNamespace(ullVal=1000 * self.readings + link),
            )
            for field, link in fields
        ]


@pytest.fixture
def only_second_gpu_visible(monkeypatch):
    """What CUDA_VISIBLE_DEVICES=1 does: CUDA's GPU 0 is NVML's GPU 1."""
    properties = SimpleNamespace(uuid="bbbb")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: {0: properties}[device])


def measured(nvml, samples=3):
    """What the sensors of CUDA's GPU 0 say after some samples."""
    gpu = Sensors([0], rank=3, module=nvml)
    gpu.start()
    with gpu.sampled():
        while nvml.samples < samples:
            time.sleep(0.01)
    return gpu.stop()


def test_the_gpu_that_cuda_means_is_sampled(only_second_gpu_visible):
    samples = sealed_part(measured(TwoGpus()).gpu_samples)
    assert samples.rank == 3
    assert samples.time_s == sorted(samples.time_s)
    count = len(samples.time_s)
    assert count >= 3
    assert samples.sm_clock_Hz == [1.2e9] * count
    assert samples.power_W == [250.0] * count
    assert samples.temperature_C == [55.0] * count
    assert samples.busy == [0.98] * count
    assert samples.throttle_reasons == [POWER_CAP] * count


def test_nothing_is_asked_of_the_gpu_between_start_and_stop_but_where_it_is_sampled(only_second_gpu_visible):
    nvml = TwoGpus()
    gpu = Sensors([0], rank=0, module=nvml)
    gpu.start()
    time.sleep(PERIOD_S)
    assert nvml.samples == 0
    with gpu.sampled():
        pass
    sampled = nvml.samples
    time.sleep(PERIOD_S)
    assert sampled == nvml.samples == 1


def test_energy_that_is_not_counted_is_the_integral_of_power(only_second_gpu_visible):
    samples = measured(TwoGpus()).gpu_samples
    assert 250.0 * samples.time_s[-1] <= samples.energy_J < 250.0 * 60


def test_counted_energy_is_the_difference(only_second_gpu_visible):
    class Counting(TwoGpus):
        def nvmlDeviceGetTotalEnergyConsumption(self, gpu: int) -> int:
            self.energy_mJ = getattr(self, "energy_mJ", 5_000_000) + 30_000
            return self.energy_mJ

    assert measured(Counting()).gpu_samples.energy_J == pytest.approx(30.0)


def test_link_counters_are_differences_over_all_links(only_second_gpu_visible):
    counters = measured(TwoGpus()).link_counters
    assert counters.pcie_replays == 3
    assert counters.nvlink_sent_bytes == 2 * 1000 * 1024  # two links; this field counts KiB
    assert counters.nvlink_received_bytes == 2 * 1000  # the field that replaced it counts bytes
    assert isinstance(counters.nvlink_errors, Unknown)


def test_a_counter_that_starts_again_is_unknown(only_second_gpu_visible):
    class Restarted(TwoGpus):
        def nvmlDeviceGetPcieReplayCounter(self, gpu: int) -> int:
            return 10 - super().nvmlDeviceGetPcieReplayCounter(gpu)

    assert "again" in measured(Restarted()).link_counters.pcie_replays


def test_what_nvml_does_not_support_is_unknown_and_the_rest_is_kept(only_second_gpu_visible):
    class Partitioned(TwoGpus):
        nvmlDeviceGetUtilizationRates = nvmlDeviceGetPowerUsage = nvmlDeviceGetNvLinkState = TwoGpus._refuse

    found = measured(Partitioned())
    assert sealed_part(found.gpu_samples).busy is None and sealed_part(found.link_counters).nvlink_errors is None
    for value in (found.gpu_samples.busy, found.gpu_samples.power_W, found.gpu_samples.energy_J):
        assert isinstance(value, Unknown) and "Not Supported" in value
    assert found.gpu_samples.sm_clock_Hz
    assert isinstance(found.link_counters.nvlink_sent_bytes, Unknown)
    assert found.link_counters.pcie_replays == 3


def test_a_reading_that_fails_once_costs_one_sample(only_second_gpu_visible):
    class Flaky(TwoGpus):
        def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> int:
            self.asked = getattr(self, "asked", 0) + 1
            return self._refuse() if self.asked == 2 else 55

    nvml = Flaky()
    samples = measured(nvml).gpu_samples
    assert len(samples.time_s) == len(samples.temperature_C) == len(samples.power_W) == nvml.asked - 1


def test_without_a_driver_the_fields_say_so():
    class NoDriver(TwoGpus):
        def nvmlInit(self) -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    found = measured(NoDriver(), samples=0)
    assert isinstance(found.gpu_samples, Unknown) and "no NVIDIA driver" in found.gpu_samples
    assert found.link_counters == found.gpu_samples


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_cpu_run_knows_its_host_load_and_no_gpu():
    cpu = Sensors(None, rank=0)
    cpu.start()
    time.sleep(1.2)
    found = cpu.stop()
    assert isinstance(found.gpu_samples, Unknown) and isinstance(found.link_counters, Unknown)
    assert 0 <= found.host_load.foreign <= found.host_load.busy <= 1
