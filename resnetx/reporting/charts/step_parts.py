"""Where the time of a step goes: a lying bar for each number of GPUs, whose parts fill the step.

In a bar stand its percents, at its end the speed-up. Predictions and studies are drawn alike, and so is the README's
picture.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from resnetx.record.prediction import PredictedPoint
from resnetx.reporting.charts.figure import GRID, INK, PAPER, PART_COLOURS, SYSTEMS, Figure
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, looks_there
from resnetx.reporting.charts.study_styles import SeriesStyles, cells, has_speedup
from resnetx.reporting.explain import Explained
from resnetx.reporting.explain_benches import ExplainedFigure
from resnetx.reporting.predicted_answer import PARTS, PredictedCurve, identity, unit_of_point
from resnetx.reporting.study_points import WORDS, StudyPoint, unit_of_points
from resnetx.table import Record, Table, table_of_records
from resnetx.units import how_many, percents, size_text, to_interval

COLOURS = {
    "useful": PART_COLOURS["compute"],
    "exposed communication": PART_COLOURS["communication"],
    "communication": PART_COLOURS["communication"],
    "communication and waiting": PART_COLOURS["communication"],
    "smaller batches": "#c3c9d0",
    "launching": "#e2c6d8",
    "waiting": "#6b747d",
    "input": PART_COLOURS["input"],
    "host": PART_COLOURS["host"],
    "the rest": PART_COLOURS["not separated"],
    "not explained": INK,
    "not resolved": GRID,
}  # in the order of a bar
_DARK_WORDS = ("smaller batches", "launching", "the rest", "not resolved")  # in parts that are pale
_ROOM = 1.7  # of the axis of shares: right of the bars stand the speed-ups
_CHARACTERS = 50  # that a panel has room for: so the speed-up with its interval has 20
_MOST_PANELS = 8
_LEAST_DRAWN = 0.001


@dataclass(frozen=True)
class StepBar:
    """The time of a step on one number of GPUs."""

    cells: Record  # what tells it apart, in the table of the figure
    panel: str
    ranks: str  # "8 GPUs"
    shares: Mapping[str, float]  # of the step, by part; none: they are not known
    speedup: str  # with its interval; "": of the baseline
    why: str = "not known"  # in place of shares


def step_bars(name: str, title: str, caption: str, bars: Sequence[StepBar], table: Table | None = None) -> Figure:
    """A figure of such bars. `table`: its data, where not all bars are drawn."""
    rows = [row for bar in bars for row in _rows(bar)]
    by_count = sorted(bars, key=lambda bar: int(str(bar.cells["gpus"])))
    plot = Plot(
        x=Axis("start", "", domain=(0, _ROOM)),
        y=Axis("ranks", "", "names", order=list(dict.fromkeys(bar.ranks for bar in by_count))),
        marks=(
            Mark("spans", "isValid(datum.end)", "end"),
            Mark("words", "isValid(datum.label)", "label", within="end", scale=Scale("ink", {})),
            Mark("words", "isValid(datum.speedup)", "speedup", look={"align": "left"}, along="beside"),
            *[Mark("words", "isValid(datum.why)", "why", look={"align": "left"}, along="zero")]
            * any(row["why"] for row in rows),
        ),
        colour=looks_there("part", COLOURS, rows),
        panel="panel",
        columns=2,
        characters=_CHARACTERS,
        bare=True,
        chart_only=_DRAWN,
    )
    return figure(name, title, caption, table_of_records(rows), plot, table)


_DRAWN = ("panel", "ranks", "start", "end", "label", "ink", "zero", "beside", "speedup", "why", "description")


def _rows(bar: StepBar) -> Iterator[Record]:
    """A row for each part: its share, and from where to where it is drawn, which is never beyond the step."""
    shares = {part: bar.shares[part] for part in COLOURS if bar.shares.get(part, 0.0) > 0}
    whole = max(1.0, sum(shares.values()))
    drawn = {part: share / whole for part, share in shares.items()}
    ends = dict(zip(drawn, accumulate(drawn.values()), strict=True))
    texts = percents(drawn, "useful")
    alone: Record = {"panel": bar.panel, "ranks": bar.ranks, "zero": 0.01, "beside": 1.02}
    for part, share in shares.items():
        yield {
            **bar.cells,
            "part": part,
            "share": share,
            **alone,
            "start": ends[part] - drawn[part],
            "end": ends[part],
            "label": f"{texts[part]}%",
            "ink": INK if part in _DARK_WORDS else PAPER,
            "speedup": bar.speedup if part == next(iter(shares)) and bar.speedup else None,
            "why": None,
            "description": f"{bar.panel}, {bar.ranks}: {part} {share:.1%} of the step".removeprefix(", "),
        }
    if not shares:
        unknown = dict.fromkeys(("start", "end", "label", "ink"))
        said = {"speedup": bar.speedup or None, "why": bar.why, "description": f"{bar.ranks}: {bar.why}"}
        yield {**bar.cells, "part": None, "share": None, **alone, **unknown, **said}


def _times(value: float, low: float, high: float) -> str:
    """A speed-up with its interval."""
    shown, least, most = to_interval(value, low, high)
    return f"\u00d7{shown}" + f" ({least} to {most})" * (low < high)


# ---- predicted


def predicted_parts(curves: Sequence[PredictedCurve]) -> Figure | None:
    """Parts of predicted steps: the systems of one workload beside each other."""
    names = identity(curves)
    common = ", ".join(_name(curves[0], name) for name in ("workload", "batch") if name not in names)
    told = [curve for curve in curves if any(point.gpus > 1 for point in curve.able)]
    workloads: dict[tuple[str, str], list[list[StepBar]]] = {}
    for curve in told:
        of_curve = [_predicted_bar(curve, point, names) for point in curve.points]
        if any(len(bar.shares) > 1 for bar in of_curve):
            workloads.setdefault((curve.workload, curve.batch), []).append(of_curve)
    bars = {work: list(chain.from_iterable(same)) for work, same in workloads.items()}
    if not bars:
        return None
    unknown = len(told) - sum(map(len, workloads.values()))
    most = max(1, _MOST_PANELS // max(map(len, workloads.values())))
    shown = [list(bars)[place] for place in _places(len(bars), most)]
    caption = "Parts of the predicted step; in brackets: what nine of ten measurements should lie within. Useful: what "
    caption += "linear scaling leaves of the step that speed-ups (\u00d7) are over."
    caption += f" Of {unknown} of {len(told)} curves the parts are not known." * bool(unknown)
    if len(shown) < len(bars):
        left = [
            work if batch in ("", common) else f"{work}, batch {batch}"
            for work, batch in bars
            if (work, batch) not in shown
        ]
        caption += f" Drawn: {len(shown)} of {len(bars)} workloads and batches"
        caption += (
            f"; not {' and '.join(left)}: see the data." if len(left) <= 2 else "; the data of the figure has all."
        )
    every = [row for of_work in bars.values() for bar in of_work for row in _rows(bar)]
    columns = [column for column in every[0] if column not in _DRAWN]
    table = Table(columns, [[row[column] for column in columns] for row in every])
    title = "Where the time of each GPU goes" + f": {common}" * bool(common)
    return step_bars("parts", title, caption, [bar for work in shown for bar in bars[work]], table)


def _places(count: int, most: int) -> list[int]:
    """So many places of a list at most, from its first to its last."""
    if count <= most or most == 1:
        return list(range(min(count, most)))
    return [place * (count - 1) // (most - 1) for place in range(most)]


def _name(curve: PredictedCurve, name: str) -> str:
    return f"batch {curve.batch}" if name == "batch" else str(getattr(curve, name))


def _predicted_bar(curve: PredictedCurve, point: PredictedPoint, names: Sequence[str]) -> StepBar:
    low, high = point.speedup_interval or (point.speedup or 0.0, point.speedup or 0.0)
    gained = point.speedup is not None and point.gpus != point.baseline_gpus
    return StepBar(
        cells={
            "workload": curve.workload,
            "batch": curve.batch,
            **{name: getattr(curve, name) for name in names},
            "gpus": point.gpus,
        },
        panel=", ".join(_name(curve, name) for name in names),
        ranks=how_many(point.gpus, unit_of_point(point)),
        shares={PARTS[part.name]: part.share for part in point.parts} if point in curve.able else {},
        speedup=_times(point.speedup or 0.0, low, high) if gained else "",
        why="does not fit into memory" if point.outcome == "oom" else "parts not known",
    )


# ---- measured


def measured_parts(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure | None:
    """A bar for each point of the lines with known parts; parts that the runs do not show are one."""
    known = {point.line for point in points if point.result.lost and point.result.lost.parts and has_speedup(point)}
    bars = [
        _measured_bar(point) for point in styles.in_order(points) if point.line in known and point.result.images_per_s
    ]
    if not bars:
        return None
    title = "Where the time goes, and what is left of linear scaling"
    if len({bar.panel for bar in bars}) == 1:
        title = f"Where the time goes: {bars[0].panel}"
        bars = [replace(bar, panel="") for bar in bars]
    unit = unit_of_points(points)
    return step_bars(
        "lost",
        title,
        f"Parts of a step on each {unit}, over the baseline's; at the end the speed-up (\u00d7) with its interval. "
        "Useful: what linear scaling leaves."
        + _NOT_RESOLVED * any("not resolved" in bar.shares for bar in bars)
        + _fewer_repeats([point for point in points if point.line in known]),
        bars,
    )


def _fewer_repeats(points: Sequence[StudyPoint]) -> str:
    """That parts are of fewer repeats than speed-ups, which may then differ from what is useful; "" where none is."""
    fewer = [
        (lost.repeats, rate.n)
        for point in points
        if (lost := point.result.lost)
        and lost.parts
        and (rate := point.result.images_per_s)
        and rate.n > lost.repeats > 0
    ]
    if not fewer:
        return ""
    least, runs = min(fewer)
    return f" Parts are of {least} of {runs} repeats, those with a run of each control; speed-ups are of all."


_NOT_RESOLVED = " Not resolved: parts that the runs do not show, together."
_PART_WORDS: dict[str, str] = {str(name): words for name, words in WORDS.items()} | {"the rest": "the rest"}


def _measured_bar(point: StudyPoint) -> StepBar:
    lost, result = point.result.lost, point.result
    shown = {part.name: part.share.median for part in lost.parts if part.name == "useful" or part.shown} if lost else {}
    shares = {_PART_WORDS.get(str(name), str(name)): share for name, share in shown.items() if share > 0}
    open_ = 1 - sum(shares.values())
    if shares and open_ > _LEAST_DRAWN:
        shares["not resolved"] = open_
    gained = result.speedup if has_speedup(point) else None
    return StepBar(
        cells=cells(point),
        panel=point.line_words,
        ranks=how_many(point.gpus, result.unit),
        shares=shares,
        speedup=_times(gained.median, gained.low, gained.high) if gained else "",
        why="parts not known",
    )


# ---- explained


def explained_parts(cases: Sequence[Explained]) -> list[Figure]:
    """Of each case a bar of its step, or two of both sides below each other, with the time at its end."""
    shown = [cases[place] for place in _places(len(cases), _MOST_PANELS)]
    bars = [bar for each in shown for bar in _explained_bars(each)]
    if not any(len(bar.shares) > 1 for bar in bars):
        return []
    caption = "Parts of the step, and how long it is." + _NOT_RESOLVED * any(
        "not resolved" in bar.shares for bar in bars
    )
    caption += f" Drawn: {len(shown)} of {len(cases)} cases." * (len(shown) < len(cases))
    return [step_bars("explained", "Where the time of a step goes", caption, bars)]


def compared_times(found: Sequence[Explained] | Sequence[ExplainedFigure]) -> list[Figure]:
    """How many times as long each step, or figure of a bench, takes in B as in A, where nothing has parts."""
    rows: list[Record] = []
    for each in found:
        if isinstance(each, Explained):
            what, a_s, b_s, longer = each.case, each.a_step_s, each.b_step_s, each.longer
            low_s, high_s = each.a_interval_s or (a_s, a_s)
        else:
            where = f" from {each.source} to {each.target}" * (each.source is not None)
            what, a_s, b_s, longer = f"{each.what}{where}, {size_text(each.size_bytes)}", each.a_s, each.b_s, None
            low_s, high_s = each.a_interval_s or (a_s, a_s)
        if a_s and b_s:
            low, high = longer or (b_s / high_s, b_s / low_s)
            cells: Record = {"b_over_a": b_s / a_s, "b_over_a_low": low, "b_over_a_high": high}
            rows.append({"what": what, **cells, "state": _STATES[each.outside]})
    rows.sort(key=lambda row: -float(row["b_over_a"] or 1))
    if not rows:
        return []
    rows = [{"place": place, **row} for place, row in enumerate(rows, 1)]
    plot = Plot(
        x=Axis("place", "those that take longer in B first"),
        y=Axis("b_over_a", "time in B over time in A", "log", "times"),
        marks=(Mark("rule", column="1"), Mark("whiskers"), Mark("dots", look={"size": 16})),
        colour=looks_there("state", dict(zip(_STATES, SYSTEMS, strict=False)), rows),
        tips=("what", "b_over_a", "b_over_a_low", "b_over_a_high"),
    )
    return [
        figure("times", "How times in B differ from those in A", "Whiskers: interval.", table_of_records(rows), plot)
    ]


_STATES = ("no difference shown", "differs")


def _explained_bars(each: Explained) -> Iterator[StepBar]:
    for place, (side, of, step_s) in enumerate((("A", each.a, each.a_step_s), ("B", each.b, each.b_step_s))):
        if of is None or not step_s:
            continue
        known: dict[str, float] = {}
        for part in each.parts:
            seconds = part.a_s if side == "A" else part.b_s
            open_ = part.name != "useful" and part.evidence in ("not resolved", f"not resolved in {side}")
            name = "not resolved" if open_ else _PART_WORDS.get(str(part.name), str(part.name))
            known[name] = known.get(name, 0.0) + max(0.0, seconds or 0.0) / step_s
        label = f"{side}, {of}" if each.b else of
        cells: Record = {"case": each.case, "side": side, "gpus": place}
        yield StepBar(cells, each.case, label, known, f"{1e3 * step_s:.4g} ms")
