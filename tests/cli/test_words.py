"""Lists and maps without brackets, words that shells take apart, and what users of other programs type."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx.cli import _as_typed, main
from resnetx.cli.words import as_settings, names_as_settings, settings_of
from resnetx.compose import asked, ours
from resnetx.errors import ConfigError
from resnetx.settings.files import CONFIGS
from resnetx.settings.setting_types import as_typed

SHELLS = [pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell), reason=f"no {shell} here"))
          for shell in ("bash", "zsh", "fish")]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("gpus=1,2,4,8", [1, 2, 4, 8]),
        ("gpus=[1,2,4,8]", [1, 2, 4, 8]),
        ("gpus=1..4", [1, 2, 3, 4]),
        ("gpus=1,2,4..6", [1, 2, 4, 5, 6]),
        ("gpus=8..8", [8]),
        ("gpus=1-4", [1, 2, 3, 4]),
        ("size=1MiB..8MiB", ["1MiB", "2MiB", "4MiB", "8MiB"]),
        ("size=8,3001..7000", [8, 3001, 6002]),
        ("systems=dgx1-p100,gx8", ["dgx1-p100", "gx8"]),
        ("systems=gx8", "gx8"),
        ("systems=./mine.yaml,gx8", ["./mine.yaml", "gx8"]),
        ("size=4KiB,4MiB", ["4KiB", "4MiB"]),
        ("devices=0..3", [0, 1, 2, 3]),
        ("devices=0", [0]),
        ("receivers=7", 7),
        ("devices=0+1,2+3", [[0, 1], [2, 3]]),
        ("devices=0+1", [[0, 1]]),
        ("rate=32:195,64:219", {"32": 195, "64": 219}),
        ("rate={32:195,64:219}", {"32": 195, "64": 219}),
        ("rate=32:195", {"32": 195}),
        ("rate=195", 195),
        ("what_if.bandwidth=pcie3:2", {"pcie3": 2}),
        ("env.NCCL_ALGO=Ring,Tree", "Ring,Tree"),
        ("env.NCCL_P2P_DISABLE=[0,1]", [0, 1]),
        ("env.NCCL_IB_HCA=mlx5_0:1,mlx5_1:1", "mlx5_0:1,mlx5_1:1"),
        ("env.NCCL_IB_HCA=^=mlx5_0", "^=mlx5_0"),
        ("env.PYTORCH_CUDA_ALLOC_CONF=a:True,b:2", "a:True,b:2"),
        ("input.root=/data/a,b", "/data/a,b"),
        ("input.root=[/data/a,/data/b]", ["/data/a", "/data/b"]),
        ("input.stage=/data/a,b", "/data/a,b"),
        ("results=a,b", "a,b"),
        ("out=a,b", "a,b"),
        ("out=~/a,b", str(Path("~/a,b").expanduser())),
        ("out=/data/josé/a", "/data/josé/a"),
        ("results=/tmp/名前", "/tmp/名前"),
        ("systems=ünïcode.yaml,gx8", ["ünïcode.yaml", "gx8"]),
        ("model.file=ä.py", "ä.py"),
        ("publish=a,b", "a,b"),
        ("calibration=a,b", ["a", "b"]),
        ("rate=a:b", "a:b"),
        ("rate=a:1", {"a": 1}),
        ("rate=dgx1-v100:32:195,64:219", {"dgx1-v100": {"32": 195, "64": 219}}),
        ("rate=./a.yaml:7,dgx2:8:9", {"./a.yaml": 7, "dgx2": {"8": 9}}),
        ("rate=dgx2:32:195,32:210", [{"dgx2": {"32": 195}}, {"dgx2": {"32": 210}}]),
        ("rate=32:b", "32:b"),
        ("rate=results/a,b", "results/a,b"),
        ("strategy=bucket,after", ["bucket", "after"]),
    ],
)
def test_lists_and_maps_need_no_brackets(word, value):
    assert list(settings_of([word]).values()) == [value]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("out=1..8", "1..8"),  # a folder may be called so
        ("rendezvous=10.1.0.1:29500", "10.1.0.1:29500"),
        ("nic=connectx-7-ndr:2", "connectx-7-ndr:2"),
        ("rate=results/a:b/c", "results/a:b/c"),
        ("model.name=a+b", "a+b"),
        ("out='a,b'", "a,b"),
        ("workload='8..1'", "8..1"),
        ("results=inf", "inf"),
        ("results=1e5", "1e5"),
        ("controls=false", "false"),
    ],
)
def test_text_stays_text(word, text):
    assert list(settings_of([word]).values()) == [text]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gpus=1,"], "gpus=1,: nothing beside a comma; write a list as one word, gpus=A,B"),
        (["gpus=8..1"], "expected a range upwards"),
        (["gpus=1..99999999"], "expected a range upwards of at most 10,000 numbers"),
        (["gpus=8-1"], "expected a range upwards"),
        (["size=1GiB..1MiB"], "size=1GiB..1MiB: expected a range upwards, as 1MiB..1GiB"),
        (["size=1MiB..x"], "a range is 1MiB..1GiB"),
        (["rate=32:195", "rate=64:219"], "rate is given twice; several values are one word, rate=32:195,64:219"),
        (["what_if.bandwidth=pcie3:2", "what_if.bandwidth=nvlink:2"], "is given twice; several values are one word"),
        (["env.OMP_PLACES={0:4},{4:4}"], "write several values as env.OMP_PLACES=[A,B], or a text in quotes"),
        (["gpus=[1],[2]"], "write several values as gpus=A,B"),
        (["gpus=[1,2"], "a bracket is not closed: write a list as one word, gpus=A,B"),
    ],
)
def test_a_list_that_is_none_is_refused_with_how_it_is_written(words, sentence):
    with pytest.raises(ConfigError) as refused:
        settings_of(words)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["gpus=1", "seed=1", "gpus=2"], {"gpus": 2, "seed": 1}),
        (["gpus=1", "gpus=2"], {"gpus": 2}),
        (["gpus=1", "gpus=1"], {"gpus": 1}),
        (["gpus=1", "gpus=2,4"], {"gpus": [2, 4]}),
        (["rate=195", "rate=32:219"], {"rate": {"32": 219}}),
        (["what_if.bandwidth=null", "what_if.bandwidth=pcie3:2"], {"what_if.bandwidth": {"pcie3": 2}}),
    ],
)
def test_of_a_setting_that_is_given_twice_the_last_word_counts(words, settings):
    """As in `"$@"` behind defaults."""
    assert settings_of(words) == settings


def test_a_key_that_comes_again_begins_another_map():
    word = "rate=32:195,64:219,32:210"
    assert settings_of([word], "predict") == {"rate": [{"32": 195, "64": 219}, {"32": 210}]}


def test_settings_as_people_type_them_are_read_as_the_same():
    words = (
        "systems=gx8,dgx2 gpus=1,2 devices=0+1,0+5 rate=gx8:32:195,64:219,dgx2:64:400 what_if.latency=0.5 graph=true"
    )
    settings = settings_of(words.split(), "predict")
    assert " ".join(as_typed(settings)) == words
    assert "devices=0+1" in as_typed({"devices": [0, 1]})


def test_several_values_may_stand_in_quotes_but_a_number_and_its_unit_are_one():
    words = ["gpus=1 2  4", "systems=gx8, dgx2", "host_step=20 us"]
    assert [*settings_of(words, "predict").values()] == [[1, 2, 4], ["gx8", "dgx2"], "20 us"]


def test_a_comma_is_one_in_a_text_of_which_a_verb_takes_one():
    """One file calibrates a topology, several a prediction."""
    assert settings_of(["calibration=a,b"], "topology") == {"calibration": "a,b"}
    assert settings_of(["calibration=a,b"], "predict") == {"calibration": ["a", "b"]}


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["predict", "systems=[gx8,", "dgx1-p100]"], ["systems=[gx8,dgx1-p100]"]),
        (["predict", "gpus=1", ",", "2"], ["gpus=1,2"]),
        (["predict", "gpus=1", ",2", "graph=true"], ["gpus=1,2", "graph=true"]),
        (["predict", "systems=gx8,", "dgx1-p100"], ["systems=gx8,dgx1-p100"]),
        (["predict", "--systems", "gx8", "mine/trace"], ["systems=gx8", "mine/trace"]),
        (["train", "--batch-size", "32", "--dry-run"], ["batch_size=32", "--dry-run"]),
        (["train", "--batch-size=32", "--graph", "model.x=4"], ["batch_size=32", "graph=true", "model.x=4"]),
        (["train", "--gpus"], ["--gpus"]),  # refused, with what is missing
        (["train", "--fast", "2"], ["--fast", "2"]),
        (["compare", "--all", "a", "b"], ["--all", "a", "b"]),
    ],
)
def test_words_as_people_type_them_are_the_settings_that_they_stand_for(words, settings):
    assert as_settings(words) == [words[0], *settings]


@pytest.mark.parametrize(
    ("verb", "words", "settings"),
    [
        ("predict", ["gx8,dgx2", "resnet50"], ["systems=gx8,dgx2", "model=resnet50"]),
        ("sweep", ["quickstart"], ["study=quickstart"]),
        ("check", ["gx8"], ["systems=gx8"]),
        ("predict", ["GX8 dgx2", "resnet50"], ["systems=gx8,dgx2", "model=resnet50"]),
    ],
)
def test_a_name_is_a_setting_where_no_file_has_it(verb, words, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names_as_settings(verb, words, []) == ([], settings)
    (tmp_path / words[-1]).mkdir()
    assert names_as_settings(verb, words, [])[0] == words[-1:]


@pytest.mark.parametrize("words", [["mine.yaml,gx8"], ["mine.yaml", "gx8"]])
def test_the_file_of_a_system_needs_no_setting(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text((CONFIGS / "system/dgx1-p100.yaml").read_text())
    assert main(["compare", *words, "model=alexnet", "batch_size=256", "gpus=1,2"]) == 0
    assert "mine / gx8" in capsys.readouterr().out


def test_a_collective_and_its_sizes_are_words_of_topology(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left, settings = names_as_settings("topology", ["DGX2", "all-reduce,broadcast", "1MiB..64MiB"], [])
    assert (left, settings) == (["dgx2"], ["collective=all-reduce,broadcast", "size=1MiB..64MiB"])


def test_pairs_of_a_map_may_have_another_equals_sign(capsys):
    assert as_settings(["predict", "rate=32=195,64=219", "price=gx8=8"]) == [
        "predict",
        "rate=32:195,64:219",
        "price=gx8:8",
    ]
    assert "rate=32=195,64=219: taken as rate=32:195,64:219" in capsys.readouterr().err
    assert as_settings(["predict", "rate=a=b", "model.file=a=b.py"]) == ["predict", "rate=a=b", "model.file=a=b.py"]


def test_the_names_of_one_kind_are_listed_alone(capsys):
    assert main(["list", "systems"]) == 0
    out = capsys.readouterr().out
    assert "gx8" in out and "strategy" not in out
    assert main(["list", "things"]) == 2


def test_a_classifier_is_a_model_by_its_name():
    assert asked("describe", {"model": "resnet50"}) == {"model": "torchvision", "model.name": "resnet50"}
    several = asked("describe", {"model": ["alexnet", "vgg16", "resnet50"]})
    assert several == {"model": ["alexnet", "torchvision"], "model.name": ["vgg16", "resnet50"]}


@pytest.mark.parametrize(
    ("words", "taken", "typed"),
    [
        (["train", "gpus=1", "gpus=2"], ["gpus=1", "gpus=2"], ["gpus=1", "gpus=2"]),
        (["report", "--config-dir", "a", "a"], ["a"], ["a"]),
        (["report", "--json", "b", "a", "--x", "b"], ["b", "a", "b", "--x"], ["b", "a", "--x", "b"]),
        (["report", "report"], ["report"], ["report"]),
    ],
)
def test_words_that_argparse_leaves_are_those_that_were_typed(words, taken, typed):
    assert _as_typed(words, taken) == typed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "--gpus"], "write gpus=VALUE"),
        (["--gpus", "2", "train"], "invalid|no such verb|gpus"),
        (
            ["predict", "systems=gx8", "gpus=16"],
            "gpus=16: gx8 has 8 GPUs, and no network card is described that would join",
        ),
        (["predict", "systems=gx8", "devices=0,9"], "devices=0,9: gx8 has 8 GPUs, 0 to 7"),
        (["lab", "systems=gx8", "scale=100", "bench"], "bench: put -- before it"),
        (["gx8"], "gx8: no such verb; it is a system: resnetx topology gx8, or resnetx predict gx8 model=resnet50"),
        (["cpu-host"], "cpu-host: no such verb; it is a system: resnetx topology cpu-host\n"),
        (["python"], "it is a model of a file of your own: resnetx predict gx8 model=python model.file=ours.py"),
        (["AlexNet"], "AlexNet: no such verb; it is a model: resnetx describe alexnet, or resnetx predict dgx-h100"),
        (["quickstart"], "quickstart: no such verb; it is a study: resnetx sweep quickstart"),
        (["--json", "frobnicate"], "frobnicate: no such verb; `resnetx --help` lists the verbs"),
        (["predict", "gx8:", "model=alexnet"], "gx8:: no such file, and no name that is known; did you mean gx8?"),
        (["predict", "gx8", "model:alexnet"], "model:alexnet: a setting is written with =: model=alexnet"),
        (["predict", "dgx"], "dgx: no such file, and no name that is known; did you mean dgx2, dgx-a100 or "),
        (["predict", "-q"], "systems: none is given; expected names or files of systems, as systems=dgx1-p100,gx8"),
        (
            ["predict", "gx8", "accumulate=3"],
            "accumulate=3: batch_size=32 does not divide over gpus=1 in so many parts each; use batch_size=24 or 48",
        ),
        (
            ["predict", "sli-rtx2080", "batch_size=3"],
            "does not divide over gpus=2: the global batch is split evenly; use batch_size=2 or 4",
        ),
        (
            ["predict", "dgx1-v100", "model=bert", "batch_size=32", "compile=default", "gpus=4"],
            "measure one GPU with "
            "`resnetx train model=bert precision=fp32 compile=default gpus=1 batch_size=8`, and add its sequences/s by "
            "batch: rate=8:195",
        ),
        (["topology", "a100-ib", "nodes=4", "nics=4"], "a100-ib: nics=4: a100-ib has 1 network card in each node"),
        (["steer", "this"], "`resnetx topology --this out=mine.yaml` writes this one's"),
        (["sweep", "budget=2", "hours"], "budget=2 hours: a value with a blank is in quotes: budget='VALUE'"),
        (["sweep", "nope"], "nope: no such file, and no name that is known; `resnetx list` has the names"),
        (["explain", "docs"], "docs: contains no record of resnetx; expected the folder of a run, a study, a bench, "),
        (["trace", "x", "--imprt"], "--imprt: `resnetx trace` has no such flag; it has -q, --json, --all"),
        (["sweep", "twins=[]"], "twins=[]: expected a whole number, 0 for none"),
        (["predict", "gx8", "systems=dgx1-p100", "gpus=1"], "gx8: systems= is given, too"),
        (["bench", "size=64Q"], "not a size in B, kB"),
        (["topology", "gx8", "size=nan"], "size=nan: expected a size, e.g. 64MiB"),
        (["topology", "new", "like=nosuch"], "like=nosuch: no system has that name"),
        (["topology", "gx8", "pick=1"], "pick=1: expected at least 2\n"),
        (["topology", "gx8", "pick=2", "free=0"], "free=[0]: expected two GPUs of gx8 or more"),
        (["predict", "gx8", "alexnet", "memory=16"], "memory=16: expected at least 1000000 B, e.g. 16GB"),
        (["predict", "gx8", "alexnet", "memory=1.5"], "memory=1.5: expected a size, e.g. 16GB"),
        (["predict", "gx8", f"gpus={'9' * 300}"], "more than 40 digits"),  # longer than a file's name may be
        (["predict", "gx8", "staged=true", "gpus=1,2"], "staged=true: not one of the known values (shared, per-gpu)"),
        (["predict", "gx8", "batch_size=64", "bs=32"], "bs=32: batch_size= is given, too; leave one out"),
        (["predict", "gx8", "--bs", "32", "--batch-size", "64"], "--bs: batch_size= is given, too; leave one out"),
        (["predict", "gx8", "num_gpus=4", "gpu=2"], "gpu=2: num_gpus= is given, too; leave one out"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(words, sentence, capsys):
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert any(part in shown for part in sentence.split("|"))
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "hgx-a100-4", "batch_size=4"],  # of 4 GPUs: 8, which nobody asked for, refuse no batch
        ["topology", "this"],
    ],
)
def test_what_can_be_answered_is_not_refused(words, capsys):
    assert main([*words, "-q"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--systems", "gx8", "--batch-size=64", "gpus=1-2"],
        ["systems=[", "gx8]", "batch_size=64", "gpus=[1,", "2]"],
        ["GX8", "batch=64", "gpu=1,2"],
        ["system=gx8", "model=AlexNet", "batch-size=64", "gpus=1,2"],
        ["--bs", "64", "world_size=1,2", "gx8", "dtype=float32"],
    ],
)
def test_what_has_one_meaning_only_is_taken(words, capsys):
    assert main(["predict", "gx8", "model=alexnet", "batch_size=64", "gpus=1,2"]) == 0
    wanted = capsys.readouterr().out
    assert main(["predict", *["model=alexnet"] * ("model=AlexNet" not in words), *words]) == 0
    shown = capsys.readouterr()
    assert shown.out == wanted
    assert ("--systems gx8: taken as systems=gx8" in shown.err) == (words[0] == "--systems")


@pytest.mark.parametrize("verb", ["predict", "lab"])
def test_a_path_that_names_a_system_is_one(verb, capsys, tmp_path, monkeypatch):
    """As for topology, which takes names and files in one place."""
    monkeypatch.chdir(tmp_path)
    assert main([verb, "gx8"]) == 0
    named = capsys.readouterr().out
    assert main([verb, "systems=gx8"]) == 0
    assert capsys.readouterr().out == named
    assert "gx8" in named


@pytest.mark.parametrize("words", [["dgx1-p100", "gx8"], ["dgx1-p100,gx8"]])
def test_two_systems_are_compared_by_their_names(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *words, "model=alexnet", "batch_size=256", "gpus=1,2"]) == 0
    assert "dgx1-p100 / gx8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "theirs", "name"),
    [
        ("collective", "all_reduce", "allreduce"), ("collective", "all-reduce", "allreduce"),
        ("collective", "allReduce", "allreduce"), ("collective", "AllReduce", "allreduce"),
        ("collective", "all_gather", "allgather"), ("collective", "all_to_all", "alltoall"),
        ("collective", "reducescatter", "reduce_scatter"), ("collective", "reduce-scatter", "reduce_scatter"),
        ("collective", "ReduceScatter", "reduce_scatter"), ("collective", "send_recv", "sendrecv"),
        ("collective", "all_gather_into_tensor", "allgather"), ("collective", "bcast", "broadcast"),
        ("collective", ["all_reduce", "broadcast"], ["allreduce", "broadcast"]),
        ("precision", "float32", "fp32"), ("precision", "bfloat16", "bf16"), ("dtype", "half", "fp16"),
        ("copy", "d2h", "to-host"), ("copy", "H2D", "from-host"), ("copy", "p2p", "device"),
        ("strategy", "DDP", "bucket"), ("strategy", "zero-3", "fsdp"), ("strategy", "fsdp2", "fsdp"),
        ("copy", "fan-out", "fan-out"), ("collective", "nothing", "nothing"), ("out", "d2h", "d2h"),
        ("collective", None, None), ("gpus", 2, 2),
    ],
)  # fmt: skip
def test_the_words_of_other_programs_are_taken_for_ours(key, theirs, name):
    assert ours(key, theirs) == name


@pytest.mark.parametrize("shell", SHELLS)
def test_a_list_reaches_a_program_through_a_shell_as_it_was_typed(shell):
    line = (
        f"{sys.executable} -c 'import sys; print(*sys.argv[1:])' gpus=1,2 gpus=1..8 rate=32:195,64:219 devices=0+1,2+3"
    )
    ended = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == line.split()[-4:]


@pytest.mark.parametrize(
    ("verb", "word", "setting"),
    [
        ("train", "bs=32", "batch_size=32"),
        ("train", f"bs={'9' * 300}", f"batch_size={'9' * 300}"),  # longer than a file's name may be
        ("train", "dtype=bf16", "precision=bf16"),
        ("bench", "dtype=bf16", "dtype=bf16"),
        ("train", "num_workers=4", "input.threads=4"),
        ("train", "lr=0.1", "optimizer.learning_rate=0.1"),
        ("train", "world-size=2", "gpus=2"),
        ("predict", "models=alexnet,googlenet", "model=alexnet,googlenet"),
        ("predict", "machine=gx8", "systems=gx8"),
        ("sweep", "repeat=3", "repeats=3"),
        ("sweep", "runs=3", "repeats=3"),
        ("bench", "op=allreduce", "collective=allreduce"),
        ("topology", "bytes=64MiB", "size=64MiB"),
        ("train", "epochs=3", "epochs=3"),
    ],
)
def test_what_other_programs_call_a_setting_is_taken_with_a_note(capsys, verb, word, setting):
    assert as_settings([verb, word]) == [verb, setting]
    assert (f"{word}: taken as {setting}" in capsys.readouterr().err) == (word != setting)


def test_from_python_a_name_of_other_programs_is_refused_with_ours():
    with pytest.raises(ConfigError, match=r"^bs: not a setting of `resnetx predict`; did you mean batch_size\?$"):
        asked("predict", {"bs": 256})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["describe", "gx8"], "gx8: a system, which `resnetx describe` does not take; write resnetx topology gx8"),
        (
            ["topology", "alexnet"],
            "alexnet: a model, which `resnetx topology` does not take; write resnetx describe al",
        ),
        (["report", "dgx1-v10"], "dgx1-v10: no such file, and no name that is known; did you mean dgx1-v100"),
        (["predict", "gx8", "alexnet", "256"], "256: a number of what? write batch_size=256 or gpus=256"),
        (["train", "nproc_per_node=2", "nodes=2"], "nproc_per_node: no such setting"),  # of each node; gpus= is of all
        (["train", "fp16=true"], "fp16: no such setting; see `resnetx train --help`"),
    ],
)
def test_a_word_of_another_verb_or_without_a_key_is_refused_with_the_line_to_type(capsys, words, sentence):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"resnetx: {sentence}")


def test_mixed_precision_is_a_precision(capsys):
    assert main(["train", "amp=true"]) == 2
    said = "amp=true: taken as precision=true\nresnetx: precision=true: not one of the known values (fp32, "
    assert capsys.readouterr().err.startswith(said)


def test_help_has_defaults_without_brackets(capsys):
    assert main(["predict", "--help"]) == 0
    assert "\ngpus=1,2,4,8 " in capsys.readouterr().out
