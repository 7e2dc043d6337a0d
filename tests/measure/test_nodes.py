"""Runs on several nodes: what each node is asked for, and what the record has of the others."""

import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from msgspec.structs import replace as replaced

from resnetx import record
from resnetx.api import doctor, train
from resnetx.cli import ranks
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.measure.machine import environment
from resnetx.measure.rank import nodes
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import (
    SCHEMA,
    BenchFile,
    BenchRecord,
    BenchRequest,
    Device,
    Gpu,
    GpuProcess,
    HostLoad,
    RunRecord,
    Unknown,
)
from tests.patience import PATIENCE_S

SHORT = {"model.x": 2, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 8}
SHORT |= {"threads": 1, "input": "synthetic", "warmup": 3, "steps": 2, "windows": 3}
BENCH = BenchRequest(
    collectives=["allreduce"], sizes_bytes=[8, 4096], gpus=2, devices=None, env={}, threads=1, warmup=2, iterations=3,
    seed=0,
)  # fmt: skip


# ---- what a node is asked for ---------------------------------------------------------------------------------------


@pytest.fixture
def eight_gpus(monkeypatch):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 8)


@pytest.mark.parametrize(("here", "fits"), [(8, True), (9, False)])
def test_the_ranks_of_this_node_are_compared_with_its_gpus(eight_gpus, monkeypatch, task_of, here, fits):
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    bench = BenchFile(kind="bench", schema=SCHEMA, request=replaced(BENCH, gpus=16), timeout_s=60)
    run = task_of(gpus=16, batch_size=64)
    for obstacle in (ranks.obstacle_to_run(run), ranks.obstacle_to_bench(bench)):
        if fits:
            assert obstacle == ""
        else:
            assert obstacle.startswith("gpus=16 (9 on this node): this machine shows 8 GPUs")


def test_the_ranks_of_this_node_are_compared_with_its_cores_where_it_has_no_gpu(monkeypatch):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 0)
    monkeypatch.setattr(doctor, "cores", lambda: 4)
    assert doctor.too_many_ranks(8, None, False, here=4) == ""
    assert doctor.too_many_ranks(8, None, False, here=5).startswith("gpus=8 (5 on this node): more ranks than")
    assert doctor.too_many_ranks(8, None, True, here=5) == ""


def test_ranks_may_share_gpus_where_that_is_asked_for(eight_gpus):
    assert "oversubscribe=true" in doctor.too_many_ranks(9, None, False)
    assert doctor.too_many_ranks(9, None, True) == ""
    assert doctor.too_many_ranks(2, [0, 8], True).startswith("devices=[0, 8]: this machine shows 8 GPUs")


def test_the_cores_of_a_node_are_shared_by_its_own_ranks(monkeypatch):
    monkeypatch.setattr("resnetx.config.cores", lambda: 16)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    task, _ = train.task_of(None, {"input": "synthetic", "batch_size": 64}, gpus=8)
    assert (task.request.gpus, task.request.threads) == (8, 4)


def test_a_limit_of_gpu_memory_is_refused_where_there_is_no_gpu(monkeypatch, request_of):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 0)
    assert doctor.obstacle_to(request_of(memory_limit="16GB")).startswith("memory_limit: ")
    assert doctor.obstacle_to(request_of(graph=True)).startswith("graph=true: CUDA graphs need a GPU")


# ---- what is recorded of nodes --------------------------------------------------------------------------------------


