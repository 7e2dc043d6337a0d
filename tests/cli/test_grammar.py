"""Which settings a verb has: help lists them, completion offers them, and whatever else is given is refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from resnetx.cli import main
from resnetx.config import RunSettings
from resnetx.errors import allowed
from resnetx.launching import Launch
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.files import names, settings
from resnetx.settings.setting_types import values
from resnetx.settings.table import TABLE, tagged
from resnetx.settings.verbs import VERBS, reads, refuse_unread
from tests.cli.run import run

# ---- what is not read is refused ------------------------------------------------------------------------------------

# What changes an experiment, or a prediction: ignored, it would give the answer to another question.
FOREIGN = {
    "describe": ["pick=3", "straggler=7", "input=synthetic", "scaling=weak", "results=x"],
    "images": ["batch_size=3", "input.recipe=paper", "gpus=2"],
    "train": ["library=nccl2", "network=hdr200", "memory=1MB", "systems=[gx8]", "gradients=bf16",
              "straggler=3", "study=paper", "repeats=2", "budget=1h", "baseline=2", "iterations=3"],
    "sweep": ["library=[nccl1,nccl2]", "network=hdr200", "iterations=3", "pick=2"],
    "verify": ["windows=3", "warmup=9", "measure=step", "tracker=wandb", "transport=host"],
    "trace": ["measure=step", "windows=3", "repeats=2", "systems=gx8"],
    "bench": ["batch_size=3", "input=synthetic", "library=gloo", "pick=2", "steps=3"],
    "check": ["clock=1227", "repeats=2", "collective=allreduce", "strategy=after", "transport=host", "library=nccl2"],
    "topology": ["batch_size=3", "model=alexnet", "clock=1227"],
    "predict": ["repeats=3", "pick=2", "size=1MiB", "collective=allreduce", "warmup=3"],
    "compare": ["results=x", "repeats=3", "pick=2"],
    "explain": ["gpus=2", "model=alexnet"],
    "report": ["gpus=2", "model=alexnet"],
    "reproduce": ["gpus=2", "study=paper", "library=nccl1"],
    "doctor": ["gpus=2", "input.recipe=paper", "strategy=after"],
    "lab": ["batch_size=3", "lab.system=gx8", "results=x"],
    "steer": ["gpus=2", "size=1MiB", "network=x", "collective=allreduce"],
    "list": ["gpus=2"],
}  # fmt: skip


@pytest.mark.parametrize(("verb", "word"), [(verb, word) for verb, words in FOREIGN.items() for word in words])
def test_every_verb_refuses_the_settings_that_it_does_not_read(capsys, verb, word):
    status, out, err = run(capsys, verb, word)
    assert (status, out) == (2, "")
    assert f"{word.partition('=')[0]}: not a setting of `resnetx {verb}`" in err
    assert err.count("\n") == 1


def test_every_verb_is_tried():
    assert FOREIGN.keys() == VERBS.keys()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "calibration=x"], "(it belongs to compare, topology and predict); see `resnetx train --help`"),
        (["doctor", "gpus=2"], "see `resnetx doctor --help`"),
        (["images", "input.foo=1"], "input.foo: no such setting; it has images and input.root"),
        (["report", "basline=2"], "basline: no such setting; did you mean baseline?"),
        (["describe", "frobnicate=1"], "frobnicate: no such setting; see `resnetx describe --help`"),
        (["trian"], "trian: no such verb; did you mean train?"),
        (["frobnicate"], "frobnicate: no such verb; `resnetx --help` lists the verbs"),
        (["train", "batch_size", "=", "8"], "batch_size =: write a setting without spaces: batch_size=VALUE"),
        (["train", "batch_size=", "8"], "batch_size= 8: write a setting without spaces: batch_size=VALUE"),
        (
            ["train", "--resolve"],
            "--resolve: `resnetx train` has no such flag; it has -q, --json, --all, --dry-run, --cfg",
        ),
        (["train", "--cfg", "hydra"], "--cfg hydra: expected --cfg job"),
        (["train", "--cfg"], "argument --cfg/-c: expected one argument"),
        (["-sc", "bogus"], "--shell-completion bogus: expected install=bash, install=zsh or install=fish"),
        (["train", "foo=1", "--cfg", "job"], "foo: no such setting"),
        (["train", "--config-dir", "/nowhere"], "--config-dir /nowhere: no such folder"),
        (["bench", "--import", "--dry-run", "bench.txt"], "--import --dry-run: expected one of them"),
        (["bench", "collective=5xs", "--dry-run"], "collective=5xs: no collective has that name"),
        (["bench", "gpus=1", "--dry-run"], "gpus=1: one rank has no peer"),
        (["predict", "gx8", __file__], "a program, and no trace; a model that it builds is model=python model.file="),
        (["bench", "gpus=2", "lab.system=gx9", "--dry-run"], "lab.system=gx9: no system has that name"),
        (["train", "gpus=16", "lab.system=gx8", "input=synthetic", "--dry-run"], "gpus=16: gx8 in the lab has 8 ranks"),
        (["train", "--dry-run", "--cfg", "job"], "--dry-run --cfg: expected one of them"),
        (["sweep", "--json", "--dry-run"], "--dry-run --json: --dry-run shows no record; leave one of them out"),
    ],
)
def test_what_is_mistyped_gets_one_sentence(capsys, words, sentence):
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_the_settings_of_runs_are_those_of_their_request():
    kept = {*RunSettings.__struct_fields__, *tagged("launch")} - {"launch"}
    assert set(VERBS["sweep"].settings) == {*Request.__struct_fields__, *kept, "study"}
    assert set(VERBS["train"].settings) < set(VERBS["sweep"].settings)
    for kind in (Request, RunSettings, Launch):
        for field in set(kind.__struct_fields__) & set(TABLE):
            words = {word for word in values(TABLE[field].type) if isinstance(word, str)}
            choices = TABLE[field].choices
            assert {*allowed(kind, [field, "kind"] if choices else [field])} - {"equality"} == words | {*choices}, field


def test_a_default_has_the_type_of_its_setting():
    for row in TABLE.values():
        for verb, default in {"": row.default, **row.own}.items():
            if row.type is not None and not (isinstance(default, list) and (row.axis or row.several)):
                assert msgspec.convert(default, row.type_for(verb)) == default, row.name


def test_what_a_verb_reads_as_a_struct_has_no_axes_but_lists_of_what_it_takes_several_of():
    assert keywords.BenchFields.__annotations__["gpus"] == list[int | None]
    assert not {"model", "strategy", "study"} & set(keywords.BenchFields.__struct_fields__)
    assert keywords.TopologyFields.__annotations__["library"] == list[str | None]
    assert keywords.TopologyNewFields.__annotations__["library"] == str | None
    assert set(keywords.PredictKeywords.__annotations__) == {key.partition(".")[0] for key in VERBS["predict"].settings}
    with pytest.raises(AttributeError, match="no attribute 'ListFields'"):
        _ = keywords.ListFields


@pytest.mark.slow
def test_every_setting_is_read_by_a_verb_and_explained():
    assert [name for name in names() if not any(reads(verb.settings, name) for verb in VERBS.values())] == []
    for verb, found in VERBS.items():
        for own in found.settings:
            assert any(reads([own], name) or own == name for name in names()), (verb, own)
    plain = {"learning_rate", "momentum", "weight_decay"}  # a group says what they are
    silent = [each.name for each in settings() if each.default and not each.about]
    assert [name for name in silent if name.rpartition(".")[2] not in plain] == []


def test_every_verb_has_a_function_on_the_command_line():
    for verb in VERBS.values():
        assert callable(verb.command)


# ---- help, completion, --cfg ----------------------------------------------------------------------------------------


def test_the_help_of_a_verb_lists_its_own_settings_within_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("resnetx.cli.width_of", lambda stream: 80)
    shown = {}
    for verb in ("train", "topology", "images"):
        assert main([verb, "--help", "--all"]) == 0
        shown[verb] = capsys.readouterr().out
    assert "batch_size=32 " in shown["train"]
    assert (
        "model=resnetx alexnet | alexnet32 | bert | cifarnet | densenet100 | densenet40 | googlenet | gptx |"
        in " ".join(shown["train"].split())
    )
    assert "pick=" not in shown["train"]
    assert "pick=null " in shown["topology"]
    assert "batch_size" not in shown["topology"]
    assert "input.root=data/images" in shown["images"]
    assert "input.decoder" not in shown["images"]
    assert max(map(len, "\n".join(shown.values()).splitlines())) <= 80


def completed(line):
    """What argcomplete offers for a line that bash is completing."""
    program = "import resnetx.cli; resnetx.cli.main()"
    asking = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:",
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asking}, capture_output=True, text=True, check=False
    )
    return ended.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("resnetx tr", {"train", "trace"}),
        ("resnetx train model=res", {"resnet110", "resnet20", "resnetx"}),
        ("resnetx bench pattern=h", {"halo", "host-stream"}),
        ("resnetx train precision=b", {"bf16"}),
        ("resnetx train win", {"windows="}),
        ("resnetx topology win", set()),
        ("resnetx predict timeline=", {"true", "false"}),
        ("resnetx topology systems=[gx8,dgx1", {r"\[gx8,dgx1-p100", r"\[gx8,dgx1-v100", r"\[gx8,dgx1-v100-32gb"}),
        ("resnetx predict rate=gx", {"gx8:"}),
        ("resnetx sweep study=pa", {"paper", "paper-alexnet-googlenet", "paper-resnetx"}),
        ("resnetx predict gx8,dgx1-p", {"gx8,dgx1-p100"}),
        ("resnetx predict gx8 vgg11", {"vgg11", "vgg11_bn"}),
        ("resnetx predict systems=gx8,dgx1-p", {"gx8,dgx1-p100"}),
        ("resnetx topology new like=mi3", {"mi300x"}),
    ],
)
def test_the_shell_completes_verbs_settings_and_values(line, offered):
    assert set(completed(line)) == offered


def test_the_completion_of_a_shell_is_one_line_to_install(capsys):
    status, out, _ = run(capsys, "-sc", "install=bash")
    assert status == 0
    assert "complete " in out
    assert "resnetx" in out


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here")
def test_a_zsh_that_has_not_begun_to_complete_begins_with_it(capsys, tmp_path):
    script = run(capsys, "-sc", "install=zsh")[1]
    words = ["zsh", "-f", "-c", f"{script}\nprint $_comps[resnetx]"]
    ended = subprocess.run(
        words, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("_resnetx\n", "")


def test_the_configuration_of_a_command_has_what_the_verb_reads(capsys):
    import yaml

    status, out, _ = run(capsys, "train", "model=alexnet", "batch_size=256", "--cfg", "job")
    assert status == 0
    found = yaml.safe_load(out)
    assert (found["model"]["kind"], found["batch_size"]) == ("alexnet", 256)
    assert "systems" not in found
    status, out, _ = run(capsys, "sweep", "--cfg", "job", "study=quickstart")
    assert status == 0
    points = list(yaml.safe_load_all(out))
    assert [(point["model"]["kind"], point["gpus"]) for point in points] == [("resnetx", 1), ("resnetx", 2)]


# ---- models and inputs of the user's own ----------------------------------------------------------------------------


@pytest.fixture
def own_folder(tmp_path):
    folder = tmp_path / "it's mine"
    (folder / "model").mkdir(parents=True)
    (folder / "model/small.yaml").write_text("kind: resnetx\nx: 3\nwidth: 32  # of mine\nclasses: 10\n")
    (folder / "input").mkdir()
    (folder / "input/disk.yaml").write_text(Path("configs/input/dali.yaml").read_text().replace("null ", "3 "))
    return folder


def test_a_setting_that_a_choice_of_ones_own_has_not_is_told_with_its_file_and_line(capsys, own_folder):
    (own_folder / "model/small.yaml").write_text("kind: resnetx\nx: 3\nwidht: 32\n")
    status, _, err = run(capsys, "describe", "--config-dir", str(own_folder), "model=small", "batch_size=8")
    sentence = "small.yaml, line 3: widht: no such setting; model=resnetx has kind, x, width, classes"
    assert (status, sentence in " ".join(err.split())) == (2, True), err
    (own_folder / "input/disk.yaml").write_text("kind: synthetic\n")  # all that it needs
    (own_folder / "model/small.yaml").write_text("kind: alexnet\nclasses: 10\n")  # lrn is as usual
    words = ["--config-dir", str(own_folder), "model=small", "input=disk", "batch_size=8", "--cfg", "job"]
    assert run(capsys, "train", *words)[0] == 0


def test_models_and_inputs_of_the_users_own_are_choices_like_any_other(capsys, own_folder):
    words = ["--config-dir", str(own_folder), "model=small", "batch_size=8"]
    status, out, _ = run(capsys, "describe", *words, "--json")
    assert status == 0
    assert '"workload":"ResNet/3 width 32"' in out
    status, out, _ = run(capsys, "train", *words, "input=disk", "model.width=16", "--cfg", "job")
    assert status == 0
    assert "width: 16" in out
    assert "threads: 3" in out
    assert run(capsys, "train", f'hydra.searchpath=["{own_folder}"]', *words[2:], "--cfg", "job")[0] == 0
    assert "small" in run(capsys, "list", "-cd", str(own_folder))[1]
    status, _, err = run(capsys, "train", "-cd", str(own_folder), "model=smal")
    assert status == 2
    assert "model=smal: no such model (did you mean small?)" in err


def test_a_wrong_choice_of_the_users_own_is_refused_with_what_is_wrong(capsys, own_folder):
    (own_folder / "model/small.yaml").write_text("kind: resnetx\nx: many\nwidth: 32\nclasses: 10\n")
    status, _, err = run(capsys, "describe", "-cd", str(own_folder), "model=small")
    assert status == 2
    assert "model.x=many: expected a whole number" in err
    (own_folder / "model/small.yaml").write_text("x: [")
    status, _, err = run(capsys, "describe", "-cd", str(own_folder), "model=small")
    assert status == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "defaults: ['${oc.env:OF_MINE}']\nkind: resnetx\n",
            "small.yaml, line 1: defaults: a choice cannot include another one",
        ),
        ("defaults: [small]\n", "defaults: a choice cannot include another one"),
        ("# @package env\nkind: resnetx\n", "small.yaml: @package: the settings of a choice are those of its group"),
    ],
)
def test_a_choice_includes_no_other_and_stays_in_its_group(capsys, monkeypatch, own_folder, text, sentence):
    monkeypatch.setenv("OF_MINE", "hunter2")
    (own_folder / "model/small.yaml").write_text(text)
    status, out, err = run(capsys, "describe", "-cd", str(own_folder), "model=small")
    assert (status, out) == (2, "")
    assert sentence in err
    assert "hunter2" not in err


EXAMPLES = [(verb.name, words) for verb in VERBS.values() for words, _ in verb.examples if "--import" not in words]


@pytest.mark.parametrize(("verb", "words"), EXAMPLES, ids=[f"{verb} {words}" for verb, words in EXAMPLES])
def test_an_example_of_a_verb_has_settings_that_it_reads(verb, words):
    if " -- " in words:
        verb, _, words = words.partition(" -- ")[2].partition(" ")
    refuse_unread(verb, [word.partition("=")[0] for word in words.split() if "=" in word], names())


@pytest.mark.parametrize("verb", [verb for verb in VERBS.values() if verb.common], ids=lambda verb: verb.name)
def test_help_has_an_example_and_the_common_settings_first_and_says_how_many_more_there_are(verb, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    assert all(reads(verb.settings, name) for name in verb.common.split())
    assert main([verb.name, "--help"]) == 0
    out = capsys.readouterr().out
    listed = re.findall(r"^([a-z][\w.]*)=", out, re.MULTILINE)
    assert out.index(f"resnetx {verb.name} {verb.examples[0][0]}".rstrip()) < out.index(f"\n{listed[0]}=")
    assert listed == verb.common.split()
    assert out.splitlines()[-1].endswith(f": resnetx {verb.name} --help --all")
    assert len(out.splitlines()) <= 45 and max(map(len, out.splitlines())) <= 80
