"""Colours that mean different things in one figure can be told apart, whoever looks, and on a dark page too."""

import itertools
import math

import pytest

from resnetx.reporting.charts.figure import PART_COLOURS, SYSTEMS, dark_colours, family_colours

APART = 18  # in CIELAB, of marks of a few pixels within a dark outline; 2.3 is just noticeable on areas side by side

# What a person sees of linear RGB: Machado, Oliveira & Fernandes 2009, severity 1.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(colour, sight="normal"):
    """CIELAB (D65) of a colour as it is seen."""
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    seen = [min(1, max(0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in SIGHTS[sight]]
    x, y, z = (
        sum(a * b for a, b in zip(row, seen, strict=True)) / white
        for row, white in (
            ((0.4124, 0.3576, 0.1805), 0.95047), ((0.2126, 0.7152, 0.0722), 1.0), ((0.0193, 0.1192, 0.9505), 1.08883),
        )
    )  # fmt: skip
    f_x, f_y, f_z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return 116 * f_y - 16, 500 * (f_x - f_y), 200 * (f_y - f_z)


def _linear(value):
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def test_the_distance_is_that_of_cielab():
    assert lab("#ffffff") == pytest.approx((100, 0, 0), abs=0.02)
    assert lab("#ff0000") == pytest.approx((53.2, 80.1, 67.2), abs=0.1)


@pytest.mark.parametrize(
    "colours", [list(PART_COLOURS.values()), list(SYSTEMS[:4])], ids=["parts of a step", "systems"]
)
@pytest.mark.parametrize("dark", [{}, dark_colours()], ids=["light", "dark"])
def test_colours_of_one_figure_can_be_told_apart(colours, dark):
    for one, other in itertools.combinations((dark.get(colour, colour) for colour in colours), 2):
        assert math.dist(lab(one), lab(other)) >= APART, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_first_systems_can_be_told_apart_whoever_looks(sight):
    one, other = (lab(colour, sight) for colour in SYSTEMS[:2])
    assert math.dist(one, other) >= APART


def test_members_of_a_family_have_partners_on_dark_pages():
    for count in (1, 6, 22):
        assert set(family_colours(count)) <= dark_colours().keys()
