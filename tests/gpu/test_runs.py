"""Runs on GPUs: precisions, strategies, traces, and how a GPU without memory ends one."""

from itertools import chain, pairwise
from pathlib import Path

import pytest
import torch

from resnetx.inputs import image_tree
from resnetx.measure.bench import timed_collectives
from resnetx.measure.launch import launcher
from resnetx.measure.rank import layer_trace
from resnetx.record import SCHEMA, BenchFile, BenchRequest, RunFolder
from tests.gpu.conftest import ON_NULL_GPUS

pytestmark = pytest.mark.gpu

SMALL = {"model.x": 2, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 8, "threads": 1}
SHORT = {**SMALL, "warmup": 3, "steps": 2, "windows": 3}
STRATEGIES = ("bucket", "layerwise", "after")


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_one_gpu_trains_in_every_precision_that_it_has_and_a_step_may_be_a_graph(
    tmp_path, task_of, has_bf16, precision
):
    ended = launcher.execute(task_of({**SHORT, "precision": precision}), RunFolder(tmp_path / "run"))
    if precision in ("tf32", "bf16") and not has_bf16:
        assert "older than Ampere" in ended.reason
        return
    assert ended.outcome == "ok", ended.reason
    assert ended.devices[0].pci_bus_id
    assert ended.gpu_samples[0].sm_clock_Hz
    (memory,) = ended.device_memory
    assert 0 < memory.allocated_bytes <= memory.reserved_bytes < memory.used_bytes <= memory.total_bytes
    assert ended.environment.gpus
    assert all(loss == loss for loss in ended.loss)
    if precision != "tf32":
        settings = {**SHORT, "precision": precision, "graph": True}
        of_graphs = launcher.execute(task_of(settings), RunFolder(tmp_path / "graph"))
        assert of_graphs.outcome == "ok", of_graphs.reason
        assert all(loss == loss for loss in of_graphs.loss)
        assert len(set(of_graphs.loss)) > 1  # every launch of the graph updates the parameters
        assert of_graphs.peak_memory_bytes[0] > 0.5 * ended.peak_memory_bytes[0]


OTHERS = {
    "alexnet": {},
    "googlenet": {},
    "gptx": {"model.x": 1, "model.width": 32, "model.heads": 2, "model.seq": 16, "model.vocabulary": 64},
}


@pytest.mark.parametrize("model", OTHERS)
def test_other_models_train(tmp_path, task_of, model):
    settings = {"model": model, **OTHERS[model], "batch_size": 4, "threads": 1, "warmup": 3, "steps": 2, "windows": 2}
    ended = launcher.execute(task_of(settings), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason


def test_a_gpu_without_memory_ends_a_run_as_oom(tmp_path, task_of):
    """PyTorch may take 1 GB, which is less than one batch needs."""
    settings = {"model": "googlenet", "batch_size": 256, "threads": 1, "warmup": 3, "steps": 2, "windows": 2}
    settings |= {"memory_limit": "1GB"}
    ended = launcher.execute(task_of(settings), RunFolder(tmp_path / "run"))
    assert ended.outcome == "oom", (ended.outcome, ended.reason)
    assert ended.workload.parameters > 0


# ---- several ranks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_ranks_train_over_nccl_and_say_which_way_the_gradients_went(tmp_path, on_ranks, strategy):
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy}), RunFolder(tmp_path / "run"))
    assert (ended.outcome, ended.backend) == ("ok", "nccl"), ended.reason
    assert ended.transport.used
    shared = len({device.uuid for device in ended.devices}) < 2
    assert ("oversubscribed" in {warning.code for warning in ended.warnings}) == shared


@pytest.mark.dali
def test_several_ranks_train_on_images_that_dali_decodes_on_the_gpu(tmp_path, on_ranks, has_bf16):
    pytest.importorskip("nvidia.dali")
    image_tree.make(tmp_path / "images", classes=2, per_class=16, size="256", seed=0, workers=1)
    settings = {**SHORT, "input": "dali", "input.root": str(tmp_path / "images")}
    settings["precision"] = "bf16" if has_bf16 else "fp16"
    ended = launcher.execute(on_ranks(settings), RunFolder(tmp_path / "run"))
    assert (ended.outcome, ended.backend) == ("ok", "nccl"), ended.reason
    assert ended.input_state.images == 32
    assert ended.input_state.decoder in ("gpu", "gpu hardware")
    assert all(loss == loss for loss in ended.loss)


