"""Runs on null GPUs: what ranks order, launch, wait for and copy, on which GPUs of which machines."""

import ctypes
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import torch
import torch.distributed as dist

from resnetx import record
from resnetx.api.load import explain
from resnetx.api.train import asked_run
from resnetx.choices import Bucket, DaliInput
from resnetx.cli.verbs import show_train
from resnetx.copies import COPIES, Flow
from resnetx.host import cores
from resnetx.inputs import Share, image_tree
from resnetx.launching import NCCL_BACKEND_VARIABLE
from resnetx.measure.launch import launcher
from resnetx.measure.rank import replicas
from resnetx.measure.rank.distributed import Ranks, RegisteredMemory
from resnetx.measure.rank.strategies import _Buckets
from resnetx.record import BenchRecord, RunFolder
from resnetx.units import si
from resnetx.workloads.families import ResNetX
from tests import nullcuda
from tests.bench.bench_host import TINY, counted
from tests.bench.bench_train import bare, ours
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_copies import observed
from tests.gpu.test_runs import SHORT, STRATEGIES
from tests.nullcuda.test_clock import POINT
from tests.nullcuda.test_truth import first, steps_of
from tests.nvml.machines import H100, MACHINES, READY, V100, Machine

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

EIGHT = Machine(*H100, count=8, fabric=READY, switch_links=18)
IN_WINDOWS = {**SHORT, "warmup": 12, "steps": 20, "windows": 2}  # DDP times its first ten steps


