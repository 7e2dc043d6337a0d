"""Runs that start as forks of a process which has imported what they need: in milliseconds, not in seconds of imports.

    launcher               `forked`: asks for a run, and is the parent of its torchrun
    template               `main`: has imported torch, torchrun and the modules of ranks; one thread, no device
    torchrun               `_run_torchrun`: has forked its ranks, then is torch.distributed.run as it always is
    rank 0, rank 1, ...    `_wait_for_words`: is what torchrun starts, once that has started it

The template forks twice, and the process between ends at once: the kernel then gives torchrun to the launcher, which
waits for it, kills it, and takes it along when it dies. So whatever ends a template, no run ends with it.

Libraries read variables, limits and CPUs as they load: a run with others has a template of its own. Variables of one
run (`OF_ONE_RUN`) are set in the fork. Where a fork would differ in anything else (an import has started a thread,
say), the run is started afresh; a note and its stderr say why.

References: PR_SET_CHILD_SUBREAPER(2const), PR_SET_PDEATHSIG(2const), proc_pid_environ(5).
"""

import ctypes
import importlib
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from resnetx import progress
from resnetx.host import dying_with, end_after, exit_status, kernel_text, run_module
from resnetx.measure.launch import FOLDER_VARIABLE, SCRATCH_VARIABLE, STARTED_VARIABLE
from resnetx.measure.launch.ending import ERROR_FILE_VARIABLE
from resnetx.measure.launch.executor import Command

IMPORTED = (
    "torch.distributed.run",
    "torch._dynamo",  # which every optimizer imports
    "torchvision",
    "resnetx.cli.ranks",
    "resnetx.measure.rank_process",
    "resnetx.measure.rank.main",
    "resnetx.measure.bench.timed_collectives",
)
OF_ONE_RUN = ("TMPDIR", ERROR_FILE_VARIABLE, FOLDER_VARIABLE, SCRATCH_VARIABLE, STARTED_VARIABLE)
AFRESH_VARIABLE = "RESNETX_RUN_AFRESH"  # where it is set, every run is started afresh
ROOM_VARIABLE, ROOM_BYTES = "RESNETX_RUN_ROOM", 2**16  # of a template, where forks write variables of their own

_READY, _ENDED = b"ready", "it has ended"
_MESSAGE_BYTES = 2**16
_ANSWER_S = 60.0  # that a fork may take, which takes some milliseconds

Logs = tuple[IO[bytes], IO[bytes]]  # stdout and stderr of a run
Wait = Callable[[], None]  # called again and again while a template is started


