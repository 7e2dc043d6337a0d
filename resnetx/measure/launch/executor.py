"""How the ranks of a run are started: a command, and the variables that it needs.

What differs from place to place is an `Executor`: it gives the command of the one process that all ranks descend from,
which ends when they have ended, with status 0 where all went well. `launcher` supervises that process, whatever it is:
time limits, records and failures do not depend on how ranks are started.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resnetx.record import RunFolder, TaskFile, TaskRecord

NO_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # torchrun then opens no store for the ranks


@dataclass(frozen=True)
class Command:
    """What starts the ranks of a run."""

    words: list[str]
    variables: dict[str, str]  # of its environment, besides those that the launcher has

    @property
    def line(self) -> str:
        """As any shell takes it."""
        return shlex.join(["env", *(f"{name}={value}" for name, value in self.variables.items()), *self.words])


class Executor(Protocol):
    """Gives the command that starts the ranks of a task from the run file in its folder.

    `scratch`: a folder on this host for this run alone, which only this user can read; None where a person types the
    command.
    """

    def __call__(self, task: TaskFile[TaskRecord], folder: RunFolder, scratch: Path | None = None) -> Command: ...


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
    return Command(["torchrun", *options, *program], {NO_STORE: "1"})
