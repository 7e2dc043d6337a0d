"""What Slurm says: of the job at hand, of its nodes, and of why it ended.

A process of a job knows it by variables (sbatch(1), srun(1), "OUTPUT ENVIRONMENT VARIABLES"). Why Slurm ends a job it
writes into the log of every step before it sends SIGTERM, KillWait seconds before SIGKILL:

    slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***

Of a step that srun itself ends, as one of its tasks failed (--kill-on-bad-exit), it writes such a line, too.

`scontrol` names no cause at that moment: the job is COMPLETING, or, where it is requeued, PENDING.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from resnetx.record import Job, Unknown, known

ENDED = "Slurm ended the job"  # begins the reason of a run that Slurm cut short
WARNED_S = 60  # before the time limit, a job of ours gets SIGTERM (`--signal` in launch/slurm.sbatch.j2)
_ANSWER_S = 10  # that slurmctld may take; KillWait, in which a run that is ended is recorded, is 30 s by default
_FRESH_S = 60  # a cause was written that recently, or is of an earlier end: a requeued job waits for longer
_LOG_END = 4096  # bytes of a log in which the cause is looked for

# What slurmstepd writes behind CANCELLED AT (src/slurmd/slurmd/req.c, src/slurmd/slurmstepd/req.c), and what we say.
_CAUSES = {
    "TIME LIMIT": "time limit",
    "PREEMPTION": "preempted",
    "NODE FAILURE": "a node was lost",
    "JOB REQUEUE": "requeued",
}
_CANCELLED = re.compile(r"\*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED AT (\S+)(?: DUE TO ([A-Z ]+?))?(?:,[^*]*)? \*\*\*")
# What srun writes first where it ends a step by itself, and where it is told to; Slurm 22 names a function in between.
_END_OF_STEP = re.compile(r"^srun: (?:\S+: )*(Terminating StepId|Job step aborted)", re.MULTILINE)
_LOST_NODE = re.compile(r"srun: error: Node failure on ([^\s,]+)")
_NO_JOB = re.compile(r"^srun: error: Unable to confirm allocation for job", re.MULTILINE)  # which ended a moment before


def inside() -> bool:
    """Whether this process is part of a job."""
    return "SLURM_JOB_ID" in os.environ


def job() -> Job | Unknown:
    """The job that this process is part of."""
    if not inside():
        return Unknown("not part of a job of Slurm")
    at = os.environ
    array = at.get("SLURM_ARRAY_JOB_ID")
    return Job(
        scheduler="slurm",
        id=f"{array}_{at.get('SLURM_ARRAY_TASK_ID')}" if array else at["SLURM_JOB_ID"],
        cluster=known(at.get("SLURM_CLUSTER_NAME") or Unknown("Slurm does not tell its cluster")),
        partition=known(at.get("SLURM_JOB_PARTITION") or Unknown("Slurm does not tell the partition")),
        nodes=node_names(),
        restarts=int(at.get("SLURM_RESTART_COUNT", "0")),
        ended=known(Unknown("the job went on behind this run")),
    )


def switches() -> str | Unknown:
    """The switches above this node as Slurm's topology has them: "spine.leaf1"."""
    address, _, node = os.environ.get("SLURM_TOPOLOGY_ADDR", "").rpartition(".")
    if not address:
        return Unknown("Slurm describes no switches here" if node or inside() else "not part of a job of Slurm")
    return address


# ---- nodes ----------------------------------------------------------------------------------------------------------


