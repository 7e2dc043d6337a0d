"""`resnetx.observe`: one line around a training loop of the user's own, which sees when each rank is where.

    with resnetx.observe(model, samples=64, results="mine"):
        for images, labels in loader:
            ...                       # the loop as it is: torchrun, a single process, Fabric, the HF Trainer

After WARMUP steps, in which DDP settles its buckets, `samples` steps are noted; then TRACED steps with hooks on every
layer give the trace that `predict` takes. Each rank writes its own file (`record/traces.py`); ranks exchange nothing,
so none can hang here. What cannot be is refused before the loop; later failures are warnings.
"""

import os
import traceback
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from resnetx import progress
from resnetx.errors import ConfigError, shortened
from resnetx.host import cores, node_name
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure.machine.host_facts import cpu_name
from resnetx.measure.observed_loop import EXPECTED, PIPELINES, WARMUP, Loop, Seen, Step
from resnetx.record import SCHEMA, LayerTimes, TracedLayer, Unknown, known, record_file, seal, timestamp, write
from resnetx.record.traces import Observation, ObservedBucket, Trace, TracedBatch, old_files, rank_folder, trace_folder
from resnetx.settings.files import given_path

DIGITS = 7  # of recorded seconds behind the decimal point


@contextmanager
def observe(model: nn.Module, *, samples: int = 64, results: str | os.PathLike[str] = "observed") -> Iterator[None]:
    """Observes the training loop inside a `with` block; see `resnetx explain`, which says what it shows.

    `model`: the module that the loop trains, before or after DDP wraps it, or what FSDP has wrapped. `samples`: steps
    that are noted. `results`: a folder, the same on all ranks; an earlier observation in it is replaced. A loop that is
    shorter gives what it has.
    """
    _refuse(model, samples)
    folder, (rank, ranks) = given_path(results), _place()
    loop = Loop(samples)
    begun = _begin(loop, model, rank, ranks, folder)
    try:
        yield
    finally:
        if begun:
            _end(loop, rank, ranks, folder)


def _refuse(model: object, samples: object) -> None:
    if type(model).__module__.startswith(PIPELINES):
        raise ConfigError(f"model: a {type(model).__name__} of pipeline parallelism; {EXPECTED}")
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model: a {type(model).__name__}; expected the torch.nn.Module that the loop trains")
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= 100_000:
        raise ConfigError(f"samples={samples!r}: expected steps to note, from 1 to 100,000")


def _begin(loop: Loop, model: nn.Module, rank: int, ranks: int, folder: Path) -> bool:
    """Puts hooks in their places, and removes what an earlier observation left; whether both was possible."""
    try:
        loop.begin(model)
        for path in old_files(folder, rank, ranks):
            path.unlink(missing_ok=True)
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise PermissionError(f"{there} is no folder that can be written")
    except Exception as error:
        loop.remove()
        if isinstance(error, ConfigError):
            raise
        progress.note(f"{_failed(error)}: the loop is not observed", warning=True)
        return False
    return True


def _end(loop: Loop, rank: int, ranks: int, folder: Path) -> None:
    """Removes all hooks, writes what was seen, and says so."""
    try:
        loop.remove()
        said, nothing = _write(loop, rank, ranks, folder)
    except Exception as error:
        said, nothing = f"{_failed(error)}: nothing is written", True
        loop.failed = error
    if rank == 0 or loop.failed:
        progress.note(said, warning=nothing)


def _failed(error: Exception) -> str:
    """What went wrong; of what neither the user nor a disk has done wrong, with the line of ours at which it did."""
    said = shortened(" ".join(str(error).split()))
    if isinstance(error, ConfigError | OSError):
        return f"observe: {said}"
    ours = (__file__, Loop.begin.__code__.co_filename)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in ours]
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    return f"observe: {type(error).__name__}{where}: {said}"


