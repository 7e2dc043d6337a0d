"""The worker processes of a loader end with the rank that they work for, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A rank as it is at work: SIGTERM is left to a thread, and workers decode.
RANK = """
import signal, sys, time
import torch
from resnetx import inputs
from resnetx.config import TorchvisionInput
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
given = TorchvisionInput(root=sys.argv[1], format="folders", recipe="imagenet", threads=2, prefetch=1)
batches = inputs.open_input(
    given, batch_size=2, image_size=32, classes=3, rank=0, world_size=1, device=torch.device("cpu"), seed=0
)
next(iter(batches))
print("at work", flush=True)
time.sleep(60)
"""


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 30
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(lives, pids))


@pytest.fixture
def rank(made):
    process = subprocess.Popen([sys.executable, "-c", RANK, str(made)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends them on Linux only")
def test_workers_are_ended_by_sigterm_and_by_the_death_of_their_rank(rank):
    workers = [pid for pid in children(rank.pid) if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGTERM)
    assert gone(workers[:1])
    rank.kill()
    assert gone(workers)
