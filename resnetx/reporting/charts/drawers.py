"""Processes that draw for large pages: they start while records are read, and draw side by side, which vl-convert in
one process does not.

    with Drawers(2) as drawers:
        ...
        drawers.convert("vegalite_to_svg", specification)

Each runs this file, which imports vl-convert and nothing of resnetx.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

Convert = Callable[[str, Any], bytes]  # a function of vl-convert by name, and what it gets


def convert(function: str, given: Any) -> bytes:
    """What vl-convert makes of it, in this process. Raises ValueError for what cannot be drawn."""
    import vl_convert

    made: str | bytes = getattr(vl_convert, function)(given)
    return made.encode() if isinstance(made, str) else made


class Drawers:
    """Some processes, and as many threads, in which pages wait for them."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-P", __file__]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing) for _ in range(count)]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self.threads = ThreadPoolExecutor(max_workers=count)

    def convert(self, function: str, given: Any) -> bytes:
        """As `convert`, in the first process that is idle; in this one, if that has ended."""
        process = self._idle.get()
        try:
            assert process.stdin and process.stdout, "pipes"
            process.stdin.write(json.dumps([function, given]).encode() + b"\n")
            process.stdin.flush()
            made, size = process.stdout.readline().split() or [b"ended", b"0"]
            answer = process.stdout.read(int(size))
        except OSError:
            made = b"ended"
        finally:
            self._idle.put(process)
        if made == b"ended":
            return convert(function, given)
        if made == b"error":
            raise ValueError(answer.decode())
        return answer

    def __enter__(self) -> "Drawers":
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.kill()
            process.communicate()


def _serve() -> None:
    """Draws what comes in, a line each, until no more does."""
    convert("vegalite_to_svg", {"data": {"values": [{}]}, "mark": "point"})  # loads all that drawing takes
    for line in sys.stdin.buffer:
        try:
            made, answer = b"made", convert(*json.loads(line))
        except ValueError as error:
            made, answer = b"error", str(error).encode()
        sys.stdout.buffer.write(b"%s %d\n" % (made, len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
