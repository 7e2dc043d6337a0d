"""`resnetx predict` as a user meets it."""

import json
import re
import shlex
import subprocess
import sys

import msgspec
import pytest

import resnetx
from resnetx import record, workloads
from resnetx.api.predict_settings import FRAMEWORKS
from resnetx.cli import main, show
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.system import parts_table
from resnetx.prediction import roofline
from resnetx.record import record_file
from resnetx.record.prediction import Prediction, digest
from resnetx.reporting.predicted_answer import predicted_curves
from tests.prediction.made_traces import batch, layer, trace

STABLE = {
    "iteration_s", "images_per_s", "speedup", "exposed_communication_s", "limited_by", "interval_s", "memory_bytes",
    "compute_source",
}  # fmt: skip
ALEXNET = ["model=alexnet", "batch_size=256"]


@pytest.fixture
def predict(predict, tmp_path, monkeypatch):
    """Runs the verb in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return predict


@pytest.fixture
def imported(tmp_path):
    """A trace from a file, on an H200, of two layers at the batches 4 and 8."""
    layers = [layer("a", 1e-3, 2e-3, 4_000_000), layer("b", 1e-3, 2e-3, 8_000_000)]
    unknown = dict.fromkeys(
        ("request", "sm_clock_Hz", "software", "measured_at", "batches.0", "batches.1"), "made up for a test"
    )
    made = trace(batch(4, layers), batch(8, layers), unknown=unknown)
    path = tmp_path / "trace.json"
    record.write(path, made)
    return path


# ---- what it answers


def test_one_object_for_each_point_with_the_stable_fields(predict):
    status, found = predict("systems=[dgx1-p100,gx8]", *ALEXNET, "gpus=[1,8]")
    assert status == 0
    assert [(each["system"], each["gpus"]) for each in found] == [
        ("dgx1-p100", 1), ("dgx1-p100", 8), ("gx8", 1), ("gx8", 8),
    ]  # fmt: skip
    assert all(set(each) >= STABLE for each in found)
    assert all(each["interval_s"][0] < each["iteration_s"] < each["interval_s"][1] for each in found)
    assert {each["compute_source"] for each in found} == {"roofline"}


def test_rates_between_two_ends_are_not_known_and_both_ends_are_said(capsys):
    main(["predict", "gx8", "model=alexnet", "batch_size=256", "gpus=2,4,8", "launch_mode=one-process"])
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Predicted: on gx8, 8 GPUs train AlexNet, batch 256, between 0.8 and 2.8 times as fast as")
    assert " 8 1,900-5,200 0.8-2.8 " in out and "?" not in out
    assert " open" not in out


def test_the_command_that_closes_an_open_case_runs_as_it_is_recorded(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates.yaml").write_text("images_per_s: {1: 330, 8: 900}\n")  # as `open_ends` says
    words = ["predict", "dgx1-v100", "model=resnet50", "framework=mxnet", "gpus=1,8"]
    assert main([*words, "--json"]) == 0
    *_, eight = map(json.loads, capsys.readouterr().out.splitlines())
    assert main(shlex.split(eight["open"])[1:]) == 0
    assert "between" not in capsys.readouterr().out


def test_gpus_that_are_their_own_baseline_have_no_speedup_on_the_screen(capsys):
    """One GPU has no memory for this batch: 1.00 over itself, and an efficiency of 100 %, would say nothing."""
    words = ["predict", "dgx2", "resnet50", "rate=256:1200", "batch_size=2048", "precision=fp16"]
    assert main([*words, "gpus=16"]) == 0
    shown = capsys.readouterr().out
    assert "gpus=1,16 does, or says why it cannot" in shown
    assert "speed-up" not in shown and "100%" not in shown
    assert main([*words, "gpus=1,8,16"]) == 0
    assert "1.00" in capsys.readouterr().out
    assert main([*words, "gpus=1,16"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing fewer" not in shown and "on 1 GPU: needs " in shown, "asked for, and the reason is there"


def test_fewer_are_faster_where_the_speedup_of_the_answer_lies_below_one(predict, capsys):
    _, (_, eight) = predict("systems=dgx-h100", "model=mlpx", "precision=bf16", "gpus=1,8")
    assert eight["speedup_interval"][1] < 1
    assert main(["predict", "dgx-h100", "model=mlpx", "precision=bf16", "gpus=1,8"]) == 0
    assert "One GPU is faster: use 1." in " ".join(capsys.readouterr().out.split())
    slow = ["lab.system=dgx1-p100", "replay=p100-sxm2-16gb", "model=alexnet", "batch_size=256", "strategy=zero1"]
    _, (_, eight) = predict(*slow, "gpus=1,8")
    assert eight["speedup_interval"][0] > 1
    assert main(["predict", *slow, "gpus=1,8"]) == 0
    assert "More than one rank adds little: use 1." in " ".join(capsys.readouterr().out.split())


def test_a_system_that_is_named_twice_is_predicted_once(predict):
    words = ["model=alexnet", "batch_size=256", "gpus=1,2"]
    assert predict("systems=gx8,gx8", *words) == predict("systems=gx8", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "gx8", "network=nonsense", "gpus=1"],
        ["predict", "dgx-h100", "network=ndr400", "nodes=1", "gpus=8"],
        ["predict", "gx8", "nics=3"],
        ["compare", "gx8", "dgx1-p100", "network=ib", "model=alexnet", "gpus=1"],
        ["topology", "dgx-h100", "nics=3", "nodes=1"],
    ],
)
def test_a_network_of_one_node_is_refused(words, capsys):
    assert main(words) == 2
    assert "one node needs no network; set nodes=2 or more" in capsys.readouterr().err


def test_a_network_is_read_where_the_file_of_a_system_has_several_nodes(capsys):
    assert main(["predict", "v100-ib", "network=10gbe", "gpus=16"]) == 0
    assert "on 4x v100-ib" in capsys.readouterr().out


def test_axes_are_lists(predict):
    words = ["strategy=[bucket,after]", "library=[nccl1,nccl2]", "batch_size=[256,512]"]
    _, found = predict("systems=dgx1-p100", "model=alexnet", *words, "gpus=[4]")
    axes = {(each["strategy"], each["library"], each["batch_size"]) for each in found}
    assert len(found) == len(axes) == 8


@pytest.mark.slow
def test_the_paper_has_88_points_on_each_system(predict):
    _, found = predict("systems=[dgx1-p100,gx8]", "study=paper", "library=nccl2")  # the paper names no generation
    assert len(found) == 176
    missing = {(each["workload"], each["batch_size"], each["gpus"]) for each in found if each["outcome"] == "oom"}
    assert missing == {("GoogLeNet", 256, 1), ("GoogLeNet", 512, 1), ("GoogLeNet", 512, 2)} | {
        ("ResNet/32", 64, gpus) for gpus in (1, 2)
    }


@pytest.mark.parametrize("study", ["weak", "paper-alexnet-googlenet"])
def test_the_papers_systems_on_its_workloads_have_its_settings_whatever_the_study(study, predict, capsys):
    _, found = predict("systems=[gx8,dgx1-p100]", f"study={study}", "gpus=[8]")
    assert {(each["strategy"], each["library"]) for each in found} == {("after", "nccl1"), ("after", "nccl2")}
    main(["predict", "gx8,dgx1-p100", f"study={study}", "gpus=8"])
    assert "in the paper: clock=1227 memory_model=caffe strategy=after" in " ".join(capsys.readouterr().out.split())
    _, found = predict("systems=[gx8]", f"study={study}", "gpus=[8]")
    assert {each["strategy"] for each in found} == {"bucket"}


def test_of_many_curves_the_screen_has_those_that_gain_least_and_most(capsys):
    main(["predict", "systems=dgx1-v100,gx8", "study=paper"])
    out = capsys.readouterr().out
    assert out.startswith("Predicted: efficiency on 8 GPUs from 11% (")  # some speed-ups are over 2 GPUs
    rows = [line for line in out.splitlines() if line.startswith(("ResNet/", "AlexNet", "GoogLeNet"))]
    gains = [float(row.split()[-6]) for row in rows]
    assert len(rows) == 12 and gains[:6] == sorted(gains[:6]) and max(gains[:6]) < 2 < min(gains[6:])
    assert "12 of 44, those that gain least and most." in out and "--all (each row" in out


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_runs(predict, name):
    _, (found,) = predict("systems=gx8", *ALEXNET, "gpus=8", f"framework={name}")
    assert found["strategy"] == FRAMEWORKS[name][0].kind


def test_only_caffe_mpi_and_horovod_copy_to_the_device_while_they_compute():
    assert [name for name, (_, overlap) in FRAMEWORKS.items() if overlap.host_to_device] == ["caffe-mpi", "horovod"]
    assert all(overlap.input for _, overlap in FRAMEWORKS.values())


def test_horovod_hides_nothing_of_what_going_parallel_costs(predict):
    """Else it is PyTorch, with a process for each GPU."""
    words = ["systems=dgx1-v100", *ALEXNET, "gpus=8", "rate=256:2500,32:2400"]
    (_, (torch,)), (_, (horovod,)) = predict(*words), predict(*words, "framework=horovod")
    hosts = [{part["name"]: part["share"] * made["iteration_s"] for part in made["parts"]} for made in (torch, horovod)]
    assert hosts[1]["host"] > 1.3 * hosts[0]["host"] > 0
    assert horovod["iteration_s"] > torch["iteration_s"] and not horovod["open"]
    assert hosts[1]["communication"] == pytest.approx(hosts[0]["communication"], rel=0.2)


@pytest.mark.parametrize(
    ("word", "slower"),
    [
        ("straggler=1.5", True),
        ("host_time=0.1s", True),
        ("host_step=0.5s", True),
        ("clock=700", True),
        ("clock=0.7GHz", True),
        ("gradients=bf16", False),
    ],
)
def test_a_setting_changes_the_iteration_in_its_direction(predict, word, slower):
    words = ["systems=gx8", *ALEXNET, "gpus=8", "strategy=after"]
    (_, (before,)), (_, (after,)) = predict(*words), predict(*words, word)
    assert (after["iteration_s"] > before["iteration_s"]) == slower


def test_speedups_over_another_number_of_gpus(predict):
    _, (found,) = predict("systems=gx8", *ALEXNET, "gpus=8", "baseline=2")
    assert found["baseline_gpus"] == 2


def test_typed_in_collectives_are_not_measured_here(predict, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "source: a paper\npoints: [{size: 8, time_us: 50}, {size: 64MiB, time_us: 9000}]\n"
    )
    predict("systems=gx8", *ALEXNET, "gpus=8", "calibration=mine.yaml", "out=kept")
    made = record.read(record_file("prediction", tmp_path / "kept"), Prediction)
    (found,) = [each for each in made.inputs if each.what.startswith("all-reduce")]
    assert (found.origin, found.source) == ("published", "a paper")


def test_a_framework_is_its_strategy_and_overlap(predict):
    _, (caffe,) = predict("systems=gx8", *ALEXNET, "gpus=8", "framework=caffe-mpi")
    _, (cntk,) = predict("systems=gx8", *ALEXNET, "gpus=8", "framework=cntk")
    assert (caffe["strategy"], cntk["strategy"]) == ("layerwise", "after")
    assert caffe["iteration_s"] < cntk["iteration_s"]


def test_frameworks_are_an_axis(predict, tmp_path, capsys):
    words = ["systems=gx8", *ALEXNET, "gpus=[1,8]"]
    _, found = predict(*words, "framework=[caffe-mpi,cntk]", "out=kept")
    alone = [point for name in ("caffe-mpi", "cntk") for point in predict(*words, f"framework={name}")[1]]
    assert found == alone
    assert [each["framework"] for each in found] == ["caffe-mpi", "caffe-mpi", "cntk", "cntk"]
    assert record.read(record_file("prediction", tmp_path / "kept"), Prediction).points[0].framework == "caffe-mpi"
    assert main(["predict", *words, "framework=[caffe-mpi,cntk]"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("AlexNet, ")]
    assert [row.split()[1] for row in rows] == ["caffe-mpi", "caffe-mpi", "cntk", "cntk"]


def test_each_framework_is_predicted_as_it_is_alone(predict):
    words = ["systems=dgx1-p100", *ALEXNET, "gpus=8", "launch_mode=process-per-gpu"]
    _, found = predict(*words, "framework=[mxnet,tensorflow]")
    assert found == [point for name in ("mxnet", "tensorflow") for point in predict(*words, f"framework={name}")[1]]
    assert found[0]["iteration_s"] < found[1]["iteration_s"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["strategy=fsdp", "framework=mxnet"],
            "strategy=fsdp: framework=mxnet has a strategy and an overlap of its own; leave",
        ),
        (
            ["strategy=fsdp", "framework=tensorflow"],
            "framework=tensorflow has a strategy and an overlap of its own, but for strategy=server; leave",
        ),
        (
            ["framework=horovod", "launch_mode=one-process"],
            "launch_mode=one-process: Horovod has a process for each GPU",
        ),
        (
            ["overlap.input=false", "framework=cntk"],
            "overlap.input=false: framework=cntk has a strategy and an overlap",
        ),
        (
            ["strategy.bucket_cap_mb=10", "framework=mxnet"],
            "strategy.bucket_cap_mb=10: framework=mxnet has a strategy and an overlap of its own",
        ),
        (["input=torchvision", "input.stage=/local"], "input.stage=/local: is of a run, and changes nothing"),
        (["input=dali", "input.prefetch=4"], "input.prefetch=4: is of a run"),
        (["optimizer.learning_rate=0.1"], "optimizer.learning_rate=0.1: is of a run"),
        (["strategy=none", "gradients=fp16"], "gradients=fp16: is of collectives, and strategy=none has none"),
        (["replay=p100-sxm2-16gb", "host_time=5ms"], "host_time=5ms: no device waits where replay= stands for it"),
        (["strategy=none", "library=nccl1"], "library=nccl1: is of collectives, and strategy=none has none"),
        (["strategy=none", "transport=pcie"], "transport=pcie: is of collectives, and strategy=none has none"),
        (["strategy=none", "what_if.bandwidth=pcie3:2"], "pcie3:2: nothing is sent with strategy=none, nor read with"),
        (["strategy=server", "library=nccl1"], "library=nccl1: is of collectives, and strategy=server has none"),
        (["overlap.input=false"], "overlap.input=false: no images are read with input=synthetic"),
        (["overlap.host_to_device=false"], "overlap.host_to_device=false: no images are read with input=synthetic"),
        (["strategy=none,server", "launch_mode=one-process"], "strategy=none and strategy=server has none"),
    ],
)
def test_what_would_change_nothing_is_refused(capsys, words, sentence):
    assert main(["predict", "systems=dgx1-p100", *ALEXNET, *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_what_changes_something_beside_another_strategy_is_taken(predict):
    words = ["systems=dgx1-p100", *ALEXNET, "gpus=8"]
    _, (nccl, gloo) = predict(*words, "strategy=server", "library=nccl2,gloo")
    assert gloo["communication_s"] > 2 * nccl["communication_s"]
    alone = [*words, "strategy=none", "input=dali"]
    _, (slow,) = predict(*alone, "what_if.bandwidth=ssd-raid4:0.5")
    _, (fast,) = predict(*alone, "what_if.bandwidth=ssd-raid4:2")
    assert slow["input_s"] == pytest.approx(4 * fast["input_s"])


def test_gpus_on_several_nodes_are_of_several_however_few_they_are(predict):
    words = ["systems=v100-ib", "model=resnet50", "batch_size=256", "precision=fp16"]
    _, (spread,) = predict(*words, "gpus=4", "devices=0,4,8,12")
    _, (together,) = predict(*words, "gpus=4", "devices=0,1,2,3")
    assert spread["iteration_s"] > 1.05 * together["iteration_s"]


@pytest.mark.parametrize("words", [["predict", "systems=gx8"], ["compare", "systems=gx8,dgx1-p100"]])
def test_programs_are_told_apart_by_what_changes_a_prediction(words, capsys):
    """Not by how fast each optimizer learns unless that is set."""
    assert main([*words, *ALEXNET, "gpus=8", "optimizer=sgd,adamw"]) == 0
    out = capsys.readouterr().out
    assert "optimizer=adamw" in out and "learning_rate" not in out and "weight_decay" not in out


def test_gpus_of_the_first_node_are_predicted_alike_however_many_nodes_there_are(predict):
    words = ["systems=dgx1-p100", *ALEXNET]
    _, (alone,) = predict(*words, "gpus=8")
    _, (joined, _) = predict(*words, "gpus=8,16", "nodes=2", "network=edr100")
    assert joined["iteration_s"] == pytest.approx(alone["iteration_s"])
    assert joined["interval_s"] == pytest.approx(alone["interval_s"])


@pytest.mark.parametrize(
    ("verb", "system", "words", "refused"),
    [
        (["predict", *ALEXNET], "dgx1-p100", "nodes=2 network=edr100 gpus=8", "nodes=2: 8 GPUs fit on one node of 2x"),
        (["predict", *ALEXNET], "a100-ib", "nics=1 gpus=1,4", "nics=1: 4 GPUs fit on one node of 2x a100-ib"),
        (["predict", *ALEXNET], "a100-ib", "network=10gbe gpus=2", "network=10gbe: 2 GPUs fit on one node"),
        (["topology", "collective=allreduce"], "dgx2", "nodes=2 network=edr100 gpus=2..16", "nodes=2: 16 GPUs fit on"),
    ],
)
def test_several_nodes_none_of_whose_gpus_meet_are_refused(verb, system, words, refused, capsys):
    """`nodes=2 gpus=8` was one node, and its `network=` changed nothing."""
    assert main([*verb, f"systems={system}", *words.split()]) == 2
    assert refused in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["nodes=2"], [1, 2, 4, 8, 16]),
        (["nodes=5", "scaling=weak"], [1, 2, 4, 8, 16, 32, 40]),
        (["nodes=5"], [1, 2, 4, 8, 16, 32]),  # 256 do not divide over 40
        (["nodes=64"], [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        (["nodes=2", "gpus=4,16"], [4, 16]),
        (["nodes=2", "devices=0,8"], [2]),
        (["nodes=2", "devices=8,9"], [2]),
    ],
)
def test_nodes_that_are_asked_for_are_predicted_where_nobody_says_how_many_gpus(predict, words, counts):
    _, found = predict("systems=dgx1-p100", *ALEXNET, "network=edr100", *words)
    assert [point["gpus"] for point in found] == counts


def test_a_system_that_cannot_be_joined_leaves_others_as_they_are(predict):
    _, found = predict("systems=dgx1-p100,gx8", *ALEXNET, "nodes=1,2", "network=edr100", "gpus=16")
    assert [(point["system"], point["outcome"]) for point in found] == [
        ("dgx1-p100", "refused"),
        ("gx8", "refused"),
        ("2x dgx1-p100", "ok"),
    ]


def test_a_price_of_a_node_counts_for_each_of_several(predict, capsys):
    words = ["systems=v100-ib", "model=resnet50", "batch_size=256", "gpus=16"]
    assert main(["predict", *words, "price=v100-ib:10"]) == 0
    assert "(40 an hour)" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", *words[:-1], "gpus=8", "price=v100-ib:10"]) == 0  # which are on two of its four nodes
    assert "(20 an hour)" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", *words[:-1], "gpus=8", "price={4x v100-ib: 33}"]) == 0  # of all of it
    assert "(33 an hour)" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", *words, "price=gx8:10"]) == 2
    assert "give price=v100-ib:PRICE for an hour of each node" in " ".join(capsys.readouterr().err.split())


def test_a_framework_that_is_not_asked_for_is_in_no_point_and_in_no_digest(predict, tmp_path):
    predict("systems=gx8", *ALEXNET, "gpus=1", "out=kept")
    file = record_file("prediction", tmp_path / "kept")
    made = record.read(file, Prediction)
    assert made.points[0].framework == ""
    tree = json.loads(file.read_text())
    del tree["points"][0]["framework"]
    older = msgspec.convert(tree, Prediction)
    assert digest(older) == digest(made)


def test_tensorflow_keeps_a_parameter_server_and_fetches_while_the_next_forward_pass_runs(predict):
    words = ["systems=gx8", *ALEXNET, "gpus=8", "strategy=server", "host_step=1us"]  # its loop waits for the host, too
    _, (waiting,) = predict(*words)
    _, (fetching,) = predict(*words, "framework=tensorflow")
    _, (alike,) = predict(*words, "overlap.parameters=true")
    assert waiting["strategy"] == fetching["strategy"] == "server"
    assert fetching["iteration_s"] == pytest.approx(alike["iteration_s"], rel=1e-4)
    assert fetching["iteration_s"] < 0.999 * waiting["iteration_s"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["strategy=server", "framework=mxnet"], "this framework is not known to have trained with a parameter server"),
        (["strategy=server", "framework=[tensorflow,mxnet]"], "this framework is not known to have trained with"),
        (["overlap.parameters=true"], "only a parameter server sends parameters"),
        (["strategy=server", "transport=peer"], "transport=peer with strategy.device=cpu"),
    ],
)
def test_a_parameter_server_refuses_what_it_cannot_do(words, sentence, capsys):
    assert main(["predict", "systems=gx8", *ALEXNET, "gpus=8", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_what_if_a_link_were_faster(predict):
    words = ["systems=gx8", *ALEXNET, "gpus=8"]
    _, (before,) = predict(*words)
    _, (after,) = predict(*words, "what_if.bandwidth={pcie3:4,xeon-e5-2697v4:4}")
    assert after["iteration_s"] < before["iteration_s"]


def test_a_kind_of_link_of_one_of_several_systems_is_changed_there(predict):
    words = ["systems=[gx8,dgx1-p100]", *ALEXNET, "gpus=8", "input=dali"]
    _, before = predict(*words)
    _, after = predict(*words, "what_if.bandwidth={ssd-sata:4}")
    assert after[0]["input_s"] < before[0]["input_s"]
    assert after[1] == before[1]


def test_what_limits_a_link_that_is_worth_nothing_is_named(predict, tmp_path, capsys):
    words = ["systems=gx8", *ALEXNET, "gpus=8", "strategy=after", "library=nccl1", "sensitivity=true"]
    _, (found,) = predict(*words)
    worth = {each["what"]: each for each in found["sensitivity"]}
    assert worth["bandwidth of pcie3 x 2"]["gain"] == pytest.approx(0, abs=1e-9)
    assert worth["bandwidth of pcie3 x 2"]["limited_by"] == "communication: cpu0 to riser0, through cpu0"
    assert worth["bandwidth of xeon-e5-2697v4 x 2"]["gain"] > 0.05
    assert main(["predict", *words, "--all", f"out={tmp_path / 'kept'}"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(row.endswith("bandwidth of pcie3 x 2 +0.0% communication: cpu0 to riser0, through cpu0") for row in rows)


def test_several_nodes(predict):
    _, found = predict("systems=dgx-h100", "nodes=2", "network=ndr400", *ALEXNET, "gpus=[8,16]")
    assert [each["devices"][-1] for each in found] == [7, 15]
    assert all(each["outcome"] == "ok" for each in found)


def test_all_gpus_of_the_most_nodes(predict):
    """A prediction's nodes are its system's, however many GPUs there are."""
    words = ["systems=dgx-h100", "nodes=16384", "network=ndr400", "model=alexnet", "batch_size=8388608"]
    _, (found,) = predict(*words, "gpus=131072")
    assert found["outcome"] == "ok"
    assert found["request"]["nodes"] == 1


def test_feeding_real_images_takes_what_storage_and_bus_give(predict):
    words = ["systems=dgx1-p100", *ALEXNET, "gpus=8"]
    _, (synthetic,) = predict(*words)
    _, (real,) = predict(*words, "input=dali")
    assert synthetic["input_s"] == 0
    # 32 images of 110 kB for each GPU, of an eighth of 2 GB/s; they are copied in less.
    assert real["input_s"] == pytest.approx(32 * 110_000 / (2e9 / 8))


# ---- from a trace


def test_an_imported_trace_predicts_its_own_gpu(predict, imported):
    status, found = predict(str(imported), "systems=dgx-h200", "gpus=[1,2]", "strategy=after")
    assert status == 0
    assert [each["batch_size"] for each in found] == [8, 16]
    assert {each["compute_source"] for each in found} == {"measured"}
    assert found[0]["iteration_s"] == pytest.approx(6e-3, rel=0.01)


def test_weak_scaling_that_nobody_asked_for_is_said_on_the_screen_and_in_the_record(imported, tmp_path, capsys):
    words = ["predict", str(imported), "systems=dgx-h200", "gpus=[1,2]", "strategy=after"]
    for asked, assumed in (([], ["scaling of Tiny"]), (["scaling=weak"], [])):
        assert main([*words, *asked, f"out={tmp_path / 'kept'}"]) == 0
        out = capsys.readouterr().out
        assert "weak scaling" in out
        assert ("scaling=strong splits it over the GPUs" in out) == bool(assumed)
        made = record.read(record_file("prediction", tmp_path / "kept"), Prediction)
        assert [each.what for each in made.inputs if each.what.startswith("scaling of")] == assumed
        assert {point.scaling for point in made.points} == {"weak"}


def test_strong_scaling_of_an_import_splits_its_batch_or_refuses(predict, imported):
    _, (four, eight) = predict(str(imported), "systems=dgx-h200", "gpus=[2,4]", "strategy=after", "scaling=strong")
    assert (four["batch_size"], four["outcome"], four["scaling"]) == (8, "ok", "strong")
    assert (eight["outcome"], "2 is outside of them" in eight["reason"]) == ("refused", True)


def test_what_a_trace_alone_is_known_of_has_samples(imported, tmp_path, capsys):
    assert main(["predict", str(imported), "systems=dgx-h200", "gpus=1", f"out={tmp_path / 'a'}"]) == 0
    out = capsys.readouterr().out
    assert "samples/s" in out
    assert "images/s" not in out
    assert main(["predict", "systems=dgx-h200", *ALEXNET, "gpus=1", f"out={tmp_path / 'b'}"]) == 0
    assert "images/s" in capsys.readouterr().out


def test_a_point_that_the_trace_does_not_reach_is_refused_beside_others(predict, imported):
    words = [str(imported), "systems=[dgx-h200,k80-10gbe]", "gpus=1", "strategy=after"]
    status, (own, other) = predict(*words)
    assert (status, own["outcome"], other["outcome"]) == (0, "ok", "refused")
    assert "compares with other GPUs kernel by kernel" in other["reason"]


def test_an_import_is_taken_to_another_gpu_between_two_ends_and_says_so(imported, capsys):
    assert main(["predict", str(imported), "systems=dgx1-p100", "gpus=1", "strategy=after", "--all"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "nothing tells its kernels apart" in out and "rescaled from another GPU's trace" in out


def test_a_trace_is_predicted_with_the_default_strategy_although_its_one_rank_had_none(predict, tmp_path):
    request = request_from(compose({"model": "alexnet", "batch_size": 32, "strategy": "none", "input": "synthetic"}))
    table = workloads.table(request.model, request.image_size)
    times = roofline.modelled_step(
        roofline.fitted(), table, 227, 32, parts_table("gpus")["h200-sxm5-141gb"], "fp32"
    ).layers
    layers = [layer(each.name, each.forward_s, each.backward_s, each.gradient_bytes) for each in times]
    unknown = dict.fromkeys(("sm_clock_Hz", "software", "measured_at", "batches.0"), "made up for a test")
    record.write(tmp_path / "trace.json", trace(batch(32, layers), request=request, how="measured", unknown=unknown))
    _, (found,) = predict("trace.json", "systems=dgx-h200", "batch_size=64", "gpus=2")
    assert (found["strategy"], found["compute_source"]) == ("bucket", "measured")
    assert found["communication_s"] > 0


def test_each_batch_of_an_import_is_over_its_own_baseline(predict, imported):
    _, found = predict(str(imported), "systems=dgx-h200", "batch_size=[4,8]", "gpus=[1,2]", "strategy=after")
    assert [each["speedup"] for each in found if each["gpus"] == 1] == [1.0, 1.0]
    assert all(each["efficiency"] <= 1 for each in found)


# ---- what it leaves


def test_the_record_is_dated_has_a_digest_and_names_its_inputs(predict, tmp_path):
    predict("systems=dgx1-p100", *ALEXNET, "gpus=[1,2]", "input=dali", "straggler=1.1", "out=kept")
    made = record.read(record_file("prediction", tmp_path / "kept"), Prediction)
    assert made.digest == digest(made)
    changed = msgspec.structs.replace(made, made_at="2017-01-01T00:00:00+00:00")
    assert digest(changed) != made.digest
    assert [each.what for each in made.inputs] == [
        "compute of AlexNet on dgx1-p100",
        "launching a step of AlexNet",
        "decoding on dgx1-p100",
        "bytes of an image",
        "storage of dgx1-p100",
        "copies from the host of dgx1-p100",
        "all-reduce on 2 GPUs of dgx1-p100 with nccl2",
        "scaling by all-reduce, one node, synthetic or DALI",
        "memory",
        "straggler",
    ]
    assert all(each.source and (each.error or each.origin == "assumed") for each in made.inputs)
    assert made.settings["words"].startswith("systems=dgx1-p100")


def test_a_results_folder_that_is_given_gets_the_record(predict, tmp_path):
    predict("systems=dgx1-p100", *ALEXNET, "gpus=[1,2]")
    assert not list(tmp_path.iterdir())
    predict("systems=dgx1-p100", *ALEXNET, "gpus=[1,2]", "results=kept")
    (made,) = (tmp_path / "kept").glob("*/predict/*/prediction.json")
    assert len(record.read(made, Prediction).points) == 2


@pytest.mark.slow
def test_a_timeline_opens_in_perfetto_and_is_drawn(predict, tmp_path):
    _, (point,) = predict("systems=gx8", *ALEXNET, "gpus=8", "timeline=true", "out=kept")
    assert {bar["lane"] for bar in point["timeline"]} == {"compute", "collectives", "host"}
    events = json.loads((tmp_path / "kept" / "timeline.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(point["timeline"])
    assert list((tmp_path / "kept").glob("timeline-*.svg"))


def test_for_people_it_says_where_its_figures_are_from(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "systems=gx8", *ALEXNET, "gpus=[1,8]"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "Predicted: on gx8, 8 GPUs train AlexNet, batch 256, 2.1 times (1.5 to 2.7) as fast as one GPU, at 4,300 "
    )
    assert len(out.splitlines()) <= 15
    assert "compute fitted" in out and "leave-one-out error" not in out
    assert main(["predict", "systems=gx8", *ALEXNET, "gpus=[1,8]", "--all"]) == 0
    out = capsys.readouterr().out
    assert "published 33% compute of AlexNet on gx8" in " ".join(out.split())
    assert "leave-one-out error" in out


def test_predictions_of_one_gpu_have_no_speedups_and_the_slowest_and_fastest_rows(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["predict", "dgx-h100", "study=one-gpu", "gpus=1"]) == 0
    out = capsys.readouterr().out
    assert "speed-up" not in out and "efficiency" not in out and "of 28, the slowest and the fastest." in out
    assert main(["predict", "dgx-h100", *ALEXNET, "gpus=1,2"]) == 0
    assert "speed-up" in capsys.readouterr().out


def test_a_shortened_table_has_the_number_of_gpus_that_the_answer_says_to_use(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["model=resnet50", "batch_size=256", "precision=fp16", "rate=32:1500", "accumulate=2"]
    assert main(["predict", "dgx-a100", *words]) == 0
    answer, table = capsys.readouterr().out.split("\n\n")
    assert answer.endswith("use 4.")
    gap, *rows = [line.split() for line in table.splitlines()[1:4]]
    assert gap == ["...", "2", "more"]
    assert [row[0] for row in rows] == ["4", "8"]


def test_it_says_how_many_gpus_are_enough_and_where_the_time_of_each_goes(capsys):
    assert main(["predict", "systems=gx8", *ALEXNET]) == 0
    out = capsys.readouterr().out
    assert "4 GPUs do as much: use 4." in out.splitlines()[0]
    (where,) = [line for line in out.splitlines() if line.startswith("time on 8: ")]
    shares = [int(part.split()[0].rstrip("%")) for part in where.removeprefix("time on 8: ").split(" | ")]
    assert sum(shares) == 100 and shares[1:-1] == sorted(shares[1:-1], reverse=True)
    assert "exposed communication (cpu0 to riser0)" in where


def test_a_prediction_is_kept_where_out_says_and_nowhere_else(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["predict", "systems=gx8", *ALEXNET, "gpus=8"]
    assert main(words) == 0
    assert "out=FOLDER" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert capsys.readouterr().err == ""
    assert not list(tmp_path.iterdir())
    assert main([*words, "out=kept"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert record.read(record_file("prediction", tmp_path / "kept"), Prediction).points


def test_a_number_of_gpus_that_a_system_lacks_is_named_once(capsys):
    assert main(["predict", "v100-ib", "nodes=1,2", "model=resnet50", "batch_size=128", "gpus=1,2,4,8"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "not predicted: on 8 GPUs: v100-ib has 4 GPUs;" in out


def test_numbers_of_gpus_that_nobody_asked_for_are_those_that_a_system_has(capsys):
    assert main(["predict", "v100-ib,gx8", "model=resnet50", "batch_size=128", "nodes=1", "--json"]) == 0
    points = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(point["system"], point["gpus"]) for point in points] == [
        *(("v100-ib", gpus) for gpus in (1, 2, 4)),
        *(("gx8", gpus) for gpus in (1, 2, 4, 8)),
    ]


def test_numbers_of_gpus_that_nobody_asked_for_go_on_to_all_of_a_node(capsys):
    words = ["predict", "summit", "model=resnet50", "precision=fp16", "--json"]
    assert main([*words, "batch_size=192"]) == 0
    assert [json.loads(line)["gpus"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 4, 6]
    assert main([*words, "batch_size=256"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["gpus"] for line in said.out.splitlines()] == [1, 2, 4]
    assert "Left out: 6 GPUs, all of summit, over which batch_size=256 does not divide" in said.err
    assert main([*words, "batch_size=96", "accumulate=3"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["gpus"] for line in said.out.splitlines()] == [1, 2, 4]
    assert "over which batch_size=96 does not divide in accumulate=3 parts each; give another." in " ".join(
        said.err.split()
    )
    for split in ("even", "uneven"):  # 64 images leave some of 72 GPUs without one
        assert main(["predict", "gb200-nvl72", *words[2:], "batch_size=64", f"split={split}"]) == 0
        said = capsys.readouterr()
        assert [json.loads(line)["gpus"] for line in said.out.splitlines()] == [1, 2, 4, 8]
        assert "batch_size=64 does not divide; give another." in " ".join(said.err.split())
    for parts in ("0", "x"):
        assert main([*words, "batch_size=96", f"accumulate={parts}"]) == 2
        assert capsys.readouterr().err.startswith(f"resnetx: accumulate={parts}: ")


def test_images_as_nchw_are_predicted_to_be_slower_in_half_precision_alone(capsys):
    words = ["predict", "dgx1-v100", "model=resnet50", "gpus=1", "channels_last=true,false", "--json"]
    rates = {}
    for precision in ("fp16", "fp32"):
        assert main([*words, f"precision={precision}"]) == 0
        rates[precision] = [json.loads(line)["images_per_s"] for line in capsys.readouterr().out.splitlines()]
    last, first = rates["fp16"]
    assert last > 1.2 * first
    assert rates["fp32"][0] == rates["fp32"][1]


def test_many_curves_of_one_system_fit_and_those_that_the_answer_names_have_rows(capsys, monkeypatch):
    monkeypatch.setattr(show, "width_of", lambda stream: 80)
    words = "dgx2 model=resnet50,alexnet,googlenet,vgg16 batch_size=64,256,1024 library=nccl2,nccl1"
    assert main(["predict", *words.split()]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 17
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert any(row.startswith("AlexNet 64 nccl1 ") for row in rows)
    assert any(row.startswith("vgg16 1024 nccl2 ") for row in rows)
    assert "sure: 9 of 10 runs should lie inside" in out


def test_many_points_are_one_row_for_each_curve_and_all_of_them_with_all(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["predict", "systems=gx8", "model.x=[1,2,4]", "batch_size=[16,32,64]", "gpus=[1,2,4,8]"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 15
    assert out.startswith("Predicted: speed-ups on 8 GPUs of gx8 from 1.2 times")
    assert main([*words, "--all"]) == 0
    assert sum(line.startswith("ResNet/") for line in capsys.readouterr().out.splitlines()) == 9 + 36


def test_collectives_of_an_unknown_number_of_gpus_are_not_those_of_several(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = "[{size: 8, time_us: 50}, {size: 1MiB, time_us: 900}]"
    (tmp_path / "mine.yaml").write_text(f"source: a paper\npoints: {points}\n")
    assert main(["predict", "systems=gx8", *ALEXNET, "gpus=[1,2,4]", "calibration=mine.yaml"]) == 2
    assert "does not state its number of GPUs" in capsys.readouterr().err


@pytest.mark.slow
def test_validation_holds(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["predict", "--validate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"Given the rate of one GPU, [\d,]+ published rates of several are predicted \d\.\d%", lines[0])
    assert len(lines) <= 30
    assert sum(line.startswith("several GPUs of one node ") for line in lines) == 1
    assert main(["predict", "--validate", "--all"]) == 0
    shown = capsys.readouterr().out.splitlines()
    blocks = [at for at, line in enumerate(shown) if line.startswith("asked ")]
    assert len(blocks) > 1  # in 80 columns, each with the names of the groups
    assert {shown[at + 1] for at in blocks if "one GPU, from its rate at" not in shown[at + 1]} == set()


# ---- mistakes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "systems: none is given; expected names or files of systems"),
        (["systems=gx9"], "did you mean gx8?"),
        (
            ["8x3090", "model=alexnet"],
            "8x3090: a GPU, and no system; `resnetx topology new like=pcie-gen5 gpu=rtx-3090 ",
        ),
        (["0xrtx4090"], "0xrtx4090: no such file, and no name that is known"),
        (["4xRTX4090"], "4xRTX4090: a GPU, and no system; `resnetx topology new like=pcie-gen5 gpu=rtx-4090 gpus=4 "),
        (["systems=gx8", "gpus=3", "batch_size=16"], "batch_size=16 does not divide over gpus=3"),
        (["systems=gx8", "gpus=0"], "gpus=0: expected at least 1"),
        (["systems=gx8", "gpus=16", "batch_size=16"], "gpus=16: gx8 has 8 GPUs, and no network card is described"),
        (["systems=gx8", "repeats=3"], "repeats: not a setting of `resnetx predict` (it belongs to sweep)"),
        (["systems=gx8", "baseline=0"], "baseline=0: expected at least 1"),
        (["systems=gx8", "library=[]"], "library=[]: expected generations"),
        (["systems=gx8", "devices=[0,0]", "gpus=2"], "devices=[0, 0]: expected different GPU ids, 0 or more"),
        (["systems=gx8", "devices=[0,1]", "gpus=4"], "devices=[0, 1]: expected 4 GPU ids"),
        (["systems=gx8", "library=nccl9"], "library=nccl9: no library generation has that name"),
        (["systems=gx8", "framework=keras"], "framework=keras: no framework has that name. Known: caffe-mpi"),
        (
            ["systems=gx8", "framework=torch"],
            "framework=torch: PyTorch is predicted without it; leave it out",
        ),
        (["systems=gx8", "strategy=dp"], "strategy=dp: no such strategy (torch.nn.DataParallel is predicted with l"),
        (["systems=gx8", "strategy=horovod"], "strategy=horovod: no such strategy (Horovod is predicted with framewo"),
        (["systems=gx8", "framework=[]"], "framework=[]: expected one of caffe-mpi"),
        (["systems=gx8", "straggler=0.5"], "straggler=0.5: expected at least 1"),
        (["systems=gx8", "clock=0"], "clock=0: expected more than 0"),
        (["systems=gx8", "clock=0MHz"], "clock=0: expected more than 0"),
        (["systems=gx8", "clock=fast"], "clock=fast: expected MHz, e.g. 1227 or 1227MHz"),
        (["systems=gx8", "clock=find"], "clock=find: a prediction needs the value of a clock"),
        (["systems=gx8", "straggler=.inf"], "straggler=.inf: expected a number"),
        (["systems=gx8", "what_if.latency=0"], "what_if.latency=0: expected more than 0"),
        (["systems=gx8", "what_if.bandwidth={nvlink1:2}"], "no kind of link of gx8 has that name"),
        (["systems=gx8", "memory=lots"], "memory=lots: expected a size, e.g. 16GB"),
        (["systems=gx8", "host_time=-1"], "host_time=-1: expected at least 0"),
        (["systems=gx8", "host_time=soon"], "host_time=soon: expected a duration, e.g. 0.03s"),
        (["systems=gx8", "host_step=20 parsecs"], "host_step=20 parsecs: expected a duration, e.g. 0.03s"),
        (["systems=gx8", "host_step=1000s"], "host_step=1000: expected at most 10"),
        (["systems=gx8", "staged=shared"], "those of gx8 do not go through it with NCCL; add transport=host"),
        (
            ["systems=gx8", "staged=shared", "transport=host", "strategy=server"],
            "strategy=server has none; leave it out",
        ),
        (["systems=gx8", "launch_mode=one-process", "strategy=server"], "strategy=server has none; leave it out"),
        (["systems=gx8", "launch_mode=one-process", "library=gloo"], "library=gloo has a process for each rank"),
        (
            ["systems=gx8", "staged=shared", "transport=host", "gpus=8", "what_if.latency=0.5"],
            "what_if: changes described links",
        ),
        (["systems=gx8", "host_step=2ms", "graph=true"], "graph=true launches a step as one, in no time"),
        (["systems=cpu-host", "rate=80", "gpus=1", "host_step=2ms"], "ranks on CPUs have no GPU to launch work on"),
        (
            ["systems=gx8", "memory=1GB", "gpus=1,2", "batch_size=256"],
            "batch_size=256: ResNet/8 on 2 GPUs of gx8 needs ",
        ),
        (["systems=gx8", "precision=bf16"], "precision=bf16: no peak rate is stated"),
        (["systems=cpu-host"], "cpu-host needs a trace of that host"),
        (["systems=[gx8,dgx2]", "calibration=some"], "valid for one system and one library; give one of each"),
        (["systems=gx8", "calibration=missing"], "calibration=missing: no such file; expected "),
        (["systems=gx8", "nowhere"], "nowhere: no such file, and no name that is known"),
        (["systems=gx8", "model=lenet"], "model=lenet: no such model"),
        (["gx8", "model=yolov5"], "(`resnetx list`); one of your own: model=python model.file=ours.py"),
        (
            ["gx8", "model=my/net.py"],
            "model=my/net.py: no such model; one of your own: model=python model.file=my/net.",
        ),
        (["--validate", "systems=gx8"], "systems=gx8: --validate takes no settings"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_trace_has_its_workload_already(predict, imported, capsys):
    assert main(["predict", str(imported), "systems=dgx-h200", "model=alexnet"]) == 2
    told = capsys.readouterr().err
    assert told.rstrip().endswith("a trace only leaves batch_size, gpus, scaling, split, strategy open")  # all it takes


def test_an_imported_trace_knows_of_no_host_that_a_graph_could_save(imported, capsys):
    assert main(["predict", str(imported), "systems=dgx-h200", "graph=true"]) == 2
    assert "without the time of its host" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_points_that_differ_in_precision_or_graph_alone_have_rows_of_their_own(more, capsys):
    words = ["systems=dgx-h200", "model=alexnet", "batch_size=[64,128,256]", "precision=[fp32,bf16]", *more]
    assert main(["predict", *words, "graph=[false,true]"]) == 0
    said = capsys.readouterr().out
    graphs = ("graph=true", "graph=false")
    kinds = [f"AlexNet, {precision}, {graph}" for precision in ("fp32", "bf16") for graph in graphs]
    batches, counts = 3, 4
    rows = {kind: sum(line.startswith(f"{kind} ") for line in said.splitlines()) for kind in kinds}
    if more:  # speed-ups in as many blocks as 80 columns ask for, and where the time goes
        assert min(rows.values()) >= batches + counts * batches, rows
    else:
        assert sum(rows.values()) >= 4, rows


def test_curves_that_differ_in_any_setting_have_rows_of_their_own():
    made = resnetx.predict(systems=["gx8"], model="alexnet", image_size=[224, 227], input=["synthetic", "dali"])
    curves = predicted_curves(made.points)
    assert len(curves) == 4 and len({curve.workload for curve in curves}) == 4


VARIANTS = [
    "gx8 model=alexnet batch_size=256 price=8 deadline=24h",
    "dgx1-p100 model=googlenet price=16 deadline=3d",
    "dgx1-p100 model=vgg16 batch_size=512 precision=fp16 price=3 deadline=900h",
    "gx8 model=alexnet input=dali batch_size=256",
    "gx8 study=paper",
    "gb200-nvl72 model=resnet50 gpus=1,2,4,8,16,32,72 batch_size=1152",
    "dgx1-v100 model=alexnet batch_size=max",
    "dgx1-v100 model=resnet50 framework=mxnet gpus=1,8",
    "gce-k80x8 model=alexnet",
    "v100-ib model=resnet50 precision=fp16 nodes=2",
    "dgx-a100 gptx precision=bf16 batch_size=64 strategy=bucket,zero1,fsdp",
]


@pytest.mark.parametrize("words", VARIANTS)
def test_one_system_takes_fifteen_lines_of_eighty_columns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["predict", *words.split()]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 15


def test_without_nvlink_messages_go_over_pcie(predict):
    words = ["systems=dgx1-v100", *ALEXNET, "gpus=[8]", "library=nccl2"]
    times = []
    for way in (["transport=auto"], ["transport=pcie"], ["transport=host", "staged=shared"]):
        status, (answer,) = predict(*words, *way)
        assert status == 0
        times.append(answer["iteration_s"])
    assert times[0] < times[1] < times[2]


# ---- the house


@pytest.mark.slow
def test_the_paper_is_predicted_without_torch(tmp_path):
    program = (
        "import sys; from resnetx.cli import main;"
        "assert main(['predict', '--json', 'systems=[dgx1-p100,gx8]', 'study=paper']) == 0;"
        "assert not {'torch', 'torchvision', 'scipy', 'altair'} & set(sys.modules), sorted(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 352
    assert not list(tmp_path.iterdir())


def test_rows_of_systems_are_in_the_order_of_the_answer(capsys):
    words = ["model=alexnet", "batch_size=256", "gpus=8"]
    assert main(["predict", "gx8,dgx-h200,dgx1-p100", *words]) == 0
    out = capsys.readouterr().out
    ranked = ["dgx-h200", "dgx1-p100", "gx8"]
    assert out.startswith("Predicted, on 8 GPUs: dgx-h200 trains AlexNet, batch 256, ")
    (table,) = out.split("\n\n")[1:]
    assert [line.split()[0] for line in table.splitlines()[1:4]] == ranked
    assert "GPUs 8" not in out.partition("\n")[2], "the answer says it"


def test_of_five_systems_the_answer_has_the_fastest_the_next_and_the_last(capsys):
    systems = "gx8,dgx1-p100,dgx1-v100,dgx-a100,dgx-h100"
    main(["predict", systems, "model=alexnet", "batch_size=256", "gpus=8", "-q"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Predicted, on 8 GPUs: dgx-h100 trains AlexNet, batch 256, ")
    assert said.endswith(" as fast as gx8, the slowest of 5.")


def test_rates_that_differ_much_are_not_called_about_as_fast_where_no_difference_is_shown(capsys):
    main(["predict", "a100-ib", "nodes=2,4", "model=vgg16", "batch_size=128", "-q"])
    said = " ".join(capsys.readouterr().out.split())
    times = r"1\.[2-9]\d* times \((?:0\.\d+|1\.0) to \d\.\d+: no difference is shown\) as fast as 2x a100-ib\.$"
    assert re.search(f"4x a100-ib trains vgg16, batch 128, {times}", said)


def test_strategies_are_ranked_on_the_system_that_trains_by_them(capsys):
    main(["predict", "gx8", "model=alexnet", "batch_size=256", "gpus=8", "strategy=after,layerwise", "-q"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Predicted, on 8 GPUs of gx8: strategy=layerwise trains AlexNet, batch 256, ")
    assert "as fast as strategy=after" in said and "no difference is shown" in said


def test_of_several_curves_a_line_says_what_most_is_lost_to_and_all_has_each_part(capsys):
    words = ["predict", "gx8,dgx1-p100", "model=alexnet", "batch_size=256", "gpus=8"]
    main(words)
    out = capsys.readouterr().out
    assert "most lost to: communication (gx8 64%), smaller batches (dgx1-p100 21%)" in out
    assert len(out.splitlines()) <= 15 and out.count("gx8") > 2
    main([*words, "--all"])
    assert any(
        line.split()[:3] == ["system", "useful", "communication"] for line in capsys.readouterr().out.split("\n")
    )
    main(["predict", "gx8", "model=alexnet,googlenet", "batch_size=32,64,256"])
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"most lost to: communication \(\d cases, \d+ to \d+%\), smaller batches \(\d, ", out)


def test_a_workload_without_a_speed_up_among_others_is_said_to_have_none(capsys):
    main(["predict", "gx8", "model=alexnet,resnetx,bert", "batch_size=64", "gpus=8"])
    assert "no speed-up: BERT-base: nothing fewer to compare is predicted;" in capsys.readouterr().out
    main(["predict", "gx8", "model=alexnet,resnetx", "batch_size=64", "gpus=8"])
    assert "no speed-up" not in capsys.readouterr().out
    main(["predict", "dgx1-v100", "model=vgg16", "batch_size=256", "precision=fp32,fp16", "gpus=1,8"])
    shown = capsys.readouterr().out
    assert "not predicted: on 1 GPU: needs 21.2 GB" in shown and "no speed-up" not in shown  # which was asked for


def test_systems_on_other_numbers_of_gpus_are_compared_by_images_not_by_steps(predict, capsys):
    words = ["summit", "nodes=2,4", "network=edr100", "model=resnet50", "batch_size=64", "scaling=weak", "gpus=12,24"]
    _, found = predict(*words)
    rates = {(point["system"], point["gpus"]): point["images_per_s"] for point in found}
    assert rates["4x summit", 24] > 1.9 * rates["2x summit", 12]
    assert main(["predict", *words, "-q"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    times = re.search(r"4x summit trains .* (\d\.\d+) times \(.*\) as fast as 2x summit", said)
    assert times and float(times[1]) == pytest.approx(rates["4x summit", 24] / rates["2x summit", 12], rel=0.03)


def test_where_batches_are_split_into_parts_a_rate_is_asked_for_at_the_images_of_one(capsys):
    words = ["dgx-a100", "model=resnet50", "batch_size=256", "precision=bf16", "rate=32:1500", "accumulate=2"]
    assert main(["predict", *words]) == 0
    assert "give rate= at 16, too" in " ".join(capsys.readouterr().out.split())


def test_settings_of_several_values_are_assumed_once(capsys):
    main(["predict", "dgx1-v100", "model=alexnet", "batch_size=256", "gpus=8", "gradients=bf16,fp32"])
    assert "assumed: gradients.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "systems=dgx1-v100 model.x=4 batch_size=840 rate=256:360000000 gpus=1..8",
            "rate=256:360000000: by its peak rate one NVIDIA ",
        ),
        (
            "systems=dgx1-p100 model=resnet50 batch_size=256 rate=32:1950",
            "does at most 725 images/s of this model in fp32;",
        ),
    ],
)
def test_a_rate_beyond_the_peak_of_its_gpu_is_refused(capsys, words, sentence):
    assert main(["predict", *words.split()]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert sentence in err and err.endswith("expected the rate of one GPU, correct rate=")
