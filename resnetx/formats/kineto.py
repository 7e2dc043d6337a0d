"""Layer times from a PyTorch profile, as `torch.profiler.profile.export_chrome_trace` writes it (Kineto's format).

An *iteration* is what lies within a `ProfilerStep#n` annotation (`prof.step()` with a schedule); without any, what
`kineto_windows` finds, and then the first is left out where it took much longer than the others: it warmed up. A
*layer* is the call of a module that calls no other module, where the profile has modules (`with_stack=True`); any other
operation of the forward pass is a layer of its own (`kineto_iterations`).

On a CPU a layer takes as long as its operations do, on a GPU as long as the kernels that they launched. What the
profile does not give to a layer is of the layer `unattributed`: backward what lies in the backward pass, forward all
else, and as communication the collectives.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import median

from resnetx.errors import FileError
from resnetx.formats.chrome import ChromeTrace, Event, decode
from resnetx.formats.kineto_iterations import (
    DEVICE,
    LAUNCHES,
    MOST_CHARACTERS,
    ProfiledIteration,
    ProfiledLayer,
    iterations_in,
    works,
)
from resnetx.formats.kineto_ranks import RankProfile, Strategy, own_s, seen_rank
from resnetx.formats.kineto_windows import HOW_TO_MARK, ProfiledIterations, find_iterations
from resnetx.record.sealing import Unknown, known, refuse_large_trace
from resnetx.record.traces import LayerTimes, Precision, TracedLayer

DIGITS = 9  # profiles have nanoseconds
NO_STEPS = Unknown("the profile has no ProfilerStep#n, so does not say how long a step took")
NO_BACKWARD = Unknown("the profile has no backward pass, so no gradients")
NO_GRADIENTS = Unknown("the profile has no gradients of parameters (torch::autograd::AccumulateGrad)")
WARMING_UP = 1.5  # times as long as the others: assumed, as iterations differ less, and first ones mostly more
MOST_UNLIKE = 1 / 3  # of the iterations
LEAST_SHARE = 0.1  # of the products, that a precision has to have to count
EVALUATED = (
    "each iteration also runs the network without a backward pass (evaluation, or a teacher): its times have that"
)
ALL_PROFILED = Unknown("all steps of a profile are profiled, which slows them")


@dataclass(frozen=True)
class Profile:
    """What a profile says."""

    times: LayerTimes  # with an `Unknown` where a profile cannot say, until it is sealed
    measured_at: str | None  # UTC, ISO 8601
    left_out: int  # iterations that did not execute the layers that most of them did
    on_device: bool  # the times are those of a GPU's kernels, not of the host's operations
    gpu: str = ""  # that the kernels ran on, as its driver names it; "": the profile does not say
    maker: str = ""  # of that GPU, by the calls that launched its kernels; "": these do not say
    launched: bool = False  # whether some call launched a kernel, of which the profile may have none
    taken: str = ""  # what was taken for an iteration, in words; "": they are marked
    trains: bool = True  # it has a backward pass
    accumulated: int = 1  # passes of a micro-batch each whose gradients are added up before an update
    remarks: tuple[str, ...] = ()  # sentences on what its iterations are
    rank: RankProfile | None = None  # of a data-parallel job; the times are then those of its computing alone


def parse(data: bytes | bytearray, path: Path) -> Profile:
    """Layer times of a profile. The path is for error messages."""
    file = decode(data, path)
    events = [event for event in file.events if event.ph == "X"]
    strategy = _strategy(file, events, path)
    found = works(events)
    marked = find_iterations(found, events, path)
    iterations = iterations_in(found, marked.windows)
    steps_s = _steps_s(iterations, found.on_device)
    alike = _alike(iterations, by_gradients=bool(marked.taken))
    _refuse_mixed(marked, len(alike), path)
    warm, warmed_up = _warm([iterations[index] for index in alike]) if marked.taken else (0, "")
    kept = [iterations[index] for index in alike[warm:]]
    _refuse_unusable(kept[0], len(kept), path)
    timed = [steps_s[index] for index in alike[warm:]]
    rank = seen_rank(file, events, found, marked.windows, strategy, path) if strategy else None
    if rank is not None:
        timed = [round(sum(own_s(step).values()), DIGITS) for step in rank.steps] or [float("inf")]
        for iteration in kept:
            iteration.rest.communication_s = 0.0
    return Profile(
        times=_times(kept, timed if marked.trains and all(map(isfinite, timed)) else NO_STEPS, found.on_device),
        measured_at=_measured_at(file, events),
        left_out=len(iterations) - len(alike),
        on_device=found.on_device,
        gpu=_gpu(file, events),
        maker=_maker(events),
        launched=any(_is_launch(event) for event in events),
        taken=marked.taken + warmed_up,
        trains=marked.trains,
        accumulated=kept[0].accumulated,
        remarks=(*marked.remarks, *[EVALUATED] * kept[0].evaluated),
        rank=rank,
    )


def _strategy(file: ChromeTrace, events: Iterable[Event], path: Path) -> Strategy | None:
    """How the ranks of its job share the work; None: it trains alone. Refused where they do not share the data only."""
    kind = parallelism((event.name for event in events), file.world_size)
    if kind in DATA_PARALLEL:
        return DATA_PARALLEL[kind]
    if kind:
        raise FileError(
            f"{path}: a profile of one rank of {kind}, whose layers do not take as long as those of one process; "
            "profile the same steps in one process that trains alone"
        )
    return None


def _refuse_unusable(usual: ProfiledIteration, iterations: int, path: Path) -> None:
    """`usual`: one of the iterations that are kept."""
    if not usual.layers:
        raise FileError(
            f"{path}: has no operation of a forward pass; expected a profile of training steps by torch.profiler, with "
            "ProfilerActivity.CPU among its activities"
        )
    refuse_large_trace(len(usual.layers), iterations, path)


# ---- iterations -----------------------------------------------------------------------------------------------------


def _alike(iterations: Sequence[ProfiledIteration], by_gradients: bool) -> list[int]:
    """The places of those that executed the same layers as most did.

    `by_gradients`: those of two networks that take turns may have layers of the same names.
    """
    kinds = [
        (
            iteration.evaluated,
            *((layer.name, str(layer.gradient_bytes) if by_gradients else "") for layer in iteration.layers),
        )
        for iteration in iterations
    ]
    ((usual, _),) = Counter(kinds).most_common(1)
    return [index for index, kind in enumerate(kinds) if kind == usual]


def _refuse_mixed(marked: ProfiledIterations, alike: int, path: Path) -> None:
    """Refuses iterations that nothing marks, and of which many executed other layers than most did."""
    count = len(marked.windows)
    if marked.taken and count - alike > MOST_UNLIKE * count:
        raise FileError(
            f"{path}: has no step marks (ProfilerStep#n), and of {count} iterations as its operations show them only "
            f"{alike} are alike; {HOW_TO_MARK}"
        )


def _warm(iterations: Sequence[ProfiledIteration]) -> tuple[int, str]:
    """How many of the first iterations to leave out, as the first one warmed up, and words that say so."""
    first_s, *others_s = [iteration.compute_s for iteration in iterations]
    usual_s = median(others_s) if others_s else 0.0
    if not usual_s or first_s <= WARMING_UP * usual_s:
        return 0, ""
    return 1, f"; the first took {first_s / usual_s:.1f} times as long as the others, and was left out as warm-up"


def _steps_s(iterations: Sequence[ProfiledIteration], on_device: bool) -> list[float]:
    """How long iterations took; on a GPU, from the first thing that ran there to the first one of the next."""
    ends = [iteration.end for iteration in iterations]
    if on_device:
        ends = [following.begin for following in iterations[1:]] + ends[-1:]
    return [round((end - iteration.begin) / 1e6, DIGITS) for iteration, end in zip(iterations, ends, strict=True)]


# ---- the result -----------------------------------------------------------------------------------------------------


def _times(iterations: Sequence[ProfiledIteration], steps_s: list[float] | Unknown, on_device: bool) -> LayerTimes:
    """The iterations of a profile as times of layers; work outside all layers is a layer of its own, behind them."""
    unsized = _unsized(iterations[0])
    rows = [iteration.layers for iteration in iterations]
    rests = [iteration.rest for iteration in iterations]
    if any(layer.forward_s or layer.backward_s or layer.communication_s or layer.gradient_bytes for layer in rests):
        rows = [[*layers, layer] for layers, layer in zip(rows, rests, strict=True)]
    return LayerTimes(
        clock=f"torch.profiler ({'kernels' if on_device else 'operations'})",
        layers=[_traced(layers, unsized, on_device) for layers in zip(*rows, strict=True)],
        input_s=_measured(iteration.input_s for iteration in iterations),
        input_wait_s=_measured(iteration.input_wait_s for iteration in iterations),
        host_to_device_s=_measured(iteration.host_to_device_s for iteration in iterations),
        update_s=_measured(iteration.update_s for iteration in iterations),
        step_s=known(steps_s),
        clean_step_s=known(ALL_PROFILED),
        device_busy=known(ALL_PROFILED),
        host_s=known(ALL_PROFILED),
        host_bound=known(ALL_PROFILED if on_device else False),
        gradient_copy_Bps=known(Unknown("a profile does not say")),
        launching_s=_measured(iteration.launching_s for iteration in iterations if on_device),
        precisions=_precisions(iterations),
    )


def _precisions(iterations: Sequence[ProfiledIteration]) -> list[Precision]:
    """Those in which products are, most first; [] where the kernels of more than a tenth do not say."""
    seconds = sum((iteration.products_s for iteration in iterations), Counter[Precision | None]())
    most: list[Precision | None] = [
        name for name, own_s in seconds.most_common() if own_s >= LEAST_SHARE * seconds.total()
    ]
    return [name for name in most if name] if None not in most else []


def _unsized(iteration: ProfiledIteration) -> Unknown | None:
    """Why a profile says nothing of gradients; None where it has some."""
    layers = [*iteration.layers, iteration.rest]
    if any(layer.gradient_bytes for layer in layers):  # or a reason why these are not known
        return None
    return NO_GRADIENTS if any(layer.backward_s for layer in layers) else NO_BACKWARD


def _traced(layers: Sequence[ProfiledLayer], unsized: Unknown | None, on_device: bool) -> TracedLayer:
    """One layer over all iterations; `unsized`: why no layer's gradients are known."""
    return TracedLayer(
        name=layers[0].name,
        forward_s=[round(layer.forward_s, DIGITS) for layer in layers],
        backward_s=[round(layer.backward_s, DIGITS) for layer in layers],
        communication_s=_measured(layer.communication_s for layer in layers),
        gradient_bytes=known(unsized or layers[0].gradient_bytes),
        products=_products(layers) if on_device else [],
    )


