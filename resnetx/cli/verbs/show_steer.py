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
        show.conclude(options, steerings_answer(made), lambda: made, partial(_several, made))
    return 0


def _several(made: Sequence[Steering]) -> None:
    show.listing(steering_columns(made), made, by="the first and the last")
    show.more("each alone: GPUs, traffic, links before and after; out=FOLDER")


# The screen of steering: what it saves, what training gains, then matrices and GPUs.


def steering(made: Steering) -> None:
    """What the answer is made of: by phase, where the links may change between phases, else by GPU."""
    changed = made.connectivity_after != made.connectivity_before
    if show.everything() or (changed and not made.phases):
        _gpus(made)
    if show.everything():
        show.say()
        _matrices(made)
        show.say()
    if made.phases:
        _phases(made)
    _sources(made)


def _gpus(made: Steering) -> None:
    note = "RTL is of all that a GPU sends; traffic is over the largest of any pair."
    note = f"{note} A link is {in_GBps(made.unit_Bps)} one way." * show.everything()
    show.listing(STEERED_GPUS, made.gpus, "", note, lambda gpu: gpu.rtl_before or 0.0, "least and most RTL")


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
    note = "own: with links divided for this phase alone."
    if made.reconfiguration_s is not None:
        note += f" Setting the switch takes {time_text(made.reconfiguration_s)}: it pays off in a longer phase"
        note += " than break-even."
    show.listing(PHASES, made.phases, "", note, constant=True)


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
    left = f" {made.left_out:.0%} is staged in the host, where no link can be moved." * (made.left_out > 0)
    show.say(f"traffic: {'; '.join(dict.fromkeys(made.traffic_of.split('; ')))}.{left}")
    if show.everything():
        counted = f", {made.rtl_evaluations:,} RTLs calculated" if made.rtl_evaluations is not None else ""
        show.say(f"Search: {made.method}{counted}.")
    if made.exchange_s_before is not None and made.exchange_s_after is not None and show.everything():
        times = f"{time_text(made.exchange_s_before)} -> {time_text(made.exchange_s_after)}"
        show.say(f"Moving it over the links, all pairs at once: {times}.")
    if made.iteration_s_after is not None:
        show.say("sure: RTL is exact for this traffic; no interval of iterations is known.")
    behind = [] if show.everything() else ["GPUs, traffic, links: --all"]
    show.more("; ".join([*behind, "the steered system: out=FOLDER"]))
