"""`resnetx predict calibration=[...]`: files, each for what it knows; and decoding, which the cores of a host do."""

import json
import math
import re
import shutil
from pathlib import Path
from statistics import median

import pytest

from resnetx import record
from resnetx.api.calibrations import calibrations
from resnetx.cli import main
from resnetx.prediction.host_step import ASSUMED, OTHER_CORES
from resnetx.record import record_file
from resnetx.record.prediction import Prediction

QUICKSTART = Path(__file__).parents[2] / "results" / "cpu-2core" / "quickstart"  # has runs of the input pipeline
TWO_RANKS = QUICKSTART / "resnet-1_b16_g2_input_880e44b5_r1"
ALEXNET = ["systems=dgx1-p100", "model=alexnet", "batch_size=1024"]
DECODING = ["input=dali", "input.decoder=cpu"]


@pytest.fixture
def measured(tmp_path):
    """A file of all-reduces on some GPUs, at a rate without end."""

    def make(name, gpus, GBps):
        sizes = (8, 2**20, 2**24, 2**28, 2**30)
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
    made = record.read(record_file("prediction", tmp_path / "kept"), Prediction)
    (line,) = [each for each in made.inputs if each.what.startswith("decoding")]
    return line


# ---- several files


def test_each_file_is_taken_for_the_gpus_that_it_knows(predict, measured):
    files = [measured("two", 2, 40), measured("four", 4, 5)]
    words = [*ALEXNET, "strategy=after", "gpus=[2,4]"]
    _, found = predict(*words, f"calibration=[{','.join(files)}]")
    sent_bytes = found[0]["gradient_bytes"]
    expected_s = [20e-6 + sent_bytes / 40e9, 20e-6 + sent_bytes / 5e9]
    assert [each["communication_s"] for each in found] == pytest.approx(expected_s, rel=0.01)


def test_collectives_and_decoding_come_from_two_files(predict, measured):
    words = [*ALEXNET, *DECODING, "strategy=after", "gpus=2"]
    _, (plain,) = predict(*words)
    _, (found,) = predict(*words, f"calibration=[{measured('two', 2, 5)},{TWO_RANKS}]")
    assert found["communication_s"] == pytest.approx(20e-6 + found["gradient_bytes"] / 5e9, rel=0.01)
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


def listed(hosts, name):
    """A table of nccl-tests: 8 ranks of a list, on so many hosts."""
    ranks = "".join(
        f"#  Rank {n} Group 0 Pid 1 on node-{n * hosts // 8} device {n} [0x0{n}] {name}\n" for n in range(8)
    )
    heads = "#       size  count  type  redop  root  time  algbw  busbw  #wrong\n"
    rows = "1048576 262144 float sum -1 100.0 10.49 18.35 0\n67108864 16777216 float sum -1 6000.0 11.18 19.57 0\n"
    return ranks + heads + rows


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (
            listed(1, "AMD Instinct MI300X"),
            [],
            "measured on AMD Instinct MI300X, and dgx1-p100 has Tesla P100-SXM2-16GB",
        ),
        (listed(1, "Tesla P100-PCIE-16GB"), [], "measured on Tesla P100-PCIE-16GB, and dgx1-p100 has"),
        (listed(2, "Tesla P100-SXM2-16GB"), [], "its 8 ranks are on 2 hosts, and 8 GPUs of dgx1-p100 are on 1"),
        (
            listed(1, "Tesla P100-SXM2-16GB"),
            ["nodes=2", "network=edr100", "nics=4", "devices=[0,1,2,3,8,9,10,11]"],
            "its 8 ranks are on 1 host, and 8 GPUs of 2x dgx1-p100 are on 2",
        ),
    ],
)
@pytest.mark.parametrize("verb", [["predict", *ALEXNET[1:], "gpus=8"], ["topology", "collective=allreduce"]])
def test_collectives_of_another_machine_are_refused(verb, text, words, sentence, tmp_path, capsys):
    file = tmp_path / "all_reduce.log"
    file.write_text(text)
    assert main([*verb, "systems=dgx1-p100", *words, f"calibration={file}"]) == 2
    assert sentence in capsys.readouterr().err
    for name in ("Tesla P100-SXM2-16GB", "Tesla P100", "NVIDIA Graphics Device"):
        file.write_text(listed(1, name))
        assert main([*verb, "systems=dgx1-p100", f"calibration={file}"]) == 0


