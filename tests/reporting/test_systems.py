"""Systems side by side: who leads, by how much, and how sure that is."""

import math

import msgspec
import pytest

import resnetx
from resnetx.errors import ConfigError
from resnetx.record.prediction import PredictedGpu
from resnetx.reporting.compared_systems import compare_systems, over, simple_model
from resnetx.reporting.systems_answer import leader_counts, loss_bands, simple_model_agreement

SXM2 = PredictedGpu(part="p100-sxm2-16gb", chip="GP100", clock_Hz=1.227e9, memory_Bps=732e9)
PCIE = PredictedGpu(part="p100-pcie-16gb", chip="GP100", clock_Hz=1.227e9, memory_Bps=732e9)
V100 = PredictedGpu(part="v100-sxm2-16gb", chip="GV100", clock_Hz=1.53e9, memory_Bps=900e9)


@pytest.fixture
def points_of(predicted_of, prediction_of):
    """Makes the points of a comparison from (system, seconds of an iteration) and what else they have."""

    def make(*systems, **more):
        predicted = [predicted_of(iteration_s, system=system, **more) for system, iteration_s in systems]
        return compare_systems(prediction_of(*predicted)).points

    return make


def test_the_fastest_system_leads_the_next_one(points_of):
    (point,) = points_of(("a", 0.2), ("b", 0.1), ("c", 0.4))
    assert [side.iterations_per_s.value for side in point.sides] == pytest.approx([5, 10, 2.5])
    assert [side.images_per_s.value for side in point.sides] == pytest.approx([80, 160, 40])
    assert (point.margin.first, point.margin.second, point.margin.lead) == ("b", "a", "ahead")
    assert point.margin.ratio.value == pytest.approx(2)


def test_independent_errors_are_added_in_squares(points_of):
    (point,) = points_of(("a", 0.1), ("b", 0.2))  # each from 0.9 to 1.1 times
    up = math.hypot(math.log(1 / 0.9), math.log(1.1))
    assert point.margin.ratio.high == pytest.approx(2 * math.exp(up))
    assert point.margin.ratio.low == pytest.approx(2 * math.exp(-up))


def test_a_margin_whose_interval_holds_1_is_open(points_of):
    (point,) = points_of(("a", 0.1), ("b", 0.11))
    assert point.margin.lead == "open"
    assert point.margin.ratio.low < 1 < point.margin.ratio.high


def test_less_than_half_a_percent_is_level(points_of):
    exact = {"interval_s": None}
    assert points_of(("a", 0.1), ("b", 0.1004), **exact)[0].margin.lead == "level"
    assert points_of(("a", 0.1), ("b", 0.1006), **exact)[0].margin.lead == "ahead"


@pytest.fixture
def pair_of(predicted_of, prediction_of):
    """One point on two systems that are 10 % apart and compute all the time, known to a tenth; the second differs."""

    def make(**second):
        common = {"gpu": SXM2, "compute_source": "roofline", "compute_where": "published", "compute_error": 0.1}
        points = [
            predicted_of(seconds, system=system, interval_by_compute_s=[0.9 * seconds, 1.1 * seconds], **more)
            for system, seconds, more in (("a", 0.1, common), ("b", 0.11, {**common, **second}))
        ]
        return compare_systems(prediction_of(*points)).points[0]

    return make


def test_two_forms_of_one_chip_at_one_clock_share_the_error_of_their_roofline(pair_of):
    for gpu in (SXM2, PCIE):
        margin = pair_of(gpu=gpu).margin
        assert margin.lead == "ahead"
        assert (margin.ratio.low, margin.ratio.high) == pytest.approx((1.1, 1.1))


@pytest.mark.parametrize(
    "other",
    [
        {"gpu": V100},
        {"gpu": msgspec.structs.replace(PCIE, clock_Hz=1.303e9)},
        {"gpu": msgspec.structs.replace(PCIE, memory_Bps=549e9)},
        {"gpu": None},
        {"compute_source": "rescaled"},
        {"compute_where": "another trace"},
    ],
)
def test_other_gpus_and_other_sources_share_no_error_however_alike_their_times_are(pair_of, other):
    """10 % each, in squares, on a margin of 10 %."""
    margin = pair_of(**other).margin
    assert margin.lead == "open"
    assert margin.ratio.low == pytest.approx(1.1 * math.exp(-math.hypot(math.log(1 / 0.9), math.log(1.1))), rel=0.01)


def test_a_system_that_cannot_run_the_point_keeps_its_reason_and_no_margin_is_made(points_of):
    (point,) = points_of(("a", 0.1), ("b", None))
    assert point.margin is None
    assert [(side.outcome, side.reason) for side in point.sides] == [("ok", ""), ("oom", "needs 20 GB of 16 GB")]
    assert point.sides[1].iterations_per_s is None


