"""Work in other processes, some tasks at a time. When a process dies, it is known what it may have been working on."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

from resnetx.host import dying_with

Task = TypeVar("Task")
Result = TypeVar("Result")


class CrashError(Exception):
    """A process died: killed, or crashed in native code. One of `tasks` did it, or none; all of them are undone."""

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks


def results(work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, waiting: int = 1) -> Iterator[Result]:
    """The result of every task, as they come, from `workers` processes, or a `CrashError`.

    Tasks are taken as they are needed, so that there may be millions: each process has one, and `waiting` more wait.
    """
    context = multiprocessing.get_context("spawn")  # a progress display runs a thread, which a fork would break
    at_once = workers * (1 + waiting)
    submitted: dict[Future[Result], Task] = {}
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(os.getpid(),)) as pool:
        try:
            for task in tasks:
                _submit(pool, work, task, submitted)
                if len(submitted) == at_once:
                    yield from _first(submitted)
            while submitted:
                yield from _first(submitted)
        except BrokenProcessPool:
            raise CrashError(list(submitted.values())) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _submit(
    pool: ProcessPoolExecutor, work: Callable[[Task], Result], task: Task, submitted: dict[Future[Result], Task]
) -> None:
    try:
        with _caller_hidden():  # submitting starts processes
            submitted[pool.submit(work, task)] = task
    except BrokenProcessPool:
        raise CrashError([*submitted.values(), task]) from None


@contextmanager
def _caller_hidden() -> Iterator[None]:
    """While the block lasts, processes that start do not import the program that calls us: they would run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _first(submitted: dict[Future[Result], Task]) -> Iterator[Result]:
    """The results that are there first."""
    for future in wait(submitted, return_when=FIRST_COMPLETED).done:
        result = future.result()
        del submitted[future]
        yield result


def _start_worker(parent: int) -> None:
    """Leaves Ctrl-C to the parent, and ends with it even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    dying_with(parent)()
