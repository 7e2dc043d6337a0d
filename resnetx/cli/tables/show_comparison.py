"""The screen of two studies compared: the conclusion, then points, means, and what else differs."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from resnetx.cli import show
from resnetx.record.comparison import BenchComparison, BenchRatio, ComparedPoint, Comparison, Difference, Unmatched
from resnetx.record.copies import Place
from resnetx.reporting.compare.benches import DIFFERENCES, PAIR_RATIOS, RATIOS, PairRatios
from resnetx.reporting.compare.studies import UNMATCHED_POINTS, compared_columns, mean_columns


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
    show.listing(UNMATCHED_POINTS, points, "In one study only", every=True)
    show.say()


def _machines(machines: Sequence[Difference]) -> None:
    if not machines:
        show.say("Machines, software and environment: no difference in the records of the two studies.")
        return
    note = "From the runs of the cases above. unknown: not in any record."
    title = "Other differences: machines, software and environment"
    show.listing(DIFFERENCES, machines, title, note, every=True, constant=True)


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
        show.listing(DIFFERENCES, found.machines, "Environments", every=True, constant=True)


def _ratios(title: str, ratios: Sequence[BenchRatio]) -> None:
    if not ratios:
        return
    lines: dict[tuple[str, int | None, str | None], list[BenchRatio]] = defaultdict(list)
    for ratio in ratios:
        lines[ratio.what, ratio.gpus, ratio.pair_class].append(ratio)
    for (what, gpus, pair_class), line in lines.items():
        where = ", ".join(filter(None, (f"{gpus} ranks" if gpus else "", pair_class)))
        show.say()
        of_line = f"{title}: {what} ({where})"
        show.listing(RATIOS, line, of_line, by="the smallest and the largest", constant=True)


def _cells(cells: Sequence[BenchRatio]) -> None:
    """The pairs that differ most, by the median of their ratios over sizes."""
    pairs: dict[tuple[str, Place | None, Place | None], list[float]] = defaultdict(list)
    for cell in cells:
        pairs[cell.what, cell.source, cell.target].append(cell.ratio)
    if not pairs:
        return
    ordered = sorted(pairs.items(), key=lambda each: -abs(median(each[1]) - 1))
    shown = [PairRatios(*key, ratios) for key, ratios in show.first(ordered, CELLS)]
    show.say()
    title = f"Pairs that differ most, {len(shown)} of {len(pairs)}"
    show.listing(PAIR_RATIOS, shown, title, every=True, constant=True)
