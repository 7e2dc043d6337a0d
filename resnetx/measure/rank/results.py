"""What a run that went well hands to its record, put together by rank 0 from what all ranks have seen."""

import math
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from resnetx.formats.logs import network_ends, ring_steps
from resnetx.inputs import Batches
from resnetx.launching import AUTO, Way
from resnetx.measure.launch import ending, lab_network, on_one_node
from resnetx.measure.machine.readings import NOT_LOCKED, clock_readings, clock_warnings, locked_clock, sensor_warnings
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import Profiled, RankCopies, summed
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.phases import Instrumented, StepParts
from resnetx.measure.rank.windows import RankWindows, is_sampled
from resnetx.record import (
    Copies,
    DeviceMemory,
    Equality,
    GpuSamples,
    GradientBucket,
    HostLoad,
    InputState,
    LayerTimes,
    LinkCounters,
    LockedClock,
    NicUse,
    Phases,
    StartUp,
    Transport,
    Unknown,
    Warning,
    if_known,
    known,
)
from resnetx.request import Request

# How ranks exchanged data, as a record has it: what was asked for, what was used, and what shows it.
#
# gloo sends over TCP only. NCCL names each connection in its log (`ending`); one that is not what was asked for is a
# warning, and so is a log that names none. Between nodes it also names the network card at each end.


def none(why: str, way: Way = AUTO) -> Transport:
    """The transport of a run that sends no gradients."""
    return Transport(requested=way.transport, used=known(Unknown(why)), evidence=[], nics=known(Unknown(why)))


def over_sockets(way: Way = AUTO) -> Transport:
    """The transport of gloo."""
    no_nics = known(Unknown("gloo does not say by which network card it sends"))
    if network := lab_network():
        return Transport(requested=network.system, used=["socket"], evidence=network.describe(), nics=no_nics)
    loopback = distributed.loopback() if on_one_node() else None
    interface = way.interface or os.environ.get("GLOO_SOCKET_IFNAME") or loopback or "the interface of the host name"
    evidence = [f"gloo sends over TCP only; {interface}"]
    return Transport(requested=way.transport, used=["socket"], evidence=evidence, nics=no_nics)


def used(ranks: Ranks, logs: list[str]) -> Transport:
    """How several ranks exchange gradients, with the evidence for it; `logs` are the NCCL logs of all ranks."""
    if distributed.backend(ranks.device) == "gloo":
        return over_sockets(ranks.way)
    lines = ending.channel_lines("\n".join(logs))
    if not lines:
        return none(f"{distributed.backend(ranks.device).upper()}'s log names no connections", ranks.way)
    used = sorted({via for via, _ in lines})
    evidence = [line for _, line in lines]
    return Transport(requested=ranks.way.transport, used=used, evidence=evidence, nics=known(nics(logs)))


def nics(logs: Sequence[str]) -> list[NicUse] | Unknown:
    """The card at each end of every connection between nodes; `logs`: NCCL's, by rank."""
    if on_one_node():
        return Unknown("all ranks are on one node")
    rings = {step for log in logs for step in ring_steps(log)}
    found = [
        NicUse(
            channel=network_end.channel,
            connection=network_end.connection,
            ring=network_end.connection == 0 and (network_end.channel, network_end.source, network_end.target) in rings,
            source=network_end.source,
            target=network_end.target,
            end=network_end.end,
            network=network_end.network,
            nic=network_end.card,
            name=known(network_end.name or Unknown(f"NCCL's log does not name the cards of {network_end.network}")),
            gpudirect=network_end.gpudirect,
            driver=rank if network_end.proxy is None else network_end.proxy,
        )
        for rank, log in enumerate(logs)
        for network_end in network_ends(log)
    ]
    return found or Unknown("NCCL's log names no connection between nodes")


