"""Benches side by side: how much faster B is than A at each size, and which figures differ by more than they vary."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np

from resnetx import __version__
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.record import SCHEMA, BenchRecord, Environment, RunSummary
from resnetx.record.bench_record import CopyCell, CopyEnd, Times
from resnetx.record.comparisons import (
    BenchComparison,
    BenchCrossing,
    BenchMean,
    BenchRatio,
    ComparedBench,
    Difference,
    Letter,
)
from resnetx.record.machine import how_many
from resnetx.table import Answer, Column, as_shown
from resnetx.units import si, size_text

# ---- benches --------------------------------------------------------------------------------------------------------
# Two benches side by side: how much faster B is than A at each size, where that turns, and what else differs.
#
# STH (2017) compares two servers pair by pair, Tallent et al. 2017 (sections 4.1 and 4.2) collectives by size, with the
# mean over the payloads of their workloads. Sizes are compared that both have; nothing is interpolated.

GIB = 2**30
PAYLOADS_BYTES = (500_000, 6_000_000)  # of ResNet/x's gradients (Tallent et al. 2017, Fig. 10 and 11)


@dataclass(frozen=True, order=True)
class _Key:
    """What is the same in both: an operation, and where."""

    what: str
    gpus: int = 0  # 0: a copy
    pair: tuple[CopyEnd, CopyEnd] | None = None
    pair_class: str = ""

    @property
    def line(self) -> tuple[str, int | None, str | None]:
        return self.what, self.gpus or None, self.pair_class or None


TimesBySize = dict[_Key, dict[int, float]]  # by size in bytes: seconds


def compare_benches(
    a: tuple[Path, Sequence[BenchRecord]],
    b: tuple[Path, Sequence[BenchRecord]],
    band_bytes: tuple[int, int] = PAYLOADS_BYTES,
) -> BenchComparison:
    """B over A. `band_bytes`: the payloads that means are over."""
    (path_a, records_a), (path_b, records_b) = a, b
    of_collectives = _both(_collectives(records_a), _collectives(records_b))
    of_cells = _both(_cells(records_a), _cells(records_b))
    of_classes = _both(_classes(records_a), _classes(records_b))
    lines = {**of_collectives, **of_classes}
    all_a, all_b = ({**_collectives(records), **_cells(records)} for records in (records_a, records_b))
    return BenchComparison(
        kind="bench comparison",
        schema=SCHEMA,
        resnetx=__version__,
        a=_bench(path_a, records_a),
        b=_bench(path_b, records_b),
        band_bytes=list(band_bytes),
        collectives=_ratios(of_collectives),
        cells=_ratios(of_cells),
        classes=_ratios(of_classes),
        crossings=[crossing for key, ratios in lines.items() for crossing in _crossings(key, ratios)],
        means=[mean for key, ratios in lines.items() for mean in _mean(key, ratios, band_bytes)],
        only_in_one=[*_unmatched("A", all_a, all_b), *_unmatched("B", all_b, all_a)],
        machines=environment_differences(_environments(records_a), _environments(records_b)),
    )


def _bench(path: Path, records: Sequence[BenchRecord]) -> ComparedBench:
    return ComparedBench(
        path=str(path),
        sources=list(dict.fromkeys(record.source for record in records)),
        libraries=list(dict.fromkeys(record.library for record in records if record.library)),
        gpus=sorted({record.world_size for record in records if record.world_size}),
    )


def _environments(records: Sequence[BenchRecord]) -> list[tuple[int, Environment]]:
    return [(record.world_size or 0, record.environment) for record in records if record.environment]


# ---- what was measured


def _collectives(records: Iterable[BenchRecord]) -> TimesBySize:
    found: TimesBySize = {}
    for record in records:
        for name in dict.fromkeys(point.collective for point in record.points):
            points = [point for point in record.points if point.collective == name]
            for point, times_s in zip(points, telling_times(points), strict=True):
                found.setdefault(_Key(name, record.world_size or 0), {})[point.size_bytes] = median(times_s)
        for pattern in record.patterns:
            found.setdefault(_Key(pattern.what, record.world_size or 0), {})[pattern.size_bytes] = median(
                pattern.times_s
            )
    return found


def _cells(records: Iterable[BenchRecord]) -> TimesBySize:
    found: TimesBySize = {}
    for cell in _alone(records):
        key = _Key(_family(cell), pair=(cell.source, cell.target), pair_class="")
        at = found.setdefault(key, {})
        at[cell.size_bytes] = min(median(cell.time_s), at.get(cell.size_bytes, math.inf))
    return found


def _classes(records: Iterable[BenchRecord]) -> TimesBySize:
    times: dict[_Key, dict[int, list[float]]] = {}
    for cell in _alone(records):
        if cell.pair_class:
            at = times.setdefault(_Key(_family(cell), pair_class=cell.pair_class), {})
            at.setdefault(cell.size_bytes, []).append(median(cell.time_s))
    return {key: {size: median(found) for size, found in at.items()} for key, at in times.items()}


def _alone(records: Iterable[BenchRecord]) -> Iterator[CopyCell]:
    return (cell for record in records for cell in record.cells if cell.time_s and not cell.together)


def _family(cell: CopyCell) -> str:
    return f"{cell.family.words}, {cell.endpoint} memory"


# ---- one beside the other


@dataclass(frozen=True)
class _Ratio:
    a_s: float
    b_s: float

    @property
    def value(self) -> float:
        return self.a_s / self.b_s


Ratios = Mapping[int, _Ratio]  # by size, ascending


def _both(a: TimesBySize, b: TimesBySize) -> dict[_Key, Ratios]:
    shared = {key: sorted(a[key].keys() & b[key].keys()) for key in a if key in b}
    return {key: {size: _Ratio(a[key][size], b[key][size]) for size in sizes} for key, sizes in shared.items() if sizes}


def _ratios(found: Mapping[_Key, Ratios]) -> list[BenchRatio]:
    return [_one(key, size, ratio) for key, ratios in found.items() for size, ratio in ratios.items()]


def _one(key: _Key, size: int, ratio: _Ratio) -> BenchRatio:
    moved = size * (2 if ", both ways," in key.what else 1)
    what, gpus, pair_class = key.line
    return BenchRatio(
        what=what,
        gpus=gpus,
        source=key.pair[0] if key.pair else None,
        target=key.pair[1] if key.pair else None,
        pair_class=pair_class,
        size_bytes=size,
        a_s=ratio.a_s,
        b_s=ratio.b_s,
        a_GiBps=moved / ratio.a_s / GIB,
        b_GiBps=moved / ratio.b_s / GIB,
        ratio=ratio.value,
    )


def _crossings(key: _Key, ratios: Ratios) -> Iterator[BenchCrossing]:
    """Sizes between which the lead changes; where both are level, nobody leads."""
    what, gpus, pair_class = key.line
    leads = [(size, math.log(ratio.value)) for size, ratio in ratios.items() if ratio.value != 1]
    for (below, first), (above, second) in pairwise(leads):
        if (first > 0) != (second > 0):
            share = first / (first - second)
            yield BenchCrossing(
                what=what,
                gpus=gpus,
                pair_class=pair_class,
                above_bytes=below,
                below_bytes=above,
                at_bytes=math.exp(math.log(below) + share * math.log(above / below)),
                ahead_above="B" if second > 0 else "A",
            )


def _mean(key: _Key, ratios: Ratios, band_bytes: tuple[int, int]) -> Iterator[BenchMean]:
    within = [ratio.value for size, ratio in ratios.items() if band_bytes[0] <= size <= band_bytes[1]]
    if within:
        what, gpus, pair_class = key.line
        mean = math.exp(sum(map(math.log, within)) / len(within))
        yield BenchMean(what=what, gpus=gpus, pair_class=pair_class, sizes=len(within), ratio=mean)


def _unmatched(letter: str, own: TimesBySize, other: TimesBySize) -> Iterator[str]:
    """What one of the two has alone, an operation once."""
    missing: dict[str, int] = {}
    for key, sizes in own.items():
        if alone := len(sizes.keys() - other.get(key, {}).keys()):
            words = key.what + (f" on {key.gpus} ranks" if key.gpus else "")
            missing[words] = missing.get(words, 0) + alone
    return (f"{letter}: {words}, {count} figures" for words, count in missing.items())


# What differs between the machines, the software and the environment of two studies, by the records of their runs.
#
# Nothing is chosen here: whatever `record.Environment` has is compared, under the names that it has in a record. (The
# table of a page, `platform`, shows what papers state of a machine.)

Facts = dict[str, str]  # path in a record -> value in words

_UNITS = {"_bytes": "B", "_Hz": "Hz", "_W": "W"}
# Different on every machine; and the whole matrix of a topology, for which its fingerprint stands.
_OWN = {"gpus.index", "gpus.uuid", "gpus.pci_bus_id", "topology"}


def differences(a: Sequence[RunSummary], b: Sequence[RunSummary]) -> list[Difference]:
    """Every fact in which the runs of A and B differ, or those of one study among themselves, in a record's order.

    Runs on another number of GPUs may differ by right (one rank has no transport): give the same points of both.
    """
    facts_a, facts_b = _facts(a), _facts(b)
    if not facts_a or not facts_b:
        return []
    return _differing(facts_a, facts_b) + _typical(a, b)


def environment_differences(
    a: Sequence[tuple[int, Environment]], b: Sequence[tuple[int, Environment]]
) -> list[Difference]:
    """Every fact in which these environments differ, each with its number of GPUs; none where one side has none."""
    facts_a, facts_b = ([(gpus, _of_environment(environment)) for gpus, environment in each] for each in (a, b))
    return _differing(facts_a, facts_b) if facts_a and facts_b else []


def _differing(facts_a: list[tuple[int, Facts]], facts_b: list[tuple[int, Facts]]) -> list[Difference]:
    names = dict.fromkeys(name for _, facts in (*facts_a, *facts_b) for name in facts)
    compared = [_difference(name, facts_a, facts_b) for name in names]
    return [fact for fact in compared if set(fact.a) != set(fact.b) or fact.varies_in]


def _facts(runs: Sequence[RunSummary]) -> list[tuple[int, Facts]]:
    """Of each run that has an environment: its number of GPUs, and all facts."""
    environments = {id(run.environment): run.environment for run in runs if run.environment}  # many runs share one
    known = {key: _of_environment(environment) for key, environment in environments.items()}
    return [(run.request.gpus, known[id(run.environment)] | _of_run(run)) for run in runs if run.environment]


def _difference(name: str, facts_a: list[tuple[int, Facts]], facts_b: list[tuple[int, Facts]]) -> Difference:
    values_a, varies_a = _values(name, facts_a)
    values_b, varies_b = _values(name, facts_b)
    varies: list[tuple[Letter, bool]] = [("A", varies_a), ("B", varies_b)]
    return Difference(name=name, a=values_a, b=values_b, varies_in=[study for study, does in varies if does])


def _values(name: str, facts: list[tuple[int, Facts]]) -> tuple[list[str], bool]:
    """The values of a fact, each once; and whether it has several on one number of GPUs."""
    absent = "not set" if name.startswith("variables.") else "unknown"
    by_gpus: dict[int, dict[str, None]] = defaultdict(dict)
    for gpus, each in facts:
        by_gpus[gpus][each.get(name, absent)] = None
    distinct = list(dict.fromkeys(value for values in by_gpus.values() for value in values))
    return distinct, any(len(values) > 1 for values in by_gpus.values())


# ---- the facts of one run -------------------------------------------------------------------------------------------


def _of_environment(environment: Environment) -> Facts:
    plain = msgspec.to_builtins(environment)
    if plain["gpu_processes"] is not None:
        plain["gpu_processes"] = [f"one on GPU {process['gpu']}" for process in plain["gpu_processes"]]
    return {name: value for key in plain for name, value in _flat(key, plain[key]) if name not in _OWN}


def _of_run(run: RunSummary) -> Facts:
    run_facts: Facts = {}
    if run.transport:
        used = "none, on one GPU" if run.request.gpus == 1 else ", ".join(run.transport.used or ["unknown"])
        run_facts |= {"transport.requested": run.transport.requested, "transport.used": used}
    if images := run.input_state:
        kept = {"images": images.images, "classes": images.classes, "size_bytes": images.size_bytes}
        run_facts |= _flat("input_state", {**kept, "decoder": images.decoder})
    return run_facts


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """A value of a record and all that is in it, in words."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for key in value[0]:
            yield f"{name}.{key}", _counted(_words(key, entry[key]) for entry in value)
    elif isinstance(value, list):
        yield name, ", ".join(value) or "none"
    elif value is not None:
        yield name, _words(name, value)


