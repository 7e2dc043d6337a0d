"""The screen of two benches compared: the answer, then ratios by size, crossings, and what else differs."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from resnetx.cli import show
from resnetx.record.bench_comparison import BenchComparison, BenchRatio
from resnetx.units import size_text

CELLS = 12  # pairs that are shown, those that differ most; --all shows all
UNMATCHED = 6


def comparison(found: BenchComparison) -> None:
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
        columns = [">size", ">B / A", ">A us", ">B us", ">A GB/s", ">B GB/s"]
        show.say()
        show.table(f"{title}: {what} ({where})", columns, list(map(_row, own)), _NOTE)


_NOTE = "B / A: of speed, above 1 B is faster. GB/s: size / time."


def _row(ratio: BenchRatio) -> list[str]:
    return [
        size_text(ratio.size_bytes),
        f"{ratio.ratio:.3f}",
        f"{ratio.a_s * 1e6:,.1f}",
        f"{ratio.b_s * 1e6:,.1f}",
        f"{ratio.size_bytes / ratio.a_s / 1e9:.3g}",
        f"{ratio.size_bytes / ratio.b_s / 1e9:.3g}",
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
