"""Where the scaling of a measured point went: the time of its step in parts, each beyond what linear scaling leaves.

The parts are those of predictions (`prediction/lost_time.py`), by the runs of a point and of its twins: T is the
step, T_syn with synthetic input, A without exchange (the mean over ranks: the slowest of them still waits), and of the
point that the speed-up is over, on b of n GPUs, the same. With `scaling=weak`, read 1 for b / n.

    useful          T(b) b / n
    input           [T(n) - T_syn(n)] - [T(b) - T_syn(b)] b / n
    smaller batches T_solo - T_syn(b) b / n, where the control `solo` ran (one rank with its share), over one rank
    communication   of T(n) - A the share x / (x + w): from the moment at which the last rank has the gradients of the
                    last message to its end, on average over the steps of an instrumented run
    waiting         the rest of it: until that moment, from the mean over ranks
    the rest        what is left: smaller batches (else), launches, the host. They sum to T(n)

Runs of one repeat share the state of the machine, so intervals come from repeats drawn as blocks: all twins of one
together. From fewer than `MIN_RUNS` repeats there is no interval.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from resnetx.choices import NoExchange, SyntheticInput
from resnetx.record import Phases, RunSummary
from resnetx.reporting.study.results import MeasuredPoint
from resnetx.request import TwinName
from resnetx.statistics import Floats, Summary, of_blocks

MeasuredPartName = Literal[
    "useful", "input", "communication", "waiting", "communication and waiting", "smaller batches", "the rest"
]
LEAST_REST = -0.05  # of the step: what is left after all parts, below which these do not hold together


class MeasuredPart(msgspec.Struct, frozen=True):
    """A part of the step of a point."""

    name: MeasuredPartName
    time_s: float  # median
    share: Summary  # of the step; all parts of a point sum to 1

    @property
    def shown(self) -> bool:
        """Whether the runs show that it is there at all."""
        return self.share.kind == "interval" and (self.share.low > 0 or self.share.high < 0)


class LostTime(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the step of a point, over its baseline."""

    parts: list[MeasuredPart]  # [] where they are not known
    why: str  # they, or some of them, are not known; "" where all are


@dataclass(frozen=True)
class _Blocks:
    """Of one point, by repeat: seconds of a step, and of its twins."""

    step_s: dict[int, float]
    twins_s: dict[TwinName, dict[int, float]]
    last_message: dict[int, tuple[float, float]]  # seconds that it is exposed, and that ranks wait before it


def lost_time(point: MeasuredPoint, base: MeasuredPoint) -> LostTime:
    """Where the time of a point went, that has a good run as its baseline has."""
    request, of = point.request, base.request
    linear = request.batch_size / of.batch_size * of.gpus / request.gpus  # with scaling=weak all of the step there
    own, other = _blocks(point), _blocks(base)
    reads = not isinstance(request.input, SyntheticInput)
    sends = request.gpus > 1 and not isinstance(request.strategy, NoExchange)
    needed: list[tuple[str, dict[int, float]]] = [("", own.step_s), ("", other.step_s)]
    if reads:
        needed += [("synthetic", blocks.twins_s["synthetic"]) for blocks in (own, other)]
    if sends:
        needed.append(("alone", own.twins_s["alone"]))
    if missing := next((name for name, blocks in needed if not blocks), None):
        return LostTime(parts=[], why=f"no run of the twin {missing}; twins=6 adds them")
    repeats = sorted(set.intersection(*(set(blocks) for _, blocks in needed)))
    if not repeats:
        return LostTime(parts=[], why="no repeat has a good run of each control")
    both = sends and set(repeats) <= set(own.last_message)
    solo_s = own.twins_s["solo"]
    solo = of.gpus == 1 and set(repeats) <= set(solo_s)
    columns = [[blocks[repeat] for repeat in repeats] for _, blocks in needed]
    if both:
        columns += [list(times) for times in zip(*(own.last_message[repeat] for repeat in repeats), strict=True)]
    if solo:
        columns.append([solo_s[repeat] for repeat in repeats])
    parts = _parts(linear, reads, sends, both, solo)
    names: list[MeasuredPartName] = ["useful"]
    if reads:
        names.append("input")
    if both:
        names += ["waiting", "communication"]
    elif sends:
        names.append("communication and waiting")
    if solo:
        names.append("smaller batches")
    names.append("the rest")
    times_s, shares = (
        of_blocks(parts, columns),
        of_blocks(lambda *drawn: (made := parts(*drawn)) / made.sum(0), columns),
    )
    found = [MeasuredPart(*part) for part in zip(names, (summary.median for summary in times_s), shares, strict=True)]
    for part in found:
        if not LEAST_REST <= part.share.median <= 1 - LEAST_REST:
            why = f"not known from these runs, which put {part.name} at {part.share.median:.0%} of the step"
            return LostTime(parts=[], why=why)
    why = (
        ""
        if both or not sends
        else "no run of the twin phases tells communication and waiting apart; twins=6 adds them"
    )
    return LostTime(parts=found, why=why)


