"""The figure of what limits points: how much of its step each part of the work takes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.machine import Unit
from resnetx.reporting.charts.figure import CHARACTER, COLUMN, WORD_HEIGHT, Figure, layered, legend_of, panel_grid
from resnetx.reporting.charts.missing_points import meanings, word
from resnetx.reporting.charts.styles import INK, PART_COLOURS, SeriesStyles
from resnetx.reporting.study.limits import PARTS, Limits
from resnetx.reporting.study.points import StudyPoint, unit_of_points
from resnetx.reporting.table import table_of


class _ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of one point's step; no part and no share where the point has no rate."""

    workload: str
    batch: str
    variant: str
    gpus: int
    part: str | None
    share: float | None


class _ShareBar(_ShareRow, frozen=True, kw_only=True):
    panel: str
    word: str | None
    description: str | None


def step_shares(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """What the step of every point is spent on."""
    bars = [bar for point in styles.in_order(points) for bar in _bars(point)]
    panels = list(dict.fromkeys(bar.panel for bar in bars))
    longest = max(len(line) for panel in panels for line in panel.split(", "))
    columns = max(1, min(4, len(panels), int((COLUMN - 36) // (CHARACTER * longest + 2))))
    width = (COLUMN - 52 - 7 * (max(2, columns) - 1)) // max(2, columns)
    scales = _scales(bars, unit_of_points(points))

    def panel(chart: alt.Chart, left: bool, last: bool) -> alt.LayerChart:
        return _panel(chart.properties(width=width, height=38), scales, left, last)

    return Figure(
        name="limits",
        title=f"What limits the points: {_verdicts(points)}",
        caption="Shares of the time of a step, by what it gets shorter without its input or without exchanging "
        "gradients, and by the time in which no kernel runs; the rest is computing."
        f"{_not_separate(points)}{meanings(points)}",
        table=table_of(bars, _ShareRow),
        chart=panel_grid(table_of(bars), "panel", panels, columns, panel),
    )


# ---- data -----------------------------------------------------------------------------------------------------------


def _bars(point: StudyPoint) -> Iterator[_ShareBar]:
    """A bar for each part of a point's step, or the word that stands in their place."""
    limits = point.result.limits
    if limits is None:
        yield _bar(point, None, None, word(point))
        return
    if not limits.shares:
        yield _bar(point, None, None, "not known")
        return
    mixed = limits.unknown.keys() - {"host"}
    for part in PARTS:
        if part in limits.shares:
            name = "not separated" if part == "compute" and mixed else part
            yield _bar(point, name, limits.shares[part].median, None)


def _bar(point: StudyPoint, part: str | None, share: float | None, missing: str | None) -> _ShareBar:
    return _ShareBar(
        workload=point.workload,
        batch=point.batch,
        variant=point.variant,
        gpus=point.gpus,
        part=part,
        share=share,
        panel=point.line_words,
        word=missing,
        description=None if share is None else f"{point.words}: {part} {share:.0%}",
    )


def _limits(points: Iterable[StudyPoint]) -> list[Limits]:
    return [point.result.limits for point in points if point.result.limits]


def _verdicts(points: Iterable[StudyPoint]) -> str:
    """How many points have each verdict, the most frequent first."""
    verdicts = Counter(limits.verdict or ("open" if limits.shares else "not known") for limits in _limits(points))
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _not_separate(points: Iterable[StudyPoint]) -> str:
    """The parts that were not measured, as a sentence of the caption; "" where all were."""
    mixed = [limits for limits in _limits(points) if limits.shares]
    unknown = dict.fromkeys(f"{part} ({why})" for limits in mixed for part, why in limits.unknown.items())
    return f" Not measured separately, so included in the rest: {'; '.join(unknown)}." if unknown else ""


# ---- drawing --------------------------------------------------------------------------------------------------------


class _Scales(msgspec.Struct, frozen=True):
    """What all panels share."""

    parts: list[str]
    gpus: list[int]
    domain: list[float]
    unit: Unit


def _scales(bars: Sequence[_ShareBar], unit: Unit) -> _Scales:
    return _Scales(
        parts=[part for part in PART_COLOURS if any(bar.part == part for bar in bars)],
        gpus=sorted({bar.gpus for bar in bars}),
        domain=[0.0, 1.12],
        unit=unit,
    )


def _panel(chart: alt.Chart, scales: _Scales, left: bool, last: bool) -> alt.LayerChart:
    """Bars of parts on top of each other, one for each number of GPUs, or a word upright in their place."""
    x = alt.X(
        "gpus:O",
        title=f"{scales.unit}s" if last else None,
        scale=alt.Scale(domain=scales.gpus, padding=0.12),
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labels=last, ticks=last),
    )
    y = alt.Y(
        "share:Q",
        title=["share of", "the step"] if left else None,
        scale=alt.Scale(domain=scales.domain, nice=False),
        axis=alt.Axis(format="%", values=[0, 0.5, 1], labels=left, ticks=left),
    )
    colours = alt.Scale(domain=scales.parts, range=[PART_COLOURS[part] for part in scales.parts])
    legend = legend_of(scales.parts, symbolType="square")
    chart = chart.encode(x=x)
    bars = chart.transform_filter("isValid(datum.share)").transform_calculate(
        order=f"indexof({scales.parts}, datum.part)"
    )
    bars = bars.mark_bar().encode(
        y=y,
        color=alt.Color("part:N", scale=colours, legend=legend),
        order=alt.Order("order:Q"),
        description=alt.Description("description:N"),
    )
    words = chart.transform_filter("isValid(datum.word)")
    words = words.mark_text(fontSize=WORD_HEIGHT - 1, align="left", angle=270, color=INK, dx=2, aria=False)
    return layered([bars, words.encode(y=alt.YDatum(0), text=alt.Text("word:N"))], chart)
