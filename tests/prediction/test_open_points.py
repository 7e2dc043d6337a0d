"""Points that nothing determines: one process for all GPUs, and what closes them."""

import json
import re
import shlex
from dataclasses import replace
from math import log
from pathlib import Path

import pytest

import resnetx
from resnetx import record, workloads
from resnetx.cli import main
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.system import load
from resnetx.prediction.host_step import DecodingRate, assumed
from resnetx.prediction.predict import predict
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.stated_rates import StatedRates
from resnetx.settings.files import CONFIGS
from tests.prediction.made_traces import batch, layer, trace

pytestmark = pytest.mark.slow  # finds rings

RESNET = {"model": "torchvision", "model.name": "resnet50", "batch_size": 64, "scaling": "weak", "rate": 228}
P100 = {"systems": ["dgx1-p100"], "library": "nccl1", "gpus": [1, 8], **RESNET}
HALF = {"precision": "fp16", "batch_size": 256, "nodes": 2, "gpus": [1, 16], "network": "edr100", "nics": 1}
PUBLISHED = 1612  # images/s of tensorpack on 8 GPUs (results/published/scaling.yaml)


def predicted(**settings):
    return resnetx.predict(**settings).points


def bench(folder, gpus):
    """All-reduces of 0.7 GB/s of bus bandwidth."""
    file = folder / "bench.yaml"
    times_us = {mib: 2 * (gpus - 1) / gpus * mib * 2**20 / 700 for mib in (16, 64, 256)}
    points = ", ".join(f"{{size: {mib}MiB, time_us: {time_us:.0f}}}" for mib, time_us in times_us.items())
    file.write_text(f"source: mine\ngpus: {gpus}\npoints: [{points}]\n")
    return str(file)


def rates(folder, gpus, images_per_s):
    file = folder / "rates.yaml"
    file.write_text(f"source: mine\nimages_per_s: {{{gpus}: {images_per_s}}}\n")
    return str(file)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_one_process_for_all_gpus_is_open_between_two_ends(framework):
    one, eight = predicted(framework=framework, **P100)
    assert one.iteration_s and not one.open
    assert eight.iteration_s is eight.images_per_s is eight.speedup is None
    words = f"model=torchvision batch_size=64 scaling=weak framework={framework} library=nccl1 rate=228 gpus=8"
    assert eight.open == f"resnetx predict dgx1-p100 {words} calibration=rates.yaml"
    assert "images_per_s: {8: ...} into rates.yaml" in eight.open_ends
    fast_s, slow_s = eight.interval_s
    assert fast_s < 8 * 64 / PUBLISHED < slow_s
    assert slow_s - fast_s > 7 * assumed(158, framework, "fp32").time_s  # of ResNet-50, for each other GPU
    low, high = eight.speedup_interval
    assert low < PUBLISHED / 228 < high
    assert not any(point.open for point in predicted(**P100))  # a process for each GPU


V100 = {"systems": ["dgx1-v100"], "nodes": 2, "nics": 1, **RESNET, "gpus": 16, "rate": 357}


def test_several_nodes_over_tcp_are_open_down_to_one_flow_of_a_cloud():
    """Horovod on two p3.16xlarge took 2,633 images/s (issue 396), where 2,896 to 5,794 were said."""
    (tcp,) = predicted(network="25gbe", **V100)
    low, high = (16 * 64 / end for end in reversed(tcp.interval_s))
    assert tcp.images_per_s is None and "all of the network" in tcp.open_ends
    assert low < 2633 < 4900 < high
    assert tcp.open == "resnetx bench collective=allreduce gpus=16 size=64MiB nodes=2 launcher=slurm"
    assert f"`{tcp.open}`" in tcp.open_ends
    assert not any(predicted(network=network, **V100)[0].open for network in ("10gbe", "roce25"))
    assert not predicted(**V100 | {"gpus": 8, "nodes": None, "nics": None})[0].open  # one node
    (both,) = predicted(network="25gbe", framework="tensorflow", **V100)
    (launched,) = predicted(network="roce25", framework="tensorflow", **V100)
    assert both.interval_s[1] > 1.4 * launched.interval_s[1]
    assert both.open == launched.open.replace("roce25", "25gbe") and tcp.open_ends in both.open_ends