def test_libraries_are_compared_with_their_like_where_a_system_has_several(predicted_of, prediction_of):
    several = [predicted_of(0.1, system=s, library=lib) for s in ("a", "b") for lib in ("nccl1", "nccl2")]
    found = compare_systems(prediction_of(*several))
    assert [(point.library, len(point.sides)) for point in found.points] == [("nccl1", 2), ("nccl2", 2)]
    own = [predicted_of(0.1, system="a", library="nccl2"), predicted_of(0.1, system="b", library="nvls")]
    (point,) = compare_systems(prediction_of(*own)).points
    assert (point.library, [side.library for side in point.sides]) == ("", ["nccl2", "nvls"])


def test_what_tells_points_apart_is_in_their_names(predicted_of, prediction_of, request_of):
    requests = [request_of({"strategy": kind}, gpus=2) for kind in ("after", "layerwise")]
    points = [predicted_of(0.1, request, system=system) for system in ("a", "b") for request in requests]
    found = compare_systems(prediction_of(*points))
    assert [point.variant for point in found.points] == ["after", "layerwise"]


def test_other_devices_on_another_system_are_the_same_point(predicted_of, prediction_of, request_of):
    points = [
        predicted_of(0.1, request_of(gpus=2, devices=devices), system=system)
        for system, devices in (("a", [0, 1]), ("b", [2, 3]))
    ]
    (point,) = compare_systems(prediction_of(*points)).points
    assert len(point.sides) == 2


def test_one_system_and_a_point_given_twice_are_refused(predicted_of, prediction_of):
    with pytest.raises(ConfigError, match="systems=a: a comparison needs at least two systems"):
        compare_systems(prediction_of(predicted_of(0.1, system="a")))
    twice = [predicted_of(0.1, system=system) for system in ("a", "b", "b")]
    with pytest.raises(ConfigError, match=r"on b is predicted twice"):
        compare_systems(prediction_of(*twice))


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"interval_s": [0.2, 0.3]}, "0.1 s within 0.2 to 0.3 s"),
        ({"interval_s": [0.1]}, "0.1 s within 0.1 s"),
        ({"iteration_s": None, "outcome": "ok"}, "an iteration without a time"),
        ({"gradient_bytes": -1}, "-1 bytes of gradients"),
        ({"gpus": 0}, "batch 16 over 0 GPUs with 1000000 bytes of gradients"),
        ({"intensity_per_gpu": 0.0}, "an intensity of 0.0"),
        ({"compute_error": -0.1}, "a part or an error below zero"),
    ],
)
def test_figures_that_cannot_be_predictions_are_refused(predicted_of, prediction_of, odd, words):
    points = [predicted_of(**{"iteration_s": 0.1, **more}) for more in ({"system": "a"}, {"system": "b", **odd})]
    with pytest.raises(ConfigError, match=f"on b with nccl1: .*{words} is no prediction"):
        compare_systems(prediction_of(*points))


@pytest.mark.parametrize("ends", [[math.nextafter(0.1, 1), 0.2], [0.05, math.nextafter(0.1, 0)]])
def test_an_end_that_was_rounded_past_the_iteration_is_the_iteration(points_of, ends):
    (point,) = points_of(("a", 0.1), ("b", 0.1), interval_s=ends)
    rate = point.sides[0].iterations_per_s
    assert rate.low <= rate.value <= rate.high


def test_an_interval_down_to_no_time_at_all_leaves_a_finite_rate(points_of):
    (point,) = points_of(("a", 0.1), ("b", 0.1), interval_s=[0.0, 0.2])
    assert point.sides[0].iterations_per_s.high == pytest.approx(10_000)
    assert point.margin.ratio.high < 1e4


# ---- the simple model of the paper ----------------------------------------------------------------------------------


@pytest.fixture
def side_of(points_of):
    """Makes one side of a point that computes and communicates that long."""

    def make(compute_s, communication_s, gpu=SXM2):
        known = {"compute_s": compute_s, "communication_s": communication_s, "gpu": gpu}
        (point,) = points_of(("a", 1.0), ("b", 1.0), **known)
        return point.sides[0]

    return make


def test_share_times_advantage_is_exact_where_nothing_overlaps(side_of):
    """c = 0.3 s; messages 0.1 and 0.14 s: a share of 1/4, 40 % ahead, so 10 %: 0.44 s over 0.4 s."""
    model = simple_model(side_of(0.3, 0.1), side_of(0.3, 0.14))
    assert model.communication_share == pytest.approx(0.25)
    assert model.allreduce_advantage == pytest.approx(0.4)
    assert model.ratio == pytest.approx(1.1) == pytest.approx((0.3 + 0.14) / (0.3 + 0.1))


