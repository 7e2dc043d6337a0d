"""What ends a command that has done nothing wrong: a full disk, no memory, a mistake of ours. Each in one line."""

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TextIO

from resnetx import __version__


def refused(error: OSError) -> int:
    """Says what the system refused, of which file or stream; status 2."""
    where = error.filename or ("standard output" if _is_of_output(error) else "")
    print(f"resnetx: {where}{': ' * bool(where)}{error.strerror or error}", file=sys.stderr)
    return 2


def mistake(error: Exception) -> int:
    """Says that resnetx has made a mistake, and which file has the traceback; status 1."""
    from resnetx.measure.ending import sentence
    from resnetx.measure.no_memory import no_memory

    what = sentence(error)
    if no_memory(what):
        print(f"resnetx: no memory was left for resnetx itself ({what})", file=sys.stderr)
        return 1
    print(f"resnetx: a mistake of resnetx ({what}); please report it with {_kept(error)}", file=sys.stderr)
    return 1


def flush() -> None:
    """Hands over what was printed, so that a full disk is noticed while there is somebody to say so."""
    if sys.stdout is not None:  # None: the caller has closed it
        sys.stdout.flush()


def silence(stream: TextIO | None) -> None:
    """Lets a stream that cannot be written swallow the rest, which would be tried again at the end of the process."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_of_output(error: OSError) -> bool:
    """Whether it is standard output that failed, of which errors bear no name: it then fails again."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except (AttributeError, ValueError):  # it is closed, or no file
        return False
    except OSError as again:
        silence(sys.stdout)
        return again.errno == error.errno
    return False


def _kept(error: Exception) -> str:
    """The file with the traceback and what was asked; the traceback itself where no file can be written."""
    text = "".join(traceback.format_exception(error))
    asked = f"resnetx {__version__}, Python {sys.version}\n{sys.argv}\n\n{text}"
    try:
        handle, name = tempfile.mkstemp(prefix="resnetx-mistake-", suffix=".txt")
        os.close(handle)
        Path(name).write_text(asked, errors="backslashreplace")
    except OSError:
        return f"this:\n{text}"
    return name
