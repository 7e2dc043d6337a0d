"""What runs measure on null GPUs is what was described: there the truth is known."""

import pytest

from resnetx.measure.launch import launcher
from resnetx.record import RunFolder
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_runs import SHORT

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

KERNEL_S = 2e-3  # longer than a slow host takes to launch one, so that the device is never idle
MESSAGE_S = 0.5  # longer than a whole backward pass


def test_exposed_communication_is_what_messages_take_behind_the_last_gradient(tmp_path, on_ranks, monkeypatch):  # noqa: F811
    monkeypatch.setenv("NULLCUDA_NCCL_US", str(MESSAGE_S * 1e6))
    ended = launcher.execute(on_ranks({**SHORT, "strategy": "after", "measure": "phases"}), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    for exposed_s in ended.phases.exposed_communication_s:
        assert exposed_s == pytest.approx(MESSAGE_S * len(ended.buckets), rel=0.05)


def test_each_layer_takes_the_time_of_its_kernels(tmp_path, task_of, monkeypatch):
    monkeypatch.setenv("NULLCUDA_KERNEL_US", str(KERNEL_S * 1e6))
    ended = launcher.execute(task_of({**SHORT, "measure": "layers"}, gpus=1), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    for layer in ended.layers.layers:
        for measured_s in layer.forward_s:
            kernels = max(1, round(measured_s / KERNEL_S))
            assert measured_s == pytest.approx(kernels * KERNEL_S, rel=0.05), layer.name
    convolution, statistics = ended.layers.layers[:2]
    assert convolution.forward_s == pytest.approx([KERNEL_S] * len(convolution.forward_s), rel=0.05)
    assert statistics.forward_s == pytest.approx([2 * KERNEL_S] * len(statistics.forward_s), rel=0.05)  # and its count
