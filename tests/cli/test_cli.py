"""The command line as a user meets it: what is printed, and the exit status."""

import functools
import json

import pytest
from msgspec import to_builtins

from tests.cli.run import run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "batch_siez=3"], "batch_siez: no such setting; did you mean batch_size?"),
        (["train", "x=1"], "x: no such setting; did you mean model.x?"),
        (["describe", "width=64"], "width: no such setting; did you mean model.width?"),
        (
            ["train", "model=resnet"],
            "model=resnet: no such model (did you mean resnetx, resnet18 or ",
        ),
        (
            ["train", "model=3"],
            "model=3: no such model; known: alexnet, alexnet32, bert, cifarnet, densenet100 and 11 more "
            "(`resnetx list`)",
        ),
        (["train", "model.y=3"], "model.y: no such setting; model=resnetx has model.x, model.width, model.classes"),
        (["train", "strategy.foo=3"], "strategy.foo: no such setting; strategy=bucket has strategy.bucket_cap_mb,"),
        (
            ["train", "strategy=server", "strategy.divice=gpu"],
            "strategy.divice: no such setting; did you mean strategy.device?",
        ),
        (
            ["train", "strategy=after", "strategy.foo=3"],
            "strategy.foo: no such setting; strategy=after has no settings",
        ),
        (["predict", "overlap.foo=true"], "overlap.foo: no such setting; overlap has overlap.input, overlap."),
        (["train", "gpus=1,2"], "gpus=[1,2]: more than one case"),
        (["train", "gpus=[1,2"], "gpus=[1,2: not of the form key=value"),
        (["train", "+foo=1"], "+foo=1: settings can be changed (key=value), not added or removed"),
        (["train", "~seed"], "~seed: settings can be changed (key=value), not added or removed"),
        (["train", "model.x=[1,4]"], "model.x=[1,4]: more than one case; `resnetx sweep` runs several"),
        (
            ["train", "--fast"],
            "--fast: `resnetx train` has no such flag; it has -q, --json, --all, --dry-run, --cfg, --config-dir",
        ),
        (["train", "--multirun"], "--multirun: not supported; use `resnetx sweep`"),
        (["sweep", "results/x"], "results/x: `resnetx sweep` takes no path"),
        (["describe", "alexnett"], "alexnett: no such file, and no name that is known; did you mean alexnet?"),
        (["predict", "gx8,nosuch"], "nosuch: no such file, and no name that is known"),
        (["predict", "mi300x-8,dgx-h100"], "mi300x-8: no such file, and no name that is known; did you mean mi300x?"),
        (["predict", "h100"], "h100: no such file, and no name that is known; did you mean dgx-h100?"),
        (["predict", "systems=dgx1"], "did you mean dgx1-p100, dgx1-v100 or dgx1-v100-32gb?"),
        (["train", "model=resnet5"], "model=resnet5: no such model (did you mean resnet50?)"),
        (["predict", "dgx1-p10"], "dgx1-p10: no such file, and no name that is known; did you mean dgx1-p100?"),
        (["train", "input.root=/nowhere"], "/nowhere"),
        (["train", "input=synthetic", "batch_size=x"], "batch_size=x: expected a whole number"),
        (["train", "input=synthetic", "gpus=3"], "batch_size=32 does not divide over gpus=3"),
        (["predict", "gx8", "model=alexnet", "gpus=[1,[2]]"], "gpus=[2]: expected a number of GPUs"),
        (["sweep", "study=quickstar"], "did you mean quickstart?"),
        (["describe", "model=torchvision", "model.name=resnet5"], "model.name=resnet5"),
        (
            ["train", "input=synthetic", "model=torchvision", "model.name=resnet51"],
            "model.name=resnet51: no torchvision classifier has that name; did you mean resnet50?",
        ),
        (
            ["train", "input=synthetic", "model=torchvision", "model.name=inception_v3", "image_size=224"],
            "expected a size that it accepts, e.g. image_size=299, the default of inception_v3",
        ),
        (
            ["train", "input=synthetic", "model=torchvision", "model.name=vit_b_16", "image_size=225"],
            "image_size=225: vit_b_16 cannot be built for it",
        ),
        (["train", "model.x=1000000000"], "model.x=1000000000: expected at most 32768"),
        (["describe", "model.x=1000000000"], "model.x=1000000000: expected at most 32768"),
        (["describe", "gpus=[1,1000000000]"], "gpus=1000000000: expected at most 262144"),
        (["describe", "gpus=true"], "gpus=True: expected numbers of GPUs"),
        (["predict", "systems=dgx-h100", "nodes=1000000000"], "nodes=1000000000: expected at most 16384"),
        (["predict", "systems=gx8", "straggler=nan"], "straggler=nan: expected a finite number"),
        (["predict", "systems=gx8", "what_if.latency=inf"], "what_if.latency=inf: expected a finite number"),
        (["predict", "systems=gx8", "what_if.bandwidth={pcie3:nan}"], "what_if.bandwidth.pcie3=nan: expected a finite"),
        (["topology", "systems=gx8", "nodes=1000000000"], "nodes=1000000000: expected at most 16384"),
        (["topology", "systems=gx8", "collective=allreduce", "size=2TiB"], "size=2199023255552: expected at most"),
        (["topology", "systems=gx8", "collective=allreduce", "size=1.2.3"], "size=1.2.3: not a size in B, kB"),
        (["bench", "iterations=1000000000"], "iterations=1000000000: expected at most 10000"),
        (["images", "images.workers=0"], "images.workers=0: expected at least 1"),
        (["images", "~/nowhere/images", "--verify"], "input.root=/home/some one/nowhere/images: no such folder"),
        (["train", "input.root=~/nowhere"], "input.root=/home/some one/nowhere: no such folder"),
        (
            ["describe", "convention=caffee"],
            "convention=caffee: not one of the known values (caffe, torch, conv, saved)",
        ),
        (["describe", "model=alexnet", "image_size=66"], "image_size=66: expected at least 67 for AlexNet"),
        (["describe", "gpus=0"], "gpus=0: expected at least 1"),
        (["images", "images=3"], "images=3: expected a group of settings"),
        (["train", "input=synthetic", "env=3"], "env=3: expected values by name (NAME:VALUE)"),
        (["predict", "gx8", "price=98,32"], "price=[98, 32]: expected a number or values by name (NAME:VALUE)"),
        (["sweep", "input=synthetic", "repeats=[1,2]"], "apply to the whole sweep"),
        (["train", "nofile.json"], "nofile.json: neither a setting (key=value) nor a run file that exists"),
        (["train", "input.root=ünï", "seed=1"], "input.root=ünï: no such folder"),
        (["train", "input.root="], "input.root is empty"),
        (
            ["sweep", "model=[alexnet,googlenet]", "model.x=[1,2]"],
            "model.x: a setting of another model, not of the one chosen here",
        ),
        (["train", "a.json", "b.json"], "b.json: a second run file"),
        (["train", "input=synthetic", "precision=tf32"], "precision=tf32: not on CPUs"),
        (["list", "x=1"], "x: no such setting; it has no settings"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2(capsys, monkeypatch, words, sentence):
    monkeypatch.setenv("HOME", "/home/some one")
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("resnetx: ")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"request.gpus": 0}, "gpus=0: expected at least 1"),
        ({"request.gpus": 3}, "batch_size=32 does not divide over gpus=3"),
        ({"request.batch_size": -32}, "batch_size=-32: expected at least 1"),
        ({"request.model.x": 10**9}, "model.x=1000000000: expected at most 32768"),
        ({"request.seed": -1}, "seed=-1: expected at least 0"),
        ({"request.warmup": 0}, "warmup=0: expected at least 3"),
        ({"request.image_size": 4}, "image_size=4: expected at least 8 for ResNet/8"),
        ({"request.strategy.bucket_cap_mb": 0}, "strategy.bucket_cap_mb=0: expected more than 0"),
        ({"request.devices": [1, 1]}, "devices=[1, 1]: expected 1 different GPU ids"),
        ({"timeout_s": 1e12}, "timeout=1000000000000: expected at most 2592000"),
        ({"timeout_s": -1}, "timeout=-1: expected at least 1"),
        ({"request.env": {"NCCL_NET_PLUGIN": "x.so"}}, "env.NCCL_NET_PLUGIN: not allowed in a file"),
    ],
)
def test_a_run_file_is_held_to_what_the_command_line_is_held_to(capsys, tmp_path, task_of, change, sentence):
    file = tmp_path / "run.json"
    tree = to_builtins(task_of())
    for path, value in change.items():
        *groups, key = path.split(".")
        functools.reduce(dict.__getitem__, groups, tree)[key] = value
    file.write_text(json.dumps(tree))
    status, out, err = run(capsys, "train", str(file))
    assert (status, out) == (2, "")
    assert err.startswith(f"resnetx: {file}: {sentence}")
    assert list(tmp_path.iterdir()) == [file]


