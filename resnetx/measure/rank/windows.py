"""What every timed run does: a first step, a warm-up until steps are steady, and windows of steps, each timed whole.

What is timed is the step and nothing else; whatever else is measured is read before the first window or after the last.
Sensors are sampled during every second window (`is_sampled`), and the others tell whether that costs anything.
"""

import ctypes
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.measure.launch import Moment, hang
from resnetx.measure.machine.readings import Readings, increase
from resnetx.measure.machine.sensors import Sensors
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.distributed import Ranks, limit_collectives
from resnetx.record import DeviceMemory, Unknown
from resnetx.request import WINDOW_S, Request
from resnetx.units import size_text

# ---- process --------------------------------------------------------------------------------------------------------
# One rank's process: how it keeps its memory, and what it used (time to start, memory, bytes from storage).


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next step, where it would give every large tensor back to the kernel.

    On a CPU, activations are freed and allocated again in every step; faulting their pages in anew cost 24 % of a step
    of ResNet/8 at batch 16, and 12 % of AlexNet's at batch 32 (one core of a Xeon, fp32). On GPUs, PyTorch has a cache.
    """
    M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # other C libraries have no such setting
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


def limit_memory(limit_bytes: int | None, device: torch.device) -> None:
    """Makes PyTorch raise its out-of-memory error where it would allocate more on this GPU; None: no limit.

    So a GPU stands for one with less memory. What others allocate (NCCL, DALI, the context) does not count.
    """
    if limit_bytes is None:
        return
    total = torch.cuda.get_device_properties(device).total_memory
    if limit_bytes > total:
        raise ConfigError(
            f"memory_limit={size_text(limit_bytes)}: this GPU has {size_text(total)}; use no more than it has"
        )
    torch.cuda.set_per_process_memory_fraction(limit_bytes / total, device)


StartUpPart = Literal["imports_s", "process_group_s", "model_s", "input_s", "first_step_s"]
_BEHIND: dict[StartUpPart, str] = {  # what begins where a part ends
    "process_group_s": "building the model",
    "model_s": "opening its input",
    "input_s": "preparing its first step",
    "first_step_s": "its warm-up",
}


class StartUpTimer:
    """Splits the time before the first window into the parts of `record.StartUp`."""

    def __init__(self, started: Moment) -> None:
        now = time.monotonic()
        hang.begin("joining the process group", believed_s=hang.UNCERTAIN_S)
        self._laps: dict[StartUpPart, float] = {"imports_s": now - started.monotonic_s}
        self._last = now

    def lap(self, name: StartUpPart) -> None:
        now = time.monotonic()
        hang.begin(_BEHIND[name])
        self._laps[name] = now - self._last
        self._last = now

    def skip(self) -> None:
        """Leaves the time since the latest lap out of every part."""
        self._last = time.monotonic()

    def parts(self, rank: int) -> record.StartUp:
        return record.StartUp(rank=rank, **self._laps)


def peak_memory_bytes(device: torch.device) -> int:
    """The most that was allocated on the GPU; on a CPU, the largest resident set."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def device_memory(device: torch.device, rank: int) -> DeviceMemory | Unknown:
    """What this rank takes of its GPU."""
    if device.type != "cuda":
        return Unknown("a CPU rank has no device beside its host")
    free, total = torch.cuda.mem_get_info(device)
    return DeviceMemory(
        rank=rank,
        allocated_bytes=torch.cuda.max_memory_allocated(device),
        reserved_bytes=torch.cuda.max_memory_reserved(device),
        used_bytes=total - free,
        total_bytes=total,
    )