def _words(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    unit = next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), None)
    return si(value, unit) if unit and not isinstance(value, str) else str(value)


def _counted(values: Iterable[str]) -> str:
    """The values of all GPUs: "16 on 7 GPUs, 8 on 1 GPU"."""
    return ", ".join(f"{value} on {how_many(count, 'GPU')}" for value, count in Counter(values).items())


# ---- what varies all the time ---------------------------------------------------------------------------------------


def _typical(a: Sequence[RunSummary], b: Sequence[RunSummary]) -> list[Difference]:
    """Readings that no two runs have in common: the medians over the runs of each study, where they differ in words."""
    readings: dict[str, tuple[Callable[[RunSummary], float | None], Callable[[float], str]]] = {
        "sm_clock_Hz (median)": (lambda run: run.sm_clock_Hz, lambda clock_Hz: si(clock_Hz, "Hz")),
        "host_load.foreign (median)": (lambda run: run.host_load.foreign if run.host_load else None, _coarse),
        "input_state.page_cache_share (median)": (
            lambda run: run.input_state.page_cache_share if run.input_state else None,
            _coarse,
        ),
    }
    differing = []
    for name, (read, tell) in readings.items():
        values = [[value for run in runs if (value := read(run)) is not None] for runs in (a, b)]
        said_a, said_b = (tell(statistics.median(value)) if value else "unknown" for value in values)
        if said_a != said_b:
            differing.append(Difference(name=name, a=[said_a], b=[said_b], varies_in=[]))
    return differing


