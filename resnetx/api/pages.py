"""What a page says of each kind of record: its answer, its figures and its tables, in this order.

`report` writes pages of anything that is stored, and verbs with `out=` one of what they return.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from resnetx import progress
from resnetx.api import drawings
from resnetx.api.answers import check_answer, steer_answer, trace_answer, verify_answer
from resnetx.api.drawings import figures as topology_figures
from resnetx.api.drawings import note_undrawn, of_plan, of_system
from resnetx.api.stored import MeasuredStudy
from resnetx.api.topology_answers import Costed, Described, Ranked, Reach, Routed, described, reach_of
from resnetx.errors import ConfigError
from resnetx.interconnect.pairs.pair_reading import counted
from resnetx.interconnect.systems.changed_systems import steered
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import System
from resnetx.interconnect.systems.system import described as described_system
from resnetx.record import BenchRecord, RunRecord, Warning
from resnetx.record.bench_record import CopyCell
from resnetx.record.comparisons import Accuracy, BenchComparison, CheckedClaim, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Check, CollectiveCost, Outlier, Steering, TopologyRecord
from resnetx.record.traces import Observation, Trace
from resnetx.reporting import systems_answer as of_systems
from resnetx.reporting.accuracy import checked_columns
from resnetx.reporting.bench_conclusions import (
    VERDICTS,
    copied_GBps,
    shown_benches,
    sides,
    told_apart,
    told_verdict,
    which,
)
from resnetx.reporting.charts import figure as files
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.compared_studies import compared_columns
from resnetx.reporting.csv_tables import table_of
from resnetx.reporting.page import PageTable, Part, write_page
from resnetx.reporting.predicted_answer import predicted_curves
from resnetx.reporting.predicted_certainty import in_common, sure
from resnetx.reporting.slow_rank import RANKS, observed_answer, observed_ranks
from resnetx.reporting.study_points import scaling_columns, with_ratios
from resnetx.table import Column, Record, Records, Table, Tabular, as_shown, row, table_of_records
from resnetx.units import GBps, how_many, in_ms, number, size_text

MOST_IN_TITLE = 3  # systems
DRAWN_PLANS = 4  # collectives of which each has a drawing of its rings: of more there are curves


def store_page(parts: Sequence[Part], folder: Path, title: str = "", left_out: Sequence[str] = ()) -> Path:
    """Writes the page of some parts with its figures and tables, and says where it is."""
    with drawings.writing(folder, "; give another folder"), progress.waiting("drawing"):
        page = write_page(parts, folder, title, left_out)
    note_undrawn()
    if not any(part.figures for part in parts):
        progress.command(f"no figure: {parts[0].undrawn}")
    return page


def store(part: Part, folder: Path) -> None:
    """Writes the page of what a verb returns into its folder, and says so."""
    page = store_page([part], folder)
    for figure in part.figures:
        progress.command(f"figure: {folder / figure.name}.{'vl.json' if files.undrawn() else 'svg'}")
    progress.command(f"page: {page}")


# ---- one part for each kind of record -------------------------------------------------------------------------------


def part_of(found: Any, where: str = "") -> Part:
    """What a page says of a record. `where`: it is stored."""
    for kind, made in _PARTS.items():
        if isinstance(found, kind):
            part: Part = made(found)
            return replace(part, where=where)
    raise ConfigError(f"{where}: there is no page of a {type(found).__name__}")


def of_study(study: MeasuredStudy, figures: Sequence[Figure], page: str = "") -> Part:
    """A study beside other results; `page` has all of it."""
    answer = study.answer()
    about = [study.results.study.about] * bool(study.results.study.about)
    points = [point for point in study.points if point.result.outcome != "missing"] or study.points
    shown = as_shown(scaling_columns(points), points)
    what = "How far it scales" if with_ratios(points) else "Case by case"
    not_run = len(study.points) - len(points)
    note = f"Not run yet, and not shown: {not_run} of {len(study.points)} cases." * bool(not_run)
    tables = [PageTable(f"{study.name}-points", what, shown, study.table(), note)]
    stands_for = sorted({point.request.lab.system for point in study.results.points if point.request.lab})
    as_one = f", in the lab as {stands_for[0]}" if len(stands_for) == 1 else ""
    title = f"{study.name} on {study.results.study.node}{as_one}"
    return Part(title, answer.sentences, about, figures=figures, tables=tables, page=page)


def _run(record: RunRecord) -> Part:
    from resnetx.reporting.charts.records import run_figures

    cells = Table(["what", "value"], [[name, value] for name, value in row(record).items() if value is not None])
    alerts = _alerts(record.warnings)
    request = record.request
    inside = ", profiled" * (request.measure == "phases")
    title = (
        f"Run of {request.model.label}, batch {request.batch_size}, {request.precision}, {request.input.kind}{inside}"
    )
    tables = [PageTable("run", "Its settings and results", cells)]
    undrawn = "no window was measured" if record.outcome != "ok" else "of a single window"
    notes = [f"Measured on {_when(record.started_at)}."]
    return Part(
        title, verify_answer(record), notes, alerts, figures=run_figures(record), tables=tables, undrawn=undrawn
    )


def of_benches(records: Sequence[BenchRecord]) -> Part:
    """Several benches share their figures: a line for each in one panel."""
    from resnetx.reporting.charts.benches import all_alike, figures

    answer = shown_benches(records)
    verdicts = dict(counted([cell for record in records for cell in record.cells]))
    judged = ", ".join(f"{count} {VERDICTS.get(verdict, verdict)}" for verdict, count in verdicts.items())
    copies = [f"Copies: {judged}."] * bool(verdicts)
    copies += [f"{said}{which(of, records)}." for of in records for said in all_alike(of.cells)]
    timed = any(record.points for record in records)
    name, of = ("collectives", "Collectives, size by size") if timed else ("classes", "Copies, class by class")
    tables = [PageTable(name, of, answer.table)] if answer.table else []
    if cells := [(on, cell) for on, record in zip(sides(records), records, strict=True) for cell in record.cells]:
        whole = table_of_records([{"on": on, **_copy_row(cell)} for on, cell in cells])
        cells.sort(key=lambda row: (row[1].family, row[1].size_bytes, str(row[1].source), str(row[1].target)))
        tables.append(PageTable("copies", "Copies, pair by pair", as_shown(told_apart(_PAIRS), cells), whole))
    title = "The interconnect, measured"
    alerts = _alerts([warning for record in records for warning in record.warnings])
    said = Counter(answer.sentences)
    of_each = [sentence for sentence, count in said.items() if count == len(records) > 1]  # once, after all others
    sentences = [*(sentence for sentence in answer.sentences if sentence not in of_each), *of_each]
    return Part(title, sentences, [*map(_bench_words, records), *copies], alerts, figures(records), tables)


def _copy_row(cell: CopyCell) -> Record:
    ends_s = cell.expected_interval_s
    ends: Record = {"expected_low_s": min(ends_s, default=None), "expected_high_s": max(ends_s, default=None)}
    return {**row(cell), "verdict": told_verdict(cell), "time_s": median(cell.time_s), **ends}


_PAIRS: list[Column[CopyCell]] = [
    Column("copy", lambda cell: cell.copy),
    Column("direction", lambda cell: cell.direction.replace("-", " ")),
    Column("memory", lambda cell: cell.endpoint),
    Column("from", lambda cell: str(cell.source)),
    Column("to", lambda cell: str(cell.target)),
    Column("size", lambda cell: size_text(cell.size_bytes)),
    Column("time ms", lambda cell: in_ms(median(cell.time_s))),
    Column("GB/s", lambda cell: GBps(1e9 * copied_GBps(cell, median(cell.time_s)))),
    Column(
        "expected", lambda cell: GBps(1e9 * copied_GBps(cell, cell.expected_s)) if cell.expected_s is not None else ""
    ),
    Column("verdict", told_verdict),
    Column("class", lambda cell: cell.pair_class or ""),
    Column("path", lambda cell: cell.path or ""),
    Column("#wrong", lambda cell: "N/A" if cell.wrong is None else f"{cell.wrong}"),
]


def _alerts(warnings: Sequence[Warning]) -> list[str]:
    """Each kind of warning once, as it was given first, with how many there are of it."""
    kinds = Counter(warning.code for warning in warnings)
    first = {warning.code: warning for warning in reversed(warnings)}
    said = {code: warning.message.replace(f"{code}: ", "") for code, warning in first.items()}  # as old records have it
    return [
        f"{code}{f' ({count} times; the first)' * (count > 1)}: {said[code]}; {first[code].remedy}"
        for code, count in kinds.items()
    ]


def _bench_words(record: BenchRecord) -> str:
    ranks = how_many(record.world_size, record.unit) if record.world_size else "ranks unknown"
    when = f", {_when(record.started_at)}" if record.started_at else ""
    several = {"point(s) of collectives": len(record.points), "cell(s) of copies": len(record.cells)}
    counts = ", ".join(f"{count} {what.replace('(s)', 's' * (count > 1))}" for what, count in several.items() if count)
    ended = f"{record.outcome}{f': {record.reason}' * bool(record.reason)}" * (record.outcome != "ok")
    return f"{record.library or 'a bench'}, {ranks} ({record.source}{when}): {'; '.join(filter(None, [counts, ended]))}"


def _when(moment: str) -> str:
    """A moment of a record to the minute: "2026-11-24 05:04 UTC"."""
    return f"{moment[:16].replace('T', ' ')} UTC"


def _trace(trace: Trace) -> Part:
    from resnetx.reporting.charts.records import trace_figures
    from resnetx.traces import layer_s

    tables = []
    for batch in trace.batches:
        layers = batch.times.layers
        whole_s = sum(map(layer_s, layers)) or 1.0
        columns = ["layer", "forward ms", "backward ms", "share of all", "gradients B"]
        rows = [
            [
                layer.name,
                *(1e3 * median(times_s) if times_s else None for times_s in (layer.forward_s, layer.backward_s)),
                f"{layer_s(layer) / whole_s:.1%}",
                layer.gradient_bytes,
            ]
            for layer in layers
        ]
        name = f"layers-batch{batch.batch_size}"
        tables.append(PageTable(name, f"Layer by layer, batch {batch.batch_size}: medians", Table(columns, rows)))
    alerts = _alerts(trace.warnings)
    notes = [f"On {trace.device or 'an unknown device'}."]
    title, figures = f"Layer times of {trace.workload}", trace_figures(trace)
    return Part(title, trace_answer(trace), notes, alerts, figures=figures, tables=tables)


def of_job(job: Sequence[Observation], where: str = "") -> Part:
    """Who is late, when each rank is through each part of a step, and where its step goes."""
    from resnetx.reporting.charts.records import job_figures

    ranks, first = observed_ranks(job), job[0]
    why = first.unknown.get("buckets", "")
    strategy = f", {first.strategy}" * (first.strategy != "bare")
    batch = f", batch {first.batch_size}{' on each rank' * (len(ranks) > 1)}" * bool(first.batch_size)
    when = f", {_when(first.started_at)}" * bool(first.started_at)
    notes = [
        f"{ranks[0].workload}{strategy}{batch}: {ranks[0].steps} steps{when}.",
        *[f"Buckets: {why}."] * (bool(why) and first.strategy == "ddp"),
        *[f"Record: {where}"] * bool(where),
    ]
    table = PageTable("ranks", "Rank by rank: ms", as_shown(RANKS, ranks), Records(ranks).table())
    title = f"A job of {len(ranks)} ranks, observed" if len(ranks) > 1 else "A loop, observed"
    return Part(title, observed_answer(ranks), notes, figures=job_figures(job, ranks), tables=[table])


def of_prediction(made: Prediction) -> Part:
    """Where the time goes, and how far it scales."""
    from resnetx.reporting.charts.predictions import prediction_figures, timelines

    answer = made.answer()
    assert answer is not None, "predictions answer"
    figures = [*prediction_figures(made.points), *timelines([point for point in made.points if point.timeline])]
    systems = ", ".join(dict.fromkeys(point.system for point in made.points))
    tables = [PageTable("points", "Case by case", answer.table or made.table(), made.table())]
    title = f"What training does on {systems}, predicted"
    return Part(
        title,
        answer.sentences,
        [f"Predicted on {_when(made.made_at)}.", *_how(made)],
        figures=figures,
        tables=tables,
    )


def _how(made: Prediction, ratios: bool = False) -> list[str]:
    """What was asked, what all points have in common, and how sure they are; `ratios`: of systems side by side."""
    if not (curves := predicted_curves(made.points)):
        return []
    return [
        *(f"Asked: {words}." for words in filter(None, [made.settings.get("words")])),
        f"In all cases: {', '.join(in_common(made, curves))}.",
        f"Sure: {'; '.join(sure(made, curves, ratios))}.",
    ]


def of_comparison(found: SystemComparison, made: Prediction | None = None) -> Part:
    """Systems in intensity space, then why, then rates and collectives."""
    from resnetx.reporting.charts.predictions import prediction_figures, timelines
    from resnetx.reporting.charts.systems import system_figures

    drawn = system_figures(found)
    lead = [figure for figure in drawn if figure.name == "lead"]
    why = prediction_figures(made.points) if made else []
    timed = timelines([point for point in made.points if point.timeline]) if made else []
    rates = [figure for figure in drawn if figure.name.startswith(("rate", "family"))]
    figures = [*lead, *why, *rates, *(figure for figure in drawn if figure not in (*lead, *rates)), *timed]
    whole = of_systems.tables(found)
    cases = as_shown(of_systems.case_columns(found), of_systems.compared_cases(found))
    tables = [PageTable("cases", "Case by case, those with the largest difference first", cases)]
    tables += [_statements(found.claims)] * bool(found.claims)
    tables += [PageTable(name, name, table, only_file=True) for name, table in whole.items() if name != "claims"]
    several = len(found.systems) > MOST_IN_TITLE
    title = f"{len(found.systems)} systems" if several else " against ".join(found.systems)
    title += " in intensity space" if several else ", in intensity space"
    notes = ["Predicted. Intensity: activations per parameter on each GPU, work over communication."]
    notes += _how(made, ratios=True) if made else []
    return Part(title, of_systems.compared_answer(found), notes, figures=figures, tables=tables)


def _studies_compared(comparison: Comparison) -> Part:
    from resnetx.reporting.charts.studies import compared_rates

    shown = as_shown(compared_columns(comparison), comparison.points)
    tables, figures = [PageTable("cases", "Case by case", shown, comparison.table())], compared_rates(comparison)
    part = _tabular("Two studies compared", comparison, tables, figures)
    if comparison.benches is None:
        return part
    links = _benches_compared(comparison.benches)
    return replace(
        part,
        title="Two machines compared",
        answer=[*part.answer, *links.answer],
        figures=[*part.figures, *links.figures],
        tables=[*part.tables, *links.tables],
    )


def _benches_compared(comparison: BenchComparison) -> Part:
    from resnetx.reporting.charts.benches import compared_lines

    table = PageTable("bench_ratios", "Size by size", comparison.table())
    return _tabular("Two benches compared", comparison, [table], compared_lines(comparison))


def _accuracy(accuracy: Accuracy) -> Part:
    from resnetx.reporting.charts.predictions import accuracy_figure

    figures = [accuracy_figure(accuracy)] if any(point.error is not None for point in accuracy.points) else []
    cases = PageTable(
        "cases", "Case by case", as_shown(checked_columns(accuracy.points), accuracy.points), accuracy.table()
    )
    part = _tabular(f"A prediction beside study {accuracy.study}", accuracy, [cases], figures)
    return replace(part, alerts=accuracy.warnings)


def of_papers(found: CheckedPapers) -> Part:
    """Every statement beside what is predicted; those that are not checked, and why."""
    left_out = PageTable("left_out", "Statements that are not checked, and why", table_of(found.left_out))
    notes = [
        f"{machine.system}: measured in {machine.path}"
        + f" (the lab: its links are / {machine.lab_scale:g}, and so are times)." * bool(machine.lab_scale)
        for machine in found.machines
    ]
    undrawn = f"resnetx reproduce {found.claims[0].paper if found.claims else 'PAPER'} out=FOLDER draws them"
    measured = [_measured_statements(found)] * bool(found.measured)
    tables = [*measured, _statements(found.claims), left_out]
    return replace(_tabular(f"{found.names}, reproduced", found, tables), notes=notes, undrawn=undrawn)


def _measured_statements(papers: CheckedPapers) -> PageTable:
    """Each statement that measurements say something of, beside what is predicted of the same."""

    def predicted(claim: CheckedClaim) -> str:
        same = [other for other in papers.claims if (other.claim, other.where) == (claim.claim, claim.where)]
        cells = [(each.variant, _ours(each, ends=False), _OUTCOMES.get(each.outcome, each.outcome)) for each in same]
        return "; ".join(" ".join(filter(None, [variant, figure, outcome])) for variant, figure, outcome in cells)

    columns: list[Column[CheckedClaim]] = [
        *_CLAIMS[1:3],
        Column("of", lambda claim: claim.where),
        _CLAIMS[4],
        Column("measured", _ours),
        _CLAIMS[6],
        Column("predicted", predicted),
        Column("why", lambda claim: claim.note),
    ]
    note = f"Agrees: the whole interval of what is measured does. Undecided: a part of it, or too few runs. {_LAB}"
    title = "What was measured, beside what is stated and predicted"
    return PageTable("measured", title, as_shown(columns, papers.measured), table_of(papers.measured), note)


_LAB = "In the lab, messages below 1 MiB are left out: latencies are not built there."


def _statements(claims: Sequence[CheckedClaim]) -> PageTable:
    shown = as_shown(_CLAIMS, claims)
    return PageTable("claims", "What is stated, beside what is predicted", shown, table_of(claims), _OF_CLAIMS)


_OUTCOMES = {"hit": "agrees", "miss": "disagrees", "open": "undecided", "given": "was an input"}
_OF_CLAIMS = (
    "Agrees: the whole predicted interval does. Undecided: a part of it. Was an input: of the described systems or the "
    "settings, and so tests nothing. Counted above: a sentence once for each library, by all its rows; not what "
    "repeats another one."
)
_YES_OR_NO = ("peers", "missing", "input_bound")  # quantities
_CLAIMS: list[Column[CheckedClaim]] = [
    Column("paper", lambda claim: claim.paper),
    Column("in", lambda claim: claim.section),
    Column("statement", lambda claim: claim.says),
    Column("of", lambda claim: ", ".join(filter(None, (claim.where, claim.variant)))),
    Column("stated", lambda claim: _figure(claim.stated, _unit(claim))),
    Column("predicted", lambda claim: _ours(claim)),
    Column("outcome", lambda claim: _OUTCOMES.get(claim.outcome, claim.outcome)),
    Column("why", lambda claim: claim.cause or claim.note * (claim.quantity not in _YES_OR_NO)),
]


def _ours(claim: CheckedClaim, ends: bool = True) -> str:
    """What is predicted or measured of what is stated, with its interval."""
    if claim.quantity in _YES_OR_NO and claim.ours in (0, 1) and claim.unit != "share":
        return "yes" if claim.ours else "no"
    interval = ""
    if ends and claim.ours_low is not None and claim.ours_high is not None:
        interval = f" ({_figure(claim.ours_low)} to {_figure(claim.ours_high)})"
    return f"{_figure(claim.ours, _unit(claim))}{interval}"


def _unit(claim: CheckedClaim) -> str:
    """What figures of a statement are in: per cent where it says its own so, and of one system over another, times."""
    if claim.unit:
        return claim.unit
    percent = claim.stated is not None and f"{100 * claim.stated:.6g} %" in claim.says
    return "%" if percent else "times" * (" / " in claim.quantity)


def _figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.0%}"
    if unit == "%":
        return f"{100 * value:.4g}%"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}") + f" {unit}" * bool(unit)


def _score(score: Score) -> Part:
    from resnetx.reporting.charts.predictions import score_figures

    tables = [PageTable("scores-by-kind", "By kind", score.table())]
    return _tabular("Predictors of published figures", score, tables, score_figures(score))


def _check(check: Check) -> Part:
    from resnetx.reporting.charts.records import check_figures

    tables = [PageTable("runs", "Every run", check.table())]
    if check.outliers:
        tables.insert(0, PageTable("outliers", "What stands out", as_shown(_OUTLIERS, check.outliers)))
    notes = [f"{', '.join(check.nodes)}: {check.workload}, batch {check.batch_size}, {_when(check.started_at)}."]
    left_out = [f"Left out: {each}." for each in check.left_out]
    figures = list(check_figures(check))
    undrawn = "it takes two nodes or more"
    return Part("Nodes, checked", check_answer(check), notes, left_out, figures, tables, undrawn=undrawn)


_OUTLIERS: list[Column[Outlier]] = [
    Column("what", lambda outlier: outlier.what),
    Column("name", lambda outlier: outlier.name),
    Column("measure", lambda outlier: outlier.measure),
    Column("found", lambda outlier: outlier.found),
    Column("causes", lambda outlier: "; ".join(f"{cause.kind}: {cause.evidence}" for cause in outlier.causes)),
]


def _steering(steering: Steering) -> Part:
    from resnetx.reporting.charts.topology import matrices

    graphs = [graph] if (graph := _links(steering)) else []
    tables = [PageTable("gpus", "GPU by GPU", steering.table())]
    if steering.phases:
        tables.append(PageTable("phases", "Phases", table_of_records(list(map(row, steering.phases)))))
    notes = [
        f"{steering.traffic_of}. Search: {steering.method}"
        + ("" if steering.rtl_evaluations is None else f", {steering.rtl_evaluations} RTLs calculated")
        + "."
    ]
    notes += [f"{steering.left_out:.0%} of the traffic goes over no link between GPUs."] if steering.left_out else []
    title = f"Links of {steering.system} steered" + f" for {steering.workload}" * bool(steering.workload)
    return Part(title, steer_answer(steering), notes, figures=[*graphs, matrices(steering)], tables=tables)


def _links(steering: Steering) -> Figure | None:
    """The links before and after, of a system that is still described where it was."""
    from resnetx.reporting.charts.topology import side_by_side

    try:
        before = described_system(steering.described_by)
        after = steered(before, steering.connectivity_after, steering.workload or "a traffic")
    except ConfigError as error:
        progress.skipped(f"{steering.described_by}: its links are not drawn: {error}")
        return None
    return side_by_side(before, after)


def of_topology(answer: Any, records: Sequence[TopologyRecord]) -> Part:
    """What was asked of described systems, with the links of those that were."""
    drawn = [*map(of_system, _machines(answer)), *rings_of(answer), *topology_figures(records)]
    whole = Records(records).table()
    costs = [record for record in records if isinstance(record, CollectiveCost)]
    shown = as_shown(_COSTS, costs) if len(costs) == len(records) else whole
    if isinstance(answer, Described):  # what its sentence is made of
        reached = [reach_of(*system) for system in answer.systems]
        shown = as_shown(_REACHED, list(zip(answer.systems, reached, strict=True)))
        rates = [(each.slow_Bps or None, each.fast_Bps or None, each.busbw_Bps or None, each.limit) for each in reached]
        whole = Table(
            [*whole.columns, *_OF_REACH],
            [[*cells, *of] for cells, of in zip(whole.rows, rates, strict=True)],
        )
    table = PageTable("answers", "What is answered", shown, whole)
    names = ", ".join(dict.fromkeys(getattr(record, "system", "") for record in records))
    return Part(f"{names}, as described", answer.answer(), figures=drawn, tables=[table])


_OF_REACH = ("slowest_copy_Bps", "fastest_copy_Bps", "allreduce_busbw_Bps", "limiting_link")
_REACHED: list[Column[tuple[tuple[System, Transport], Reach]]] = [
    Column("system", lambda of: of[1].system),
    Column("about", lambda of: of[0][0].about),
    Column("library", lambda of: of[0][0].library),
    Column("transport", lambda of: of[1].transport),
    Column("slowest copy GB/s", lambda of: GBps(of[1].slow_Bps) if of[1].slow_Bps else ""),
    Column("fastest copy GB/s", lambda of: GBps(of[1].fast_Bps) if of[1].fast_Bps else ""),
    Column("all-reduce GB/s", lambda of: GBps(of[1].busbw_Bps) if of[1].busbw_Bps else ""),
    Column("limited by", lambda of: of[1].limit if of[1].busbw_Bps else ""),
]
_COSTS: list[Column[CollectiveCost]] = [
    Column("collective", lambda cost: cost.collective),
    Column("system", lambda cost: cost.system),
    Column("library", lambda cost: cost.library),
    Column("GPUs", lambda cost: ",".join(map(str, cost.devices))),
    Column("size", lambda cost: size_text(cost.size_bytes)),
    Column("time ms", lambda cost: "?" if cost.time_s is None else in_ms(cost.time_s)),
    Column("interval", lambda cost: " to ".join(map(in_ms, cost.interval_s or []))),
    Column("busbw GB/s", lambda cost: "?" if cost.busbw_Bps is None else number(cost.busbw_Bps / 1e9)),
    Column("limited by", lambda cost: cost.limiting_link or ""),
    Column("off in the mean", lambda cost: "" if cost.error is None else f"{cost.error:.1%}"),
    Column("on", lambda cost: (cost.error_source or "").partition(";")[0]),  # its file has all of it
]


def _machines(answer: Any) -> list[System]:
    """The systems whose links are asked for, each once."""
    match answer:
        case Described(systems) | Routed(systems):
            machines = [machine for machine, _ in systems]
        case Ranked(rankings):
            machines = [ranking.machine for ranking in rankings]
        case _:
            machines = []
    return list({machine.name: machine for machine in machines}.values())


def rings_of(answer: Any) -> list[Figure]:
    """The rings of the collectives that were asked for, at the largest size; none where they are many."""
    plans = answer.plans if isinstance(answer, Costed) and len(answer.plans) <= DRAWN_PLANS else []
    return [of_plan(plan, answer.sizes[-1]) for plan in plans]


def _system(machine: System) -> Part:
    title = f"{machine.name}, as it is described"
    return Part(title, [described(machine, "auto")], figures=[of_system(machine)])


def _tabular(title: str, tabular: Tabular, tables: Sequence[PageTable], figures: Iterable[Figure] = ()) -> Part:
    answer = tabular.answer()
    return Part(title, answer.sentences if answer else [], figures=list(figures), tables=tables)


_PARTS: dict[type, Callable[[Any], Part]] = {
    RunRecord: _run,
    BenchRecord: lambda record: of_benches([record]),
    Trace: _trace,
    Prediction: of_prediction,
    SystemComparison: of_comparison,
    Comparison: _studies_compared,
    BenchComparison: _benches_compared,
    Accuracy: _accuracy,
    CheckedPapers: of_papers,
    Score: _score,
    Check: _check,
    Steering: _steering,
    System: _system,
}
