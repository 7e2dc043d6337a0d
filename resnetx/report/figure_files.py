"""A figure as files: a drawing for screens, one for print, and the table behind it."""

from pathlib import Path

from resnetx.report.charts_shared import Figure
from resnetx.report.export import write_csv


def drawn(figure: Figure) -> str:
    """A figure as SVG text. It needs no network."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(figure.specification))


def write_figure(figure: Figure, svg: str, folder: Path) -> None:
    """NAME.svg, NAME.pdf and NAME.csv; `svg`: the figure as it was drawn."""
    import vl_convert

    (folder / f"{figure.name}.svg").write_text(svg, encoding="utf-8")
    (folder / f"{figure.name}.pdf").write_bytes(vl_convert.svg_to_pdf(svg))
    write_csv(folder / f"{figure.name}.csv", figure.data)