@pytest.fixture
def playing(tmp_path, monkeypatch):
    """Makes the runs of a test meet another machine."""

    def play(machine: Machine, gpus: int = 0) -> None:
        (tmp_path / "machine.txt").write_text(machine.text)
        monkeypatch.setenv("MOCK_NVML", str(tmp_path / "machine.txt"))
        monkeypatch.setenv(nullcuda.VARIABLE, str(gpus or machine.count))
        monkeypatch.setenv("NULLCUDA_KIND", "V100" if "V100" in machine.name else "H100")

    return play


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Executes a run; its record, and the files that the device writes of races, contexts and steps."""
    files = {name: tmp_path / f"{name}.txt" for name in ("races", "contexts", "steps")}
    for name, file in files.items():
        monkeypatch.setenv(f"NULLCUDA_{name.upper()}", str(file))

    def execute(task):
        return launcher.execute(task, RunFolder(tmp_path / "run")), files

    return execute


def contexts(file: Path) -> set[tuple[int, int]]:
    """(rank, GPU) of each context."""
    return {tuple(map(int, line.split()[1:3])) for line in file.read_text().splitlines()}


@pytest.mark.parametrize("strategy", first("bucket", "layerwise", "after", "server"))
def test_a_window_has_no_synchronisation_and_no_copy_with_the_host(strategy, executed, on_ranks):  # noqa: F811
    """Nor do ranks use memory out of order, or a GPU but their own, or wait for NCCL before the last gradient."""
    of_server = {"strategy.device": "gpu"} if strategy == "server" else {}
    several = {"strategy.bucket_cap_mb": 0.005} if strategy == "bucket" else {}
    ended, files = executed(on_ranks({**IN_WINDOWS, "strategy": strategy, **of_server, **several}))
    assert ended.outcome == "ok", ended.reason
    assert not files["races"].exists(), files["races"].read_text()[:4000]
    assert contexts(files["contexts"]) == {(rank, rank % torch.cuda.device_count()) for rank in range(2)}
    for rank in range(2):
        inside = steps_of(files["steps"], rank)[1 - ended.steps_per_window :]
        assert {step.copied[:2] for step in inside} == {(0, 0)}
        waiting = [step for step in inside if step.synchronisations]
        assert len(waiting) <= (strategy == "bucket")  # DDP times every hundredth step
        assert {step.messages[-1][0] <= min(step.waits) for step in inside} == {True}


@pytest.mark.long
def test_torchs_newer_nccl_backend_waits_between_buckets(executed, on_ranks, monkeypatch):  # noqa: F811
    """Why ranks take the older one, and what the test above would see without it."""
    monkeypatch.setenv(NCCL_BACKEND_VARIABLE, "1")
    ended, files = executed(on_ranks({**IN_WINDOWS, "strategy.bucket_cap_mb": 0.005}))
    assert ended.outcome == "ok", ended.reason
    latest = steps_of(files["steps"])[-1]
    assert min(latest.waits) < latest.messages[-1][0]


def test_a_step_launches_the_kernels_of_a_bare_loop(executed, task_of):
    ended, files = executed(task_of(IN_WINDOWS, gpus=1))
    assert ended.outcome == "ok", ended.reason
    inside = steps_of(files["steps"])[1 - ended.steps_per_window :]
    assert {step.kernels for step in inside} == {bare_kernels()}


def bare_kernels() -> int:
    """Of a step of the same model, without anything of ours."""
    model = ResNetX(2, 16, 10).to("cuda", memory_format=torch.channels_last)
    update = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    images = torch.randn(8, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    labels, runtime, seen = torch.zeros(8, dtype=torch.long, device="cuda"), ctypes.CDLL("libcudart.so.13"), []
    for _ in range(3):
        seen.append(runtime.null_launches())
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        update.step()
        update.zero_grad(set_to_none=True)
    return seen[-1] - seen[-2]


# Bytes that a step copies to the device, to the host and on the device (Li et al., Fig. 32-35), of a rank with so many
# images, by the bytes of all gradients. On the device torch copies the gradient of pooled features, 16 for each image.
COPIED = {
    "a server on the host": (2, lambda images, gradients: (gradients, gradients, images * 64)),
    "torchvision": (1, lambda images, _: (images * (3 * 32 * 32 + 8), 0, images * 64)),  # pixels, and labels of 8 B
    "a server on a GPU": (2, lambda images, gradients: (0, 0, images * 64 + 2 * gradients)),
}


@pytest.mark.parametrize("name", first(*COPIED))
def test_copies_of_a_step_are_told_apart_by_direction(name, executed, task_of, tmp_path, capsys):
    ranks, copied = COPIED[name]
    settings = {"strategy": "server", "strategy.device": "cpu" if name.endswith("host") else "gpu"}
    if name == "torchvision":
        image_tree.make(tmp_path / "images", classes=3, per_class=16, size="256", seed=0, workers=1)
        settings = {"input": "torchvision", "input.root": str(tmp_path / "images"), "input.threads": 1}
    ended, files = executed(task_of({**SHORT, **settings, "gpus": ranks, "measure": "phases"}))
    assert ended.outcome == "ok", ended.reason
    inside = steps_of(files["steps"])[1 - ended.steps_per_window :]
    parameters = [*ResNetX(2, 16, 10).parameters()]
    expected = copied(8 // ranks, 4 * sum(each.numel() for each in parameters))
    assert {step.copied for step in inside} == {expected}
    found = ended.copies
    assert found.counted_by == "operators"  # CUPTI refuses
    told = found.host_to_device_bytes, found.device_to_host_bytes, found.device_to_device_bytes
    last = [steps_of(files["steps"], rank)[-1].copied for rank in range(ranks)]
    assert told == tuple(map(sum, zip(*last, strict=True)))
    calls = {"torchvision": 2, "a server on the host": ranks * len(parameters), "a server on a GPU": 0}[name]
    assert found.host_to_device_calls == calls
    assert found.host_to_device_s is None
    show_train.run(ended, RunFolder(tmp_path / "run"))
    (line,) = explain(tmp_path / "run")[0].evidence
    assert line.startswith("copies of a step: ") and " ".join(line.split()) in " ".join(capsys.readouterr().out.split())
    assert found.host_to_device_bytes == 0 or f"{si(found.host_to_device_bytes, 'B')} to the GPU in {calls}" in line


# ---- machines -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_ranks_drive_the_gpus_that_devices_names(executed, playing, task_of):
    playing(EIGHT)
    ended, files = executed(task_of({**SHORT, "devices": [5, 2], "gpus": 2}))
    assert ended.outcome == "ok", ended.reason
    assert contexts(files["contexts"]) == {(0, 5), (1, 2)}


def test_a_rank_alone_has_the_threads_of_each_of_eight(playing):
    playing(EIGHT)
    alone, beside = (asked_run(None, {**POINT, "gpus": gpus, "batch_size": 16})[0].request for gpus in (1, 8))
    assert alone.threads == beside.threads == max(1, cores() // 8)


@pytest.mark.long
def test_two_v100_are_told_which_torch_they_need(executed, playing, task_of):
    playing(Machine(*V100, count=2, driver="580.95.05", pcie=3, mig=-1, direct={(0, 1): 2}))
    ended, _ = executed(task_of(SHORT, gpus=2))
    assert ended.outcome == "failed"
    assert "Tesla V100-SXM2-16GB has compute capability 7.0" in ended.reason
    assert "[cuda12]" in ended.reason


@pytest.mark.long
def test_an_instance_of_a_divided_gpu_trains(executed, playing, task_of):
    playing(MACHINES["mig"], gpus=1)
    ended, _ = executed(task_of(SHORT, gpus=1))
    assert ended.outcome == "ok", ended.reason


@pytest.mark.long
def test_ranks_share_one_gpu(executed, playing, task_of):
    playing(Machine(*H100))
    ended, files = executed(msgspec.structs.replace(task_of(SHORT, gpus=2), oversubscribe=True))
    assert ended.outcome == "ok", ended.reason
    assert contexts(files["contexts"]) == {(0, 0), (1, 0)}


def test_gpus_without_peer_access_are_copied_between_all_the_same(monkeypatch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    assert observed(Flow(0, 1), 2**16).evidence[0] != "peer access off"
    monkeypatch.setenv("NULLCUDA_PEERS", "0")
    found = observed(Flow(0, 1), 2**16)
    assert found.wrong == [0]
    assert found.evidence[0] == "peer access off"


@pytest.mark.long
def test_every_kind_of_copy_is_right_on_four_gpus(playing, tmp_path):
    playing(EIGHT, gpus=4)
    words = [f"copy={','.join(COPIES)}", "gpus=4", "through=3", "size=4,64KiB", "iterations=3", f"results={tmp_path}"]
    subprocess.run([sys.executable, "-m", "resnetx", "bench", *words], check=True, capture_output=True)
    found = record.read(next(tmp_path.rglob("record.json")), BenchRecord)
    assert found.outcome == "ok", found.reason
    assert {cell.copy for cell in found.cells} == {*COPIES}
    assert {cell.wrong for cell in found.cells} == {0}


# ---- eight GPUs, and a thousand steps -------------------------------------------------------------------------------

EVERY_STRATEGY = [*STRATEGIES, "server", "zero1", "fsdp"]
ON_EIGHT = {
    **{f"{strategy} on 8": {"gpus": 8, "strategy": strategy} for strategy in EVERY_STRATEGY},
    **{f"equality of {name} on 4": {"gpus": 4, "strategy": name, "measure": "equality"} for name in EVERY_STRATEGY},
    "an uneven split on 8": {"gpus": 8, "batch_size": 20, "split": "uneven"},
    "an uneven split on 4": {"gpus": 4, "batch_size": 19, "split": "uneven", "measure": "equality"},
    "a graph on 8": {"gpus": 8, "graph": True},
    "phases on 8": {"gpus": 8, "measure": "phases"},
    "the last four": {"gpus": 4, "devices": [4, 5, 6, 7]},
}


@pytest.mark.long
@pytest.mark.parametrize("name", ON_EIGHT)
def test_a_machine_of_eight(name, executed, playing, task_of, monkeypatch):
    monkeypatch.setenv("NULLCUDA_COMPUTE", "1")
    playing(EIGHT)
    ended, files = executed(task_of({**SHORT, "batch_size": 16, **ON_EIGHT[name]}))
    assert ended.outcome == "ok", ended.reason
    assert ended.equality is None or ended.equality.equal
    assert not files["races"].exists(), files["races"].read_text()[:4000]
    gpus = ended.request.devices or range(ended.request.gpus)
    assert contexts(files["contexts"]) == set(enumerate(gpus))


@pytest.mark.long
@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
def test_a_thousand_clean_steps_use_no_memory_out_of_order(strategy, executed, on_ranks):  # noqa: F811
    ended, files = executed(on_ranks({**SHORT, "strategy": strategy, "steps": 500, "windows": 2}))
    assert ended.outcome == "ok", ended.reason
    assert len(steps_of(files["steps"])) > 1000
    assert not files["races"].exists(), files["races"].read_text()[:4000]


# ---- steps beside a bare loop, registered buckets, batches copied ahead ----------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_launches_and_waits_as_a_bare_loop_does_that_has_its_optimizer(precision, request_of):
    alone = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    request = request_of(TINY, **{"model.x": 1, "precision": precision})
    counts = []
    for step in (bare(request, alone, fused=True), ours(request, alone)):
        step()  # which allocates
        counts.append(counted(step))
    assert counts[0] == counts[1]
    assert counts[1][1] == 0, "a step waits for the device"


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
            wrapped = replicas.data_parallel(
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


@pytest.mark.parametrize("newer", [0, 1])
def test_ranks_train_with_registered_buckets(newer, tmp_path, on_ranks, monkeypatch):  # noqa: F811
    races = tmp_path / "races.txt"
    monkeypatch.setenv("NULLCUDA_RACES", str(races))
    settings = {**SHORT, "registered": True, f"env.{NCCL_BACKEND_VARIABLE}": newer}
    ended = launcher.execute(on_ranks(settings), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert ended.request.registered and not races.exists()


@pytest.mark.long
def test_a_compiled_model_launches_fewer_kernels_and_sends_a_bucket_as_soon_as_its_part_is_done(
    tmp_path,
    executed,
    on_ranks,  # noqa: F811
    monkeypatch,
):
    """Triton compiles for the GPU that is played; that kernels compute nothing leaves their order as it is."""
    settings = {**IN_WINDOWS, "strategy.bucket_cap_mb": 0.01, "channels_last": False}  # as without cuDNN, torch expects
    latest = {}
    for compile in ("none", "default"):
        if compile == "default":  # in a Python that has not been forked: torch compiles in processes of its own
            monkeypatch.setattr(sys, "executable", str(Path(sys.prefix, "bin/python")))
            monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
            monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
        ended, files = executed(on_ranks({**settings, "compile": compile}))
        assert ended.outcome == "ok", ended.reason
        assert not files["races"].exists(), files["races"].read_text()[:4000]
        latest[compile] = steps_of(files["steps"])[-1]
        files["steps"].unlink()
    compiled, eager = latest["default"], latest["none"]
    assert compiled.kernels < eager.kernels
    assert compiled.synchronisations == 0
    assert sum(size for _, size in compiled.messages) == sum(size for _, size in eager.messages)
    behind = [kernels for kernels, _ in compiled.messages]
    assert len({*behind}) >= 3, "a message behind each part"
    assert behind[-1] <= min(compiled.waits)


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


class LikeDali:
    """A pipeline that fills memory on a stream of its own, in its order again as soon as torch has dropped it."""

    def __init__(self) -> None:
        self.stream, self.free, self.made, self.batch = torch.cuda.Stream(), [], [], 0

    def schedule_run(self) -> None:
        memory = self.free.pop(0) if self.free else torch.empty(4, 3, 8, 8, device="cuda")
        with torch.cuda.stream(self.stream):
            memory.fill_(self.batch)
        self.made.append(memory)
        self.batch += 1

    def outputs(self, stream):
        stream.wait_stream(self.stream)
        memory = self.made.pop(0)
        shown = memory.view_as(memory)
        weakref.finalize(shown, self.free.append, memory)
        return [SimpleNamespace(as_tensor=lambda tensor=tensor: tensor) for tensor in (shown, torch.zeros(4))]


@pytest.mark.dali
@pytest.mark.parametrize("kept", [True, False])
def test_dali_does_not_write_into_a_batch_that_a_step_still_reads(kept, tmp_path, monkeypatch):
    """Unless batches are not kept until an event behind their step has happened: then the detector finds that."""
    dali = pytest.importorskip("resnetx.inputs.dali")
    image_tree.make(tmp_path / "images", classes=1, per_class=4, size="256", seed=0, workers=1)
    pipeline = LikeDali()
    monkeypatch.setattr(dali, "_pipeline", lambda *_: pipeline)
    monkeypatch.setattr(dali, "from_dlpack", lambda tensor: tensor)
    monkeypatch.setattr(dali._Given, "returned", lambda _: None)  # no file is read
    if not kept:
        monkeypatch.setattr(dali._InUse, "returned", lambda *_: None)
    given = DaliInput(
        root=str(tmp_path / "images"), format="folders", recipe="paper", threads=1, prefetch=1, decoder="cpu"
    )
    found, runtime = tmp_path / "races.txt", ctypes.CDLL("libcudart.so.13")
    runtime.null_detect_races(str(found).encode())
    with torch.cuda.stream(torch.cuda.Stream()):
        batches = dali.DaliBatches(given, Share(4, 8, 10, 0, 1, torch.device("cuda", 0), seed=0, channels_last=False))
        for _ in range(12):
            pixels, _ = next(batches)
            torch.cuda._sleep(20_000_000)  # 10 ms by which the device is behind its host
            pixels.sum()
            del pixels  # as torch does, once the last kernel that reads them is launched
        batches.close()
    runtime.null_detect_races(b"")
    assert found.exists() != kept, found.read_text()[:4000] if kept else "the race is not found"
