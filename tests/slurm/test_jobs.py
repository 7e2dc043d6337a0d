"""Jobs of a real Slurm: two slurmd on this host, with gloo ranks on both, and what becomes of jobs that end early."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from resnetx import record
from resnetx.record import BenchRecord, RunRecord, StudyRecord
from resnetx.record.topologies import Check
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.usefixtures("preloaded")]

SITE = "partition: debug\ninterface: lo\nexclusive: false\n"
TINY = {
    "input": "synthetic", "model.width": 4, "image_size": 64, "batch_size": 8, "warmup": 3, "steps": 1, "windows": 2,
    "threads": 1, "oversubscribe": "true", "repeats": 1, "twins": 0, "dirty": "true",
}  # fmt: skip
# What a sweep reads, and a single run does not.
RUN = {key: value for key, value in TINY.items() if key not in ("repeats", "twins", "dirty")}
# It will not end by itself, and leaves the cores to other tests meanwhile: computing, of large layers, is waited out.
LONG = {**TINY, "windows": 10000, "steps": 100, "replay": "p100-sxm2-16gb", "batch_size": 1000, "model.width": 512}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site.yaml").write_text(SITE)
    return tmp_path


@contextmanager
def without_node2(slurm, folder, state):
    """Has an administrator take node2 away, and give it back."""
    slurm.say("scontrol", "update", "NodeName=node2", f"State={state}", "Reason=test")
    try:
        yield
    finally:
        awaited(slurm, folder, lambda: "completing" not in slurm.states())
        slurm.say("scontrol", "update", "NodeName=node2", "State=RESUME")


def resnetx(slurm, folder, verb, settings=None, *more, status=0):
    """What a command of resnetx prints."""
    words = [f"{key}={value}" for key, value in (settings or {}).items()]
    nodes = ["nodes=2"] * ("nodes" not in (settings or {}))
    launch = ["launcher=slurm", *nodes, "site=site.yaml"]
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


def log(folder) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("jobs/*.log")))


OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def awaited(slurm, folder, holds, runs=1, job=None):
    """The first true value of `holds`, in the time of so many runs; fails with all that tells why there is none.

    `job`: it comes before the end of this one, if at all.
    """

    def told() -> str:
        return "\n".join([slurm.seen(), processes(folder), *texts(folder)])

    def look():
        over = job is not None and slurm.job(job)["JobState"] in OVER
        found = holds()
        assert found or not over, told()
        return found

    return until(look, told, runs * PATIENCE_S)


def texts(folder) -> list[str]:
    """What jobs and their runs have written so far."""
    paths = sorted([*folder.rglob("*.log"), *folder.rglob("record.json")])
    return [f"{path.relative_to(folder)}:\n{path.read_text(errors='replace')[-4000:]}" for path in paths]


def processes(folder) -> str:
    """Processes that work below a folder: number, parent, state, what each waits for in the kernel, command."""
    lines = ["process, parent, state, waits in, command"]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
                words = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                lines.append(f"{process.name} {parent} {state} {(process / 'wchan').read_text()} {words}")
    return "\n".join(lines)


def ended(slurm, number, folder, runs=1):
    """Waits for the end of a job of so many runs."""
    awaited(slurm, folder, lambda: slurm.job(number)["JobState"] in OVER, runs)


def begun(slurm, number, folder) -> Path:
    """The record of the only run, as soon as the step of its ranks goes on."""

    def found():
        return [path.parent / "record.json" for path in folder.rglob("stderr.log")]

    steps = ("squeue", "--noheader", "--steps", "--format=%i")
    awaited(slurm, folder, lambda: f"{number}.0" in slurm.say(*steps), job=number)
    return awaited(slurm, folder, found, job=number)[0]


def cut_short(slurm, path, folder) -> RunRecord:
    """The record of a run once it says why its job ended."""

    def told():
        found = record.read(path, RunRecord)
        return found if found.job.ended else None

    return awaited(slurm, folder, told)


def goes_on(slurm, number, path, folder):
    """Waits until Slurm has started the job again, and ends it."""
    awaited(slurm, folder, lambda: slurm.job(number)["JobState"] == "PENDING")
    slurm.say("scontrol", "update", f"JobId={number}", "StartTime=now")
    awaited(slurm, folder, lambda: record.read(path, RunRecord).job.restarts == 1)
    slurm.say("scancel", number)


def test_an_array_measures_a_study_on_two_nodes_and_goes_on_with_it(slurm, folder, preloaded):
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
    path = begun(slurm, number, folder)
    slurm.say("scancel", number)
    assert cut_short(slurm, path, folder).reason == "Slurm ended the job: cancelled"
    ended(slurm, number, folder)
    awaited(slurm, folder, lambda: not slurm.say("squeue", "--noheader", "--steps"))
    again = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    study = path.parents[1] / "study.json"
    stops = awaited(slurm, folder, lambda: record.read(study, StudyRecord).stops)
    slurm.say("scancel", again)
    assert [(stop.run, stop.job, stop.ended) for stop in stops] == [(path.parent.name, number, "cancelled")]


def test_a_job_ahead_of_its_time_limit_says_so(slurm, folder):
    """The limit is brought near, as the shortest one is a minute, of which nothing is left to a run."""
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2}, "walltime=1d")
    path = begun(slurm, number, folder)
    used = slurm.say("squeue", "--noheader", f"--jobs={number}", "--format=%M").strip()  # 0:41
    slurm.say("scontrol", "update", f"JobId={number}", f"TimeLimit={int(used.split(':')[-2]) + 1}")
    found = cut_short(slurm, path, folder)
    assert (found.reason, found.job.ended) == ("Slurm ended the job: time limit", "time limit")
    ended(slurm, number, folder)


def test_a_lost_node_is_named_and_its_job_starts_again_by_itself(slurm, folder):
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    path = begun(slurm, number, folder)
    with without_node2(slurm, folder, "DOWN"):
        assert "node" in cut_short(slurm, path, folder).job.ended
    goes_on(slurm, number, path, folder)


def test_a_preempted_job_says_so_and_starts_again_by_itself(slurm, folder):
    number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
    path = begun(slurm, number, folder)
    slurm.say("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    assert cut_short(slurm, path, folder).job.ended == "preempted"
    goes_on(slurm, number, path, folder)


def test_a_job_waits_for_a_drained_node_and_a_requeued_one_goes_on(slurm, folder):
    with without_node2(slurm, folder, "DRAIN"):
        number = submit(slurm, folder, "sweep", {**LONG, "gpus": 2})
        awaited(slurm, folder, lambda: "DRAIN" in slurm.job(number)["Reason"].upper())
        assert not list(folder.rglob("record.json"))
        awaited(slurm, folder, lambda: "drained" in slurm.states())  # draining, while an earlier job ends
        assert "nodes=2 would wait; node2 is drained (test)" in resnetx(slurm, folder, "doctor", {}, status=1)
    path = begun(slurm, number, folder)
    slurm.say("scontrol", "requeue", number)
    assert cut_short(slurm, path, folder).job.ended == "requeued"
    slurm.say("scancel", number)


# ---- other launchers in a job of Slurm ------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here (apt-get install openmpi-bin)")
def test_mpirun_starts_a_run_on_the_nodes_of_its_job(slurm, folder, preloaded):
    (folder / "site.yaml").write_text(
        'interface: lo\nmpirun: [mpirun, --allow-run-as-root, --bind-to, none, --map-by, "ppr:1:node"]\n'
    )
    settings = {**RUN, "gpus": 2, "nodes": 2, "launcher": "mpi", "site": "site.yaml"}
    words = [sys.executable, "-m", "resnetx", "train", *(f"{key}={value}" for key, value in settings.items())]
    (folder / "jobs").mkdir()
    job = ["--parsable", "--nodes=2", f"--chdir={folder}", "--output=jobs/mpi.log", f"--wrap={shlex.join(words)}"]
    number = slurm.say("sbatch", *job).strip()
    ended(slurm, number, folder)
    (path,) = folder.rglob("record.json")
    found = record.read(path, RunRecord)
    assert path.is_relative_to(folder / "results" / "resnetx"), "the cluster's name, not a node's"
    assert (found.outcome, found.reason, found.request.nodes) == ("ok", "", 2)
    assert {device.node for device in found.devices} == {"node1", "node2"}
    assert (found.job.id, found.job.nodes) == (number, ["node1", "node2"])


# ---- the health of a fleet ------------------------------------------------------------------------------------------

# One rank on each node, so that a check is a training point on both, and their only pair.
CHECKED = {
    **RUN,
    "gpus": 1, "size": "1MiB", "iterations": 3, "budget": "2h", "prometheus": "fleet.prom", "nodes": "ALL",
}  # fmt: skip


def checked(folder) -> Check:
    return record.read(next(folder.rglob("check.json")), Check)


def rank_of(folder, run) -> int:
    """The process of the only rank of a run, by the name of its folder; 0: there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode().partition("\0-u\0-m\0resnetx.train\0")[2].split("\0")
            if words[0]:
                path = (process / "cwd").readlink() / words[0]
                if path.is_relative_to(folder) and path.parent.name == run:
                    return int(process.name)
    return 0