def _write(loop: Loop, rank: int, ranks: int, folder: Path) -> tuple[str, bool]:
    """Writes what was seen; a sentence that says so, and whether it is a warning."""
    seen = loop.steps[WARMUP : WARMUP + loop.samples]
    if loop.failed:
        return f"{_failed(loop.failed)}: nothing is written", True
    if loop.unseen:
        return f"observe: {loop.unseen}: nothing is written", True
    if not seen:
        return (
            f"observe: {len(loop.steps)} steps of a torch optimizer of the model's parameters were seen, each with a "
            f"call of the model, and the first {WARMUP} do not count: nothing is written"
        ), True
    observation = _observation(loop, seen, rank, ranks)
    traced = loop.steps[WARMUP + loop.samples + 1 :]  # the first one had its hooks for a part of it
    if rank == 0 and traced and loop.batch_size and loop.has_layers:
        write(record_file("trace", trace_folder(folder)), _trace(loop, seen, traced, folder))
    write(rank_folder(folder, rank).record, observation)
    said = f"{len(seen)} steps observed: resnetx explain {folder}"
    # Whether the device waits for each message of DDP once it is sent (see `measure/rank/distributed.py`).
    newer = (
        hasattr(torch.distributed, "ProcessGroupNCCL2") and os.environ.get(NCCL_BACKEND_VARIABLE) != FIRST_NCCL_BACKEND
    )
    if newer and loop.ddp is not None and loop.device.type == "cuda":
        return (
            f"{said}; torch's newer NCCL backend lets computing wait for each bucket, which counts as backward and "
            f"hides who is late: set {NCCL_BACKEND_VARIABLE}={FIRST_NCCL_BACKEND}, and observe again"
        ), True
    return said, False