def test_messages_that_one_flow_would_hide_as_well_leave_nothing_open():
    """They lie in the interval, which a faster network does not have."""
    asked = {**V100, "precision": "fp16", "batch_size": 256, "rate": 740}
    (tcp,), (roce,) = predicted(network="25gbe", **asked), predicted(network="roce25", **asked)
    assert not tcp.open and tcp.iteration_s == pytest.approx(roce.iteration_s, rel=0.05)
    told = [line.value for line in resnetx.predict(network="25gbe", **asked).inputs if "TCP flow" in line.value]
    assert len(told) == 1 and "times as long if a cloud keeps a TCP flow to 5 Gb/s" in told[0]
    assert tcp.interval_s[1] / tcp.iteration_s > 1.01 * roce.interval_s[1] / roce.iteration_s


def test_what_is_measured_closes_tcp(tmp_path):
    for calibration in (rates(tmp_path, 16, 2633), bench(tmp_path, 16)):
        (point,) = predicted(network="25gbe", calibration=[calibration], **V100)
        assert not point.open and point.images_per_s == pytest.approx(2633, rel=0.2)
    text = (CONFIGS / "system" / "dgx1-v100.yaml").read_text()
    network = "{about: TCP, bandwidth_GBps: [3.1, datasheet, it], copy_GBps: [0.7, measured, NCCL], latency_us: [25, "
    system = tmp_path / "mine.yaml"
    system.write_text(f"{text}parts: {{networks: {{lan: {network}assumed, it], gpu_direct: false}}}}}}\n")
    assert not predicted(network="lan", **V100 | {"systems": [str(system)]})[0].open


NVIDIA = {"systems": ["dgx1-v100"], "model": "torchvision", "model.name": "resnet50", "scaling": "weak", "gpus": 8}
FED = {**NVIDIA, "input": "torchvision", "precision": "fp16", "batch_size": 256, "rate": 1200}


def test_gpus_that_ask_for_more_images_than_a_slow_loader_has_are_open_between_published_ones():
    """NVIDIA's ResNet-50 on 8 V100s of 40 cores (results/published/scaling.yaml): 8,322/s."""
    (eight,) = predicted(**FED)
    assert eight.images_per_s is eight.limited_by is None
    low, high = (8 * 256 / end for end in reversed(eight.interval_s))
    assert low < 4012 < 8322 < high < 1.05 * 8 * 1200  # which AutoAugment had of this host's loader, at least
    assert "240 images/s of each core" in eight.open_ends and "375 (the fast end) to 100 (the" in eight.open_ends
    assert eight.open == "resnetx train model=torchvision batch_size=2048 input=torchvision measure=input gpus=8"
    assert main([*shlex.split(eight.open)[1:], "--dry-run"]) == 0
    for other in ({"gpus": 4}, {"rate": 690}, {"input": "dali"}, {"input": "synthetic"}, {"systems": ["dgx-a100"]}):
        (determined,) = predicted(**FED | other)
        assert not determined.open
    (large,) = predicted(**FED | {"rate": 300, "image_size": 512})  # five times the pixels of 224
    assert large.open and "60 images/s of each core" in large.open_ends


def test_what_a_loader_has_handed_over_closes_it_or_moves_the_slow_end(tmp_path):
    (cold,) = predicted(**FED)
    (shown,) = predicted(**FED, calibration=[rates(tmp_path, 8, 8322)])
    assert not shown.open and shown.images_per_s == pytest.approx(8322)
    (fewer,) = predicted(**FED, calibration=[rates(tmp_path, 4, 4700)])
    assert fewer.open and fewer.interval_s[1] < cold.interval_s[1]
    deployment = Deployment(load("dgx1-v100"), "nccl2.4")
    request = request_from(compose(FED | {"systems": None, "rate": None} | {"gpus": 1}))
    of = Workload.of(request, workloads.table(request.model, request.image_size), "torch")
    stated = replace(of, rates=StatedRates(((256, 1200.0),), "stated", "mine"))
    loader = DecodingRate("torchvision", "core", 300 * 110_000, 0.05, "measured here", "mine")
    for measured, is_open in (((), True), ((loader,), False)):
        on = replace(deployment, decoding=measured)
        assert bool(predict(Point(stated, on, tuple(range(8)), 2048, TrainingSetup())).point.open) == is_open


