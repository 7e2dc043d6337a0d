"""How the figures of predictions encode systems, and what else lines differ in: by colour and dash."""

from collections.abc import Sequence

import altair as alt

from resnetx.record.system_comparison import SystemPoint
from resnetx.reporting.charts.figure import legend_of
from resnetx.reporting.charts.styles import DASHES, INK, SYSTEMS, family_colours


def system_colour(systems: Sequence[str]) -> alt.Color:
    colours = [SYSTEMS[place % len(SYSTEMS)] for place in range(len(systems))]
    scale = alt.Scale(domain=list(systems), range=colours)
    return alt.Color("system:N", scale=scale, legend=legend_of(systems, symbolType="stroke", symbolStrokeWidth=1.5))


def line_colour(lines: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(lines), range=family_colours(len(lines)))
    return alt.Color("line:N", scale=scale, legend=legend_of(lines, symbolType="stroke", symbolStrokeWidth=1.5))


def dash(field: str, names: Sequence[str | int], unit: str = "") -> alt.StrokeDash:
    dashes = [DASHES[place % len(DASHES)] for place in range(len(names))]
    labels = [f"{name}{unit}" for name in names]
    legend = legend_of(
        labels,
        labelExpr=f"datum.label + '{unit}'",
        orient="top",
        symbolType="stroke",
        symbolSize=250,
        symbolStrokeColor=INK,
    )
    return alt.StrokeDash(field, scale=alt.Scale(domain=list(names), range=dashes), legend=legend)


def batch_words(point: SystemPoint) -> str:
    return f"batch {point.batch_size}"


def point_words(point: SystemPoint) -> str:
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return ", ".join(filter(None, [point.workload, batch_words(point), point.variant, gpus]))
