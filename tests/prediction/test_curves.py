"""Points that several processes predict are those that one predicts, in the same order."""

import pickle
import sys
from dataclasses import replace

import pytest

from resnetx.choices import After, Layerwise
from resnetx.interconnect.systems.system import load
from resnetx.prediction import predict
from resnetx.prediction.predict import Curve, predicted_curves
from resnetx.prediction.result import missing
from resnetx.prediction.scenario import Deployment, TrainingSetup
from tests.prediction.test_predict import googlenet


@pytest.fixture
def questions() -> list[Curve]:
    """Five curves: of two systems, of which one has several nodes, and one point that cannot run."""
    deployments = [
        Deployment(load("dgx1-p100"), "nccl2"),
        Deployment(load("dgx-h100", nodes=2, network="ndr400"), "nvls"),
    ]
    workloads = [replace(googlenet(64), strategy=strategy) for strategy in (Layerwise(), After())]
    placements = [(tuple(range(gpus)), 64) for gpus in (1, 2, 16)]
    asked = [
        Curve(workload, deployment, TrainingSetup(sensitivity=deployment is deployments[0]), placements, placements[0])
        for deployment in deployments
        for workload in workloads
    ]
    return [*asked, replace(asked[0], placements=[((0,), 10**6)])]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_the_points_are_the_same_and_in_the_same_order(questions, count):
    here, elsewhere = predicted_curves(questions, 1), predicted_curves(questions, count)
    assert here == elsewhere
    assert {sourced.point.outcome for sourced in here} == {"ok", "oom", "refused"}


def test_processes_are_started_for_many_points_only(questions, monkeypatch):
    started = []
    monkeypatch.setattr(predict, "predict", lambda point, _: missing(point, "refused", "not now"))
    monkeypatch.setattr(predict, "_by_a_process", lambda share: started.append(share) or [])
    monkeypatch.setattr(predict.host, "cores", lambda: 3)
    predicted_curves(questions)
    assert not started
    monkeypatch.setattr(predict, "POINTS_EACH", 5)
    predicted_curves(questions)  # 13 points
    assert [len(share) for share in started] == [3, 2]
    monkeypatch.setattr(sys, "executable", "")  # Python within another program
    started.clear()
    predicted_curves(questions)
    assert not started


def test_a_process_that_fails_says_why(monkeypatch, tmp_path):
    (tmp_path / "crowded.py").write_text("raise SystemExit('no room')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="ended with status 1: no room"):
        predict.answered_by_a_process("crowded", [])


def test_systems_of_many_nodes_travel_to_processes():
    made = load("dgx-h100", nodes=2**14, network="ndr400")
    packed = pickle.dumps(made)
    again = pickle.loads(packed)
    assert len(packed) < 100_000
    assert (again.gpus[-1], again.nodes, len(again.links)) == (made.gpus[-1], made.nodes, len(made.links))
