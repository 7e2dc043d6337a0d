"""What a watch says of layers: their names, their times to the tick, and that watching changes nothing."""

import jsonschema
import msgspec
import pytest
import torch
from torch import nn

from resnetx import inputs, record, workloads
from resnetx.choices import image_sample
from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.measure.launch import launcher
from resnetx.measure.rank import device, layer_trace
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.layer_trace import LOSS, LayerWatch
from resnetx.measure.rank.phases import clock_of
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.record import RunFolder, Unknown
from tests.measure.simulated_gpu import SimulatedGpu

CPU = torch.device("cpu")
ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=CPU)
SHORT = {"model.x": 1, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 4, "threads": 1,
         "warmup": 3, "steps": 2, "windows": 3}  # fmt: skip

TINY = {"model.classes": 10, "batch_size": 4, "gpus": 1, "threads": 1, "optimizer.learning_rate": 1e-6}
MODELS = [
    {"model": "resnetx", "model.x": 1, "image_size": 32},
    {"model": "alexnet", "image_size": 67},  # dropout and local response normalisation
    {"model": "googlenet", "image_size": 47},  # branches, and two auxiliary outputs
    {"model": "torchvision", "model.name": "resnet18", "image_size": 32},  # in-place ReLU behind `+=`
    {"model": "torchvision", "model.name": "mobilenet_v2", "image_size": 32},  # ReLU6, grouped convolutions
    {"model": "torchvision", "model.name": "densenet121", "image_size": 32},  # a tensor that many layers read
]


# ---- names, bytes and losses of real models -------------------------------------------------------------------------


def losses(request, watch_from=None):
    """The losses of four steps, from the same seed, and the watch; watched from step `watch_from` on."""
    torch.manual_seed(request.seed)
    model = build(request, ALONE)
    watch = (
        LayerWatch(model, request.model.sample(request.image_size), clock_of(CPU)) if watch_from is not None else None
    )
    batches = inputs.open_for(request, 0, CPU)
    if watch:
        step, progress = training_step(watch, batches, request, ALONE, watch.mark)
    else:
        step, progress = training_step(replicate(model, request, ALONE), batches, request, ALONE)
    torch.manual_seed(1)  # of dropout
    for number in range(4):
        if watch:
            watch.watching = number >= watch_from
        step()
        progress.note()
    return progress.losses, watch


@pytest.mark.slow
@pytest.mark.parametrize("settings", MODELS, ids=lambda each: each.get("model.name", each["model"]))
def test_watching_finds_the_layers_of_the_table_and_changes_no_loss(settings, request_of):
    request = request_of({**settings, **TINY})
    table = workloads.table(request.model, request.image_size)
    plain, _ = losses(request)
    watched, watch = losses(request, watch_from=2)
    assert watched == plain
    assert len(set(plain)) == 4
    assert watch.names == [*(layer.name for layer in table), LOSS]
    assert watch.gradient_bytes == [*(4 * sum(layer.parameters) for layer in table), 0]
    steps = watch.take()
    assert len(steps) == 2
    for step in steps:
        parts = [step.input_wait_s, step.host_to_device_s, *step.forward_s, *step.backward_s, step.update_s]
        assert min(parts) >= 0
        assert sum(parts) <= step.step_s + 1e-8 * len(parts)
        trained = [of for of, size in zip(step.backward_s, watch.gradient_bytes, strict=True) if size]
        assert min(trained) > 0
    assert watch.take() == []


def test_a_lower_precision_has_the_same_layers_and_gradients(request_of):
    request = request_of({**MODELS[0], **TINY, "precision": "bf16"})
    table = workloads.table(request.model, request.image_size)
    plain, _ = losses(request)
    watched, watch = losses(request, watch_from=0)
    assert watched == plain
    assert watch.gradient_bytes == [*(4 * sum(layer.parameters) for layer in table), 0]


# ---- times to the tick ----------------------------------------------------------------------------------------------


class HandClock:
    """A clock that only the layers of a test turn."""

    name = "hand"
    time = 0.0

    def now(self):
        return self.time

    def seconds(self, earlier, later):
        return later - earlier


class Taking(torch.autograd.Function):
    """Does nothing, and takes its time."""

    @staticmethod
    def forward(context, x, forward_s, backward_s):
        HandClock.time += forward_s
        context.backward_s = backward_s
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        HandClock.time += context.backward_s
        return gradient, None, None


