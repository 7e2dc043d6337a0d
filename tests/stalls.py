"""How much of a time this machine's cores stood still, as those of a crowded host's virtual machine do."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

NAP_S = 0.001
LATE_S = 0.005  # a nap that ends later than this was not kept waiting by what else runs: nothing goes before it
TOO_MUCH = 0.02  # of the time; above, what was timed says nothing of what was tested


@dataclass
class Stalls:
    """Of the time in which it was watched."""

    share: float = 0.0

    @property
    def reason(self) -> str:
        """Why a time is not judged; "" where it may be."""
        return f"this machine stood still for {self.share:.0%} of the time" if self.share > TOO_MUCH else ""


@contextmanager
def watched() -> Iterator[Stalls]:
    """Counts by naps of a thread that goes before all others."""
    found, ended = Stalls(), threading.Event()

    def watch() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
        except OSError:  # not allowed: load would count as stalls, so that nothing is said
            return
        began_s, late_s = time.monotonic(), 0.0
        while not ended.is_set():
            slept_s = time.monotonic()
            time.sleep(NAP_S)
            by_s = time.monotonic() - slept_s - NAP_S
            late_s += by_s if by_s > LATE_S else 0.0
        found.share = late_s / (time.monotonic() - began_s)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
