"""The device of a rank: which one it is, and how records describe it."""

import json
import math
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from resnetx.errors import ConfigError
from resnetx.host import cpus_text, node_name
from resnetx.inputs import BESIDE_TORCH, nothing
from resnetx.measure.launch import local_rank, rank, ranks_here, world_size
from resnetx.measure.machine.nvidia import full_uuid, gpus_here, hidden_by_mistake
from resnetx.packages import hip_version, install, rocm_torch
from resnetx.record import Copies, Device, Unknown, known, of_known

# ---- capability -----------------------------------------------------------------------------------------------------
# What a GPU's generation can run: kernels that torch was built for, and precisions that its units have.
#
# NVIDIA numbers its generations: a kernel for 8.0 runs on 8.0 and 8.6, not on 9.0, and from PTX the driver compiles for
# every later generation. bf16 and TF32 came with Ampere (8.0). AMD names its chips ("gfx942"), and a kernel runs on the
# chip that it is for; bf16 came with MI100 (gfx908) to those of servers, with RDNA 3 (gfx11) to the others.
#
# References: CUDA C++ Programming Guide, "Compute Capabilities" and "Application Compatibility"; ROCm documentation,
# "Data types and precision support"; LLVM, User Guide for AMDGPU Backend (processors).

AMPERE = (8, 0)
_WITHOUT_BF16 = re.compile(r"gfx([678]|10)\d\d\w?|gfx90[0-79c]")  # up to MI60 and to RDNA 2

Capability = tuple[int, int]
Chip = Capability | str  # (9, 0) of NVIDIA, "gfx942" of AMD


def chip_from(text: str) -> Chip:
    """(7, 0) of NVML's "7.0"; AMD's names as they are."""
    if text.startswith("gfx"):
        return text
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def chip_of(device: torch.device) -> Chip:
    """The chip of a GPU that torch sees."""
    if hip_version() is None:
        return torch.cuda.get_device_capability(device)
    properties: Any = torch.cuda.get_device_properties(device)
    return _amd_name(properties.gcnArchName)


def _amd_name(architecture: str) -> str:
    """ "gfx90a" of "gfx90a:sramecc+:xnack-", whose features torch is not built for one by one."""
    return architecture.partition(":")[0]


def built_for(chip: Chip, arch_list: Iterable[str]) -> bool:
    """Whether a torch of this `torch.cuda.get_arch_list()` has kernels that the GPU can run; True where it has no list.

    A torch without CUDA has none. AMD's "generic" kernels run on several chips, which are left to it.
    """
    archs = list(arch_list)
    if isinstance(chip, str):
        names = {_amd_name(name) for name in archs}
        return not names or chip in names or any("generic" in name for name in names)
    known = [(kind, int(major), int(minor)) for kind, major, minor in map(_arch, archs) if kind]
    return not known or any(
        (kind == "sm" and major == chip[0] and minor <= chip[1]) or (kind == "compute" and (major, minor) <= chip)
        for kind, major, minor in known
    )


def _arch(name: str) -> tuple[str, str, str]:
    """ "sm_86" is ("sm", "8", "6"), "sm_120" is ("sm", "12", "0"); what is neither sm_ nor compute_ has no kind."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name)
    return (match[1], match[2], match[3]) if match else ("", "", "")


def unfit(name: str, chip: Chip) -> str:
    """Why this torch cannot run on a GPU, in one sentence; "" where it can."""
    archs = torch.cuda.get_arch_list() or _built_archs()
    if built_for(chip, archs):
        return ""
    if isinstance(chip, str):
        names = ", ".join(sorted({_amd_name(arch) for arch in archs}))
        return (
            f"{name} is {chip}, and torch {torch.__version__} has kernels for {names}: install a torch for "
            f"it ({better_torch(chip)})"
        )
    generations = sorted({(int(major), int(minor)) for kind, major, minor in map(_arch, archs) if kind})
    least = ".".join(map(str, generations[0]))
    return (
        f"{name} has compute capability {chip[0]}.{chip[1]}, and torch {torch.__version__} has kernels "
        f"from {least} on: install an older torch ({better_torch(chip)})"
    )


def better_torch(chip: Chip) -> str:
    """The command that installs a torch with kernels for a GPU for which this one has none."""
    return rocm_torch() if isinstance(chip, str) else install("cuda12")


def _built_archs() -> list[str]:
    """What torch was built for, where it sees no GPU: then its own list is empty."""
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda or hip_version() else None
    return (flags or "").split()


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses a precision that a GPU's generation has no units for: it would be emulated, or be another one."""
    chip, name = chip_of(device), torch.cuda.get_device_name(device)
    if isinstance(chip, str):
        if precision == "bf16" and _WITHOUT_BF16.fullmatch(chip):
            raise ConfigError(
                f"precision=bf16: {name} ({chip}) does not support it (MI100 and RDNA 3 or newer do); use "
                "precision=fp32 or fp16"
            )
    elif precision in ("tf32", "bf16") and chip < AMPERE:
        raise ConfigError(
            f"precision={precision}: {name} (compute capability {chip[0]}.{chip[1]}) is older than Ampere (8.0), which "
            "brought it; use precision=fp32 or fp16"
        )


