"""Where the workloads of a study are in intensity space: work over communication, and efficiency over it.

After Tallent et al. 2017, Fig. 6 and 7.
"""

from collections.abc import Iterator, Sequence

from resnetx.record import Workload
from resnetx.reporting.charts.figure import Figure, workload_colours
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, shape_looks, span, table_of_records
from resnetx.reporting.charts.study_styles import cells, has_speedup, outcome
from resnetx.reporting.study_points import StudyPoint, batch_categories, unit_of_points, workloads_in_order
from resnetx.table import Record
from resnetx.units import si

MOST_SAID = 6  # values that a sentence has in place of a figure

Counted = Sequence[tuple[StudyPoint, Workload]]  # points with their counts, by one convention


def batch_intensities(counted: Counted, convention: str, suffix: str) -> Figure | str:
    """Work, and work over communication, by batch category."""
    rows = list(_batches(counted))
    work, intensity = ([float(row[column] or 0) for row in rows] for column in (_WORK, _INTENSITY))
    names = list(dict.fromkeys(str(row["workload"]) for row in rows))
    if len(rows) == len(names) <= MOST_SAID:
        each = ", ".join(f"{name} {si(value)}" for name, value in zip(names, intensity, strict=True))
        return f"Activations per parameter of a batch (by the {convention} convention): {each}."
    plot = Plot(
        x=Axis(
            "batch_category", "batch category", "steps", order=sorted({int(str(row["batch_category"])) for row in rows})
        ),
        y=Axis(_WORK, f"activations per batch ({convention})", "log", "si"),
        beside=(Axis(_INTENSITY, f"activations per parameter ({convention})", "log", "si"),),
        marks=(Mark("line", look={"strokeWidth": 0.75, "opacity": 0.6}), Mark("dots", look={"size": 22})),
        colour=Scale("workload", workload_colours(names)),
        shape=Scale("workload", shape_looks(names)),
        height=130,
        chart_only=("description",),
    )
    return figure(
        f"intensity{suffix}",
        f"The workloads: {span(intensity)} activations per parameter, {span(work)} per batch",
        "Work of a batch, and its work over communication, by batch category: 1 is the smallest batch that a workload "
        f"has here. Counted by the {convention} convention. After Tallent et al. 2017, Fig. 6.",
        table_of_records(rows),
        plot,
    )


_WORK, _INTENSITY, _ON_EACH = "activations_per_batch", "activations_per_parameter", "activations_per_parameter_per_gpu"


def _batches(counted: Counted) -> Iterator[Record]:
    """One row for each batch of each workload; with weak scaling a batch is one on each number of GPUs."""
    points = [point for point, _ in counted]
    most_gpus_first = sorted(counted, key=lambda pair: pair[0].gpus, reverse=True)
    distinct = {(point.workload, point.batch): (point, counts) for point, counts in most_gpus_first}
    order, categories = workloads_in_order(points), batch_categories(points)
    for point, counts in sorted(distinct.values(), key=lambda pair: order.index(pair[0].workload)):
        work, intensity = si(counts.activations_per_batch), si(counts.intensity)
        yield {
            "workload": point.workload,
            "batch": point.batch,
            "batch_category": categories[point.workload, point.batch],
            _WORK: counts.activations_per_batch,
            _INTENSITY: counts.intensity,
            "description": f"{point.workload}, {point.batch}: {work} activations, {intensity} per parameter",
        }


def located(counted: Counted, convention: str, suffix: str) -> Figure | str:
    """Efficiency over intensity: every point that is compared with another one; two systems in one panel, by shape."""
    rows = [_located_row(point, counts) for point, counts in counted]
    unit = unit_of_points(point for point, _ in counted)
    each = f"activations per parameter on each {unit}"
    intensities = span(float(row[_ON_EACH] or 0) for row in rows)
    drawn = [row for row in rows if row["shown_as"] in ("interval", "no interval")]
    if len(drawn) < 2:
        return f"The cases: {intensities} {each} (by the {convention} convention)."
    points = [point for point, _ in counted]
    workloads, systems = workloads_in_order(points), list(dict.fromkeys(point.system for point in points))
    shaped, shapes = ("system", systems) if len(systems) > 1 else ("workload", workloads)
    sizes = {count: 14 + 12 * place for place, count in enumerate(sorted({point.gpus for point in points}))}
    missing = sum(row["shown_as"] == "not measured" for row in rows)
    largest = max(float(row["efficiency"] or 0) for row in drawn)
    shown = {
        "interval": [
            Mark("whiskers", "datum.shown_as == 'interval'", look={"opacity": 0.35}),
            Mark("dots", "datum.shown_as == 'interval'", look={"opacity": 0.85}),
        ],
        "no interval": [Mark("dots", "datum.shown_as == 'no interval'", look={"filled": False})],
    }
    marks = [
        mark for kind, of_kind in shown.items() if any(row["shown_as"] == kind for row in rows) for mark in of_kind
    ]
    plot = Plot(
        x=Axis(_ON_EACH, f"{each} ({convention})", "log", "si"),
        y=Axis("efficiency", "parallel efficiency", labels="percent", domain=(0.0, max(1.0, 1.02 * largest))),
        marks=marks,
        colour=Scale("workload", workload_colours(workloads)),
        shape=Scale(shaped, shape_looks(shapes)),
        size=Scale("gpus", sizes, f"{unit}s"),
        panel="settings",
        columns=2,
        height=130,
        chart_only=("system", "settings", "description"),
    )
    return figure(
        f"located{suffix}",
        f"Efficiency over work for communication: {intensities} {each}",
        "Each point but the baselines, with its efficiency over its baseline. Hollow: without an interval."
        + f" Not measured, and so not drawn: {missing}." * bool(missing)
        + f" Counted by the {convention} convention. After Tallent et al. 2017, Fig. 7.",
        table_of_records(rows),
        plot,
    )


def _located_row(point: StudyPoint, counts: Workload) -> Record:
    efficiency = point.result.efficiency
    words = f"efficiency {efficiency.median:.0%} over {point.result.baseline}" if efficiency else outcome(point)
    shown = (
        "the baseline"
        if not has_speedup(point)
        else "interval"
        if efficiency and efficiency.kind == "interval"
        else "no interval"
    )
    return {
        **cells(point),
        _ON_EACH: counts.intensity / point.gpus,
        "efficiency": efficiency.median if efficiency else None,
        "efficiency_low": efficiency.low if efficiency else None,
        "efficiency_high": efficiency.high if efficiency else None,
        "shown_as": shown if efficiency else "not measured",
        "system": point.system,
        "settings": point.settings,
        "description": f"{point.words}, {si(counts.intensity / point.gpus)} activations per parameter: {words}",
    }
