import csv
import re

import pytest

from resnetx.reporting.study import export


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(invented, grid):
    """Two points that ran, and one that found no memory."""
    return invented(grid(model__x=4, batch_size=32, gpus=[1, 2]) + grid(model__x=32, batch_size=64, gpus=1))


def test_a_point_is_a_row_with_its_estimates_and_their_ends(small, points_of, tmp_path):
    named = points_of(small)
    export.write_csv(tmp_path / "points.csv", export.points(named))
    one, two, _ = read(tmp_path / "points.csv")
    assert (one["workload"], one["batch_size"], one["gpus"], one["runs"]) == ("ResNet/4", "32", "1", "6")
    assert float(two["images_per_s"]) == named[1].row.images_per_s.median
    assert float(two["images_per_s_low"]) < float(two["images_per_s"]) < float(two["images_per_s_high"])
    assert two["images_per_s_ends"] == "interval"
    assert float(two["speedup"]) == pytest.approx(2 * float(two["efficiency"]))
    assert float(one["activations_per_parameter"]) == pytest.approx(32 * 5_972_009 / 259_701)
    assert float(two["activations_per_parameter_per_gpu"]) == pytest.approx(16 * 5_972_009 / 259_701)


def test_what_was_not_measured_is_an_empty_cell(small, points_of, tmp_path):
    export.write_csv(tmp_path / "points.csv", export.points(points_of(small)))
    missing = read(tmp_path / "points.csv")[2]
    assert (missing["outcome"], missing["reason"], missing["runs"]) == ("oom", "rank 0: no memory left", "0")
    assert {missing[name] for name in ("images_per_s", "speedup", "efficiency_low", "share_compute", "step_s")} == {""}


def test_every_window_of_every_run_and_twin_is_a_row(small, tmp_path):
    export.write_csv(tmp_path / "windows.csv", list(export.windows([small])))
    found = read(tmp_path / "windows.csv")
    runs = [run for run in small.runs if run.rates]
    assert len(found) == sum(len(run.rates) for run in runs)
    assert {row["twin"] for row in found} == {"", "synthetic", "alone"}
    first = found[0]
    assert float(first["window_s"]) * float(first["images_per_s"]) == pytest.approx(10 * 32)
    points = {point.request.key for point in small.points}
    assert {row["request_key"] for row in found} <= points


def test_the_columns_are_those_that_the_module_documents(small, points_of):
    told = set(re.findall(r"`(\w+)`", export.__doc__))
    for table in (export.points(points_of(small)), list(export.windows([small]))):
        columns = {re.sub(r"_(low|high|ends)$", "", name) for name in table[0]}
        assert columns <= told, columns - told


def test_a_study_without_points_that_ran_makes_a_file_without_rows(tmp_path):
    export.write_csv(tmp_path / "windows.csv", [])
    assert read(tmp_path / "windows.csv") == []


def test_no_text_is_a_formula_and_numbers_stay_numbers(tmp_path):
    row = {
        "a": "=1+1",
        "b": "+1",
        "c": "-1",
        "d": "@x",
        "e": "\tx",
        "f": "\rx",
        "g": "a=b",
        "h": -1.5,
        "i": "",
        "j": None,
    }
    export.write_csv(tmp_path / "it.csv", [row])
    (found,) = read(tmp_path / "it.csv")
    assert list(found.values()) == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "\\x0dx", "a=b", "-1.5", "", ""]
