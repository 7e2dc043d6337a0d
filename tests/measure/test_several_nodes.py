"""Commands on several nodes, job scripts, and what Slurm's log says of the end of a job."""

import os
import subprocess
import sys
from datetime import datetime, timedelta

import msgspec
import pytest

from resnetx.api.doctor import obstacle_to_launch
from resnetx.api.sweep import submission
from resnetx.errors import ConfigError
from resnetx.launching import Container, Launch, Site
from resnetx.measure.launch import ending, executor, slurm
from resnetx.measure.launch.executor import TEMPLATES, executor_of, job_script
from resnetx.record import Failure, RunFolder, write

SLURM = Launch(launcher="slurm", nodes=2, site=Site(interface="ib0"))


@pytest.fixture(autouse=True)
def _outside(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(task_of, tmp_path):
    """The words that start 16 ranks on two nodes."""

    def make(launch):
        task = task_of({"gpus": 16, "batch_size": 64})
        task = msgspec.structs.replace(task, launch=launch, request=msgspec.structs.replace(task.request, nodes=2))
        return executor_of(task)(task, RunFolder(tmp_path))

    return make


def test_srun_starts_one_process_on_each_node(command):
    made = command(SLURM)
    assert made.words[0] == "srun"
    assert {"--export=ALL", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} < set(made.words)
    place = made.words.index("resnetx.measure.launch.executor")
    assert made.words[place + 1 : place + 5] == ["2", "8", "FIRST_NODE:PORT", "c10d"]
    assert made.variables == {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib0"}
    assert made.words[place - 2 : place] == ["-P", "-m"]
    assert made.gently, "SIGKILL would leave the step running"


def test_srun_starts_on_the_nodes_that_are_named_and_the_first_of_them_is_where_they_meet(task_of, tmp_path):
    launch = msgspec.structs.replace(SLURM, on=("n3", "n7"))
    task = task_of({"gpus": 2, "batch_size": 64})
    task = msgspec.structs.replace(task, launch=launch, request=msgspec.structs.replace(task.request, nodes=2))
    words = executor_of(task)(task, RunFolder(tmp_path), tmp_path).words
    assert "--nodelist=n3,n7" in words and "--relative=0" not in words
    meeting = words[words.index("resnetx.measure.launch.executor") + 3]
    assert meeting.startswith("n3:")


def test_a_container_is_inside_of_what_starts(command):
    box = Container(kind="apptainer", image="resnetx.sif", mounts=("/scratch", "/data"))
    words = command(msgspec.structs.replace(SLURM, site=Site(container=box))).words
    place = words.index("bash")
    assert words[place + 2 : place + 6] == ["apptainer", "resnetx.sif", "/scratch,/data", "python3"]


def test_mpirun_carries_variables_in_words(command, monkeypatch):
    made = command(Launch(launcher="mpi", nodes=2))
    assert made.words[:7] == ["mpirun", "--bind-to", "none", "--map-by", "ppr:1:node", "-np", "2"]
    carried = made.carrying({"RESNETX_RUN_FOLDER": "x"})
    assert carried[6:9] == ["2", "env", "RESNETX_RUN_FOLDER=x"]


def test_torchrun_by_hand_has_the_number_of_its_node(command):
    words = command(Launch(launcher="torchrun", nodes=2, node_rank=0, rendezvous="10.1.0.1:29500")).words
    assert {"--nnodes=2", "--node-rank=0", "--master-addr=10.1.0.1", "--nproc-per-node=8"} < set(words)


@pytest.mark.parametrize("place", ["0", "1"])
def test_the_first_node_alone_serves_the_rendezvous(place, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_PROCID", place)
    c10d = executor.torchrun_here(2, 8, "n1:4000", "c10d", ["-m", "x"], tmp_path).words
    assert f"--rdzv-conf=is_host={int(place == '0')}" in c10d and c10d[-2:] == ["-m", "x"]
    assert f"--node-rank={place}" in executor.torchrun_here(2, 8, "n1:4000", "static", [], tmp_path).words
    assert "--rdzv-conf=store_type=file" in executor.torchrun_here(1, 8, "", "c10d", [], tmp_path).words


# ---- job scripts ----------------------------------------------------------------------------------------------------


def test_a_job_has_what_the_site_and_the_command_ask_for(tmp_path):
    site = Site(partition="gpu", account="a1", gpus_per_node=8, modules=("cuda/12.6",), environment={"X": "a b"})
    launch = Launch(launcher="slurm", nodes=2, walltime=5400, jobs=3, site=site)
    script = job_script("sweep", ["study=paper", "model.x=[1,4]"], launch, tmp_path)
    options = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]
    wanted = {"nodes=2", "partition=gpu", "account=a1", "gpus-per-node=8", "time=90", "exclusive", "requeue"}
    assert wanted | {"array=1-3%1", "signal=B:TERM@60", "open-mode=append"} <= set(options)
    assert script.index("module load cuda/12.6") < script.index("export X='a b'") < script.index("exec ")
    assert script.endswith(f"exec {sys.executable} -P -m resnetx sweep study=paper 'model.x=[1,4]'\n")
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


SIGNS = "& touch ran; `touch ran` $(touch ran) ' \" | ( ) < > \\ # !"


def test_a_shell_interprets_nothing_in_a_job_script(tmp_path, monkeypatch):
    """Whatever the values, its own words are words: `module` and the program print what they get."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", "echo")
    site = Site(partition="a&b", modules=("cuda&touch", "a|ran"), environment={"X": SIGNS}, options=("x=[a|b&c]",))
    launch = Launch(launcher="slurm", nodes=1, site=site)
    script = job_script("sweep", [f"input.root={SIGNS}"], launch, tmp_path / SIGNS)
    script = script.replace("exec echo", 'echo "$X"; exec echo')
    done = subprocess.run(
        ["bash", "-c", f"module() {{ printf '%s\\n' \"$@\"; }}; {script}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "load", "cuda&touch", "load", "a|ran", SIGNS, f"-P -m resnetx sweep input.root={SIGNS}",
    ]  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["words", "logs", "partition", "modules", "environment", "folder"])
def test_a_line_break_enters_no_job_script(place, tmp_path, monkeypatch):
    broken = "gpu\n#SBATCH --wrap=x"
    values = {"partition": broken, "modules": (broken,), "environment": {"X": broken}}
    site = Site(**{place: values[place]} if place in values else {})
    if place == "folder":
        (tmp_path / broken).mkdir()
        monkeypatch.chdir(tmp_path / broken)
    logs = tmp_path / (broken if place == "logs" else "logs")
    words = [f"study={broken}"] if place == "words" else []
    with pytest.raises(ConfigError, match="control character, which no job script may have"):
        job_script("sweep", words, Launch(launcher="slurm", nodes=1, site=site), logs)


def test_more_ranks_than_a_node_has_gpus_are_refused(tmp_path):
    launch = Launch(launcher="slurm", nodes=2, site=Site(gpus_per_node=4))
    with pytest.raises(ConfigError, match=r"gpus=16 on nodes=2: 8 on each node, which have 4 .*; use nodes=4"):
        submission("sweep", {}, launch, tmp_path, 16)


def test_inside_of_a_job_nothing_is_submitted(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert submission("sweep", {}, SLURM, tmp_path, 16) is None
    monkeypatch.setattr(slurm, "node_names", lambda: ["node1"])
    assert obstacle_to_launch(SLURM).startswith("nodes=2: this job has 1")


def test_what_cannot_be_started_from_here_is_refused():
    assert obstacle_to_launch(SLURM).startswith("launcher=slurm: this is no job of Slurm")
    by_hand = Launch(launcher="torchrun", nodes=2, node_rank=0, rendezvous="a:1")
    assert obstacle_to_launch(by_hand) == ""
    assert "for one run" in obstacle_to_launch(by_hand, runs=2)
    absent = Launch(launcher="mpi", nodes=2, site=Site(mpirun=("no-mpirun",)))
    assert obstacle_to_launch(absent).startswith("launcher=mpi: no no-mpirun here")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("apptainer", "exec --pwd {cwd} --bind {cwd} --bind /data img x"), ("enroot", "start --rw --mount {cwd}:{cwd}")],
)
def test_the_container_script_binds_folders(kind, words, tmp_path):
    """A program of the runtime's name prints its words, as none is installed here."""
    (tmp_path / kind).write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / kind).chmod(0o755)
    script = TEMPLATES / "container.sh"
    said = subprocess.run(
        ["bash", script, kind, "img", "/data", "x"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("--nv ", "")
    assert said.startswith(words.format(cwd=tmp_path))


# ---- the end of a job -----------------------------------------------------------------------------------------------

NOW = "2026-01-01T00:00:00"
LINE = f"slurmstepd-node1: error: *** %s ON node1 CANCELLED AT {NOW}%s ***\n"
OF_SLURM_22 = """srun: error: node2: task 1: Exited with exit code 3
srun: launch/slurm: _step_signal: Terminating StepId=1.0
"""
ABORTED = "srun: Job step aborted: Waiting up to 22 seconds for job step to finish.\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (LINE % ("JOB 12", ""), "cancelled"),
        (LINE % ("STEP 12.0", " DUE TO TIME LIMIT"), "time limit"),
        (LINE % ("JOB 12", " DUE TO PREEMPTION"), "preempted"),
        (LINE % ("JOB 12", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), "a node was lost"),
        (LINE % ("JOB 12", " DUE TO JOB REQUEUE"), "requeued"),
        (LINE % ("STEP 12.0", ""), "cancelled"),
        ("srun: Terminating StepId=12.0\n" + LINE % ("STEP 12.0", ""), ""),  # another task of the step had failed
        (OF_SLURM_22 + LINE % ("STEP 1.0", ""), ""),
        (ABORTED + OF_SLURM_22 + LINE % ("STEP 1.0", ""), "cancelled"),  # scancel 1.0, heard of late
        ("srun: Terminating StepId=12.0\n" + LINE % ("JOB 12", ""), "cancelled"),
        ("srun: error: Node failure on node2\n" + LINE % ("STEP 12.0", ""), "node node2 was lost"),
        ("Traceback (most recent call last):\n", ""),
    ],
)
def test_the_log_of_a_step_says_why_it_ended(log, cause):
    assert slurm.cause(log) == cause
    found = ending.cause(ending.Ending(status=143, by_slurm=slurm.cause(log)), 2)
    assert (found == ("failed", f"Slurm ended the job: {cause}")) == bool(cause)


def test_a_step_that_cannot_start_is_none_of_torchruns():
    line = "srun: error: Unable to create step for job 1: More processors requested than permitted"
    assert ending.cause(ending.Ending(status=1, stderr=line), 2) == ("failed", f"srun exited with status 1: {line}")


NO_JOB = """srun: error: Unable to confirm allocation for job 6: Job is pending execution
srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 6
"""  # as written on a node of the test Slurm when the other one was lost before the step began


@pytest.mark.parametrize(("state", "cause"), [("PENDING", "a node was lost"), ("RUNNING", "")])
def test_a_step_whose_job_has_just_ended_says_why_that_ended(state, cause, monkeypatch):
    now = datetime.now().isoformat(timespec="seconds")
    own_log = LINE.replace(NOW, now) % ("JOB 6", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")
    monkeypatch.setenv("SLURM_JOB_ID", "6")
    monkeypatch.setattr(slurm, "job_facts", lambda _: {"JobState": state, "TimeLimit": "UNLIMITED"})
    monkeypatch.setattr(slurm, "_end_of_own_log", lambda: own_log)
    assert slurm.cause_of_step(NO_JOB) == cause
    assert slurm.cause_of_step("srun: error: something else\n") == ""


def test_a_requeued_job_does_not_tell_of_its_earlier_end():
    old = (datetime.now() - timedelta(minutes=5)).isoformat(timespec="seconds")
    log = LINE.replace(NOW, old) % ("JOB 12", " DUE TO NODE FAILURE")
    assert slurm.cause(slurm._fresh(log)) == ""
    assert (
        slurm.cause(slurm._fresh(log + LINE.replace(NOW, datetime.now().isoformat()) % ("JOB 12", ""))) == "cancelled"
    )


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        ("JobId=7 JobState=RUNNING RunTime=00:01:10 TimeLimit=00:02:00", "time limit"),
        ("JobId=7 JobState=RUNNING RunTime=00:01:10 TimeLimit=1-00:00:00", ""),
        ("JobId=7 JobState=RUNNING RunTime=00:01:10 TimeLimit=UNLIMITED", ""),
        ("JobId=8 JobState=RUNNING\nJobId=7 JobState=COMPLETING RunTime=00:01:10", "cancelled"),
    ],
)
def test_a_signal_is_explained_by_the_state_of_the_job(job, cause, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(slurm, "said", lambda _: job)
    monkeypatch.setattr(slurm, "_end_of_own_log", lambda: "")
    assert slurm.cause_of_signal() == cause


def test_the_first_failure_of_several_nodes_is_that_of_the_time_of_day(tmp_path):
    """Seconds since boot compare nothing between hosts."""
    folder = RunFolder(tmp_path)
    for rank, time_s, monotonic_s in ((0, 20.0, 1.0), (1, 10.0, 2.0)):
        failure = Failure(rank=rank, kind="error", time_s=time_s, message="", traceback="", monotonic_s=monotonic_s)
        write(folder.failure(rank), msgspec.structs.replace(failure, node=f"node{rank}"))
    assert [failure.rank for failure in ending.read(ending.Ending(), folder, tmp_path).failures] == [1, 0]


def test_a_job_is_known_by_its_variables(monkeypatch):
    assert slurm.job() == "not part of a job of Slurm"
    monkeypatch.setattr(slurm, "node_names", lambda: ["node1"])
    variables = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": "1"}
    for name, value in {**variables, "SLURM_TOPOLOGY_ADDR": "spine.leaf1.node1"}.items():
        monkeypatch.setenv(name, value)
    found = slurm.job()
    assert (found.id, found.restarts) == ("7_2", 1)
    assert slurm.switches() == "spine.leaf1"