def takes(x, forward_s, backward_s):
    return Taking.apply(x, forward_s, backward_s)


torch.fx.wrap("takes")


class Branches(nn.Module):
    """Two branches of known times from one tensor, a layer in place behind one, their sum in place, a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.relu = nn.ReLU(inplace=True)
        self.classifier = nn.Linear(4, 2)

    def forward(self, images):
        x = takes(self.stem(images), 1.0, 10.0)
        left = takes(x, 2.0, 20.0)
        left += self.relu(takes(x, 4.0, 40.0))
        return self.classifier(left.flatten(2).mean(2))


@pytest.fixture
def branches(request_of):
    """A watch over `Branches`, whose classifier's bias takes 3 s to arrive, and a step of it."""
    HandClock.time = 0.0
    model = Branches()

    def later(_):
        HandClock.time += 3.0

    model.classifier.bias.register_post_accumulate_grad_hook(later)
    request = request_of({**SHORT, "model.classes": 2})
    watch = LayerWatch(model, image_sample(8), HandClock())
    batches = inputs.open_for(request, 0, CPU)
    step, _ = training_step(watch, batches, request, ALONE, watch.mark)
    return watch, step


def test_every_second_belongs_to_the_layer_that_took_it(branches):
    watch, step = branches
    step()  # nobody watches
    watch.watching = True
    step()
    step()
    names = ["stem", "takes", "takes@1", "takes@2", "relu", "add", "mean", "classifier", LOSS]
    assert watch.names == names
    for seen in watch.take():
        assert dict(zip(names, seen.forward_s, strict=True)) == {
            **dict.fromkeys(names, 0.0), "takes": 1.0, "takes@1": 2.0, "takes@2": 4.0,
        }  # fmt: skip
        assert dict(zip(names, seen.backward_s, strict=True)) == {
            **dict.fromkeys(names, 0.0), "takes": 10.0, "takes@1": 20.0, "takes@2": 40.0, "classifier": 3.0,
        }  # fmt: skip
        assert seen.step_s == 80.0
        assert (seen.input_wait_s, seen.host_to_device_s, seen.update_s) == (0.0, 0.0, 0.0)


def test_a_watch_leaves_no_hooks_behind(branches):
    watch, step = branches
    watch.watching = True
    step()
    step()
    watch.take()
    watch.watching = False
    before = HandClock.time
    step()
    assert HandClock.time - before == 80.0
    assert watch.take() == []
    assert not watch._nodes
    assert not watch._hooks


def test_waiting_and_copying_are_parts_of_their_own(request_of):
    HandClock.time = 0.0
    request = request_of({**SHORT, "model.classes": 2})
    watch = LayerWatch(Branches(), image_sample(8), HandClock())
    made = next(inputs.open_for(request, 0, CPU))

    def reading():
        while True:
            HandClock.time += 5.0
            watch.arrived()
            HandClock.time += 7.0
            yield made

    step, _ = training_step(watch, reading(), request, ALONE, watch.mark)
    watch.watching = True
    step()
    (seen,) = watch.take()
    assert (seen.input_wait_s, seen.host_to_device_s, seen.step_s) == (5.0, 7.0, 5.0 + 7.0 + 77.0)


# ---- what is measured behind the windows ----------------------------------------------------------------------------


def test_the_input_alone_is_timed_when_what_lay_ready_is_used_up(monkeypatch, request_of):
    asked: list[int] = []

    def timed(work, repeats, *_):
        asked.append(repeats)
        for _ in range(repeats):
            work()
        return 6.0

    monkeypatch.setattr(layer_trace, "timed", timed)
    read = iter(range(10**6))
    request = request_of({**SHORT, "input": "torchvision", "input.root": "x", "input.prefetch": 4, "input.threads": 1})
    assert layer_trace.pipeline_s(read, request, CPU, []) == [3.0] * layer_trace.REPEATS
    assert asked == [4 + 3, *[2] * layer_trace.REPEATS]
    assert next(read) == 4 + 3 + 2 * layer_trace.REPEATS


