"""A figure as files: its Vega-Lite specification, the table behind it, and drawings for screens and for print.

What draws (vl-convert) is an extra: without it there are the first two, which vega.github.io/editor and Vega draw, too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from resnetx import packages
from resnetx.errors import ConfigError, shortened
from resnetx.reporting.charts.figure import AnyChart, Figure, specification
from resnetx.reporting.table import write_csv
from resnetx.visible import visible


def undrawn() -> str:
    """Why there are no drawings, in one sentence with the command that brings them; "" where there are."""
    return packages.obstacle("vl_convert")


@dataclass(frozen=True)
class DrawnChart:
    """A chart as its files have it."""

    specification: dict[str, Any]  # Vega-Lite
    svg: str  # "" where nothing draws


def draw(chart: AnyChart) -> DrawnChart:
    """A chart, drawn. It needs no network.

    What draws it crashes at control characters, so texts show them written out.
    """
    plain = _shown(specification(chart))
    return DrawnChart(plain, "" if undrawn() else _svg(plain))


def _svg(plain: dict[str, Any]) -> str:
    import vl_convert

    try:
        return str(vl_convert.vegalite_to_svg(plain))
    except ValueError as error:  # of values that no machine measures, as 1e308
        raise ConfigError(f"a figure cannot be drawn of these records: {shortened(error)}") from None


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


def write_figure(figure: Figure, chart: DrawnChart, folder: Path) -> Path:
    """NAME.vl.json and NAME.csv; where it is drawn, NAME.svg and NAME.pdf. Returns the file to look at.

    `chart`: that of the figure.
    """
    write_csv(folder / f"{figure.name}.csv", figure.table)
    shown = write_drawing(chart, folder / figure.name)
    if chart.svg:
        import vl_convert

        (folder / f"{figure.name}.pdf").write_bytes(vl_convert.svg_to_pdf(chart.svg))
    return shown


def write_drawing(chart: DrawnChart, stem: Path) -> Path:
    """STEM.vl.json, and STEM.svg where it is drawn; returns the file to look at."""
    plain, drawing = (stem.with_name(f"{stem.name}.{kind}") for kind in ("vl.json", "svg"))
    plain.write_bytes(msgspec.json.encode(chart.specification))
    if not chart.svg:
        return plain
    drawing.write_text(chart.svg, encoding="utf-8")
    return drawing
