"""A rank and its attendant, which ends as the rank does; and ranks that end before they have one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from resnetx.host import exit_status
from resnetx.measure import launch
from resnetx.measure.launch import FOLDER_VARIABLE, SCRATCH_VARIABLE, Unbegun, show_beginning
from resnetx.record import Failure, RunFolder
from tests.patience import PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attendants wait for signals as Linux has them"),
]

RANK = """
import os, signal, sys, time
from resnetx.measure import rank_process
rank_process.attend()
rank_process.explain_termination()
print(os.getpid(), flush=True)
exec(sys.argv[1])
"""


@pytest.fixture
def rank(tmp_path):
    """Starts a rank, which this process is the torchrun of, and gives its attendant and the folder of the run."""
    started = []

    def start(then):
        folder = RunFolder(tmp_path)
        told = {FOLDER_VARIABLE: str(tmp_path), SCRATCH_VARIABLE: str(tmp_path), "RANK": "3", "LOCAL_RANK": "1"}
        words = [sys.executable, "-c", RANK, then]
        # A shell with the variables of the run stands for torchrun: a rank asks whether its parent has them.
        child = subprocess.Popen(
            ["bash", "-c", '"$@"; exit $?', "-", *words], env={**os.environ, **told}, stdout=subprocess.PIPE, text=True
        )
        started.append(child)
        return child, folder

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ("rank_process._tell_finished(); os._exit(0)", 0),
        ("os._exit(7)", 7),
        ("os._exit(0)", 1),
        ("sys.exit(0)", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),  # as a shell has it
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
        ("rank_process._tell_finished(); os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    ],
)
def test_an_attendant_ends_as_its_rank_does_but_for_a_0_that_is_no_end(rank, then, status):
    child, folder = rank(then)
    assert exit_status(child, PATIENCE_S) == status
    said = [msgspec.json.decode(path.read_bytes(), type=Failure) for path in folder.failures()]
    assert [(each.rank, each.kind) for each in said] == [(3, "error")] * (status == 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("victim", ["rank", "attendant"])
def test_who_asks_a_rank_to_end_is_named_whichever_of_the_two_processes_is_asked(rank, number, victim):
    child, folder = rank("time.sleep(600)")
    process = int(child.stdout.readline())
    attendant = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    assert attendant != child.pid
    os.kill(process if victim == "rank" else attendant, number)
    assert exit_status(child, PATIENCE_S) == 1
    (path,) = folder.failures()
    assert f"ended ({signal.Signals(number).name}) by process {os.getpid()}" in path.read_text()
    until(lambda: not Path(f"/proc/{process}").exists(), "the end of the rank")


def test_a_rank_dies_with_its_attendant_and_that_with_torchrun(rank):
    child, _ = rank("time.sleep(600)")
    process = int(child.stdout.readline())
    child.kill()
    until(lambda: not Path(f"/proc/{process}").exists(), "the end of the rank")


STARTER = """
import os, subprocess, sys, time
for local in range(3):
    program = "" if local == 2 else "import time; time.sleep(600)"
    environment = {**os.environ, "LOCAL_RANK": str(local), "RANK": str(3 + local)}
    subprocess.Popen([sys.executable, "-c", program], env=environment)
print("!", flush=True)
while True:
    time.sleep(0.01)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        break
"""


def test_a_rank_that_ends_before_it_has_begun_is_found_by_those_that_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "BETWEEN_LOOKS_S", 0.0)
    monkeypatch.setattr(launch, "GOING_ON_S", 0.3)
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE) as torchrun:
        torchrun.stdout.readline()
        unbegun = Unbegun(torchrun.pid, tmp_path, 3)
        show_beginning(tmp_path, 0)  # which may end as it likes: its attendant tells
        assert until(unbegun.left, "the rank that has left") == 5
        show_beginning(tmp_path, 2)
        assert unbegun.left() is None
        torchrun.kill()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert Unbegun(torchrun.pid, tmp_path, 3).left() is None, "nothing is known of ranks that nobody has seen"
