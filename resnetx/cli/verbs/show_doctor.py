"""`doctor`: what this machine can run, and with clock=... which clock its GPUs sustain."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.api.doctor import FINDINGS, findings, without_gpus, works
from resnetx.cli import show
from resnetx.measure.held_clock import ClockSearchResult
from resnetx.request import Request
from resnetx.study import Point

if TYPE_CHECKING:
    from resnetx.measure.probes import Finding


def doctor_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Examines this machine; status 1 where something that every run needs is missing."""
    if asked.get("clock") is not None:
        return _clock(options, asked)
    examined = findings(asked)
    show.conclude(options, [works(examined)], lambda: examined, partial(_show_findings, examined))
    return 1 if any(finding.state == "missing" and finding.needed for finding in examined) else 0


def _clock(options: Namespace, asked: Point) -> int:
    """Status 1 where GPUs hold no clock, or not the one that was tried."""
    from resnetx.api.doctor import find_clock

    search = find_clock(asked)
    if options.json:
        show.json_lines([search.answer])
    else:
        show_clock(search.answer, search.load, search.wanted_MHz, search.before_MHz, some=search.some)
    return 0 if search.answer.clock_MHz else 1


def _show_findings(findings: "Sequence[Finding]") -> None:
    """What can be mended or is missing, and which GPUs there are (--all: every finding); then the commands for it."""
    no_gpus = without_gpus(findings)

    def tells(finding: "Finding") -> bool:
        if finding.topic in ("GPU", "bf16"):
            return not no_gpus  # the answer says it
        return finding.state == "missing" or (finding.state == "limited" and bool(finding.fix or not no_gpus))

    shown = findings if show.everything() else [finding for finding in findings if tells(finding)]
    if shown:
        show.listing(FINDINGS, shown, every=True, constant=True)
    commands = list({finding.fix: finding for finding in reversed(findings) if finding.fix}.values())[
        ::-1
    ]  # no command twice
    width = max((len(command.topic) for command in commands), default=0)
    if commands:
        show.say()
    for command in commands:
        show.line(f"{command.topic:{width}}  {command.fix}")
    if len(shown) < len(findings):
        well = sum(finding.state == "ok" for finding in findings)
        show.more(f"{len(findings)} tests, {well} ok: --all")


# What `doctor clock=...` shows: the clock first, then the commands that use it, then what it was found by.


def show_clock(
    result: ClockSearchResult,
    request: Request,
    wanted_MHz: int | None,
    before_MHz: Mapping[int, int | None],
    *,
    some: bool,
) -> None:
    """`wanted_MHz`: the clock that was to be tried, if one was; `some`: the machine has other GPUs besides."""
    _answer(result, wanted_MHz)
    if result.clock_MHz is not None:
        _commands(result.clock_MHz, result.gpus if some else [])
    show.say()
    low_MHz, high_MHz = (round(clock) for clock in result.free_MHz)
    free = f"{low_MHz} MHz" if low_MHz == high_MHz else f"{low_MHz} to {high_MHz} MHz"
    why = f", held down by {' and '.join(result.held_down)}" if result.held_down else ""
    show.entries(
        [
            ("load", f"{request.model.label}, {request.batch_size} images of {request.image_size} pixels, "
                     f"{request.precision}, on each GPU at once"),
            ("unlocked", f"{free}{why}; the highest that can be set is {result.supported_MHz} MHz"),
            *(("at", f"{trial.clock_MHz} MHz: {trial.why_not or 'held'}") for trial in result.trials),
            ("now", _left(before_MHz)),
        ]
    )  # fmt: skip
    if not result.settled:
        show.say("Clocks and temperatures had not settled: run it once more while the GPUs are warm.")


def _answer(result: ClockSearchResult, wanted_MHz: int | None) -> None:
    gpus = _named(result.gpus)
    if result.clock_MHz is None:
        tried = "any clock that was tried" if wanted_MHz is None else f"{wanted_MHz} MHz"
        show.say(f"{gpus} {_verb(result.gpus, 'do')} not hold {tried}: {result.trials[-1].why_not}.", style="bold")
    elif wanted_MHz is None:
        show.say(f"{result.clock_MHz} MHz is the highest clock that {gpus} {_verb(result.gpus, 'hold')}.", style="bold")
    else:
        show.say(f"{gpus} {_verb(result.gpus, 'hold')} {wanted_MHz} MHz.", style="bold")


def _commands(clock_MHz: int, gpus: Sequence[int]) -> None:
    """What keeps a clock locked for a series of runs, and what unlocks it."""
    of = f" --id={','.join(map(str, gpus))}" if gpus else ""
    show.say()
    show.say("For a series of runs, keep the driver loaded, lock it, and unlock it at the end:")
    show.line(f"  sudo nvidia-smi{of} --persistence-mode=1")
    show.line(f"  sudo nvidia-smi{of} --lock-gpu-clocks={clock_MHz},{clock_MHz}")
    show.line(f"  sudo nvidia-smi{of} --reset-gpu-clocks")


def _left(before_MHz: Mapping[int, int | None]) -> str:
    locked = [f"GPU {gpu} at {clock_MHz} MHz" for gpu, clock_MHz in before_MHz.items() if clock_MHz is not None]
    if locked:
        return f"locked as before: {', '.join(locked)}"
    return "unlocked; a lock from before that did not show under load has to be set again"


def _named(gpus: Sequence[int]) -> str:
    return f"GPU {gpus[0]}" if len(gpus) == 1 else f"GPUs {', '.join(map(str, gpus))}"


def _verb(gpus: Sequence[int], plural: str) -> str:
    return plural if len(gpus) > 1 else {"do": "does", "hold": "holds"}[plural]
