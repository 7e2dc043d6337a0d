"""A prediction beside the measurement that checks it."""

import msgspec
import pytest

from resnetx.cli.verbs import show_compare
from resnetx.errors import ConfigError
from resnetx.reporting.accuracy import check

AFTER = "2026-02-01T00:00:00.000+00:00"


@pytest.fixture
def checked(predicted_of, prediction_of, brief_of, results_of):
    """Checks points, each (request, predicted seconds, measured images/s of each run); runs began in February."""

    def make(*points, made_at="2026-01-01T00:00:00+00:00", started_at=AFTER, change=None):
        predicted = [predicted_of(seconds, request) for request, seconds, _ in points if seconds != "not predicted"]
        briefs = [
            brief_of(request, rate, repeat=repeat, started_at=started_at)
            for request, _, rates in points
            for repeat, rate in enumerate(rates, 1)
        ]
        prediction = prediction_of(*predicted, made_at=made_at)
        return check(change(prediction) if change else prediction, results_of([point[0] for point in points], briefs))

    return make


@pytest.fixture
def request_with(request_of):
    def make(**settings):
        return request_of({"batch_size": 20}, **{"gpus": 2, **settings})

    return make


SIX = (99.0, 100.0, 100.0, 100.0, 100.0, 101.0)  # images/s: 0.2 s for each 20 images


def test_the_error_is_predicted_over_measured_less_one(checked, request_with):
    found = checked((request_with(), 0.21, SIX))
    (point,) = found.points
    assert point.measured_s.median == pytest.approx(0.2)
    assert point.error == pytest.approx(0.05)
    assert (point.within, point.covered, point.overlap, point.made_before) == (True, True, True, True)
    assert point.allowed == 0.10
    assert found.warnings == []


def test_points_are_allowed_twice_their_measured_interval(checked, request_with):
    (point,) = checked((request_with(), 0.25, (80.0, 125.0))).points
    width = 20 / 80 - 20 / 125
    assert point.allowed == pytest.approx(2 * width / point.measured_s.median)
    assert abs(point.error) < point.allowed
    (point,) = checked((request_with(), 0.25, SIX)).points
    assert (point.within, point.covered, point.overlap) == (False, False, False)


def test_nothing_outside_of_the_stated_interval_is_within(checked, request_with, capsys):
    """The allowed error is wide where runs differ much; what the prediction stated is not."""
    found = checked((request_with(), 0.25, (80.0, 125.0)))
    (point,) = found.points
    assert (point.covered, point.within, found.totals[0].within) == (False, False, 0)
    show_compare.accuracy(found)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ResNet/8") and "250.00" in line)
    assert row.split()[-3:-1] == ["+28.1%", "no"]  # in interval


def test_totals_over_the_points(checked, request_with):
    points = [
        (request_with(precision="fp32"), 0.22, SIX),
        (request_with(precision="bf16"), 0.16, SIX),
        (request_with(precision="fp16"), 0.2, ()),
    ]
    (total,) = checked(*points).totals
    assert (total.system, total.library, total.points) == ("one", "nccl1", 2)
    assert total.mean_absolute_error == pytest.approx(0.15)
    assert total.worst_error == pytest.approx(-0.2)
    assert total.bias == pytest.approx(-0.05)
    assert total.worst_point == "ResNet/8, batch 20, 2 GPUs, bf16"
    assert total.within == 1


def test_a_point_that_did_not_run_has_its_reason_and_no_error(checked, request_with):
    (point,) = checked((request_with(), 0.2, ())).points
    assert (point.error, point.measured_s, point.within, point.made_before) == (None, None, None, None)
    assert (point.measured_outcome, point.measured_reason) == ("missing", "it has not run")
    (point,) = checked((request_with(), None, SIX)).points
    assert (point.error, point.predicted_outcome) == (None, "oom")


