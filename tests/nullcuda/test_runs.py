"""Runs on null GPUs: each strategy and each input orders what it uses, on one context a rank."""

import ctypes

import pytest
import torch
import torch.distributed as dist

from resnetx.choices import Bucket
from resnetx.inputs import Share
from resnetx.measure.launch import launcher
from resnetx.measure.rank import ddp
from resnetx.measure.rank.distributed import Ranks, RegisteredMemory
from resnetx.measure.rank.strategies import _Buckets
from resnetx.record import RunFolder
from tests.bench.bench_host import TINY, launches
from tests.bench.bench_train import bare, ours
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_runs import SHORT, STRATEGIES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]


@pytest.mark.parametrize("strategy", [*STRATEGIES, "server"])
def test_ranks_use_no_memory_out_of_order_and_no_gpu_but_their_own(strategy, tmp_path, on_ranks, monkeypatch):  # noqa: F811
    races, contexts = tmp_path / "races.txt", tmp_path / "contexts.txt"
    monkeypatch.setenv("NULLCUDA_RACES", str(races))
    monkeypatch.setenv("NULLCUDA_CONTEXTS", str(contexts))
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy}), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert not races.exists(), races.read_text()[:4000]
    of_ranks = {tuple(line.split()[1:3]) for line in contexts.read_text().splitlines()}
    assert of_ranks == {(str(rank), str(rank % torch.cuda.device_count())) for rank in range(2)}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_launches_no_more_than_that_of_a_bare_loop(precision, request_of):
    alone = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    request = request_of(TINY, **{"model.x": 1, "precision": precision})
    counts = []
    for made in (bare, ours):
        step = made(request, alone)
        step()  # which allocates
        counts.append(launches(step))
    assert counts[1] <= counts[0]


def test_registered_buckets_lie_in_the_memory_of_nccl_once_ddp_has_made_them_anew(tmp_path):
    alone = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    dist.init_process_group("nccl", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1,
                            device_id=alone.device)  # fmt: skip
    try:
        memory, model = (
            RegisteredMemory(alone),
            torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).cuda(),
        )
        with memory.allocating():
            wrapped = ddp.data_parallel(
                model, Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True), alone
            )
        replica = _Buckets(wrapped, "none", memory)
        for _ in range(3):
            replica(torch.ones(2, 64, device="cuda")).sum().backward()
            model.zero_grad(set_to_none=False)
        segments = [(each["address"], each["address"] + each["total_size"]) for each in memory._pool.snapshot()]
        for parameter in model.parameters():
            assert any(begin <= parameter.grad.data_ptr() < end for begin, end in segments)
            assert not any(begin <= parameter.data_ptr() < end for begin, end in segments)
    finally:
        dist.destroy_process_group()


def test_ranks_train_with_registered_buckets(tmp_path, on_ranks, monkeypatch):  # noqa: F811
    races = tmp_path / "races.txt"
    monkeypatch.setenv("NULLCUDA_RACES", str(races))
    ended = launcher.execute(on_ranks({**SHORT, "registered": True}), RunFolder(tmp_path / "without"))
    assert "registered=true: NCCL has no memory for it on this GPU" in ended.reason  # as torch finds of a null GPU...
    settings = {**SHORT, "registered": True, "env.TORCH_DIST_USE_NCCL2": 1}  # ...but by its newer backend
    ended = launcher.execute(on_ranks(settings), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert ended.request.registered and not races.exists()


_MISSING = {
    "": lambda: None,
    "the wait for the copy": lambda: (torch.cuda.Stream, "wait_event"),
    "the note of who reads it": lambda: (torch.Tensor, "record_stream"),
}


@pytest.mark.parametrize("missing", _MISSING)
def test_a_batch_that_is_copied_ahead_is_there_and_stays_while_a_step_reads_it(missing, tmp_path, monkeypatch):
    from resnetx.inputs.torchvision import _CopiedAhead  # which loads torchvision

    if method := _MISSING[missing]():
        monkeypatch.setattr(*method, lambda *_: None)
    found, runtime = tmp_path / "races.txt", ctypes.CDLL("libcudart.so.13")
    numbers = iter(range(100))

    def read():
        number = next(numbers)
        return torch.full((4, 8, 8, 3), number, dtype=torch.uint8).pin_memory(), torch.full((4,), number).pin_memory()

    sums = []
    runtime.null_detect_races(str(found).encode())
    with torch.cuda.stream(torch.cuda.Stream()):
        batches = _CopiedAhead(read, Share(4, 8, 10, 0, 1, torch.device("cuda", 0), seed=0))
        for _ in range(12):
            torch.cuda._sleep(20_000_000)  # 10 ms by which the device is behind its host
            pixels, labels = batches.next()
            sums.append((pixels.float().mean(), labels.sum()))
            del pixels, labels  # as torch does, once the last kernel that reads them is launched
    torch.cuda.synchronize()
    runtime.null_detect_races(b"")
    assert found.exists() == bool(missing), found.read_text()[:4000] if found.exists() else "the race is not found"
    assert [(mean.item(), total.item()) for mean, total in sums] == [(step, 4 * step) for step in range(12)]