def test_a_check_of_all_nodes_measures_both_and_their_pair(slurm, folder, preloaded):
    number = submit(slurm, folder, "check", CHECKED)
    ended(slurm, number, folder, runs=3)
    assert slurm.job(number)["ExitCode"] == "0:0", log(folder)
    found = checked(folder)
    assert (found.nodes, found.outliers, found.pairs_tried, found.pairs) == (["node1", "node2"], [], 1, 1)
    assert [(run.measure, run.nodes) for run in found.runs] == [
        ("training", ["node1"]), ("training", ["node2"]), ("pair", ["node1", "node2"]),
    ]  # fmt: skip
    assert all(run.time_s for run in found.runs)
    places = {path.parent.name: record.read(path, RunRecord) for path in folder.rglob("training_*/record.json")}
    assert {name: each.devices[0].node for name, each in places.items()} == {
        "training_node1": "node1", "training_node2": "node2",
    }  # fmt: skip
    pair = record.read(next(folder.rglob("pair_*/record.json")), BenchRecord)
    assert sorted(device.node for device in pair.devices) == ["node1", "node2"]  # in torchrun's order
    assert found.runs[2].kind.endswith(", across switches")
    assert "No outlier among 2 nodes" in log(folder)
    assert 'resnetx_check_node_outlier{node="node2"} 0.0' in (folder / "fleet.prom").read_text()


def test_a_check_names_the_node_whose_rank_is_killed_and_keeps_the_other(slurm, folder, preloaded):
    number = submit(slurm, folder, "check", CHECKED)
    os.kill(awaited(slurm, folder, lambda: rank_of(folder, "training_node2"), job=number), signal.SIGKILL)
    ended(slurm, number, folder, runs=3)
    found = checked(folder)
    assert slurm.job(number)["ExitCode"] == "1:0", log(folder)
    (outlier,) = found.outliers
    assert (outlier.what, outlier.name, outlier.measure, outlier.against) == ("node", "node2", "training", ["run"])
    assert "SIGKILL" in outlier.found
    assert [(run.outcome, bool(run.time_s)) for run in found.runs] == [("ok", True), ("failed", False)]
    assert "1 of 2 nodes is an outlier." in log(folder)
    assert "pairs with node2: its own runs failed" in found.left_out
    assert 'resnetx_check_node_outlier{node="node2"} 1.0' in (folder / "fleet.prom").read_text()