@pytest.mark.parametrize(
    ("name", "system", "status"),
    [
        ("NVIDIA H100 NVL", "dgx-h100", 2),
        ("NVIDIA H100 PCIe", "dgx-h100", 2),
        ("NVIDIA H200 NVL", "dgx-h200", 2),
        ("H100-SXM5-80GB", "dgx-h100", 0),
        ("NVIDIA H100", "dgx-h100", 0),
    ],
)
def test_collectives_of_another_form_of_a_gpu_are_refused_whatever_its_name_leaves_out(name, system, status, tmp_path):
    file = tmp_path / "all_reduce.log"
    file.write_text(listed(1, name))
    assert main(["topology", "collective=allreduce", f"systems={system}", f"calibration={file}"]) == status


def test_a_calibration_of_other_numbers_of_gpus_than_any_point_has_is_refused(measured, capsys):
    file = measured("eight", 8, 5)
    assert main(["predict", *ALEXNET, "gpus=[1,2,4]", f"calibration={file}"]) == 2
    assert "measured on 8 GPUs, and no point has as many: gpus=[2, 4]" in capsys.readouterr().err
    assert main(["predict", *ALEXNET, "gpus=[1,2,8]", f"calibration={file}"]) == 0


# ---- rates of several GPUs

CLUSTER = ["systems=dgx1-v100", "nodes=4", "network=edr100", "nics=1", "library=nccl2.4"]
RESNET50 = ["model=torchvision", "model.name=resnet50", "batch_size=256", "scaling=weak", "precision=fp16"]


@pytest.fixture
def rates(tmp_path):
    """A file of rates by GPUs."""

    def make(text, name="rates"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"source: a test\nimages_per_s: {text}\n")
        return f"calibration={path}"

    return make


def test_a_file_of_rates_need_not_say_where_they_are_from(predict, tmp_path):
    (tmp_path / "rates.yaml").write_text("images_per_s: {8: 9000}\n")
    words = ["systems=dgx1-v100", *RESNET50, "gpus=8", "rate=1394", f"calibration={tmp_path / 'rates.yaml'}"]
    assert predict(*words)[1][0]["images_per_s"] == pytest.approx(9000, rel=1e-3)


def test_a_rate_of_several_gpus_that_one_gpus_cannot_make_is_refused(predict, rates, capsys):
    words = ["systems=dgx1-v100", *RESNET50, "gpus=8"]
    assert main(["predict", *words, "rate=256:139", rates("{8: 9000}")]) == 2
    assert "9000 on 8 GPUs is 64.7 times the 139 of one (rate=256:139)" in " ".join(capsys.readouterr().err.split())
    predict(*words, "rate=4:139", rates("{8: 9000}"))  # of a small batch it can


def test_a_rate_of_several_gpus_is_met_and_other_counts_follow_it(predict, rates):
    words = [*CLUSTER, *RESNET50, "gpus=[1,8,16,32]", "rate=1394"]
    _, plain = predict(*words)
    _, (one, eight, sixteen, more) = predict(*words, rates("{16: 16219}"))
    assert one["images_per_s"] == pytest.approx(1394)
    assert sixteen["images_per_s"] == pytest.approx(16219, rel=1e-3)
    assert plain[1]["images_per_s"] / eight["images_per_s"] > 1.05
    assert 1.9 < more["images_per_s"] / sixteen["images_per_s"] < 2
    widths = [math.log(each["interval_s"][1] / each["interval_s"][0]) for each in (plain[3], more)]
    assert widths[1] < 0.75 * widths[0]  # so close were rates of several nodes that were given another


@pytest.mark.parametrize("off", [1.0, 0.98])
def test_a_rate_that_is_as_modelled_makes_no_other_point_less_sure(predict, rates, off):
    words = ["systems=dgx1-p100", "model=resnet50", "batch_size=512", "scaling=weak", "rate=400", "gpus=1,2,4"]
    _, (_, *plain, four) = predict(*words)
    _, (_, *known, _) = predict(*words, rates(f"{{4: {off * four['images_per_s']}}}"))
    (before,), (after,) = ([point["interval_s"][1] / point["interval_s"][0] for point in of] for of in (plain, known))
    assert after <= before * 1.0001


@pytest.mark.parametrize(("words", "error"), [([], 0.02), (["rate_error=0.05"], 0.05)])
def test_the_very_point_that_is_known_is_as_sure_as_its_rate(predict, rates, words, error):
    one = ["systems=dgx1-v100", "model=resnet50", "batch_size=256", "rate=32:300,256:350", *words]
    _, (alone, two, eight) = predict(*one, "gpus=1,2,8", rates("{8: 2200}"))
    ends = [(1 - error) * 256 / 2200, (1 + error) * 256 / 2200]
    assert eight["interval_s"] == eight["interval_by_scaling_s"] == pytest.approx(ends)
    assert eight["interval_by_compute_s"] == [eight["iteration_s"]] * 2
    assert [point["rate_known"] for point in (alone, two, eight)] == [False, False, True]
    assert alone["interval_s"] == pytest.approx([(1 - error) * 256 / 350, (1 + error) * 256 / 350])
    of_both = math.hypot(*[math.log1p(error)] * 2)  # of a speed-up, two rates that are known apart
    assert math.log(eight["speedup_interval"][1] / eight["speedup"]) == pytest.approx(of_both, rel=0.05)
    assert two["interval_s"][1] / two["iteration_s"] > 1.05  # another number, which has errors of its own


