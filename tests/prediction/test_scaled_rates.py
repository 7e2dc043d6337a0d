"""Rates of several GPUs as a calibration: the factor on a step, between known counts and beyond them."""

import math

import pytest

from resnetx.errors import ConfigError
from resnetx.prediction.scaled_rates import ScaledRates

WAIT_S = 0.05  # that no factor on the step changes


def modelled(gpus, images):
    return lambda factor: WAIT_S + 0.1 * factor


def rates(*by_gpus):
    return ScaledRates(by_gpus, "stated", "mine.yaml")


def test_the_factor_is_the_one_with_which_the_known_rate_comes_out():
    found = rates((16, 1600, 1600 / 0.25)).slowness(modelled)  # a step of 0.25 s
    assert found.at(16) == pytest.approx(2)
    assert modelled(16, 1600)(found.at(16)) == pytest.approx(0.25)


def test_one_gpu_is_as_modelled_counts_between_are_interpolated_and_beyond_the_largest_the_factor_stays():
    found = rates((4, 400, 400 / 0.25), (16, 1600, 1600 / 0.45)).slowness(modelled)  # 2 and 4 times
    assert [found.at(gpus) for gpus in (1, 2, 4, 8, 16, 64)] == pytest.approx([1, math.sqrt(2), 2, math.sqrt(8), 4, 4])


def test_errors_are_those_of_twice_as_many_gpus_or_grow_with_the_distance():
    found = rates((16, 1600, 1600 / 0.25)).slowness(modelled)
    assert [found.octaves(gpus) for gpus in (4, 8, 16, 32, 256)] == [2, 1, 1, 1, 4]


@pytest.mark.parametrize("step_s", [0.04, 5.0])
def test_a_rate_that_no_step_of_the_gpus_explains_is_refused(step_s):
    with pytest.raises(ConfigError, match=r"calibration=mine.yaml: .* images/s on 16 GPUs is more than 10 times off"):
        rates((16, 1600, 1600 / step_s)).slowness(modelled)
