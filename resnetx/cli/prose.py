"""Prose laid out as lines of a terminal: broken between words, never inside one and never inside `back-ticks`, so that
what a reader copies (a path, a command) stays in one piece. A number stays with its unit.

Where there is no terminal there are 80 columns, so that a pipe and a log read as a terminal does. COLUMNS=N sets
another number, COLUMNS=0 no limit: a width of None, in which every sentence and row is a line.
"""

import os
import re
import textwrap
from typing import IO

from resnetx.units import whole

WIDEST = 100  # columns: longer lines are hard to read, however wide the terminal is
PIPE = 80  # columns of what is no terminal
_NO_BREAK = "\N{NO-BREAK SPACE}"


def width_of(stream: IO[str]) -> int | None:
    """Columns for a stream: those of COLUMNS, of its terminal, or as many as a pipe has; None: there is no limit."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal():
        return int(chosen) or None
    try:
        return (os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0) or PIPE
    except (ValueError, OSError):  # a stream that is closed, or has no file
        return PIPE


def wrapped(text: str, width: int | None, indent: int = 0) -> str:
    """Lines of text, each broken between words; `indent`: blanks before what a broken line goes on with."""
    return "\n".join(_broken(line, width, _leading(line) + " " * indent) for line in text.split("\n"))


def beside(name: str, text: str, at: int, width: int | None) -> str:
    """A name, and beside it from column `at` on what is said of it."""
    return _broken(f"{name:{at}}{text}", width, " " * at, at + WIDEST)


def _broken(line: str, width: int | None, indent: str, widest: int = WIDEST) -> str:
    """A line broken at `width` (None: not at all); quoted `words` stay together."""
    if width is None:
        return line.rstrip()
    kept = whole(re.sub(r"`[^`]*`", lambda quoted: quoted[0].replace(" ", _NO_BREAK), line))
    head = _leading(kept)
    lines = textwrap.wrap(
        kept.lstrip(" "),
        min(width, widest),
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_NO_BREAK, " ")


def _leading(line: str) -> str:
    """The blanks that a line begins with."""
    return " " * (len(line) - len(line.lstrip(" ")))