def _products(layers: Sequence[ProfiledLayer]) -> list[float]:
    """The share of products and convolutions in the forward, and in the backward time."""
    forward_s, backward_s = (sum(getattr(layer, name) for layer in layers) for name in ("forward_s", "backward_s"))
    products = [sum(getattr(layer, f"{name}_products_s") for layer in layers) for name in ("forward", "backward")]
    return [
        min(1.0, round(products_s / whole_s, 3)) if whole_s else 0.0
        for products_s, whole_s in zip(products, (forward_s, backward_s), strict=True)
    ]


def _measured(durations_s: Iterable[float]) -> list[float]:
    """Rounded; [] where all are 0, as what never occurred was not measured."""
    rounded = [round(duration_s, DIGITS) for duration_s in durations_s]
    return rounded if any(rounded) else []


def _measured_at(file: ChromeTrace, events: Sequence[Event]) -> str | None:
    """When the first event began, where the profile says what its times count from."""
    if file.base_ns is None:
        return None
    began_s = file.base_ns / 1e9 + min(event.ts for event in events) / 1e6
    try:
        return datetime.fromtimestamp(began_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


def _gpu(file: ChromeTrace, events: Iterable[Event]) -> str:
    """The name of the GPU that ran the kernels; "" where the profile does not say, or has several."""
    used = {event.pid for event in events if event.kind in DEVICE}  # Kineto writes a GPU's number as their process
    names = {device.name for device in file.devices if device.id in used} or {device.name for device in file.devices}
    return names.pop() if used and len(names) == 1 else ""


def _maker(events: Iterable[Event]) -> str:
    """Whose runtime launched the kernels: HIP's is AMD's, whatever category it has."""
    for event in events:
        if event.kind in LAUNCHES:
            if event.kind.startswith(("xpu", "mtia", "privateuse1")):
                return event.kind.partition("_")[0]
            if maker := next((name for begin, name in _MAKERS.items() if event.name.startswith(begin)), ""):
                return maker
    return ""


def _is_launch(event: Event) -> bool:
    return event.kind in LAUNCHES and ("launch" in event.name.lower() or event.kind.startswith("mtia"))


_MAKERS = {"hip": "AMD", "cuda": "NVIDIA"}


# How a profiled program shared its work with other processes, by the names in its profile.
#
# A prediction multiplies one process that trains alone. So does a rank of DistributedDataParallel or FSDP without what
# it exchanges; one that holds a part of the layers, or of each layer, computes something else.
#
# Names: torch 2.15's own (`torch/distributed/fsdp`, `tensor`, `_functional_collectives.py`, c10d's record functions),
# NCCL's kernels, DeepSpeed's and Megatron's annotations.

# Names that only a kind of parallelism has, the most specific first.
_SIGNS = {
    "ZeRO": r"ZeroRedundancyOptimizer|deepspeed",
    "expert parallelism (all-to-all)": r"all_?to_?all",
    "pipeline parallelism (sends and receives)": r"(c10d|gloo|nccl)::?(send|recv)|nccl\w*SendRecv",
    "fully sharded data parallelism (FSDP)": r"fsdp::|FullyShardedDataParallel",
    "DistributedDataParallel": r"DistributedDataParallel|distributed\.ddp\.",
    "sharded parameters (all-gathers and reduce-scatters)": r"(c10d|gloo|nccl|_c10d_functional)::?\w*(gather|scatter)"
    r"|nccl\w*(AllGather|ReduceScatter)",
    "tensor parallelism, or gradients averaged by hand (all-reduces, not DDP's)": r"_c10d_functional::"
    r"|(c10d|gloo|nccl)::?all_?reduce|nccl\w*AllReduce",
}
DATA_PARALLEL: dict[str, Strategy] = {"fully sharded data parallelism (FSDP)": "fsdp", "DistributedDataParallel": "ddp"}


def parallelism(names: Iterable[str], world_size: int | None) -> str:
    """The kind of parallelism that a profile shows, in words; "" for that of one process.

    `names`: of all events; `world_size`: processes by the profile itself, None where it does not say.
    """
    if world_size == 1:  # whatever it is called, it is whole
        return ""
    text = "\n".join({name[:MOST_CHARACTERS] for name in names})
    parallelism = next((kind for kind, sign in _SIGNS.items() if re.search(sign, text, re.IGNORECASE)), "")
    return parallelism or (f"a group of {world_size} processes" if world_size else "")