def check_kernels(device: torch.device) -> None:
    """Refuses a GPU for which this torch has no kernels."""
    if why := unfit(torch.cuda.get_device_name(device), chip_of(device)):
        raise ConfigError(why)


# ---- device ---------------------------------------------------------------------------------------------------------


def choose_device(devices: list[int] | None, oversubscribe: bool = False) -> torch.device:
    """The device of this rank: `devices[local rank]`, or the local rank's own; CPU where no GPU is.

    `oversubscribe`: where ranks are more than GPUs, the GPUs are dealt out in turn.
    """
    if not torch.cuda.is_available():
        if mistake := hidden_by_mistake():
            raise ConfigError(mistake)
        if present := gpus_here():
            build = "ROCm" if hip_version() else f"CUDA {torch.version.cuda}"
            raise ConfigError(
                f"this machine has {present} GPUs that torch {torch.__version__} cannot use (a driver too old for "
                f"{build}, no right to open them, or a build without CUDA): see `resnetx doctor`; to use CPUs all the "
                "same, set CUDA_VISIBLE_DEVICES=-1"
            )
        return torch.device("cpu")
    present = torch.cuda.device_count()
    chosen = (devices or list(range(ranks_here())))[local_rank()]
    if oversubscribe and devices is None:
        chosen %= present
    if chosen >= present:
        raise ConfigError(
            f"gpus={world_size()}: rank {rank()} needs GPU {chosen} of {node_name()}, which shows {present}; "
            "lower gpus, or change devices"
        )
    device = torch.device("cuda", chosen)
    check_kernels(device)
    return device


def describe_device(device: torch.device) -> Device:
    """Where this rank runs, as its record has it once it is sealed."""
    cpus = known(cpus_text() or Unknown("this system does not tell"))
    here: dict[str, Any] = {"rank": rank(), "node": node_name(), "cpus": cpus}
    if device.type != "cuda":
        no_gpu = known(Unknown("a CPU rank has no GPU"))
        return Device(**here, index=local_rank(), name="CPU", uuid=no_gpu, pci_bus_id=no_gpu)
    properties = torch.cuda.get_device_properties(device)
    address = pci_address(device)
    bus = f"0000{address}" if address else Unknown(f"torch {torch.__version__} does not tell it")  # as NVML writes it
    uuid = Unknown("HIP's UUIDs are not those of AMD SMI") if hip_version() else full_uuid(str(properties.uuid))
    return Device(**here, index=device.index, name=properties.name, uuid=known(uuid), pci_bus_id=known(bus))


def pci_address(device: torch.device) -> str:
    """The PCI address of a GPU, as the kernel writes it; "" where torch does not tell."""
    properties: Any = torch.cuda.get_device_properties(device)
    try:
        return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:  # torch 2.7
        return ""


# The measured interval: synchronise, start, work, synchronise, stop.


def timed(work: Callable[[], object], repeats: int, device: torch.device, barrier: Callable[[], None]) -> float:
    """Seconds that this rank needs for `repeats` calls of `work`, all ranks starting together."""
    _synchronize(device)
    barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    _synchronize(device)
    return time.perf_counter() - start


