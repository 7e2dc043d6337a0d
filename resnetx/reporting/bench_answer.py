"""What a bench of collectives answers, in sentences: how fast, from which size on, and whether results are right."""

from collections.abc import Iterator
from statistics import median

from resnetx.interconnect.knees import knees
from resnetx.interconnect.measured import telling_times
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord
from resnetx.record.bench import TEST_FAILED, WRONG_ELEMENTS
from resnetx.units import size_text

MOST = 3  # collectives, by name


def bench_answer(record: BenchRecord) -> str:
    """Of each collective its highest bus bandwidth, where half of it is reached, and its time at the smallest size."""
    names = list(dict.fromkeys(point.collective for point in record.points))
    if record.outcome != "ok" or not names:
        return ""
    where = "Measured" if record.source == "measured" else "Imported"
    ranks = f"{record.world_size} ranks" if record.world_size else "an unknown number of ranks"
    told = "; ".join(_speed(record, name) for name in names[:MOST])
    more = f"; {len(names) - MOST} more below" * (len(names) > MOST)
    return f"{where}, {ranks}, {record.library or 'library unknown'}: {told}{more}. " + " ".join(_right(record))


def _speed(record: BenchRecord, name: str) -> str:
    points = sorted((point for point in record.points if point.collective == name), key=lambda each: each.size_bytes)
    times_s = {point.size_bytes: median(telling) for point, telling in zip(points, telling_times(points), strict=True)}
    smallest, rates = points[0].size_bytes, {size: size / time_s for size, time_s in times_s.items()}
    best = max(rates, key=lambda size: rates[size])
    factor = OPERATIONS[name].bus_factor(record.world_size) if record.world_size else 1.0
    found = knees(times_s)
    half = f", half of it from {size_text(round(found.half_bytes))} on" if found and found.half_bytes else ""
    kind = "GB/s bus bandwidth" if record.world_size else "GB/s (size / time)"
    fast = f"{name} reaches {rates[best] * factor / 1e9:.3g} {kind} at {size_text(best)}{half}"
    return fast + f"; {size_text(smallest)} take {_time(times_s[smallest])}" * (smallest != best)


def _right(record: BenchRecord) -> Iterator[str]:
    """Whether results are right, and how many sizes are slower than described."""
    points, codes = record.points, {warning.code for warning in record.warnings}
    if TEST_FAILED in codes:
        yield "The test FAILED behind these sizes."
    checked = [point for point in points if point.wrong is not None]
    if wrong := [point for point in checked if point.wrong]:
        yield f"WRONG results at {len(wrong)} of {len(checked)} sizes."
    elif WRONG_ELEMENTS in codes:
        yield "WRONG results."
    elif len(checked) == len(points) and TEST_FAILED not in codes:
        yield "All results are right."
    if slow := [point for point in points if point.verdict == "low"]:
        yield f"Slower than described at {len(slow)} of {len(points)} sizes."


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
