"""`resnetx predict rate=`: what one GPU is known to do goes into a prediction."""

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest

import resnetx
from resnetx.api.known_rates import KnownRates, KnownScaling
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.prediction.result import domains
from resnetx.prediction.scaling import scaling_errors, slowest_of
from resnetx.record import RunFolder, RunSummaryReader, StudyFolder
from resnetx.reporting.predicted_answer import predicted_curves
from resnetx.reporting.predicted_certainty import compute_source, sure

QUICKSTART = Path(__file__).parents[2] / "results" / "cpu-2core" / "quickstart"  # ResNet/1, batch 16, two CPU ranks
VARIATION = scaling_errors().costs.variation  # ranks wait for the slowest
RESNET50 = ["systems=dgx1-p100", "model=torchvision", "model.name=resnet50", "scaling=weak", "strategy=after"]
H100_TRACE = QUICKSTART.parents[1] / "h100" / "trace"  # ResNet-50 in bf16
ON_CPUS = ["systems=cpu-host", "model=resnetx", "model.x=1", "batch_size=16", "gpus=[1,2]"]


@pytest.fixture
def study(tmp_path):
    """Copies the quickstart, with changes to the records of some of its runs."""

    def make(pattern="*", change=lambda record: None):
        folder = shutil.copytree(QUICKSTART, tmp_path / "study", ignore=shutil.ignore_patterns("report", ".lock"))
        for run in StudyFolder(folder).runs():
            if run.path.match(pattern):
                record = json.loads(run.record.read_text())
                change(record)
                run.record.write_text(json.dumps(record))
        return folder

    return make


# ---- stated


def test_one_gpu_does_what_is_stated_and_the_interval_is_that_of_the_rate(predict):
    status, (one, eight) = predict(*RESNET50, "batch_size=64", "gpus=[1,8]", "rate=219")
    assert (status, one["compute_source"]) == (0, "stated")
    assert one["images_per_s"] == pytest.approx(219)
    low, high = (end / one["iteration_s"] for end in one["interval_s"])
    assert (low, high) == pytest.approx((0.98, 1.02))
    assert 7 * 219 < eight["images_per_s"] < 8 * 219


def test_a_number_is_at_the_batch_of_the_point_and_its_baseline_follows_the_shape(predict):
    words = [*RESNET50, "scaling=strong", "batch_size=64", "gpus=2"]
    _, (number,) = predict(*words, "rate=195")
    _, (mapping,) = predict(*words, "rate={32:195}")
    assert (number["iteration_s"], number["speedup"]) == (mapping["iteration_s"], mapping["speedup"])
    assert number["compute_s"] == pytest.approx(32 / 195 * slowest_of(2, VARIATION), rel=0.005)


def test_the_error_of_a_rate_is_the_users_to_state(predict):
    _, (found,) = predict(*RESNET50, "batch_size=64", "gpus=1", "rate=219", "rate_error=0.1")
    assert found["compute_error"] == 0.1
    assert found["interval_s"][1] / found["iteration_s"] == pytest.approx(1.1)


