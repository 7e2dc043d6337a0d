"""Locked clocks, through the real binding of NVML: found, tried, and put back however the doctor ends.

The library is a mock (`mock_nvml.c`), and so is the load: no torch here can use such a GPU. `load` keeps its place.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.nvml.machines import CLOCKS, MACHINES, playing
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow  # the Python of `conftest.py` takes seconds to start

# What stands for the load, how long GPUs are watched, and where root would note what to put back.
DOCTOR = """
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from resnetx.measure import locked_clock as lock, held_clock as trial
from resnetx.cli import main
from resnetx.api import doctor

@contextmanager
def load(requests):
    uuids = [f"GPU-00000000-0000-0000-0000-{request.devices[0]:012x}" for request in requests]
    yield SimpleNamespace(uuids=uuids, check=check)

def check():
    pass

class Time:  # which only sleeping moves, so that each trial takes the same readings on a loaded machine
    now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, time_s):
        self.now_s += time_s
        time.sleep(time_s)

trial.loading = load
trial.time = Time()
trial.PACE = trial.Pace(counted_s=0.1, least_s=0.15, most_s=0.3, period_s=0.002)
lock.PATH = Path("note.json")
"""
# Another process would look for the note where root has it.
PROBED_HERE = """
from resnetx.measure import examination
examination.apart = lambda probes, *_: {name: probe() for name, probe in probes.items()}
"""
RUN = "sys.exit(main(['doctor', *sys.argv[1:]]))"


@pytest.fixture
def started(library, python, tmp_path):
    """Starts the doctor on a machine, after `changes` of what stands for the load: the process."""

    def start(machine: str, *words: str, changes: str = "", run: str = RUN) -> subprocess.Popen[str]:
        environment = playing(MACHINES[machine], library, tmp_path)
        program = [python, "-c", DOCTOR + changes + run, *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(program, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)

    return start


@pytest.fixture
def doctor(started):
    """Runs the doctor to its end: exit status, output, errors."""

    def run(*words: str, **more: str) -> tuple[int, str, str]:
        child = started(*words, **more)
        out, err = child.communicate(timeout=PATIENCE_S)
        return child.returncode, out, err

    return run


@pytest.fixture
def changes(tmp_path):
    """The changes of clocks so far: (GPU, MHz), 0 where one was unlocked."""

    def read() -> list[tuple[int, ...]]:
        file = tmp_path / CLOCKS
        return [tuple(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []

    return read


def left(changes) -> dict[int, int]:
    """GPU -> the clock that it is locked at now; 0: none."""
    return dict(changes())


def test_the_highest_clock_that_all_gpus_hold_is_found_and_nothing_stays_locked(doctor, changes, tmp_path):
    status, out, err = doctor("hot", "clock=find")
    assert status == 0, err
    assert out.startswith("1545 MHz is the highest clock that GPUs 0, 1 hold.")
    assert "sudo nvidia-smi --lock-gpu-clocks=1545,1545" in out
    assert "1515 to 1575 MHz, held down by power limit; the highest that can be set is 1980 MHz" in out
    tried = [clock for gpu, clock in changes() if gpu == 0 and clock]
    assert tried[0] == 1515 and {1545, 1560} <= {*tried} and max(tried) <= 1575
    assert left(changes) == {0: 0, 1: 0}
    assert not (tmp_path / "note.json").exists()


def test_gpus_that_hold_their_highest_clock_need_one_trial(doctor, changes):
    status, out, err = doctor("h200", "clock=find", "--json")
    assert status == 0, err
    assert json.loads(out)["clock_MHz"] == 1980
    assert changes() == [(0, 1980), (0, 0)]


@pytest.mark.parametrize("word", ["clock=1500MHz", "clock=1500", "clock=1.5GHz"])
def test_a_clock_that_holds_is_said_to_and_put_back(doctor, changes, word):
    status, out, err = doctor("hot", word, "devices=[1]")
    assert status == 0, err
    assert out.startswith("GPU 1 holds 1500 MHz.")
    assert "sudo nvidia-smi --id=1 --lock-gpu-clocks=1500,1500" in out
    assert "now       unlocked" in out
    assert changes() == [(1, 1500), (1, 0)]
    assert "after kill -9, restore them with `sudo nvidia-smi --id=1 --reset-gpu-clocks`" in err


def test_a_clock_that_does_not_hold_is_status_1_with_the_reason(doctor, changes):
    status, out, err = doctor("hot", "clock=1800MHz")
    assert status == 1, err
    assert out.startswith("GPUs 0, 1 do not hold 1800 MHz: GPU 0 ran at 1515 MHz (power limit).")
    assert "--lock-gpu-clocks" not in out
    assert left(changes) == {0: 0, 1: 0}


def test_a_lock_that_was_there_is_noticed_and_put_back(doctor, changes, tmp_path):
    (tmp_path / CLOCKS).write_text("1 1200\n")
    status, out, err = doctor("hot", "clock=1500")
    assert status == 0, err
    assert "locked as before: GPU 1 at 1200 MHz" in out
    assert left(changes) == {0: 0, 1: 1200}


# ---- however it ends ------------------------------------------------------------------------------------------------

BREAKS = """
looks = 0
def check():
    global looks
    looks += 1
    if Path("clocks.txt").exists():
        raise RuntimeError("the load broke")
