# ruff: noqa: PTH100, PTH109, PTH118, PTH120, PTH208
"""Stands where a test has Python or one of its programs (`bin/python`, `bin/torchrun`).

A fork of `server.py` runs what this is asked to run. This process has the program's place among processes: it passes
signals on, and ends as the program ends. It imports what is built in: json, signal and socket would take twice as long
as all the rest, and there are several of these to each run of a test.
"""

import _signal as signal
import _socket as socket
import array
import marshal
import os
import select
import struct
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
PROGRAMS = {  # by the name of this file: the words that Python has before those of this process
    "python": [],
    "pytest": ["-m", "pytest"],
    "resnetx": ["-m", "resnetx"],
    "torchrun": ["-m", "torch.distributed.run"],
}


AFRESH = {"RESNETX_RUN_AFRESH": ""}  # runs are not forked in the product's own way, too


def main() -> int:
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    files = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number, connection.fileno())]
    connection.connect(os.path.join(os.path.dirname(folder), "socket"))
    asked = {
        "words": [*PROGRAMS[name], *sys.argv[1:]],
        "python": os.path.join(folder, "python"),
        "folder": os.getcwd(),
        "variables": dict(os.environ) | AFRESH,
        "files": files,
    }
    content = marshal.dumps(asked)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: connection.send(bytes([number])))
    passed = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files)
    connection.sendmsg([struct.pack("!I", len(content))], [passed])
    connection.sendall(content)
    for number in files:  # else who reads from the program would wait for this process, too
        if number > 2:
            os.close(number)
    if (started_by := os.getppid()) == 1:  # who started this was killed before that could be seen
        return 1
    parent = os.pidfd_open(started_by)
    while connection not in (ready := select.select([connection, parent], [], [])[0]):
        if ready:
            return 1  # the server kills the program, as the kernel kills a rank whose torchrun has died
    answer = connection.recv(4, socket.MSG_WAITALL)
    return struct.unpack("!i", answer)[0] if answer else 1  # none: the attendant was killed


def _is_open(number: int, own: int) -> bool:
    """Whether a file is one that this process was started with."""
    try:
        return number != own and os.get_inheritable(number)
    except OSError:  # the one that listed them
        return False


def end(status: int) -> None:
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    end(main())
