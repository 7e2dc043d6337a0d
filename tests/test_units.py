import pytest

from resnetx.units import duration, si


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (243_860_896, "B", "244 MB"),
        (1_204_224, "", "1.20 M"),
        (0.5, "B", "0.500 B"),
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1000, "B", "1.00 kB"),
        (17.2e9, "B/s", "17.2 GB/s"),
        (-2_000_000, "", "-2.00 M"),
    ],
)
def test_si_prints_three_significant_digits_with_a_decimal_prefix(value, unit, text):
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.31, "0.3 s"), (59.4, "59 s"), (245, "4 min 05 s"), (7805, "2 h 10 min")]
)
def test_duration_grows_coarser_as_it_grows_longer(seconds, text):
    assert duration(seconds) == text
