"""Today's predictions for the lab beside the committed runs of results/lab/truth."""

import statistics
from pathlib import Path

import pytest

import resnetx
from resnetx.prediction.provenance import domains
from resnetx.record import RunRecord, read

STUDY = Path(__file__).parents[2] / "results" / "lab" / "truth" / "study"


@pytest.fixture(scope="module")
def rows():
    """(system, predicted s, measured s, whether the interval holds it) of each point."""
    made = resnetx.predict(study="lab-truth", lab={"system": ["dgx1-p100", "gx8"], "scale": 100})
    points = {
        (point.request.lab, point.request.model, point.request.strategy, point.gpus): point for point in made.points
    }
    found = []
    for path in STUDY.glob("*/record.json"):
        run = read(path, RunRecord)
        asked = run.request
        point = points[asked.lab, asked.model, asked.strategy, asked.gpus]
        measured_s = 1 / run.iterations_per_s
        low_s, high_s = point.interval_s
        found.append((asked.lab.system, point.iteration_s, measured_s, low_s <= measured_s <= high_s))
    return found


@pytest.mark.slow
def test_iterations_in_the_lab_are_as_predicted(rows):
    errors = [abs(predicted_s / measured_s - 1) for _, predicted_s, measured_s, _ in rows]
    assert len(errors) == 70
    assert statistics.fmean(errors) == pytest.approx(0.011, abs=0.002)  # docs/lab.md
    assert max(errors) < 0.15
    assert sum(error < 0.1 for error in errors) == 69


@pytest.mark.slow
@pytest.mark.parametrize(("system", "count"), [("dgx1-p100", 31), ("gx8", 32)])
def test_intervals_hold_as_many_as_is_said(rows, system, count):
    assert sum(held for name, *_, held in rows if name == system) == count


@pytest.mark.slow
@pytest.mark.parametrize(("system", "words"), [("dgx1-p100", "P100 DGX-1"), ("gx8", "GX8")])
def test_predictions_in_the_lab_carry_its_own_errors(rows, system, words):
    errors = [abs(predicted_s / measured_s - 1) for name, predicted_s, measured_s, _ in rows if name == system]
    (domain,) = [each for each in domains(in_lab=True) if words in each.what and each.source == "results/lab/truth"]
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(statistics.fmean(errors), abs=0.0006)
    assert domain.worst_error == pytest.approx(max(errors), abs=0.0006)
