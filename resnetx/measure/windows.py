"""What every timed run does: a first step, a warm-up until steps are steady, and windows of steps, each timed whole.

What is timed is the step and nothing else; whatever else is measured (sensors, memory) is read before the first window
or after the last.
"""

from collections.abc import Callable
from typing import Any

import torch

from resnetx.config import Request
from resnetx.measure.clock import timed
from resnetx.measure.distributed import Ranks
from resnetx.measure.process import StartUp, bytes_read, difference, peak_memory_bytes
from resnetx.measure.sensors import Sensors

STEADY = 0.1  # a step that is not this much faster than the one before ends the warm-up
MAX_WARMUP = 4  # times the warm-up asked for

Step = Callable[[], None]


def measure_windows(
    step: Step, note: Callable[[int], None], request: Request, ranks: Ranks, clock: StartUp
) -> dict[str, Any]:
    """This rank's times, and what was read of the machine around them.

    `note` is called with the number of windows that are over: 0 before the first, then behind each.
    """
    first = timed(step, 1, ranks.device, ranks.barrier)
    clock.lap("first_step_s")
    warmup = [first, *warm_up(step, request, ranks)]
    sensors = Sensors([ranks.device.index] if ranks.device.type == "cuda" else None, ranks.rank)
    reads = bytes_read()
    if ranks.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(ranks.device)  # cuDNN's trials of the warm-up are no need of the workload
    note(0)
    windows: list[float] = []
    sensors.start()
    while len(windows) < request.windows:
        windows.append(timed(step, request.steps, ranks.device, ranks.barrier))
        note(len(windows))
    readings = sensors.stop()
    return {
        "start_up": clock.parts(ranks.rank),
        "warmup_s": warmup,
        "windows_s": windows,
        **readings,
        "peak_memory_bytes": peak_memory_bytes(ranks.device),
        "reads_bytes": difference(bytes_read(), reads),
    }


def warm_up(step: Step, request: Request, ranks: Ranks) -> list[float]:
    """Seconds of the steps after the first one, until steps no longer get faster.

    The first steps are slow for many reasons (allocation, kernel choice, DDP's rebuilt buckets). All ranks stop at the
    same step: each decision uses the slowest rank's times.
    """
    mine: list[float] = []
    slowest: list[float] = []
    while len(mine) + 1 < request.warmup * MAX_WARMUP:
        mine.append(timed(step, 1, ranks.device, ranks.barrier))
        slowest.append(max(ranks.gather(mine[-1])))
        if len(mine) + 1 >= request.warmup and slowest[-1] > slowest[-2] * (1 - STEADY):
            break
    return mine