def unlike_gpudirect(found: Transport, way: Way) -> list[Warning]:
    """A warning where network cards reach GPU memory and were not to, or the other way round."""
    ends = if_known(found.nics)
    if way.gpudirect is None or ends is None:
        return []
    other = sum(end.gpudirect != way.gpudirect for end in ends)
    if not other:
        return []
    word = way.words[-1]
    message = f"{word} was asked for, and {other} of {len(ends)} ends of connections between nodes are otherwise"
    remedy = "see `transport.nics` in the record" + "; nvidia-peermem or DMA-BUF lets cards in" * way.gpudirect
    return [Warning(code="gpudirect", message=message, remedy=remedy)]


def warnings(found: Transport, way: Way) -> list[Warning]:
    """What data travelled by that was not asked for, or that nobody knows what it travelled by."""
    used = if_known(found.used)
    if way.transport == "auto" or found.requested != way.transport:
        return []
    if used is None:
        message = f"transport={way.transport} was asked for, and nothing says what was used: {found.used}"
        return [Warning(code="transport", message=message, remedy="unset NCCL_DEBUG, so that NCCL's log can be read")]
    if other := [] if used == ["socket"] else way.contradicted(used, on_one_node()):
        message = f"transport={way.transport} was asked for, and {', '.join(other)} was used"
        return [Warning(code="transport", message=message, remedy="see `transport.evidence` in the record")]
    return []


SAMPLING_SHARE = 0.01  # of a window's time, that sampling may cost
SHORTEST_WINDOW_S = 0.1  # below, the edges of a window and a single interruption weigh too much

T = TypeVar("T")

_INSTRUMENTED = Unknown("taken in instrumented runs only (measure=phases): measuring it would change the clean run")
NOT_MEASURED = Unknown("no part of what was measured")  # the record names the measure instead


@dataclass(frozen=True)
class RankResults:
    """What rank 0 hands to the record, by the names of its fields; what a measure leaves out is `NOT_MEASURED`.

    Lists are by rank.
    """

    start_up: list[StartUp]
    peak_memory_bytes: list[int]
    input_state: InputState
    images_per_s: float | Unknown = NOT_MEASURED
    iterations_per_s: float | Unknown = NOT_MEASURED
    windows_s: list[list[float]] | Unknown = NOT_MEASURED
    window_steps: int | Unknown = NOT_MEASURED
    warmup_s: list[list[float]] | Unknown = NOT_MEASURED
    device_memory: list[DeviceMemory] | Unknown = NOT_MEASURED
    gpu_samples: list[GpuSamples | None] | Unknown = NOT_MEASURED
    link_counters: list[LinkCounters | None] | Unknown = NOT_MEASURED
    clock: LockedClock | Unknown = NOT_MEASURED
    host_loads: list[HostLoad | Unknown] | Unknown = NOT_MEASURED  # the record has one of each node
    distributed: str | Unknown = NOT_MEASURED
    loss: list[float | None] | Unknown = NOT_MEASURED
    buckets: list[GradientBucket] | Unknown = NOT_MEASURED
    phases: Phases | Unknown = NOT_MEASURED
    copies: Copies | Unknown = NOT_MEASURED
    kernels_s: list[float] | Unknown = NOT_MEASURED
    layers: LayerTimes | Unknown = NOT_MEASURED
    equality: Equality | Unknown = NOT_MEASURED
    warnings: list[Warning] = field(default_factory=list)


@dataclass(frozen=True)
class RankTraining:
    """What one rank that trained has seen."""

    windows: RankWindows
    losses: list[float]  # of its share of the batch
    skipped: int  # updates
    sizes: list[int] | Unknown  # of its messages, in bytes
    instrumented: Instrumented | None = None  # with measure=phases
    profiled: Profiled | None = None  # with measure=phases