def _parts(linear: float, reads: bool, sends: bool, both: bool, solo: bool) -> Callable[..., Floats]:
    """Seconds of each part, from the seconds of steps and controls as `lost_time` lists them."""

    def parts(*times_s: Floats) -> Floats:
        rest = list(times_s)
        step_s, base_s = rest.pop(0), rest.pop(0)
        made, base_synthetic_s = [base_s * linear], base_s
        if reads:
            synthetic_s, base_synthetic_s = rest.pop(0), rest.pop(0)
            made.append(step_s - synthetic_s - (base_s - base_synthetic_s) * linear)
        if sends:
            exchange_s = step_s - rest.pop(0)
            if both:
                exposed_s, waited_s = rest.pop(0), rest.pop(0)
                waiting_s = exchange_s * waited_s / np.maximum(exposed_s + waited_s, 1e-12)
                made += [waiting_s, exchange_s - waiting_s]
            else:
                made.append(exchange_s)
        if solo:
            made.append(rest.pop(0) - base_synthetic_s * linear)
        return np.stack([*made, step_s - sum(made)])

    return parts


def _blocks(point: MeasuredPoint) -> _Blocks:
    twins: dict[TwinName, dict[int, float]] = {
        "synthetic": _steps_s(point.twins.get("synthetic", [])),
        "solo": _steps_s(point.twins.get("solo", [])),
        "alone": {run.repeat: run.rank_step_s for run in point.twins.get("alone", []) if run.rank_step_s},
    }
    last = {run.repeat: times for run in point.twins.get("phases", []) if (times := _last_message(run))}
    return _Blocks(_steps_s(point.good_runs), twins, last)


def _steps_s(runs: Sequence[RunSummary]) -> dict[int, float]:
    return {run.repeat: run.request.batch_size / run.images_per_s for run in runs if run.images_per_s}


def _last_message(run: RunSummary) -> tuple[float, float] | None:
    """For how long the last message is exposed, and how long ranks wait for the slowest before; means over steps."""
    if run.phases is None or not run.buckets:
        return None
    message = run.buckets[-1]
    ready_s, end_s = (_on_one_clock(times, run.phases) for times in (message.ready_s, message.end_s))
    if ready_s is None or end_s is None:
        return None
    last_s = ready_s.max(axis=0)
    return float((end_s.max(axis=0) - last_s).mean()), float((last_s - ready_s.mean(axis=0)).mean())


def _on_one_clock(times_s: list[list[float]] | None, phases: Phases) -> Floats | None:
    """[rank][step] since the barrier before the window; null where the run does not have them of every step."""
    begin = np.array(phases.begin_s)
    return None if times_s is None or (times := np.array(times_s)).shape != begin.shape else times + begin
