"""Runs at the same time, each on nodes of its own: one thread supervises each of them.

Signals reach the main thread alone. What it raises then interrupts all runs, which record that, before it goes on.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic

from resnetx.measure.launch import launcher
from resnetx.record import Ended, RunFolder, TaskFile


@dataclass(frozen=True)
class Placed(Generic[Ended]):
    """A task, and the folder that its record goes to."""

    task: TaskFile[Ended]
    folder: RunFolder


def together(placed: Sequence[Placed[Ended]]) -> list[Ended]:
    """The records of tasks that run at the same time, in their order; each is on disk."""
    stopped = threading.Event()

    def look_up() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(max_workers=max(1, len(placed)), thread_name_prefix="resnetx-run") as pool:
        runs = [pool.submit(launcher.supervise, each.task, each.folder, look_up=look_up) for each in placed]
        try:
            wait(runs)
        except BaseException:
            stopped.set()
            raise
    return [run.result() for run in runs]
