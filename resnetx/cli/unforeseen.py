"""How a command ends with an error: a sentence on standard error, and a status.

Also for errors that are not the user's: a full disk, no memory, a bug in resnetx.
"""

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TextIO

from resnetx import __version__
from resnetx.cli.table_layout import width_of, wrapped
from resnetx.visible import on_one_line, visible


def complain(sentence: str) -> None:
    """Prints a sentence on standard error."""
    print(wrapped(on_one_line(f"resnetx: {sentence}"), width_of(sys.stderr)), file=sys.stderr)


def refused(error: OSError) -> int:
    """Reports an error of the system, with the file or stream; status 2."""
    where = error.filename or ("standard output" if _is_of_output(error) else "")
    complain(f"{where}{': ' * bool(where)}{error.strerror or error}")
    return 2


def mistake(error: Exception) -> int:
    """Reports a bug in resnetx, and the file with the traceback; status 1."""
    from resnetx.measure.launch.ending import no_memory, sentence

    what = sentence(error)
    if no_memory(what):
        complain(f"out of memory ({what})")
        return 1
    kept, text = _kept(error)
    complain(f"a bug in resnetx ({what}); please report it with {kept or 'this:'}")
    if not kept:
        print(visible(text), file=sys.stderr)
    return 1


def flush() -> None:
    """Flushes standard output, so that a full disk is noticed and reported."""
    if sys.stdout is not None:  # None: the caller has closed it
        sys.stdout.flush()


def silence(stream: TextIO | None) -> None:
    """Redirects a broken stream to /dev/null, as Python would flush it again at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_of_output(error: OSError) -> bool:
    """Whether standard output failed, whose errors have no file name: it then fails again."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except (AttributeError, ValueError):  # it is closed, or no file
        return False
    except OSError as again:
        silence(sys.stdout)
        return again.errno == error.errno
    return False


def _kept(error: Exception) -> tuple[str, str]:
    """The file with the traceback and the command, "" if it cannot be written; and the traceback."""
    text = "".join(traceback.format_exception(error))
    asked = f"resnetx {__version__}, Python {sys.version}\n{sys.argv}\n\n{text}"
    try:
        handle, name = tempfile.mkstemp(prefix="resnetx-mistake-", suffix=".txt")
        os.close(handle)
        Path(name).write_text(asked, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return "", text
    return name, text
