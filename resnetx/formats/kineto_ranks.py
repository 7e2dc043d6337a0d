"""One rank of a data-parallel job, from its profile: its collectives, and what it does itself between them.

A step of a rank is what lies between the ends of the last collectives of two iterations: all ranks reach these
together, so that times since then compare without a common clock. In it the rank is *blocked* where a collective that
it has asked for ends while it computes nothing, from when it last computed: waiting for ranks that come later, and the
transfer. The rest is its own, by phase. A rank that the others wait for is blocked for a shorter time than they are.

On a GPU a collective is a kernel (`ncclDevKernel_*`, with its size and group as torch's `record_param_comms` has
them), on a CPU what gloo's threads run (`gloo:all_reduce`), asked for where `c10d::` was called.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from resnetx.errors import FileError
from resnetx.formats.chrome import ChromeTrace, Details, Event, first_of, value_of
from resnetx.formats.kineto_iterations import DEVICE, OPERATIONS, UPDATE, Window, Work, Works, undone_by
from resnetx.formats.kineto_windows import STEP
from resnetx.record.sealing import MOST_BYTES

PHASES = ("update", "input", "forward", "backward")
# Of the time of a collective on a CPU, that nothing is computed at a stretch where its rank waits for it. The wait is
# over before gloo's thread notes the end, on a busy machine by as long as other processes take.
WAITED = 0.1
ROUNDED = 1.0  # microseconds by which a kernel that waits for a collective may seem to begin before its end
MOST_BETWEEN = 0.1  # of an iteration, between it and the next one, that may be no evaluation or the like

Strategy = Literal["ddp", "fsdp"]

COMMS = "record_param_comms"
FORWARD = ("DistributedDataParallel.forward", "FSDP::root_pre_forward", "FSDP::pre_forward")  # a forward pass begins
MOST_CHARACTERS = 200  # of the name of a kernel that are looked at

# The operation of a collective, by what its name has in it: of NCCL's kernels, of gloo's annotations, of torch's calls.
_OPERATIONS = {
    "all-to-all": "alltoall",
    "reduce-scatter": "reducescatter",
    "all-gather": "allgather",
    "all-reduce": "allreduce",
    "broadcast": "broadcast",
    "send and receive": "send|recv",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
OF_OTHERS = {"all-to-all": "expert parallelism", "send and receive": "pipeline parallelism"}

_BYTES = {
    "double": 8, "long": 8, "longint": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2,
    "byte": 1, "char": 1, "bool": 1, "unsignedchar": 1, "signedchar": 1,
}  # fmt: skip
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Shape = Annotated[list[_Count], Meta(max_length=8)]


@dataclass(frozen=True, slots=True)
class Collective:
    """One of a rank's collectives; microseconds of its own clock."""

    operation: str
    size_bytes: int  # of the whole message: what an all-gather makes, what a reduce-scatter takes; 0: it does not say
    arrived: float  # the rank asks for it; on a GPU, as its kernel begins
    begin: float  # it runs: gloo has two threads, which may be busy
    end: float
    idle: float  # the rank computes nothing from then until the end; the end: it computes as this ends
    number: int | None = None  # of its group, where the profile says


@dataclass(frozen=True, slots=True)
class RankStep:
    """One step of a rank: from the end of the last collective of the iteration before to that of its own."""

    number: int
    begin: float  # microseconds of its own clock
    end: float
    collectives: list[Collective]
    phases: list[tuple[float, float, str]]  # begin, end and name, one behind the other

    def blocked(self, collective: Collective) -> Window:
        """When the rank waits for a collective; empty where it computes as it ends."""
        return max(self.begin, collective.idle), collective.end


@dataclass(frozen=True)
class RankProfile:
    """What the profile of a rank says of its job."""

    rank: int | None
    ranks: int
    strategy: Strategy
    host: str
    steps: list[RankStep]


