"""A figure as files: a drawing for screens, one for print, and the table behind it."""

from pathlib import Path
from typing import Any

from resnetx.errors import ConfigError, shortened
from resnetx.loading import visible
from resnetx.report.charts.shared import Figure
from resnetx.report.study.export import write_csv


def drawn(figure: Figure) -> str:
    """A figure as SVG text. It needs no network."""
    return svg_of(figure.specification)


def svg_of(specification: dict[str, Any]) -> str:
    """A Vega-Lite specification, drawn. What draws it crashes at control characters, so texts show them written out."""
    import vl_convert

    try:
        return str(vl_convert.vegalite_to_svg(_shown(specification)))
    except ValueError as error:  # of values that no machine measures, as 1e308
        raise ConfigError(f"a figure cannot be drawn of these records: {shortened(error)}") from None


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


def write_figure(figure: Figure, svg: str, folder: Path) -> None:
    """NAME.svg, NAME.pdf and NAME.csv; `svg`: the figure as it was drawn."""
    import vl_convert

    (folder / f"{figure.name}.svg").write_text(svg, encoding="utf-8")
    (folder / f"{figure.name}.pdf").write_bytes(vl_convert.svg_to_pdf(svg))
    write_csv(folder / f"{figure.name}.csv", figure.data)
