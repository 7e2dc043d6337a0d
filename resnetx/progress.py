"""Progress reports: notes, warnings, and how much of a task is done.

The command line shows them on a terminal (`cli.show.Terminal`); the library logs notes with Python's own logging, under
"resnetx", and shows no bars. A program of its own may have them otherwise:

    with reporting_to(mine):
        resnetx.sweep(study="quickstart")
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from resnetx.errors import on_one_line


class Counter(Protocol):
    """Counts how many more things are done, with a line to keep on the screen."""

    def __call__(self, done: int, line: str = "", /) -> None: ...


class Progress:
    """Where notes and progress go: to Python's logging, unless a subclass has them otherwise."""

    _log = logging.getLogger("resnetx")

    @property
    def shows_time(self) -> bool:
        """Whether `counting` shows how long it will still take."""
        return False

    def note(self, text: str, *, indent: int = 0, warning: bool = False) -> None:
        """Says something in prose; `warning`: something that changes what is read or measured, and is always seen."""
        self._log.log(logging.WARNING if warning else logging.INFO, "%s", on_one_line(text))

    def assumed(self, text: str) -> None:
        """Says which settings were added that nobody typed: a screen has them behind its answer."""
        self.note(text, warning=True)

    def command(self, text: str) -> None:
        """Says what is copied from the screen as it is: a line with a path or a command."""
        self._log.info("%s", on_one_line(text))

    def counting(self, what: str, total: int, where: object = "") -> AbstractContextManager[Counter]:
        """Shows how many of `total` things are done; `what`: a few words, `where`: a path."""

        def advance(done: int, line: str = "", /) -> None:
            if line:
                self._log.info("%s", line)

        return nullcontext(advance)

    def waiting(self, what: str, where: object = "") -> AbstractContextManager[None]:
        """Shows that something goes on."""
        self._log.info("%s", f"{what}: {where}" if where else what)
        return nullcontext()


_current: ContextVar[Progress] = ContextVar("progress", default=Progress())  # noqa: B039


@contextmanager
def reporting_to(progress: Progress) -> Iterator[None]:
    """While the block lasts, notes and progress go there."""
    token = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(token)


def note(text: str, *, indent: int = 0, warning: bool = False) -> None:
    """Says something in prose; `warning`: something that changes what is read or measured."""
    _current.get().note(text, indent=indent, warning=warning)


SKIPPED = "skipped: "  # how such a note begins


def skipped(sentence: str) -> None:
    """Says what is left out: a file that cannot be read, or that counts twice."""
    note(f"{SKIPPED}{sentence}", warning=True)


def assumed(text: str) -> None:
    """Says which settings were added that nobody typed."""
    _current.get().assumed(text)


def command(text: str) -> None:
    """Says a line as it is, whatever its length: a path or a command."""
    _current.get().command(text)


def counting(what: str, total: int, where: object = "") -> AbstractContextManager[Counter]:
    """Shows how many of `total` things are done; `what`: a few words, `where`: a path."""
    return _current.get().counting(what, total, where)


def waiting(what: str, where: object = "") -> AbstractContextManager[None]:
    """Shows that something goes on; `what`: a few words, `where`: a path."""
    return _current.get().waiting(what, where)


def shows_time() -> bool:
    """Whether `counting` shows how long it will still take."""
    return _current.get().shows_time