def is_collective(event: Event) -> bool:
    """Whether a kernel is one of NCCL's, or of RCCL's, which have the same names."""
    return event.kind == "kernel" and event.name[:4].lower() == "nccl"


def own_s(step: RankStep) -> dict[str, float]:
    """Seconds of each phase in which the rank is not blocked."""
    blocked = joined(step.blocked(collective) for collective in step.collectives)
    own: dict[str, list[Window]] = {phase: [] for phase in PHASES}
    for begin, end, phase in step.phases:
        own[phase].append((begin, end))
    return {phase: length_s(without(joined(windows), blocked)) for phase, windows in own.items()}


def blocked_s(step: RankStep) -> float:
    """Seconds in which the rank waits for its collectives and computes nothing."""
    return length_s(joined(step.blocked(collective) for collective in step.collectives))


def seen_rank(
    file: ChromeTrace, events: Sequence[Event], found: Works, windows: Sequence[Window], strategy: Strategy, path: Path
) -> RankProfile:
    """The steps of a rank; refused where its collectives are not those of data-parallel training.

    `windows`: of its iterations. The path is for error messages.
    """
    launched = sorted(_collectives(file, events, found), key=lambda collective: (collective[0], collective[1].begin))
    _refuse_others([collective for _, collective in launched], file, events, path)
    marks = _marks(found, events)
    begins = [begin for begin, _ in windows]
    inside: list[list[Collective]] = [[] for _ in windows]
    for when, collective in launched:
        if (index := bisect_right(begins, when) - 1) >= 0 and when <= windows[index][1]:
            inside[index].append(collective)
    numbers = _numbers(events, windows)
    steps = []
    for index, (before, collectives) in enumerate(pairwise(inside), start=1):
        (begin, end), behind = windows[index - 1], windows[index][0]
        if not (before and collectives) or behind - end > MOST_BETWEEN * (end - begin):
            continue
        first, last = max(each.end for each in before), max(collective.end for collective in collectives)
        if first < last:
            steps.append(RankStep(numbers[index], first, last, collectives, _phases(marks, first, last)))
    rank = file.group.rank if file.group else None
    return RankProfile(rank, file.world_size or 0, strategy, file.host, steps)


def _numbers(events: Iterable[Event], windows: Sequence[Window]) -> list[int]:
    """What each iteration is called: by its first mark, or by its place."""
    marked = {event.ts: event.name for event in events if STEP.fullmatch(event.name)}
    return [
        int(marked[begin].partition("#")[2][:15]) if begin in marked else index
        for index, (begin, _) in enumerate(windows)
    ]


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collectives(file: ChromeTrace, events: Sequence[Event], found: Works) -> Iterator[tuple[float, Collective]]:
    """When each was launched on the host, and what it is."""
    idle = _Idle(found, events)
    if found.on_device:
        described = {event.args.external_id: event.args for event in events if event.name == COMMS and event.args}
        launched = [(work.event.ts, event) for work in found.works for event in work.device] + found.stray
        for when, event in launched:
            if is_collective(event):
                args = event.args
                if args is None or not args.collective:
                    args = described.get(args.external_id if args else None)
                operation, size_bytes = _message(event, args)
                number = value_of(args.number, int) if args else None
                since = idle.before(event.ts, event.end)
                yield when, Collective(operation, size_bytes, event.ts, event.ts, event.end, since, number)
        return
    spans = sorted((event for event in events if event.name.startswith("gloo:")), key=lambda event: event.ts)
    calls = sorted(event.ts for event in events if event.name.startswith("c10d::") and event.kind in OPERATIONS)
    scattered = not any(event.name.startswith("c10d::allreduce") for event in events)
    for when, event in zip(calls if len(calls) == len(spans) else [span.ts for span in spans], spans, strict=True):
        operation, size_bytes = _of_gloo(event, file.world_size or 1)
        if scattered and operation == "all-reduce":  # as gloo makes one of a reduce-scatter
            operation = "reduce-scatter"
        when, end = min(when, event.ts), event.end
        since, until = idle.longest(when, end)
        if until - since > WAITED * (end - when):
            end = max(event.ts, until)
        else:
            since = end
        yield when, Collective(operation, size_bytes, when, event.ts, end, min(since, end))


