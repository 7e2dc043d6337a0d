"""What the figures of a study share: what tells series apart, and words for points without a rate; and where workloads
are in intensity space."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from resnetx.record import Workload
from resnetx.reporting.charts.figure import SYSTEMS, Figure, family_colours, workload_colours
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, names_in, numbers_in, shape_looks, span
from resnetx.reporting.study_points import (
    StudyPoint,
    batch_categories,
    batches_in_order,
    unit_of_points,
    workloads_in_order,
)
from resnetx.table import Record, table_of_records
from resnetx.units import si

MOST_SIDES = 4  # variants or systems beside each other in one panel


class SeriesStyles:
    """What tells the series of a page apart: two systems always by solid and hollow marks, in one panel.

    Panels are by batch with a colour for each workload, or by workload with one for each batch, whichever are fewer.
    Where each workload has one batch, colours are free for settings. More than two variants have a shape each.
    """

    def __init__(self, points: Sequence[StudyPoint]) -> None:
        self.workloads, self.batches = workloads_in_order(points), batches_in_order(points)
        self.variants, systems, settings = (
            list(dict.fromkeys(getattr(point, name) for point in points)) for name in ("variant", "system", "settings")
        )
        alone = len({(point.workload, point.batch) for point in points}) == len(self.workloads)
        several = len(self.batches) > 1 or len(self.variants) > MOST_SIDES
        self.by_workload = len(self.workloads) <= len(self.batches) and several
        self.line = "batch" if self.by_workload else "workload"
        self.colours = workload_colours(self.workloads)
        if self.by_workload:
            self.colours = dict(zip(self.batches, family_colours(len(self.batches)), strict=True))
        of_settings = self.by_workload and alone and 1 < len(settings) <= len(SYSTEMS)
        if of_settings:
            self.line, self.colours = "settings", dict(zip(settings, SYSTEMS, strict=False))
        if len(self.variants) <= MOST_SIDES and not of_settings:
            self.side, names, apart = "variant", self.variants, []
        elif len(systems) <= MOST_SIDES:
            self.side, names, apart = "system", systems, [*["settings"] * (not of_settings)]
        else:
            self.side, names, apart = "system", [], ["variant"]
        self.sides = names if len(names) > 1 else []
        self._panel = ["workload"] * self.by_workload + ["batch"] * (self.line != "batch") + apart

    def panel(self, point: StudyPoint) -> str:
        """The panel of a scaling chart that a point is in."""
        return ", ".join(filter(None, (getattr(point, name) for name in self._panel)))

    def panels(self, points: Sequence[StudyPoint]) -> list[str]:
        """All panels, the smallest batch first."""
        return list(dict.fromkeys(map(self.panel, self.in_order(points))))

    def in_order(self, points: Sequence[StudyPoint]) -> list[StudyPoint]:
        """The points by panel: workload, batch, variant and GPUs, or batch first."""

        def place(point: StudyPoint) -> tuple[int, ...]:
            names = self.workloads.index(point.workload), self.batches.index(point.batch)
            return (*(names if self.by_workload else names[::-1]), self.variants.index(point.variant), point.gpus)

        return sorted(points, key=place)


def cells(point: StudyPoint) -> Record:
    """What tells a point apart, in every table of a figure."""
    return {"workload": point.workload, "batch": point.batch, "variant": point.variant, "gpus": point.gpus}


def has_speedup(point: StudyPoint) -> bool:
    """Whether a point has a speed-up, and is not the baseline itself."""
    speedup = point.result.speedup
    return speedup is not None and not speedup.low == speedup.high == 1


# ---- points without a rate: the words that stand at the foot of a panel in their place, and what these mean ---------

_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}  # by outcome


def outcome(point: StudyPoint) -> str:
    """How a point ended; "no rate" where its runs went well, but measured none."""
    result = point.result
    return "no rate" if result.outcome == "ok" and result.images_per_s is None else result.outcome


def word(point: StudyPoint) -> str:
    """The word for a point that has no rate."""
    return _WORDS[outcome(point)][0]


def meanings(points: Iterable[StudyPoint]) -> str:
    """What the words mean that stand for missing points, as a sentence of a caption; "" where none is missing."""
    used = dict.fromkeys(_WORDS[outcome(point)] for point in points if point.result.images_per_s is None)
    return f" In place of points: {', '.join(f'{word} ({meaning})' for word, meaning in used)}." if used else ""


def lacking(points: Iterable[StudyPoint]) -> str:
    """How many points have no rate, and why: "1 failed, 2 out of memory"."""
    why = Counter(_WORDS[outcome(point)][1] for point in points if point.result.images_per_s is None)
    return ", ".join(f"{count} {words}" for words, count in why.items())


# ---- intensity space: work over communication, and efficiency over it (after Tallent et al. 2017, Fig. 6 and 7) -----


MOST_SAID = 6  # values that a sentence has in place of a figure

Counted = Sequence[tuple[StudyPoint, Workload]]  # points with their counts, by one convention


def batch_intensities(counted: Counted, convention: str, suffix: str) -> Figure | str:
    """Work, and work over communication, by batch category."""
    rows = list(_batches(counted))
    work, intensity = (numbers_in(rows, column) for column in (_WORK, _INTENSITY))
    names = names_in(rows, "workload")
    if len(rows) == len(names) <= MOST_SAID:
        each = ", ".join(f"{name} {si(value)}" for name, value in zip(names, intensity, strict=True))
        return f"Activations per parameter of a batch (by the {convention} convention): {each}."
    plot = Plot(
        x=Axis(
            "batch_category", "batch category", "steps", order=sorted({int(str(row["batch_category"])) for row in rows})
        ),
        y=Axis(_WORK, f"activations per batch ({convention})", "log", "si"),
        beside=(Axis(_INTENSITY, f"activations per parameter ({convention})", "log", "si"),),
        marks=[Mark("dots", look={"size": 22})],
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
    intensities = span(numbers_in(rows, _ON_EACH))
    drawn = [row for row in rows if row["shown_as"] in ("interval", "no interval")]
    if len(drawn) < 2:
        return f"The cases: {intensities} {each} (by the {convention} convention)."
    points = [point for point, _ in counted]
    workloads, systems = workloads_in_order(points), list(dict.fromkeys(point.system for point in points))
    shaped, shapes = ("system", systems) if len(systems) > 1 else ("workload", workloads)
    sizes = {count: 14 + 12 * place for place, count in enumerate(sorted({point.gpus for point in points}))}
    missing = sum(row["shown_as"] == "not measured" for row in rows)
    largest = max(numbers_in(drawn, "efficiency"))
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