def _place() -> tuple[int, int]:
    """This process's rank, and how many there are: also where the process group is made only inside the block."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


# ---- the record -----------------------------------------------------------------------------------------------------


def _observation(loop: Loop, steps: Sequence[Step], rank: int, ranks: int) -> Observation:
    if loop.device.type == "cuda":
        torch.cuda.synchronize(loop.device)
    seen = [loop.seen(step) for step in steps]

    def column(name: str) -> list[float]:
        return [max(0.0, round(getattr(step_seen, name), DIGITS)) for step_seen in seen]

    passes = len(steps[0].passes)
    return seal(
        Observation(
            kind="observation", schema=SCHEMA, workload=_workload(loop), strategy=loop.strategy, rank=rank,
            ranks=ranks, node=node_name(), device=_device(loop.device), sm_clock_Hz=known(_clock_Hz(loop.device)),
            clock=loop.clock.name, software=f"torch {torch.__version__}", started_at=timestamp(loop.started_s),
            batch_size=known(loop.batch_size or Unknown("no tensor is given to the model")), micro_batches=passes,
            parameters=sum(parameter.numel() for _, parameter in loop.named),
            gradient_bytes=sum(parameter.nbytes for _, parameter in loop.named),
            hooks=passes * (3 + len(loop.named)) + 2,
            update_s=column("update_s"), input_s=column("input_s"), waiting_s=column("waiting_s"),
            forward_s=column("forward_s"), backward_s=column("backward_s"), exposed_s=column("exposed_s"),
            step_s=column("step_s"), core_wait_s=_core_waits_s(steps), buckets=known(_buckets(loop, seen)), unknown={},
        )
    )  # fmt: skip


def _core_waits_s(steps: Sequence[Step]) -> list[float]:
    waits = [step.core_wait_s for step in steps]
    return [round(wait_s, DIGITS) for wait_s in waits if wait_s is not None] if None not in waits else []


def _workload(loop: Loop) -> str:
    """The class of the model, as it was before `fully_shard` made one of its own."""
    return type(loop.module).__name__.removeprefix("FSDP" if loop.strategy == "fsdp" else "")


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _clock_Hz(device: torch.device) -> float | Unknown:
    if device.type != "cuda":
        return Unknown("a CPU rank has no GPU")
    try:
        return float(torch.cuda.clock_rate(device)) * 1e6
    except Exception as error:  # NVML, which torch asks, is missing or refuses
        return Unknown(f"the driver does not say: {type(error).__name__}")


def _buckets(loop: Loop, seen: Sequence[Seen]) -> list[ObservedBucket] | Unknown:
    """When each bucket of DDP was full, if its gradients, in the order of one of its rules, fill the sizes it names."""
    if loop.ddp is None:
        return Unknown("the strategy is not DDP, which alone has buckets")
    data = loop.ddp._get_ddp_logging_data()
    rebuilt = str(data.get("rebuilt_bucket_sizes", ""))
    sizes = [int(each) for each in (rebuilt or str(data.get("bucket_sizes", ""))).split(",") if each.strip()]
    orders = [list(seen[-1].ready_s)] if rebuilt else [list(range(len(loop.named)))[::-1]]
    for order in orders:
        groups = _grouped(order, [loop.named[index][1].nbytes for index in order], sizes)
        if groups and all(set(step_seen.ready_s) >= set(order) for step_seen in seen):
            return [
                ObservedBucket(
                    size_bytes=size,
                    ready_s=[
                        max(0.0, round(max(step_seen.ready_s[index] for index in group), DIGITS)) for step_seen in seen
                    ],
                )
                for size, group in zip(sizes, groups, strict=True)
            ]
    return Unknown(
        f"the {len(loop.named)} gradients, as they come, do not fill the {len(sizes)} buckets that DDP names"
    )


def _grouped(order: Sequence[int], nbytes: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """The parameters of each bucket; [] where they do not fill them exactly."""
    groups, left = [], list(zip(order, nbytes, strict=True))
    for size in sizes:
        group, filled = [], 0
        while left and filled < size:
            index, own = left.pop(0)
            group.append(index)
            filled += own
        if filled != size:
            return []
        groups.append(group)
    return [] if left else groups


# ---- the trace ------------------------------------------------------------------------------------------------------


def _trace(loop: Loop, clean: Sequence[Step], traced: Sequence[Step], folder: Path) -> Trace:
    """Layer times for `predict`: each layer ends where the next begins, forward by its end, backward by its gradients.

    The loss, and layers without parameters, count backward to the next layer that has some. A step is taken without
    its exposed communication and waiting.
    """
    seen = [loop.seen(step) for step in traced]
    forward, backward = [_forward(loop, step) for step in traced], [_backward(loop, step) for step in traced]
    owned: dict[str, int] = defaultdict(int)
    for name, parameter in loop.named:
        owned[_layer(name)] += parameter.nbytes
    names = list(dict.fromkeys([*(name for times_s in forward for name in times_s), *owned]))

    def own_s(step: Seen) -> float:
        return step.step_s - step.exposed_s - step.waiting_s

    times = LayerTimes(
        clock=loop.clock.name,
        layers=[
            TracedLayer(
                name=name,
                forward_s=[round(times_s.get(name, 0.0), 8) for times_s in forward],
                backward_s=[round(times_s.get(name, 0.0), 8) for times_s in backward],
                communication_s=[],
                gradient_bytes=owned.get(name, 0),
            )
            for name in names
        ],
        input_s=[step_seen.input_s for step_seen in seen],
        input_wait_s=[step_seen.input_s for step_seen in seen],
        host_to_device_s=[0.0 for _ in seen],
        update_s=[step_seen.update_s for step_seen in seen],
        step_s=[own_s(step_seen) for step_seen in seen],
        clean_step_s=[own_s(loop.seen(step)) for step in clean],
        device_busy=known(Unknown("observed in the user's loop, without a profiler")),
        host_bound=False if loop.device.type == "cpu" else known(Unknown("observed without a profiler")),
        host_s=known(Unknown("observed in the user's loop: the host is not timed by itself")),
        gradient_copy_Bps=known(Unknown("observed in the user's loop: not measured")),
    )
    cuda = loop.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(loop.device) if cuda else Unknown("not asked of a CPU rank")
    return seal(
        Trace(
            kind="trace", schema=SCHEMA, how="measured", source=str(folder), workload=_workload(loop),
            request=known(Unknown("observed in a loop of the user's")), device=_device(loop.device), cpu=cpu_name(),
            cpus=cores(), sm_clock_Hz=known(_clock_Hz(loop.device)), software=f"torch {torch.__version__}",
            measured_at=timestamp(loop.started_s),
            batches=[TracedBatch(batch_size=loop.batch_size, times=times, peak_memory_bytes=known(peak))],
            communication=[], unknown={}, node=node_name(),
        )
    )  # fmt: skip


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter


def _forward(loop: Loop, step: Step) -> dict[str, float]:
    summed: dict[str, float] = defaultdict(float)
    for model_pass in step.passes:
        before = model_pass.begin
        for name, at in model_pass.layers:
            summed[name] += loop.clock.seconds(before, at)
            before = at
    return summed


def _backward(loop: Loop, step: Step) -> dict[str, float]:
    summed: dict[str, float] = defaultdict(float)
    for model_pass in step.passes:
        before = model_pass.end
        for index, at in model_pass.ready:
            summed[_layer(loop.named[index][0])] += loop.clock.seconds(before, at)
            before = at
    return summed