def _coarse(share: float) -> str:
    """A share to 5 %: finer differences between runs are chance."""
    return f"{5 * round(20 * max(-1e9, min(share, 1e9)))} %"


# ---- columns --------------------------------------------------------------------------------------------------------

RATIOS: list[Column[BenchRatio]] = [
    Column(">size", lambda ratio: size_text(ratio.size_bytes)),
    Column(">B / A", lambda ratio: f"{ratio.ratio:.3f}", help="of speed, above 1 B is faster."),
    Column(">A us", lambda ratio: f"{ratio.a_s * 1e6:,.1f}"),
    Column(">B us", lambda ratio: f"{ratio.b_s * 1e6:,.1f}"),
    Column(">A GB/s", lambda ratio: _rate(ratio.size_bytes, ratio.a_s), help="size / time."),
    Column(">B GB/s", lambda ratio: _rate(ratio.size_bytes, ratio.b_s)),
]


def _rate(size_bytes: int, time_s: float) -> str:
    return f"{size_bytes / time_s / 1e9:.3g}" if time_s else "?"


# What tells ratios apart where all of them are in one table.
OF_ONE: list[Column[BenchRatio]] = [
    Column("what", lambda ratio: ratio.what),
    Column(">ranks", lambda ratio: f"{ratio.gpus or ''}"),
    Column("class", lambda ratio: ratio.pair_class or ""),
]


