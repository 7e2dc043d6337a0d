"""Replayed steps: a module that takes the time of a step, and has its gradients."""

import time
from statistics import fmean, stdev

import msgspec
import pytest
import torch

from resnetx.measure.rank.strategies import layers
from resnetx.measure.rank.training import HostTimeline, ReplayedModel
from resnetx.record import ReplayedLayer, ReplayedStep

STEP = ReplayedStep(
    source="a test",
    layers=[
        ReplayedLayer(name="first", forward_s=0.010, backward_s=0.020, gradients=[6, 2]),
        ReplayedLayer(name="relu", forward_s=0.001, backward_s=0.001, gradients=[]),
        ReplayedLayer(name="last", forward_s=0.005, backward_s=0.010, gradients=[3]),
    ],
    update_s=0.004,
)


class Waits(HostTimeline):
    """Notes what is waited for."""

    def __init__(self):
        self.waited = []

    def begin(self):
        self.waited.append("begin")

    def wait(self, seconds):
        self.waited.append(seconds)


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr("resnetx.measure.rank.training.HostTimeline", Waits)
    return ReplayedModel(STEP, torch.device("cpu"))


def test_each_part_is_waited_out_in_its_order(model):
    model(torch.zeros(1)).backward()
    model.update()
    assert model.timeline.waited == ["begin", 0.010, 0.001, 0.005, "begin", 0.010, 0.001, 0.020, "begin", 0.004]


def test_steps_vary_on_each_rank_by_itself(monkeypatch):
    monkeypatch.setattr("resnetx.measure.rank.training.HostTimeline", Waits)
    step = msgspec.structs.replace(STEP, jitter=0.1)
    paces = []
    for drawn_by in ("0 0", "0 1", "0 1"):
        model = ReplayedModel(step, torch.device("cpu"), drawn_by)
        paces.append([])
        for _ in range(100):
            model(torch.zeros(1))
            paces[-1].append(model.timeline.pace)
    assert paces[0] != paces[1] == paces[2]
    assert (fmean(paces[0]), stdev(paces[0])) == pytest.approx((1, 0.1), rel=0.3)


def test_gradients_have_the_sizes_of_the_layers_and_become_ready_from_the_last(model):
    ready = []
    for tensor in model.parameters():
        tensor.register_post_accumulate_grad_hook(lambda own: ready.append(own.numel()))
    model(torch.zeros(1)).backward()
    assert ready[0] == 3
    assert sorted(ready[1:]) == [2, 6]
    assert [[own.numel() for own in group] for group in layers(model)] == [[6, 2], [3]]
    model.update()
    assert all(tensor.grad is None for tensor in model.parameters())


def test_time_is_counted_from_the_start_of_a_pass():
    timeline = HostTimeline()
    start = time.perf_counter()
    timeline.begin()
    time.sleep(0.02)  # work that takes less than the part
    timeline.wait(0.03)
    timeline.wait(0.01)
    assert time.perf_counter() - start >= 0.04
    assert timeline._now == pytest.approx(start + 0.04, abs=0.005)
