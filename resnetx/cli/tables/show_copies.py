"""Pair copies as a person sees them: matrices of the largest size, latencies of the smallest.

A row sends and a column receives. Kinds whose places are not pairs of GPUs are lists.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from resnetx.cli import show
from resnetx.formats.copy_rows import LOAD, STAGED
from resnetx.record import BenchRecord, CopyCell
from resnetx.record.copies import CopyFamily, Place
from resnetx.reporting.bench_answer import copied_GBps
from resnetx.units import size_text

_MATRICES = ("device", "relay", STAGED)  # kinds that go from every GPU to every other one


def copies(record: BenchRecord) -> None:
    """The cells of a record, kind by kind."""
    if record.devices and record.source != "measured":
        names = Counter(device.name for device in record.devices)
        show.say(f"GPUs: {', '.join(f'{count} x {name}' for name, count in names.items())}")
    kinds: dict[tuple[CopyFamily, bool], list[CopyCell]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.family):
        beside_others = bool(cell.together) and cell.copy != "together"
        kinds.setdefault((cell.family, beside_others), []).append(cell)
    for (family, _), cells in kinds.items():
        largest, smallest = (pick(cell.size_bytes for cell in cells) for pick in (max, min))
        title = f"copy={family.copy}, {family.direction}{family.issued}, gpus={record.world_size}, {_paths(cells)}"
        if family.copy == LOAD:
            _matrix(f"{title}: ns of one access, to memory of the sender", cells, _ns)
        elif family.copy in _MATRICES:
            how = "in one direction" if family.direction == "one-way" else "both directions summed"
            _matrix(f"{title}: GB/s of {size_text(largest)} {how}", _at(cells, largest), _GBps)
            if smallest < largest:
                _matrix(f"us of {size_text(smallest)}", _at(cells, smallest), _us)
        elif family.copy == "together":
            _sharing(title, cells)
        else:
            _list(title, cells, smallest, largest)
        _wrong(cells)


def _matrix(title: str, cells: Sequence[CopyCell], text: Callable[[CopyCell], str]) -> None:
    sources, targets = (sorted(ends, key=_order) for ends in ({c.source for c in cells}, {c.target for c in cells}))
    if all(isinstance(place, int) for place in (*sources, *targets)):
        sources = targets = sorted({*sources, *targets}, key=_order)
    times = {(cell.source, cell.target): cell for cell in cells}
    rows = [
        [f"{source}", *(text(times[source, target]) if (source, target) in times else "" for target in targets)]
        for source in sources
    ]
    show.table(title, [">from \\ to", *(f">{place}" for place in targets)], rows)


def _order(place: Place) -> tuple[bool, int, str]:
    """GPUs by their numbers, then places of hosts."""
    return (True, 0, place) if isinstance(place, str) else (False, place, "")


def _list(title: str, cells: Sequence[CopyCell], smallest: int, largest: int) -> None:
    at_smallest = {(cell.source, cell.target): cell for cell in _at(cells, smallest)}
    rows = [
        [f"{cell.source}", f"{cell.target}", _us(at_smallest[cell.source, cell.target]), _GBps(cell)]
        for cell in sorted(_at(cells, largest), key=lambda cell: (str(cell.source), str(cell.target)))
    ]
    columns = [">from", ">to", f">us of {size_text(smallest)}", f">GB/s of {size_text(largest)}"]
    show.table(title, columns, rows, *_beside(cells))


def _beside(cells: Sequence[CopyCell]) -> list[str]:
    return ["All of them at once."] if any(cell.together for cell in cells) else []


def _sharing(title: str, cells: Sequence[CopyCell]) -> None:
    """What a pair keeps of its bandwidth while another one copies, the least of all others first."""
    alone = {(cell.source, cell.target): median(cell.time_s) for cell in cells if not cell.together}
    kept = sorted(
        (
            alone[cell.source, cell.target] / median(cell.time_s),
            f"{cell.source} to {cell.target}",
            f"{other.source} to {other.target}",
        )
        for cell in cells
        for other in cell.together
        if (cell.source, cell.target) in alone
    )
    rows = [[pair, other, f"{share:.0%}"] for share, pair, other in show.first(kept, 12)]
    size = size_text(max(cell.size_bytes for cell in cells))
    note = f"Share of its own bandwidth at {size}; the {len(rows)} that lose most of {len(kept)} (--all: all of them)."
    show.table(title, ["pair", "beside", ">keeps"], rows, note)


def _wrong(cells: Sequence[CopyCell]) -> None:
    for cell in cells:
        if cell.wrong:
            bytes_are = "byte is" if cell.wrong == 1 else "bytes are"
            place = f"{cell.source} to {cell.target}, {size_text(cell.size_bytes)}"
            show.say(f"{place}: {cell.wrong:,} {bytes_are} wrong")


def _at(cells: Sequence[CopyCell], size_bytes: int) -> list[CopyCell]:
    return [cell for cell in cells if cell.size_bytes == size_bytes]


def _paths(cells: Sequence[CopyCell]) -> str:
    return " and ".join(sorted({cell.path or "path not known" for cell in cells}))


def _GBps(cell: CopyCell) -> str:
    value = copied_GBps(cell, median(cell.time_s))
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _ns(cell: CopyCell) -> str:
    return f"{median(cell.time_s) * 1e9:,.0f}"


def _us(cell: CopyCell) -> str:
    return f"{median(cell.time_s) * 1e6:,.1f}"