def node_names() -> list[str]:
    """The nodes of the job at hand, in Slurm's order; none outside of a job."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    return said(["scontrol", "show", "hostnames", listed]).split() if listed else []


USABLE = ("idle", "planned", "mixed", "allocated", "completing")  # now, or when their jobs have ended


@dataclass(frozen=True)
class PartitionNode:
    """One node of a partition as sinfo shows it."""

    name: str
    state: str  # "idle", without the signs behind it
    resources: str  # "gpu:h100:8(S:0-1)"
    features: tuple[str, ...]  # that constraints name
    reason: str  # that an administrator gave

    @property
    def usable(self) -> bool:
        return self.state in USABLE

    @property
    def gpus(self) -> int:
        """GPUs that a job can have of it."""
        return sum(map(int, re.findall(r"\bgpu(?::[^:(,]+)?:(\d+)", self.resources)))

    def __str__(self) -> str:
        return f"{self.name} is {self.state}" + f" ({self.reason})" * (self.reason not in ("", "none"))


def partition_nodes(partition: str) -> list[PartitionNode]:
    """The nodes of a partition; none where there is no such partition, or no answer."""
    lines = said(["sinfo", "--noheader", "--Node", f"--partition={partition}", "--format=%N|%T|%G|%f|%E"]).splitlines()
    lines = list(dict.fromkeys(lines))  # a node of two partitions has two
    found = [line.split("|", 4) for line in lines if line.count("|") >= 4]
    return [
        PartitionNode(name, state.rstrip("*~#!%$@^-+"), gres, tuple(features.split(",")), reason)
        for name, state, gres, features, reason in found
    ]


def default_partition() -> str:
    """The partition that a job is in which names none."""
    names = said(["sinfo", "--noheader", "--format=%P"]).split()
    return next((name.rstrip("*") for name in names if name.endswith("*")), "")


def address(node: str) -> str:
    """Where other nodes reach a node: its name or its IP address."""
    return facts(said(["scontrol", "--oneliner", "show", "node", node])).get("NodeAddr", node)


def cluster_name() -> str | None:
    """What Slurm calls the cluster; None where there is no answer."""
    if name := os.environ.get("SLURM_CLUSTER_NAME"):
        return name
    match = re.search(r"^ClusterName\s*=\s*(\S+)", said(["scontrol", "show", "config"]), re.MULTILINE)
    return match[1] if match else None


def obstacle_to_job(nodes: int) -> str:
    """Why steps on so many nodes cannot be started from here, in one sentence; "" where they can."""
    if not inside():
        return (
            "launcher=slurm: this is no job of Slurm; the command line submits one, a program has to be started with "
            "sbatch or in salloc"
        )
    if nodes > (own := len(node_names())):
        return f"nodes={nodes}: this job has {own}; ask for fewer, or for a job with more (sbatch --nodes={nodes})"
    return ""


# ---- why a job ended ------------------------------------------------------------------------------------------------


def cause(log: str) -> str:
    """Why Slurm ended what wrote this log: "time limit"; "" where it did not."""
    if lost := _LOST_NODE.search(log):
        return f"node {lost[1]} was lost"
    *_, last = [None, *filter(lambda line: not _by_srun(line), _CANCELLED.finditer(log))]
    if last is None:
        return ""
    return next((said for written, said in _CAUSES.items() if (last[3] or "").startswith(written)), "cancelled")


def cause_of_step(log: str) -> str:
    """Why Slurm ended the srun that wrote this log, or gave it no step, as its job had ended a moment before."""
    return cause(log) or (cause_of_signal() if _NO_JOB.search(log) else "")


def _by_srun(line: re.Match[str]) -> bool:
    """Whether a step was ended by its own srun, because one of its tasks had failed."""
    first = _END_OF_STEP.search(line.string, 0, line.start())
    return line[1] == "STEP" and not line[3] and first is not None and first[1] == "Terminating StepId"


def cause_of_signal() -> str:
    """Why the job at hand is told to end (SIGTERM): "time limit"; "" outside of a job."""
    if not inside():
        return ""
    now = job_facts(os.environ["SLURM_JOB_ID"])
    if now.get("JobState") == "RUNNING":  # then it is no more than a signal: the one ahead of the limit, or a user's
        return "time limit" if _left_s(now) <= 2 * WARNED_S else ""
    return cause(_fresh(_end_of_own_log())) or "cancelled"


_STATES = {"TIMEOUT": "time limit", "PREEMPTED": "preempted", "NODE_FAIL": "a node was lost", "CANCELLED": "cancelled"}


def cause_of_job(number: str) -> str:
    """Why a job of the past ended, by its number; "" where Slurm does not know it any more, or it went on."""
    asked = job_facts(number).get("JobState")
    state = asked or said(["sacct", "--noheader", "--parsable2", "--allocations", "--format=State", "--jobs", number])
    return _STATES.get(state.strip().partition(" ")[0], "")


def _fresh(log: str) -> str:
    """A log without what was written of earlier ends: a job that is requeued goes on with its log."""
    now = datetime.now()  # as slurmstepd writes it: local time
    old = [match.end() for match in _CANCELLED.finditer(log) if _age_s(match[2], now) > _FRESH_S]
    return log[max(old, default=0) :]


def _age_s(stamp: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(stamp)).total_seconds()
    except ValueError:
        return 0.0


def _end_of_own_log() -> str:
    """The end of the file that this process's standard error goes to, where it is one."""
    try:
        path = Path("/proc/self/fd/2").resolve()
        return path.read_bytes()[-_LOG_END:].decode(errors="replace") if path.is_file() else ""
    except OSError:
        return ""


def _left_s(job_facts: Mapping[str, str]) -> float:
    """Seconds of its time limit that a job has left."""
    limit, used = (_seconds(job_facts.get(key, "")) for key in ("TimeLimit", "RunTime"))
    return float("inf") if limit is None or used is None else limit - used


def _seconds(text: str) -> float | None:
    """The seconds in "1-02:03:04" or "00:05:00"; None in "UNLIMITED"."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if not match:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


# ---- its commands ---------------------------------------------------------------------------------------------------


def job_facts(number: str) -> dict[str, str]:
    """What Slurm says of a job: {"JobState": "RUNNING", ...}; {} where it does not know it."""
    # The number of an array is that of one of its jobs, too, and brings all of them.
    jobs = list(map(facts, said(["scontrol", "--oneliner", "show", "job", number]).splitlines()))
    return next((job for job in jobs if job.get("JobId") == number), jobs[0] if jobs else {})


def facts(line: str) -> dict[str, str]:
    """What a line of `scontrol --oneliner` says: {"JobState": "RUNNING", ...}."""
    return dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))


def said(words: list[str]) -> str:
    """What a command of Slurm prints; "" where it cannot be run, fails, or does not end."""
    if not shutil.which(words[0]):
        return ""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=_ANSWER_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
