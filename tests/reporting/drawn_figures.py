"""Figures as they are drawn: their elements, words and curves."""

import re
from xml.etree import ElementTree

from resnetx.reporting.charts import files


def drawn(figure):
    return ElementTree.fromstring(files.drawn(figure.chart))


def texts(figure):
    return [line for each in drawn(figure).iter("{http://www.w3.org/2000/svg}text") for line in each.itertext()]


def lines(figure):
    """The paths of the drawn curves, in which L joins two points."""
    svg = files.drawn(figure.chart)
    groups = re.findall(r'<g class="mark-line role-mark.*?</g>', svg)
    return [path for group in groups for path in re.findall(r' d="([^"]*)"', group)]
