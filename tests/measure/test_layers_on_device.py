"""Layers of a device that is faster than its host launches them: their times are the device's, on a simulated GPU."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from resnetx import inputs
from resnetx.choices import image_sample
from resnetx.measure.rank import device, layer_trace
from resnetx.measure.rank.device import Hold, mark, seconds_between
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.layer_trace import LAYERS_HELD, LOSS, LayerWatch
from resnetx.measure.rank.training import training_step
from tests.measure.simulated_gpu import LAUNCH_s, SimulatedGpu

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ALONE, ON_GPU = (Ranks(rank=0, local_rank=0, world_size=1, device=device) for device in (CPU, GPU))
FORWARD_s, BACKWARD_s = 1e-6, 2e-6  # of a kernel: shorter than its launch
LAYERS = 120


class Clock:
    name = "CUDA events"
    now = staticmethod(mark)
    seconds = staticmethod(seconds_between)


class Launching(torch.autograd.Function):
    gpu: SimulatedGpu

    @staticmethod
    def forward(context, x):
        Launching.gpu.launch(FORWARD_s)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        Launching.gpu.launch(BACKWARD_s)
        return gradient


def launching(x):
    return Launching.apply(x)


torch.fx.wrap("launching")


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3 * 8 * 8, 2)

    def forward(self, images):
        x = self.stem(images.flatten(1))
        for _ in range(LAYERS):
            x = launching(x)
        return x


@pytest.fixture
def gpu(monkeypatch):
    Launching.gpu = SimulatedGpu(monkeypatch)
    return Launching.gpu


@pytest.fixture
def deep(gpu, request_of):
    settings = {"model.classes": 2, "image_size": 8, "batch_size": 4, "threads": 1, "gpus": 1}
    request = request_of(settings)
    watch = LayerWatch(Deep(), image_sample(8), Clock(), Hold(GPU))
    step, _ = training_step(watch, inputs.open_for(request, 0, CPU), request, ALONE, watch.mark)
    return watch, step


def test_layers_take_what_the_device_takes_and_not_what_the_host_does(deep, gpu):
    watch, step = deep
    (seen,) = layer_trace.watched(step, watch, 1, ON_GPU)
    kernels = [place for place, name in enumerate(watch.names) if name.startswith("launching")]
    assert len(kernels) == LAYERS
    assert watch.names[-1] == LOSS
    assert [seen.forward_s[place] for place in kernels] == pytest.approx([FORWARD_s] * LAYERS, abs=1e-8)
    assert [seen.backward_s[place] for place in kernels] == pytest.approx([BACKWARD_s] * LAYERS, abs=1e-8)
    assert seen.step_s - seen.input_wait_s == pytest.approx(LAYERS * (FORWARD_s + BACKWARD_s))
    assert len(gpu.sleeps) == 2 + 2 * (LAYERS // LAYERS_HELD)  # before each pass, and within it


def test_a_step_that_the_host_queued_too_late_is_watched_again_behind_a_longer_sleep(deep, gpu, monkeypatch):
    monkeypatch.setattr(device, "FIRST_CYCLES", 2**17)  # 65 us: 13 launches
    watch, step = deep
    watch._hold = Hold(GPU)
    assert len(layer_trace.watched(step, watch, 2, ON_GPU)) == 2
    assert gpu.sleeps[0] == 2**17
    assert gpu.sleeps[-1] >= 2**20 > 2 * LAYERS_HELD * LAUNCH_s * 1e9


def test_what_waits_for_the_device_cannot_be_watched(deep, gpu, monkeypatch):
    watch, step = deep
    launch = gpu.launch

    def launch_and_wait(seconds):
        launch(seconds)
        gpu.wait()

    monkeypatch.setattr(Launching, "gpu", SimpleNamespace(launch=launch_and_wait))
    with pytest.raises(RuntimeError, match="no step could be watched layer by layer"):
        layer_trace.watched(step, watch, 1, ON_GPU)


def test_a_step_that_nobody_watches_holds_nothing_back(deep, gpu):
    watch, step = deep
    before_s = gpu.host_s
    step()
    assert gpu.sleeps == []
    assert gpu.host_s - before_s == pytest.approx(2 * LAYERS * LAUNCH_s, rel=0.1)
    assert watch.host_s > 0
