"""Which figures of a bench are not those of another, beyond what their timings vary, and what else differs.

    explained_benches(benches_of_a, benches_of_b)

A figure is a collective or a pattern on a number of GPUs, or a copy between two, at one size. It has changed where each
side's median lies outside of what nine of ten timings of the other are within, and Student's test says so; never with
one or two times. Of one bench alone: what is slower than its system is described, and why.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

import msgspec
import numpy as np

from resnetx.interconnect.collectives.measured import telling_times
from resnetx.record import BenchRecord, Environment, RunSummary
from resnetx.record.bench_record import CopyEnd, Times
from resnetx.record.comparisons import Difference, Letter
from resnetx.statistics import MIN_RUNS_FOR_T, shown_differences, t_test
from resnetx.table import Answer, Column, as_shown
from resnetx.units import how_many, si, size_text

# ---- machine differences --------------------------------------------------------------------------------------------
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


def bench_differences(a: Sequence[BenchRecord], b: Sequence[BenchRecord]) -> list[Difference]:
    """Every fact in which the environments of benches differ; none where those of one side are not known."""
    facts_a, facts_b = (
        [(record.world_size or 0, _of_environment(record.environment)) for record in records if record.environment]
        for records in (a, b)
    )
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
    return f"{5 * round(20 * max(-1e9, min(share, 1e9)))}%"


def difference_lines(found: Iterable[Difference]) -> list[str]:
    """Those in which the two differ, a line each; not what varies within each alike."""
    return [
        f"{each.name}: {', '.join(each.a)} in A, {', '.join(each.b)} in B" for each in found if {*each.a} != {*each.b}
    ]


def _difference_text(difference: Difference) -> str:
    varies = f" (varies within {' and '.join(difference.varies_in)})" if difference.varies_in else ""
    return f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{varies}"


DIFFERENCES: list[Column[Difference]] = [
    Column("in the records", lambda difference: difference.name),
    Column("~values", _difference_text),
]


# ---- explain benches ------------------------------------------------------------------------------------------------

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
    a_interval_s: list[float] | None  # that nine of ten timings are within; null: of one or two
    b_interval_s: list[float] | None
    expected_s: float | None  # as the system is described; null: none is
    outside: bool  # each lies outside of what the other's timings are within, and a test of all figures shows it
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
    shared, keys = _shared_evidence(a, b), [key for key in of_a if key in of_b]
    shown = shown_differences([t_test(of_a[key].times_s, of_b[key].times_s) for key in keys])
    figures = [_beside(key, of_a[key], of_b[key], shared) for key in keys]
    return [
        msgspec.structs.replace(figure, outside=figure.outside and differs)
        for figure, differs in zip(figures, shown, strict=True)
    ]


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
    return [float(end) for end in np.quantile(times_s, WITHIN)] if len(times_s) >= MIN_RUNS_FOR_T else None


def _shared_evidence(a: Sequence[BenchRecord], b: Sequence[BenchRecord]) -> list[str]:
    """In what the two differ as a whole: machines, software, environment, transport, clocks, and what else ran."""
    lines = difference_lines(bench_differences(a, b))
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
        yield "other programs on the CPUs", f"{5 * round(20 * max(loads))}%"
    if clocks := [record.clock.clock_Hz for record in records if record.clock]:
        yield "locked clock", si(max(clocks), "Hz")


FIGURES_CERTAINTY = (
    "by Student's test of timings: of simulated equal benches with independent ones, 1 in 20 or fewer differ; what "
    "varies from one start to the next is not in one bench"
)

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
        more = f"; {unknown} have fewer than {MIN_RUNS_FOR_T} timings, which tell nothing" if unknown else ""
        return f"No difference is shown {beyond}: {len(figures)} figures, at most {most:.2f} times apart{more}."
    slower = [figure for figure in told if figure.longer > 1]
    words = "is slower" if len(slower) == len(told) else "is faster" if not slower else "differs"
    return f"B {words} in {len(told)} of {len(figures)} figures, {beyond}: {_groups(told)}."


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