class PairRatios(NamedTuple):
    """A copy between two places, and its ratios over sizes."""

    what: str
    source: CopyEnd | None
    target: CopyEnd | None
    ratios: list[float]


PAIR_RATIOS: list[Column[PairRatios]] = [
    Column("copies", lambda pair: pair.what),
    Column(">from", lambda pair: f"{pair.source}"),
    Column(">to", lambda pair: f"{pair.target}"),
    Column(">B / A", lambda pair: f"{median(pair.ratios):.3f}", help="the median over sizes."),
    Column(">least", lambda pair: f"{min(pair.ratios):.3f}"),
    Column(">most", lambda pair: f"{max(pair.ratios):.3f}"),
]


def _difference_text(difference: Difference) -> str:
    varies = f" (varies within {' and '.join(difference.varies_in)})" if difference.varies_in else ""
    return f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{varies}"


DIFFERENCES: list[Column[Difference]] = [
    Column("in the records", lambda difference: difference.name),
    Column("~values", _difference_text),
]


# ---- explain benches ------------------------------------------------------------------------------------------------
# Which figures of a bench are not those of another, beyond what their timings vary, and what else differs.
#
#     explained_benches(benches_of_a, benches_of_b)
#
# A figure is a collective or a pattern on a number of GPUs, or a copy between two of them, at one size. It has changed
# where the median of each side lies outside of what nine of ten timings of the other side are within; a figure of a
# single time has no such range, and is never said to have changed. Of one bench alone: what is slower than its system
# is described, and what may be why.

