"""The figure of one collective alone: effective bandwidth over size, by system and GPUs.

The form is that of Tallent et al. 2017, Fig. 10 and 11.
"""

from collections.abc import Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.system_comparison import CollectivePoint
from resnetx.reporting.charts.figure import COLUMN, Figure, panel_grid
from resnetx.reporting.charts.system_encodings import dash, system_colour
from resnetx.reporting.table import table_of

GIB = 2**30
ZOOM_BYTES = (0.5e6, 6e6)  # ResNet/x's gradients
_PAPERS_FIGURES = {"allreduce": 10}  # of the others, 11


class _CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    system: str
    library: str
    collective: str
    gpus: int
    size_bytes: int
    time_s: float
    algbw_GiBps: float


class _CollectiveMark(_CollectiveRow, frozen=True, kw_only=True):
    panel: str


def collective_bandwidth(points: Sequence[CollectivePoint], name: str) -> Figure:
    """Effective bandwidth over size: all sizes, and closely those of ResNet/x's gradients."""
    marks = [mark for point in points for mark in _marks(point)]
    drawn = {mark.panel for mark in marks}
    libraries = dict.fromkeys(point.library for point in points)
    panels = [panel for library in libraries for panel in (library, _zoomed(library)) if panel in drawn]
    systems = list(dict.fromkeys(point.system for point in points))
    gpus = sorted({point.gpus for point in points})
    sizes = [point.size_bytes for point in points]

    def panel(chart: alt.Chart, left: bool, last: bool) -> alt.Chart:
        scale = alt.Scale(type="log", domain=[min(sizes), max(sizes)], nice=False)
        if not left:
            scale = alt.Scale(domain=list(ZOOM_BYTES), nice=False)
        ticks = [1e4, 1e5, 1e6, 1e7, 1e8] if left else [1e6, 2e6, 3e6, 4e6, 5e6, 6e6]
        axis = alt.Axis(values=ticks, format="~s", labels=last, ticks=last)
        chart = chart.properties(width=(COLUMN - 50) // 2, height=95).mark_line(strokeWidth=1.1, clip=True)
        encoded: alt.Chart = chart.encode(
            x=alt.X("size_bytes:Q", title="bytes" if last else None, scale=scale, axis=axis),
            y=alt.Y("algbw_GiBps:Q", title="size / time, GiB/s" if left else None, axis=alt.Axis(tickCount=5)),
            color=system_colour(systems),
            strokeDash=dash("gpus:O", gpus, " GPUs"),
        )
        return encoded

    return Figure(
        name=name,
        title=f"{name.capitalize()} alone, by system and GPUs",
        caption="Effective bandwidth: the bytes that each GPU has, over the time. Left: all sizes; right: those of "
        "ResNet/x's gradients. By the descriptions of the systems, not calibrated. After Tallent et al. 2017, Fig. "
        f"{_PAPERS_FIGURES.get(name, 11)}.",
        table=table_of(marks, _CollectiveRow),
        chart=panel_grid(table_of(marks), "panel", panels, 2, panel),
    )


def _marks(point: CollectivePoint) -> Iterator[_CollectiveMark]:
    whole = _CollectiveMark(
        system=point.system,
        library=point.library,
        collective=point.collective,
        gpus=point.gpus,
        size_bytes=point.size_bytes,
        time_s=point.time_s,
        algbw_GiBps=point.algbw_Bps / GIB,
        panel=point.library,
    )
    yield whole
    if ZOOM_BYTES[0] <= point.size_bytes <= ZOOM_BYTES[1]:
        yield msgspec.structs.replace(whole, panel=_zoomed(point.library))


def _zoomed(library: str) -> str:
    return f"{library}, 0.5 to 6 MB"