def test_strong_scaling_between_stated_batches_says_which_were_stated(predict, capsys):
    words = [*RESNET50, "scaling=strong", "batch_size=64", "gpus=[1,2,4]", "rate={32:195,64:219}"]
    _, (sixty_four, thirty_two, sixteen) = predict(*words)
    assert sixty_four["compute_s"] == pytest.approx(64 / 219, rel=0.001)
    assert sixty_four["iteration_s"] == pytest.approx(64 / 219)
    assert thirty_two["compute_s"] == pytest.approx(32 / 195 * slowest_of(2, VARIATION), rel=0.005)
    assert "at batch 32, as stated" in thirty_two["compute_note"]
    assert "batch 16 follows from the nearest of these" in sixteen["compute_note"]
    assert sixteen["compute_error"] > thirty_two["compute_error"] == 0.02
    assert main(["predict", *words, "--all"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "rate as given" in out
    assert "one GPU does 219 images/s at batch 64, as stated" in out
    assert "resnet50 on dgx1-p100, batch 32 as stated" in out
    assert "resnet50 on dgx1-p100, batch 16 by the rates of others" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch_size=256", "gpus=8", "rate=2500"], "rate as given, at 32 images;"),
        (["batch_size=256", "gpus=8", "rate=dgx1-p100:2500"], "rate as given, at 32 images;"),
        (["batch_size=256", "gpus=1", "accumulate=4", "rate=2500"], "rate as given, at 64 images;"),
        (["batch_size=256", "gpus=1", "rate=2500"], "rate as given;"),
        (["batch_size=32", "gpus=8", "scaling=weak", "rate=2500"], "rate as given;"),
        (["batch_size=256", "gpus=8", "rate=256:2500"], "rate as given;"),
        (["batch_size=256", "gpus=8", "rate=dgx1-p100:256:2500"], "rate as given;"),
    ],
)
def test_the_screen_says_at_which_batch_a_number_alone_was_taken(words, said, capsys):
    assert main(["predict", "dgx1-p100", "model=alexnet", *words]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_from_python_rates_are_a_mapping_of_numbers():
    made = resnetx.predict(
        systems="dgx1-p100", model={"kind": "torchvision", "name": "resnet50"}, batch_size=32, gpus=1, rate={32: 195}
    )
    assert made.points[0].images_per_s == pytest.approx(195)
    assert made.inputs[0].source == "rate=32:195"


COMPILED = ["dgx-a100", "model=resnet50", "precision=fp16", "batch_size=256", "compile=default"]


def test_a_compiled_step_is_known_at_the_batches_whose_rates_are_and_open_at_others(predict, capsys):
    """Of its host's part nothing is known: none of it (the fast end), or that of a step that is not compiled."""
    _, (one, eight) = predict(*COMPILED, "gpus=1,8", "rate=256:2470")
    assert (one["images_per_s"], eight["images_per_s"]) == (pytest.approx(2470), None)
    assert eight["open"] == "resnetx train model=torchvision precision=fp16 compile=default gpus=1 batch_size=32"
    plain, unlaunched = (
        predict(*COMPILED[:-1], "gpus=8", "rate=256:2470", *word)[1][0] for word in ([], ["host_step=0"])
    )
    assert eight["interval_s"] == [unlaunched["interval_s"][0], plain["interval_s"][1]]
    for word in ("rate=256:2470,32:2000", "scaling=weak", "host_step=4ms"):
        _, (told,) = predict(*COMPILED, "gpus=8", "rate=256:2470", word)
        assert told["images_per_s"] and not told.get("open")
    assert main(["predict", *COMPILED]) == 2
    assert "add its images/s by batch: rate=256:195" in " ".join(capsys.readouterr().err.split())


def test_of_compiled_steps_over_gpus_that_are_no_peers_both_are_open(predict):
    words = ["pcie-a100", "transport=host", *COMPILED[1:], "gpus=8", "rate=256:2470"]
    _, (both,) = predict(*words)
    _, (staged,) = predict(*(word for word in words if word != "compile=default"))
    assert both["interval_s"][0] < staged["interval_s"][0] and both["interval_s"][1] == staged["interval_s"][1]


# ---- of another GPU


BY_V100 = ["model=resnet50", "batch_size=256", "precision=fp16", "scaling=weak"]


def test_a_system_has_its_own_rate_and_another_gpu_what_follows_from_it(predict):
    words = ["systems=dgx1-v100,dgx-a100", *BY_V100, "gpus=1"]
    _, (own, other) = predict(*words, "rate=dgx1-v100:1200")
    assert (own["compute_source"], own["images_per_s"]) == ("stated", pytest.approx(1200))
    assert (other["compute_source"], other["compute_where"]) == ("rescaled", "rate=dgx1-v100:1200")
    assert "rescaled from v100-sxm2-16gb" in other["compute_note"]
    assert 1.7 * 1200 < other["images_per_s"] < 2.8 * 1200  # NVIDIA's program: 2,470
    _, (_, faster) = predict(*words, "rate=dgx1-v100:1400")
    assert 1 < faster["images_per_s"] / other["images_per_s"] < 1400 / 1200  # half of what a program gains is its own
    _, both = predict(*words, "rate=dgx1-v100:1200,dgx-a100:2470")
    assert [point["images_per_s"] for point in both] == pytest.approx([1200, 2470])


def test_within_a_generation_all_of_a_rate_carries_over(predict):
    words = ["systems=pcie-a100", *BY_V100, "gpus=1", "host_step=1ms"]
    one, double = (predict(*words, f"rate=dgx-a100:{rate}")[1][0] for rate in (1000, 2000))
    assert double["images_per_s"] / one["images_per_s"] == pytest.approx(2, rel=0.01)


def test_rates_by_batch_are_of_the_name_before_them(predict):
    words = ["systems=dgx1-v100,dgx-a100", "model=resnet50", "precision=fp16", "batch_size=64", "gpus=1,2"]
    _, points = predict(*words, "rate=dgx1-v100:64:1100,32:1000")
    own = [point for point in points if point["system"] == "dgx1-v100"]
    assert own[0]["images_per_s"] == pytest.approx(1100) and "batch 32, as stated" in own[1]["compute_note"]
    made = resnetx.predict(
        systems=["dgx1-v100", "dgx-a100"], model="resnet50", precision="fp16", batch_size=64, gpus=[1, 2],
        rate={"dgx1-v100": {32: 1000, 64: 1100}},
    )  # fmt: skip
    assert [point.iteration_s for point in made.points] == [point["iteration_s"] for point in points]


def test_a_gpu_is_named_by_its_part_too_and_of_several_the_nearest_generation_is_taken(predict):
    words = ["systems=dgx-h100", *BY_V100, "gpus=1"]
    (of_part,), (of_two,) = (
        predict(*words, rate)[1] for rate in ("rate=a100-sxm4-80gb:2470", "rate=dgx1-v100:1200,dgx-a100:2470")
    )
    for point in (of_part, of_two):
        assert point["compute_note"].startswith("rescaled from a100-sxm4-80gb ")
    assert of_two["iteration_s"] == pytest.approx(of_part["iteration_s"], rel=0.01)  # whose CPU is known


def test_a_gpu_without_a_precision_is_taken_to_have_run_its_nearest(predict):
    words = ["systems=dgx-a100", "model=resnet50", "batch_size=256", "gpus=1"]
    _, (half,) = predict(*words, "precision=bf16", "rate=dgx1-v100:1200")
    assert "there in fp16, as it has no bf16" in half["compute_note"]
    _, (full,) = predict(*words, "precision=tf32", "rate=dgx1-v100:384")
    assert "there in fp32, as it has no tf32" in full["compute_note"]
    assert full["images_per_s"] > 2 * 384


def test_a_host_has_its_own_time_where_gpus_have_theirs(predict):
    """A step that is mostly its host's gets no shorter by a faster GPU, but by a faster CPU, or one that is stated."""
    words = ["systems=dgx-h100", "model=resnet152", "precision=fp16", "batch_size=8", "gpus=1", "rate=dgx1-v100:160"]
    _, (plain,) = predict(*words)
    _, (told,) = predict(*words, "host_step=5ms")
    assert told["iteration_s"] < 0.7 * plain["iteration_s"]
    _, (larger,) = predict(*words[:3], "batch_size=16", *words[4:5], "rate=dgx1-v100:8:160")
    assert larger["iteration_s"] < 1.2 * plain["iteration_s"]


def test_a_rate_of_another_gpu_shows_no_room_on_this_one(predict):
    _, (own, other) = predict("systems=dgx1-v100,sli-rtx2080", *BY_V100, "gpus=1", "rate=dgx1-v100:1200")
    assert (own["outcome"], other["outcome"]) == ("ok", "oom")


def test_rates_of_several_gpus_correct_no_rescaled_step(capsys, tmp_path):
    rates = tmp_path / "rates.yaml"
    rates.write_text("source: mine\nimages_per_s: {8: 9000}\n")
    words = ["systems=dgx-a100", *BY_V100, "gpus=8", "rate=dgx1-v100:1200", f"calibration={rates}"]
    assert main(["predict", *words]) == 2
    assert "corrects what follows from the rate of one such GPU" in " ".join(capsys.readouterr().err.split())


def test_runs_of_a_described_gpu_are_carried_over(study, predict):
    def on_h100(record):
        record["devices"] = [{**device, "name": "NVIDIA H100 80GB HBM3"} for device in record["devices"]]

    words = ["model=resnetx", "model.x=1", "batch_size=16", "gpus=1", "input=synthetic", "systems=dgx-a100"]
    _, (point,) = predict(*words, f"rate={study(change=on_h100)}")
    assert point["compute_source"] == "rescaled" and "rescaled from h100-sxm5-80gb" in point["compute_note"]


def test_the_screen_says_what_is_doubted_and_which_rate_ends_it(capsys):
    words = ["predict", "dgx-h100", *BY_V100, "gpus=1,8", "rate=dgx1-v100:1200"]
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "give rate= of dgx-h100, too" in shown and "rescaled from another GPU's rate" in shown
    assert "rates from those of another GPU (two generations, half precision) were" in shown


def test_compare_and_steer_take_it(capsys):
    words = ["systems=dgx1-v100,dgx-a100", *BY_V100, "gpus=8", "rate=dgx1-v100:1200"]
    assert main(["compare", *words]) == 0
    assert "rates from those of another GPU" in " ".join(capsys.readouterr().out.split())
    plain, slower = (
        resnetx.steer(systems="dgx1-v100", model="resnet50", batch_size=256, **more).iteration_s_before
        for more in ({}, {"rate": {"dgx1-v100": {32: 100}}})
    )
    assert slower > 2 * plain
    assert main(["steer", "systems=dgx1-v100", __file__.replace(".py", ".csv"), "rate=dgx1-v100:7"]) == 2
    assert "add model=" in " ".join(capsys.readouterr().err.split())


# ---- measured


def test_a_study_gives_the_rates_of_its_runs_on_one_gpu(predict):
    status, (one, two) = predict(*ON_CPUS, f"rate={QUICKSTART}")
    assert (status, one["compute_source"], one["compute_where"]) == (0, "measured", str(QUICKSTART))
    synthetic = [
        json.loads(path.read_text())["images_per_s"] for path in QUICKSTART.glob("resnet-1_b16_g1_f8530673_r*/rec*")
    ]
    assert min(synthetic) < one["images_per_s"] < max(synthetic)
    assert "at batch 16, as measured" in one["compute_note"]
    assert 1.5 < two["speedup"] < 2


@pytest.mark.parametrize(("more", "feed", "says"), [([], "dali", True), (["input=synthetic"], "synthetic", False)])
def test_a_study_that_ran_with_real_images_says_what_is_read(more, feed, says, capsys):
    assert main(["predict", "--json", *ON_CPUS, f"rate={QUICKSTART}", *more]) == 0
    said = capsys.readouterr()
    assert {json.loads(line)["request"]["input"]["kind"] for line in said.out.splitlines()} == {feed}
    assert ("predicted with input=dali, as its runs were" in said.err) == says


def test_the_error_of_a_measured_rate_is_what_its_repeats_and_windows_vary_by(predict, study):
    _, (one, _) = predict(*ON_CPUS, f"rate={QUICKSTART}")
    assert one["compute_error"] > 0.02

    def steady(record):
        record["windows_s"] = [[2.0] * 10 for _ in record["windows_s"]]
        record["window_steps"] = 10

    _, (one, _) = predict(*ON_CPUS, f"rate={study(change=steady)}")
    assert (one["images_per_s"], one["compute_error"]) == (pytest.approx(80), 0)


@pytest.mark.parametrize("name", ["", "record.json"])
def test_one_run_is_a_rate_too(predict, name):
    run = next(QUICKSTART.glob("resnet-1_b16_g1_f8530673_r1")) / name
    _, (one, _) = predict(*ON_CPUS, f"rate={run}")
    measured = json.loads((QUICKSTART / "resnet-1_b16_g1_f8530673_r1/record.json").read_text())["images_per_s"]
    assert one["images_per_s"] == pytest.approx(measured)


def test_a_rate_may_be_as_uncertain_as_it_is_large(predict):
    status, (point,) = predict(*RESNET50, "batch_size=64", "gpus=1", "rate=219", "rate_error=1")
    assert status == 0
    assert 0 < point["interval_s"][0] < point["iteration_s"] / 50


# ---- what a rate cannot be


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["systems=gx8", "model=alexnet", "batch_size=256", "rate=900"], "cases have 32, 64, 128, 256; say of which"),
        ([*RESNET50, "rate=0"], "rate=0: expected at least 1e-06"),
        ([*RESNET50, "rate={}"], "expected images/s by per-GPU batch, e.g. rate=32:195,64:219"),
        ([*RESNET50, "rate={a:195}"], "a is neither a per-GPU batch nor a system, its file, or a GPU; expected"),
        ([*RESNET50, "rate={32:195,64:x}"], "rate.64=x: expected a number"),
        ([*RESNET50, "rate="], "rate=: is empty; expected a number of images/s"),
        ([*RESNET50, "rate=fast"], "rate=fast: neither a number of images/s nor a file or folder"),
        ([*RESNET50, "rate_error=0.1"], "rate_error=0.1: the error of a known rate; add rate="),
        ([*RESNET50, "rate=219", "rate_error=2"], "rate_error=2: expected at most 1"),
        ([*RESNET50, "rate=219", "clock=1000"], "clock: a known rate has the clock of its GPU in it"),
        (["systems=[dgx1-p100,gx8]", "model=alexnet", "rate=219"],
         "p100-pcie-16gb and p100-sxm2-16gb; say whose it is, as rate=dgx1-p100:219"),
        ([*RESNET50, "rate=dgx1-v10:700"], "did you mean dgx1-v100"),
        ([*RESNET50, "rate=32:195,dgx1-v100:700"], "does not say whose the rate at batch 32 is; a name stands before"),
        ([*RESNET50, "rate=32:195,dgx1-v100:64:700"], "does not say whose the rate at batch 32 is; a name stands"),
        ([*RESNET50, "rate=dgx1-v100:700,64:219"], "as rate=dgx1-v100:32:195,64:219"),
        ([*RESNET50, "rate=cpu-host:7", "batch_size=64"], "ranks on CPUs and GPUs say nothing of each other"),
        ([*RESNET50, "rate=dgx1-v100:64:90000"], "rate=dgx1-v100:64:90000: 90000 at batch 64: by its peak rate"),
        (["model=alexnet", "rate=dgx1-v100:700,v100-sxm2-16gb:9", "systems=dgx1-v100-32gb"],
         "the rate at one per-GPU batch, and cases have"),
        (["systems=summit", "model=alexnet", "gpus=1", "rate=dgx1-v100:700,v100-sxm2-16gb:9"],
         "say which rate is its own"),
        (["systems=gx8", "model=[alexnet,googlenet]", "gpus=8", "rate=219"], "the rate of one workload, and several"),
        (["systems=gx8", "gpus=8", "rate=219", "optimizer=sgd,adamw"], "(optimizer=sgd; optimizer=adamw)"),
        (["systems=gx8", "gpus=8", "rate=219", "channels_last=true,false"], "(channels_last=true; channels_last=fal"),
        (["systems=gx8", "gpus=8", "rate=219", "compile=none,default"], "(compile=none; compile=default)"),
        (["systems=cpu-host", *RESNET50[1:], f"rate={QUICKSTART}"],
         "has no run of resnet50, 224 pixels, fp32 on one GPU"),
        (["systems=gx8", *ON_CPUS[1:], f"rate={QUICKSTART}"],
         "measured on CPU, and the systems have p100-pcie-16gb; ranks"),
        ([str(QUICKSTART), "systems=cpu-host", "rate=219"], "has the times of a step already; give a trace or a rate"),
    ],
)  # fmt: skip
def test_a_rate_that_says_nothing_of_the_point_is_refused(words, sentence, capsys):
    assert main(["predict", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_runs_on_several_machines_are_not_mixed(study, capsys):
    def elsewhere(record):
        record["devices"][0]["node"] = "other"

    assert main(["predict", *ON_CPUS, f"rate={study('*_f8530673_r1', elsewhere)}"]) == 2
    assert "has runs on CPU of cpu-2core and on CPU of other; give the runs of one" in capsys.readouterr().err


def test_runs_that_differ_in_what_a_rate_depends_on_are_not_mixed():
    run = RunSummaryReader()(RunFolder(QUICKSTART / "resnet-1_b16_g1_f8530673_r1"))
    other = msgspec.structs.replace(run, request=msgspec.structs.replace(run.request, memory_limit=2**33))
    with pytest.raises(ConfigError, match="its runs differ in memory_limit"):
        KnownRates("rate=here", None, runs=(run, other)).of(run.request, 16)


def test_a_rate_is_of_steps_that_keep_all_and_of_the_same_optimizer(predict):
    """What checkpointing computes again no rate tells: a roofline does, and is as far off there as it is."""
    words = ["systems=dgx-h100", "model=gptx", "precision=bf16", "batch_size=64", "gpus=1", "rate=64:500"]
    _, (plain,) = predict(*words)
    _, (again,) = predict(*words, "checkpointing=true")
    width = {
        name: point["interval_s"][1] / point["iteration_s"] for name, point in (("plain", plain), ("again", again))
    }
    assert width["plain"] == pytest.approx(1.02)
    share = 1 - plain["iteration_s"] / again["iteration_s"]
    assert 0.1 < share < 1 / 3  # forward passes, which are half of the launches of a step that its host limits
    assert width["again"] > 1 + share * 0.1
    made = resnetx.predict(
        systems="dgx-h100", model="gptx", precision="bf16", batch_size=64, gpus=1, rate={64: 500.0},
        optimizer="adamw", checkpointing=True,
    )  # fmt: skip
    (said,) = (line for line in made.inputs if line.what == "the given rate")
    assert (said.origin, said.value) == (
        "assumed",
        "of steps that keep all; computing blocks again is modelled, and of the same optimizer, adamw",
    )


def test_a_host_that_took_no_time_would_launch_in_none_too(predict, capsys):
    """Where no graph can be: 20 % of a step is launching, 12 % what going parallel costs the host."""
    words = ["dgx-a100", "model=resnet50", "precision=fp16", "batch_size=256", "rate=32:1700,256:2470", "gpus=1,8"]
    words.append("optimizer=adamw")
    _, (_, eight) = predict(*words)
    lost = {part["name"]: part["share"] for part in eight["parts"]}
    assert main(["predict", *words]) == 0
    (gain,) = re.findall(r"at most ([0-9.]+) times if the host took no time", " ".join(capsys.readouterr().out.split()))
    assert float(gain) >= round(1 / (1 - lost["host"] - lost["launching"]), 1) > 1.3


def test_a_graph_pays_nothing_to_its_host_on_several_gpus_either(predict, capsys):
    """Hooks run when it is captured."""
    words = ["dgx-a100", "model=resnet50", "precision=fp16", "batch_size=256", "rate=32:1700,256:2470", "gpus=1,8"]
    _, (_, eight) = predict(*words, "graph=true")
    lost = {part["name"]: part["share"] for part in eight["parts"]}
    assert (lost["host"], lost["launching"]) == pytest.approx((0, 0), abs=1e-9)
    assert main(["predict", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "On 8 with graph=true" in said and "if the host took no time" not in said


def test_a_rate_with_graph_is_taken_to_be_of_graphs(predict, capsys):
    words = ["predict", "dgx-a100", "model=resnet50", "precision=fp16", "batch_size=256", "rate=256:2470"]
    assert main([*words, "graph=true"]) == 0
    assert "assumed: the given rate: of steps that are CUDA graphs, too.\n" in capsys.readouterr().out
    assert main(words) == 0
    assert "assumed" not in capsys.readouterr().out


def test_the_screen_says_how_a_step_is_taken_where_not_by_default(predict, capsys):
    words = ["predict", "systems=dgx-h100", "model=gptx", "precision=bf16", "batch_size=64", "gpus=1", "rate=500"]
    assert main([*words, "accumulate=2", "checkpointing=true", "optimizer=adamw"]) == 0
    assert "strategy=bucket, accumulate 2, checkpointing, adamw, nvls" in " ".join(capsys.readouterr().out.split())


# ---- beside rates of several GPUs


def test_what_input_costs_is_not_counted_as_messages(predict):
    """On two ranks DALI takes 19.7 ms of a step: rates with synthetic images alone say what scaling costs."""
    _, (_, two) = predict(*ON_CPUS, f"rate={QUICKSTART}", f"calibration={QUICKSTART}")
    assert two["request"]["input"]["kind"] == "dali"
    assert two["images_per_s"] == pytest.approx(89.13, rel=0.001)  # of the six runs with synthetic images
    assert two["exposed_communication_s"] < 0.017


def test_what_messages_cost_is_that_of_runs_with_the_same_input():
    names = [f"resnet-1_b16_g{gpus}_{key}_r1" for gpus, key in ((1, "f8530673"), (2, "9954a026"), (2, "b4dead01"))]
    one, *two = (RunSummaryReader()(RunFolder(QUICKSTART / name)) for name in names)
    costs_s = tuple((run.request, exchange_s) for run, exchange_s in zip(two, (0.001, 0.02), strict=True))
    known = KnownScaling(str(QUICKSTART), runs=tuple(two), exchange_s=costs_s)
    costs = {run.request.input.kind: known.of(one.request, run.request.input.kind).exchange_s for run in two}
    assert costs == {"synthetic": ((2, 0.001),), "dali": ((2, 0.02),)}


def test_rates_of_several_gpus_are_of_steps_taken_alike():
    """Those with another layout were taken, as they were not of one GPU."""
    names = [f"resnet-1_b16_g{gpus}_{key}_r1" for gpus, key in ((1, "f8530673"), (2, "9954a026"))]
    one, two = (RunSummaryReader()(RunFolder(QUICKSTART / name)) for name in names)
    known = KnownScaling(str(QUICKSTART), runs=(two,))
    assert known.of(one.request, "synthetic").by_gpus
    other = msgspec.structs.replace(one.request, channels_last=not one.request.channels_last)
    assert known.of(other, "synthetic") is None


def test_where_no_run_with_the_same_input_says_what_messages_cost_the_most_of_others_does():
    """A loader hides messages; whichever run stands last says nothing."""
    names = [f"resnet-1_b16_g{gpus}_{key}_r1" for gpus, key in ((1, "f8530673"), (2, "9954a026"), (2, "b4dead01"))]
    one, synthetic, dali = (RunSummaryReader()(RunFolder(QUICKSTART / name)) for name in names)
    inputs = (msgspec.structs.replace(dali.request.input, prefetch=count) for count in (2, 3))
    others = [msgspec.structs.replace(dali.request, input=input) for input in inputs]
    costs_s = tuple(zip(others, (0.02, 0.001), strict=True))
    known = KnownScaling(str(QUICKSTART), runs=(synthetic,), exchange_s=costs_s)
    assert known.of(one.request, "synthetic").exchange_s == ((2, 0.02),)


def test_runs_of_the_same_input_stand_in_for_synthetic_ones(study, predict):
    """None on two ranks has synthetic images: one rank's rate is that with DALI, too."""
    folder = study()
    for run in folder.glob("*_9954a026_r*"):
        shutil.rmtree(run)
    _, (one, two) = predict(*ON_CPUS, f"rate={folder}", f"calibration={folder}")
    assert (one["images_per_s"], two["images_per_s"]) == (
        pytest.approx(48.03, rel=0.001),
        pytest.approx(78.56, rel=0.001),
    )


def test_rates_of_one_and_of_several_with_different_inputs_are_refused(study, capsys):
    folder = study()
    for run in (*folder.glob("*_9954a026_r*"), *folder.glob("*_a661be61_r*")):
        shutil.rmtree(run)
    assert main(["predict", *ON_CPUS, "input=dali", f"rate={folder}", f"calibration={folder}"]) == 2
    assert "have input=dali, and those on one of rate=" in capsys.readouterr().err


# ---- what such predictions were compared with, and what they are called


def sure_of(**settings):
    made = resnetx.predict(**settings)
    return made, sure(made, predicted_curves(made.points))


@pytest.mark.parametrize("strategy", ["after", "layerwise", "zero1", "fsdp"])
def test_only_buckets_of_networks_for_images_are_compared_with_72_rates(strategy):
    point = {"systems": "dgx1-v100", "model": "alexnet", "batch_size": 256, "gpus": 8}
    assert "200 such rates were predicted to 1.7%, given one GPU's" in sure_of(**point)[1]
    _, sentences = sure_of(**point, strategy=strategy)
    assert "no such scaling was ever compared with a measurement" in sentences
    assert not any("such rates" in sentence for sentence in sentences)


def test_what_such_predictions_were_given_is_said_once():
    point = {"systems": "dgx1-v100", "model": "alexnet", "batch_size": 256, "gpus": 8}
    (told,) = [said for said in sure_of(**point, strategy=["bucket", "server"])[1] if "were predicted" in said]
    assert told.count("were predicted") == 2
    assert told.count("given one GPU's") == 1 and told.endswith(", given one GPU's")


def test_of_one_batch_whose_rate_is_known_the_share_of_each_gpu_is_asked_for(capsys, monkeypatch):
    """What one more run on one GPU would tell stands where it is doubted most, and leaves room for what helps."""
    monkeypatch.setenv("COLUMNS", "80")
    words = ["predict", "dgx-a100", "model=resnet50", "batch_size=256", "precision=fp16", "gpus=1,2,4,8"]
    assert main([*words, "rate=256:2470"]) == 0
    shown = capsys.readouterr().out
    assert "doubt: one GPU's step (112%: give rate= at 32, too)" in " ".join(shown.split())
    assert "with graph=true" in shown and len(shown.splitlines()) == 15
    assert main([*words, "rate=256:2470,32:1700"]) == 0
    assert "give rate=" not in capsys.readouterr().out


def test_ranks_wait_longer_for_samples_of_uneven_size():
    """As long as the fit to such programs says, and compared with these alone."""
    point = {"systems": "dgx-a100", "model": "resnet50", "batch_size": 64, "scaling": "weak", "gpus": 8, "rate": 700}
    (alike, plain), (uneven, said) = (sure_of(**point, samples=samples) for samples in ("alike", "uneven"))
    costs = scaling_errors().costs
    expected = slowest_of(8, costs.uneven_steady) / slowest_of(8, costs.steady)
    assert uneven.points[0].iteration_s / alike.points[0].iteration_s == pytest.approx(expected, rel=0.02)
    assert any(line.startswith("200 ") for line in plain) and any(line.startswith("40 ") for line in said)


def test_steps_of_a_trace_say_themselves_how_they_vary(capsys):
    traces = str(Path(__file__).parents[2] / "results/cpu-2core/truth/trace")
    assert main(["predict", traces, "cpu-host", "gpus=1,2", "samples=uneven"]) == 2
    assert "samples=uneven: steps of the trace" in " ".join(capsys.readouterr().err.split())


def test_transformers_are_compared_with_transformers():
    point = {"systems": "dgx-h100", "model": "gptx", "batch_size": 64, "gpus": 8, "precision": "bf16"}
    assert "223 such rates were predicted to 2.1%, given that of the fewest GPUs" in sure_of(**point)[1]
    _, both = sure_of(**point, strategy=["bucket", "fsdp"])
    assert "223 rates (transformers, DDP, one node) were predicted to 2.1%, given that of the fewest GPUs" in both
    assert "no scaling by transformers, FSDP, one node was ever compared with a measurement" in both
    nodes = {"nodes": 2, "network": "ndr400", "nics": 8, "gpus": 16, "strategy": "fsdp"}
    made, _ = sure_of(**{**point, **nodes})
    (scaling,) = [line.what for line in made.inputs if line.what.startswith("scaling by ")]
    assert [domain.points for domain in made.domains if domain.what.endswith(scaling.removeprefix("scaling by "))] == [
        27
    ]


@pytest.mark.parametrize("calibration", [[], [str(QUICKSTART)]])
def test_ranks_on_cpus_are_compared_with_such_and_are_no_gpus(calibration):
    made, sentences = sure_of(
        systems="cpu-host", model={"kind": "resnetx", "x": 1}, batch_size=16, gpus=[1, 2], rate=str(QUICKSTART),
        calibration=calibration,
    )  # fmt: skip
    assert "12 such rates were predicted to 3.1%" in sentences
    assert sentences[0].split("most doubt: ")[1].startswith("one rank's step")
    assert compute_source(made) == "one rank's step measured on cpu-2core"
    assert not [line for line in made.inputs if "GPU" in line.what + line.value]


def test_each_kind_of_messages_has_a_line_of_its_own():
    made = resnetx.predict(systems="gx8", model="alexnet", batch_size=256, gpus=8, strategy=["bucket", "zero1", "fsdp"])
    lines = [line.what.partition(" on ")[0] for line in made.inputs if " on 8 GPUs of gx8" in line.what]
    assert lines == ["all-reduce", "all-reduce and broadcasts", "all-gather and reduce-scatter"]
    made = resnetx.predict(
        lab={"system": "gx8", "scale": 100}, model="alexnet", batch_size=256, gpus=4, replay="p100-sxm2-16gb",
        strategy=["zero1", "bucket"],
    )  # fmt: skip
    lines = {line.what: line.error for line in made.inputs if " on 4 ranks of gx8" in line.what}
    assert (
        lines["all-reduce on 4 ranks of gx8 with gloo"] < lines["all-reduce and broadcasts on 4 ranks of gx8 with gloo"]
    )


def test_rows_that_were_modelled_after_they_were_measured_say_so():
    rows = {domain.what.partition(" ")[0]: domain.what for domain in domains(in_lab=True)}
    assert "after these were measured (before, a mean of 8.5% and a worst of 17.4%)" in rows["ZeRO-1"]
    assert "after these were measured (before, a mean of 0.7% and a worst of 2.3%)" in rows["batches"]


def doubted(words, capsys):
    capsys.readouterr()
    assert main(["predict", *words]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    return shown.partition("doubt: ")[2].partition(")")[0] + ")"


@pytest.mark.parametrize(
    ("words", "doubt", "calibrates"),
    [
        (["gx8", "model=alexnet", "batch_size=256", "gpus=8", "rate=32:2000,256:2400"], "messages (", True),
        (["dgx1-v100", "model=alexnet", "batch_size=256", "gpus=8", "rate=32:2000", "strategy=server"], "messages (",
         False),
        (["model=alexnet", "lab.system=dgx1-p100", "replay=p100-sxm2-16gb", "batch_size=256", "gpus=8"], "messages (",
         False),
        (["gx8", "model=alexnet", "batch_size=1024", "gpus=8", "rate=128:2500", "input=dali",
          "input.decoder=cpu"], "input (", None),
    ],
)  # fmt: skip
def test_no_advice_names_what_is_refused(words, doubt, calibrates, capsys, tmp_path):
    bench = tmp_path / "bench.yaml"
    bench.write_text("source: mine\ngpus: 8\npoints: [{size: 1e6, time_us: 200}, {size: 1e8, time_us: 9000}]\n")
    said = doubted(words, capsys)
    assert said.startswith(doubt)
    assert ("give calibration=" in said) == bool(calibrates)
    if calibrates is not None:
        assert (main(["predict", *words, f"calibration={bench}"]) == 0) == calibrates


def test_a_step_that_its_host_limits_is_doubted_for_its_host(capsys):
    words = [str(H100_TRACE), "systems=dgx-h100", "gpus=1,8"]
    assert doubted(words, capsys).startswith("what its host does (") and "give host_step=" in doubted(words, capsys)
    assert "give" not in doubted([*words, "host_step=8ms"], capsys)


def test_beside_a_trace_of_another_gpu_no_rate_is_asked_for(capsys):
    assert "one GPU's step" in (said := doubted([str(H100_TRACE), "systems=dgx-a100", "gpus=1"], capsys))
    assert said.endswith(": trace this GPU)")
    assert main(["predict", str(H100_TRACE), "systems=dgx-a100", "gpus=1", "rate=2000"]) == 2


H100_RATES = QUICKSTART.parents[1] / "h100" / "one-gpu"
ON_H100 = ["dgx-h100", "model=resnet50", "precision=bf16", "batch_size=256", "gpus=1,8"]


def test_runs_of_the_same_workload_that_were_trained_otherwise_are_refused_by_what_differs(capsys):
    for word, was in (("graph=true", "graph=false"), ("optimizer=adamw", "optimizer=sgd")):
        assert main(["predict", *ON_H100, f"rate={H100_RATES}", word]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"its runs of resnet50, 224 pixels, bf16 on one GPU have {was}, and {word} is predicted" in said


@pytest.mark.parametrize("rate", ["rate=256:3988", None])
def test_what_a_graph_is_worth_is_what_is_predicted_of_it(rate, predict, capsys):
    words = [*ON_H100, *filter(None, [rate])]
    _, (_, eight) = predict(*words)
    _, (_, graphed) = predict(*words, "graph=true")
    assert eight["with_graph_s"] == pytest.approx([graphed["iteration_s"], *graphed["interval_s"]])
    assert graphed["with_graph_s"] == []
    assert main(["predict", *words, "graph=true"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("   8 "))
    told, low, _, high = row.split()[1:5]
    assert main(["predict", *words]) == 0
    assert f"with graph=true {told} images/s ({low} to {high})" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", [["strategy=server"], ["strategy=fsdp"], ["optimizer=adamw"], ["accumulate=2"]])
def test_a_graph_that_is_refused_is_worth_nothing(words, predict, capsys):
    _, (_, eight) = predict(*ON_H100, *words)
    assert {part["name"]: part["share"] for part in eight["parts"]}["launching"] > 0.09
    assert eight["with_graph_s"] == []
    assert main(["predict", *ON_H100, *words, "graph=true"]) == 2


@pytest.mark.parametrize("whose", ["", "dgx1-v100:"])
def test_a_larger_batch_with_a_lower_rate_is_said(capsys, whose):
    words = ["predict", "dgx1-p100", "model=alexnet", "batch_size=256", "gpus=8"]
    assert main([*words, f"rate={whose}1024:2000,512:3000"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "batch 1,024 has a lower rate than 512 (2,000 for 3,000)" in said
    assert main([*words, f"rate={whose}1024:2990,512:3000"]) == 0  # as alike as rates are known
    assert "lower rate" not in capsys.readouterr().err


def test_what_mlperf_logs_is_typed_in(tmp_path, capsys):
    log = tmp_path / "result_0.txt"
    log.write_text(':::MLLOG {"key": "run_start", "value": null, "time_ms": 1690000100000}\n')
    assert main(["predict", str(log), "systems=dgx1-p100"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is of MLPerf: when a job began and ended; give what one GPU does as rate=BATCH:IMAGES/S" in said
    assert main(["predict", "systems=dgx1-p100", f"rate={log}"]) == 2
    assert "(rate=32:195,64:219)" in " ".join(capsys.readouterr().err.split())
