"""A run in the lab that is killed at any moment leaves no process, no namespace and no link.

Ten runs, in each of which the launcher or the process that holds the network gets SIGKILL: while the network is built,
while ranks run, and once the record is written. Whatever they started has a variable in its environment, by which it is
recognised; namespaces have no names, so that one without a process could only be held by a mount.
"""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from resnetx.measure import lab_ranks
from tests.patience import PATIENCE_S, until

missing = lab_ranks.missing()
pytestmark = [pytest.mark.long, pytest.mark.dist, pytest.mark.skipif(bool(missing), reason=missing)]

MARK = "RESNETX_TEST_LAB"
SEED = 16
# (phase, what gets the signal, seconds in which it does)
PLAN = [
    *[("set-up", victim, 1.5) for victim in ("launcher", "network", "launcher", "network")],
    *[("run", victim, 2.0) for victim in ("launcher", "network", "launcher", "network")],
    *[("tear-down", victim, 0.3) for victim in ("launcher", "network")],
]


@dataclass(frozen=True)
class Seen:
    """A process of a run."""

    pid: int
    words: str
    space: str  # the namespace that it is in


def of_run(mark):
    """The living processes that a run has started, and their namespaces."""
    seen = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if marked and state not in "ZX":
                words = (entry / "cmdline").read_text().replace("\0", " ")
                seen.append(Seen(int(entry.name), words, str((entry / "ns" / "net").readlink())))
        except OSError:
            continue  # it has ended meanwhile
    return seen


def outside():
    """What a namespace could leave in that of this process: links, and mounts that hold namespaces."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    names = sorted(line.split(":")[1].strip() for line in links.splitlines())
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - nsfs " in line]
    return names, mounts


def holder(mark):
    """The process that makes the namespaces: the first that runs the lab."""
    return min((each.pid for each in of_run(mark) if "resnetx.measure.lab_ranks" in each.words), default=None)


def in_own_namespaces(mark):
    own = str(Path("/proc/self/ns/net").readlink())
    return [each for each in of_run(mark) if each.space != own]


def kill(child, after_s, mark, phase, victim, results):
    """Waits for a phase of a run, and then some time more."""

    def ended():
        return child.poll() is not None

    until(lambda: holder(mark) or ended(), "a network")  # runs of others in the lab have their turns, too
    network = holder(mark)
    assert network, "the run ended by itself"
    if phase == "run":
        until(lambda: len(in_own_namespaces(mark)) >= 4 or ended(), "the start of ranks")
        assert not ended(), "no rank was started"
    if phase == "tear-down":
        until(lambda: list(results.rglob("record.json")) or ended(), "a record")
    time.sleep(after_s)
    try:
        os.kill(child.pid if victim == "launcher" else network, signal.SIGKILL)
    except ProcessLookupError:
        assert phase == "tear-down", "the run ended by itself"
    child.wait(PATIENCE_S)  # the launcher ends by itself where the others are killed


@pytest.mark.parametrize(("number", "phase", "victim", "within_s"), [(n, *each) for n, each in enumerate(PLAN)])
def test_a_killed_run_leaves_nothing(number, phase, victim, within_s, tmp_path):
    chance, mark, before = random.Random(SEED + number), uuid.uuid4().hex, outside()
    words = ["bench", "collective=allreduce", "size=4MiB", "gpus=4", "iterations=80", f"results={tmp_path}"]
    child = subprocess.Popen(
        [sys.executable, "-m", "resnetx", "lab", "systems=gx8", "scale=100", "--", *words],
        env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        kill(child, chance.uniform(0, within_s), mark, phase, victim, tmp_path)
    finally:
        child.kill()
        child.wait()
    until(lambda: not of_run(mark), lambda: f"left: {of_run(mark)}")
    assert outside() == before