def bytes_read() -> int | Unknown:
    """Bytes that this process fetched from storage so far (Linux counts them per process)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("read_bytes:")))
    except (OSError, StopIteration):
        return Unknown("this system does not count a process's reads")


# ---- windows --------------------------------------------------------------------------------------------------------

STEADY = 0.1  # a step that is not this much faster than the one before ends the warm-up
MAX_WARMUP = 4  # times the warm-up asked for
# Of a GPU, whose utilisation and power NVML averages over up to a second: what the windows show is then theirs.
SHORTEST_WARMUP_S = 2.0
LONGEST_WARMUP_S = 10.0
SETTLED = 0.02  # between two stretches of the warm-up

Step = Callable[[], None]


@dataclass(frozen=True)
class RankWindows:
    """One rank's times, and what was read of the machine around them."""

    start_up: record.StartUp
    warmup_s: list[float]  # of each step before the first window
    unsteady: str  # what to do, as the last of these were not steady; "" where they were
    windows_s: list[float]
    window_steps: int  # in each window
    readings: Readings
    peak_memory_bytes: int
    device_memory: DeviceMemory | Unknown
    reads_bytes: int | Unknown


def measure_windows(
    step: Step, note: Callable[[int], None], request: Request, ranks: Ranks, clock: StartUpTimer
) -> RankWindows:
    """This rank's times, and what was read of the machine around them.

    `note` is called with the number of windows that are over: 0 before the first, then behind each.
    """
    sensors = Sensors([ranks.device.index] if ranks.device.type == "cuda" else None, ranks.rank)  # NVML takes its time
    clock.skip()
    hang.begin_untimed("its first step", on_gpu=ranks.device.type == "cuda")
    first = timed(step, 1, ranks.device, ranks.barrier)
    hang.took(first)
    clock.lap("first_step_s")
    limit_collectives(first)
    warmup = warm_up(step, request, ranks)
    steps = window_steps(request, warmup.step_s)
    reads = bytes_read()
    if ranks.device.type == "cuda" and not request.graph:
        torch.cuda.reset_peak_memory_stats(ranks.device)
    note(0)
    windows: list[float] = []
    sensors.start()
    while len(windows) < request.windows:
        hang.begin(f"window {len(windows) + 1} of {request.windows}", is_step=True, expected_s=steps * warmup.step_s)
        with sensors.sampled() if is_sampled(len(windows), request) else nullcontext():
            windows.append(timed(step, steps, ranks.device, ranks.barrier))
        hang.took(windows[-1] / steps)
        hang.begin(f"what follows window {len(windows)}")
        note(len(windows))
    readings = sensors.stop()
    return RankWindows(
        start_up=clock.parts(ranks.rank),
        warmup_s=[first, *warmup.steps_s],
        unsteady=warmup.unsteady,
        windows_s=windows,
        window_steps=steps,
        readings=readings,
        peak_memory_bytes=peak_memory_bytes(ranks.device),
        device_memory=device_memory(ranks.device, ranks.rank),
        reads_bytes=increase(bytes_read(), reads),
    )


def is_sampled(window: int, request: Request) -> bool:
    """Whether sensors are sampled during this window, counted from 0: in every one where a locked clock has to hold."""
    return window % 2 == 1 or request.windows == 1 or request.clock is not None


@dataclass(frozen=True)
class WarmUp:
    """The steps between the first one and the first window."""

    steps_s: list[float]  # of this rank, one entry for each step
    step_s: float  # of the slowest rank, at the end
    unsteady: str  # what to do, as the last steps were faster than those before; "" where they were not


def warm_up(step: Step, request: Request, ranks: Ranks) -> WarmUp:
    """Steps until they no longer get faster; on a GPU also until its clock has settled (`_settle`).

    The first steps are slow for many reasons (allocation, kernel choice, DDP's rebuilt buckets). All ranks stop at the
    same step: each decision uses the slowest rank's times.
    """
    mine: list[float] = []
    slowest: list[float] = []
    steady, least = False, max(request.warmup, LEAST_WARMUP if request.graph else 0)
    while not steady and len(mine) + 1 < least * MAX_WARMUP:
        hang.begin(f"step {len(mine) + 2} of its warm-up", is_step=True)
        mine.append(timed(step, 1, ranks.device, ranks.barrier))
        hang.took(mine[-1])
        slowest.append(max(ranks.gather(mine[-1])))
        steady = len(mine) + 1 >= least and slowest[-1] > slowest[-2] * (1 - STEADY)
    if ranks.device.type == "cuda" and request.measure != "input":  # which no clock of a GPU decides
        return _settle(step, mine, slowest, ranks)
    return WarmUp(mine, slowest[-1], "" if steady else "raise warmup")