def test_how_it_was_measured_does_not_matter_and_what_was_trained_does(
    request_with, predicted_of, prediction_of, brief_of, results_of
):
    def pair(predicted, measured):
        return prediction_of(predicted_of(0.2, predicted)), results_of([measured], [brief_of(measured, 100.0)])

    longer = request_with(steps=7, windows=3, warmup=9, seed=5, threads=3)
    assert len(check(*pair(request_with(), longer)).points) == 1
    for other in ({"batch_size": 40}, {"model.x": 1}, {"image_size": 64}, {"precision": "bf16"}, {"strategy": "after"}):
        with pytest.raises(ConfigError, match="no case of study mine was predicted"):
            check(*pair(request_with(), request_with(**other)))


def test_points_on_one_side_are_named(checked, request_with, predicted_of, prediction_of, brief_of, results_of):
    both, only = request_with(), request_with(precision="bf16")
    prediction = prediction_of(predicted_of(0.2, both), predicted_of(0.2, only), predicted_of(0.1, None))
    found = check(prediction, results_of([both, request_with(batch_size=40)], [brief_of(both, 100.0)]))
    assert found.not_measured == [
        "ResNet/8, batch 20, 2 GPUs, bucket, bf16 on one, nccl1",
        "ResNet/1, batch 16, 8 GPUs, bucket, fp32 on one, nccl1",
    ]
    assert found.not_predicted == [request_with(batch_size=40).slug]


def test_a_prediction_that_could_have_known_the_runs_is_told(checked, request_with):
    found = checked((request_with(), 0.2, SIX), made_at="2026-02-02T00:00:00+00:00")
    assert found.points[0].made_before is False
    assert "is younger than the first run of 1 of 1 cases" in found.warnings[0]


def test_a_prediction_that_was_changed_is_told(checked, request_with):
    def better(prediction):
        (point,) = prediction.points
        return msgspec.structs.replace(prediction, points=[msgspec.structs.replace(point, iteration_s=0.28)])

    found = checked((request_with(), 0.3, SIX), change=better)
    assert found.warnings == ["the prediction is not as it was made: its digest is another one"]


def test_a_time_that_is_none_is_a_sentence(checked, request_with):
    with pytest.raises(ConfigError, match="the prediction: yesterday is no time"):
        checked((request_with(), 0.2, SIX), made_at="yesterday")


# ---- which strategy is faster ---------------------------------------------------------------------------------------


def strategies(request_with, predicted, *rates):
    return [
        (request_with(strategy=kind), seconds, runs)
        for kind, seconds, runs in zip(("bucket", "after"), predicted, rates, strict=True)
    ]


def test_the_sign_of_an_advantage_is_right_or_wrong_where_the_runs_decide(checked, request_with):
    slower = tuple(rate / 1.2 for rate in SIX)
    (found,) = checked(*strategies(request_with, (0.2, 0.21), SIX, slower)).advantages
    assert (found.strategy, found.over, found.decided, found.right) == ("bucket", "after", True, True)
    assert found.predicted == pytest.approx(1.05)
    assert found.measured.median == pytest.approx(1.2)
    accuracy = checked(*strategies(request_with, (0.22, 0.21), SIX, slower))
    assert accuracy.advantages[0].right is False
    assert (accuracy.totals[0].advantages, accuracy.totals[0].advantages_right) == (1, 0)


@pytest.mark.parametrize("rates", [((100.0,), (50.0,)), (SIX, SIX)])
def test_where_the_runs_do_not_decide_no_sign_is_judged(checked, request_with, rates):
    (found,) = checked(*strategies(request_with, (0.2, 0.21), *rates)).advantages
    assert (found.decided, found.right) == (False, None)


def test_one_gpu_has_no_strategy_and_flatters_no_total(checked, request_with):
    slower = tuple(rate / 1.2 for rate in SIX)
    one = [(request_with(gpus=1, strategy=kind), 0.2, runs) for kind, runs in (("bucket", SIX), ("after", slower))]
    found = checked(*one, (request_with(), 0.22, SIX))
    assert found.advantages == []
    assert (found.totals[0].points, found.totals[0].bias) == (1, pytest.approx(0.1))
    assert checked(*one).totals[0].points == 2