class Fork:
    """A child that another process has forked, with what is asked of a `Popen`."""

    def __init__(self, pid: int, args: Sequence[str]) -> None:
        self.pid, self.args = pid, args
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return exit_status(self, 0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        return exit_status(self, timeout)

    def terminate(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


# ---- the launcher ---------------------------------------------------------------------------------------------------


class _NoForkError(Exception):
    """Why a run cannot be a fork."""


class Template:
    """The launcher's end of a template, which is started when it is first needed, and again for other variables."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._inherited: tuple[object, ...] = ()
        self._obstacle, self._noted = "", ""  # to every fork; the last one that a note told of
        self._failures = 0  # in a row

    def fork(self, command: Command, variables: Mapping[str, str], logs: Logs, wait: Wait) -> Fork | None:
        """torchrun, as a fork; None where it has to be started afresh."""
        stderr = logs[1].fileno()
        try:
            if self._obstacle:
                raise _NoForkError(self._obstacle)
            self._start({name: value for name, value in variables.items() if name not in OF_ONE_RUN}, wait)
            self._said.seek(0)
            os.write(stderr, self._said.read())  # what imports warn of, which imports of the run's own would, too
            own = {name: value for name, value in variables.items() if name in OF_ONE_RUN}
            asked = {"words": command.words, "variables": own, "ranks": command.ranks, "launcher": os.getpid()}
            process = self._ask(json.dumps(asked).encode(), logs)
        except Exception as error:  # whatever it is: the run has not begun, and needs no fork
            self.end()
            self._give_up(str(error) or type(error).__name__, stderr)
            return None
        self._failures = 0
        return Fork(process, command.words)

    def _give_up(self, reason: str, stderr: int) -> None:
        """Says why a run is started afresh; behind two failures in a row all are."""
        self._failures += 1
        if self._failures > 1:
            self._obstacle = reason
        os.write(stderr, f"resnetx: started afresh, as no preloaded process could be forked: {reason}\n".encode())
        if reason != self._noted:
            self._noted = reason
            progress.note(
                f"runs start some seconds later, each with imports of its own, and measure the same: {reason} "
                f"({AFRESH_VARIABLE}=1 is without this note)",
                warning=True,
            )

    def _start(self, variables: dict[str, str], wait: Wait) -> None:
        """Starts the template, unless there is one for such runs."""
        inherited = (variables, Path.cwd(), os.nice(0), _inherited())
        if self._process and self._process.poll() is None and inherited == self._inherited:
            return
        self.end()
        self._inherited, self._said = inherited, tempfile.TemporaryFile()  # noqa: SIM115
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env={**variables, ROOM_VARIABLE: " " * ROOM_BYTES},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=dying_with(os.getpid()),
            )
        self._line.settimeout(0.05)
        while (answer := self._heard()) is None:
            wait()
        self._line.settimeout(_ANSWER_S)
        if answer != _READY:
            if answer or exit_status(self._process) >= 0:  # else a signal ended it, which may not come again
                self._obstacle = answer.decode() or self._last_words()
            raise _NoForkError(self._obstacle or "a signal ended the imports")

    def _heard(self) -> bytes | None:
        with suppress(TimeoutError):
            return self._line.recv(_MESSAGE_BYTES)
        return None

    def _ask(self, asked: bytes, logs: Logs) -> int:
        """The process that is forked: it goes on once it is told to; else it is ended here."""
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(_ANSWER_S)
        number = b""
        with line:
            try:
                with _adopting(), theirs:
                    socket.send_fds(self._line, [asked], [*(log.fileno() for log in logs), theirs.fileno()])
                    theirs.close()
                    number = line.recv(_MESSAGE_BYTES)
                if not number.isdigit():
                    raise _NoForkError(number.decode() or _ENDED)
                if line.recv(_MESSAGE_BYTES) != _READY:
                    raise _NoForkError(_ENDED)
                line.send(_READY)
                return int(number)
            except BaseException:
                line.settimeout(1.0)
                with suppress(OSError):  # it has ended, or was not forked
                    if (number := number or line.recv(_MESSAGE_BYTES)).isdigit():
                        fork = Fork(int(number), [])
                        fork.kill()
                        exit_status(fork)
                raise

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return next(filter(None, map(str.strip, reversed(lines))), _ENDED)

    def end(self) -> None:
        """Ends the template, and none of its forks."""
        if self._process:
            self._process.kill()
            exit_status(self._process)
            self._line.close()
            self._said.close()
            self._process = None


def _inherited() -> list[str]:
    """What a process that this one starts has of it besides variables, as the kernel shows it."""
    names = r"Umask|[UG]id|Groups|Sig(?:Blk|Ign)|Cap\w+|NoNewPrivs|(?:Cpus|Mems)_allowed"
    status = re.findall(rf"^(?:{names}):.*", kernel_text("proc/self/status"), re.MULTILINE)
    return [*status, kernel_text("proc/self/limits")]


_adoption = threading.Lock()


@contextmanager
def _adopting() -> Iterator[None]:
    """While it lasts, the kernel gives this process the children of its descendants that end."""
    get, put = 37, 36  # PR_GET_CHILD_SUBREAPER and PR_SET_CHILD_SUBREAPER of linux/prctl.h
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    with _adoption:
        prctl(get, ctypes.byref(before), 0, 0, 0)
        prctl(put, 1, 0, 0, 0)
        try:
            yield
        finally:
            prctl(put, before.value, 0, 0, 0)


_kept: ContextVar[Template | None] = ContextVar("template", default=None)


@contextmanager
def kept() -> Iterator[None]:
    """While it lasts, runs are forks of one template; else each has its own."""
    template = Template()
    token = _kept.set(template)
    try:
        yield
    finally:
        _kept.reset(token)
        template.end()


def forked(command: Command, variables: Mapping[str, str], logs: Logs, wait: Wait) -> Fork | None:
    """The torchrun of a command with these variables, as a fork; None where it has to be started afresh."""
    if not command.ranks or sys.platform != "linux" or AFRESH_VARIABLE in os.environ:
        return None
    if template := _kept.get():
        return template.fork(command, variables, logs, wait)
    with kept():
        return forked(command, variables, logs, wait)


# ---- the template ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Image:
    """What a template is to its forks, which the kernel does not give them."""

    inherited: dict[str, str]  # variables
    room: int  # address
    pages: list[tuple[int, int]]  # address and bytes of what it has read of its libraries

    @classmethod
    def of_this_process(cls) -> "_Image":
        """Imports what forks need."""
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_void_p
        room = getenv(ROOM_VARIABLE.encode()) - len(f"{ROOM_VARIABLE}=")
        del os.environ[ROOM_VARIABLE]
        inherited = dict(os.environ)
        for module in IMPORTED:
            importlib.import_module(module)
        return cls(inherited, room, list(_pages_of_files()))

    def read_pages(self) -> None:
        """Maps the pages of libraries as imports would have, once: they count to the memory that a process takes."""
        madvise, MADV_POPULATE_READ = ctypes.CDLL(None).madvise, 22  # linux/mman.h, from Linux 5.14 on
        for address, size in self.pages:
            madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), MADV_POPULATE_READ)
        self.pages.clear()

    def take(self, variables: Mapping[str, str]) -> None:
        """Makes these the variables of this process, without those that imports have set, as after TMPDIR."""
        os.environ.clear()
        os.environ.update(variables)
        tempfile.tempdir = None
        own = "\0".join(f"{name}={value}" for name, value in variables.items() if self.inherited.get(name) != value)
        ctypes.memmove(self.room, os.fsencode(own)[:ROOM_BYTES].ljust(ROOM_BYTES, b"\0"), ROOM_BYTES)


def main(launcher: socket.socket) -> None:
    """Forks whenever the launcher asks, until that ends."""
    image = _Image.of_this_process()
    if process := os.fork():  # at which OpenBLAS ends its threads, until they have work
        os.waitpid(process, 0)
    else:
        os._exit(0)
    launcher.send(_obstacle(launcher.fileno()).encode() or _READY)
    while (message := socket.recv_fds(launcher, _MESSAGE_BYTES, 3))[0]:
        content, files = message[:2]
        with socket.socket(fileno=files[2]) as line, suppress(BrokenPipeError):
            try:
                if obstacle := _obstacle(launcher.fileno(), *files):
                    line.send(obstacle.encode())
                elif process := os.fork():
                    os.waitpid(process, 0)
                else:
                    end_after(_hand_over, json.loads(content), files[:2], line, image)
            except OSError as error:  # there is no memory for another process, say
                line.send(str(error).encode())
        for file in files[:2]:
            os.close(file)


def _pages_of_files() -> Iterator[tuple[int, int]]:
    """Address and bytes of the parts of files that are in this process's memory."""
    import numpy

    size = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/pagemap", "rb") as kept:  # noqa: PTH123
        for line in kernel_text("proc/self/maps").splitlines():
            place, _, _, _, file = line.split()[:5]
            if file == "0":
                continue
            begin, end = (int(part, 16) for part in place.split("-"))
            kept.seek(begin // size * 8)
            here = numpy.frombuffer(kept.read((end - begin) // size * 8), numpy.uint64) >> 63  # proc_pid_pagemap(5)
            edges = numpy.flatnonzero(numpy.diff(here.astype(int), prepend=0, append=0))
            for first, behind in edges.reshape(-1, 2).tolist():
                yield begin + first * size, (behind - first) * size


def _obstacle(*ours: int) -> str:
    """Why this process must not fork; "" where it may. `ours`: open files that forks close."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    popen = getattr(SubprocessHandler, "_popen", None)
    if popen is None or list(inspect.signature(popen).parameters) != ["self", "args", "env"]:
        return "this torch starts ranks in another way"
    if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
        return f"what ranks import has started {threads - 1} threads"
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was that of this list
            if (opened := file.readlink()) and int(file.name) not in (0, 1, 2, *ours):
                return f"what ranks import has opened {opened}"
    return ""


def _hand_over(asked: dict[str, Any], logs: list[int], line: socket.socket, image: _Image) -> None:
    """Forks torchrun, which becomes a child of the launcher as this process ends."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.0005)
    line.send(str(os.getpid()).encode())
    dying_with(asked["launcher"])()
    os.setsid()
    for log, number in zip(logs, (1, 2), strict=True):
        os.dup2(log, number)
    _close_all_but(line)
    ranks = [_Rank(image) for _ in range(asked["ranks"])]
    for rank in ranks:
        rank.wait()
    image.take(image.inherited | asked["variables"])
    _run_torchrun(asked["words"], ranks, line)


# ---- torchrun and its ranks -----------------------------------------------------------------------------------------


class _Rank:
    """The process of a rank, which waits for its words: forked before torchrun starts a thread or asks for devices."""

    def __init__(self, image: _Image) -> None:
        parent = os.getpid()
        self._line, theirs = socket.socketpair()
        self._process = os.fork()
        if not self._process:
            end_after(_wait_for_words, parent, theirs, image)
        theirs.close()

    def wait(self) -> None:
        """Waits until it is a session of its own, as torchrun expects, and dies with this process."""
        if self._line.recv(len(_READY)) != _READY:
            raise ChildProcessError("a forked rank has ended")

    def start(self, words: Sequence[str], variables: Mapping[str, str]) -> Fork:
        with self._line as line:
            line.sendall(json.dumps([words, variables]).encode() + b"\n")
        return Fork(self._process, words)


def _run_torchrun(words: list[str], ranks: list[_Rank], line: socket.socket) -> None:
    """Is torchrun; what it starts as it starts every rank are these."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    popen = SubprocessHandler._popen

    def started(self: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> Any:
        usual = args[:3] == (sys.executable, "-u", "-m") and not (self._stdout or self._stderr)
        return ranks.pop().start(args, env) if usual else popen(self, args, env)

    SubprocessHandler._popen = started  # type: ignore[method-assign]
    # Named in notes of a rendezvous that nobody reads: torch looks for its source among all that is imported here.
    dynamic_rendezvous.get_method_name = lambda depth=2: "no_method_name"
    sys.argv = words
    with line:
        line.send(_READY)
        if not line.recv(1):  # the launcher was interrupted
            return
    run.main()


def _wait_for_words(parent: int, line: socket.socket, image: _Image) -> None:
    """Becomes a rank, once torchrun starts it."""
    _close_all_but(line)
    dying_with(parent)()
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # torchrun handles them, so ranks
        if signal.getsignal(number) is signal.SIG_IGN:  # that it starts never ignore them
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.register_at_fork(after_in_child=image.read_pages)  # what is measured is a fork of its attendant
    line.send(_READY)
    with line, line.makefile() as lines:
        words, own = json.loads(lines.readline())
    image.take(own)
    sys.modules["numpy"].random.seed()  # else all ranks would have the template's numbers
    run_module(words[3], words[4:])


def _close_all_but(line: socket.socket) -> None:
    """Closes the open files of the process that forked this one, which they would keep from their ends."""
    os.closerange(3, line.fileno())
    os.closerange(line.fileno() + 1, 256)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        own = given.dup()  # with a small number, however many files the launcher has open
    main(own)