def timed_with_cpu(
    work: Callable[[], object], device: torch.device, barrier: Callable[[], None]
) -> tuple[float, float]:
    """Seconds that this rank needs for one call of `work`, and the CPU seconds that all its threads spend on it."""
    _synchronize(device)
    barrier()
    cpu = time.process_time()
    start = time.perf_counter()
    work()
    _synchronize(device)
    stop = time.perf_counter()
    return stop - start, time.process_time() - cpu


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Work timed on the device: how long a GPU takes for what is queued on its stream, without the host's time to queue it.
#
#     seconds = timed_on_device(copy, 20, device)
#
#     stream   [ sleeping kernel ............. ][ work ][begin][ work ][ work ] ... [ work ][end]
#     host       queues all of it ... done: does the kernel still sleep?
#
# A kernel that sleeps holds the stream back while the host queues the work, which then runs without gaps. An event
# behind that kernel tells whether it still slept when the host was done; where it did not, the work is queued once more
# behind a sleep that is twice as long. With several ranks all streams are held back, and all ranks repeat where one has
# to. The first call of the work is not timed: in it the kernels of the ranks meet, so that none waits within the timed
# ones.
#
# nccl-tests, too, times a queue of operations and divides (`BenchTime` in its src/common.cu), from the host's side.

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


# Memory copies of a step, by direction: those of every library and stream, as the CUDA profiler sees them. Where it
# sees nothing (no CUPTI, another profiler, no right to profile), torch's operators tell which copies they ask for.

Direction = Literal["host_to_device", "device_to_host", "device_to_device"]


@dataclass
class Copied:
    """What one rank copies in one direction per step."""

    calls: float = 0.0
    size_bytes: float = 0.0
    seconds: float = 0.0


@dataclass
class RankCopies:
    """What one rank copies per step; `beside_torch`: what its input copies to the device that no operator shows."""

    counted_by: Literal["profiler", "operators"]
    host_to_device: Copied = field(default_factory=Copied)
    device_to_host: Copied = field(default_factory=Copied)
    device_to_device: Copied = field(default_factory=Copied)
    beside_torch: int | Unknown = 0


def per_step(events: Iterable[Mapping[str, Any]], steps: int) -> RankCopies | Unknown:
    """The copies among the events of a Chrome trace of so many steps.

    Those of ROCm's profiler are not always named like CUDA's, nor told with their bytes.
    """
    copies = RankCopies("profiler")
    directions = {"HtoD": copies.host_to_device, "DtoH": copies.device_to_host, "DtoD": copies.device_to_device}
    for event in events:
        if event.get("cat") != "gpu_memcpy":
            continue
        words = event["name"].split()  # "Memcpy HtoD (Pinned -> Device)"
        if words[0] != "Memcpy" or "bytes" not in event["args"]:
            return Unknown(f"the profiler does not say what {event['name']!r} copies")
        if copied := directions.get(words[1]):
            copied.calls += 1 / steps
            copied.size_bytes += event["args"]["bytes"] / steps
            copied.seconds += event["dur"] * 1e-6 / steps  # the trace has microseconds
    return copies


