"""How the ranks of a run are started: a command, and the variables that it needs.

What differs from place to place is an `Executor`: it gives the command of the one process that all ranks descend from,
which ends when they have ended, with status 0 where all went well. `launcher` supervises that process, whatever it is:
time limits, records and failures do not depend on how ranks are started.
"""

import math
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from resnetx.errors import ConfigError, has_control
from resnetx.host import dying_with, exit_status, node_name
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.launching import Container, Launch, LauncherName
from resnetx.measure.launch import (
    LAB_VARIABLE,
    SCRATCH_VARIABLE,
    Unbegun,
    ending,
    launched_folder,
    scratch,
    slurm,
    wait_for_ranks,
    write,
)
from resnetx.measure.launch import scratch as own_scratch
from resnetx.record import RunFolder, TaskFile, TaskRecord
from resnetx.settings.files import CONFIGS

# The command that starts the ranks of a run.

# `python -P` for torchrun and its ranks: `python -m` would look for modules in the folder that it is started in first.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class Command:
    """What starts the ranks of a run."""

    words: list[str]
    variables: dict[str, str]  # of its environment, besides those that the launcher has
    gently: bool = False  # ended by SIGTERM, at which it ends what it started on other nodes; else by SIGKILL
    ranks: int = 0  # of a torchrun on this node, which may then be a fork of a template (`preloaded`)
    starter: int = 0  # how many words are of a program that takes no variables to other nodes: they go behind it

    @property
    def line(self) -> str:
        """As any shell takes it."""
        return shlex.join(["env", *(f"{name}={value}" for name, value in self.variables.items()), *self.words])

    def carrying(self, variables: Mapping[str, str]) -> list[str]:
        """The words, and among them the variables, where they reach other nodes in no other way."""
        words = [program(self.words[0]), *self.words[1:]]
        named = [f"{name}={value}" for name, value in variables.items()]
        return [*words[: self.starter], "env", *named, *words[self.starter :]] if self.starter else words


def program(name: str) -> str:
    """The program of this name that belongs to this Python, or else the one on the PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name


# Ranks on several nodes: a scheduler starts one process on each (`main`), which starts torchrun there.
#
#     srun | mpirun  ->  on_node, of each node  ->  torchrun, which meets the others  ->  its ranks
#
# With launcher=torchrun a user takes the scheduler's part, and types a command on each node (`by_hand`).

ON_NODE = "resnetx.measure.launch.executor"
UNKNOWN = "FIRST_NODE:PORT"  # where nodes meet, in a command that is only shown
# A wheel carries the folder inside the package, a checkout has it beside the package, as `configs`.
TEMPLATES = CONFIGS.parent / "launch"


def in_slurm(task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command:
    """srun: one step of the job at hand, with one process on each of the first nodes, or of those that are named."""
    nodes, named = task.request.nodes, _launch(task).on
    # Variables reach the ranks of a job that was submitted with --export=NONE, too.
    step = ["srun", "--overlap", "--export=ALL", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    step.append(f"--nodelist={','.join(named)}" if named else "--relative=0")
    # All CPUs and GPUs of the job's nodes are the ranks', who choose among them; one node that fails ends the others.
    step += ["--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=1", "--input=none", f"--job-name={task.request.slug}"]
    meeting = UNKNOWN if scratch is None else f"{slurm.address([*named, *slurm.node_names()][0])}:{_free_port()}"
    return _started_by(step, task, folder, meeting)


def by_mpi(task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command:
    """mpirun, which gets its nodes from the scheduler or from options of the site's file."""
    nodes = task.request.nodes
    meeting = UNKNOWN if scratch is None else f"{_own_address()}:{_free_port()}"
    command = _started_by([*_launch(task).site.mpirun, "-np", str(nodes)], task, folder, meeting)
    return replace(command, starter=len(_launch(task).site.mpirun) + 2)


