"""Bands of sizes: fits that are known, where a protocol changes, and held-out errors."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.collectives.sizes import bands


def measured(points):
    return MeasuredCollective("my.txt", tuple(MeasuredSize(size, time_s) for size, time_s in points))


def test_bands_are_in_seconds_and_bytes_per_second():
    sizes = [2**power for power in range(10, 26, 2)]
    (small, large), error = bands(measured((size, (2e-5 if size < 2**18 else 1e-4) + size / 4e9) for size in sizes))
    assert (small.from_bytes, large.from_bytes) == (0, pytest.approx(2**17))
    assert (small.latency_s, large.latency_s) == (pytest.approx(2e-5), pytest.approx(1e-4))
    assert (small.bandwidth_Bps, large.bandwidth_Bps) == (pytest.approx(4e9), pytest.approx(4e9))
    assert error == pytest.approx(0, abs=1e-6)


def test_the_held_out_error_is_that_of_points_predicted_from_the_others():
    points = ((1, 1.0), (2, 2.0), (3, 3.0), (4, 8.0))
    held_out = []
    for left_out in points:
        (band,), _ = bands(measured(point for point in points if point is not left_out))
        held_out.append(abs((band.latency_s + left_out[0] / band.bandwidth_Bps) / left_out[1] - 1))
    assert bands(measured(points))[1] == pytest.approx(sum(held_out) / 4)


def test_no_latency_is_negative():
    found, _ = bands(measured((2**20 * 4**power, 1e-3 * 4**power - 5e-4) for power in range(6)))
    assert min(band.latency_s for band in found) >= 0


def test_two_sizes_fit_and_hold_nothing_out_and_one_is_refused():
    (band,), error = bands(measured([(2**20, 2e-4), (2**22, 5e-4)]))
    assert band.bandwidth_Bps == pytest.approx(3 * 2**20 / 3e-4)
    assert error != error  # nan
    with pytest.raises(ConfigError, match="expected at least two"):
        bands(measured([(2**20, 2e-4), (2**20, 3e-4)]))
