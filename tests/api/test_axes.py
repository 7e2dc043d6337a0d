"""Settings that take several values, each of which is another answer, and the figures that `out=` keeps of them."""

import json

import pytest

import resnetx
from resnetx.api.measuring import fed
from resnetx.api.train import asked_run
from resnetx.choices import SyntheticInput
from resnetx.errors import ConfigError


def test_a_collective_has_a_cost_for_each_of_several_on_each_number_of_gpus():
    costs = resnetx.topology("dgx1-v100", collective=["allreduce", "broadcast"], gpus=[2, 4], size=["1MiB", "2MiB"])
    found = [(cost.collective, len(cost.devices), cost.size_bytes >> 20) for cost in costs]
    assert found == [(name, n, size) for name in ("allreduce", "broadcast") for n in (2, 4) for size in (1, 2)]


def test_systems_that_are_too_small_have_none_of_more_gpus():
    costs = resnetx.topology("dgx1-p100", "dgx2", collective="allreduce", gpus=[8, 16])
    assert [(cost.system, len(cost.devices)) for cost in costs] == [("dgx1-p100", 8), ("dgx2", 8), ("dgx2", 16)]
    with pytest.raises(ConfigError, match="gpus=16: more than any of these systems has"):
        resnetx.topology("dgx1-p100", collective="allreduce", gpus=16)


@pytest.mark.slow
def test_topology_keeps_curves_and_matrices(tmp_path):
    resnetx.topology("dgx1-v100", collective="allreduce", gpus=[2, 4], size=["1MiB", "2MiB"], out=tmp_path)
    names = {path.stem for path in tmp_path.glob("*.csv")}
    assert names == {
        "topology", "answers", "allreduce_time_by_size", "allreduce_busbw_by_size", "allreduce_busbw_by_gpus",
        "dgx1-v100_allreduce_nccl2_0-1", "dgx1-v100_allreduce_nccl2_0-1-2-3",
    }  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "topology.jsonl").read_text().splitlines()]
    assert [len(line["devices"]) for line in lines] == [2, 2, 4, 4]
    resnetx.topology("dgx1-v100", size=["8", "4MiB"], out=tmp_path / "pairs")
    names = {path.name for path in (tmp_path / "pairs").glob("*.vl.json")}
    assert {"dgx1-v100_one-way_latency.vl.json", "dgx1-v100_both-ways_bandwidth.vl.json"} < names


def test_points_of_a_prediction_say_in_which_settings_of_the_machine_they_differ():
    made = resnetx.predict(
        systems=["dgx1-p100"], model="alexnet", batch_size=256, gpus=16, nodes=2, network=["edr100", "hdr200"]
    )
    assert [point.varied for point in made.points] == [{"network": "edr100"}, {"network": "hdr200"}]
    slow, fast = (point.communication_s for point in made.points)
    assert slow > fast


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"what_if.latency": [1, 2]}, ["1", "2"]),
        ({"what_if.bandwidth": [{"nvlink1": 1}, {"nvlink1": 2}]}, ["nvlink1:1", "nvlink1:2"]),
        ({"overlap.input": [True, False], "input": "dali"}, ["true", "false"]),
        ({"rate": [2500, 2300]}, ["2500", "2300"]),
        ({"rate": [{128: 2500}, {128: 2300, 256: 2400}]}, ["128:2500", "128:2300,256:2400"]),
        ({"devices": [[0, 1], [0, 5]]}, ["0+1", "0+5"]),
    ],
)
def test_each_of_several_values_of_any_setting_of_a_prediction_is_another_point(settings, told):
    gpus = {} if "devices" in settings else {"gpus": 2, "baseline": 2}
    made = resnetx.predict(systems=["dgx1-p100"], model="alexnet", batch_size=256, **gpus, **settings)
    name = next(iter(settings))
    assert [point.varied for point in made.points] == [{name: word} for word in told]


def test_a_comparison_has_a_case_for_each_of_several_values():
    made = resnetx.compare(
        systems=["dgx1-p100", "gx8"], model="alexnet", batch_size=256, gpus=8, gradients=["fp32", "fp16"]
    )
    assert [point.variant for point in made.points] == ["gradients fp32", "gradients fp16"]
    full, half = (point.margin.ratio.value for point in made.points)
    assert full > half > 1


def test_paths_between_each_of_several_pairs_of_gpus():
    found = resnetx.topology("dgx1-v100", devices=[[0, 1], [0, 5]])
    assert {(way.source, way.target) for way in found} == {(0, 1), (0, 5)}


@pytest.mark.slow
def test_the_networks_of_the_lab_are_kept(tmp_path):
    resnetx.lab(systems=["gx8"], gpus=[2, 4], out=tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept >= {"lab.jsonl", "lab.csv", "links.csv", "gx8.vl.json", "index.html"}


def test_a_value_that_cannot_run_is_a_point_beside_those_that_can():
    made = resnetx.predict(systems=["gx8"], model="alexnet", batch_size=256, gpus=1, memory=["1GB", "16GB"])
    assert [point.outcome for point in made.points] == ["oom", "ok"]


@pytest.mark.slow
def test_predictions_and_workloads_are_drawn(tmp_path):
    resnetx.predict(systems=["gx8", "dgx1-p100"], model="alexnet", batch_size=256, out=tmp_path)
    assert {path.stem for path in tmp_path.glob("*.csv")} == {"points", "speedups", "parts"}
    drawn = json.loads((tmp_path / "speedups.vl.json").read_text())
    marks = [mark for marks in drawn["datasets"].values() for mark in marks]
    assert {mark["line"] for mark in marks} == {"gx8", "dgx1-p100"}
    resnetx.describe(study="paper", out=tmp_path / "paper")
    names = {path.stem for path in (tmp_path / "paper").glob("*.csv")}
    assert names >= {"workloads", "counts", "intensity", "located"}


def test_without_images_input_is_synthetic_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("INFO", "resnetx"):
        task, _ = asked_run(None, {"model.x": 1})
    assert isinstance(task.request.input, SyntheticInput)
    assert "`resnetx images` makes files" in caplog.text
    for asked in ({"input": "dali"}, {"input.root": "elsewhere"}, {"study": "quickstart"}):
        assert fed(asked) == asked
    (tmp_path / "data" / "images").mkdir(parents=True)
    assert fed({"model.x": 1}) == {"model.x": 1}