FEWEST_PAIRS, BEHIND = 6, 1.3  # pairs at one size; times as long, over what is described, as the fastest quarter
WITHIN = (0.05, 0.95)  # of the timings of a figure


class ExplainedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of two benches; of one alone what B has is null, and A stands beside its description."""

    what: str  # "allreduce", "device copies, one way"
    gpus: int | None  # of a collective; null: a copy, or not known
    source: CopyEnd | None  # of a copy
    target: CopyEnd | None
    size_bytes: int
    a_s: float  # median
    b_s: float | None
    a_interval_s: list[float] | None  # that nine of ten timings are within; null: of one timing
    b_interval_s: list[float] | None
    expected_s: float | None  # as the system is described; null: none is
    outside: bool  # each lies outside of what the other's timings are within
    low: bool  # slower than described
    evidence: list[str]  # in what else the two differ, or what may be why this is slow

    @property
    def longer(self) -> float:
        """How many times as long it takes in B, or as described."""
        of_s = self.b_s if self.b_s is not None else self.a_s
        by_s = self.a_s if self.b_s is not None else self.expected_s
        return of_s / by_s if by_s else 1.0


class _Timed(msgspec.Struct, frozen=True):
    times_s: Times
    expected_s: float | None
    low: bool
    causes: list[str]
    way: dict[str, str]  # how the library, or the copy, did it


_Measure = tuple[str, int | None, CopyEnd | None, CopyEnd | None, int]


def explained_benches(a: Sequence[BenchRecord], b: Sequence[BenchRecord]) -> list[ExplainedFigure]:
    """Every figure that both have, in the order of A."""
    of_a, of_b = _timed(a), _timed(b)
    shared = _shared_evidence(a, b)
    return [_beside(key, of_a[key], of_b[key], shared) for key in of_a if key in of_b]


def bench_alone(records: Sequence[BenchRecord]) -> list[ExplainedFigure]:
    """Every figure of one bench, beside what is described; pairs that others alike leave behind are low, too."""
    found = _timed(records)
    over: dict[tuple[str, int], list[float]] = {}
    for (what, _, source, _, size_bytes), one in found.items():
        if source is not None and one.expected_s:
            over.setdefault((what, size_bytes), []).append(median(one.times_s) / one.expected_s)
    usual = {key: float(np.quantile(values, 0.25)) for key, values in over.items() if len(values) >= FEWEST_PAIRS}
    figures = []
    for key, one in found.items():
        others = usual.get((key[0], key[4]))
        behind = others and one.expected_s and median(one.times_s) / one.expected_s > BEHIND * others
        figures.append(_figure(key, msgspec.structs.replace(one, low=one.low or bool(behind)), None, one.causes))
    return figures


def _timed(records: Iterable[BenchRecord]) -> dict[_Measure, _Timed]:
    """Every figure whose results are right, or were not checked: the time of a wrong one means nothing."""
    found: dict[_Measure, _Timed] = {}
    for record in records:
        right = [point for point in record.points if not point.wrong]
        for name in dict.fromkeys(point.collective for point in right):
            points = [point for point in right if point.collective == name]
            for point, times_s in zip(points, telling_times(points), strict=True):
                way = {"algorithm": point.algorithm or "", "protocol": point.protocol or ""}
                found[name, record.world_size, None, None, point.size_bytes] = _Timed(
                    list(times_s), point.expected_s, point.verdict == "low", point.causes, way
                )
        for pattern in (pattern for pattern in record.patterns if not pattern.wrong):
            found[pattern.what, record.world_size, None, None, pattern.size_bytes] = _Timed(
                pattern.times_s, None, False, [], {}
            )
        for cell in record.cells:
            if cell.time_s and not cell.together and not cell.wrong:
                key = (f"{cell.family.words}", None, cell.source, cell.target, cell.size_bytes)
                found[key] = _Timed(
                    cell.time_s, cell.expected_s, cell.verdict == "low", cell.causes, {"path": cell.path or ""}
                )
    return found


def _beside(key: _Measure, a: _Timed, b: _Timed, shared: Sequence[str]) -> ExplainedFigure:
    own = [f"{name}: {a.way[name]} in A, {b.way.get(name)} in B" for name in a.way if a.way[name] != b.way.get(name)]
    return _figure(key, a, b, [*own, *shared])


def _figure(key: _Measure, a: _Timed, b: _Timed | None, evidence: Sequence[str]) -> ExplainedFigure:
    what, gpus, source, target, size_bytes = key
    a_s, b_s = median(a.times_s), None if b is None else median(b.times_s)
    ends = _interval(a.times_s), None if b is None else _interval(b.times_s)
    outside = b_s is not None and ends[0] is not None and ends[1] is not None
    return ExplainedFigure(
        what=what,
        gpus=gpus,
        source=source,
        target=target,
        size_bytes=size_bytes,
        a_s=a_s,
        b_s=b_s,
        a_interval_s=ends[0],
        b_interval_s=ends[1],
        expected_s=a.expected_s,
        outside=outside and not _within(ends[0], b_s) and not _within(ends[1], a_s),
        low=a.low,
        evidence=list(evidence),
    )


def _within(ends_s: Sequence[float] | None, time_s: float | None) -> bool:
    return ends_s is not None and time_s is not None and ends_s[0] <= time_s <= ends_s[1]


def _interval(times_s: Sequence[float]) -> list[float] | None:
    return [float(end) for end in np.quantile(times_s, WITHIN)] if len(times_s) > 1 else None


def _shared_evidence(a: Sequence[BenchRecord], b: Sequence[BenchRecord]) -> list[str]:
    """In what the two differ as a whole: machines, software, environment, transport, clocks, and what else ran."""
    of_a, of_b = (
        [(record.world_size or 0, record.environment) for record in records if record.environment] for records in (a, b)
    )
    lines = [
        f"{difference.name}: {', '.join(difference.a)} in A, {', '.join(difference.b)} in B"
        for difference in environment_differences(of_a, of_b)
        if set(difference.a) != set(difference.b)
    ]
    readings_a, readings_b = dict(_readings(a)), dict(_readings(b))
    lines += [
        f"{name}: {readings_a[name]} in A, {readings_b[name]} in B"
        for name in readings_a
        if name in readings_b and readings_a[name] != readings_b[name]
    ]
    return lines


def _readings(records: Sequence[BenchRecord]) -> Iterator[tuple[str, str]]:
    if libraries := dict.fromkeys(record.library for record in records if record.library):
        yield "library", ", ".join(libraries)
    if used := dict.fromkeys(way for record in records if record.transport for way in record.transport.used or []):
        yield "transport", ", ".join(used)
    if loads := [record.host_load.foreign for record in records if record.host_load]:
        yield "other programs on the CPUs", f"{5 * round(20 * max(loads))} %"
    if clocks := [record.clock.clock_Hz for record in records if record.clock]:
        yield "locked clock", si(max(clocks), "Hz")


# ---- the answer -----------------------------------------------------------------------------------------------------


def told_figures(found: Sequence[ExplainedFigure]) -> list[ExplainedFigure]:
    """Those that have changed; of one bench those that are slow."""
    two = found[0].b_s is not None
    return [figure for figure in found if (figure.outside if two else figure.low)]


def figures_answer(found: Sequence[ExplainedFigure]) -> list[str]:
    """Which figures changed, by collective and by pair; of one bench, what is slower than described."""
    figures = told_figures(found)
    return [_changed(found, figures) if found[0].b_s is not None else _slow(found, figures)]


def _changed(figures: Sequence[ExplainedFigure], told: Sequence[ExplainedFigure]) -> str:
    beyond = "beyond what nine of ten timings are within"
    if not told:
        unknown = sum(figure.a_interval_s is None or figure.b_interval_s is None for figure in figures)
        most = max(max(figure.longer, 1 / figure.longer) for figure in figures)
        more = f"; {unknown} have one timing, which tells nothing" if unknown else ""
        return f"No difference is shown {beyond}: {len(figures)} figures, at most {most:.2f} times apart{more}."
    slower = [figure for figure in told if figure.longer > 1]
    words = "slower" if len(slower) == len(told) else "faster" if not slower else "other"
    return f"B is {words} in {len(told)} of {len(figures)} figures, {beyond}: {_groups(told)}."


def _slow(figures: Sequence[ExplainedFigure], told: Sequence[ExplainedFigure]) -> str:
    judged = [figure for figure in figures if figure.expected_s is not None]
    if not judged:
        return f"Measured: {len(figures)} figures, and no system that they are described by: add systems= to the bench."
    if not told:
        return f"Measured: none of {len(judged)} figures is slower than described."
    return f"Measured: {len(told)} of {len(judged)} figures are slower than described: {_groups(told)}."


def _groups(figures: Sequence[ExplainedFigure]) -> str:
    """The figures by collective, or by kind of copy: how much longer, at which sizes, and with which GPU."""
    groups: dict[tuple[str, int | None], list[ExplainedFigure]] = {}
    for figure in figures:
        groups.setdefault((figure.what, figure.gpus), []).append(figure)
    words = []
    for (what, gpus), group in groups.items():
        factors = [
            f"{value:.2f}" for value in (min(figure.longer for figure in group), max(figure.longer for figure in group))
        ]
        sizes = dict.fromkeys(size_text(size) for size in sorted(figure.size_bytes for figure in group))
        ends = [
            {figure.source, figure.target}
            for figure in group
            if figure.source is not None and figure.target is not None
        ]
        common = set.intersection(*ends) if ends else set()
        culprit = f", all with {_place(*common)}" if len(common) == 1 and len(group) > 1 else ""
        on = f" on {gpus} ranks" if gpus else ""
        times = " to ".join(dict.fromkeys(factors))
        words.append(f"{what}{on} at {' to '.join(dict.fromkeys([next(iter(sizes)), list(sizes)[-1]]))}, {times} "
                     f"times as long{culprit}")  # fmt: skip
    return "; ".join(words)


def _place(place: CopyEnd) -> str:
    return f"GPU {place}" if isinstance(place, int) else place


def figure_columns(two: bool) -> list[Column[ExplainedFigure]]:
    """A figure of two benches; of one beside what is described."""
    return [
        Column("what", _measure_words),
        Column(">size", lambda figure: size_text(figure.size_bytes)),
        Column(">A, us", lambda figure: _us(figure.a_s)),
        Column(">B, us" if two else ">described, us", lambda figure: _us(figure.b_s if two else figure.expected_s)),
        Column(">times as long", lambda figure: f"{figure.longer:.2f}"),
    ]


def _measure_words(figure: ExplainedFigure) -> str:
    if figure.source is not None:
        return f"{figure.what}, {figure.source} to {figure.target}"
    return figure.what + (f", {figure.gpus} ranks" if figure.gpus else "")


def _us(time_s: float | None) -> str:
    return "?" if time_s is None else f"{time_s * 1e6:,.1f}"


def shown_figures(figures: Sequence[ExplainedFigure]) -> Answer:
    """The answer, and the figures that it is of."""
    return Answer(figures_answer(figures), as_shown(figure_columns(figures[0].b_s is not None), told_figures(figures)))
