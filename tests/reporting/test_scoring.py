"""The score of predictions, by hand."""

import pytest

from resnetx.literature.score import scores
from resnetx.record.literature import FigurePrediction, PredictorScore, PublishedFigure


def figure(name, value, unit="images/s", kind="k", seen=True):
    return PublishedFigure(id=name, kind=kind, value=value, unit=unit, system=None, source="s", seen=seen)


def predictor(**predicted):
    """By name what is predicted: a value, or a value and its interval."""
    made = []
    for name, value in predicted.items():
        value, low, high = value if isinstance(value, tuple) else (value, None, None)
        made.append(FigurePrediction(id=name, predicted=value, low=low, high=high))
    return PredictorScore(predictor="p", predictions=made)


def test_mean_worst_bias_and_coverage():
    figures = [figure("a", 100), figure("b", 100), figure("c", 100, seen=False), figure("d", 100)]
    kind, everything = scores(figures, [predictor(a=(110, 90, 120), b=(80, 70, 90), c=100)])
    assert (kind.kind, everything.kind) == ("k", "all")
    assert (kind.figures, kind.predicted, kind.intervals) == (4, 3, 2)
    assert (kind.mean_error, kind.worst_error, kind.bias) == pytest.approx((0.1, 0.2, -0.1 / 3))
    assert kind.covered == 0.5
    assert (kind.unseen, kind.unseen_error) == (1, 0)


def test_a_time_that_is_too_long_is_too_slow():
    (rate, _) = scores([figure("a", 100)], [predictor(a=120)])
    (time, _) = scores([figure("a", 100, unit="us")], [predictor(a=120)])
    assert (rate.bias, time.bias) == pytest.approx((0.2, -0.2))
    assert time.mean_error == rate.mean_error


def test_a_kind_that_a_predictor_says_nothing_of_has_no_score():
    figures = [figure("a", 100), figure("b", 100, kind="other")]
    assert [each.kind for each in scores(figures, [predictor(a=100)])] == ["k", "all"]


def test_an_end_of_an_interval_belongs_to_it_and_without_intervals_nothing_is_covered():
    (kind, _) = scores([figure("a", 100)], [predictor(a=(90, 80, 100))])
    assert kind.covered == 1
    (kind, _) = scores([figure("a", 100)], [predictor(a=90)])
    assert kind.covered is None
