"""`resnetx predict calibration=[...]`: files, each for what it knows; and decoding, which the cores of a host do."""

import json
import shutil
from pathlib import Path

import pytest

from resnetx import record
from resnetx.api.calibrations import calibrations
from resnetx.cli import main
from resnetx.prediction.decoding import ASSUMED, OTHER_CORES
from resnetx.record.prediction import Prediction, prediction_file

QUICKSTART = Path(__file__).parents[2] / "results" / "cpu-2core" / "quickstart"  # has runs of the input pipeline
TWO_RANKS = QUICKSTART / "resnet-1_b16_g2_input_880e44b5_r1"
ALEXNET = ["systems=dgx1-p100", "model=alexnet", "batch_size=1024"]
DECODING = ["input=dali", "input.decoder=cpu"]


@pytest.fixture
def predict(capsys):
    """Runs the verb; answers (status, JSON objects)."""

    def run(*words):
        status = main(["predict", "--json", *words])
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def measured(tmp_path):
    """A file of all-reduces on some GPUs, at a rate without end."""

    def make(name, gpus, GBps):
        sizes = (8, 2**20, 2**24, 2**30)
        points = ", ".join(f"{{size: {each}, time_us: {20 + each / GBps / 1e3}}}" for each in sizes)
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"source: {name}\ngpus: {gpus}\npoints: [{points}]\n")
        return str(path)

    return make


@pytest.fixture
def run_of_input(tmp_path):
    """A run of the input pipeline on two ranks, with changes to its record; returns its folder."""

    def make(change=lambda record: None, name="run"):
        folder = shutil.copytree(TWO_RANKS, tmp_path / name)
        tree = json.loads((folder / "record.json").read_text())
        change(tree)
        (folder / "record.json").write_text(json.dumps(tree))
        return folder

    return make


def decoding(predict, tmp_path, *words):
    """The line of the record that says what decoding is predicted from."""
    predict(*words, f"out={tmp_path / 'kept'}")
    made = record.read(prediction_file(tmp_path / "kept"), Prediction)
    (line,) = [each for each in made.inputs if each.what.startswith("decoding")]
    return line


# ---- several files


def test_each_file_is_taken_for_the_gpus_that_it_knows(predict, measured):
    files = [measured("two", 2, 40), measured("four", 4, 5)]
    words = [*ALEXNET, "strategy=after", "gpus=[2,4]"]
    _, found = predict(*words, f"calibration=[{','.join(files)}]")
    sent_bytes = found[0]["gradient_bytes"]
    expected_s = [20e-6 + sent_bytes / 40e9, 20e-6 + sent_bytes / 5e9]
    assert [each["communication_s"] for each in found] == pytest.approx(expected_s, rel=0.06)


def test_collectives_and_decoding_come_from_two_files(predict, measured):
    words = [*ALEXNET, *DECODING, "strategy=after", "gpus=2"]
    _, (plain,) = predict(*words)
    _, (found,) = predict(*words, f"calibration=[{measured('two', 2, 5)},{TWO_RANKS}]")
    assert found["communication_s"] == pytest.approx(20e-6 + found["gradient_bytes"] / 5e9, rel=0.06)
    assert found["input_s"] != plain["input_s"]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (lambda make, run: [make("a", 2, 10), make("b", 2, 20)], "both have all-reduces on 2 GPUs; give one of them"),
        (lambda make, run: [str(TWO_RANKS), str(run())], "both have how fast dali decodes with one core"),
        (lambda make, run: [str(QUICKSTART / "resnet-1_b16_g1_f8530673_r1")], "has no run with measure=input"),
    ],
)
def test_files_that_know_the_same_thing_or_nothing_are_refused(files, sentence, measured, run_of_input, capsys):
    words = [*ALEXNET, *DECODING, "gpus=2", f"calibration=[{','.join(files(measured, run_of_input))}]"]
    assert main(["predict", *words]) == 2
    assert sentence in capsys.readouterr().err


# ---- decoding


