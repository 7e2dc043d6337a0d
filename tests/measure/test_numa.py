"""Ranks are kept to the CPUs next to their GPUs: on machines that are written down, with the CPUs of this one."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from resnetx import host
from resnetx.measure.rank import device, nodes
from resnetx.measure.rank.distributed import Ranks

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two GPUs next to the CPUs that are given; afterwards this process may run everywhere again."""
    before = os.sched_getaffinity(0)
    monkeypatch.setattr(host, "_ROOT", tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    gpus = [
        SimpleNamespace(name="H200", uuid="x", pci_domain_id=0, pci_bus_id=bus, pci_device_id=0) for bus in (27, 202)
    ]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda gpu: gpus[gpu.index])

    def wired(*near):
        for bus, cpus in zip(("1b", "ca"), near, strict=True):
            folder = tmp_path / f"sys/bus/pci/devices/0000:{bus}:00.0"
            folder.mkdir(parents=True)
            (folder / "local_cpulist").write_text(cpus + "\n")
        return sorted(before)

    yield wired
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread may have ended meanwhile
            os.sched_setaffinity(int(task.name), before)


def on_gpu(index):
    return Ranks(rank=index, local_rank=index, world_size=2, device=torch.device("cuda", index))


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_a_rank_and_its_threads_run_next_to_the_gpu(machine, here, request_of, monkeypatch):
    first, second, *_ = sorted(os.sched_getaffinity(0))
    machine(str(first), str(second))
    done, seen = threading.Event(), []
    waiting = threading.Thread(target=lambda: (done.wait(), seen.append(os.sched_getaffinity(0))))
    waiting.start()
    nodes.bind(request_of(gpus=2, batch_size=8, threads=1, input="synthetic"), on_gpu(1))
    done.set()
    waiting.join()
    assert os.sched_getaffinity(0) == seen[0] == {second}
    monkeypatch.setattr(device, "full_uuid", lambda uuid: uuid)
    monkeypatch.setattr(device.torch.cuda, "get_device_properties", lambda _: SimpleNamespace(name="", uuid=""))
    assert device.describe_device(on_gpu(1).device).cpus == str(second)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
@pytest.mark.parametrize("why", ["too few for both ranks", "too few for the threads", "the kernel does not tell"])
def test_a_rank_stays_where_the_cpus_next_to_it_do_not_suffice(machine, here, request_of, why):
    allowed = os.sched_getaffinity(0)
    first, second, *_ = sorted(allowed)
    machine(
        *{"too few for both ranks": (str(first),) * 2, "too few for the threads": (str(first), str(second))}.get(
            why, ("", "")
        )
    )
    threads = 2 if why == "too few for the threads" else 1
    nodes.bind(request_of(gpus=2, batch_size=8, threads=threads, input="synthetic"), on_gpu(0))
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
@pytest.mark.parametrize("same_socket", [False, True])
def test_a_rank_alone_is_where_it_would_be_beside_one_on_the_other_gpu(machine, request_of, monkeypatch, same_socket):
    first, second, *_ = sorted(allowed := os.sched_getaffinity(0))
    machine(str(first), str(first if same_socket else second))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    alone = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    nodes.bind(request_of(threads=1, input="synthetic"), alone)
    assert os.sched_getaffinity(0) == (allowed if same_socket else {first})


def test_ranks_on_cpus_and_other_devices_than_the_first_are_told_apart(machine, here, request_of):
    allowed = sorted(os.sched_getaffinity(0))
    machine(str(allowed[0]), str(allowed[-1]))
    cpu = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))
    nodes.bind(request_of(threads=1, input="synthetic"), cpu)
    assert sorted(os.sched_getaffinity(0)) == allowed
    chosen = request_of(gpus=1, devices=[1], threads=1, input="synthetic")  # rank 0 on the second GPU
    nodes.bind(chosen, Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 1)))
    assert os.sched_getaffinity(0) == {allowed[-1]}


def test_cpus_are_written_and_read_as_the_kernel_does(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 8, 10, 11})
    assert host.cpus_text() == "0-2,8,10-11"
    assert host.cpu_numbers("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}
