"""What a study answers, in a sentence: how far its workloads scale, and where the rest went."""

from collections.abc import Sequence

from resnetx.record.machine import Unit
from resnetx.reporting.study.lost_time import LostTime, MeasuredPartName
from resnetx.reporting.study.points import StudyPoint, unit_of_points
from resnetx.statistics import Summary
from resnetx.units import to_interval

WORDS: dict[MeasuredPartName, str] = {
    "useful": "useful",
    "input": "input",
    "communication": "exposed communication",
    "waiting": "waiting for the slowest",
    "communication and waiting": "communication and waiting",
    "smaller batches": "smaller batches",
    "the rest": "smaller batches and the rest",
}  # in the order of tables


def study_answer(points: Sequence[StudyPoint], node: str) -> str:
    """The point on most GPUs of the only line; or of several lines, those that gain least and most."""
    able = [point for point in points if point.result.images_per_s]
    if not able:
        return f"Not measured on {node}: none of {len(points)} cases has a run that went well."
    unit = unit_of_points(points)
    ends = last_of_lines(able)
    gained = [point for point in ends if point.result.speedup and point.result.efficiency and gains(point)]
    if len(ends) == 1:
        (point,) = ends
        rate = point.result.images_per_s
        assert rate, "chosen because it has a rate"
        what = (
            f"Measured on {node}: {_ranks(point.gpus, unit)} {'train' if point.gpus > 1 else 'trains'} {point.workload}"
        )
        if not gained or not point.result.speedup or not point.result.efficiency:
            return f"{what} at {_with_ends(rate)} images/s."
        over = f"as fast as {point.result.baseline.replace('1 ', 'one ', 1)}"
        efficiency = point.result.efficiency.median
        return f"{what} {_with_ends(point.result.speedup, ' times')} {over}, {efficiency:.0%} of ideal.{_lost(point)}"
    if not gained:
        return f"Measured on {node}: {len(able)} cases; none of them on more {unit}s than what it is compared with."
    ranked = sorted(gained, key=lambda point: point.result.speedup.median if point.result.speedup else 0.0)
    least, most = (f"{_with_ends(point.result.speedup)} ({point.words})" for point in (ranked[0], ranked[-1]))
    return f"Measured on {node}: speed-ups from {least} to {most}."


def last_of_lines(points: Sequence[StudyPoint]) -> list[StudyPoint]:
    """Of each line the point on most GPUs."""
    last: dict[tuple[str, ...], StudyPoint] = {}
    for point in sorted(points, key=lambda point: point.gpus):
        last[point.line] = point
    return [last[line] for line in dict.fromkeys(point.line for point in points)]


def gains(point: StudyPoint) -> bool:
    """Whether it is compared with another point than itself."""
    return not point.result.baseline.startswith(f"{point.gpus} ")


def _ranks(count: int, unit: Unit) -> str:
    return f"one {unit}" if count == 1 else f"{count} {unit}s"


def _with_ends(summary: Summary | None, unit: str = "") -> str:
    """ "1.64 times (1.41 to 1.79)"; of one run there are no ends."""
    assert summary, "only points that have it"
    value, low, high = to_interval(summary.median, summary.low, summary.high)
    return f"{value}{unit}" + f" ({low} to {high})" * (summary.n > 1)


def _lost(point: StudyPoint) -> str:
    """Which parts are shown to take what is lost."""
    found, efficiency = point.result.lost, point.result.efficiency
    if not found or not found.parts or not efficiency or efficiency.median >= 1:
        return ""
    shown = sorted(
        (part for part in found.parts if part.name != "useful" and part.shown and part.share.median > 0),
        key=lambda part: -part.share.median,
    )
    lost = f" Of the {1 - efficiency.median:.0%} lost,"
    runs = min(part.share.n for part in found.parts)
    if not shown:
        return f"{lost} no part is resolved by {runs} repeat{'s' * (runs != 1)}."
    words = WORDS | {"the rest": "the rest"} if any(part.name == "smaller batches" for part in found.parts) else WORDS
    takes = [f"{words[part.name]} takes {percent(part.share)}" for part in shown]
    left = len(shown) < len(found.parts) - 1
    return f"{lost} {', '.join(takes)}" + f"; the rest is not resolved by {runs} repeats" * left + "."


def percent(share: Summary) -> str:
    """ "10 (6 to 26)", in percent."""
    value, low, high = (f"{100 * end:.0f}" for end in (share.median, share.low, share.high))
    return f"{value} ({low} to {high})" if share.n > 1 else value


def part_cells(found: LostTime) -> dict[MeasuredPartName, str]:
    """Each part in percent of the step; "below 8" where the runs do not show that there is any."""
    return {
        part.name: f"below {100 * part.share.high:.0f}"
        if part.share.kind == "interval" and not part.shown
        else f"{100 * part.share.median:.0f}"
        for part in found.parts
    }


def where_rows(points: Sequence[StudyPoint]) -> list[tuple[StudyPoint, dict[MeasuredPartName, str]]]:
    """Of each line its point on most GPUs, with the cells of its parts; none of a line whose parts are not known."""
    ends = [(point, point.result.lost) for point in last_of_lines(points) if gains(point)]
    return [(point, part_cells(lost)) for point, lost in ends if lost and lost.parts]
