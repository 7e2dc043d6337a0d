import csv

import pytest

from resnetx.reporting.csv_tables import points_table, windows_table, write_csv
from resnetx.table import Table


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(invented, grid):
    """Two points that ran, and one that found no memory."""
    return invented(grid(model__x=4, batch_size=32, gpus=[1, 2]) + grid(model__x=32, batch_size=64, gpus=1))


def test_a_point_is_a_row_with_its_estimates_and_their_ends(small, points_of, tmp_path):
    points = points_of(small)
    write_csv(tmp_path / "points.csv", points_table(points))
    one, two, _ = read(tmp_path / "points.csv")
    assert (one["workload"], one["batch_size"], one["gpus"], one["runs"]) == ("ResNet/4", "32", "1", "6")
    assert float(two["images_per_s"]) == points[1].result.images_per_s.median
    assert float(two["images_per_s_low"]) < float(two["images_per_s"]) < float(two["images_per_s_high"])
    assert two["images_per_s_ends"] == "interval"
    assert float(two["speedup"]) == pytest.approx(2 * float(two["efficiency"]))
    assert float(one["activations_per_parameter"]) == pytest.approx(32 * 5_972_009 / 259_701)
    assert float(two["activations_per_parameter_per_gpu"]) == pytest.approx(16 * 5_972_009 / 259_701)


def test_what_was_not_measured_is_an_empty_cell(small, points_of, tmp_path):
    write_csv(tmp_path / "points.csv", points_table(points_of(small)))
    missing = read(tmp_path / "points.csv")[2]
    assert (missing["outcome"], missing["reason"], missing["runs"]) == ("oom", "rank 0: no memory left", "0")
    assert {missing[name] for name in ("images_per_s", "speedup", "efficiency_low", "share_compute", "step_s")} == {""}


def test_every_window_of_every_run_and_twin_is_a_row(small, tmp_path):
    write_csv(tmp_path / "windows.csv", windows_table([small]))
    found = read(tmp_path / "windows.csv")
    runs = [run for run in small.runs if run.rates]
    assert len(found) == sum(len(run.rates) for run in runs)
    assert {row["twin"] for row in found} == {"", "synthetic", "alone"}
    first = found[0]
    assert float(first["window_s"]) * float(first["images_per_s"]) == pytest.approx(10 * 32)
    points = {point.request.key for point in small.points}
    assert {row["request_key"] for row in found} <= points


def test_the_columns_of_an_estimate_follow_its_field(small, points_of):
    columns = points_table(points_of(small)).columns
    at = columns.index("speedup")
    assert columns[at : at + 5] == ["speedup", "speedup_low", "speedup_high", "speedup_ends", "efficiency"]
    assert columns[:4] == ["study", "node", "workload", "batch_size"]


def test_a_study_without_points_that_ran_makes_a_file_without_rows(tmp_path):
    write_csv(tmp_path / "windows.csv", windows_table([]))
    assert read(tmp_path / "windows.csv") == []


def test_no_text_is_a_formula_and_numbers_stay_numbers(tmp_path):
    row = {
        "a": "=1+1",
        "b": "+1",
        "c": "-1",
        "d": "@x",
        "e": "\tx",
        "f": "\rx",
        "k": "x\nresnetx: every record was verified",
        "g": "a=b",
        "h": -1.5,
        "i": "",
        "j": None,
    }
    write_csv(tmp_path / "it.csv", Table(list(row), [list(row.values())]))
    (found,) = read(tmp_path / "it.csv")
    assert list(found.values()) == [
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        "\\x09x",
        "\\x0dx",
        "x\\x0aresnetx: every record was verified",
        "a=b",
        "-1.5",
        "",
        "",
    ]
