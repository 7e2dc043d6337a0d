"""`doctor`, what this machine can run, or which clock its GPUs sustain; `check`, which nodes and pairs are slow."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.api.answers import check_answer
from resnetx.api.doctor import FINDINGS, findings, without_gpus, works
from resnetx.api.measuring import machine_name
from resnetx.cli import show
from resnetx.cli.verbs.show_train import Planned, left_to_others
from resnetx.fleet import execute
from resnetx.fleet.check_runs import AskedCheck, asked_check, rounds
from resnetx.fleet.outliers import LEAST, against, seconds_text
from resnetx.measure.held_clock import ClockSearchResult
from resnetx.record.topologies import Check, CheckedRun, CheckFolder, Measure
from resnetx.request import Request
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import duration

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
    told = _held(search.answer, search.wanted_MHz)
    screen = partial(show_clock, search.answer, search.load, search.before_MHz, some=search.some)
    show.conclude(options, [told], lambda: [search.answer], screen)
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
    before_MHz: Mapping[int, int | None],
    *,
    some: bool,
) -> None:
    """The commands that keep the clock, and what it was found by; `some`: the machine has other GPUs besides."""
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


def _held(result: ClockSearchResult, wanted_MHz: int | None) -> str:
    """`wanted_MHz`: the clock that was to be tried, if one was."""
    gpus = _named(result.gpus)
    if result.clock_MHz is None:
        tried = "any clock that was tried" if wanted_MHz is None else f"{wanted_MHz} MHz"
        return f"{gpus} {_verb(result.gpus, 'do')} not hold {tried}: {result.trials[-1].why_not}."
    if wanted_MHz is None:
        return f"{result.clock_MHz} MHz is the highest clock that {gpus} {_verb(result.gpus, 'hold')}."
    return f"{gpus} {_verb(result.gpus, 'hold')} {wanted_MHz} MHz."


def _commands(clock_MHz: int, gpus: Sequence[int]) -> None:
    """What keeps a clock locked for a series of runs, and what unlocks it."""
    of = f" --id={','.join(map(str, gpus))}" if gpus else ""
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


# ---- check ----------------------------------------------------------------------------------------------------------


def check_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Checks nodes, or leaves it to a job; status 1 where something stands out, or nothing was run."""
    made = asked_check(asked)
    launch = made.fleet.launch
    planned = _planned(made)
    if left_to_others(options, "check", asked, launch, made.results, planned):
        return 0
    kept = execute(made)
    screen = partial(check, kept.record, kept.folder)
    show.conclude(options, check_answer(kept.record), lambda: [kept.record], screen)
    return 0 if kept.record.healthy and kept.record.runs else 1


def _planned(made: AskedCheck) -> list[Planned]:
    """Every run of a check that has time for all of them."""
    folder, names = CheckFolder(made.results / machine_name(made.fleet.launch) / "check"), made.fleet.names
    single: list[Measure] = ["all-reduce", "training"] if made.gpus > 1 else ["training"]
    runs: list[tuple[Measure, tuple[str, ...]]] = [(measure, (name,)) for measure in single for name in names]
    runs += [("pair", pair) for pairs in rounds(names) for pair in pairs]
    return [(made.task(measure, *nodes), folder.run(measure, nodes)) for measure, nodes in runs]


# The screen of a check: which nodes stand out and why, what was measured, by what it is judged.

NAMED = 3  # outliers, and what was left out, without --all


def check(made: Check, folder: CheckFolder) -> None:
    """Runs, outliers first; the causes of those that the answer does not name; by what runs are judged."""
    ordered = sorted(made.runs, key=lambda run: (not against(run), -(run.time_s or float("inf"))))
    if ordered:
        show.listing(RUNS, ordered, by="outliers and the slowest, and the fastest", constant=True)
    others = made.outliers if show.everything() else made.outliers[1:]
    for outlier in show.first(others, NAMED):
        causes = show.first(outlier.causes, 1)
        why = "; ".join(
            cause.evidence if cause.kind == "unknown" else f"{cause.kind}: {cause.evidence}" for cause in causes
        )
        show.say(f"{outlier.name}, {outlier.measure}: {outlier.found}. {why[0].upper()}{why[1:]}.")
    for remark in show.first(made.remarks, NAMED):
        show.say(f"Note on {remark.node} (not an outlier): {remark.cause.kind}: {remark.cause.evidence}.")
    for sentence in show.first(made.left_out, NAMED):
        show.say(f"Left out: {sentence}.")
    _rule(made)
    show.line(f"record: {folder.check}")


_WHAT: dict[Measure, str] = {"all-reduce": "all-reduce", "training": "training step", "pair": "all-reduce of a pair"}


def _time(time_s: float | None) -> str:
    return "" if time_s is None else seconds_text(time_s)


RUNS: list[Column[CheckedRun]] = [
    Column("node", lambda run: " - ".join(run.nodes)),
    Column("of", lambda run: _WHAT[run.measure]),
    Column(">time", lambda run: "no end" if run.time_s is None else seconds_text(run.time_s)),
    Column(">median", lambda run: _time(run.median_s), 6, "of the nodes."),
    Column(">limit", lambda run: _time(run.limit_s), 7),
    Column(">described", lambda run: _time(run.expected_s), 8),
    Column("outlier", lambda run: "yes" if against(run) else ""),
]


def _rule(made: Check) -> None:
    """By what runs are judged, and how much was tried."""
    compared = any(run.limit_s is not None for run in made.runs)
    limit = (
        f"an outlier takes over {made.spreads:g} robust standard deviations, and over {made.floor:.0%}, more than the "
        "nodes' median"
    )
    few = f"with fewer than {LEAST} runs of a kind, only failures and the described limits count"
    show.say(f"sure: {limit if compared else few}.")
    system = f"described: what {made.system} allows" if made.system else "no system is described (systems=NAME)"
    pairs = f"; {made.pairs_tried} of {made.pairs} pairs were tried" * bool(made.pairs)
    hidden = max(len(made.outliers) - 1, len(made.remarks), len(made.left_out)) > NAMED or len(made.runs) > show.ROWS
    more = "; --all" * (hidden and not show.everything())
    show.more(f"{duration(made.duration_s)} of {duration(made.budget_s)}{pairs}; {system}{more}")
