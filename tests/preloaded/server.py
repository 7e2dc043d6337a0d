"""A Python that has imported what ranks need, and forks for whoever asks: torchrun and ranks start in milliseconds.

Importing torch, its compiler (which every optimizer imports) and resnetx takes a rank some six seconds of CPU time, and
torchrun three: far more than what most tests then measure. `client.py` stands where tests have Python and torchrun;
it sends its words, variables and open files to this server. A fork of the server becomes that program: the real
torchrun and the real rank, in a process of their own, which only did not import torch themselves. Its parent,
`attendant.py`, passes signals on and sends the exit status back; when the client is killed, it kills the program.

Tests of how processes start, listen and die run without it.
"""

import array
import ctypes
import gc
import importlib
import importlib.util
import marshal
import os
import runpy
import signal
import socket
import struct
import sys
import tempfile
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

from resnetx.host import dying_with, end_after, run_module

READY = "ready"
MOST_FILES = 64
LENGTH = struct.Struct("!I")
ATTENDANT = Path(__file__).with_name("attendant.py")
ROOM_VARIABLE, ROOM_BYTES = "TESTS_ROOM", 2**16  # where the kernel shows variables: forks write theirs, for who looks


def main(address: str, modules: list[str]) -> None:
    """Serves until it is killed; a fork of it returns, to end as its program does."""
    dying_with(os.getppid())()  # pytest, which may be killed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, with SIGHUP, where a shell has started pytest
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # in the background: programs would not hear a test's signals
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    room = getenv(ROOM_VARIABLE.encode()) - len(f"{ROOM_VARIABLE}=")
    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]):
            importlib.import_module(module)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads must not fork"
    gc.freeze()
    for ended in list(weakref.finalize._registry):  # torch's operators: a fork that ends need not take them down
        ended.atexit = False
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print(READY, flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for attendants
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _attend(connection, room)
            return
        connection.close()


def _attend(connection: socket.socket, room: int) -> None:
    """Forks once more: the fork returns after its program has run, and this process becomes its attendant.

    resnetx looks at the variables of a rank's parent, so the attendant is started with those of the client.
    """
    asked, files = _received(connection)
    if not asked:  # the client was killed before it had asked
        os._exit(1)
    begun, begin = os.pipe()  # closed by the start of the attendant
    if program := os.fork():
        os.set_inheritable(connection.fileno(), True)
        words = [sys.executable, "-IS", str(ATTENDANT), str(connection.fileno()), str(program)]
        for file in [*files, begun]:
            os.close(file)
        os.execve(words[0], words, asked["variables"])
    connection.close()
    os.close(begin)
    os.read(begun, 1)
    os.close(begun)
    _become(asked, files, room)
    _run(asked["words"])


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    length, ancillary, _, _ = connection.recvmsg(LENGTH.size, socket.CMSG_SPACE(MOST_FILES * 4))
    if not length:
        return {}, []
    files = array.array("i")
    for _, _, content in ancillary:
        files.frombytes(content)
    with connection.makefile("rb") as stream:
        return marshal.loads(stream.read(*LENGTH.unpack(length))), list(files)


def _become(asked: dict[str, Any], files: list[int], room: int) -> None:
    """Gives this process the session, files, folder and variables that the client would have had as a Python."""
    os.setsid()
    dying_with(os.getppid())()
    _take(dict(zip(asked["files"], files, strict=True)))
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    shown = "\0".join(f"{name}={value}" for name, value in asked["variables"].items())
    ctypes.memmove(room, os.fsencode(shown)[:ROOM_BYTES].ljust(ROOM_BYTES, b"\0"), ROOM_BYTES)
    sys.executable = asked["python"]
    sys.path[:0] = folders = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    _forget(folders)
    tempfile.tempdir = None  # asked of the variables when it is first wanted
    if "multiprocessing.spawn" in sys.modules:
        sys.modules["multiprocessing.spawn"].set_executable(asked["python"])
    sys.modules["__main__"] = ModuleType("__main__")
    sys.stdout.reconfigure(write_through=bool(os.environ.get("PYTHONUNBUFFERED")), line_buffering=os.isatty(1))
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()


def _forget(folders: list[str]) -> None:
    """What is imported already, and stands in a folder of PYTHONPATH, too: a new process would have taken that one."""
    for name in [name for name, module in sys.modules.items() if hasattr(module, "__path__") and "." not in name]:
        own = str(Path(sys.modules[name].__file__ or "").parent.parent)
        if any(folder != own and Path(folder, f"{name}.py").exists() for folder in folders):
            for part in [part for part in sys.modules if part.partition(".")[0] == name]:
                del sys.modules[part]


def _take(files: dict[int, int]) -> None:
    """Moves received files to the numbers that they have in the client."""
    import fcntl

    above = max([*files, *files.values()]) + 1
    moved = {number: fcntl.fcntl(file, fcntl.F_DUPFD, above) for number, file in files.items()}
    for file in files.values():
        os.close(file)
    for number, file in moved.items():
        os.dup2(file, number, inheritable=True)
        os.close(file)


def _run(words: list[str]) -> None:
    """Runs what `python WORDS` runs: `-c PROGRAM`, `-m MODULE` or a file, each with its own words."""
    safe_path = bool(os.environ.get("PYTHONSAFEPATH"))
    while words[0] in ("-u", "-P"):
        if words[0] == "-u":
            sys.stdout.reconfigure(write_through=True)
        safe_path |= words[0] == "-P"
        words = words[1:]
    if words[0] == "-m":
        sys.path[:0] = [] if safe_path else [str(Path.cwd())]
        run_module(words[1], words[2:])
    elif words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path.insert(0, str(Path(words[0]).parent))
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    end_after(main, sys.argv[1], sys.argv[2:])