@pytest.mark.parametrize("words", [["straggler=1.5"], ["what_if.bandwidth={nvlink2: 2}"]])
def test_what_changes_a_point_that_is_known_leaves_it_the_errors_of_a_prediction(predict, rates, words):
    _, (eight,) = predict("systems=dgx1-v100", "model=resnet50", "batch_size=256", "rate=32:300", "gpus=8", *words,
                          rates("{8: 2200}"))  # fmt: skip
    assert eight["interval_s"][1] / eight["iteration_s"] > 1.05


def test_of_what_scaling_costs_the_rate_that_tells_it_is_named(rates, capsys):
    words = ["predict", "dgx1-p100", "model=resnet50", "batch_size=256", "rate=32:200,256:220", "gpus=1,8"]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"what scaling costs \(\d+%: give the rate of 8 GPUs in calibration=\)", said)
    assert main([*words, rates("{8: 1450}")]) == 0
    assert "what scaling costs" not in capsys.readouterr().out


def test_of_a_point_that_is_known_its_rate_is_doubted_and_no_other_rates_are_named(rates, capsys):
    words = ["systems=dgx1-v100", "model=resnet50", "batch_size=256", "rate=32:300,64:325,256:350", rates("{8: 2200}")]
    assert main(["predict", *words, "gpus=1,8"]) == 0
    assert (
        "\nsure: 9 of 10 measurements should lie inside; most doubt: the known rate (2%).\nmore"
        in capsys.readouterr().out
    )
    assert main(["predict", *words, "gpus=1,4"]) == 0
    assert "what scaling costs" in capsys.readouterr().out


def test_a_what_if_change_is_on_top_of_the_machine_as_it_was_measured(predict, rates):
    words = [*CLUSTER, *RESNET50, "gpus=[16]", "rate=1394", rates("{16: 12000}"), "strategy=after"]
    _, (plain,) = predict(*words)
    _, (faster,) = predict(*words, "what_if.bandwidth={edr100: 4}")
    assert plain["images_per_s"] == pytest.approx(12000, rel=1e-3)
    assert faster["images_per_s"] > 1.002 * plain["images_per_s"]


def test_a_file_with_the_rate_of_one_gpu_is_of_the_batch_that_one_gpu_has(rates, capsys, predict):
    words = ["dgx1-p100", "model=resnet50"]
    _, points = predict(*words, "batch_size=64", rates("{1: 130, 2: 250}"))
    assert [point["images_per_s"] for point in points[:2]] == pytest.approx([130, 250])
    _, (eight,) = predict(*words, "batch_size=64", "gpus=8", rates("{1: 130, 8: 390}"))
    assert eight["speedup"] == pytest.approx(3)
    assert main(["predict", *words, "batch_size=32,64", rates("{1: 130, 2: 250}")]) == 2
    assert "say of which it is, as rate=64:130, and leave 1: out of the file" in capsys.readouterr().err
    assert main(["predict", *words, "batch_size=64", "rate=64:130", rates("{2: 250}")]) == 0


def test_nobody_is_asked_for_the_rate_of_what_is_not(rates, capsys):
    words = ["predict", "dgx1-p100", "model=resnet50", "batch_size=32", "scaling=weak", "gpus=2"]
    words += [rates("{1: 130, 2: 250}")]
    assert main([*words, "what_if.latency=0.5"]) == 0
    assert "most doubt: what scaling costs (" in (out := capsys.readouterr().out)
    assert "give the rate of" not in out


def test_a_known_rate_is_as_sure_where_layers_wait_for_messages(predict, rates):
    """What computing loses to messages is seconds: a factor on computing is none on that."""
    words = ["systems=c4130-p100", "model=resnetx", "model.x=4", "batch_size=64", "gpus=2", "strategy=fsdp"]
    _, (known,) = predict(*words, rates("{1: 130, 2: 250}"))
    assert known["rate_known"]
    assert known["interval_s"] == pytest.approx([0.98 * 64 / 250, 1.02 * 64 / 250], rel=1e-3)


