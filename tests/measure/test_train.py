"""The parts of a rank's run that need no other rank."""

from itertools import chain, cycle, repeat

import pytest
import torch

from resnetx import inputs
from resnetx.errors import ConfigError
from resnetx.measure.rank import training, windows
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank_process import _failure
from resnetx.workloads import user_file
from tests.workloads.test_user_file import TOKENS

ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


def warm_up(monkeypatch, request, seconds, ranks=ALONE):
    """The warm-up with a clock that says what the test wants: seconds of a step."""
    readings = iter(seconds)
    monkeypatch.setattr(windows, "timed", lambda _, repeats, *__: repeats * next(readings))
    return windows.warm_up(lambda: None, request, ranks)


def test_the_warm_up_has_as_many_steps_as_asked_when_they_are_steady(monkeypatch, request_of):
    found = warm_up(monkeypatch, request_of(warmup=4), [1.0, 1.0, 1.0, 1.0, 1.0])
    assert (found.steps_s, found.step_s, found.unsteady) == ([1.0] * 3, 1.0, "")


def test_the_warm_up_goes_on_while_steps_get_faster(monkeypatch, request_of):
    found = warm_up(monkeypatch, request_of(warmup=3), [8.0, 4.0, 2.0, 1.9, 1.0])
    assert (found.steps_s, found.step_s, found.unsteady) == ([8.0, 4.0, 2.0, 1.9], 1.9, "")


def test_the_warm_up_ends_at_its_limit(monkeypatch, request_of):
    found = warm_up(monkeypatch, request_of(warmup=3), [2.0**-n for n in range(100)])
    assert (len(found.steps_s), found.unsteady) == (3 * windows.MAX_WARMUP - 1, "raise warmup")


ON_GPU = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))


def test_on_a_gpu_the_warm_up_lasts_two_seconds_and_until_its_clock_has_settled(monkeypatch, request_of):
    steady = warm_up(monkeypatch, request_of(warmup=3), repeat(0.01), ON_GPU)
    assert steady.unsteady == ""
    assert sum(steady.steps_s) == pytest.approx(windows.SHORTEST_WARMUP_S, abs=0.01 + windows.WINDOW_S)
    assert steady.steps_s == pytest.approx([0.01] * len(steady.steps_s))
    heating = chain((0.01 * 1.05**n for n in range(25)), repeat(0.035))
    heated = warm_up(monkeypatch, request_of(warmup=3), heating, ON_GPU)
    assert heated.unsteady == ""
    assert heated.step_s == 0.035
    assert sum(heated.steps_s) > 2 * windows.SHORTEST_WARMUP_S


def test_on_a_gpu_whose_clock_never_settles_the_warm_up_ends_and_says_so(monkeypatch, request_of):
    found = warm_up(monkeypatch, request_of(warmup=3), cycle([0.01, 0.02]), ON_GPU)
    assert found.unsteady.startswith("lock the clock of the GPU")
    assert sum(found.steps_s) == pytest.approx(windows.LONGEST_WARMUP_S, abs=0.5)


def test_no_clock_of_a_gpu_decides_on_the_input(monkeypatch, request_of):
    request = request_of({"measure": "input", "input": "torchvision", "warmup": 3})
    assert len(warm_up(monkeypatch, request, repeat(0.01), ON_GPU).steps_s) == 2


@pytest.mark.parametrize(
    ("step_s", "asked", "steps"), [(0.001, 10, 200), (0.0199, 10, 11), (0.02, 10, 10), (1.0, 10, 10), (0.15, 1, 2)]
)
def test_windows_have_more_steps_where_they_would_be_too_short(request_of, step_s, asked, steps):
    assert windows.window_steps(request_of(steps=asked), step_s) == steps
    assert windows.window_steps(request_of(steps=asked, measure="phases"), step_s) == asked


@pytest.mark.parametrize("channels_last", [True, False])
def test_weights_lie_in_memory_as_asked(request_of, channels_last):
    request = request_of({"model.x": 1, "image_size": 32, "channels_last": channels_last})
    weights = [parameter for parameter in training.build(request, ALONE).parameters() if parameter.dim() == 4]
    kind = inputs.memory_format(channels_last)
    assert all(each.is_contiguous(memory_format=kind) for each in weights if each.shape[1] > 1)


@pytest.mark.slow
def test_a_step_trains(request_of):
    request = request_of({"model.x": 1, "model.width": 8, "model.classes": 2, "image_size": 32, "batch_size": 8})
    torch.manual_seed(0)
    replica = replicate(training.build(request, ALONE), request, ALONE)
    step, progress = training.training_step(replica, inputs.open_for(request, 0, ALONE.device), request, ALONE)
    for _ in range(30):
        step()
        progress.note()
    assert progress.losses[-1] < 0.5 * progress.losses[0]


def test_the_weights_of_uneven_shares_make_the_mean_over_ranks_that_over_images(request_of):
    request = request_of(batch_size=11, gpus=4, split="uneven")
    weights = [training.loss_weight(request, rank) for rank in range(4)]
    of_image = torch.arange(11.0)
    means = [share.mean() for share in of_image.split([request.share(rank) for rank in range(4)])]
    assert sum(weight * mean for weight, mean in zip(weights, means, strict=True)) / 4 == of_image.mean()
    even = request_of(batch_size=12, gpus=4)
    assert [training.loss_weight(even, rank) for rank in range(4)] == [1.0] * 4


class Scaler:
    """A scaler whose scale is what the test wants."""

    def __init__(self, scales):
        self.scales = iter(scales)

    def get_scale(self):
        return next(self.scales)


def test_skipped_updates_are_counted_from_what_they_do_to_the_scale():
    progress = training.LossHistory(Scaler([65536.0, 65536.0, 16384.0, 32768.0, 16384.0]))
    progress.loss = torch.tensor(1.0)
    for _ in range(5):
        progress.note()
    assert progress.skipped == 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("x"), "config"),
        (MemoryError(), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory"), "oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("Can't allocate 100 bytes: cudaErrorMemoryAllocation"), "oom"),
        (torch.distributed.DistBackendError("NCCL error: Cuda failure 2 'out of memory'"), "oom"),
        (RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"), "peer"),
        (torch.distributed.DistBackendError("NCCL error"), "peer"),
        (RuntimeError("shapes differ"), "error"),
    ],
)
def test_a_failure_is_told_apart_by_what_ended_the_rank(error, kind):
    assert _failure(error).kind == kind


def test_a_rank_that_the_hosts_memory_is_too_small_for_names_what_its_task_can_lower():
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: you tried to allocate 4000000000 bytes")
    for smaller in ("batch_size", "size"):
        assert f"4.00 GB at once; use a smaller {smaller} (RuntimeError: [enforce" in _failure(error, smaller).message


@pytest.mark.slow
def test_a_users_own_batch_in_parts_trains_as_the_whole(request_of, tmp_path):
    ours = tmp_path / "ours.py"
    ours.write_text(
        TOKENS.replace("roll(1, 1)}", "roll(1, 1).flatten()}").replace('["labels"].flatten()', '["labels"]')
    )
    user_file.name(str(ours))
    trained = []
    for parts in (1, 2):
        request = request_of({"model": "python", "model.file": str(ours), "batch_size": 4, "accumulate": parts})
        torch.manual_seed(0)
        replica = replicate(training.build(request, ALONE), request, ALONE)
        step, progress = training.training_step(replica, training.open_batches(request, ALONE), request, ALONE)
        step()
        progress.note()
        trained.append(([each.detach() for each in replica.module.parameters()], progress.losses))
    torch.testing.assert_close(*trained)
