"""Which rank of a job the others wait for, and in which phase: `explain` of a folder that `resnetx.observe` wrote, or
`trace --import` of the profiles of all ranks.

In synchronous training each rank waits for the slowest: its last gradient is the last to be ready. So for each rank
that moment is compared with that of every other one, in WINDOWS windows; a rank is named if the interval from the
windows, allowing for the number of ranks, lies above LEAST of a step. A window is looked at in two ways:

- step by step: the median of the differences. It shows what makes a rank late in most steps, whatever the steps are.
- by floors: of each part of a step (input, forward, update, and the backward pass from one bucket to the next) the
  least of the window's steps, added up. Other work on a machine only ever lengthens a part, now and then: the least of
  some steps is free of it. It shows a smaller delay, if that is there in every step. The steps of a window are as far
  apart as can be, as disturbances come in bursts.

Disturbances that go on for seconds look to the first way like a delay now and then: it has a tenth of the cases of
FALSE (BY_STEPS). A rank that is late only because it waits for a core that other programs use is not named; that is
said instead. Of profiles, which have fewer steps, each step is a window, if there are enough for that chance.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, combinations_with_replacement, pairwise
from math import ceil, log2
from operator import itemgetter
from statistics import fmean, median

import msgspec

from resnetx.record.traces import Observation
from resnetx.table import Answer, Column, as_shown
from resnetx.units import cell_ms, in_ms, with_interval

WINDOWS = 16
FEWEST_STEPS = 2 * WINDOWS
LEAST = 0.01  # of a step, that a rank is named for
FALSE = 0.01  # of runs without a delay in which a rank is named, at most
BY_STEPS = 0.1  # of these the share that looking step by step may have; the rest is that of floors
PHASES = ("update", "input", "forward", "backward")
IN_PASSES = "communication lies inside its passes"  # under FSDP
OF_FSDP = ("update", "input")  # in the others its ranks wait for each other's parameters

_Later = tuple[float, float, float]  # seconds, and the ends of their interval
Parts = list[list[float]]  # of a rank's steps: [part][step], in seconds
Way = Callable[[Parts, Parts], list[float]]


class ObservedRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of an observed job: what its steps typically take, in seconds, and by how much others wait for it."""

    workload: str
    strategy: str
    rank: int
    node: str
    device: str
    sm_clock_Hz: float | None
    steps: int
    step_s: float
    update_s: float
    input_s: float
    forward_s: float
    backward_s: float  # until its last gradient is ready
    exposed_s: float  # from then until those of all ranks are there
    for_last_s: float | None  # of it, until the last rank arrives; null: `observe` cannot tell it from transfer
    # Its last gradient is ready so much later than that of the slowest other rank; null: one rank, or too few steps.
    later_s: float | None
    later_interval_s: list[float] | None
    late: bool  # the interval shows it
    phase: str  # in which it is late; "": not late, or not shown
    why: str  # no rank can be named; ""
    outside: bool = False


def observed_ranks(found: Sequence[Observation]) -> list[ObservedRank]:
    """Each rank, in their order."""
    steps = min(len(observation.step_s) for observation in found)
    why = _why_not(found, steps)
    parts = [_parts(observation, steps, _alike(found)) for observation in found]
    without = None if why else _without_core_waits(found, steps)
    ranks = []
    for index, observation in enumerate(found):
        step_s = median(observation.step_s[:steps])
        beyond, way = (None, _by_steps) if why else _shown(parts, index, step_s)
        late = beyond is not None and beyond[1] > LEAST * step_s
        if late and without and _shown(without, index, step_s)[0][1] <= 0:
            late = False
        ranks.append(
            ObservedRank(
                workload=observation.workload,
                strategy=observation.strategy,
                rank=observation.rank,
                node=observation.node,
                device=observation.device,
                sm_clock_Hz=observation.sm_clock_Hz,
                steps=steps,
                step_s=typical_s(observation, "step", steps),
                update_s=typical_s(observation, "update", steps),
                input_s=typical_s(observation, "input", steps),
                forward_s=typical_s(observation, "forward", steps),
                backward_s=typical_s(observation, "backward", steps),
                exposed_s=typical_s(observation, "exposed", steps),
                for_last_s=typical_s(observation, "for_last", steps) if observation.for_last_s else None,
                later_s=beyond[0] if beyond else None,
                later_interval_s=[*beyond[1:]] if beyond else None,
                late=late,
                phase=_phase(found, index, steps, beyond[0], way) if late and beyond else "",
                why="",
            )
        )
    if without and not any(rank.late for rank in ranks):
        why = _busy(found, ranks)
    return [msgspec.structs.replace(rank, why=why) for rank in ranks]


