"""What the paper states beside what is predicted: every kind of check, on predictions made up for it."""

import pytest

from resnetx.record.system_comparison import CollectivePoint
from resnetx.report.claims import check_claims, published
from resnetx.report.systems import compare_systems

GIB = 2**30
SYSTEMS = ("dgx1-p100", "gx8")


@pytest.fixture
def claims_of(predicted_of, prediction_of):
    """Checks points, each (seconds on the DGX-1, seconds on the GX8, what else it has); by claim."""

    def make(*points, collectives=(), systems=SYSTEMS):
        predicted = [
            predicted_of(iteration_s, system=system, **more)
            for *both, more in points
            for system, iteration_s in zip(systems, both, strict=True)
        ]
        found = {}
        for each in compare_systems(prediction_of(*predicted), collectives).claims:
            found.setdefault(each.claim, []).append(each)
        return found

    return make


def alexnet(batch_size=256, gpus=8):
    return {"workload": "AlexNet", "batch_size": batch_size, "gpus": gpus}


def curve(system, gpus, *rates_GiBps, library="nccl1", collective="allreduce"):
    """Rates at 1, 2, 4 MB and so on."""
    for power, rate in enumerate(rates_GiBps):
        size_bytes = 10**6 * 2**power
        yield CollectivePoint(
            system=system, library=library, collective=collective, gpus=gpus, size_bytes=size_bytes,
            time_s=size_bytes / (rate * GIB), algbw_Bps=rate * GIB,
        )  # fmt: skip


def test_every_claim_names_its_section_and_systems_of_the_file():
    stated = published("tallent2017")
    assert all(claim.section and claim.says for claim in stated.claims)
    assert {claim.system for claim in stated.claims} | {claim.over for claim in stated.claims} <= {*stated.systems, ""}
    assert len({claim.id for claim in stated.claims}) == len(stated.claims)
    figures = {claim.id for claim in stated.claims if claim.check in ("value", "ratio")}
    assert figures == {claim.id for claim in stated.claims if claim.stated is not None}


def test_other_systems_are_not_what_the_paper_speaks_of(claims_of):
    assert claims_of((0.1, 0.1, alexnet()), systems=("dgx1-p100", "dgx2")) == {}


def test_a_stated_value_stands_beside_ours_with_the_difference(claims_of):
    (found,) = claims_of((1 / 11.5, 1 / 4.05, alexnet()))["Tc9a"]
    assert (found.stated, found.unit, found.where) == (11.0, "iterations/s", "AlexNet, batch 256, 8 GPUs")
    assert found.ours == pytest.approx(11.5)
    assert found.difference == pytest.approx(11.5 / 11 - 1)
    assert found.outcome == "hit"
    (other,) = claims_of((1 / 11.5, 1 / 4.05, alexnet()))["Tc9b"]
    assert (other.difference, other.outcome) == (pytest.approx(-0.5), "miss")


def test_a_batch_that_is_not_stated_is_checked_at_each(claims_of):
    found = claims_of((0.1, 0.136, alexnet(256)), (0.1, 0.11, alexnet(512)))["Tc9"]
    assert [(each.where, each.outcome) for each in found] == [
        ("AlexNet, batch 256, 8 GPUs", "hit"),
        ("AlexNet, batch 512, 8 GPUs", "miss"),
    ]


def test_a_ratio_on_the_other_side_of_1_is_a_miss_however_near(claims_of):
    curves = [*curve("dgx1-p100", 8, *[4.0] * 8), *curve("gx8", 8, *[3.95] * 8)]  # up to 128 MB
    (found,) = claims_of((0.1, 0.1, alexnet()), collectives=curves)["Tc6"]
    assert found.ours == pytest.approx(3.95 / 4)
    assert abs(found.difference) < found.tolerance
    assert found.outcome == "miss"


