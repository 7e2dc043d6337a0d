"""Draws where.svg and where-phone.svg, the picture of the README: `python docs/images/where.py`, after any change of
predictions.
"""

import re
from pathlib import Path
from textwrap import wrap

import altair as alt

import resnetx
from resnetx.reporting.charts.figure import INK, PAGE_TEXT, PHONE_TEXT, QUIET, draw, on_screens
from resnetx.reporting.charts.predictions import prediction_figures

FOLDER = Path(__file__).parent
SYSTEMS = {"dgx1-p100": "NVLink", "gx8": "PCIe"}
LINES = {"where.svg": (200, PAGE_TEXT), "where-phone.svg": (48, PHONE_TEXT)}  # characters of a line, size of the text


def pictures() -> dict[str, str]:
    """The figure of where the time goes that `resnetx predict` draws, under its answer: for wide screens and phones."""
    points = resnetx.predict(systems=[*SYSTEMS], model="alexnet", batch_size=256, gpus=[1, 2, 4, 8]).points
    (parts,) = (figure for figure in prediction_figures(points) if figure.name == "parts")
    best, worst = (next(each for each in points if (each.system, each.gpus) == (name, 8)) for name in SYSTEMS)
    said = (
        f"Eight GPUs train {best.speedup:.1f} times as fast as one over {SYSTEMS[best.system]} ({best.system}), "
        f"{worst.speedup:.1f} times over {SYSTEMS[worst.system]} ({worst.system})"
    )
    about = [
        "AlexNet, batch 256, on two machines of eight P100, predicted: where the time of each GPU goes.",
        "In brackets: nine of ten measurements should lie within.",
    ]
    drawn = {}
    for chart, (name, (width, size)) in zip((parts.wide, parts.narrow), LINES.items(), strict=True):
        assert chart is not None, "drawn for pages and phones"
        chart.title = alt.Title(
            wrap(said, round(width * 0.85)), subtitle=[line for words in about for line in wrap(words, width)],
            anchor="start", offset=10, fontSize=1.4 * size, fontWeight="bold", color=INK, lineHeight=1.6 * size,
            subtitleFontSize=1.08 * size, subtitleColor=QUIET, subtitlePadding=6, subtitleLineHeight=1.4 * size,
        )  # fmt: skip
        drawn[name] = in_pixels(on_screens(draw(chart).svg), PAGE_TEXT / size) + "\n"
    return drawn


def in_pixels(svg: str, factor: float) -> str:
    """So large that its text has the 12 px of pages."""

    def extent(found: re.Match[str]) -> str:
        width, height = (round(factor * float(length)) for length in found.groups())
        return f' width="{width}" height="{height}"'

    return re.sub(r' width="([^"]*)" height="([^"]*)"', extent, svg, count=1)


if __name__ == "__main__":
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg)
