"""The committed truth: what today's model predicts from committed traces and a committed bench, against committed runs.

`tests/bench/truth_gloo.py` measured it on two CPU cores: two gloo ranks, four workloads, three strategies. The stored
prediction is older than the runs; here it is made again, so that a change of the model that misses them is noticed.
"""

import json
from pathlib import Path

import pytest

from resnetx import record
from resnetx.cli.predict import predicted
from resnetx.record import StudyFolder
from resnetx.record.prediction import Prediction, digest, prediction_file
from resnetx.report import results
from resnetx.report.accuracy import check

TRUTH = Path(__file__).parents[2] / "results" / "cpu-2core" / "truth"
WORDS = ["systems=cpu-host", "scaling=weak", "gpus=[1,2]", "strategy=[bucket,layerwise,after]"]


@pytest.fixture(scope="module")
def accuracy():
    made = predicted([TRUTH / "trace"], [*WORDS, f"calibration={TRUTH / 'bench'}"])
    return check(made, results.load(StudyFolder(TRUTH / "study")))


@pytest.fixture(scope="module")
def stored():
    return record.read(prediction_file(TRUTH), Prediction)


def on_two_ranks(accuracy):
    return [point for point in accuracy.points if point.gpus == 2]


def test_all_points_were_measured_or_are_listed_as_discarded(accuracy):
    tries = json.loads((TRUTH / "tries.json").read_text())
    kept = {each["point"] for each in tries if each["kept"]}
    for point in on_two_ranks(accuracy):
        assert (point.error is not None) == (point.request.key in kept)
    assert len(on_two_ranks(accuracy)) == 12
    assert len(kept) >= 8, "too few points are left to say anything"


def test_every_point_is_as_near_as_its_measurement_allows(accuracy):
    off = [
        f"{point.workload} {point.strategy}: {point.error:+.1%}, allowed {point.allowed:.1%}"
        for point in on_two_ranks(accuracy)
        if point.error is not None and not point.within
    ]
    assert off == []


def test_the_better_strategy_is_predicted_wherever_runs_show_one(accuracy):
    decided = [each for each in accuracy.advantages if each.decided and each.gpus == 2]
    wrong = [
        f"{each.workload}: {each.strategy} over {each.over}, predicted {each.predicted:.3f}, measured "
        f"{each.measured.median:.3f} [{each.measured.low:.3f}, {each.measured.high:.3f}]"
        for each in decided
        if not each.right
    ]
    assert wrong == []


def test_the_stored_prediction_is_untouched_and_older_than_the_runs(stored):
    assert stored.digest == digest(stored)
    found = check(stored, results.load(StudyFolder(TRUTH / "study")))
    assert all(point.made_before for point in found.points if point.error is not None)
