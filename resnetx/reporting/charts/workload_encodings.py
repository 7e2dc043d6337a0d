"""How the figures of a study encode workloads and settings: by colour, shape and dash; and their axes of work."""

from collections.abc import Iterable, Sequence

import altair as alt

from resnetx.reporting.charts.figure import CHARACTER, legend_of, log_ticks, si_axis
from resnetx.reporting.charts.styles import DASHES, INK, SeriesStyles
from resnetx.units import si


def workload_colour(styles: SeriesStyles) -> alt.Color:
    scale = alt.Scale(domain=styles.workloads, range=styles.colours)
    return alt.Color("workload:N", scale=scale, legend=legend_of(styles.workloads))


def workload_shape(styles: SeriesStyles, legend: alt.Legend | None = None) -> alt.Shape:
    scale = alt.Scale(domain=styles.workloads, range=styles.shapes)
    return alt.Shape("workload:N", scale=scale, legend=legend or legend_of(styles.workloads))


def variant_dash(styles: SeriesStyles) -> alt.StrokeDash | alt.StrokeDashValue:
    if not styles.dashed:
        return alt.StrokeDashValue([1, 0])
    scale = alt.Scale(domain=styles.variants, range=list(DASHES[: len(styles.variants)]))
    legend = legend_of(styles.variants, orient="top", symbolType="stroke", symbolSize=250, symbolStrokeColor=INK)
    return alt.StrokeDash("variant:N", scale=scale, legend=legend)


def log_y(values: Sequence[float], field: str, title: str, height: int) -> alt.Y:
    """A log axis of a column with these values, whose title is as high as the panel at most."""
    domain = [min(values) / 1.5, max(values) * 1.5]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    lines = [title] if CHARACTER * len(title) < height else _halves(title)
    return alt.Y(f"{field}:Q", title=lines, scale=scale, axis=si_axis(log_ticks(domain, 10), shown=True))


def _halves(title: str) -> list[str]:
    """A title on two lines, broken at the word nearest to its middle."""
    gaps = [place for place, character in enumerate(title) if character == " "]
    middle = min(gaps, key=lambda place: abs(place - len(title) / 2))
    return [title[:middle], title[middle + 1 :]]


def span(values: Iterable[float]) -> str:
    """The least and the greatest value, to three digits."""
    values = list(values)
    return " to ".join(dict.fromkeys([si(min(values)), si(max(values))]))
