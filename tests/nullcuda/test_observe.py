"""A loop of the user's own, observed on null GPUs: what its CUDA events say, and what observing adds to a step."""

import sys
from pathlib import Path

import pytest

import resnetx
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure.observed_loop import WARMUP
from resnetx.record.traces import observations
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus  # noqa: F401  (a fixture)
from tests.measure.starting import run_ranks
from tests.nullcuda.observed_loop import LAYERS, MORE, SAMPLES
from tests.nullcuda.test_truth import steps_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

LOOP = Path(__file__).with_name("observed_loop.py")
TIMED_BY_DDP = 14  # steps, with events of its own that it waits for
KERNEL_S = 3e-3  # longer than a slow host takes to launch one


def observed(folder, monkeypatch, *phases, backend=FIRST_NCCL_BACKEND):
    monkeypatch.setenv("NULLCUDA_KERNEL_US", str(KERNEL_S * 1e6))
    monkeypatch.setenv(NCCL_BACKEND_VARIABLE, backend)
    run_ranks(sys.executable, 2, LOOP, folder, *phases, NULLCUDA_STEPS=str(folder / "steps.txt"))
    return [observations(folder / phase) for phase in phases]


def test_the_late_rank_and_phase_are_named_by_cuda_events(tmp_path, monkeypatch):
    phases = ["input", "forward", "backward"]
    ranks = observed(tmp_path, monkeypatch, *phases)
    assert {seen.clock for each in ranks for seen in each} == {"CUDA events"}
    assert {seen.device for each in ranks for seen in each} == {"NVIDIA H100 80GB HBM3"}
    for phase, (first, late) in zip(phases, ranks, strict=True):
        assert [(each.rank, each.phase) for each in resnetx.explain(tmp_path / phase) if each.late] == [(1, phase)]
        times = [sorted(getattr(seen, f"{phase}_s"))[SAMPLES // 2] for seen in (first, late)]
        assert times[1] - times[0] == pytest.approx(MORE * KERNEL_S, rel=0.2)  # the kernels that one of them has more


def test_a_step_has_no_synchronisation_more_and_an_event_for_each_hook(tmp_path, monkeypatch):
    ((seen, _), _) = observed(tmp_path, monkeypatch, "none", "bare")
    assert not [each for each in resnetx.explain(tmp_path / "none") if each.late]
    counts = [list(map(int, (tmp_path / name / "events0.txt").read_text().split())) for name in ("none", "bare")]
    added = {one - other for one, other in list(zip(*counts, strict=True))[WARMUP : WARMUP + SAMPLES]}
    assert added == {seen.hooks} and seen.hooks == 2 * LAYERS + 5
    steps = steps_of(tmp_path / "steps.txt")
    watched, bare = (steps[begin + TIMED_BY_DDP : begin + SAMPLES] for begin in (0, SAMPLES + 6))
    assert {step.synchronisations for step in bare} == {0}
    for one, other in zip(watched, bare, strict=True):
        assert one[1:] == other[1:]  # kernels, synchronisations, copies and messages


def test_where_computing_waits_for_each_bucket_nobody_is_named_and_the_remedy_is(tmp_path, monkeypatch, capfd):
    ((first, late),) = observed(tmp_path, monkeypatch, "forward", backend="1")
    assert min(first.backward_s) > min(late.backward_s) + KERNEL_S  # waiting for the other rank is in it
    assert not [each for each in resnetx.explain(tmp_path / "forward") if each.late]
    assert f"set {NCCL_BACKEND_VARIABLE}=0, and observe again" in " ".join(capfd.readouterr().err.split())
