"""The screen of two studies compared: the conclusion, then points, means, and what else differs."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from resnetx.cli import show
from resnetx.record.comparison import (
    BenchComparison,
    BenchRatio,
    ComparedPoint,
    Comparison,
    Difference,
    Mean,
    StudySide,
    Unmatched,
)
from resnetx.reporting.compare.studies import ENDS, conclusion
from resnetx.statistics import Summary
from resnetx.units import si, size_text

POINTS = 12  # the most that are shown, those that differ most; --all shows all


def comparison(compared: Comparison) -> None:
    """B over A."""
    show.say(" ".join(conclusion(compared)))
    if compared.means:
        show.say()
        _means(compared.means)
    show.say()
    if len(compared.points) <= POINTS or show.everything():
        _points(compared.points)
    elif differing := [point for point in compared.points if point.verdict == "different"]:
        _points(differing)
    if compared.only_in_one:
        _only_in_one(compared.only_in_one)
    _machines(compared.machines)
    for letter, study in (("A", compared.a), ("B", compared.b)):
        show.line(f"{letter}: study {study.name} on {study.node} ({study.folder})")
    if not show.everything():
        show.say("more: every case, and what differs in each record: --all")


def _only_in_one(points: Sequence[Unmatched]) -> None:
    """How many points one study lacks; --all: which."""
    counts = Counter(point.study for point in points)
    if not show.everything():
        show.say(f"in one study only: {' and '.join(f'{count} cases of {study}' for study, count in counts.items())}.")
        return
    show.say()
    rows = [[point.study, point.point, point.outcome] for point in points]
    show.table("In one study only", ["in", "point", "outcome"], rows)
    show.say()


# ---- points ---------------------------------------------------------------------------------------------------------


def _points(points: Sequence[ComparedPoint]) -> None:
    columns = [
        "workload", ">batch", "variant", ">GPUs", ">B / A", "ends", "difference", ">p", ">speed-up B / A",
        "its ends", ">A images/s", ">B images/s", ">A runs", ">B runs",
    ]  # fmt: skip
    limits = ["A limited by", "B limited by"] * show.everything()
    least = [*limits, "A runs", "B runs", "A images/s", "B images/s", "p", "its ends", "speed-up B / A"]
    shown = points if len(points) <= POINTS else show.first(sorted(points, key=_distance, reverse=True), POINTS)
    title = "B over A, point by point" + f": the {len(shown)} with the largest difference" * (len(shown) < len(points))
    rows = [_point_row(point)[: len(columns) + len(limits)] for point in shown]
    show.table(title, [*columns, *limits], rows, _points_note(points), least)
    if len(shown) < len(points):
        show.say(f"--all shows all {len(points)} points.")


def _points_note(points: Sequence[ComparedPoint]) -> str:
    baselines = ", ".join(dict.fromkeys(point.baseline for point in points if point.speedup_ratio))
    kinds = {point.ratio.kind for point in points if point.ratio}
    ends = " or ".join(words for kind, words in ENDS.items() if kind in kinds)
    return (
        f"B / A: of the medians of images/s; ends: of its {ends or 'range'}. p: adjusted for the number of points."
        + f" speed-up B / A: ratio of the speed-ups over {baselines}." * bool(baselines)
    )


def _distance(point: ComparedPoint) -> float:
    """How far from equal a point is in both studies."""
    return 0.0 if point.ratio is None else max(point.ratio.median, 1 / point.ratio.median)


def _point_row(point: ComparedPoint) -> list[str]:
    return [
        point.workload,
        point.batch.removeprefix("batch "),
        point.variant,
        f"{point.request.gpus}",
        *_ratio_cells(point.ratio),
        point.verdict,
        "" if point.adjusted_p is None else f"{point.adjusted_p:.2g}",
        *_ratio_cells(point.speedup_ratio),
        _rate(point.a),
        _rate(point.b),
        _runs(point.a),
        _runs(point.b),
        point.a.limited_by,
        point.b.limited_by,
    ]


def _ratio_cells(ratio: Summary | None) -> list[str]:
    """A ratio, and its ends."""
    if ratio is None:
        return ["", ""]
    return [f"{ratio.median:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio.n > 1 else ""]


def _rate(side: StudySide) -> str:
    return si(side.images_per_s.median) if side.images_per_s else side.outcome


def _runs(side: StudySide) -> str:
    return f"{side.images_per_s.n}" if side.images_per_s else "0"


# ---- means, machines ------------------------------------------------------------------------------------------------


def _means(means: Sequence[Mean]) -> None:
    columns = [">GPUs", ">points", ">B / A", "ends", ">speed-up B / A", "its ends", ">of points"]
    rows = [
        [
            f"{mean.gpus}",
            f"{mean.points}",
            *_ratio_cells(mean.ratio),
            *_ratio_cells(mean.speedup_ratio),
            f"{mean.speedup_points}" if mean.speedup_ratio else "",
        ]
        for mean in means
    ]
    show.table("Geometric means over the points", columns, rows, least=["of points", "its ends"])


def _machines(machines: Sequence[Difference]) -> None:
    if not machines:
        show.say("Machines, software and environment: no difference in the records of the two studies.")
        return
    rows = [
        [difference.name, f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{_flag(difference)}"]
        for difference in machines
    ]
    note = "From the runs of the points above. unknown: not in any record."
    title = "Other differences: machines, software and environment"
    show.table(title, ["in the records", "~values"], rows, note)


def _flag(difference: Difference) -> str:
    return f" (varies within {' and '.join(difference.varies_in)})" if difference.varies_in else ""


# The screen of two benches compared: the answer, then ratios by size, crossings, and what else differs.

CELLS = 12  # pairs that are shown, those that differ most; --all shows all
UNMATCHED = 6


def bench_comparison(found: BenchComparison) -> None:
    """B over A."""
    for letter, bench in (("A", found.a), ("B", found.b)):
        show.line(f"{letter}: {', '.join(bench.libraries) or 'a bench'} ({bench.path})")
    least, most = (size_text(size) for size in found.band_bytes)
    for mean in found.means:
        where = ", ".join(filter(None, (f"{mean.gpus} GPUs" if mean.gpus else "", mean.pair_class)))
        said = f"{mean.what} ({where}): B is {mean.ratio:.2f} times as fast as A from {least} to {most}"
        show.say(f"{said}, the geometric mean of {mean.sizes} sizes.")
    if not (found.collectives or found.cells):
        show.say("The two have no operation at the same size, so that nothing can be compared.")
    for crossing in found.crossings:
        where = ", ".join(filter(None, (f"{crossing.gpus} GPUs" if crossing.gpus else "", crossing.pair_class)))
        at = size_text(round(crossing.at_bytes))
        show.say(f"{crossing.what} ({where}): {crossing.ahead_above} is ahead from about {at} on.")
    _ratios("Collectives", found.collectives)
    _ratios("Pair copies, by class", found.classes)
    _cells(found.cells)
    for words in show.first(found.only_in_one, UNMATCHED):
        show.say(f"in one only: {words}")
    if found.machines:
        show.say()
        columns = ["what differs", "A", "B"]
        rows = [[each.name, "; ".join(each.a), "; ".join(each.b)] for each in found.machines]
        show.table("Environments", columns, rows)


def _ratios(title: str, ratios: Sequence[BenchRatio]) -> None:
    if not ratios:
        return
    lines: dict[tuple[str, int | None, str | None], list[BenchRatio]] = defaultdict(list)
    for ratio in ratios:
        lines[ratio.what, ratio.gpus, ratio.pair_class].append(ratio)
    for (what, gpus, pair_class), own in lines.items():
        where = ", ".join(filter(None, (f"{gpus} GPUs" if gpus else "", pair_class)))
        columns = [">size", ">B / A", ">A us", ">B us", ">A GiB/s", ">B GiB/s"]
        show.say()
        show.table(f"{title}: {what} ({where})", columns, list(map(_row, own)), _NOTE)


_NOTE = "B / A: of speed, above 1 B is faster. GiB/s: effective bandwidth, payload over time (2**30 bytes)."


def _row(ratio: BenchRatio) -> list[str]:
    return [
        size_text(ratio.size_bytes),
        f"{ratio.ratio:.3f}",
        f"{ratio.a_s * 1e6:,.1f}",
        f"{ratio.b_s * 1e6:,.1f}",
        f"{ratio.a_GiBps:.3g}",
        f"{ratio.b_GiBps:.3g}",
    ]


def _cells(cells: Sequence[BenchRatio]) -> None:
    """The pairs that differ most, by the median of their ratios over sizes."""
    pairs: dict[tuple[str, object, object], list[float]] = defaultdict(list)
    for cell in cells:
        pairs[cell.what, cell.source, cell.target].append(cell.ratio)
    if not pairs:
        return
    ordered = sorted(pairs.items(), key=lambda each: -abs(median(each[1]) - 1))
    shown = show.first(ordered, CELLS)
    rows = [
        [what, f"{source}", f"{target}", f"{median(ratios):.3f}", f"{min(ratios):.3f}", f"{max(ratios):.3f}"]
        for (what, source, target), ratios in shown
    ]
    title = f"Pairs that differ most, {len(shown)} of {len(pairs)}"
    show.say()
    show.table(title, ["copies", ">from", ">to", ">B / A", ">least", ">most"], rows, "B / A: the median over sizes.")
