"""Work timed on the device: on a simulated GPU, whose kernels are shorter than the host takes to launch them."""

import pytest
import torch

from resnetx.measure.rank import device
from resnetx.measure.rank.device import FIRST_CYCLES, MOST_CYCLES, held_back, timed_on_device
from resnetx.record import Unknown
from tests.measure.simulated_gpu import CLOCK_HZ, LAUNCH_s, SimulatedGpu

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
KERNEL_s = LAUNCH_s / 10


@pytest.fixture
def gpu(monkeypatch):
    return SimulatedGpu(monkeypatch)


def test_the_time_is_the_devices_and_not_what_the_host_takes_to_launch(gpu):
    assert timed_on_device(lambda: gpu.launch(KERNEL_s), 20, GPU) == pytest.approx(20 * KERNEL_s)
    assert gpu.sleeps == [FIRST_CYCLES]


def test_the_first_call_which_may_wait_for_other_ranks_is_not_timed(gpu):
    times = iter([1.0, *[KERNEL_s] * 5])
    assert timed_on_device(lambda: gpu.launch(next(times)), 5, GPU) == pytest.approx(5 * KERNEL_s)


def test_the_sleep_grows_until_the_host_is_done_before_it_ends(gpu):
    assert timed_on_device(lambda: gpu.launch(KERNEL_s), 450, GPU) == pytest.approx(450 * KERNEL_s)
    assert gpu.sleeps == [FIRST_CYCLES, 2 * FIRST_CYCLES, 4 * FIRST_CYCLES]
    assert gpu.sleeps[-2] / CLOCK_HZ < 450 * LAUNCH_s < gpu.sleeps[-1] / CLOCK_HZ


def test_all_ranks_repeat_where_one_was_late(gpu):
    heard: list[bool] = []

    def everywhere(in_time):
        heard.append(in_time)
        return in_time and len(heard) == 3

    assert timed_on_device(lambda: gpu.launch(KERNEL_s), 2, GPU, everywhere=everywhere) == pytest.approx(2 * KERNEL_s)
    assert heard == [True] * 3
    assert gpu.sleeps == [FIRST_CYCLES, 2 * FIRST_CYCLES, 4 * FIRST_CYCLES]


@pytest.mark.parametrize("fault", ["waits", "launches too much"])
def test_what_cannot_be_held_back_has_no_time_but_a_reason(gpu, fault):
    def work():
        gpu.launch(KERNEL_s)
        if fault == "waits":
            gpu.wait()

    found = timed_on_device(work, 2 if fault == "waits" else 1100, GPU)
    assert isinstance(found, Unknown)
    assert gpu.sleeps[-1] == MOST_CYCLES


def test_any_marks_can_be_set_in_what_is_held_back(gpu):
    def layers():
        marks = [device.mark()]
        for seconds in (1e-6, 2e-6, 3e-6):
            gpu.launch(seconds)
            marks.append(device.mark())
        return marks

    first, *others = held_back(layers, GPU)
    assert [device.seconds_between(first, each) for each in others] == pytest.approx([1e-6, 3e-6, 6e-6])


def test_on_cpus_the_host_times_the_same_number_of_calls():
    called: list[str] = []
    seconds = timed_on_device(lambda: called.append("work"), 3, CPU)
    assert seconds > 0
    assert called == ["work", "work", "work"]
