"""How long tests wait for what a machine with time to spare does at once; a crowded one needs 20 times as long."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 600.0
PAUSE_S = 0.05


def until(holds: Callable[[], T], what: str | Callable[[], str], patience_s: float = PATIENCE_S) -> T:
    """The first true value of `holds`; fails with `what` did not happen, or what it then says."""
    end = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < end, what() if callable(what) else f"{what} did not happen in {patience_s:g} s"
        time.sleep(PAUSE_S)
    return found