def test_a_run_file_of_neither_kind_is_named_in_plain_words(capsys, tmp_path):
    (tmp_path / "run.json").write_text('{"schema": 1, "kind": 5}')
    status, _, err = run(capsys, "train", str(tmp_path / "run.json"))
    assert status == 2
    assert "_Kind" not in err


def test_describe_of_any_depth_shows_alike_blocks_in_one_row(capsys):
    _, deep, _ = run(capsys, "describe", "model.x=300", "batch_size=32")
    (row,) = [line for line in deep.splitlines() if line.startswith("blocks.1 ")]
    assert row.split() == ["blocks.1", "to", "blocks.299", "as", "above", "64x56x56", "359,661,568", "13,817,089",
                           "84,494.8", "54.3", "MB"]  # fmt: skip
    assert "blocks.2 " not in deep
    (last,) = [line for line in deep.splitlines() if line.startswith("all ")]
    assert last.split()[:3] == ["all", f"{1_204_224 * 300 + 1_155_113:,}", f"{46_211 * 300 + 74_857:,}"]


def test_describe_without_words_prints_the_papers_workloads(capsys):
    status, out, _ = run(capsys, "describe")
    assert status == 0
    for figure in ("1,413,348", "60,965,224", "5.9", "11.9", "2,359,337", "121,068", "39,690,281", "1,553,609"):
        assert figure in out
    assert "convention=caffe" in out


