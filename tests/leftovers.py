"""What a failed test has started and not ended: its report says what these processes do, and they are killed.

They would else take the cores of the tests behind it, and nobody would see why it failed: a run that hangs, say.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from resnetx.measure.launch import FOLDER_VARIABLE, children
from resnetx.measure.launch.hang import ANSWER_S, QUESTION
from tests.preloaded.start import SHARED

SERVER = b"tests.preloaded.server"  # stays for the tests behind; its forks, which do not, have the same words
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        return (yield)
    except pytest.skip.Exception:
        raise
    except BaseException:
        started = {*_started_since(began_s), *_forked_since(began_s, item.config)}
        if left := sorted({*started, *_of_runs_below(item.funcargs.get("tmp_path"))}):
            item.add_report_section("call", "processes that were left, and killed", told(left))
            for process in left:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        raise


def _started_since(began_s: float, above: int | None = None) -> Iterator[int]:
    for child in children(above or os.getpid()):
        with suppress(OSError):
            if _stat(child)[19] / TICKS >= began_s - 1 / TICKS and not (above is None and SERVER in _words(child)):
                yield child
        yield from _started_since(began_s, child)


def _forked_since(began_s: float, config) -> Iterator[int]:
    """Of servers that all processes of pytest-xdist share (`conftest.py`): what they forked for this one."""
    given = getattr(config, "workerinput", {})
    own = f"\0PYTEST_XDIST_WORKER={given.get('workerid')}\0".encode()
    for folder in (Path(given[name]) for name in SHARED if name in given):
        for child in children(int((folder / "process").read_text())):
            with suppress(OSError):
                if own in b"\0" + Path(f"/proc/{child}/environ").read_bytes():
                    yield from (child, *_started_since(began_s, child))


def _of_runs_below(folder: Path | None) -> Iterator[int]:
    """Processes of runs, whose launcher may have ended."""
    mark = f"\0{FOLDER_VARIABLE}={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*") if folder else ():
        with suppress(OSError):
            if mark in b"\0" + (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                yield int(entry.name)


def told(processes: list[int]) -> str:
    """Each with its state, the signals it blocks, and words; of ranks what they do, as they tell their launcher."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, QUESTION)
    time.sleep(ANSWER_S)
    lines = [
        "process, parent, state, threads, CPU s, waits in; signals that are pending, blocked, ignored, caught; words"
    ]
    for process in processes:
        with suppress(OSError):
            entry, stat = Path(f"/proc/{process}"), _stat(process)
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            status = dict(line.split(":\t") for line in (entry / "status").read_text().splitlines())
            masks = [status[name].lstrip("0") or "0" for name in ("ShdPnd", "SigBlk", "SigIgn", "SigCgt")]
            used_s = (stat[11] + stat[12]) / TICKS
            words = _words(process).replace(b"\0", b" ").decode(errors="replace")
            waits = (entry / "wchan").read_text()
            lines.append(f"{process} {stat[1]} {state} {stat[17]} {used_s:.1f} {waits}; {' '.join(masks)}; {words}")
            lines += [f"    {note}" for note in _notes(entry)]
    return "\n".join(lines)


def _stat(process: int) -> list[int]:
    """The fields of proc_pid_stat(5) from the third one on, numbers; 0 for the state."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, fields[1:])]


def _words(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _notes(process: Path) -> Iterator[str]:
    """What a rank has noted, and answered, of where it is."""
    for file in (process / "fd").iterdir():
        with suppress(OSError):
            if (path := file.readlink()).name.startswith("progress-rank"):
                yield path.read_text(errors="replace").strip()