def test_curves_are_read_in_the_stated_range_and_unit(claims_of):
    curves = [*curve("dgx1-p100", 8, 3.0, 4.0, 4.6, 9.0), *curve("gx8", 8, 3.3, 4.4, 5.06, 9.0)]  # 1 2 4 8 MB
    found = claims_of((0.1, 0.1, alexnet()), collectives=curves)
    (band,) = found["Tc7"]
    assert (band.ours, band.outcome, band.note) == (pytest.approx(1.1), "hit", "mean of 3 sizes")
    assert found["Tc6a"][0].ours == pytest.approx(9.0)
    assert found["Tc5a"][0].outcome == "not predicted"  # 4 GPUs have no curve here


def test_each_library_is_checked_and_workloads_only_once(claims_of):
    points = [(0.1, 0.136, {**alexnet(), "library": library}) for library in ("nccl1", "nccl2")]
    found = claims_of(*points)
    assert [each.variant for each in found["Tc9"]] == ["nccl1", "nccl2"]
    assert [each.variant for each in found["Tc16f"]] == ["workloads"]


def resnets(ratio, count=12):
    """ResNet/x on 8 GPUs at batches 32 and 64: seconds on the GX8 are `ratio` times those on the DGX-1."""
    grid = [(f"ResNet/{2**power}", batch) for power in range(6) for batch in (32, 64)]
    return [
        (0.1, 0.1 * ratio, {"workload": workload, "batch_size": batch, "interval_s": None})
        for workload, batch in grid[:count]
    ]


@pytest.mark.parametrize(
    ("ratio", "outcome", "note"),
    [
        (1.1, "hit", "12 of 12 points"),
        (0.9, "miss", "0 of 12 points"),
        (1.001, "open", "12 of 12 points, 12 open or level"),
    ],
)
def test_who_is_ahead_is_counted_over_the_points(claims_of, ratio, outcome, note):
    (found,) = claims_of(*resnets(ratio))["Tc14"]
    assert (found.outcome, found.note, found.stated, found.difference) == (outcome, note, None, None)


def test_undecided_points_that_change_nothing_leave_a_miss_a_miss(claims_of):
    points = [*resnets(0.9, count=11), *[(0.1, 0.1, {**more, "interval_s": None}) for *_, more in resnets(1.0)[11:]]]
    assert claims_of(*points)["Tc14"][0].outcome == "miss"  # asks for every point


def test_of_fewer_points_than_the_paper_has_nothing_is_said(claims_of):
    (found,) = claims_of(*resnets(1.1, count=11))["Tc14"]
    assert (found.outcome, found.ours, found.note) == ("not predicted", None, "11 of 12 points")


def test_a_benefit_that_falls_with_the_batch(claims_of):
    falling = [(0.1, 0.13, alexnet(256, gpus)) for gpus in (2, 4, 8)] + [(0.1, 0.11, alexnet(512, 2))]
    rising = [(0.1, 0.15, alexnet(512, gpus)) for gpus in (4, 8)]
    google = [
        (0.1, 0.12, {**alexnet(256), "workload": "GoogLeNet"}),
        (0.1, 0.11, {**alexnet(512), "workload": "GoogLeNet"}),
    ]
    found = claims_of(*falling, *rising, *google)
    assert (found["Tc11"][0].note, found["Tc11"][0].outcome) == ("2 of 4 steps", "hit")
    assert (found["Tc10"][0].note, found["Tc10"][0].outcome) == ("2 of 2 steps", "hit")


def test_missing_points_have_to_be_missing_on_both(claims_of):
    google = [{"workload": "GoogLeNet", "batch_size": batch, "gpus": gpus} for batch in (256, 512) for gpus in (1, 2)]
    assert claims_of(*((None, None, more) for more in google))["Tc10m"][0].outcome == "hit"
    (found,) = claims_of((None, 0.1, google[0]), *((None, None, more) for more in google[1:]))["Tc10m"]
    assert (found.outcome, found.note) == ("miss", "3 of 4 points")


def test_points_alone_are_enough():
    assert check_claims([]) == []
