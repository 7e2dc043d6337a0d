"""Faults of one rank on null GPUs: each ends its run, or is seen in its record, and the right rank is named."""

import msgspec
import pytest

from resnetx.measure.launch import hang, launcher
from resnetx.record import RunFolder
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_runs import SHORT
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]
LONG = pytest.mark.long  # each kind of fault once in every test run, of the other rank in long ones


@pytest.fixture
def faulty(tmp_path, on_ranks, monkeypatch):  # noqa: F811
    """Executes a run of two ranks, of which one fails from a step on, or a piece of work in it (README.md)."""

    def execute(fault: str, **more):
        monkeypatch.setenv("NULLCUDA_FAULT", fault)
        task = msgspec.structs.replace(on_ranks({**SHORT, **more}), timeout_s=10 * PATIENCE_S)
        return launcher.execute(task, RunFolder(tmp_path / "run"))

    return execute


@pytest.mark.parametrize(("rank", "step"), [(1, 3), pytest.param(0, 0, marks=LONG)])
def test_a_rank_without_memory_is_named(faulty, rank, step):
    ended = faulty(f"oom:{rank}:{step}", batch_size=64)  # of which the allocator gives back what steps use
    assert ended.outcome == "oom", ended.reason
    assert ended.reason.startswith(f"rank {rank}: "), ended.reason


@pytest.mark.parametrize(("rank", "step"), [(0, 1), pytest.param(1, 6, marks=LONG)])
def test_a_rank_that_crashes_is_named(faulty, rank, step):
    ended = faulty(f"crash:{rank}:{step}:20")
    assert ended.outcome == "failed"
    assert f"rank {rank} " in ended.reason, ended.reason
    assert "SIGSEGV" in ended.reason


@pytest.mark.parametrize(
    ("rank", "step", "phase"),
    [(1, 3, "step 3 of its warm-up"), pytest.param(0, 1, "its first step", marks=LONG)],
)
def test_a_rank_that_hangs_is_named_with_its_step(faulty, monkeypatch, rank, step, phase):
    monkeypatch.setattr(hang, "LEAST_S", 5.0)
    ended = faulty(f"hang:{rank}:{step}:10")
    assert ended.outcome == "timeout"
    assert ended.reason.startswith(f"rank {rank} hangs in {phase}"), ended.reason
    assert f"; rank {1 - rank} waits in " in ended.reason, ended.reason
    assert f"which rank {rank} did not start" in ended.reason


@pytest.mark.parametrize(("rank", "step"), [(1, 5), pytest.param(0, 2, marks=LONG)])
def test_a_rank_whose_nccl_fails_is_named(faulty, rank, step):
    """torch's watchdog asks for asynchronous errors, aborts the communicator and ends the rank."""
    ended = faulty(f"nccl-error:{rank}:{step}")
    assert ended.outcome == "failed"
    assert f"rank {rank} " in ended.reason, ended.reason
    assert "(SIGABRT): NCCL error: remote process exited" in ended.reason, ended.reason


def test_a_wrong_sum_is_seen(faulty):
    ended = faulty("wrong-sum:1:0", measure="equality")
    assert ended.outcome == "ok", ended.reason
    assert not ended.equality.equal


def test_a_slow_rank_is_seen_and_the_other_waits_for_it(faulty, monkeypatch):
    monkeypatch.setenv("NULLCUDA_KERNEL_US", "300")  # so that a step takes the device's time, not the host's
    ended = faulty("slow:1:0", measure="phases", strategy="after")
    assert ended.outcome == "ok", ended.reason
    assert ended.phases.forward_s[1] > 3 * ended.phases.forward_s[0]
    assert ended.phases.exposed_communication_s[0] > 10 * ended.phases.exposed_communication_s[1]
