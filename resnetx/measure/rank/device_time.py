"""Work timed on the device: how long a GPU takes for what is queued on its stream, without the host's time to queue it.

    seconds = timed_on_device(copy, 20, device)

    stream   [ sleeping kernel ............. ][ work ][begin][ work ][ work ] ... [ work ][end]
    host       queues all of it ... done: does the kernel still sleep?

A kernel that sleeps holds the stream back while the host queues the work, which then runs without gaps. An event behind
that kernel tells whether it still slept when the host was done; where it did not, the work is queued once more behind
a sleep that is twice as long. With several ranks all streams are held back, and all ranks repeat where one has to. The
first call of the work is not timed: in it the kernels of the ranks meet, so that none waits within the timed ones.

nccl-tests, too, times a queue of operations and divides (`BenchTime` in its src/common.cu), from the host's side.
"""

from collections.abc import Callable
from typing import TypeVar

import torch

from resnetx.inputs import nothing
from resnetx.measure.rank.clock import timed
from resnetx.record import Unknown

T = TypeVar("T")

FIRST_CYCLES, MOST_CYCLES = 2**21, 2**30  # of the sleeping kernel: from 1 ms to 0.5 s at 2 GHz
# Launches that a queue should hold at most: beyond about 1,000 that wait, a launch waits for the device
# (https://stackoverflow.com/questions/53970187), so that no sleep is long enough. A collective takes a few.
MOST_LAUNCHES = 500
TOO_SLOW = "the host takes longer to queue it than the device can be held back, or waits for the device in it"


def timed_on_device(
    work: Callable[[], object],
    repeats: int,
    device: torch.device,
    everywhere: Callable[[bool], bool] = bool,
) -> float | Unknown:
    """Seconds that the device needs for `repeats` calls of `work`, queued one behind the other; on CPUs, `timed`.

    `everywhere`: of several ranks, as `held_back` has it. `work` waits for no device.
    """
    if device.type != "cuda":
        return timed(work, repeats, device, nothing)

    def queue() -> tuple[torch.cuda.Event, torch.cuda.Event]:
        work()
        begin = mark()
        for _ in range(repeats):
            work()
        return begin, mark()

    marks = held_back(queue, device, everywhere)
    return marks if isinstance(marks, Unknown) else seconds_between(*marks)


def held_back(queue: Callable[[], T], device: torch.device, everywhere: Callable[[bool], bool] = bool) -> T | Unknown:
    """What `queue` returns, called while the stream of this (current) device is held back; all of it has then run.

    `everywhere`: whether something is so on all ranks, asked of each of them at the same place.
    """
    hold = Hold(device)
    while True:
        hold.begin()
        queued = queue()
        in_time = hold.lasts()
        torch.cuda.synchronize(device)
        if everywhere(in_time):
            return queued
        if not hold.lengthen():
            return Unknown(TOO_SLOW)


class Hold:
    """Holds the current stream of a device back while the host queues a stretch of work, as often as it is asked to."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cycles = FIRST_CYCLES

    def begin(self) -> None:
        """Waits until the device is done with all that is queued, and then holds it back."""
        torch.cuda.synchronize(self._device)
        torch.cuda._sleep(self._cycles)
        self._awake = mark()

    def lasts(self) -> bool:
        """Whether the device is still held back: then it runs what has been queued since `begin` without gaps."""
        return not self._awake.query()

    def lengthen(self) -> bool:
        """From now on it holds twice as long; False where that is too long."""
        if 2 * self._cycles > MOST_CYCLES:
            return False
        self._cycles *= 2
        return True


def mark() -> torch.cuda.Event:
    """The moment at which the current stream gets here."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_between(begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Once both have happened."""
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1e3