def test_describe_prints_one_json_object_per_workload_with_the_stable_names(capsys):
    status, out, _ = run(capsys, "describe", "model.x=[1,16]", "batch_size=64", "gpus=[1,2,3]", "--json")
    first, second = map(json.loads, out.splitlines())
    assert status == 0
    assert (first["workload"], second["workload"]) == ("ResNet/1", "ResNet/16")
    assert second["activations_per_image"] == 1_204_224 * 16 + 1_155_113
    assert second["parameters"] == 46_211 * 16 + 74_857
    assert second["activations_per_batch"] == 64 * second["activations_per_image"]
    assert second["intensity"] == pytest.approx(second["activations_per_batch"] / second["parameters"])
    assert second["intensity_per_gpu"] == pytest.approx({str(n): second["intensity"] / n for n in (1, 2, 3)})
    assert second["payload_bytes"] == 4 * second["parameters"]
    assert {"convention", "batch_size", "gradient_bytes", "flops_per_image"} <= set(second)


@pytest.mark.parametrize(
    ("words", "least"), [(["batch_size=64", "convention=conv"], "0.0065"), (["batch_size=[2,64]"], "0.00026")]
)
def test_describe_rounds_no_figure_to_nothing(capsys, words, least):
    _, out, _ = run(capsys, "describe", "model=mlpx", *words)
    figures = [word.rstrip(".,") for word in out.split()]
    assert least in figures and "0.0" not in figures


def test_describe_of_one_workload_lists_its_layers(capsys):
    status, out, _ = run(capsys, "describe", "model.x=1", "batch_size=16")
    assert status == 0
    assert out.count("conv") >= 4
    assert "2,359,337" in out
    assert "121,068" in out


def test_list_names_models_and_studies(capsys):
    status, out, _ = run(capsys, "list")
    assert status == 0
    for name in ("resnetx", "alexnet", "googlenet", "torchvision", "quickstart", "paper"):
        assert name in out
    assert "so that verdicts have intervals" not in out
    assert "so that verdicts have intervals" in run(capsys, "list", "studies")[1]


def test_without_a_verb_the_verbs_are_listed(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert all(verb in out for verb in ("describe", "images", "train", "sweep", "doctor", "list"))


def test_values_with_quotes_blanks_and_brackets_reach_the_configuration():
    from resnetx.cli.words import settings_of
    from resnetx.compose import compose

    for value in ("a b", "it's", 'say "x"', "a[1],b", "back\\slash", "ends\\", "a=b", "C:\\'", "ünïcode", "1e3"):
        assert compose({"input.root": value})["input"]["root"] == value
    assert settings_of(["input.root='a b'"]) == {"input.root": "a b"}
