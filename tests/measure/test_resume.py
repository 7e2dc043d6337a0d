"""A sweep that is killed again and again ends with the records of one that was not, and leaves no process behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resnetx.cli.words import settings_of
from resnetx.measure.launch import FOLDER_VARIABLE
from resnetx.record import RunSummaryReader, StudyFolder
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("preloaded")]

SMALL = ["input=synthetic", "model.x=1", "model.width=16", "model.classes=10", "image_size=32", "batch_size=8"]
SHORT = ["threads=1", "warmup=3", "steps=2", "windows=2", "twins=0"]
SWEEP = ["-m", "resnetx", "sweep", *SMALL, *SHORT, "gpus=[1,2]", "dirty=true"]


def start(results: Path, repeats: int = 2) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *SWEEP, f"repeats={repeats}", f"results={results}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(results: Path) -> list[int]:
    """The living processes of any run below a results folder: torchruns and ranks."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and any(each.startswith(f"{FOLDER_VARIABLE}={results}/".encode()) for each in variables):
            found.append(int(entry.name))
    return found


def wait_for_ranks(results: Path) -> None:
    until(lambda: len(processes(results)) >= 2, "the start of ranks")


def nothing_is_left(results: Path) -> None:
    until(lambda: not processes(results), "the end of every process")


def runs(results: Path) -> dict[tuple[str, int], tuple[str, int]]:
    """(request, repeat) -> how it ended, and its number of windows."""
    (study,) = results.rglob("study.json")
    briefs = [RunSummaryReader()(folder) for folder in StudyFolder(study.parent).runs()]
    return {(brief.key, brief.repeat): (brief.outcome, len(brief.rates)) for brief in briefs}


def kill_something(child: subprocess.Popen, results: Path, chance: random.Random) -> None:
    """The launcher, or any process of the run that is going on, without a chance to clean up."""
    victims = [child.pid, *processes(results)]
    os.kill(chance.choice(victims), signal.SIGKILL)


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.long)])
def test_a_sweep_that_is_killed_at_random_moments_ends_with_the_records_of_one_that_was_not(
    tmp_path, kills, request_of
):
    chance, hit = random.Random(kills), 0
    for kill in range(kills):
        child = start(tmp_path)
        until(lambda: child.poll() is not None or processes(tmp_path), "the start of a run")  # noqa: B023
        time.sleep(chance.uniform(0, 0.8))  # of four runs each takes 1 to 1.5 s
        if child.poll() is None:
            kill_something(child, tmp_path, chance)
            hit += 1
            if kill < kills - 1:  # a launcher that survives goes on to the end, and would leave nothing to kill
                child.terminate()
        child.wait()
        nothing_is_left(tmp_path)
    assert hit >= 3  # where they are too late, they show nothing
    last = start(tmp_path)
    assert last.wait() == 0, last.stderr.read()
    settings = settings_of([*SMALL, *(word for word in SHORT if not word.startswith("twins"))])
    keys = [request_of(settings, gpus=gpus).key for gpus in (1, 2)]
    assert runs(tmp_path) == {(key, repeat): ("ok", 2) for key in keys for repeat in (1, 2)}


def test_ctrl_c_ends_the_sweep_and_its_ranks(tmp_path):
    child = start(tmp_path)
    wait_for_ranks(tmp_path)
    child.send_signal(signal.SIGINT)
    assert child.wait(PATIENCE_S) == 130
    nothing_is_left(tmp_path)
    assert "finished runs are on disk" in child.stderr.read()


def test_two_sweeps_side_by_side_do_not_meet_and_two_on_one_folder_are_refused(tmp_path):
    one, other = start(tmp_path / "one", repeats=1), start(tmp_path / "other", repeats=1)
    wait_for_ranks(tmp_path / "one")
    one.send_signal(signal.SIGSTOP)  # else it may end before the third has imported what it needs
    third = start(tmp_path / "one", repeats=1)
    assert third.wait() == 2
    one.send_signal(signal.SIGCONT)
    assert "another sweep is running in" in third.stderr.read()
    assert (one.wait(), other.wait()) == (0, 0), one.stderr.read() + other.stderr.read()
    assert runs(tmp_path / "one") == runs(tmp_path / "other")
    assert set(runs(tmp_path / "one").values()) == {("ok", 2)}