def of_windows(request: Request, every: Sequence[RankWindows], batches: Batches) -> RankResults:
    """What every run has that has timed windows."""
    windows = [rank.windows_s for rank in every]
    measured_s = sum(max(window) for window in zip(*windows, strict=True))
    iterations_per_s = every[0].window_steps * request.windows / measured_s
    reads_bytes = known(_sum(rank.reads_bytes for rank in every))
    state = InputState(**batches.state(), reads_bytes=reads_bytes)
    clock = _locked_clock(request, every)
    return RankResults(
        images_per_s=iterations_per_s * request.batch_size,
        iterations_per_s=iterations_per_s,
        windows_s=windows,
        window_steps=every[0].window_steps,
        warmup_s=[rank.warmup_s for rank in every],
        start_up=[rank.start_up for rank in every],
        peak_memory_bytes=[rank.peak_memory_bytes for rank in every],
        device_memory=_all(rank.device_memory for rank in every),
        gpu_samples=_each(rank.readings.gpu_samples for rank in every),
        link_counters=_each(rank.readings.link_counters for rank in every),
        clock=clock,
        host_loads=[rank.readings.host_load for rank in every],
        input_state=state,
        warnings=[
            *sensor_warnings(rank.readings for rank in every),
            *_window_warnings(request, every),
            *clock_warnings(clock),
            *_decoder_warnings(state),
        ],
    )


def of_training(request: Request, name: str, every: Sequence[RankTraining], batches: Batches) -> RankResults:
    """What a run has that trained; `name`: of what exchanges its gradients."""
    measured = of_windows(request, [rank.windows for rank in every], batches)
    losses = [_mean_loss(request, values) for values in zip(*(rank.losses for rank in every), strict=True)]
    instrumented = [rank.instrumented for rank in every if rank.instrumented]
    profiles = [rank.profiled for rank in every if rank.profiled]
    return replace(
        measured,
        distributed=name,
        loss=[known(loss if math.isfinite(loss) else Unknown("not a finite number")) for loss in losses],
        buckets=_buckets(every[0].sizes, instrumented),
        phases=_phases(instrumented) if instrumented else _INSTRUMENTED,
        copies=_copies(profile.copies for profile in profiles) if profiles else _INSTRUMENTED,
        kernels_s=_all(profile.kernels_s for profile in profiles) if profiles else _INSTRUMENTED,
        warnings=[*measured.warnings, *_training_warnings(every, losses)],
    )


def _mean_loss(request: Request, of_ranks: Sequence[float]) -> float:
    """The mean loss of the whole batch from those of the ranks' shares."""
    return sum(request.share(rank) * loss for rank, loss in enumerate(of_ranks)) / request.batch_size


def _buckets(sizes: list[int] | Unknown, every: Sequence[Instrumented]) -> list[GradientBucket] | Unknown:
    """The messages of a step in the order in which they were sent, with their times where ranks were instrumented."""
    if isinstance(sizes, Unknown):
        return sizes
    if every:
        return [_bucket(index, every) for index in range(len(every[0].latest[-1].sent))]
    untimed = known(_INSTRUMENTED)
    return [
        GradientBucket(index=index, size_bytes=size, ready_s=untimed, start_s=untimed, end_s=untimed)
        for index, size in enumerate(sizes)
    ]


def _bucket(index: int, every: Sequence[Instrumented]) -> GradientBucket:
    """One message of all ranks, in each step of the latest window."""
    sent = [[step.sent[index] for step in rank.latest] for rank in every]
    return GradientBucket(
        index=index,
        size_bytes=sent[0][-1].size_bytes,
        ready_s=[[message.ready_s for message in steps] for steps in sent],
        start_s=[[message.start_s for message in steps] for steps in sent],
        end_s=[[message.end_s for message in steps] for steps in sent],
    )


def _phases(every: Sequence[Instrumented]) -> Phases:
    return Phases(
        clock=every[0].clock,
        **{part.name: [getattr(rank.parts, part.name) for rank in every] for part in fields(StepParts)},
        begin_s=[[step.begin_s for step in rank.latest] for rank in every],
    )


def _copies(every: Iterable[RankCopies | Unknown]) -> Copies | Unknown:
    """Copies of all ranks together."""
    found = _all(every)
    return found if isinstance(found, Unknown) else summed(found)


