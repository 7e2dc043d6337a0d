"""`steer`: which links a reconfigurable node should have for a traffic, and what training gains by it."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from resnetx.cli import show
from resnetx.record.steering import SteeredPhase, Steering
from resnetx.steering.steer import steer
from resnetx.study import Point
from resnetx.units import si


def steer_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Steers and shows what that changes."""
    made = steer(*files, **asked)
    if options.json:
        show.json_lines([made])
    else:
        steering(made)
    return 0


# The screen of steering: what it saves, what training gains, then matrices and GPUs.

MOST_SHOWN = 10  # GPUs whose matrices fit a terminal; --all shows those of more


def steering(made: Steering) -> None:
    """The answer, then what it is made of."""
    _answer(made)
    show.say()
    _gpus(made)
    if len(made.traffic) <= MOST_SHOWN or show.everything():
        _matrices(made)
    if made.phases:
        show.say()
        _phases(made)
    _sources(made)


def _answer(made: Steering) -> None:
    """RTL, receivers and the time of an iteration, in sentences."""
    if made.rtl_before is None:
        rtl = f"{made.rtl_after:.4g}; as built, some of the traffic has no link"
    elif made.rtl_after < made.rtl_before:
        rtl = f"{made.rtl_before:.4g} -> {made.rtl_after:.4g}, {1 - made.rtl_after / made.rtl_before:.2%} less"
    else:
        rtl = f"{made.rtl_before:.4g}, which no other division of its links lowers"
    show.say(f"{made.system}: total RTL {rtl}.", style="bold")
    if made.receivers_added:
        show.say(f"A GPU needs up to {made.receivers_added} more receivers than it has (receivers= sets a limit).")
    show.say(_iteration(made))


def _iteration(made: Steering) -> str:
    before, after = made.iteration_s_before, made.iteration_s_after
    if before is None or after is None:
        return f"Training: not predicted ({made.unknown.get('iteration_s_after', 'no workload')})."
    verdict = "no faster" if abs(after - before) <= 1e-3 * before else "faster" if after < before else "SLOWER"
    change = f" by {abs(after / before - 1):.1%}" * (verdict != "no faster")
    sentence = f"An iteration gets {verdict}{change}: {_ms(before)} -> {_ms(after)} ({made.iteration_of})."
    if made.collective_before and made.collective_before == made.collective_after:
        return f"{sentence} Its all-reduces run as before: {made.collective_after}."
    if made.collective_before:
        return f"{sentence} Its all-reduces: {made.collective_before}; steered, {made.collective_after}."
    return sentence


def _gpus(made: Steering) -> None:
    rows = [
        [
            f"{each.gpu}",
            "-" if each.rtl_before is None else f"{each.rtl_before:.4g}",
            f"{each.rtl_after:.4g}",
            f"{each.units_moved}",
            f"{each.receivers_before}",
            f"{each.receivers_after}",
        ]
        for each in made.gpus
    ]
    headings = ["GPU", ">RTL before", ">after", ">units moved", ">receivers before", ">after"]
    note = (
        "RTL: traffic over bandwidth units, summed over all that a GPU sends; traffic is over the largest of any pair. "
        f"A unit is {si(made.unit_Bps, 'B/s')} one way."
    )
    show.table("By GPU", headings, rows, note)


def _matrices(made: Steering) -> None:
    show.say()
    _matrix("Traffic, to (rows) from (columns)", made.traffic, "{:.2f}")
    show.say()
    _matrix("Units as built", made.connectivity_before, "{}")
    show.say()
    _matrix("Units steered", made.connectivity_after, "{}")


def _matrix(title: str, matrix: Sequence[Sequence[float]], form: str) -> None:
    rows = [[f"{to}", *(form.format(value) if value else "." for value in row)] for to, row in enumerate(matrix)]
    show.table(title, ["to", *(f">{by}" for by in range(len(matrix)))], rows)


def _phases(made: Steering) -> None:
    rows = [
        [
            each.name,
            f"{each.rtl_shared:.4g}",
            f"{each.rtl_own:.4g}",
            f"{1 - each.rtl_own / each.rtl_shared:.1%}" if each.rtl_shared else "-",  # it sends nothing over links
            "never" if each.break_even_s is None else _ms(each.break_even_s),
            _worth(each),
        ]
        for each in made.phases
    ]
    time = "a time that is not known" if made.reconfiguration_s is None else _ms(made.reconfiguration_s)
    note = (
        f"Reconfiguring the switch takes {time}. It pays off if a phase transmits for longer than the break-even time, "
        "with the links that are best for all phases together."
    )
    headings = ["phase", ">RTL shared", ">own", ">saved", ">break-even", "switch?"]
    show.table("A configuration of its own for each phase", headings, rows, note)


def _worth(phase: SteeredPhase) -> str:
    if phase.gain_s is None:
        return ""
    return f"yes, saves {_ms(phase.gain_s)}" if phase.gain_s > 0 else f"no, costs {_ms(-phase.gain_s)}"


def _sources(made: Steering) -> None:
    show.say()
    show.say(f"Traffic: {made.traffic_of}.")
    if made.left_out > 0:
        show.say(f"Left out: {made.left_out:.0%} of it, which no link between GPUs carries: it is staged in the host.")
    counted = f", {made.rtl_evaluations:,} RTLs calculated" if made.rtl_evaluations is not None else ""
    show.say(f"Search: {made.method}{counted}.")
    if made.exchange_s_before is not None and made.exchange_s_after is not None:
        times = f"{_ms(made.exchange_s_before)} -> {_ms(made.exchange_s_after)}"
        show.say(f"Moving it over the links, all pairs at once: {times}.")
    if made.steered_file is None:
        show.say("Not stored: add out=FOLDER for the steered system as YAML, the record and its figures.", show.err)


def _ms(time_s: float) -> str:
    if time_s < 1e-3:
        return f"{time_s * 1e6:.3g} us"
    return f"{time_s * 1e3:.3g} ms" if time_s < 1 else f"{time_s:.3g} s"