def by_hand(task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command:
    """torchrun on one of several nodes, each of which has its own number; it unpickles nothing from others."""
    launch = _launch(task)
    host, _, port = (launch.rendezvous or UNKNOWN).rpartition(":")
    words = [
        "torchrun", f"--nnodes={launch.nodes}", f"--node-rank={launch.node_rank}", "--rdzv-backend=static",
        f"--master-addr={host.strip('[]')}", f"--master-port={port}", "--max-restarts=0",
        f"--nproc-per-node={task.request.gpus // launch.nodes}", "-m", task.entry_module, str(folder.run),
    ]  # fmt: skip
    return Command(words, {**launch.site.variables, **task.request.env, **SAFE_PATH})


def follows(task: TaskFile[TaskRecord]) -> bool:
    """Whether this node's ranks join those that a launcher on node 0 starts, and records."""
    return task.launch is not None and bool(task.launch.node_rank)


def follow(task: TaskFile[TaskRecord]) -> int:
    """The ranks of a node apart from node 0; the exit status of their torchrun."""
    with own_scratch() as private:
        folder = RunFolder(private)
        write(folder.run, task)
        command = by_hand(task, folder)
        variables = {**os.environ, **command.variables, "OMP_NUM_THREADS": str(task.request.threads)}
        return subprocess.run(command.carrying({}), env=variables).returncode


def _started_by(starter: list[str], task: TaskFile[TaskRecord], folder: RunFolder, meeting: str) -> Command:
    launch, nodes = _launch(task), task.request.nodes
    container = launch.site.container
    program = [
        container.python if container else sys.executable, "-P", "-m", ON_NODE,
        str(nodes), str(task.request.gpus // nodes), meeting, launch.site.rendezvous,
        "-m", task.entry_module, str(folder.run),
    ]  # fmt: skip
    words = [*starter, *(_inside(container) if container else []), *program]
    return Command(words, {**launch.site.variables, **task.request.env}, gently=True)


def _inside(container: Container) -> list[str]:
    """The words in front of a command that put it into an image."""
    return ["bash", str(TEMPLATES / "container.sh"), container.kind, container.image, ",".join(container.mounts)]


def _launch(task: TaskFile[TaskRecord]) -> Launch:
    assert task.launch is not None, "a task that is not started by one torchrun on this node"
    return task.launch


def _free_port() -> int:
    """A port that is free on this host, and most likely on another one."""
    with socket.socket() as free:
        free.bind(("", 0))
        port: int = free.getsockname()[1]
        return port


def _own_address() -> str:
    """This host's name, which other hosts have to look up; refused where not even this one can."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        raise ConfigError(
            f"launcher=mpi: the name of this host ({name}) has no address, so that other nodes cannot meet here; add "
            "it to /etc/hosts, or use launcher=torchrun with rendezvous=ADDRESS:PORT"
        ) from None
    return name


NO_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # torchrun then opens no store for the ranks


class Executor(Protocol):
    """Gives the command that starts the ranks of a task from the run file in its folder.

    `scratch`: a folder on this host for this run alone, which only this user can read; None where a person types the
    command.
    """

    def __call__(self, task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command: ...


OF_LAUNCHERS: dict[LauncherName, Executor] = {
    "slurm": in_slurm,
    "mpi": by_mpi,
    "torchrun": by_hand,
}


def executor_of(task: TaskFile[TaskRecord]) -> Executor:
    """How the ranks of a task are started."""
    if task.launch is not None:
        return OF_LAUNCHERS[task.launch.launcher]
    return one_node if task.request.lab is None else in_namespaces


def in_namespaces(task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command:
    """In the lab: one process builds the network, which it finds described in the folder, and forks the ranks."""
    request, network = task.request, folder.path / "network.json"
    assert request.lab is not None, "a task of the lab"
    if scratch is not None:
        described = system.load(request.lab.system)
        write(network, lab_network(described, request.devices, request.gpus, request.lab.scale, request.lab.transport))
    words = [sys.executable, "-P", "-m", "resnetx.measure.lab_ranks", str(network), task.entry_module, str(folder.run)]
    return Command(words, {LAB_VARIABLE: str(network), "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""})


def one_node(task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command:
    """torchrun with all ranks on this node."""
    return torchrun(task.request.gpus, ["-m", task.entry_module, str(folder.run)], scratch)


def torchrun(ranks: int, program: list[str], scratch: Path | None = None) -> Command:
    """torchrun with ranks on this node; neither it nor those of resnetx listen to other hosts.

    `--standalone` opens two key-value stores on all network interfaces, and unpickles what it finds in one of them:
    whoever reaches the port can run code (docs/security.md). Here torchrun keeps its state in a file, and opens no
    store for the ranks, which meet in a file, too (`distributed`).
    """
    own_file = [] if scratch is None else [f"--rdzv-endpoint={scratch / 'rendezvous'}"]  # else a new temporary file
    options = [
        "--rdzv-backend=c10d",
        "--rdzv-conf=store_type=file",
        *own_file,
        "--local-addr=127.0.0.1",  # the host's own name may resolve to no address of this host
        "--max-restarts=0",
        f"--nproc-per-node={ranks}",
    ]
    return Command(["torchrun", *options, *program], {**SAFE_PATH, NO_STORE: "1"}, ranks=ranks)


# A study as a job of Slurm: its script, from launch/slurm.sbatch.j2, and what sbatch makes of it.

SCRIPT = "slurm.sbatch.j2"


def job_script(verb: str, words: Sequence[str], launch: Launch, logs: Path) -> str:
    """The script of a job that runs `resnetx VERB WORDS`; `logs`: the folder of its log."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    site = launch.site
    return templates.get_template(SCRIPT).render(
        verb=verb,
        launch=launch,
        options=list(map(_quoted, _options(launch))),
        log=_quoted(str(logs / f"%x-{'%A_%a' if launch.jobs > 1 else '%j'}.log")),
        warned_s=slurm.WARNED_S,
        folder=_quoted(str(Path.cwd())),
        modules=list(map(_quoted, site.modules)),
        variables=[(name, _quoted(value)) for name, value in site.variables.items()],
        command=" ".join(map(_quoted, [sys.executable, "-P", "-m", "resnetx", verb, *words])),
    )


def _quoted(value: str) -> str:
    """A value as one word of the script. A line break would end a line of options, and the word with it."""
    if has_control(value):
        raise ConfigError(f"launcher=slurm: {value} has a line break or another control character, which no job script "
                          "may have; rename the folder, or change the setting")  # fmt: skip
    return shlex.quote(value)


def _options(launch: Launch) -> list[str]:
    """What else sbatch is asked for, without dashes."""
    site = launch.site
    minutes = None if launch.walltime is None else math.ceil(launch.walltime / 60)
    wanted = {
        "partition": site.partition, "account": site.account, "qos": site.qos, "constraint": site.constraint,
        "gpus-per-node": site.gpus_per_node, "time": minutes,
    }  # fmt: skip
    named = [f"{name}={value}" for name, value in wanted.items() if value is not None]
    return [*named, *["exclusive"] * site.exclusive, *site.options]


def submit(script: str, logs: Path) -> str:
    """Submits a job; returns its number."""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        answer = subprocess.run(["sbatch", "--parsable"], input=script, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise ConfigError(
            "launcher=slurm: no sbatch here; start this on a login node of the cluster, or see `resnetx doctor "
            "launcher=slurm`"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError("launcher=slurm: sbatch did not end within a minute; see whether `sinfo` answers") from None
    except OSError as error:
        raise ConfigError(f"results: cannot write {logs} ({error.strerror}); set results=FOLDER") from None
    if answer.returncode:
        said = " ".join(answer.stderr.split()) or f"status {answer.returncode}"
        raise ConfigError(f"launcher=slurm: sbatch refused the job ({said}); change the site file or the settings")
    return answer.stdout.strip().partition(";")[0]


# ---- on node --------------------------------------------------------------------------------------------------------
# One node of a run on several: makes the run's scratch folder here, and starts torchrun.
#
#     python -m resnetx.measure.launch.executor NODES RANKS HOST:PORT c10d -m resnetx.train RUN.json
#
# srun or mpirun starts it on each node, with the launcher's variables; what these say of folders of the launcher's own
# node is replaced. The launcher gets the output, and torchrun's exit status.

# The variables in which starters number the processes of a run: srun, Open MPI, and PMI (MPICH, Intel MPI).
PLACES = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def main(words: list[str]) -> int:
    """Runs torchrun to its end, and returns its exit status."""
    nodes, ranks, meeting, backend, *rest = words
    os.environ.pop("TMPDIR", None)  # the launcher's scratch folder, on its own node
    with scratch() as private:
        command = torchrun_here(int(nodes), int(ranks), meeting, backend, rest, private)
        own = {
            "TMPDIR": str(private),
            SCRATCH_VARIABLE: str(private),
            ending.ERROR_FILE_VARIABLE: str(ending.error_file(private)),
        }
        child = subprocess.Popen(
            command.carrying({}),
            env={**os.environ, **own, **command.variables},
            preexec_fn=dying_with(os.getpid()),
        )
        unbegun = Unbegun(child.pid, private, int(ranks))

        def look() -> None:
            if (left := unbegun.left()) is not None:
                if folder := launched_folder():
                    ending.report_unbegun(left, folder)
                child.kill()

        try:
            status = exit_status(child, look_up=look)
            if status == 0 and unbegun.none_has_begun():
                print(
                    f"resnetx: the ranks of {node_name()} left with exit status 0 before they had begun",
                    file=sys.stderr,
                )
                return 1
            return status
        finally:
            child.kill()
            wait_for_ranks(private)


def torchrun_here(nodes: int, ranks: int, meeting: str, backend: str, rest: list[str], private: Path) -> Command:
    """torchrun of this node, which meets the others at `meeting`; on one node, as everywhere else."""
    if nodes == 1:
        return torchrun(ranks, rest, private)
    host, _, port = meeting.rpartition(":")
    place = next((os.environ[name] for name in PLACES if name in os.environ), "0")
    meet = {
        "static": [f"--node-rank={place}", f"--master-addr={host}", f"--master-port={port}"],
        "c10d": [f"--rdzv-endpoint={meeting}", f"--rdzv-conf=is_host={int(place == '0')}"],
    }
    of_node = [f"--nnodes={nodes}", f"--nproc-per-node={ranks}", "--max-restarts=0", f"--rdzv-backend={backend}"]
    return Command(["torchrun", *of_node, *meet[backend], *rest], SAFE_PATH)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