def test_gradients_are_copied_at_their_bytes_over_the_median_time(monkeypatch):
    times = iter([99.0, *[1.0, 2.0] * (layer_trace.REPEATS // 2)])

    def timed(work, *_):
        work()
        return next(times)

    monkeypatch.setattr(layer_trace, "timed_on_device", timed)
    assert layer_trace.copy_rate_Bps(Branches().parameters(), CPU) == 4 * (3 * 4 + 4 + 4 * 2 + 2) / 1.5


@pytest.mark.parametrize("layers", [2, 1000])
def test_on_a_gpu_gradients_are_copied_at_the_devices_rate_and_not_the_hosts(monkeypatch, layers):
    gpu = SimulatedGpu(monkeypatch)
    monkeypatch.setattr(layer_trace, "copy_scaled", lambda gradient, *_: gpu.launch(gradient.nbytes / 1e9))
    parameters = [nn.Parameter(torch.zeros(10)) for _ in range(layers)]
    assert layer_trace.copy_rate_Bps(parameters, torch.device("cuda")) == pytest.approx(1e9)


def test_a_copy_that_waits_for_the_device_has_no_rate(monkeypatch):
    gpu = SimulatedGpu(monkeypatch)
    monkeypatch.setattr(layer_trace, "copy_scaled", lambda *_: gpu.wait())
    assert isinstance(layer_trace.copy_rate_Bps(Branches().parameters(), torch.device("cuda")), Unknown)


def test_the_device_is_busy_while_any_kernel_runs():
    def event(ts, dur, cat="kernel"):
        return {"cat": cat, "ts": ts, "dur": dur}

    events = [event(40.0, 10.0), event(0.0, 10.0), event(5.0, 10.0), event(6.0, 1.0), event(100.0, 50.0, "gpu_memcpy")]
    assert device.covered_s([*events, {"name": "no category"}]) == pytest.approx(25e-6)
    assert device.covered_s([]) == 0.0


@pytest.mark.parametrize(("busy_s", "share", "bound"), [(0.5, 0.5, True), (0.95, 0.95, False), (1.1, 1.0, False)])
def test_a_device_that_idles_for_more_than_a_tenth_of_a_step_waits_for_its_host(monkeypatch, busy_s, share, bound):
    monkeypatch.setattr(layer_trace, "kernels_s", lambda *_: busy_s)
    gpu = torch.device("cuda")
    assert layer_trace.device_busy(lambda: None, 1.0, gpu) == share
    assert layer_trace.host_bound(share, gpu) is bound


def test_a_cpu_rank_waits_for_no_host():
    busy = layer_trace.device_busy(lambda: None, 1.0, CPU)
    assert isinstance(busy, Unknown)
    assert layer_trace.host_bound(busy, CPU) is False
    assert (
        layer_trace.host_bound(Unknown("the profiler saw no kernel"), torch.device("cuda"))
        == "the profiler saw no kernel"
    )


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_layers_are_those_of_one_rank(request_of):
    check(request_of({**SHORT, "gpus": 1, "measure": "layers"}))
    with pytest.raises(ConfigError, match=r"measure=layers with gpus=2: .* use gpus=1, or `resnetx trace`"):
        check(request_of({**SHORT, "gpus": 2, "measure": "layers"}))


@pytest.mark.dist
def test_a_run_with_real_images_records_the_input_alone(tmp_path, task_of, preloaded):
    from resnetx.inputs import image_tree

    image_tree.make(tmp_path / "images", classes=2, per_class=4, size="256", seed=0, workers=1)
    input = {"input": "torchvision", "input.root": str(tmp_path / "images"), "input.threads": 1}
    ended = launcher.execute(task_of({**SHORT, **input, "measure": "layers"}, gpus=1), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    times = ended.layers
    assert (times.clock, times.host_bound, times.device_busy) == ("host", False, None)
    assert ended.unknown["layers.device_busy"] == "a CPU rank has no device beside its host"
    assert len(times.input_s) == layer_trace.REPEATS
    assert len(times.clean_step_s) == 3
    assert [window / ended.window_steps for window in ended.windows_s[0]] == times.clean_step_s
    for times_s in (times.input_wait_s, times.host_to_device_s, times.update_s, times.step_s):
        assert len(times_s) == 6
        assert min(times_s) > 0
    assert sum(layer.gradient_bytes for layer in times.layers) == ended.workload.gradient_bytes
    assert times.gradient_copy_Bps > 0
    assert ended.images_per_s == pytest.approx(4 * ended.window_steps * 3 / sum(ended.windows_s[0]))
    assert len(ended.loss) == 4
    jsonschema.validate(msgspec.to_builtins(ended), msgspec.json.decode(record.json_schema()))