def _settle(step: Step, mine: list[float], slowest: list[float], ranks: Ranks) -> WarmUp:
    """More of a warm-up, in stretches like windows, until two of them agree.

    A GPU starts from an idle clock, boosts, and comes down again as it heats up and meets its power limit: a second or
    two, which is hundreds of its steps.
    """
    torch.cuda.empty_cache()  # of what cuDNN has tried kernels with, which the workload does not need
    steps_s, step_s, spent_s = [*mine], slowest[-1], sum(slowest)
    while spent_s < LONGEST_WARMUP_S:
        count = max(1, math.ceil(WINDOW_S / step_s))
        hang.begin(f"step {len(steps_s) + 2} of its warm-up", is_step=True, expected_s=count * step_s)
        mine_s = timed(step, count, ranks.device, ranks.barrier)
        steps_s += [mine_s / count] * count
        slowest_s = max(ranks.gather(mine_s))
        spent_s += slowest_s
        before_s, step_s = step_s, slowest_s / count
        if spent_s >= SHORTEST_WARMUP_S and abs(step_s / before_s - 1) <= SETTLED:
            return WarmUp(steps_s, step_s, "")
    return WarmUp(steps_s, step_s, "lock the clock of the GPU below the one that it falls to (resnetx doctor)")


def window_steps(request: Request, step_s: float) -> int:
    """Steps of each window: those that were asked for, or more where they would take less than `WINDOW_S`.

    With measure=phases they are those that were asked for: its record has the time of each.
    """
    if request.measure == "phases":
        return request.steps
    return max(request.steps, math.ceil(WINDOW_S / step_s))


# A training step as one CUDA graph: the host launches all its kernels at once, however small they are.
#
#     with own_stream(device, graphed=True):
#         compute = GraphedStep(compute, constant=False)  # is called as before, with batches that all have one shape
#
# The first calls run the step as it is; then one captures it, and from then on each copies its batch to where the graph
# reads it, and launches the graph. What is captured may not touch the default stream, which parameters would remember
# from the making of the model: so the model is made, and all steps run, on a stream of their own.
#
# Reference: PyTorch documentation, CUDA semantics, "CUDA Graphs" (whole-network capture; DistributedDataParallel).

# Steps before the capture: by then DDP has rebuilt its buckets, and has timed its first ten steps by events of its own.
STEPS_BEFORE = 11
LEAST_WARMUP = STEPS_BEFORE + 3  # steps, of which the last two are launches of the graph

ComputeFunction = Callable[[Any, Any], None]  # (images, labels): a step from its forward pass on


@contextmanager
def own_stream(device: torch.device, graphed: bool) -> Iterator[None]:
    """While it lasts, work for the device is queued on a stream other than the default one, if it is to be a graph."""
    if not graphed:
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


class GraphedStep:
    """`compute` as a graph; see above."""

    def __init__(self, compute: ComputeFunction, constant: bool) -> None:
        """`constant`: every batch is in the same tensors, which stay, so that nothing has to be copied."""
        self._compute, self._constant = compute, constant
        self._steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: tuple[Any, ...] = ()  # where the graph reads

    def __call__(self, images: Any, labels: Any) -> None:
        if self._steps < STEPS_BEFORE:
            self._steps += 1
            self._compute(images, labels)
            return
        if self._graph is None:
            self._graph = self._captured(images, labels)
        if not self._constant:
            for place, tensor in zip(self._batch, (images, labels), strict=True):
                place.copy_(tensor, non_blocking=True)
        self._graph.replay()

    def _captured(self, images: Any, labels: Any) -> torch.cuda.CUDAGraph:
        images, labels = self._batch = (images, labels) if self._constant else (images.clone(), labels.clone())
        graph = torch.cuda.CUDAGraph()
        torch.cuda.reset_peak_memory_stats()  # launches of the graph allocate nothing: the peak is that of the capture
        # thread_local: other threads, as those of an input pipeline, may go on with what a capture forbids.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._compute(images, labels)
        return graph
