"""Ranks on several nodes: a scheduler starts one process on each (`on_node`), which starts torchrun there.

    srun | mpirun  ->  on_node, of each node  ->  torchrun, which meets the others  ->  its ranks

With launcher=torchrun a user takes the scheduler's part, and types a command on each node (`by_hand`).
"""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from resnetx.errors import ConfigError
from resnetx.launching import Container, Launch
from resnetx.measure.launch import slurm
from resnetx.measure.launch.command import SAFE_PATH, Command, program
from resnetx.measure.launch.results_folder import write
from resnetx.measure.launch.scratch import scratch as own_scratch
from resnetx.record import RunFolder, TaskFile, TaskRecord
from resnetx.settings.files import CONFIGS

ON_NODE = "resnetx.measure.launch.on_node"
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
    """torchrun of the first node; the others are started by hand, too, and wait for it (`of_other_node`)."""
    launch = _launch(task)
    words = by_hand_words(launch, task.request.gpus, [task.entry_module, str(folder.run)])
    return Command(words, {**launch.site.variables, **task.request.env, **SAFE_PATH})


def follows(task: TaskFile[TaskRecord]) -> bool:
    """Whether this node's ranks join those that a launcher on node 0 starts, and records."""
    return task.launch is not None and bool(task.launch.node_rank)


def follow(task: TaskFile[TaskRecord]) -> int:
    """The ranks of a node apart from node 0; the exit status of their torchrun."""
    launch = _launch(task)
    variables = {**launch.site.variables, **task.request.env, "OMP_NUM_THREADS": str(task.request.threads)}
    variables |= SAFE_PATH
    with own_scratch() as private:
        file = private / "run.json"
        write(file, task)
        words = by_hand_words(launch, task.request.gpus, [task.entry_module, str(file)])
        return subprocess.run([program(words[0]), *words[1:]], env={**os.environ, **variables}).returncode


def by_hand_words(launch: Launch, gpus: int, program: list[str]) -> list[str]:
    """torchrun on one of several nodes, each of which has its own number; it unpickles nothing from others."""
    host, _, port = (launch.rendezvous or UNKNOWN).rpartition(":")
    return [
        "torchrun", f"--nnodes={launch.nodes}", f"--node-rank={launch.node_rank}", "--rdzv-backend=static",
        f"--master-addr={host.strip('[]')}", f"--master-port={port}", "--max-restarts=0",
        f"--nproc-per-node={gpus // launch.nodes}", "-m", *program,
    ]  # fmt: skip


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