def test_what_links_would_gain_is_said_to_be_unknown_where_no_described_link_decides(capsys):
    words = ["systems=dgx1-v100", "model=resnet50", "gpus=8", "batch_size=64", "sensitivity=true"]
    told = "Link sensitivity: not known between two ends, nor of GPUs that are no peers."
    for more in (["transport=host"], ["transport=host", "staged=per-gpu"]):
        assert main(["predict", *words, *more]) == 0 and told in capsys.readouterr().out
    assert main(["predict", *words]) == 0 and told not in capsys.readouterr().out


def test_what_leaves_several_points_open_by_other_figures_is_said_of_the_last(capsys):
    assert main(["predict", "dgx1-v100", "gpus=4,8", "input=torchvision", "batch_size=256", "precision=fp16"]) == 0
    out = capsys.readouterr().out
    assert out.count("These GPUs ask for") == 1 and "measure=input gpus=8`" in out


def test_a_loader_and_one_process_that_are_not_known_have_the_ends_of_both():
    (loader,), (both,) = predicted(**FED), predicted(**FED, framework="tensorflow")
    assert both.interval_s[1] > loader.interval_s[1]
    assert "One process" in both.open_ends and "of each core" in both.open_ends


def test_one_process_on_gpus_that_are_no_peers_has_the_ends_of_both():
    box = {"systems": ["pcie-a100"], "transport": "host", "gpus": [2], **RESNET}
    (staged,), (both,) = predicted(**box), predicted(**box, launch_mode="one-process")
    assert both.interval_s[1] > staged.interval_s[1]
    assert "staged=" in both.open_ends and "One process" in both.open_ends


def test_a_parameter_server_of_tensorflow_is_not_open():
    asked = P100 | {"library": None, "framework": "tensorflow", "strategy": "server"}
    assert not any(point.open for point in predicted(**asked))


def test_one_process_that_launches_graphs_does_not_start_gpus_in_no_time_after_each_other():
    asked = {"systems": "dgx1-v100", "model": "alexnet", "batch_size": 256, "gpus": 8, "launch_mode": "one-process"}
    (eager,), (graph,) = predicted(**asked), predicted(**asked, graph=True)
    assert "that of one after the other, in " in eager.open_ends
    assert "(the fast end), or with all messages behind the backward pass (the slow end)" in graph.open_ends


def test_a_measured_rate_closes_one_process(tmp_path):
    told = {"framework": "tensorflow", **P100}
    of_one = predicted(**told)[1]
    of_four = predicted(calibration=[rates(tmp_path, 4, 802)], **told)[1]
    of_eight = predicted(calibration=[rates(tmp_path, 8, PUBLISHED)], **told)[1]
    assert of_one.open and of_four.open and not of_eight.open  # what more GPUs take is not what four took
    assert of_four.interval_s[1] < of_one.interval_s[1]
    assert of_four.interval_s[0] < 8 * 64 / PUBLISHED < of_four.interval_s[1]
    assert of_eight.images_per_s == pytest.approx(PUBLISHED)


@pytest.mark.parametrize("system", ["dgx1-v100", "dgx-a100"])
def test_half_precision_on_several_nodes_may_take_much_longer_and_hardly_less(system, tmp_path):
    """Steps of one cluster of V100s took a time more, those of another of the same GPUs none."""
    settings = {"systems": [system], **RESNET, **HALF, "rate": 1400}
    sixteen = predicted(**settings)[1]
    single = predicted(**settings | {"precision": "fp32", "batch_size": 128, "rate": 380})[1]
    assert not sixteen.open and not single.open
    shorter, longer = (abs(log(end_s / sixteen.iteration_s)) for end_s in sixteen.interval_s)
    assert longer > 1.5 * shorter
    assert longer > log(single.interval_s[1] / single.iteration_s)
    closed = predicted(**settings, calibration=[rates(tmp_path, 16, 16219)])[1]
    assert closed.images_per_s == pytest.approx(16219)
    assert not closed.open