def test_the_backward_pass_goes_on_while_a_bucket_is_on_its_way(tmp_path, task_of):
    if torch.cuda.device_count() < 2:
        pytest.skip("on one GPU ranks take turns")
    settings = {**SHORT, "model.width": 512, "batch_size": 2, "strategy": "bucket", "strategy.bucket_cap_mb": 1}
    ended = launcher.execute(task_of({**settings, "measure": "phases"}, gpus=2), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    pairs = pairwise(ended.buckets)
    assert any(later.ready_s[0][-1] < earlier.end_s[0][-1] for earlier, later in pairs)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_graphs_hold_what_ranks_exchange(strategy, tmp_path, on_ranks):
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy, "graph": True}), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert len(set(ended.loss)) > 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nccls_messages_start_when_they_are_ready_and_end_before_the_update(strategy, tmp_path, on_ranks):
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy, "measure": "phases"}), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    for bucket in ended.buckets:
        ready, start, end = (list(chain(*times)) for times in (bucket.ready_s, bucket.start_s, bucket.end_s))
        assert all(was_ready <= began + 1e-5 for was_ready, began in zip(ready, start, strict=True))
        assert all(began < ended for began, ended in zip(start, end, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gpu_ranks_equal_one_process_with_synchronised_statistics(strategy, tmp_path, on_ranks):
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy, "measure": "equality"}), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    assert ended.equality.statistics == "synchronised"
    assert ended.equality.equal


@pytest.mark.parametrize(("device", "backend"), [("gpu", "nccl"), ("cpu", "gloo")])
@pytest.mark.parametrize("measure", ["phases", "equality"])
def test_a_parameter_server_trains_on_a_gpu_and_on_the_host(device, backend, measure, tmp_path, on_ranks):
    settings = {**SHORT, "strategy": "server", "strategy.device": device, "measure": measure}
    ended = launcher.execute(on_ranks(settings), RunFolder(tmp_path))
    assert (ended.outcome, ended.backend) == ("ok", backend), ended.reason
    assert measure == "phases" or ended.equality.equal
    for bucket in ended.buckets or []:
        ready, start, end = (list(chain(*times)) for times in (bucket.ready_s, bucket.start_s, bucket.end_s))
        assert all(was_ready <= began + 1e-5 for was_ready, began in zip(ready, start, strict=True))
        assert all(began < ended for began, ended in zip(start, end, strict=True))


COLLECTIVES = [
    "allreduce",
    "broadcast",
    "reduce",
    "allgather",
    "reduce_scatter",
    "alltoall",
    "sendrecv",
    "gather",
    "scatter",
]


@pytest.fixture
def bench_of(on_ranks, tmp_path):
    """Runs a bench of two ranks."""

    def bench(names, sizes, **more):
        request = BenchRequest(
            collectives=names, sizes_bytes=sizes, gpus=2, devices=None, env={}, threads=1, warmup=2, iterations=5,
            seed=0, **more,
        )  # fmt: skip
        shared = on_ranks(SHORT).oversubscribe
        task = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=300, oversubscribe=shared)
        return launcher.supervise(task, RunFolder(tmp_path / "run"))

    return bench


@pytest.mark.parametrize("registered", [False, True])
def test_every_collective_of_a_bench_is_right_and_timed_in_queues(bench_of, registered):
    names, sizes = COLLECTIVES, [8, 2**16, 2**20]
    if ON_NULL_GPUS:  # where large messages take long, and registered memory is the same for all
        names, sizes = (COLLECTIVES[:2], [8, 2**20]) if registered else (COLLECTIVES, [8, 2**16])
    ended = bench_of(names, sizes, registered=registered)
    assert ended.outcome == "ok", ended.reason
    assert {point.collective for point in ended.points} == set(names)
    assert [point.wrong for point in ended.points] == [0] * len(ended.points)
    assert ended.library.startswith("NCCL ")
    assert ended.queue_length == timed_collectives.QUEUE_LENGTH
    for point in ended.points:
        assert point.queued_s, ended.unknown
        assert min(point.queued_s) > 0
    for place, point in enumerate(ended.points):
        if (point.collective, point.size_bytes) != ("allreduce", 2**20):
            continue
        if point.computing_lost is None:  # ranks that share a GPU take turns, so that a message may take long
            assert "takes longer than" in ended.unknown[f"points.{place}.computing_lost"]
        else:
            assert point.computing_lost >= 0