def typical_s(observation: Observation, name: str, steps: int) -> float:
    """What a part typically takes: its mean over the middle half of a rank's steps by length, so that parts add up.

    Medians do not where other programs take a core in one part of a step now, and then in another.
    """
    values: list[float] = getattr(observation, f"{name}_s")
    return fmean(values[step] for step in _middle(observation.step_s[:steps]))


def _middle(step_s: Sequence[float]) -> list[int]:
    """The places of the middle half of some steps by length."""
    order = sorted(range(len(step_s)), key=step_s.__getitem__)
    return order[len(order) // 4 : len(order) - len(order) // 4]


def _busy(found: Sequence[Observation], ranks: Sequence[ObservedRank]) -> str:
    """That other programs hide who is late, where they take more of a step than a rank is named for."""
    waits = {observation.rank: median(observation.core_wait_s[: ranks[0].steps]) for observation in found}
    most = max(waits, key=lambda rank: waits[rank])
    if waits[most] <= LEAST * median(rank.step_s for rank in ranks):
        return ""
    return f"rank {most} waits {in_ms(waits[most])} ms of a step for a core, which other programs use"


def _why_not(observations: Sequence[Observation], steps: int) -> str:
    if len(observations) == 1:
        return "one rank waits for nobody"
    profiled = bool(observations[0].for_last_s)
    fewest = ceil(log2(len(observations) / FALSE / (1 - BY_STEPS))) if profiled else FEWEST_STEPS
    if steps < fewest:
        more = "profile more" if profiled else "a longer loop, or more samples"
        seen = f"{steps} steps were" if steps != 1 else "1 step was"
        return f"{seen} seen, and {fewest} are needed: {more}"
    if any(observation.strategy == "bare" for observation in observations):
        return "the ranks were not seen to wait for each other: DDP was found around none of their models"
    return ""


def _parts(observation: Observation, steps: int, by_bucket: bool) -> Parts:
    """What a rank itself takes of each step until its last gradient is ready, part by part; no waiting for buffers.

    Under FSDP a rank waits for others from its first layer on: of a step, only what comes before is its own, unless a
    profile tells where it waited.
    """
    return [part for name in _phases(observation) for part in _of_phase(observation, name, steps, by_bucket)]


def _without_core_waits(observations: Sequence[Observation], steps: int) -> list[Parts] | None:
    """What a rank would take of each step on a machine that nobody else uses; None: that is not known."""
    if not all(observation.core_wait_s for observation in observations):
        return None
    wholes = [
        [sum(step) for step in zip(*_parts(observation, steps, False), strict=True)] for observation in observations
    ]
    return [
        [[time_s - wait_s for time_s, wait_s in zip(whole, observation.core_wait_s, strict=False)]]
        for whole, observation in zip(wholes, observations, strict=True)
    ]


def _alike(observations: Sequence[Observation]) -> bool:
    """Whether all ranks were seen to fill the same buckets in one backward pass."""
    sizes = [[bucket.size_bytes for bucket in observation.buckets or ()] for observation in observations]
    return all(size and size == sizes[0] for size in sizes) and all(
        observation.micro_batches == 1 for observation in observations
    )


def _of_phase(observation: Observation, phase: str, steps: int, by_bucket: bool) -> Parts:
    """The parts of a phase: of the backward pass, `by_bucket`, what lies between the moments at which they are full."""
    whole: list[float] = getattr(observation, f"{phase}_s")[:steps]
    if phase != "backward" or not by_bucket or not observation.buckets:
        return [whole]
    before = [
        sum(step)
        for step in zip(
            observation.update_s, observation.input_s, observation.waiting_s, observation.forward_s, strict=True
        )
    ]
    found = []
    for bucket in observation.buckets:
        found.append([now - then for now, then in zip(bucket.ready_s, before, strict=True)][:steps])
        before = bucket.ready_s
    rest = [step - sum(parts) for step, *parts in zip(whole, *found, strict=True)]
    return [*found, rest]


def _phases(observation: Observation) -> tuple[str, ...]:
    return OF_FSDP if observation.strategy == "fsdp" and not observation.for_last_s else PHASES


def _shown(parts: Sequence[Parts], index: int, step_s: float) -> tuple[_Later, Way]:
    """By how much a rank is late, in the way that shows it; step by step, where neither or both do."""
    by_steps, by_floors = (_beyond(parts, index, way) for way in (_by_steps, _by_floors))
    floors_alone = by_steps[1] <= LEAST * step_s < by_floors[1]
    return (by_floors, _by_floors) if floors_alone else (by_steps, _by_steps)


def _beyond(parts: Sequence[Parts], index: int, way: Way) -> _Later:
    """By how much a rank's times are above those of every other one: of the closest one."""
    others = [part for other, part in enumerate(parts) if other != index]
    chance = FALSE / len(parts) * (BY_STEPS if way is _by_steps else 1 - BY_STEPS)
    return min((_interval(way(parts[index], each), chance) for each in others), key=itemgetter(0))


def _by_steps(own: Parts, other: Parts) -> list[float]:
    """The difference of two ranks in each window, by its median: a step that is slow on both takes no part."""
    differences = [
        sum(one) - sum(two) for one, two in zip(zip(*own, strict=True), zip(*other, strict=True), strict=True)
    ]
    count = min(WINDOWS, len(differences))
    ends = [index * len(differences) // count for index in range(count + 1)]
    return [median(differences[begin:end]) for begin, end in pairwise(ends)]


def _by_floors(own: Parts, other: Parts) -> list[float]:
    """The same by what each part takes at least in each window."""
    count = min(WINDOWS, len(own[0]))
    return [
        sum(min(part[first::count]) for part in own) - sum(min(part[first::count]) for part in other)
        for first in range(count)
    ]


def _interval(windows: Sequence[float], chance: float) -> _Later:
    """The middle of windows, and its interval, of Walsh averages (Hodges and Lehmann; Wilcoxon's test).

    It asks only that two ranks that are alike differ as often by so much one way as the other way. `chance`: that an
    end is beyond the truth.
    """
    averages = sorted((one + other) / 2 for one, other in combinations_with_replacement(windows, 2))
    beyond = _averages_beyond(chance, len(windows))
    return median(averages), averages[beyond], averages[-1 - beyond]


def _averages_beyond(chance: float, windows: int) -> int:
    """How many of the averages of windows the interval leaves out at each end: the distribution of signed ranks."""
    ways = [1]  # to reach each sum of ranks 1, 2, ... windows, each with or without
    for rank in range(1, windows + 1):
        longer = [*ways, *[0] * rank]
        ways = [more + (longer[index - rank] if index >= rank else 0) for index, more in enumerate(longer)]
    below = list(accumulate(ways))
    return max((index for index, count in enumerate(below) if count <= chance * 2**windows), default=0)


def _phase(observations: Sequence[Observation], index: int, steps: int, later_s: float, way: Way) -> str:
    """The phase that makes most of a rank's lateness, if its own interval shows it; "": none does."""
    more = {
        name: _beyond(
            [_of_phase(observation, name, steps, _alike(observations)) for observation in observations], index, way
        )
        for name in _phases(observations[index])
    }
    most = max(more, key=lambda name: more[name][0])
    value, low, _ = more[most]
    return most if low > 0 and value > later_s / 2 else ""


class Arrival(msgspec.Struct, frozen=True):
    """When a rank is so far, in seconds of its own since the step began, without waiting for others: medians."""

    rank: int
    done: str  # "input", "bucket 3"
    size_bytes: int | None  # of a bucket
    own_s: float
    behind_s: float  # the first rank


def arrivals(job: Sequence[Observation]) -> list[Arrival]:
    """When each rank is through each part of a step that is its own: the moments at which ranks are compared."""
    steps, by_bucket = min(len(observation.step_s) for observation in job), _alike(job)
    done: list[tuple[str, int | None]] = [(phase, None) for phase in _phases(job[0])]
    if by_bucket:  # the last one is full as the backward pass ends
        buckets = job[0].buckets or []
        done[-1:] = [(f"bucket {number}", bucket.size_bytes) for number, bucket in enumerate(buckets, 1)]
    own_s = []
    for observation in job:
        sums = zip(
            *(accumulate(step) for step in zip(*_parts(observation, steps, by_bucket), strict=True)), strict=True
        )
        own_s.append([median(ends) for ends in sums][: len(done)])
    first_s = [min(ranks) for ranks in zip(*own_s, strict=True)]
    return [
        Arrival(observation.rank, what, size, time_s, time_s - least_s)
        for observation, times_s in zip(job, own_s, strict=True)
        for (what, size), time_s, least_s in zip(done, times_s, first_s, strict=True)
    ]


# ---- the answer -----------------------------------------------------------------------------------------------------


def observed_answer(ranks: Sequence[ObservedRank]) -> list[str]:
    """Who is slow, where, and what it costs; or that no rank is shown to be."""
    step_s = median(rank.step_s for rank in ranks)
    head = f"A step of {ranks[0].workload} on {len(ranks)} {'ranks' if len(ranks) > 1 else 'rank'} takes "
    head += f"{in_ms(step_s)} ms"
    waited = [rank.for_last_s for rank in ranks if rank.for_last_s is not None]
    if len(ranks) > 1 and waited:
        transfer_s = median(rank.exposed_s - (rank.for_last_s or 0.0) for rank in ranks)
        head += f": {in_ms(transfer_s)} ms of it exposed transfer, and up to {in_ms(max(waited))} ms waiting for later"
        head += " ranks"
    elif ranks[0].strategy == "fsdp":
        head += f"; {IN_PASSES}"
    elif len(ranks) > 1:
        head += f", {in_ms(min(rank.exposed_s for rank in ranks))} ms of it exposed communication"
    return [f"{head}.", _named(ranks, step_s)]


def slow_alike(ranks: Sequence[ObservedRank]) -> list[int]:
    """The ranks of which each hides that the others are slow: those not shown to be ahead; [] if all are."""
    least_s = LEAST * median(rank.step_s for rank in ranks)
    behind = [rank.rank for rank in ranks if rank.later_interval_s and rank.later_interval_s[1] >= -least_s]
    return behind if 1 < len(behind) < len(ranks) and not ranks[0].why else []


def _named(ranks: Sequence[ObservedRank], step_s: float) -> str:
    if len(ranks) == 1:
        return "No rank can be slow beside others: there is one."
    late = next((rank for rank in ranks if rank.late), None)
    if late is None or late.later_s is None or late.later_interval_s is None:
        why = ranks[0].why or f"no rank is behind the slowest other one by more than {LEAST:.0%} of a step"
        if several := slow_alike(ranks):
            why += f", but several may be: {numbers(several)} are late alike"
        steps = "" if f"{ranks[0].steps} step" in why else f"; {ranks[0].steps} steps"
        return f"Slow rank: not shown ({why}{steps})."
    low_s, high_s = late.later_interval_s
    behind = with_interval(late.later_s * 1e3, low_s * 1e3, high_s * 1e3, " ms")
    where = f"in {'its ' if late.phase == 'input' else ''}{late.phase}" if late.phase else "in a phase not shown"
    node = f" ({late.node})" if late.node else ""
    sentence = f"Rank {late.rank}{node} is {behind} behind the slowest other rank, {where}"
    others = [rank.sm_clock_Hz for rank in ranks if rank is not late and rank.sm_clock_Hz]
    if late.sm_clock_Hz and others:
        sentence += f"; its GPU at {late.sm_clock_Hz / 1e6:,.0f} MHz, others {median(others) / 1e6:,.0f}"
    faster = step_s / max(step_s - late.later_s, step_s / 1000)
    return f"{sentence}; without it a step would be {faster:.2f} times as fast."


def numbers(ranks: Sequence[int]) -> str:
    """ "ranks 1, 4 and 5"."""
    *first, last = ranks
    return f"ranks {', '.join(map(str, first))} and {last}"


RANKS: list[Column[ObservedRank]] = [
    Column("rank", lambda rank: f"{rank.rank}"),
    Column("node", lambda rank: rank.node),
    Column(">update, ms", lambda rank: cell_ms(rank.update_s, 1)),
    Column(">input", lambda rank: cell_ms(rank.input_s, 1)),
    Column(">forward", lambda rank: cell_ms(rank.forward_s, 1)),
    Column(">backward", lambda rank: cell_ms(rank.backward_s, 1)),
    Column(">exposed", lambda rank: cell_ms(rank.exposed_s, 1)),
    Column(">waiting", lambda rank: "" if rank.for_last_s is None else cell_ms(rank.for_last_s, 1)),
    Column(">step", lambda rank: cell_ms(rank.step_s, 1)),
    Column(">behind", lambda rank: "" if rank.later_s is None else f"{rank.later_s * 1e3:+,.1f}"),
]


def shown_ranks(ranks: Sequence[ObservedRank]) -> Answer:
    """The answer, and the phases of each rank."""
    return Answer(observed_answer(ranks), as_shown(RANKS, ranks))


# ---- two jobs -------------------------------------------------------------------------------------------------------


class JobPart(msgspec.Struct, frozen=True):
    """A part of the step of two jobs in seconds, on the rank whose last gradient is last in each step (`typical_s`)."""

    part: str
    a_s: float
    b_s: float


def job_parts(a: Sequence[Observation], b: Sequence[Observation]) -> list[JobPart]:
    """The parts of a step of two jobs, and the whole one last."""
    of_a, of_b = _on_the_last_rank(a), _on_the_last_rank(b)
    return [JobPart(part, of_a[part], of_b[part]) for part in of_a]


def _on_the_last_rank(job: Sequence[Observation]) -> dict[str, float]:
    steps = range(min(len(observation.step_s) for observation in job))
    own_s = [[sum(parts) for parts in zip(*_parts(seen, len(steps), False), strict=True)] for seen in job]
    last = [job[max(range(len(job)), key=lambda rank: own_s[rank][step])] for step in steps]
    middle = _middle([seen.step_s[step] for seen, step in zip(last, steps, strict=True)])
    names = ("update", "input", "waiting", "forward", "backward", "exposed", "step")
    return {name: fmean(getattr(last[step], f"{name}_s")[step] for step in middle) for name in names}


def jobs_answer(parts: Sequence[JobPart], a: Sequence[ObservedRank], b: Sequence[ObservedRank]) -> list[str]:
    """Which job is the faster, in which part most, and who is slow in each."""
    *of_step, step = parts
    faster, slower = ("B", "A") if step.b_s <= step.a_s else ("A", "B")
    ratio = max(step.a_s, step.b_s) / min(step.a_s, step.b_s)
    jobs = [f"{job[0].workload} on {len(job)} rank{'s' * (len(job) > 1)}" for job in (a, b)]
    of_a, of_b = [f" ({job})" for job in jobs] if jobs[0] != jobs[1] else ["", ""]
    of = "" if of_a else f" of {jobs[0]}"
    most = max(of_step, key=lambda part: abs(part.b_s - part.a_s))
    sentences = [
        f"A step{of} takes {in_ms(step.a_s)} ms in A{of_a} and {in_ms(step.b_s)} ms in B{of_b}: {faster} is "
        f"{ratio:.2f} times as fast as {slower}, most by {most.part} ({(most.b_s - most.a_s) * 1e3:+.3g} ms)."
    ]
    for name, ranks in (("A", a), ("B", b)):
        sentences.append(f"{name}: {_named(ranks, median(rank.step_s for rank in ranks))}")
    return sentences


JOB_PARTS: list[Column[JobPart]] = [
    Column("part", lambda part: part.part),
    Column(">A, ms", lambda part: cell_ms(part.a_s, 1)),
    Column(">B, ms", lambda part: cell_ms(part.b_s, 1)),
    Column(">B - A", lambda part: f"{round((part.b_s - part.a_s) * 1e3, 1) + 0.0:+,.1f}"),
]
