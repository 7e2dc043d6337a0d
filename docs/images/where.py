"""Draws where.svg, the picture of the README: `python docs/images/where.py`, after any change of predictions."""

from pathlib import Path

import altair as alt

import resnetx
from resnetx.reporting.charts.figure import INK, PAGE_TEXT, QUIET, draw, on_screens
from resnetx.reporting.charts.predictions import prediction_figures

FILE = Path(__file__).with_name("where.svg")
SYSTEMS = {"dgx1-p100": "NVLink", "gx8": "PCIe"}


def picture() -> str:
    """The figure of where the time goes that `resnetx predict` draws, under its answer."""
    points = resnetx.predict(systems=[*SYSTEMS], model="alexnet", batch_size=256, gpus=[1, 2, 4, 8]).points
    (parts,) = (figure for figure in prediction_figures(points) if figure.name == "parts")
    best, worst = (next(each for each in points if (each.system, each.gpus) == (name, 8)) for name in SYSTEMS)
    assert parts.wide is not None, "drawn for pages"
    parts.wide.title = alt.Title(
        f"Eight GPUs train {best.speedup:.1f} times as fast as one over {SYSTEMS[best.system]} ({best.system}), "
        f"{worst.speedup:.1f} times over {SYSTEMS[worst.system]} ({worst.system})",
        subtitle=[
            "AlexNet, batch 256, on two machines of eight P100, predicted: where the time of each GPU goes.",
            "In brackets: nine of ten measurements should lie within.",
        ],
        anchor="start", offset=10, fontSize=17, fontWeight="bold", color=INK,
        subtitleFontSize=PAGE_TEXT + 1, subtitleColor=QUIET, subtitlePadding=6, subtitleLineHeight=17,
    )  # fmt: skip
    return on_screens(draw(parts.wide).svg) + "\n"


if __name__ == "__main__":
    FILE.write_text(picture())