def test_a_bench_of_gloo_says_nothing_of_nccl(capsys):
    bench = QUICKSTART.parent / "bench/collectives_g2"
    for words in (["predict", "model=alexnet", "gpus=2"], ["topology", "collective=allreduce", "devices=[0,1]"]):
        assert main([*words, "systems=dgx-h100", f"calibration={bench}"]) == 2
        assert "measured with gloo (torch 2.15.0+cu132), and library=nvls is predicted" in capsys.readouterr().err


def test_runs_of_a_study_on_several_ranks_calibrate_their_own_workload(predict, tmp_path):
    words = ["systems=cpu-host", "model=resnetx", "model.x=1", "batch_size=16", "gpus=2", f"rate={QUICKSTART}"]
    runs = [json.loads((run / "record.json").read_text()) for run in sorted(QUICKSTART.glob("resnet-1_b16_g2_*_r?"))]
    wanted = [
        run["images_per_s"]
        for run in runs
        if run["request"]["measure"] == "step"
        and run["request"]["input"]["kind"] == "synthetic"  # the input of the rate on one
        and run["request"]["strategy"]["kind"] == "bucket"
    ]
    _, (found,) = predict(*words, f"calibration={QUICKSTART}", f"out={tmp_path / 'kept'}")
    assert found["images_per_s"] == pytest.approx(median(wanted), rel=1e-3)
    lines = record.read(record_file("prediction", tmp_path / "kept"), Prediction).inputs
    (line,) = [line for line in lines if line.what.startswith("scaling by")]
    assert (line.origin, line.source) == ("measured on cpu-2core", str(QUICKSTART))
    # its runs without exchange leave 1 ms to messages, and 16 ms of the 17 to what is not explained
    assert found["exposed_communication_s"] == pytest.approx(0.0011, abs=0.001)
    assert "messages cost 1.1 ms on 2 by runs without exchange" in line.value


@pytest.mark.parametrize(
    ("words", "text", "sentence"),
    [
        ([], "{16: 16219}", "rates of several GPUs, of which that of one must be known; add rate="),
        (["rate={128:700,256:1394}", "batch_size=[128,256]"], "{16: 16219}", "rates of one workload at one batch"),
        (["rate=1394"], "{64: 60000}", "has the rate of 64 GPUs, and 4x dgx1-v100 has 32; describe as many"),
        (["rate=1394"], "{16: 160}", "more than 10 times off what is predicted"),
        (["rate=1394"], "{1: 1394}", "expected images/s by 2 GPUs or more"),
    ],
)
def test_rates_of_several_gpus_that_say_nothing_here_are_refused(words, text, sentence, rates, capsys):
    assert main(["predict", *CLUSTER, *RESNET50, "gpus=16", *words, rates(text)]) == 2
    assert sentence in capsys.readouterr().err


def test_runs_of_other_workloads_are_refused(run_of_input, capsys):
    folder = run_of_input(lambda tree: tree["request"].update(measure="step"))
    words = ["systems=cpu-host", "model=resnetx", "model.x=1", "batch_size=64", "gpus=2", "rate=64:100"]
    assert main(["predict", *words, f"calibration={folder}"]) == 2
    assert "has no run on several GPUs of the model, batch" in capsys.readouterr().err


# ---- decoding


def test_a_measured_rate_of_decoding_is_that_of_a_core_and_the_gpus_of_a_host_share_its_cores(predict, tmp_path):
    """Two ranks with a thread each: half of what both decode is a core's. A DGX-1 has 40 cores."""
    tree = json.loads((TWO_RANKS / "record.json").read_text())
    bytes_each = tree["input_state"]["size_bytes"] / tree["input_state"]["images"]
    core_Bps = tree["images_per_s"] / 2 * bytes_each
    words = [*ALEXNET, *DECODING, "image_bytes=100kB", f"calibration={TWO_RANKS}", "overlap.host_to_device=true"]
    _, (four, eight) = predict(*words, "gpus=[4,8]")
    decoded_s = [1024 / gpus * 100e3 / (core_Bps * 40 / gpus) for gpus in (4, 8)]
    assert decoded_s[0] == decoded_s[1]  # half the images, half the cores
    assert [point["input_s"] for point in (four, eight)] == pytest.approx(decoded_s)  # copied meanwhile
    line = decoding(predict, tmp_path, *words, "gpus=8")
    assert "by 5 cores for each GPU" in line.value
    assert (line.origin, line.source) == ("measured on cpu-2core", str(TWO_RANKS))
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
    line = decoding(predict, tmp_path, *ALEXNET, "gpus=2", "input=torchvision")  # more are open
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