"""


def test_an_exception_under_load_leaves_no_clock_locked(doctor, changes):
    status, _, err = doctor("hot", "clock=1500", changes=BREAKS)
    assert status == 1
    assert "the load broke" in err
    assert changes() == [(0, 1500), (1, 1500), (0, 0), (1, 0)]


ENDLESS = "trial.PACE = trial.Pace(counted_s=0.1, least_s=0.1, most_s=60, period_s=0.01)\n" + (
    "trial.has_settled = lambda readings, span: not Path('clocks.txt').exists()\n"
)


def locked(child, changes) -> None:
    until(lambda: changes() or child.poll() is not None, "a lock")
    time.sleep(0.1)
    assert left(changes) == {0: 1500, 1: 1500}


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)], ids=["TERM", "INT", "HUP"]
)
def test_a_signal_under_load_leaves_no_clock_locked(started, changes, sent, status):
    child = started("hot", "clock=1500", changes=ENDLESS)
    locked(child, changes)
    child.send_signal(sent)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == status, err
    assert left(changes) == {0: 0, 1: 0}


def test_what_a_kill_left_locked_is_put_back_by_the_next_one(started, doctor, changes, tmp_path):
    child = started("hot", "clock=1500", changes=ENDLESS)
    locked(child, changes)
    status, _, err = doctor("hot", "clock=1485")
    assert (status, "another process of resnetx has locked the clocks" in err) == (2, True), err
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert left(changes) == {0: 1500, 1: 1500}
    _, out, _ = doctor("hot", "--json", changes=PROBED_HERE)
    found = {each["topic"]: each for each in map(json.loads, out.splitlines())}["clocks"]
    assert found["fix"] == "sudo nvidia-smi --id=0,1 --reset-gpu-clocks"
    assert "killed" in found["what"]
    status, out, err = doctor("hot", "clock=1485")
    assert status == 0, err
    assert "Clocks of GPUs 0, 1 are restored" in err
    assert left(changes) == {0: 0, 1: 0}
    assert not (tmp_path / "note.json").exists()


# ---- where it cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        ("no right to clocks", "this needs root; use sudo; unlocked, no GPU ran slower than 1515 MHz"),
        ("dgx1-p100", "clocks of GPUs before Volta cannot be locked"),
        ("shared", "other processes use GPU 0"),
        ("mig", "MIG is on"),
        ("no driver", "this machine shows no NVIDIA GPU"),
    ],
)
def test_what_keeps_clocks_from_being_locked_is_one_sentence(doctor, changes, machine, says, tmp_path):
    if machine == "shared" and str(Path("/proc/self/ns/pid").readlink()) != "pid:[4026531836]":
        pytest.skip("in this container process ids are not the host's")
    status, out, err = doctor(machine, "clock=find")
    assert (status, out) == (2, "")
    assert says in err.splitlines()[-1], err
    assert changes() == []
    assert not (tmp_path / "note.json").exists()


RUN_OF_RANKS = "sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("machine", "clock", "says"),
    [
        (
            "no right to clocks",
            1500,
            "GPU 0: its clock cannot be locked or unlocked (Insufficient Permissions): this needs root",
        ),
        ("dgx1-p100", 1500, "clock=1500MHz: clocks of GPUs before Volta cannot be locked"),
        ("no driver", 1500, "clock=1500MHz: this machine shows no NVIDIA GPU"),
        ("8 x h200", 1507, "use clock=1500MHz or clock=1515MHz"),
    ],
)
@pytest.mark.parametrize("verb", ["train", "bench"])
def test_a_run_that_cannot_lock_its_clock_is_refused_in_one_sentence(
    started, changes, verb, machine, clock, says, tmp_path
):
    words = ["input=synthetic"] if verb == "train" else ["collective=allreduce", "gpus=2", "oversubscribe=true"]
    child = started(machine, verb, *words, f"clock={clock}MHz", run=RUN_OF_RANKS)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, says in err.splitlines()[-1]) == (2, True), err
    assert changes() == [] and not (tmp_path / "results").exists()


def test_amd_gpus_are_told_to_be_none_of_it(doctor, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    status, _, err = doctor("no driver", "clock=find", changes="from resnetx import host; host._ROOT = Path('.')\n")
    assert (status, "clocks of AMD GPUs are not supported" in err) == (2, True), err


def test_a_clock_without_a_gpu_is_refused_with_its_unit(doctor):
    status, _, err = doctor("no driver", "clock=1227")
    assert (status, "clock=1227MHz: this machine shows no NVIDIA GPU" in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["clock=1507"], "use clock=1500MHz or clock=1515MHz"),
        (["clock=fast"], "clock=fast: expected MHz, e.g. 1227 or 1227MHz"),
        (["clock=find", "results=x"], "results=x: does not apply with clock="),
        (["clock=find", "devices=[0,0]"], "devices=[0, 0]: expected 2 different GPU ids"),
        (["clock=find", "devices=[7]"], "this machine shows 2 GPUs"),
        (["precision=bf16"], "precision=bf16: only with a clock"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_any_clock_changes(doctor, changes, words, says):
    status, _, err = doctor("hot", *words)
    assert (status, says in err) == (2, True), err
    assert changes() == []
