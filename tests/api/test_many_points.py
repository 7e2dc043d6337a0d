"""Many points and many choices: what takes a while shows how far it is, and asks for what does not change once."""

from contextlib import contextmanager

import pytest

import resnetx
from resnetx import host, progress
from resnetx.api import predict
from resnetx.api.predict import questions
from resnetx.compose import asked as settings_asked
from resnetx.errors import ConfigError
from resnetx.prediction import predict as many

pytestmark = pytest.mark.slow


class Counted(progress.Progress):
    """Keeps what is counted."""

    def __init__(self):
        self.counted = {}

    @contextmanager
    def counting(self, what, total, where=""):
        self.counted[what] = [total, 0]

        def advance(done, line=""):
            self.counted[what][1] += done

        yield advance


@pytest.mark.parametrize(("most", "shown"), [(300, {"checking cases": [600, 600]}), (20, {})])
def test_the_plan_of_many_points_shows_progress(most, shown, monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(host, "_control_groups", lambda controller: read.append(controller) or [])
    with progress.reporting_to(counted := Counted()):
        made = resnetx.plan(
            **{"model.x": list(range(1, most + 1)), "batch_size": [8, 16]}, input="synthetic", results=str(tmp_path)
        )
    assert made.points == 2 * most
    assert counted.counted == shown
    assert read.count("cpu") == 1


def test_the_records_of_many_choices_show_progress():
    with progress.reporting_to(counted := Counted()):
        found = resnetx.topology("dgx2", pick=3)
    assert len(found) == 560
    assert counted.counted == {"choices of GPUs": [560, 560]}
    assert {choice.limiting_link.startswith("gpu") for choice in found} == {True}


GRID = {
    "systems": ["gx8", "dgx1-p100"], "model": {"kind": "resnetx", "x": [1, 32]}, "batch_size": [64, 1024],
    "gpus": [1, 8, 16], "memory": ["1GB", "16GB"],
}  # fmt: skip


def test_a_grid_has_the_figures_of_predictions_and_its_answer_alone_is_kept(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    few = resnetx.predict(**GRID)
    monkeypatch.setattr(predict, "GRID_POINTS", 10)
    with pytest.raises(ConfigError, match=r"48 cases: more than .* give out=FOLDER"):
        resnetx.predict(**GRID)
    with progress.reporting_to(counted := Counted()):
        made = resnetx.predict(**GRID, out=tmp_path)
    assert counted.counted == {"predictions": [48, 48]}
    rows = parquet.read_table(tmp_path / "grid.parquet").to_pylist()
    for point, row in zip(few.points, rows, strict=True):
        assert (row["system"], row["gpus"], row["outcome"]) == (point.system, point.gpus, point.outcome)
        assert row["varied"] == "memory=" + point.varied["memory"]
        assert (row["iteration_s"], row["speedup"]) == (point.iteration_s, point.speedup)
        assert (row["iteration_s"] is None) or [row["iteration_low_s"], row["iteration_high_s"]] == point.interval_s
    able = [point for point in few.points if point.outcome == "ok"]
    assert made.conclusion.startswith(f"Predicted: {len(able)} of 48 cases can run; speed-ups from ")
    assert made.outcomes == {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in made.outcomes}
    gains = [point.speedup for point in able if point.gpus == 8 and point.baseline_gpus == 1]
    assert made.most.speedup == max(gains)
    assert sum(made.fastest_in.values()) == len({(p.workload, p.batch_size, p.gpus, str(p.varied)) for p in able})
    assert (tmp_path / "grid.json").is_file() and not list(tmp_path.glob(".*"))


def test_systems_of_a_grid_compete_each_with_its_own_library(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(predict, "GRID_POINTS", 1)
    made = resnetx.predict(
        systems=["dgx1-v100", "dgx-h100"], model="alexnet", batch_size=4096, gpus=[4, 8], out=tmp_path
    )
    assert made.fastest_in == {"dgx-h100": 2}
    assert "dgx-h100 is the fastest in 2 of 2 cases" in made.conclusion


def test_shares_of_a_grid_are_the_same_by_processes_of_their_own(monkeypatch):
    curves = questions([], settings_asked("predict", {key: GRID[key] for key in ("systems", "model", "batch_size")}))
    monkeypatch.setattr(many, "SHARE_POINTS", 12)
    here, there = ([*many.grid_columns(curves, processes=count)] for count in (1, 2))
    assert len(here) == 3 and here == there
