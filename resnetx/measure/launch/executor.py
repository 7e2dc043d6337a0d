"""How the ranks of a run are started: a command, and the variables that it needs.

What differs from place to place is an `Executor`: it gives the command of the one process that all ranks descend from,
which ends when they have ended, with status 0 where all went well. `launcher` supervises that process, whatever it is:
time limits, records and failures do not depend on how ranks are started.
"""

import sys
from pathlib import Path
from typing import Protocol

from resnetx.interconnect import system
from resnetx.interconnect.lab_network import lab_network
from resnetx.launching import LauncherName
from resnetx.measure.launch import several_nodes
from resnetx.measure.launch.command import SAFE_PATH, Command
from resnetx.measure.launch.torchrun import LAB_VARIABLE
from resnetx.record import RunFolder, TaskFile, TaskRecord, write

NO_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # torchrun then opens no store for the ranks


class Executor(Protocol):
    """Gives the command that starts the ranks of a task from the run file in its folder.

    `scratch`: a folder on this host for this run alone, which only this user can read; None where a person types the
    command.
    """

    def __call__(self, task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command: ...


OF_LAUNCHERS: dict[LauncherName, Executor] = {
    "slurm": several_nodes.in_slurm,
    "mpi": several_nodes.by_mpi,
    "torchrun": several_nodes.by_hand,
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
    words = [sys.executable, "-P", "-m", "resnetx.measure.lab", str(network), task.entry_module, str(folder.run)]
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
    return Command(["torchrun", *options, *program], {**SAFE_PATH, NO_STORE: "1"})
