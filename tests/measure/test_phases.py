"""Watched steps and the input alone: what a record of them says. (What a watch sees of messages: test_strategies.)"""

import dataclasses

import jsonschema
import msgspec
import pytest
import torch

from resnetx import inputs, record
from resnetx.inputs import BESIDE_TORCH
from resnetx.measure.launch import launcher
from resnetx.measure.rank import device, phases
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.phases import SentMessage, StepParts, Watch
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.record import RunFolder, Unknown

CPU = torch.device("cpu")
SMALL = {"model.x": 2, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 9, "split": "uneven"}
SHORT = {**SMALL, "threads": 1, "warmup": 3, "steps": 2, "windows": 3}


class HandClock:
    """A clock that the test turns; a message is on its way from one turn to the next two."""

    name = "hand"

    def __init__(self):
        self.time = 0.0

    def now(self):
        self.time += 1.0
        return self.time

    def seconds(self, earlier, later):
        return later - earlier

    def send(self, buffer, send, message):
        message.start, message.end = self.now(), self.now()
        return send(buffer)

    def times(self, begin, message):
        return SentMessage(message.size_bytes, *(at - begin for at in (message.ready, message.start, message.end)))


class SilentRanks:
    """One rank that hears no other."""

    device = CPU


def sent(buffer):
    return buffer


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.setattr(phases, "_HostClock", HandClock)
    return Watch(SilentRanks())


def step(watch, *messages):
    for phase in ("input_wait", "host_to_device", "forward", "backward"):
        watch.mark(phase)
    for size in messages:
        watch.watched(sent)(torch.zeros(size))
    for phase in ("optimizer", "end"):
        watch.mark(phase)


def test_the_parts_of_a_step_and_its_messages_are_timed_from_its_beginning(watch):
    step(watch, 1)
    watch.note(0)
    step(watch, 10, 20)
    step(watch, 10, 20)
    watch.note(1)
    seen = watch.seen()
    # input_wait at 0, host_to_device 1, forward 2, backward 3, messages ready at 4 and 7, optimizer 10, end 11.
    assert seen.parts == StepParts(11, 1, 1, 1, 4, 3, 1, 0)
    assert [each.begin_s for each in seen.latest] == [0, 12]
    assert seen.latest[1].sent == [SentMessage(40, 4, 5, 6), SentMessage(80, 7, 8, 9)]


def test_without_messages_nothing_is_exposed_and_without_a_copy_nothing_is_copied():
    marks = {"forward": 3.0, "backward": 4.0, "optimizer": 9.0, "end": 9.5}
    assert phases._parts(marks, [], []) == StepParts(9.5, 3.0, 0.0, 1.0, 5.0, 0.0, 0.5, 0.0)


def test_what_the_step_waits_for_is_no_part_of_the_passes():
    """One gather in the forward pass (2 s of 5), one in the backward pass (1 s) beside two reductions (3 and 1)."""
    marks = {"forward": 0.0, "backward": 5.0, "optimizer": 14.0, "gather": 15.0, "end": 17.0}
    times = [(1, 3), (4, 3), (6, 7), (8, 11), (13, 14)]  # the second had arrived before the step came to need it
    sent = [SentMessage(4, begin, begin, end) for begin, end in times]
    parts = phases._parts(marks, sent, ["gather", "gather", "gather", "reduce", "reduce"])
    assert parts == StepParts(17.0, 0.0, 0.0, 3.0, 4.0, 4.0, 1.0, 5.0)


def test_passes_of_all_parts_of_a_batch_are_added_up(watch):
    """Of two parts: forward 1 and 2 s, of which a gather is 1, backward 3 and 4 s."""
    marks = {"forward": 4.0, "backward": 6.0, "optimizer": 10.0, "end": 11.0}
    sent = [SentMessage(4, 4.0, 4.0, 5.0)]
    parts = phases._parts(marks, sent, ["gather"], [(0.0, 1.0)])
    assert parts == StepParts(11.0, 0.0, 0.0, 2.0, 7.0, 0.0, 1.0, 1.0)
    for phase in ("input_wait", "host_to_device", "forward", "backward", "forward", "backward", "optimizer", "end"):
        watch.mark(phase)
    assert watch._steps[-1].others == [(3, 4)]


def test_means_are_over_all_windows_and_messages_of_the_last(watch):
    watch.note(0)
    step(watch, 1)
    watch.note(1)
    step(watch, 1, 1, 1)
    watch.note(2)
    assert watch.seen().parts.step_s == pytest.approx((8 + 14) / 2)
    assert len(watch.seen().latest) == 1
    assert len(watch.seen().latest[0].sent) == 3