class CopyCounter(TorchDispatchMode):
    """The copies that torch's operators ask for while it is entered, in this thread and in those that join in.

    A copy within the device counts where torch moves bytes as they are (aten/src/ATen/native/cuda/Copy.cu); one that
    changes types or the order is a kernel.
    """

    _counting: "ClassVar[CopyCounter | None]" = None

    def __init__(self, copies: RankCopies) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies = copies

    def __enter__(self) -> "CopyCounter":
        CopyCounter._counting = CopyCounter._counting or self
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if CopyCounter._counting is self:
            CopyCounter._counting = None

    @classmethod
    def joined(cls) -> "AbstractContextManager[object]":
        """In another thread: counts for the one that counts now, if any does."""
        return nullcontext() if cls._counting is None else CopyCounter(cls._counting.copies)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.name().partition(".")[0]
        if name in ("aten::_to_copy", "aten::clone"):
            self._count(args[0], result)
        elif name == "aten::copy_":
            self._count(args[1], args[0])
        elif name in ("c10d::gather_", "c10d::scatter_"):  # the root copies its own part (torch/csrc/cuda/nccl.cpp)
            of_all, own = args[:2] if name == "c10d::gather_" else args[1::-1]
            if of_all and own[0].is_cuda:
                self._note("device_to_device", own[0].nbytes)
        elif name == "aten::_foreach_copy_":
            for target, source in zip(args[0], args[1], strict=True):
                if target.device != source.device:  # within a device one kernel copies all of them
                    self._count(source, target)
        elif name == "aten::_local_scalar_dense" and args[0].is_cuda:  # `item`
            self._note("device_to_host", args[0].nbytes)
        return result

    def _count(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Where types differ, the source's device converts first, so that what travels is the target's."""
        if source.is_cuda and target.is_cuda:
            alike = source.dtype == target.dtype and source.shape == target.shape
            if alike and source.stride() == target.stride() and _is_dense(target):
                self._note("device_to_device", target.nbytes)
        elif source.is_cuda or target.is_cuda:
            self._note("host_to_device" if target.is_cuda else "device_to_host", target.nbytes)

    def _note(self, direction: Direction, size_bytes: int) -> None:
        copied: Copied = getattr(self.copies, direction)
        with _COUNTING:
            copied.calls += 1
            copied.size_bytes += size_bytes


_COUNTING = threading.Lock()
_is_dense: Callable[[torch.Tensor], bool] = torch.ops.aten.is_non_overlapping_and_dense.default


def summed(every: Sequence[RankCopies]) -> Copies:
    """The copies of all ranks together."""
    by_operators = any(rank.counted_by == "operators" for rank in every)

    def total(direction: Direction, what: str) -> float:
        return math.fsum(getattr(getattr(rank, direction), what) for rank in every)

    found: dict[str, Any] = {"counted_by": "operators" if by_operators else "profiler"}
    for direction in get_args(Direction):
        found[f"{direction}_bytes"] = round(total(direction, "size_bytes"))
        found[f"{direction}_calls"] = round(total(direction, "calls"))
        untimed = Unknown("only the CUDA profiler times copies") if by_operators else None
        found[f"{direction}_s"] = untimed or total(direction, "seconds")
    if by_operators:  # which do not show what inputs copy beside torch
        beside = of_known(lambda *counts: sum(counts), *(rank.beside_torch for rank in every))
        found["host_to_device_bytes"] = of_known(lambda size: found["host_to_device_bytes"] + size, beside)
        if beside:
            found["host_to_device_calls"] = of_known(lambda _: Unknown(BESIDE_TORCH), beside)
    return Copies(**found)


# What a device does during a step, as the CUDA profiler sees it: kernels of every library and stream.

STEPS = 3  # that are profiled, behind the windows: profiling slows a step down


def device_events(step: Callable[[], None], device: torch.device) -> list[dict[str, Any]]:
    """The events of `STEPS` steps on a CUDA device, as a Chrome trace has them: durations in microseconds."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        found: list[dict[str, Any]] = json.loads(trace.read_bytes())["traceEvents"]
    return found


@dataclass(frozen=True)
class Profiled:
    """What the device of one rank does in a step."""

    copies: RankCopies | Unknown
    kernels_s: float | Unknown  # in which at least one kernel runs


def profiled(step: Callable[[], None], device: torch.device, beside_torch: int | Unknown) -> Profiled:
    """This rank's copies and kernels per step; runs a few steps, so all ranks call it.

    `beside_torch`: bytes that its input copies to the device in each step without torch (`inputs.Batches`).
    """
    if device.type != "cuda":
        return Profiled(Unknown("a CPU rank copies nothing to a device: it has none"), _NO_DEVICE)
    events = device_events(step, device)
    kernels = _kernels_s(events)
    with CopyCounter(RankCopies("operators", beside_torch=beside_torch)) as counter:  # one more, on all ranks alike
        step()
    copies = kernels if isinstance(kernels, Unknown) else per_step(events, STEPS)
    return Profiled(counter.copies if isinstance(copies, Unknown) else copies, kernels)


def kernels_s(step: Callable[[], None], device: torch.device) -> float | Unknown:
    """Seconds of a step in which at least one kernel runs on the device."""
    return _kernels_s(device_events(step, device)) if device.type == "cuda" else _NO_DEVICE


_NO_DEVICE = Unknown("a CPU rank has no device beside its host")


def _kernels_s(events: Iterable[Mapping[str, Any]]) -> float | Unknown:
    # Another profiler is attached, or nobody may profile here.
    return covered_s(events) / STEPS or Unknown("the profiler saw no kernel")


def covered_s(events: Iterable[Mapping[str, Any]]) -> float:
    """Seconds in which at least one kernel among the events of a Chrome trace runs."""
    kernels = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "kernel")
    covered, until = 0.0, float("-inf")
    for begin, end in kernels:
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered * 1e-6
