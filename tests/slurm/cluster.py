"""A cluster of two nodes on this host: munge, slurmctld, and a slurmd for each node (`slurmd -N`)."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_S, until

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PACKAGES = "slurmctld slurmd slurm-client munge"  # of Debian and Ubuntu
NODES = ("node1", "node2")
LINES = 60  # of the end of each log of Slurm, where a test waits in vain

CONF = """\
ClusterName=resnetx
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={ctld_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
TopologyPlugin=topology/tree
ReturnToService=0
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
MinJobAge=3600
SlurmdTimeout=300
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=4
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
PartitionName=debug Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=node1,node2 MaxTime=INFINITE State=UP PriorityTier=2
"""
TOPOLOGY = """\
SwitchName=leaf1 Nodes=node1
SwitchName=leaf2 Nodes=node2
SwitchName=spine Switches=leaf1,leaf2
"""


def missing() -> str:
    """Why there can be no cluster here; "" where there can."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    absent = [name for name in NEEDED if not shutil.which(name, path=path)]
    if absent:
        return f"no {', '.join(absent)} here (apt-get install {PACKAGES})"
    return "" if os.geteuid() == 0 else "slurmd starts the ranks of other users: only root can run it"


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def say(self, *words: str) -> str:
        """What a command of Slurm prints."""
        environment = {**os.environ, **self.variables}
        return subprocess.run(
            words, env=environment, check=True, capture_output=True, text=True, timeout=PATIENCE_S
        ).stdout

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job: {"JobState": "RUNNING", ...}."""
        words = self.say("scontrol", "--oneliner", "show", "job", number).splitlines()[0].split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def seen(self) -> str:
        """What Slurm shows of its nodes and jobs, and the ends of its logs: for who waits in vain."""
        asked = (
            ["sinfo", "--Node", "--long"], ["squeue", "--all", "--long"], ["squeue", "--all", "--steps"],
            ["scontrol", "show", "nodes"], ["scontrol", "--details", "show", "jobs"],
        )  # fmt: skip
        shown = [f"$ {' '.join(words)}\n{self._answer(*words)}" for words in asked]
        logs = sorted(self.folder.glob("slurm*.log"))
        shown += [f"{log.name} ends:\n" + "\n".join(log.read_text().splitlines()[-LINES:]) for log in logs]
        return "\n".join(shown)

    def _answer(self, *words: str) -> str:
        try:
            return self.say(*words)
        except subprocess.SubprocessError as error:
            return f"{error}\n"

    def states(self) -> list[str]:
        return self.say("sinfo", "--noheader", "--Node", "--partition=debug", "--format=%T").split()


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster whose files are in `folder`; it ends with the block."""
    made = Cluster(folder)
    _configure(folder)
    environment = {**os.environ, **made.variables}
    started = []
    try:
        for words in (
            ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.sock",
             f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"],
            ["slurmctld", "-D", "-i"],
            *(["slurmd", "-D", "-N", name] for name in NODES),
        ):  # fmt: skip
            program = shutil.which(words[0], path=environment["PATH"])
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
            started.append(subprocess.Popen([program, *words[1:]], env=environment, **quiet))
            if words[0] == "munged":
                until((folder / "munge.sock").exists, "the socket of munged")
        until(lambda: _idle(made), "the start of all nodes")
        yield made
    finally:
        for daemon in reversed(started):
            _end(daemon)


def _configure(folder: Path) -> None:
    for name in ("state", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    ctld_port, *ports = free_ports(3)
    facts = {"host": socket.gethostname(), "user": "root", "folder": folder, "ctld_port": ctld_port, "ports": ports}
    (folder / "slurm.conf").write_text(CONF.format(**facts))
    (folder / "topology.conf").write_text(TOPOLOGY)


def free_ports(count: int) -> list[int]:
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in opened]
    for each in opened:
        each.close()
    return ports


def _idle(made: Cluster) -> bool:
    try:
        return made.states() == ["idle"] * len(NODES)
    except subprocess.SubprocessError:  # slurmctld does not answer yet
        return False


def _end(daemon: subprocess.Popen) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(15)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
