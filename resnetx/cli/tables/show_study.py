"""The screen of a study: each point's rate, speed-up, efficiency and limit, and where the time goes."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean

from resnetx.cli import show
from resnetx.cli.tables.show_run import PHASES, ms, parts
from resnetx.reporting.study.answer import WORDS, gains, last_of_lines, study_answer, where_rows
from resnetx.reporting.study.limits import PARTS, Limits, StepPart
from resnetx.reporting.study.points import StudyPoint, unit_of_points
from resnetx.reporting.worth import worth
from resnetx.statistics import Summary
from resnetx.units import si

NAMES = ["workload", "batch", "variant"]
NAMED = 3  # points of which the same is to be noted, by name; --all names all
_ENDS = {"interval": "95 % interval", "range": "range"}


def study(name: str, about: str, node: str, points: Sequence[StudyPoint]) -> None:
    """The answer, each point's rate and speed-up, where the time goes; --all: what each control run shows, too."""
    show.say(study_answer(points, node))
    show.say()
    scaling(points)
    where(points)
    _worth(points)
    _notes(points)
    if show.everything() and any(point.result.limits and point.result.limits.shares for point in points):
        show.say()
        limits(points)
    if about:
        show.say(f"study {name}: {about}")


def scaling(points: Sequence[StudyPoint]) -> None:
    """Rate, speed-up and efficiency of each point, with the settings that differ; --all: its limit and intensity."""
    kinds = {point.result.images_per_s.kind for point in points if point.result.images_per_s}
    unit = unit_of_points(points)
    ends = " or ".join(name for kind, name in _ENDS.items() if kind in kinds) or "range"
    baselines = ", ".join(dict.fromkeys(point.result.baseline for point in points))
    columns = [f">{unit}s", ">images/s", f">{ends}", ">speed-up", f">its {ends}", ">efficiency", ">runs"]
    note = f"Medians of the runs, and {ends}. speed-up: over {baselines}."
    note += " A rank runs on CPU cores." * (unit == "rank")
    more = []
    if show.everything():
        more = ["limited by", ">lead", ">act./param.", f">per {unit}"]
        note += (
            " efficiency: speed-up / ideal. limited by: the largest share of the step, and its lead over the next in "
            "percentage points; with ?, the runs do not show that it is the largest. act./param.: activations per "
            f"parameter of the batch, and per {unit}."
        )
    rows = [_scaling_row(point)[: len(NAMES) + len(columns) + len(more)] for point in points]
    show.table("", [*NAMES, *columns, *more], rows, note, ["runs", "efficiency"])


def where(points: Sequence[StudyPoint]) -> None:
    """Where the time of each line goes on its most GPUs, over what speed-ups are over."""
    cells = where_rows(points)
    parts = [name for name in WORDS if any(name in of_point for _, of_point in cells)]
    rows = [[*_names(point), *(of_point.get(name, "") for name in parts)] for point, of_point in cells]
    if rows:
        note = "Percent of the step, over its baseline. below: the runs do not show that there is any."
        columns = [*NAMES, f">{unit_of_points(points)}s", *(f">{name}" for name in parts)]
        show.say()
        show.table("Where the time goes", columns, rows, note)
    found = [point.result.lost for point in last_of_lines(points) if point.result.lost and gains(point)]
    for why in dict.fromkeys(lost.why for lost in found if lost.why):
        show.say(f"Where the time goes: {why}.")


def _worth(points: Sequence[StudyPoint]) -> None:
    """How many GPUs of each line are worth it, and what would change that."""
    lines: dict[tuple[str, str, str], list[StudyPoint]] = defaultdict(list)
    for point in points:
        if point.result.images_per_s:
            lines[point.line].append(point)
    for line in show.first(list(lines.values()), 1):
        rates = {point.gpus: point.result.images_per_s.median for point in line if point.result.images_per_s}
        lost = max(line, key=lambda point: point.gpus).result.lost
        shown = (
            {part.name: part.share.median for part in lost.parts if part.name != "useful" and part.shown}
            if lost
            else {}
        )
        if told := worth(rates, dict(shown), unit_of_points(line)):
            show.say(f"worth{f', {line[0].line_words}' if len(lines) > 1 else ''}: {told}")


def _names(point: StudyPoint) -> list[str]:
    """The first cells of a point's row."""
    return [point.workload, point.batch.removeprefix("batch "), point.variant, f"{point.gpus}"]