def _locked_clock(request: Request, every: Sequence[RankWindows]) -> LockedClock | Unknown:
    """Whether every GPU held the clock that it was locked at, in every window."""
    if request.clock is None:
        return NOT_LOCKED
    sampled = [rank.readings.sampled for rank in every]
    seen = [[clock_readings(rank, window) for window in windows] for rank, windows in enumerate(sampled)]
    return locked_clock(request.clock, seen)


def _all(parts: Iterable[T | Unknown]) -> list[T] | Unknown:
    """One entry per rank, or the reason why one of them has none."""
    found: list[T] = []
    for part in parts:
        if isinstance(part, Unknown):
            return part
        found.append(part)
    return found


def _each(parts: Iterable[T | Unknown]) -> list[T | None] | Unknown:
    """One entry per rank, or the reason why no rank has any."""
    found = list(parts)
    if isinstance(found[0], Unknown) and all(isinstance(part, Unknown) for part in found):
        return found[0]
    return [known(part) for part in found]


def _sum(parts: Iterable[int | Unknown]) -> int | Unknown:
    found = _all(parts)
    return found if isinstance(found, Unknown) else sum(found)


# ---- warnings -------------------------------------------------------------------------------------------------------


def _window_warnings(request: Request, windows: Sequence[RankWindows]) -> list[Warning]:
    found = []
    if windows[0].unsteady:
        found.append(
            Warning(
                code="warm-up",
                message=f"steps were not steady after {len(windows[0].warmup_s)} steps of warm-up",
                remedy=windows[0].unsteady,
            )
        )
    shortest_s = min(min(rank.windows_s) for rank in windows)
    if shortest_s < SHORTEST_WINDOW_S and request.measure != "phases":  # whose steps are timed each
        found.append(
            Warning(
                code="short-windows",
                message=f"a window of {windows[0].window_steps} steps took only {shortest_s * 1e3:.0f} ms",
                remedy=f"raise steps, so that each window takes {SHORTEST_WINDOW_S:g} s or more",
            )
        )
    return [*found, *_sampling_warnings(request, windows)]


def _sampling_warnings(request: Request, windows: Sequence[RankWindows]) -> list[Warning]:
    """A warning where all windows in which sensors were sampled are slower than all the others."""
    windows_s = [max(window) for window in zip(*(rank.windows_s for rank in windows), strict=True)]
    sampled = [taken_s for window, taken_s in enumerate(windows_s) if is_sampled(window, request)]
    others = [taken_s for window, taken_s in enumerate(windows_s) if not is_sampled(window, request)]
    if (
        min(len(sampled), len(others)) < 3
        or isinstance(windows[0].readings.gpu_samples, Unknown)
        or min(sampled) <= max(others)
    ):
        return []
    cost = statistics.median(sampled) / statistics.median(others) - 1
    if cost <= SAMPLING_SHARE:
        return []
    return [
        Warning(
            code="sampling",
            message=f"windows in which the GPU's sensors were read took {cost:.1%} longer than the others",
            remedy="take the rate of every other window of windows_s from the first, in which none was read",
        )
    ]


def _decoder_warnings(state: InputState) -> list[Warning]:
    if state.decoder != "gpu":
        return []
    message = "no hardware of this GPU decodes the crops of JPEG files: CUDA kernels do, on the cores that train"
    remedy = "compare with input.decoder=cpu; A100, A30, H100, H200 and B200 have such hardware"
    return [Warning(code="decoder", message=message, remedy=remedy)]


def _training_warnings(every: Sequence[RankTraining], losses: Sequence[float]) -> list[Warning]:
    found = []
    if not all(math.isfinite(loss) for loss in losses):
        found.append(
            Warning(
                code="loss",
                message="the loss is not finite: arithmetic on NaN can be faster or slower than training",
                remedy="lower optimizer.learning_rate",
            )
        )
    if skipped := max(rank.skipped for rank in every):
        found.append(
            Warning(
                code="skipped-updates",
                message=f"fp16 gradients overflowed in {skipped} or more steps of the windows: they updated nothing",
                remedy="raise warmup, so that the loss scale has settled, or use precision=bf16",
            )
        )
    return found