UNPUBLISHED = {
    "systems": ["mi300x"],
    **RESNET,
    **HALF,
    "gpus": 16,
    "precision": "bf16",
    "network": "ndr400",
    "rate": 3000,
}


def test_half_precision_over_nodes_is_open_on_gpus_of_which_no_rate_is_published(tmp_path):
    (cold,) = predicted(**UNPUBLISHED)
    assert cold.images_per_s is None and "rate of GPUs of this generation" in cold.open_ends
    low, high = (16 * 256 / end for end in reversed(cold.interval_s))
    assert 0.5 < low / (16 * 3000) < 0.8 and 0.9 < high / (16 * 3000) < 1.05
    words = "input=synthetic batch_size=4096 precision=bf16 strategy=bucket gpus=16 nodes=2 launcher=slurm"
    assert cold.open == f"resnetx train model=torchvision {words}"
    assert main([*shlex.split(cold.open)[1:], "--dry-run"]) == 0
    (shown,) = predicted(**UNPUBLISHED, calibration=[rates(tmp_path, 16, 40_000)])
    assert not shown.open and shown.images_per_s == pytest.approx(40_000)
    published = ({"systems": [name]} for name in ("dgx-a100", "mi250x", "hgx-b200", "pcie-gen5"))  # two of one batch
    others = (*published, {"precision": "fp32"}, {"gpus": 8, "nodes": None, "network": None, "nics": None})
    assert not any(predicted(**UNPUBLISHED | other)[0].open for other in others)
    assert predicted(**UNPUBLISHED | {"systems": ["dgx-h100"]})[0].open


