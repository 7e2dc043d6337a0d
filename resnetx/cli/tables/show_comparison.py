"""The screen of two studies compared: the conclusion, then points, means, and what else differs."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from resnetx.cli import show
from resnetx.record.comparison import BenchComparison, BenchRatio, ComparedPoint, Comparison, Difference, Unmatched
from resnetx.reporting.compare.studies import compared_columns, mean_columns
from resnetx.units import size_text


def comparison(compared: Comparison) -> None:
    """Means, the cases that differ (--all: each), and what else differs between the studies."""
    if compared.means:
        show.listing(mean_columns(compared), compared.means, "Geometric means over the cases")
        show.say()
    points = compared.points
    if len(points) > show.ROWS and not show.everything():
        points = [point for point in points if point.verdict == "different"]
    if points:
        ranked = sorted(points, key=_distance, reverse=True) if len(points) > show.ROWS else points
        show.listing(compared_columns(compared), show.first(ranked, show.ROWS), "B over A, case by case")
    if compared.only_in_one:
        _only_in_one(compared.only_in_one)
    _machines(compared.machines)
    for letter, study in (("A", compared.a), ("B", compared.b)):
        show.line(f"{letter}: study {study.name} on {study.node} ({study.folder})")
    if not show.everything():
        show.say("more: every case, and what differs in each record: --all")


def _distance(point: ComparedPoint) -> float:
    """How far from equal a case is in both studies."""
    return 0.0 if point.ratio is None else max(point.ratio.median, 1 / point.ratio.median)


def _only_in_one(points: Sequence[Unmatched]) -> None:
    """How many points one study lacks; --all: which."""
    counts = Counter(point.study for point in points)
    if not show.everything():
        show.say(f"in one study only: {' and '.join(f'{count} cases of {study}' for study, count in counts.items())}.")
        return
    show.say()
    rows = [[point.study, point.point, point.outcome] for point in points]
    show.table("In one study only", ["in", "case", "outcome"], rows)
    show.say()


def _machines(machines: Sequence[Difference]) -> None:
    if not machines:
        show.say("Machines, software and environment: no difference in the records of the two studies.")
        return
    rows = [
        [difference.name, f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{_flag(difference)}"]
        for difference in machines
    ]
    note = "From the runs of the cases above. unknown: not in any record."
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
    _ratios("Collectives", found.collectives)
    _ratios("Pair copies, by class", found.classes)
    _cells(found.cells)
    for words in show.first(found.only_in_one, UNMATCHED):
        show.say(f"in one only: {words}")
    if found.machines:
        show.say()
        columns = ["what differs", "A", "B"]
        rows = [[machine.name, "; ".join(machine.a), "; ".join(machine.b)] for machine in found.machines]
        show.table("Environments", columns, rows)


def _ratios(title: str, ratios: Sequence[BenchRatio]) -> None:
    if not ratios:
        return
    lines: dict[tuple[str, int | None, str | None], list[BenchRatio]] = defaultdict(list)
    for ratio in ratios:
        lines[ratio.what, ratio.gpus, ratio.pair_class].append(ratio)
    for (what, gpus, pair_class), line in lines.items():
        where = ", ".join(filter(None, (f"{gpus} GPUs" if gpus else "", pair_class)))
        columns = [">size", ">B / A", ">A us", ">B us", ">A GB/s", ">B GB/s"]
        show.say()
        show.table(f"{title}: {what} ({where})", columns, list(map(_row, line)), _NOTE)


_NOTE = "B / A: of speed, above 1 B is faster. GB/s: size / time."


def _row(ratio: BenchRatio) -> list[str]:
    return [
        size_text(ratio.size_bytes),
        f"{ratio.ratio:.3f}",
        f"{ratio.a_s * 1e6:,.1f}",
        f"{ratio.b_s * 1e6:,.1f}",
        *(f"{ratio.size_bytes / time_s / 1e9:.3g}" if time_s else "?" for time_s in (ratio.a_s, ratio.b_s)),
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