def _scaling_row(point: StudyPoint) -> list[str]:
    result = point.result
    rate, speedup, efficiency = result.images_per_s, result.speedup, result.efficiency
    return [
        *_names(point),
        si(rate.median) if rate else result.outcome,
        _range(rate, si),
        f"{speedup.median:.2f}" if speedup else "",
        _range(speedup, "{:.2f}".format),
        f"{efficiency.median:.0%}" if efficiency else "",
        f"{rate.n}" if rate else "0",
        *(_limit(result.limits) if result.limits else ["", ""]),
        f"{point.counts.intensity:,.1f}" if point.counts else "",
        f"{point.counts.intensity / point.gpus:,.1f}" if point.counts else "",
    ]


def _range(summary: Summary | None, text: Callable[[float], str]) -> str:
    return f"{text(summary.low)} to {text(summary.high)}" if summary and summary.n > 1 else ""


def _limit(point_limits: Limits) -> list[str]:
    """What limits a point, and by how many percentage points it leads."""
    if point_limits.unknown:
        return ["unknown", ""]
    largest = max(point_limits.shares, key=lambda part: point_limits.shares[part].median)
    lead = "" if point_limits.margin is None else f"{100 * point_limits.margin.median:.0f}"
    return [largest + "?" * (point_limits.verdict is None), lead]


def _notes(points: Sequence[StudyPoint]) -> None:
    """What is to be noted of points (why one is missing, what stands out, warnings), each thing once."""
    noted: dict[str, list[str]] = defaultdict(list)
    for point in points:
        for note in [point.result.reason, *point.result.notes, *_unknown(point.result.limits)]:
            if note:
                noted[note].append(point.words)
    for note, names in noted.items():
        shown = show.first(names, NAMED)
        more = f" and {len(names) - len(shown)} more" * (len(names) > len(shown))
        which = f"all {len(points)} points" if len(names) == len(points) > 1 else "; ".join(shown) + more
        show.say(f"look: {note}: {which}", indent=2)


def _unknown(point_limits: Limits | None) -> list[str]:
    """A sentence for each reason for which parts are not known."""
    unknown = point_limits.unknown if point_limits else {}
    return [
        f"{' and '.join(part for part in unknown if unknown[part] == why)}: {why}"
        for why in dict.fromkeys(unknown.values())
    ]


# ---- where the time goes --------------------------------------------------------------------------------------------


def limits(points: Sequence[StudyPoint]) -> None:
    """Where the time of each point goes: the clean step's shares by its twins, and an instrumented step."""
    _shares([(point, point.result.limits) for point in points if point.result.limits])
    watched = [
        [*_names(point), *(ms(fmean(part)) for part in parts(point.result.limits.phases))]
        for point in points
        if point.result.limits and point.result.limits.phases
    ]
    if watched:
        columns = [
            "workload",
            "batch",
            "variant",
            f">{unit_of_points(points)}s",
            ">step",
            *(f">{phase}" for phase in PHASES),
        ]
        note = "Of the twin `phases`, over ranks and steps. exposed: communication not hidden by computation."
        if any(point.result.limits and not point.result.limits.shares for point in points):
            note += " Measured by itself: it holds where the parts above are not known."
        show.say()
        show.table("Inside an instrumented step: mean ms", columns, watched, note, ["copy", "wait", "update"])


def _shares(known: Sequence[tuple[StudyPoint, Limits]]) -> None:
    unit = unit_of_points(point for point, _ in known)
    columns = [
        "workload", "batch", "variant", f">{unit}s", ">step ms", *(f">{part}" for part in PARTS), ">loader images/s",
    ]  # fmt: skip
    present = [part for part in PARTS if any(part in found.shares or part in found.unknown for _, found in known)]
    rows = [
        [
            *_names(point),
            ms(found.step_s.median),
            *(_share(found, part) if part in present else "" for part in PARTS),
            si(found.loader_rate.median) if found.loader_rate else "",
        ]
        for point, found in known
    ]
    note = (
        "Share of the clean step that is saved in the twin without that part. `-`: not present. `?`: not known from "
        "these runs, as said above."
    )
    show.table("Time of a step by part", columns, rows, note, ["loader images/s"])


def _share(point_limits: Limits, part: StepPart) -> str:
    return (
        f"{point_limits.shares[part].median:.1%}"
        if part in point_limits.shares
        else "?"
        if part in point_limits.unknown
        else "-"
    )
