"""What runs measure on null GPUs is what was described: there the truth is known."""

from pathlib import Path
from typing import NamedTuple

import pytest

from resnetx.measure.launch import launcher
from resnetx.record import SCHEMA, BenchFile, BenchRequest, RunFolder
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_runs import SHORT

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

KERNEL_S = 1e-3  # longer than a slow host takes to launch one, so that the device is never idle
# All gradients then take as long as several backward passes, and what ranks tell each other beside them does not.
LATENCY_S, RATE_BPS = 0.2e-3, 4e5
STRATEGIES = {"bucket": {"strategy.bucket_cap_mb": 0.005}, "layerwise": {}, "after": {}}


class Step(NamedTuple):
    """What a rank launched in a step, from a backward pass to the next (NULLCUDA_STEPS)."""

    rank: int
    kernels: int
    synchronisations: int
    copied: tuple[int, int, int]  # bytes: host to device, device to host, device to device
    messages: list[tuple[int, int]]  # each behind so many kernels, and its bytes
    waits: list[int]  # of a stream that computes for one that sends, behind so many kernels


def steps_of(file: Path, rank: int = 0) -> list[Step]:
    """All steps of a rank."""
    found = []
    for line in file.read_text().splitlines():
        of_rank, _, launches, synchronisations, *copied, order = line.split()
        notes = order.split(",")[1:]
        waits = [int(note[1:]) for note in notes if note[0] == "w"]
        messages = [tuple(map(int, note[1:].split(":"))) for note in notes if note[0] == "m"]
        if int(of_rank) == rank:
            kernels = int(launches) - len(messages)
            found.append(Step(rank, kernels, int(synchronisations), tuple(map(int, copied)), messages, waits))
    return found


def message_s(size_bytes: int) -> float:
    return LATENCY_S + size_bytes / RATE_BPS


def exposed_s(step: Step) -> float:
    """Seconds from the last gradient to the end of the last message, of those that follow each other on one stream."""
    end_s = 0.0
    for kernels, size_bytes in step.messages:
        end_s = max(end_s, kernels * KERNEL_S) + message_s(size_bytes)
    return end_s - step.messages[-1][0] * KERNEL_S


@pytest.fixture
def timed(tmp_path, on_ranks, monkeypatch):  # noqa: F811
    """Runs a strategy where kernels and messages take what is described: its record, and its steps."""

    def run(strategy, **more):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        monkeypatch.setenv("NULLCUDA_STEPS", str(folder / "steps.txt"))
        monkeypatch.setenv("NULLCUDA_KERNEL_US", str(KERNEL_S * 1e6))
        monkeypatch.setenv("NULLCUDA_NCCL_US", str(LATENCY_S * 1e6))
        monkeypatch.setenv("NULLCUDA_NCCL_GBPS", str(RATE_BPS / 1e9))
        settings = {**SHORT, **STRATEGIES[strategy], "strategy": strategy, **more}
        ended = launcher.execute(on_ranks(settings), RunFolder(folder))
        assert ended.outcome == "ok", ended.reason
        return ended, steps_of(folder / "steps.txt")

    return run


def first(*strategies: str) -> list:
    """Strategies of which every test run has the first, and long ones all."""
    return [strategies[0], *(pytest.param(other, marks=pytest.mark.long) for other in strategies[1:])]


@pytest.mark.parametrize("strategy", first("layerwise", "bucket", "after"))
def test_messages_overlap_the_backward_pass_as_their_streams_say(strategy, timed):
    ended, steps = timed(strategy, measure="phases")
    sent = steps[-1].messages
    assert (len(sent) > 1) == (strategy != "after")
    # The rank that is there last waits for the messages alone, the other one for it, too.
    assert min(ended.phases.exposed_communication_s) == pytest.approx(exposed_s(steps[-1]), rel=0.05)
    for bucket, (kernels, size_bytes) in zip(ended.buckets, sent, strict=True):
        assert bucket.size_bytes == size_bytes
        ready_s = bucket.ready_s[0][-1] - ended.buckets[0].ready_s[0][-1]
        assert ready_s == pytest.approx((kernels - sent[0][0]) * KERNEL_S, rel=0.05, abs=KERNEL_S)
        assert bucket.end_s[0][-1] - bucket.start_s[0][-1] == pytest.approx(message_s(size_bytes), rel=0.05)


def test_what_fsdp_waits_for_is_no_part_of_its_passes(on_ranks, tmp_path, monkeypatch):  # noqa: F811
    """Its messages go on streams of their own, and its step waits for what is left of them where it needs them."""
    monkeypatch.setenv("NULLCUDA_STEPS", str(tmp_path / "steps.txt"))
    monkeypatch.setenv("NULLCUDA_KERNEL_US", str(KERNEL_S * 1e6))
    monkeypatch.setenv("NULLCUDA_NCCL_US", str(LATENCY_S * 1e6))
    monkeypatch.setenv("NULLCUDA_NCCL_GBPS", str(RATE_BPS / 1e9))
    ended = launcher.execute(on_ranks({**SHORT, "strategy": "fsdp", "measure": "phases"}), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    latest, phases = steps_of(tmp_path / "steps.txt")[-1], ended.phases
    assert len(ended.buckets) == len(latest.messages) == 7  # of two blocks and the rest, one of them gathered twice
    for bucket in ended.buckets:
        times_s = [end[-1] - start[-1] for end, start in zip(bucket.end_s, bucket.start_s, strict=True)]
        assert 0.95 * message_s(bucket.size_bytes / 2) < min(times_s) < 1.05 * message_s(bucket.size_bytes)
    for passes_s in map(sum, zip(phases.forward_s, phases.backward_s, phases.optimizer_s, strict=True)):
        assert passes_s > 0.8 * latest.kernels * KERNEL_S  # the others run beside, on the other streams
    assert min(phases.gather_s) > message_s(ended.buckets[0].size_bytes / 2)  # at least the first, which nothing hides


@pytest.mark.long
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_and_graphs_of_steps_take_their_kernels_and_what_these_do_not_hide(strategy, timed):
    ended, steps = timed(strategy)
    latest = steps[-1]
    expected_s = pytest.approx(latest.kernels * KERNEL_S + exposed_s(latest), rel=0.05)
    graphed, _ = timed(strategy, graph=True)
    for run in (ended, graphed):
        step_s = [seconds / run.steps_per_window for seconds in run.windows_s[0]]
        assert step_s == [expected_s] * len(step_s)


def test_queued_collectives_take_what_their_messages_take(on_ranks, tmp_path, monkeypatch):  # noqa: F811
    rate_Bps, size = 1e9, 2**18
    monkeypatch.setenv("NULLCUDA_NCCL_US", str(LATENCY_S * 1e6))
    monkeypatch.setenv("NULLCUDA_NCCL_GBPS", str(rate_Bps / 1e9))
    names = ["allreduce", "broadcast", "reduce", "allgather", "reduce_scatter"]
    request = BenchRequest(
        collectives=names, sizes_bytes=[size], gpus=2, devices=None, env={}, threads=1, warmup=1, iterations=2, seed=0
    )
    shared = on_ranks(SHORT).oversubscribe
    task = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=300, oversubscribe=shared)
    ended = launcher.supervise(task, RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    for point in ended.points:
        assert point.queued_s == pytest.approx([LATENCY_S + size / rate_Bps] * len(point.queued_s), rel=0.05), point


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