def _message(event: Event, args: Details | None) -> tuple[str, int]:
    """The operation of a kernel, and its size; 0 where nothing says so."""
    if args is None:
        return _operation(event.name), 0
    elements = [value_of(raw, _Count) or 0 for raw in (args.elements_in, args.elements_out)]
    size_bytes = max(elements) * _BYTES.get(_word(value_of(args.element, str) or ""), 0)
    return _operation(value_of(args.collective, str) or event.name), size_bytes if size_bytes <= MOST_BYTES else 0


def _of_gloo(event: Event, ranks: int) -> tuple[str, int]:
    """The same of what gloo runs, whose annotation has the shape of what it is given."""
    operation, args = _operation(event.name.partition(":")[2]), event.args
    lengths = first_of(args.dims, _Shape) if args else None
    kind = first_of(args.types, str) if args else None
    size_bytes = prod(lengths or [0]) * _BYTES.get(_word(kind or ""), 0) * (ranks if operation == "all-gather" else 1)
    return operation, size_bytes if size_bytes <= MOST_BYTES else 0


def _operation(name: str) -> str:
    word = _word(name[:MOST_CHARACTERS].partition("(")[0])
    return next((operation for operation, sign in _OPERATIONS.items() if re.search(sign, word)), "collective")


def _word(name: str) -> str:
    """A name without what different writers put between its words: "c10::BFloat16" is "bfloat16"."""
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("c10::"))


def _refuse_others(collectives: Sequence[Collective], file: ChromeTrace, events: Iterable[Event], path: Path) -> None:
    """Refuses collectives among some of the ranks, as tensor, pipeline and expert parallelism have them."""
    ranks = file.world_size or 0
    sizes = {value_of(event.args.group_size, int) for event in events if event.args and event.args.group_size}
    if not sizes and file.group and file.group.pg_config:  # gloo's do not say which group they are of
        sizes = {group.pg_size for group in file.group.pg_config}
    if some := sorted(size for size in sizes if size and 1 < size < ranks):
        raise FileError(
            f"{path}: has collectives among {' and '.join(map(str, some[:3]))} of its {ranks} ranks, as tensor, "
            "pipeline and expert parallelism and hybrid sharding have; expected data-parallel training (DDP or FSDP) "
            "in one group"
        )
    for collective in collectives:
        if collective.operation in OF_OTHERS:
            raise FileError(
                f"{path}: has a collective ({collective.operation}), as {OF_OTHERS[collective.operation]} has; "
                "expected data-parallel training (DDP or FSDP)"
            )


# ---- what a rank does ------------------------------------------------------------------------------------------------


class _Idle:
    """When a rank computes nothing: no kernel but those of collectives runs on its GPU; no work on its CPU."""

    def __init__(self, found: Works, events: Iterable[Event]) -> None:
        if found.on_device:
            busy = joined(
                (event.ts, event.end) for event in events if event.kind in DEVICE and not is_collective(event)
            )
        else:
            exchanged = joined((work.event.ts, work.event.end) for work in found.works if work.part == "exchange")
            undone = set(undone_by(found.works).values())
            computed = [work.event for work in found.works if _phase(work, undone)]  # not DDP's own small operations
            busy = without(joined((event.ts, event.end) for event in computed), exchanged)
        self._begins = [begin for begin, _ in busy]
        self._ends = [end for _, end in busy]
        # Behind each until the next, and the place of the longest of one, two, four, ... from each on (a sparse table).
        gaps = (
            [] if found.on_device else [after - end for after, end in zip(self._begins[1:], self._ends, strict=False)]
        )
        self._longest = [list(range(len(gaps)))]
        while len(before := self._longest[-1]) > (apart := 2 ** (len(self._longest) - 1)):
            pairs = zip(before, before[apart:], strict=False)
            self._longest.append([one if gaps[one] >= gaps[other] else other for one, other in pairs])

    def before(self, begin: float, end: float) -> float:
        """From when on it computes nothing until `end`, from `begin` on at most; `end`: it computes then."""
        index = bisect_left(self._begins, end - ROUNDED) - 1
        return max(begin, min(end, self._ends[index])) if index >= 0 else begin

    def longest(self, begin: float, end: float) -> Window:
        """The longest time between the two in which it computes nothing."""
        first, last = bisect_right(self._ends, begin), bisect_left(self._begins, end)
        if first >= last:
            return begin, end
        gaps = [(begin, self._begins[first]), (self._ends[last - 1], end)]
        if (count := last - first - 1) > 0:
            level = self._longest[count.bit_length() - 1]
            places = level[first], level[last - 2 ** (count.bit_length() - 1) - 1]
            gaps += [(self._ends[place], self._begins[place + 1]) for place in places]
        return max(gaps, key=lambda gap: gap[1] - gap[0])


