"""Figures as they are drawn: their elements, words and curves."""

import re
from xml.etree import ElementTree

from resnetx.reporting.charts import figure as files

_SVG = {}  # id of a figure -> itself, which keeps the id its own, and its drawing


def svg(figure):
    """A figure as SVG; the same one is drawn once."""
    if id(figure) not in _SVG:
        _SVG[id(figure)] = figure, files.draw(figure.chart).svg
    return _SVG[id(figure)][1]


def drawn(figure):
    return ElementTree.fromstring(svg(figure))


def texts(figure):
    return [line for each in drawn(figure).iter("{http://www.w3.org/2000/svg}text") for line in each.itertext()]


def lines(figure):
    """The paths of the drawn curves, in which L joins two points."""
    groups = re.findall(r'<g class="mark-line role-mark.*?</g>', svg(figure))
    return [path for group in groups for path in re.findall(r' d="([^"]*)"', group)]
