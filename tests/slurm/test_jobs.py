"""Jobs of a real Slurm: two slurmd on this host, with gloo ranks on both, and what becomes of jobs that end early."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from resnetx import record
from resnetx.record import RunRecord, StudyRecord

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SITE = "partition: debug\ninterface: lo\nexclusive: false\n"
TINY = {
    "input": "synthetic", "model.width": 4, "image_size": 64, "batch_size": 8, "warmup": 3, "steps": 1, "windows": 2,
    "threads": 1, "oversubscribe": "true", "repeats": 1, "twins": 0, "dirty": "true",
}  # fmt: skip
LONG = {**TINY, "windows": 10000, "steps": 100}  # it will not end by itself
PATIENCE_S = 600.0  # of a loaded machine


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site.yaml").write_text(SITE)
    return tmp_path


@contextmanager
def without_node2(slurm, state):
    """Has an administrator take node2 away, and give it back."""
    slurm.say("scontrol", "update", "NodeName=node2", f"State={state}", "Reason=test")
    try:
        yield
    finally:
        until(lambda: "completing" not in slurm.states(), lambda: str(slurm.states()))
        slurm.say("scontrol", "update", "NodeName=node2", "State=RESUME")


def resnetx(slurm, folder, verb, settings=None, *more, status=0):
    """What a command of resnetx prints."""
    words = [f"{key}={value}" for key, value in (settings or {}).items()]
    launch = ["launcher=slurm", "nodes=2", "site=site.yaml"]
    ended = subprocess.run(
        [sys.executable, "-m", "resnetx", verb, *words, *launch, *more],
        cwd=folder,
        env={**os.environ, **slurm.variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == status, ended.stderr
    return ended.stdout + ended.stderr


def submit(*given):
    """The number of the job that a command submits."""
    return re.search(r"Job (\d+) is submitted", resnetx(*given))[1]


def until(holds, what):
    """The first true value of `holds`, within the patience of these tests."""
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, what()
        time.sleep(0.3)
    return found


def log(folder) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("jobs/*.log")))


def ended(slurm, number, folder):
    """Waits for the end of a job."""
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
    until(lambda: slurm.job(number)["JobState"] in over, lambda: log(folder))


def begun(folder) -> Path:
    """The record of the only run, as soon as its ranks have been started."""

    def found():
        return [path.parent / "record.json" for path in folder.rglob("stderr.log")]

    return until(found, lambda: log(folder))[0]


def cut_short(path, folder) -> RunRecord:
    """The record of a run once it says why its job ended."""

    def told():
        found = record.read(path, RunRecord)
        return found if found.job.ended else None

    return until(told, lambda: log(folder))


def test_an_array_measures_a_study_on_two_nodes_and_goes_on_with_it(slurm, folder):
    number = submit(slurm, folder, "sweep", {**TINY, "gpus": 2}, "jobs=2")
    for task in (1, 2):
        ended(slurm, f"{number}_{task}", folder)
    (path,) = folder.rglob("record.json")
    found = record.read(path, RunRecord)
    assert path.is_relative_to(folder / "results" / "resnetx"), "the cluster's name, not a node's"
    assert (found.outcome, found.reason, found.request.nodes) == ("ok", "", 2)
    assert {device.node for device in found.devices} == {"node1", "node2"}
    machines = [found.environment, *(other.environment for other in found.other_nodes)]
    assert {machine.node: machine.switch for machine in machines} == {"node1": "spine.leaf1", "node2": "spine.leaf2"}
    assert (found.job.id, found.job.nodes, found.job.ended) == (f"{number}_1", ["node1", "node2"], None)
    assert "reused: 1 of 1 runs" in log(folder), "by the second job"


def test_a_cancelled_job_says_so_and_the_next_one_measures_its_run(slurm, folder):
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    path = begun(folder)
    slurm.say("scancel", number)
    assert cut_short(path, folder).reason == "Slurm ended the job: cancelled"
    ended(slurm, number, folder)
    until(lambda: not slurm.say("squeue", "--noheader", "--steps"), lambda: "a step goes on")
    again = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    study = path.parents[1] / "study.json"
    stops = until(lambda: record.read(study, StudyRecord).stops, lambda: log(folder))
    slurm.say("scancel", again)
    assert [(stop.run, stop.job, stop.ended) for stop in stops] == [(path.parent.name, number, "cancelled")]


def test_a_job_ahead_of_its_time_limit_says_so(slurm, folder):
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2}, "walltime=2min")
    found = cut_short(begun(folder), folder)
    assert (found.reason, found.job.ended) == ("Slurm ended the job: time limit", "time limit")
    ended(slurm, number, folder)


def test_a_lost_node_is_named_and_its_job_starts_again_by_itself(slurm, folder):
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    path = begun(folder)
    with without_node2(slurm, "DOWN"):
        assert "node" in cut_short(path, folder).job.ended
    until(lambda: slurm.job(number)["JobState"] == "PENDING", lambda: log(folder))
    slurm.say("scontrol", "update", f"JobId={number}", "StartTime=now")
    until(lambda: record.read(path, RunRecord).job.restarts == 1, lambda: log(folder))
    slurm.say("scancel", number)


def test_a_job_waits_for_a_drained_node_and_a_requeued_one_goes_on(slurm, folder):
    with without_node2(slurm, "DRAIN"):
        number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
        until(lambda: "DRAIN" in slurm.job(number)["Reason"].upper(), lambda: slurm.say("squeue"))
        assert not list(folder.rglob("record.json"))
        assert "nodes=2 would wait; node2 is drained (test)" in resnetx(slurm, folder, "doctor", {}, status=1)
    path = begun(folder)
    slurm.say("scontrol", "requeue", number)
    assert cut_short(path, folder).job.ended == "requeued"
    slurm.say("scancel", number)
