"""Published ladders as calibrations: the points themselves, between them, and where there are none."""

import pytest

from resnetx.interconnect.collectives.collective_errors import error_of
from resnetx.interconnect.collectives.plan import plan, with_latency
from resnetx.interconnect.collectives.published import ladder, times, with_published
from resnetx.interconnect.systems.system import load

MIB = 2**20
H200 = plan(load("dgx-h200"), library="nvls").launched_by("process-per-gpu")


def test_a_published_point_is_met_and_between_two_the_model_is_followed():
    made = with_published(H200)
    assert made.cost(32 * MIB).time_s == pytest.approx(212.878e-6, rel=1e-6)
    below, above = (made.cost(size).time_s / H200.cost(size).time_s for size in (32 * MIB, 128 * MIB))
    between = made.cost(64 * MIB).time_s / H200.cost(64 * MIB).time_s
    assert between == pytest.approx((below * above) ** 0.5)


def test_several_publications_are_judged_by_each_other():
    a100 = plan(load("dgx-a100"), library="nccl2.4")
    found = ladder(a100)
    assert found is not None and found.source.startswith(
        "published times of vTrain, a note of a host named thanos, SuperBench, "
    )
    alone = ladder(plan(load("dgx-a100"), devices=range(4), library="nccl2.4"))
    assert alone is not None and alone.held_out_error < found.held_out_error


def test_one_publication_is_no_surer_than_another_machine_of_its_system_would_be():
    for system in ("dgx-h100", "mi300x"):
        made = with_published(plan(load(system), devices=range(8)).launched_by("process-per-gpu"))
        found = error_of(made, 2**30)
        assert made.calibration is not None and made.calibration.held_out_q90 < 0.1
        assert found.q90 >= 0.09 and found.mean >= 0.025


def test_below_the_smallest_size_the_model_and_its_error_stand():
    made = plan(load("dgx1-v100"), library="nccl2.4")  # published from 1 MiB on
    calibrated = with_published(made)
    assert calibrated.cost(2**16) == made.cost(2**16)
    assert error_of(calibrated, 2**16) == error_of(made, 2**16)
    assert "Not calibrated at this size" in " ".join(calibrated.explain(2**16))
    assert error_of(calibrated, 2**24).held_out


@pytest.mark.parametrize(
    "asked",
    [
        {"devices": [0, 1, 2, 3, 4]},
        {"devices": [1, 2, 3, 4, 5, 6, 7]},
        {"collective": "broadcast"},
        {"library": "nccl2"},
    ],
)
def test_what_nobody_measured_is_not_calibrated(asked):
    assert ladder(plan(load("dgx1-v100"), **{"library": "nccl2.4", **asked})) is None
    assert ladder(plan(load("dgx1-v100"), devices=range(8), library="nccl2.4")) is not None


def test_several_nodes_are_not_one():
    assert ladder(plan(load("dgx-h200", nodes=2, network="ndr400", nics=8), library="nvls")) is None


def test_what_if_changes_work_on_top():
    made = with_published(H200)
    assert with_latency(made, 2).cost(2 * MIB).time_s > 1.3 * made.cost(2 * MIB).time_s


def test_each_published_time_is_there_once():
    points = times()
    places = [(point.source, point.plan_key, point.size_bytes) for point in points]
    assert len(set(places)) == len(places) >= 480
    superbench = [point for point in points if point.entry.publication == "SuperBench"]
    assert {point.entry.collective for point in superbench} == {
        "allreduce", "allgather", "alltoall", "broadcast", "reduce", "reduce_scatter"
    }  # fmt: skip
