"""Runs probes one after the other, each in a process of its own with a limit: one that crashes or hangs is a finding.

    apart({"torch": partial(torch_probe, graphics)})        # {"torch": ("ok", "torch 2.15.0 ...", "")}

A fresh Python imports what several probes need, once, and forks for each of them: so a program that has used torch, and
has threads, is not forked. Where it is lost over the import, each probe imports for itself, and is lost by itself.
"""

import importlib
import io
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from resnetx.host import dying_with

T = TypeVar("T")

LIMIT_S = 30.0  # CUDA takes some seconds to start on eight GPUs, a library some to load
_IMPORT_S = 120.0  # for torch from a slow file system


@dataclass(frozen=True)
class Lost:
    """A probe that has no result; `why`, after its name: "crashed (SIGSEGV)"."""

    why: str
    late: bool = False  # it did not end


@dataclass(frozen=True)
class _Asked:
    """What the fresh Python is asked."""

    probes: Sequence[tuple[str, Callable[[], object], float]]  # names, what to call, and seconds that each may take
    imports: tuple[str, ...]


def apart(
    probes: Mapping[str, Callable[[], T]], limits_s: Mapping[str, float] | None = None, imports: tuple[str, ...] = ()
) -> dict[str, T | Lost]:
    """The results of probes by their names; they and their results can be pickled, and they raise nothing.

    `limits_s`: of those that may take another time than `LIMIT_S`.
    """
    limits_s = limits_s or {}
    named = [(name, probe, limits_s.get(name, LIMIT_S)) for name, probe in probes.items()]
    found = _asked(_Asked(named, imports))
    if imports and (left := [each for each in named if each[0] not in found]):
        found |= _asked(_Asked(left, ()))
    return {name: found.get(name, Lost("could not be tried")) for name, _, _ in named}


def _asked(asked: _Asked) -> dict[str, Any]:
    """The results that a fresh Python gives before it ends, or is lost over an import."""
    limit_s = _IMPORT_S + sum(limit_s for _, _, limit_s in asked.probes)
    python = subprocess.Popen(
        [sys.executable, "-P", "-c", "from resnetx.measure.doctor.apart import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=dying_with(os.getpid()),
    )
    try:
        content, _ = python.communicate(pickle.dumps(asked), limit_s)
    except subprocess.TimeoutExpired as late:
        content = late.output or b""
    finally:
        python.kill()
        python.wait()
    found: dict[str, Any] = {}
    results = io.BytesIO(content)
    with suppress(EOFError, pickle.UnpicklingError):  # its end, or where it was cut off
        while True:
            name, result = pickle.load(results)
            found[name] = result
    return found


# ---- the fresh Python -----------------------------------------------------------------------------------------------


def main() -> None:
    """Answers what is asked on standard input."""
    asked: _Asked = pickle.load(sys.stdin.buffer)
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print is no result
    for name in asked.imports:
        with suppress(Exception):  # the probe that needs it says so
            importlib.import_module(name)
    for name, probe, limit_s in asked.probes:
        pickle.dump((name, at_once([probe], limit_s)[0]), results)


def at_once(probes: Sequence[Callable[[], T]], limit_s: float = LIMIT_S) -> list[T | Lost]:
    """What each probe returns in a fork of this process, and what became of the fork where it returns nothing."""
    begun = [_begun(probe) for probe in probes]
    end = time.monotonic() + limit_s
    return [_ended(process, reader, end, limit_s) for process, reader in begun]


def _begun(probe: Callable[[], object]) -> tuple[int, int]:
    """A fork that runs a probe, and the pipe from which its result is read."""
    reader, writer = os.pipe()
    parent = os.getpid()
    if not (process := os.fork()):
        _answer(probe, writer, parent)
    os.close(writer)
    return process, reader


def _ended(process: int, reader: int, end: float, limit_s: float) -> Any:
    """The result of a fork, which is dead then; `end`: of its time, by the monotonic clock."""
    content, late = b"", False
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            if late := not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                os.kill(process, signal.SIGKILL)
                break
            if not (part := pipe.read(2**16)):
                break
            content += part
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if late:
        return Lost(f"did not end within {limit_s:g} s", late=True)
    if status < 0:
        return Lost(f"crashed ({signal.Signals(-status).name})")
    return pickle.loads(content) if content else Lost(f"left with exit status {status}")


def _answer(probe: Callable[[], object], writer: int, parent: int) -> NoReturn:
    """Ends this process without the destructors of libraries, some of which crash, once the result is written."""
    try:
        dying_with(parent)()
        with os.fdopen(writer, "wb", closefd=False) as pipe:
            pickle.dump(probe(), pipe)
        os._exit(0)
    finally:  # whatever was raised: this process is no second server
        os._exit(1)


# Findings about this machine, and the verdicts of probes that they are made of.

State = Literal["ok", "limited", "missing"]
ProbeResult = tuple[State, str, str]  # (state, what, fix): a finding without its topic


@dataclass(frozen=True)
class Finding:
    """One thing that was examined. `fix`: the command or setting that improves it; "" if there is none."""

    topic: str
    state: State
    what: str
    fix: str

    @property
    def needed(self) -> bool:
        """Whether no run works without it."""
        return self.topic in ("torch", "gloo", "results", "Slurm", "nodes")


def ok(what: str) -> ProbeResult:
    return "ok", what, ""


def limited(what: str, fix: str = "") -> ProbeResult:
    return "limited", what, fix


def missing(what: str, fix: str = "") -> ProbeResult:
    return "missing", what, fix