def _marks(found: Works, events: Iterable[Event]) -> list[tuple[float, float, str]]:
    """What belongs to a phase, by when it began: works, or on a GPU what they launched."""
    undone = set(undone_by(found.works).values())
    marks = []
    for work in found.works:
        phase = _phase(work, undone)
        if phase and found.on_device:
            marks += [(event.ts, event.end, phase) for event in work.device if not is_collective(event)]
        elif phase:
            begin = work.call.outermost.event.ts if work.call and phase == "forward" else work.event.ts
            marks += [(begin, begin, phase), (work.event.ts, work.event.end, phase)]
    if not found.on_device:
        marks += [(event.ts, event.ts, "forward") for event in events if event.name.startswith(FORWARD)]
    return sorted(marks)


def _phase(work: Work, undone: set[Work]) -> str:
    if work.part == "update":
        return "update" if work.event.name.startswith(UPDATE) else ""
    if work.part == "node":
        return "backward"
    if work.part == "input" or work.copies_from_host:
        return "input"
    return "forward" if work.part == "operation" and (work in undone or work.call is not None) else ""


def _phases(marks: Sequence[tuple[float, float, str]], begin: float, end: float) -> list[tuple[float, float, str]]:
    """The phases of a step, one behind the other; a gap is of what comes next, and before a forward pass is input."""
    phases = [(begin, begin, "update")]

    def upto(time: float, phase: str) -> None:
        before, now, last = phases[-1]
        if phase == last:
            phases[-1] = (before, max(now, time), last)
        elif time > now:
            phases.append((now, time, phase))

    last = "update"
    for from_, to, phase in marks[bisect_left(marks, (begin - ROUNDED,)) : bisect_left(marks, (end - ROUNDED,))]:
        upto(min(from_, end), "input" if phase == "forward" != last else phase)
        upto(min(to, end), phase)
        last = phase
    upto(end, last)
    return phases


# ---- intervals ------------------------------------------------------------------------------------------------------


def joined(intervals: Iterable[Window]) -> list[Window]:
    """The same time as intervals apart from each other, sorted."""
    apart: list[Window] = []
    for begin, end in sorted(intervals):
        if apart and begin <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        elif end > begin:
            apart.append((begin, end))
    return apart


def without(intervals: Sequence[Window], others: Sequence[Window]) -> list[Window]:
    """What of the first is in none of the others; both are joined."""
    left: list[Window] = []
    ends = [end for _, end in others]
    for begin, end in intervals:
        index = bisect_right(ends, begin)
        while index < len(others) and others[index][0] < end:
            if others[index][0] > begin:
                left.append((begin, others[index][0]))
            begin = max(begin, others[index][1])
            index += 1
        if begin < end:
            left.append((begin, end))
    return left


def length_s(intervals: Iterable[Window]) -> float:
    """Seconds of intervals that are apart."""
    return sum(end - begin for begin, end in intervals) / 1e6