def test_the_step_tells_its_phases_in_their_order(request_of):
    request = request_of({**SMALL, "gpus": 1})
    ranks = Ranks(0, 0, 1, CPU)
    told: list[str] = []
    replica = replicate(build(request, ranks), request, ranks)
    work, _ = training_step(replica, inputs.open_for(request, 0, CPU), request, ranks, told.append)
    work()
    assert told == ["input_wait", "forward", "backward", "optimizer", "end"]


# Three events of a Chrome trace as torch.profiler writes them, and one that is no copy.
TRACE = [
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "dur": 200.0, "args": {"bytes": 6000}},
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "dur": 100.0, "args": {"bytes": 3000}},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "dur": 30.0, "args": {"bytes": 900}},
    {"cat": "kernel", "name": "elementwise_kernel", "dur": 5.0, "args": {}},
    {"name": "process_name", "args": {"name": "python"}},
]


def test_copies_are_summed_by_direction_per_step():
    found = device.per_step(TRACE, 3)
    both = device.summed([found, found])
    assert (both.host_to_device_bytes, both.device_to_device_bytes) == (6000, 600)
    assert both.host_to_device_s == pytest.approx(200e-6)
    assert (both.device_to_host_bytes, both.device_to_host_s) == (0, 0)
    assert (both.counted_by, both.host_to_device_calls) == ("profiler", round(2 * 2 / 3))


@pytest.mark.parametrize(
    ("beside", "size_bytes", "calls"), [(0, 800, 4), (500, 1800, BESIDE_TORCH), (Unknown("unseen"), "unseen", "unseen")]
)
def test_copies_that_operators_count_have_no_times_and_what_the_input_copies_beside_them(beside, size_bytes, calls):
    rank = device.RankCopies("operators", device.Copied(2, 400), beside_torch=beside)
    both = device.summed([rank, rank])
    assert (both.host_to_device_bytes, both.host_to_device_calls) == (size_bytes, calls)
    assert (both.device_to_host_bytes, both.device_to_host_calls) == (0, 0)
    assert both.host_to_device_s == both.device_to_device_s == "only the CUDA profiler times copies"


def test_a_cpu_rank_says_why_it_copies_nothing():
    profiled = device.profiled(lambda: None, CPU, 0)
    assert profiled.copies == "a CPU rank copies nothing to a device: it has none"
    assert isinstance(profiled.kernels_s, Unknown)


# ---- records --------------------------------------------------------------------------------------------------------


@pytest.mark.dist
@pytest.mark.parametrize("strategy", ["bucket", "layerwise"])
def test_a_watched_run_records_phases_and_messages_of_every_rank(strategy, tmp_path, task_of, preloaded):
    ended = launcher.execute(task_of({**SHORT, "strategy": strategy, "measure": "phases"}, gpus=2), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    assert ended.images_per_s
    assert ended.phases.clock == "host"
    assert [len(begins) for begins in ended.phases.begin_s] == [2, 2]
    parts = [getattr(ended.phases, field.name) for field in dataclasses.fields(StepParts)[1:]]
    assert [sum(of_rank) for of_rank in zip(*parts, strict=True)] == pytest.approx(ended.phases.step_s, abs=1e-6)
    assert sum(bucket.size_bytes for bucket in ended.buckets) == ended.workload.gradient_bytes
    for bucket in ended.buckets:
        assert [len(times) for times in bucket.end_s] == [2, 2]
    assert ended.unknown["copies"]
    jsonschema.validate(msgspec.to_builtins(ended), msgspec.json.decode(record.json_schema()))


@pytest.mark.dist
def test_the_input_alone_is_timed_without_a_model(tmp_path, task_of, made, preloaded):
    input = {"input": "torchvision", "input.root": str(made), "input.threads": 1, "input.recipe": "paper"}
    ended = launcher.execute(task_of({**SHORT, **input, "measure": "input"}, gpus=2), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    slowest = [max(window) for window in zip(*ended.windows_s, strict=True)]
    assert ended.images_per_s == pytest.approx(9 * ended.window_steps * 3 / sum(slowest))
    assert ended.input_state.images == 12
    for field in ("distributed", "loss", "buckets", "phases", "copies", "equality"):
        assert getattr(ended, field) is None
        assert ended.unknown[field] == "no part of measure=input"
    assert ended.transport.used is None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """12 real images in 3 classes."""
    from resnetx.inputs import image_tree

    root = tmp_path_factory.mktemp("images")
    image_tree.make(root, classes=3, per_class=4, size="256", seed=0, workers=1)
    return root
