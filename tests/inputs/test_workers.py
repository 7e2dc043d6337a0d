"""The worker processes of a loader end with the rank that they work for, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from resnetx import inputs
from resnetx.choices import TorchvisionInput, image_sample
from resnetx.errors import ConfigError
from tests.patience import until

pytestmark = pytest.mark.slow  # real pipelines

# A rank as it is at work: SIGTERM is left to a thread, and workers decode.
RANK = """
import os, signal, sys, time
import torch
from resnetx import inputs
from resnetx.inputs import torchvision as batches_of
from resnetx.choices import TorchvisionInput, image_sample
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
given = TorchvisionInput(root=sys.argv[1], format="folders", recipe="imagenet", threads=2, prefetch=1)
batches_of._start_method = lambda device: sys.argv[2]
share = inputs.Share(
    batch_size=2, sample=image_sample(32), classes=3, rank=0, world_size=1, device=torch.device("cpu"), seed=0
)
batches = inputs.open_input(given, share)
next(iter(batches))
print(os.getpid(), *batches._reading._pids, flush=True)
time.sleep(60)
"""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_the_end(pids: list[int]) -> None:
    until(lambda: not any(map(lives, pids)), "the end of the workers")


@pytest.fixture
def at_work(made, preloaded_python):
    """Starts a rank whose workers come about so: the rank, its workers, and the process that they are forked from."""
    processes = []

    def start(method):
        process = subprocess.Popen([preloaded_python, "-c", RANK, str(made), method], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        rank, *workers = map(int, process.stdout.readline().split())
        return rank, workers, int(Path(f"/proc/{workers[0]}/stat").read_text().rpartition(")")[2].split()[1])

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends them on Linux only")
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_are_ended_by_sigterm_and_by_the_death_of_their_rank(at_work, method):
    rank, workers, parent = at_work(method)
    assert len(workers) == 2 and (parent == rank) == (method == "fork")
    os.kill(workers[0], signal.SIGTERM)
    wait_for_the_end(workers[:1])
    os.kill(rank, signal.SIGKILL)
    wait_for_the_end([*workers, parent] if method == "forkserver" else workers)


def loader():
    """The module that starts workers. It loads torchvision, which takes seconds, so only a test that runs needs it."""
    from resnetx.inputs import torchvision

    return torchvision


def opened(root, method, monkeypatch, batch_size=2):
    monkeypatch.setattr(loader(), "_start_method", lambda _: method)
    given = TorchvisionInput(root=str(root), format="folders", recipe="imagenet", threads=1, prefetch=1)
    facts = {"batch_size": batch_size, "sample": image_sample(32), "classes": 3, "rank": 0, "world_size": 1, "seed": 0}
    return inputs.open_input(given, inputs.Share(device=torch.device("cpu"), **facts))


def test_workers_of_a_server_make_the_same_batches(made, monkeypatch, preloaded):
    both = [opened(made, method, monkeypatch) for method in ("fork", "forkserver")]
    images, labels = (torch.stack(each) for each in zip(*map(next, both), strict=True))
    assert torch.equal(images[0], images[1]) and torch.equal(labels[0], labels[1])
    for batches in both:
        batches.close()


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_worker_that_is_killed_names_its_image(tree, monkeypatch, method):
    from torchvision.io import write_jpeg

    noise = torch.randint(0, 256, (3, 2500, 2500), dtype=torch.uint8)  # a tenth of a second of work
    for path in tree.glob("*/*.JPEG"):
        write_jpeg(noise, str(path))
    batches = opened(tree, method, monkeypatch, batch_size=12)
    while not (pid := batches._reading._pids[0]):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConfigError, match=r"\.JPEG: a process died decoding it \(DataLoader worker"):
        next(batches)
    batches.close()


def test_a_rank_that_runs_threads_of_a_gpus_libraries_is_not_forked():
    assert loader()._start_method(torch.device("cuda", 0)) == "forkserver"
    assert loader()._start_method(torch.device("cpu")) == "fork"
