"""Where the lead changes hands."""

import pytest

from resnetx.record.comparisons import CollectivePoint
from resnetx.reporting.compared_systems import compare_systems


@pytest.fixture
def crossings_of(predicted_of, prediction_of):
    """Makes the crossings over points, each (seconds on a, seconds on b, what else it has)."""

    def make(*points, collectives=()):
        predicted = [
            predicted_of(iteration_s, system=system, **more)
            for *both, more in points
            for system, iteration_s in zip("ab", both, strict=True)
        ]
        return compare_systems(prediction_of(*predicted), collectives).crossings

    return make


def test_over_gpus_it_is_interpolated_on_logarithmic_axes(crossings_of):
    """a leads by 2 on two GPUs, b by 2 on eight: halfway, in logarithms, are four."""
    (found,) = crossings_of((0.1, 0.2, {"gpus": 2}), (0.2, 0.1, {"gpus": 8}))
    assert (found.axis, found.below, found.above, found.shown) == ("gpus", "a", "b", True)
    assert found.at == pytest.approx(4)
    assert (found.between, found.library, found.fixed) == ([2, 8], "nccl1", "ResNet/1, batch 16")


def test_over_payload_and_intensity(crossings_of):
    small = {"workload": "ResNet/1", "gradient_bytes": 1_000_000, "intensity_per_gpu": 10.0}
    large = {"workload": "ResNet/2", "gradient_bytes": 16_000_000, "intensity_per_gpu": 40.0}
    found = {each.axis: each for each in crossings_of((0.1, 0.4, small), (0.2, 0.1, large))}
    assert found.keys() == {"payload", "intensity"}
    # log of the ratio falls from log 4 to -log 2: zero after two thirds of the way.
    assert found["payload"].at == pytest.approx(1e6 * 16 ** (2 / 3))
    assert found["intensity"].at == pytest.approx(10 * 4 ** (2 / 3))
    assert found["payload"].fixed == "8 GPUs, batch 16"
    assert found["intensity"].fixed == "8 GPUs"


def test_a_crossing_next_to_an_open_margin_is_not_shown(crossings_of):
    (found,) = crossings_of((0.1, 0.102, {"gpus": 2}), (0.2, 0.1, {"gpus": 8}))
    assert found.shown is False


def test_level_points_are_passed_over(crossings_of):
    points = [(0.1, 0.2, {"gpus": 2}), (0.1, 0.1, {"gpus": 4}), (0.2, 0.1, {"gpus": 8})]
    (found,) = crossings_of(*points)
    assert found.between == [2, 8]


@pytest.mark.parametrize("gpus", [4, 8])
def test_points_that_cannot_run_and_leads_that_stay_make_no_crossing(crossings_of, gpus):
    assert crossings_of((0.1, 0.2, {"gpus": 2}), (0.1, 0.2, {"gpus": 4}), (None, 0.1, {"gpus": gpus * 2})) == []


def test_over_the_size_of_a_message(crossings_of):
    def sent(system, size_bytes, algbw_Bps):
        return CollectivePoint(
            system=system, library="nccl1", collective="allreduce", gpus=8, size_bytes=size_bytes,
            time_s=size_bytes / algbw_Bps, algbw_Bps=algbw_Bps,
        )  # fmt: skip

    curves = [sent("a", 10, 1e9), sent("a", 1000, 4e9), sent("b", 10, 2e9), sent("b", 1000, 2e9)]
    (found,) = crossings_of((0.1, 0.2, {}), collectives=curves)
    assert (found.axis, found.below, found.above, found.shown) == ("message", "b", "a", None)
    assert found.at == pytest.approx(100)
    assert found.fixed == "allreduce, 8 GPUs"