def test_a_measured_rate_of_decoding_is_that_of_a_core_and_the_gpus_of_a_host_share_its_cores(predict, tmp_path):
    """Two ranks with a thread each: half of what both decode is a core's. A DGX-1 has 40 cores."""
    tree = json.loads((TWO_RANKS / "record.json").read_text())
    bytes_each = tree["input_state"]["size_bytes"] / tree["input_state"]["images"]
    core_Bps = tree["images_per_s"] / 2 * bytes_each
    words = [*ALEXNET, *DECODING, "image_bytes=100kB", f"calibration={TWO_RANKS}", "overlap.host_to_device=true"]
    _, (four, eight) = predict(*words, "gpus=[4,8]")
    copied_s = [3 * 227**2 * 4 * 1024 / gpus for gpus in (4, 8)]
    decoded_s = [1024 / gpus * 100e3 / (core_Bps * 40 / gpus) for gpus in (4, 8)]
    assert decoded_s[0] == decoded_s[1]  # half the images, half the cores
    for point, decoded, copied_bytes in zip((four, eight), decoded_s, copied_s, strict=True):
        assert point["input_s"] > decoded
        assert point["input_s"] - decoded < copied_bytes / 5e9  # the copy to the device: at more than 5 GB/s
    line = decoding(predict, tmp_path, *words, "gpus=8")
    assert "by 5 cores for each GPU" in line.value
    assert (line.origin, line.source) == ("measured here", str(TWO_RANKS))
    assert line.error >= 0.5  # of another CPU


def test_the_assumed_rate_of_dali_is_that_of_the_committed_runs():
    (measured,) = calibrations([str(QUICKSTART)]).decoding
    assert (measured.loader, measured.unit) == ("dali", "core")
    assert ASSUMED["dali"].rate_Bps == pytest.approx(measured.rate_Bps, rel=0.01)
    assert 0.1 < measured.error < OTHER_CORES


def test_a_slow_loader_makes_a_point_input_bound_and_the_point_says_so(predict, run_of_input):
    def slow(tree):
        tree["windows_s"] = [[10 * seconds for seconds in rank] for rank in tree["windows_s"]]

    words = [*ALEXNET, *DECODING, "gpus=8"]
    _, (plain,) = predict(*words, f"calibration={TWO_RANKS}")
    _, (found,) = predict(*words, f"calibration={run_of_input(slow)}")
    assert found["limited_by"] == "input"
    assert found["iteration_s"] > 5 * plain["iteration_s"]


def test_threads_that_are_asked_for_are_the_cores_of_each_rank(predict, tmp_path):
    words = [*ALEXNET, *DECODING, "gpus=4"]
    _, (shared,) = predict(*words)
    _, (one,) = predict(*words, "input.threads=1")
    assert one["input_s"] > 5 * shared["input_s"]
    assert "by 1 cores for each GPU" in decoding(predict, tmp_path, *words, "input.threads=1").value


def test_without_a_measurement_the_rate_of_a_core_is_assumed_and_a_gpu_that_decodes_is_left_out(predict, tmp_path):
    line = decoding(predict, tmp_path, *ALEXNET, "gpus=8", "input=torchvision")
    assert (line.origin, line.error) == ("assumed", pytest.approx(0.5, abs=0.01))
    assert "with torchvision" in line.value
    line = decoding(predict, tmp_path, *ALEXNET, "gpus=8", "input=dali")
    assert "left out: how fast its GPUs decode is not known" in line.value


def test_a_gpu_that_decodes_is_measured_on_its_own_model(predict, run_of_input, tmp_path, capsys):
    def on_gpus(tree):
        tree["input_state"]["decoder"] = "gpu"
        for device in tree["devices"]:
            device["name"] = "Tesla P100-SXM2-16GB"

    words = [*ALEXNET, "input=dali", "gpus=8", f"calibration={run_of_input(on_gpus)}"]
    line = decoding(predict, tmp_path, *words)
    assert line.value.startswith("by each GPU, one GPU ")
    assert main(["predict", *words[1:], "systems=dgx1-v100"]) == 2
    assert "which says nothing of v100-sxm2-16gb" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["input=dali"], "has how fast dali decodes with one core, which no point does; add input=dali input.decoder"),
        ([], "which no point does; add input=dali input.decoder=cpu"),
        ([*DECODING, "input.threads=[1,2]"], "input.threads=[1, 2]: a prediction has one number of them"),
    ],
)  # fmt: skip
def test_a_measurement_that_no_point_needs_is_refused(words, sentence, capsys):
    assert main(["predict", *ALEXNET, "gpus=8", *words, f"calibration={TWO_RANKS}"]) == 2
    assert sentence in capsys.readouterr().err