def test_the_simple_model_says_nothing_without_its_figures(side_of):
    assert simple_model(side_of(None, 0.1), side_of(0.3, 0.1)) is None
    assert simple_model(side_of(0.3, None), side_of(0.3, 0.1)) is None
    assert simple_model(side_of(0.3, 0.0), side_of(0.3, 0.0)).ratio == 1


def test_the_simple_model_speaks_of_equal_gpus_only(side_of):
    assert simple_model(side_of(0.3, 0.1, SXM2), side_of(0.3, 0.1, PCIE)) is not None
    assert simple_model(side_of(0.3, 0.1, SXM2), side_of(0.3, 0.1, V100)) is None
    assert simple_model(side_of(0.3, 0.1, SXM2), side_of(0.3, 0.1, None)) is None


def test_how_often_it_names_the_same_leader(predicted_of, prediction_of):
    def point(system, iteration_s, sent_s, **more):
        known = {"compute_s": 0.3, "communication_s": sent_s, "gpu": SXM2}
        return predicted_of(iteration_s, system=system, **known, **more)

    agreeing = [point("a", 0.4, 0.1), point("b", 0.44, 0.14)]
    hidden = [point("a", 0.42, 0.1, gpus=4), point("b", 0.32, 0.14, gpus=4)]
    found = simple_model_agreement(compare_systems(prediction_of(*agreeing, *hidden)).points)
    assert (found.points, found.same_leader) == (2, 1)
    assert found.worst.gpus == 4
    # b over a: predicted 0.42 / 0.32; expected 1 + 0.14 / 0.44 * (0.1 / 0.14 - 1)
    assert found.worst_difference == pytest.approx((1 - 0.04 / 0.44) / (0.42 / 0.32) - 1)


def test_leads_are_counted_by_library_and_gpus(predicted_of, prediction_of):
    times = {"ResNet/1": (0.1, 0.2), "ResNet/2": (0.1, 0.105), "ResNet/4": (0.1, 0.1), "ResNet/8": (None, 0.1)}
    points = [
        predicted_of(iteration_s, workload=workload, system=system)
        for workload, both in times.items()
        for system, iteration_s in zip("ab", both, strict=True)
    ]
    (found,) = leader_counts(compare_systems(prediction_of(*points)).points)
    assert (found.library, found.gpus, found.ahead) == ("nccl1", 8, {"a": 1})
    assert (found.open, found.level, found.alone) == (1, 1, 1)
    assert found.largest.workload == "ResNet/1"


# ---- where the slower one loses little, and half ---------------------------------------------------------------------

STUDY = """
about: Four widths.
settings: {model: gptx, model.x: 2, precision: bf16, scaling: weak, convention: conv, input: synthetic}
grids:
  - {model.width: [128, 1024, 4096], batch_size: 2, gpus: [8]}
"""


@pytest.mark.slow
def test_losses_are_told_by_the_work_per_parameter_and_a_job_is_located_among_them(tmp_path):
    study = tmp_path / "widths.yaml"
    study.write_text(STUDY)
    asked = {"systems": ["pcie-gen5", "dgx-h100"], "study": str(study), "strategy": "fsdp"}
    found = resnetx.compare(**asked, job="model=gptx,model.x=2,model.width=1024,batch_size=4,gpus=8")
    (band,) = loss_bands(found)
    works = sorted(point.intensity_per_gpu for point in found.points)
    assert works[0] == pytest.approx(2 * (9 * 2 * 1024 * 4096 + 1024 * 50257) / 608_735_232, rel=0.01)  # by conv
    assert (band.gpus, band.slower, band.faster) == (8, "pcie-gen5", "dgx-h100")
    rates = {point.intensity_per_gpu: over(point, "pcie-gen5", "dgx-h100").value for point in found.points}
    assert band.half_up_to == max(work for work in works if all(rates[each] <= 0.5 for each in works if each <= work))
    assert band.little_from in (None, *works)
    (job,) = found.job
    (alike,) = (point for point in found.points if point.workload == "GPT/2 width 1024")
    assert job.intensity_per_gpu == pytest.approx(2 * alike.intensity_per_gpu)  # four sequences on each, as weak
    said = " ".join(found.answer().sentences)
    assert "On 8 GPUs, pcie-gen5 loses less than 5%" in said
    assert "Your GPT/2 width 1024 of batch 32 on 8 GPUs is at" in said


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"job": "model=gptx", "systems": ["gx8", "dgx1-p100"]}, "job=model=gptx: is located among the workloads"),
        ({"job": "gptx", "study": "gptx", "systems": ["gx8", "dgx1-p100"]}, "job=gptx: gptx is no setting"),
        ({"job": "modl=gptx", "study": "gptx", "systems": ["gx8", "dgx1-p100"]}, "modl: .*did you mean model"),
    ],
)
def test_a_job_that_cannot_be_read_is_refused(settings, fault):
    with pytest.raises(ConfigError, match=fault):
        resnetx.compare(**settings)