def test_a_run_of_resnetx_does_not_close_a_point_of_another_framework(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (cold,) = predicted(**UNPUBLISHED, framework="horovod")
    assert cold.open.startswith("resnetx predict ") and " framework=horovod " in cold.open
    assert "write images_per_s: {16: ...} into rates.yaml" in cold.open_ends
    (tmp_path / "rates.yaml").write_text("images_per_s: {16: 40000}\n", encoding="utf-8")
    assert main(shlex.split(cold.open)[1:]) == 0
    (shown,) = predicted(**UNPUBLISHED, framework="horovod", calibration=["rates.yaml"])
    assert not shown.open and shown.images_per_s == pytest.approx(40_000)


def test_screens_have_both_ends_of_an_efficiency(capsys):
    words = [
        "predict",
        "dgx1-p100",
        "library=nccl1",
        "framework=tensorflow",
        "model=resnet50",
        "batch_size=64",
        "rate=228",
    ]
    assert main([*words, "scaling=weak", "gpus=1,8"]) == 0
    (shown,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("   8  "))
    speedups, shares = ([float(end) for end in cell.strip("%").split("-")] for cell in shown.split()[-2:])
    assert shares == pytest.approx([100 * end / 8 for end in speedups], abs=1)
    assert main([*words[:2], *words[4:], "scaling=weak", "gpus=1,8", "--all"]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if re.match(r" +8 .*%", line))
    assert re.search(r"[0-9]{2}%  [0-9]{2} to [0-9]{2,3}%", shown)


@pytest.mark.parametrize(
    "how",
    [
        {"optimizer": "adamw", "accumulate": 2, "channels_last": False, "strategy.bucket_cap_mb": 50},
        {"graph": True},
        {"strategy": "fsdp", "strategy.reshard": False},
    ],
)
def test_the_command_that_closes_a_point_trains_as_is_predicted(how, capsys):
    """Else the run is not taken, or is one of another step."""
    (cold,) = predicted(**UNPUBLISHED, **how)
    said = [f"{name}={str(value).lower()}" for name, value in how.items()]
    assert {*said} <= {*cold.open.replace("50.0", "50").split()}
    assert main([*shlex.split(cold.open)[1:], "--dry-run"]) == 0


def test_images_in_half_precision_over_nodes_are_open_where_transformers_alone_are_published():
    """Of V100s' images 9 of 20 are inside by what transformers lose; transformers are, by what images lose."""
    decoder = {"model": "gptx", "model.width": 768, "batch_size": 8, "rate": 100}
    transformer = {name: value for name, value in UNPUBLISHED.items() if not name.startswith("model")} | decoder
    assert [predicted(**transformer | {"systems": [name]})[0].open for name in ("dgx-h100", "mi250x")] == ["", ""]
    assert predicted(**transformer)[0].open


def test_what_tcp_carries_and_half_precision_does_over_nodes_have_the_ends_of_both():
    (half,), (both,) = predicted(**UNPUBLISHED), predicted(**UNPUBLISHED | {"network": "40gbe"})
    assert both.interval_s[1] > half.interval_s[1]
    assert half.open_ends[:60] in both.open_ends and "one flow" in both.open_ends


# ---- the command that closes a point --------------------------------------------------------------------------------


def points_of(words, capsys):
    capsys.readouterr()
    assert main(["predict", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def measured(point):
    """A rate between the ends of a point."""
    return point["batch_size"] / sum(point["interval_s"]) * 2


def measure(point):
    """Writes what an open point of one process asks for."""
    counts, file = re.search(r"images_per_s: {(.*)} into (.*), which", point["open_ends"]).groups()
    rates = {point["gpus"]: measured(point), 1: 1.2 * measured(point) / point["gpus"]}
    each = ", ".join(f"{gpus}: {rates[int(gpus)]}" for gpus in re.findall(r"(\d+):", counts))
    Path(file).write_text(f"source: mine\nimages_per_s: {{{each}}}\n")


TWO_NODES = ["nodes=2", "network=edr100", "nics=1"]


@pytest.mark.parametrize(
    "words",
    [
        ["dgx1-p100", "framework=tensorflow", "model=resnet50", "batch_size=64", "scaling=weak", "gpus=8"],
        ["dgx1-v100", *TWO_NODES, "framework=mxnet", "model=alexnet", "batch_size=256,512", "precision=fp16",
         "gpus=16"],
        ["v100-ib", "nodes=1", "framework=mxnet", "model=vgg16", "batch_size=64", "rate=32:200,64:220", "gpus=4"],
        ["v100-ib", "framework=tensorflow", "model=vgg16", "batch_size=64", "image_size=192", "gpus=8", "accumulate=2"],
        ["gx8", "launch_mode=one-process", "strategy=after", "model=resnetx", "model.x=2,3", "batch_size=64", "gpus=4"],
        ["dgx1-p100", "what_if.bandwidth=nvlink1:2", "straggler=1.2", "input=dali", "framework=tensorflow,mxnet",
         "model=alexnet", "batch_size=256", "precision=fp16,fp32", "gpus=8", "input.decoder=cpu"],
    ],
)  # fmt: skip
def test_the_command_that_closes_a_point_runs_as_it_is_printed_and_predicts_that_point(
    words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    opened = [point for point in points_of(words, capsys) if point["open"]]
    assert opened
    for point in opened:
        typed = shlex.split(point["open"])
        assert typed[:2] == ["resnetx", "predict"]
        measure(point)
        (closed,) = points_of(typed[2:], capsys)
        what_if = "straggler=1.2" in words  # which is not in what was measured
        assert closed["images_per_s"] == pytest.approx(measured(point), rel=0.2 if what_if else 1e-6)
        assert not closed["open"]
        told = ("workload", "request", "system", "library", "gpus", "batch_size", "precision", "framework", "strategy")
        assert {name: closed[name] for name in told} == {name: point[name] for name in told}
        fast_s, slow_s = point["interval_s"]
        assert fast_s < closed["iteration_s"] < slow_s


def test_it_names_the_trace_and_the_file_of_a_system(tmp_path, capsys):
    mine, traced = tmp_path / "my own.yaml", tmp_path / "a trace.json"
    mine.write_text((CONFIGS / "system" / "dgx1-v100.yaml").read_text())
    layers = [layer("conv", 1e-3, 2e-3, 4_000_000), layer("fc", 1e-3, 2e-3, 40_000_000)]
    record.write(traced, trace(batch(32, layers), device="v100-sxm2-16gb"))
    words = [str(traced), f"systems={mine}", "framework=tensorflow", "gpus=16", *TWO_NODES]
    for more in ([], ["scaling=strong", "batch_size=512"]):
        (opened,) = points_of([*words, *more], capsys)
        (closed,) = points_of(shlex.split(opened["open"])[2:], capsys)
        assert not closed["open"]
        assert (closed["system"], closed["batch_size"], closed["scaling"]) == ("2x my own", 512, opened["scaling"])
        assert closed["gradient_bytes"] == opened["gradient_bytes"] == 44_000_000


def test_rates_of_one_and_of_several_gpus_are_typed_in_one_file(tmp_path, capsys):
    file = tmp_path / "rates.yaml"
    file.write_text("source: mine\nimages_per_s: {1: 228, 8: 1612}\n")
    words = ["dgx1-p100", "framework=tensorflow", "model=resnet50", "batch_size=64", "scaling=weak", "gpus=1,8"]
    both = points_of([*words, f"calibration={file}"], capsys)
    assert [point["images_per_s"] for point in both] == pytest.approx([228, 1612])
    assert main(["predict", *words, f"calibration={file}", "rate=228"]) == 2
    assert "has the rate of one GPU, and so has rate=" in capsys.readouterr().err


def test_several_rates_are_ranked_where_the_first_case_is_open(capsys):
    words = ["dgx-a100", "model=resnet50", "precision=fp16", "gpus=1", "compile=default", "rate=32:1500,256:2470"]
    assert main(["predict", *words, "batch_size=8,32,256"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rates of resnet50 on one GPU of dgx-a100 from 1,500 images/s" in said


def test_what_closes_samples_that_a_host_makes_asks_for_them(tmp_path, capsys, monkeypatch):
    """With samples=alike another question would be answered."""
    monkeypatch.chdir(tmp_path)
    (opened,) = points_of(["gx8", "model=alexnet", "batch_size=256", "samples=by-host", "gpus=8"], capsys)
    assert "images_per_s: {1: ..., 8: ...} into rates.yaml" in opened["open_ends"]
    (tmp_path / "rates.yaml").write_text("images_per_s: {1: 2000, 8: 4200}\n")
    (closed,) = points_of(shlex.split(opened["open"])[2:], capsys)
    assert closed["images_per_s"] == pytest.approx(4200) and closed["speedup"] == pytest.approx(2.1)
    assert "samples=by-host" in opened["open"]


def test_a_bench_closes_what_is_sent_through_the_host_in_the_way_that_was_asked_for(capsys):
    words = ["dgx1-v100", "model=alexnet", "batch_size=256", "gpus=8"]
    (eight,) = points_of([*words, "transport=host"], capsys)
    assert eight["open"] == "resnetx bench collective=allreduce gpus=2,4 size=64MiB transport=host"
    assert main([*shlex.split(eight["open"])[1:], "--dry-run"]) == 0


def test_a_rate_of_one_node_leaves_several_open_between_two_ends_and_refuses_none(tmp_path):
    """The slow end's launches on 16 GPUs are no part of the step on 8 that is known."""
    settings = {"systems": ["dgx1-v100"], "nodes": 2, "network": "edr100", "nics": 1, "framework": "tensorflow"}
    workload = {"model": "resnet50", "batch_size": 256, "rate": {"32": 300, "256": 350}, "gpus": [8, 16]}
    eight, sixteen = predicted(**settings, **workload, calibration=[rates(tmp_path, 8, 2200)])
    assert (eight.outcome, sixteen.outcome) == ("ok", "ok")
    assert eight.images_per_s == pytest.approx(2200) and not eight.open
    assert sixteen.open and sixteen.interval_s[0] < 256 / 4400 * 1.5 < sixteen.interval_s[1]