def on_two_nodes(tmp_path, *words, entry_module="resnetx.train"):
    """Two torchruns that stand for two nodes, one rank on each, joined over loopback: their output and statuses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=0"]
    command += ["--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={port}"]
    variables = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(
            [*command, f"--node-rank={node}", "-m", entry_module, *map(str, words)],
            env={**variables, "SLURMD_NODENAME": f"node{node}"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in (0, 1)
    ]
    return [(child.communicate(timeout=PATIENCE_S)[0], child.returncode) for child in children]


@pytest.mark.dist
def test_a_run_on_two_nodes_tells_of_both(tmp_path, preloaded):
    ended = on_two_nodes(tmp_path, *(f"{key}={value}" for key, value in SHORT.items()))
    assert [status for _, status in ended] == [0, 0], ended
    (path,) = tmp_path.rglob("record.json")
    assert path.is_relative_to(tmp_path / "results" / "node0" / "train")
    found = record.read(path, RunRecord)
    assert (found.outcome, found.world_size, found.backend) == ("ok", 2, "gloo")
    assert [device.node for device in found.devices] == ["node0", "node1"]
    assert found.environment.node == "node0"
    (other,) = found.other_nodes
    assert (other.rank, other.environment.node, other.environment.torch) == (1, "node1", torch.__version__)
    assert [warning.code for warning in found.warnings if warning.code == "unlike-nodes"] == []


@pytest.mark.dist
def test_a_bench_between_two_nodes_tells_of_both(tmp_path, preloaded):
    """A collective, and copies one way and both ways, between processes that take each other for other hosts."""
    copies = {"copies": ["device"], "copy_sizes_bytes": [4, 2**16], "directions": ["one-way", "both-ways"]}
    request = replaced(BENCH, **copies, endpoint="pageable")
    task = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=60)
    record.write(tmp_path / "run.json", task)
    ended = on_two_nodes(tmp_path, tmp_path / "run.json", entry_module=task.entry_module)
    assert [status for _, status in ended] == [0, 0], ended
    (path,) = tmp_path.rglob("record.json")
    found = record.read(path, BenchRecord)
    assert found.outcome == "ok"
    assert [other.environment.node for other in found.other_nodes] == ["node1"]
    assert {point.wrong for point in found.points} == {0}
    assert {(cell.source, cell.target, cell.size_bytes, cell.direction) for cell in found.cells} == {
        (*pair, size, direction)
        for pair in ((0, 1), (1, 0))
        for size in (4, 2**16)
        for direction in ("one-way", "both-ways")
    }
    assert {(cell.wrong, cell.path, cell.endpoint) for cell in found.cells} == {(0, "socket", "pageable")}
    assert all(len(cell.time_s) == 3 and min(cell.time_s) > 0 for cell in found.cells)
    clocks = {cell.direction: cell.evidence[-1] for cell in found.cells}
    assert clocks == {
        "one-way": "half of a round trip",
        "both-ways": "from the target's start to its end, by its own clock",
    }


ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


def test_one_node_has_no_others():
    machines = nodes.machines(None, ALONE)
    assert list(machines) == [0]
    assert nodes.other_nodes(machines, [HostLoad(busy=0.5, foreign=0.0)]) == []
    assert nodes.unlike(machines) == []


def gpu_at(index: int) -> Gpu:
    unknown = dict.fromkeys(Gpu.__struct_fields__, Unknown("not asked"))
    named = {"name": "NVIDIA H200", "uuid": f"GPU-{index}", "pci_bus_id": f"00000000:1{index}:00.0"}
    return Gpu(**unknown | named | {"index": index})


def test_nodes_that_differ_are_named_with_what_differs():
    first = replaced(environment(None), node="a", gpus=[gpu_at(0)], driver="570.86.15")
    same = replaced(first, node="b")
    other = replaced(first, node="c", gpus=Unknown("no driver"), driver=Unknown("no driver"), torch="1.0")
    (warning,) = nodes.unlike({0: first, 8: same, 16: other})
    assert warning.code == "unlike-nodes"
    assert warning.message.startswith("c differs from a: driver unknown (there 570.86.15), torch 1.0 (there ")
    assert warning.message.endswith("gpus none (there NVIDIA H200)")


def test_processes_of_others_on_the_gpus_of_a_run_are_told():
    processes = [GpuProcess(gpu=gpu, pid=100 + gpu, memory_bytes=1, name="python") for gpu in (1, 3)]
    nowhere = Unknown("this torch does not tell it")

    def device(uuid, place=nowhere, node="a"):
        return Device(rank=0, node=node, index=0, name="NVIDIA H200", uuid=uuid, pci_bus_id=place)

    machine = replaced(environment(None), node="a", gpus=[gpu_at(gpu) for gpu in range(4)], gpu_processes=processes)
    devices = [device("GPU-0"), device("GPU-1")]
    (warning,) = nodes.warnings({0: machine}, devices)
    assert warning.code == "shared-gpus"
    assert warning.message == "other processes were on this run's GPUs of a: python (101)"
    assert nodes.warnings({0: machine}, [device("GPU-2")]) == []
    instance = device("MIG-7", "00000000:11:00.0")  # of a GPU that MIG divides, on which others compute, too
    assert nodes.warnings({0: machine}, [instance]) == [warning]
    assert nodes.warnings({0: machine}, [device("GPU-x", "00000000:11:00.0", node="b")]) == []
    ended = replaced(machine, gpu_processes=[replaced(each, name=Unknown("it has ended")) for each in processes])
    assert nodes.warnings({0: ended}, devices)[0].message.endswith("of a: process 101")
    assert nodes.warnings({0: replaced(machine, gpu_processes=Unknown("a container"))}, devices) == []
    assert nodes.warnings({0: machine}, [device(Unknown("a CPU rank has no GPU"))]) == []


def test_ranks_that_take_turns_are_warned_of(monkeypatch):
    monkeypatch.setattr(nodes, "cores", lambda: 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert nodes.oversubscribed(ALONE) == []
    assert nodes.oversubscribed(ALONE, threads=2)[0].message.startswith("2 ranks with 2 threads each take turns on 2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert nodes.oversubscribed(ALONE)[0].message.startswith("3 ranks take turns on 2 cores")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    on_gpu = replace(ALONE, device=torch.device("cuda", 0))
    assert nodes.oversubscribed(on_gpu)[0].message.startswith("3 ranks take turns on 1 GPU:")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert nodes.oversubscribed(on_gpu) == []


@pytest.mark.parametrize(("scale", "warned"), [(100, False), (10, True)])
def test_links_of_the_lab_that_cores_cannot_fill_are_a_warning(scale, warned):
    network = lab_network(system.load("gx8"), None, 4, scale)  # 4 x 13.1 GB/s / scale; two cores move 1 GB/s
    found = nodes.overdriven(network, 2)
    assert [warning.code for warning in found] == ["overdriven"] * warned
    assert not warned or found[0].remedy == "raise lab.scale to 52"
    assert nodes.overdriven(None, 2) == []
