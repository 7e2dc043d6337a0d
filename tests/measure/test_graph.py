"""Steps as CUDA graphs: on a CPU, where what a graph does stands for the graph."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.measure.rank import windows
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.windows import STEPS_BEFORE, GraphedStep

SMALL = {"model.x": 1, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 4, "threads": 1}


@pytest.fixture
def captured(monkeypatch):
    """What is captured: it is not run then, but each time that the graph is launched, on the tensors that it had."""
    found = []

    @contextmanager
    def capture(graph, **_):
        found.append(graph)
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=None))
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    return found


class Step:
    """Notes the batches that it has computed."""

    def __init__(self, captured):
        self.ran, self._captured = [], captured

    def __call__(self, images, labels):
        if self._captured and self._captured[0].replay is None:
            self._captured[0].replay = lambda: self(images, labels)
            return
        self.ran.append((images.tolist(), labels.tolist()))


def batch(value):
    return torch.tensor([float(value)]), torch.tensor([value])


@pytest.mark.parametrize("constant", [False, True])
def test_every_batch_is_computed_where_the_graph_reads(captured, constant):
    step = Step(captured)
    graphed = GraphedStep(step, constant)
    values = [1] * (STEPS_BEFORE + 3) if constant else list(range(STEPS_BEFORE + 3))
    one = batch(1)
    for value in values:
        graphed(*(one if constant else batch(value)))
    assert len(captured) == 1
    assert step.ran == [([float(value)], [value]) for value in values]


def test_a_warm_up_lasts_until_the_graph_has_been_launched(captured, monkeypatch, request_of):
    step = Step(captured)
    graphed = GraphedStep(step, constant=True)
    request = request_of({**SMALL, "graph": True, "warmup": 3})
    graphed(*batch(1))  # the first step, which is timed apart
    alone = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))
    monkeypatch.setattr(windows, "STEADY", 1.0)  # every step is
    found = windows.warm_up(lambda: graphed(*batch(1)), request, alone)
    assert len(captured) == 1
    assert len(found.steps_s) == STEPS_BEFORE + 2


@pytest.mark.parametrize("measure", ["phases", "layers", "equality", "input"])
def test_only_clean_steps_are_graphs(measure, request_of):
    settings = {**SMALL, "measure": measure, "graph": True}
    if measure == "input":
        settings |= {"input": "torchvision", "input.root": "x", "input.threads": 1}
    with pytest.raises(ConfigError, match=rf"graph=true with measure={measure}: .* leave out graph=true"):
        check(request_of(settings))


def test_the_twins_of_a_graph_are_graphs_where_they_train_without_being_watched(request_of):
    settings = {**SMALL, "graph": True, "input": "torchvision", "input.root": "x", "input.threads": 1}
    twins = request_of(settings, gpus=2).twins
    assert {name: twin.graph for name, twin in twins.items()} == {
        "synthetic": True, "alone": True, "input": False, "phases": False,
    }  # fmt: skip