@pytest.mark.parametrize("timing", ["back-to-back", "graph"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rows_and_graphs_of_half_precision_are_right(bench_of, timing, dtype):
    ended = bench_of(["allreduce", "allgather"], [2**16], timing=timing, dtype=dtype)
    assert ended.outcome == "ok", ended.reason
    assert [point.wrong for point in ended.points] == [0, 0]


def test_what_nccl_is_forced_to_is_what_its_log_says(bench_of, tmp_path):
    ended = bench_of(["allreduce"], [2**20], algorithm="ring", protocol="simple")
    assert ended.outcome == "ok", ended.reason
    assert [(point.algorithm, point.protocol) for point in ended.points] == [("RING", "SIMPLE")], ended.unknown
    assert (tmp_path / "run" / "nccl-topology.xml").read_text().startswith("<system")


@pytest.mark.parametrize("transport", ["host", "socket"])
def test_nccl_uses_the_transport_that_it_is_told(bench_of, transport):
    ended = bench_of(["allreduce"], [2**20], transport=transport)
    assert ended.outcome == "ok", ended.reason
    assert ended.transport.requested == transport
    assert "transport" not in {warning.code for warning in ended.warnings}, ended.transport.evidence


def test_a_size_beyond_the_gpus_memory_is_left_out_and_the_others_are_measured(bench_of):
    ended = bench_of(["allreduce"], [2**10, 2**40])
    assert ended.outcome == "ok", ended.reason
    assert [point.size_bytes for point in ended.points] == [2**10]
    assert [skipped.size_bytes for skipped in ended.skipped] == [2**40]


def test_more_elements_than_32_bits_count_are_right(bench_of):
    size_bytes = 4 * (2**31 + 2**20)
    ended = bench_of(["allreduce", "allgather"], [size_bytes])
    if not ended.points:
        pytest.skip(ended.reason)
    assert [point.wrong for point in ended.points] == [0, 0]


# ---- watched --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("images")
    image_tree.make(root, classes=3, per_class=4, size="256", seed=0, workers=1)
    return root


@pytest.mark.parametrize("input", ["synthetic", "torchvision"])
def test_a_watched_run_has_device_times_and_copies(input, tmp_path, task_of, made):
    settings = {**SHORT, "input": input, "measure": "phases"}
    if input == "torchvision":
        settings |= {"input.root": str(made), "input.threads": 1, "input.recipe": "paper"}
    ended = launcher.execute(task_of(settings, gpus=1), RunFolder(tmp_path))
    assert ended.outcome == "ok", f"{ended.reason}\n{ended.stderr_end}"
    assert ended.phases.clock == "CUDA events"
    assert ended.phases.forward_s[0] > 0
    assert ended.phases.backward_s[0] > 0
    copied = input == "torchvision"
    assert (ended.phases.host_to_device_s[0] > 0) == copied
    assert (ended.copies.host_to_device_bytes >= 8 * 3 * 32 * 32) == copied


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_trace_has_device_times_and_says_whether_it_waits_for_the_host(precision, tmp_path, task_of, has_bf16):
    if precision == "bf16" and not has_bf16:
        pytest.skip("this GPU is older than Ampere")
    settings = {**SHORT, "measure": "layers", "precision": precision}
    ended = launcher.execute(task_of(settings, gpus=1), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason
    assert ended.layers.clock == "CUDA events"
    if ended.layers.device_busy is None:  # nobody may profile here, or (null GPUs) there is no CUPTI
        assert ended.unknown["layers.device_busy"] == "the profiler saw no kernel"
    else:
        assert 0 < ended.layers.device_busy <= 1
        assert ended.layers.host_bound == (ended.layers.device_busy < layer_trace.BUSY)
    for layer in ended.layers.layers:
        assert sum(layer.forward_s) > 0
    assert ended.layers.gradient_copy_Bps > 0, ended.unknown


def test_weights_may_lie_in_memory_as_nchw(tmp_path, task_of):
    ended = launcher.execute(task_of({**SHORT, "channels_last": False}), RunFolder(tmp_path))
    assert ended.outcome == "ok", ended.reason


def test_more_memory_than_the_gpu_has_is_refused(tmp_path, task_of):
    ended = launcher.execute(task_of({**SHORT, "memory_limit": "100TB"}), RunFolder(tmp_path))
    assert ended.outcome == "failed"
    assert ended.reason.startswith("rank 0: memory_limit=")


def test_a_rank_that_is_sent_to_a_gpu_that_is_not_there_says_so(tmp_path, task_of):
    ended = launcher.execute(task_of({**SHORT, "devices": [200]}, gpus=1), RunFolder(tmp_path))
    assert ended.outcome == "failed"
    assert "rank 0 needs GPU 200" in ended.reason
