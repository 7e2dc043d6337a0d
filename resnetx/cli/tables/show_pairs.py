"""Pair copies as a person sees them: what stands out, then each class of pairs at each size."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from resnetx.cli import show
from resnetx.formats.copy_rows import LOAD
from resnetx.interconnect.pair_reading import counted
from resnetx.record import BenchRecord
from resnetx.record.copies import CopyCell, CopyFamily
from resnetx.reporting.bench_answer import copied_GBps
from resnetx.units import size_text


def pairs(record: BenchRecord) -> None:
    """The copies of a record: verdicts, causes, and a table for each kind, direction and kind of memory."""
    groups: dict[CopyFamily, list[CopyCell]] = defaultdict(list)
    for cell in record.cells:
        if cell.copy != LOAD:  # no copy: it has no bandwidth
            groups[cell.family].append(cell)
    for family, cells in groups.items():
        said = _verdicts(cells)
        title = f"{family.words}, {family.endpoint} memory ({record.source}){f': {said}' if said else ''}"
        columns = [">size", "class", ">copies", ">time us", ">GB/s", ">least", ">most", ">expected", "verdict"]
        show.table(
            title,
            columns,
            _rows(cells),
            _NOTE + _EXPECTED * bool(said),
            ["copies", "least", "most"],
        )
        for line in _causes(cells):
            show.say(line)


_NOTE = "Medians over the pairs of a class; GB is 1e9 bytes, both directions summed."
_EXPECTED = " expected: by the described topology."
_CAUSES = 2  # that are shown of each copy; the record has all


def _verdicts(cells: Sequence[CopyCell]) -> str:
    """How many are as described, and how many are not; "" where nothing is described."""
    if all(cell.expected_s is None for cell in cells):
        return ""
    return ", ".join(f"{count} {_WORDS.get(verdict, verdict)}" for verdict, count in counted(cells))


_WORDS = {"not judged": "with no reference"}


def _rows(cells: Sequence[CopyCell]) -> list[list[str]]:
    alike: dict[tuple[int, str], list[CopyCell]] = defaultdict(list)
    for cell in cells:
        alike[cell.size_bytes, cell.pair_class or ("beside others" if cell.together else "")].append(cell)
    rows = []
    for (size_bytes, name), same in sorted(alike.items(), key=lambda each: (each[0][0], _time_s(each[1]))):
        rates = sorted(copied_GBps(cell, median(cell.time_s)) for cell in same)
        expected = [copied_GBps(cell, cell.expected_s) for cell in same if cell.expected_s]
        rows.append(
            [
                size_text(size_bytes), {"one class": "all alike"}.get(name, name), str(len(same)),
                f"{_time_s(same) * 1e6:,.1f}", _figure(median(rates)),
                _figure(rates[0]), _figure(rates[-1]), _figure(median(expected)) if expected else "",
                _verdicts(same),
            ]
        )  # fmt: skip
    return rows


def _time_s(cells: Sequence[CopyCell]) -> float:
    return median(median(cell.time_s) for cell in cells)


def _figure(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _causes(cells: Sequence[CopyCell]) -> list[str]:
    """What to check, for each set of causes once."""
    found: dict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    for cell in cells:
        if cell.causes:
            found[cell.verdict, tuple(cell.causes[:_CAUSES])] += 1
    return [f"{verdict}, {count} copies; to check: {'; '.join(causes)}" for (verdict, causes), count in found.items()]
