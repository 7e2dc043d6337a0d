"""`steer`: which links a reconfigurable node should have for a traffic, and what training gains by it."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from resnetx.api.answers import STEERED_GPUS, steer_answer, steering_columns, steerings_answer, time_text
from resnetx.cli import show
from resnetx.record.topologies import SteeredPhase, Steering
from resnetx.steering.steer import steer
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import in_GBps


def steer_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Steers and shows what that changes."""
    made = steer(*files, **asked)
    if isinstance(made, Steering):
        show.conclude(options, steer_answer(made), lambda: [made], partial(steering, made))
    else:
        by = "the first and the last"
        screen = partial(show.listing, steering_columns(made), made, by=by)
        show.conclude(options, steerings_answer(made), lambda: made, screen)
    return 0


# The screen of steering: what it saves, what training gains, then matrices and GPUs.


def steering(made: Steering) -> None:
    """What the answer is made of."""
    if show.everything() or made.connectivity_after != made.connectivity_before:
        _gpus(made)
        show.say()
    if show.everything():
        _matrices(made)
        show.say()
    if made.phases:
        _phases(made)
        show.say()
    _sources(made)


def _gpus(made: Steering) -> None:
    note = (
        "RTL: traffic over bandwidth units, summed over all that a GPU sends; traffic is over the largest of any pair. "
        f"A unit is {in_GBps(made.unit_Bps)} one way."
    )
    show.listing(
        STEERED_GPUS, made.gpus, "By GPU", note, lambda gpu: gpu.rtl_before or 0.0, "those of least and most RTL"
    )


def _matrices(made: Steering) -> None:
    _matrix("Traffic, to (rows) from (columns)", made.traffic, "{:.2f}")
    show.say()
    _matrix("Units as built", made.connectivity_before, "{}")
    show.say()
    _matrix("Units steered", made.connectivity_after, "{}")


def _matrix(title: str, matrix: Sequence[Sequence[float]], form: str) -> None:
    rows = {f"{to}": [form.format(value) if value else "." for value in row] for to, row in enumerate(matrix)}
    show.matrix(title, "to", rows, [f">{by}" for by in rows])


def _phases(made: Steering) -> None:
    time = "a time that is not known" if made.reconfiguration_s is None else time_text(made.reconfiguration_s)
    note = (
        f"Reconfiguring the switch takes {time}. It pays off if a phase transmits for longer than the break-even time, "
        "with the links that are best for all phases together."
    )
    show.listing(PHASES, made.phases, "A configuration of its own for each phase", note, every=True, constant=True)


def _worth(phase: SteeredPhase) -> str:
    if phase.gain_s is None:
        return ""
    return f"yes, saves {time_text(phase.gain_s)}" if phase.gain_s > 0 else f"no, costs {time_text(-phase.gain_s)}"


PHASES: list[Column[SteeredPhase]] = [
    Column("phase", lambda phase: phase.name),
    Column(">RTL shared", lambda phase: f"{phase.rtl_shared:.4g}"),
    Column(">own", lambda phase: f"{phase.rtl_own:.4g}"),
    # Where nothing is sent over links, nothing is saved.
    Column(">saved", lambda phase: f"{1 - phase.rtl_own / phase.rtl_shared:.1%}" if phase.rtl_shared else "-"),
    Column(">break-even", lambda phase: "never" if phase.break_even_s is None else time_text(phase.break_even_s)),
    Column("switch?", _worth),
]


def _sources(made: Steering) -> None:
    show.say(f"Traffic: {made.traffic_of}.")
    if made.left_out > 0:
        show.say(f"Left out: {made.left_out:.0%} of it, which no link between GPUs carries: it is staged in the host.")
    if show.everything():
        counted = f", {made.rtl_evaluations:,} RTLs calculated" if made.rtl_evaluations is not None else ""
        show.say(f"Search: {made.method}{counted}.")
    if made.exchange_s_before is not None and made.exchange_s_after is not None and show.everything():
        times = f"{time_text(made.exchange_s_before)} -> {time_text(made.exchange_s_after)}"
        show.say(f"Moving it over the links, all pairs at once: {times}.")
    behind = [] if show.everything() else ["every GPU, traffic, links before and after: --all"]
    show.more("; ".join([*behind, "the steered system, record and figures: out=FOLDER"]))
