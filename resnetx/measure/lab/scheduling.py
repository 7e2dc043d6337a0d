"""Real-time scheduling of ranks in the lab: several of them share each core, and what sends goes before what computes.

The default scheduler lets a thread that has something to send wait for others' turns, by milliseconds; a link of the
lab, which is slow, would idle meanwhile. Under SCHED_RR a thread that wakes up with a higher priority runs at once.

Not for copies between pairs: gloo's thread polls while data waits for a receive that is not posted, and at a higher
priority it would keep the thread that posts it from the core for ever. Copies run one at a time, and need no priority.

Reference: sched(7).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMPUTING, SENDING = 10, 20  # priorities, of 1 to 99


@contextmanager
def sending_first() -> Iterator[None]:
    """This thread, and those that it starts from now on, compute; those that it starts within the block send."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(COMPUTING))
    before = _threads()
    yield
    for thread in _threads() - before:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(SENDING))


def _threads() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}
