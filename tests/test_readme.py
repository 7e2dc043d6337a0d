"""The documentation is true: its commands work, its links lead somewhere, each set-up command is one line."""

import re
import shutil
from pathlib import Path

import pytest

from resnetx.api.train import task_of
from resnetx.cli import OVERRIDE, main, words_inside
from resnetx.cli.words import settings_of
from resnetx.config import check
from resnetx.measure.launch import executor
from resnetx.settings.files import names
from resnetx.settings.setting_types import key_of
from resnetx.settings.verbs import VERBS, refuse_unread
from tests.documentation import PAGES, ROOT, WITH_COMMANDS, anchors, blocks, commands, links, shell_lines, typed

COMMANDS = commands()
NUMBER = r"-?\d+(\.\d+)?(e-?\d+)?"
ELSEWHERE = "mine/|score=resnetx$"  # below, and in tests/api/test_score.py
PREDICTED = "compare systems=dgx1-p100,gx8 study=paper out=comparison"  # draws the picture of the README


def of(*verbs: str) -> list[str]:
    return [each for each in COMMANDS if each.split()[1] in verbs and each.startswith("resnetx ")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to run commands in, in which the committed results are where the repository has them."""
    monkeypatch.chdir(tmp_path)
    Path("results").symlink_to(ROOT / "results")
    return tmp_path


def run(command: str, *more: str) -> int:
    return main([*typed(command)[1:], *more])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_is_documented_can_be_typed(shell, here):
    """Brackets are patterns to zsh, which refuses those that match no file, and bash takes braces apart."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    for command in [*COMMANDS, *shell_lines()]:
        assert not re.search(r"[][{}]", command), command
        assert typed(command, shell) == command.split() or re.search("['\"]", command), command


def test_the_first_two_shell_blocks_are_one_line_each():
    found = blocks(ROOT / "README.md", "sh")
    assert [block.count("\n") for block in found[:2]] == [1, 1]
    assert "resnetx images" in found[0]
    assert "resnetx sweep study=quickstart" in found[0]
    assert found[1].endswith(".venv/bin/pytest --all\n")


@pytest.mark.parametrize("command", of("describe"))
def test_a_describe_command_runs(command, capsys, here):
    assert run(command) == 0
    assert (
        "activations per parameter on each of" if "intensity=" in command else "convention"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=pytest.mark.slow if "--validate" in each else ()) for each in of("topology")]
)
def test_a_topology_command_runs(command, capsys, here):
    assert run(command) == 0
    assert capsys.readouterr().out


def test_the_system_that_is_explained_is_one(capsys, here):
    found = [block for page in WITH_COMMANDS for block in blocks(page, "yaml") if "\ncomponents:" in block]
    Path("mine.yaml").write_text("".join(found))
    assert run("resnetx topology mine.yaml transport=host --all") == 0
    assert "a bus of my own" in capsys.readouterr().out


def test_the_study_that_is_explained_is_one(capsys, here):
    found = [block for page in WITH_COMMANDS for block in blocks(page, "yaml") if "\ngrids:" in block]
    Path("mine.yaml").write_text("".join(found))
    status = run("resnetx sweep study=mine.yaml input=synthetic --dry-run")
    said = capsys.readouterr()
    assert " of 4 cases" in (said.err if status else said.out)  # too few cores are the only obstacle
    assert status == 0 or "gpus=4: more ranks than this machine has cores" in " ".join(said.err.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", [each for each in of("predict", "compare") if not re.search(ELSEWHERE, each)])
def test_a_predicting_command_runs(command, capsys, here):
    assert run(command) == 0
    out = capsys.readouterr().out
    told = {"--validate": "inside", "papers=": "agree with what is predicted"}
    told_of = [word for setting, word in told.items() if setting in command] or [
        "dgx1-p100",
        "gx8",
        "dgx-h100",
        "cpu-host",
    ]
    assert any(word in out for word in told_of)
    if PREDICTED in command:
        drawn = Path("comparison/lead.svg").read_text()
        kept = ROOT / "docs/images/lead.svg"
        # But for places, which depend on the fonts of the machine.
        same = re.sub(NUMBER, "#", drawn) == re.sub(NUMBER, "#", kept.read_text())
        assert same, f"{kept} is out of date: {command}, then copy comparison/lead.svg there"


def test_a_profile_is_imported_and_predicted_from(capsys, here):
    """As the README does for training that does not scale; what a file is, its content says."""
    Path("profile.json.gz").write_text("0 data 100 0 0 0\n1 conv1 20000 30000 0 1024\n2 fc 1000 5000 0 90000000\n")
    imported, predicted = (each for each in COMMANDS if "profile.json.gz" in each or "mine/" in each)
    assert run(imported) == 0
    assert run(predicted) == 0
    assert "MyNet" in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_is_made_of_the_committed_study(capsys, here):
    (command,) = of("report")
    assert run(command) == 0
    assert "ResNet/1" in Path("report/index.html").read_text()


@pytest.mark.parametrize("command", [each for each in of("explain") if not re.search(ELSEWHERE, each)])
def test_an_explaining_command_runs(command, capsys, here):
    assert run(command) in (0, 1)
    assert "useful" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("command", of("steer"))
def test_a_steering_command_prints_what_the_page_has(command, capsys, here):
    assert run(command) == 0
    (shown,) = [block for block in blocks(ROOT / "docs/steer.md", "text") if "less RTL" in block]
    out = capsys.readouterr().out
    assert all(line.removesuffix(" ...") in out for line in shown.splitlines())


@pytest.mark.dist
@pytest.mark.parametrize("command", [each for each in of("bench", "trace") if "--import" not in each])
def test_a_layerwise_or_collective_command_runs(command, capsys, tmp_path, monkeypatch, preloaded):
    monkeypatch.chdir(tmp_path)
    if not re.search(r"\b(image_)?size=", command):
        command += " size=8,64KiB" if "bench" in command else " image_size=67 batch_size=4"
    command = command.replace("model=alexnet", "model.x=1 model.width=16").replace("64MiB", "1MiB")  # else a minute
    assert run(command, "iterations=2") == 0
    assert capsys.readouterr().out


BY_HAND = executor.torchrun(8, ["-m", "resnetx.train"]).line.replace(" --max-restarts=0", "")  # 0 is the default
MEASURING = [*of("train", "sweep", "verify"), *(each for each in COMMANDS if each.startswith("env "))]
IN_THE_LAB = [each for each in of("lab") if " -- " in each]


def test_every_command_is_one_that_these_tests_look_at():
    verbs = "describe|topology|predict|compare|explain|report|doctor|bench|trace|train|sweep|verify|lab|steer"
    known = f"resnetx ({verbs})|env .* torchrun"
    assert [each for each in COMMANDS if not re.match(known, each)] == []


@pytest.mark.parametrize("command", IN_THE_LAB)
def test_a_command_of_the_lab_names_settings_of_the_verb_inside(command):
    verb, *words = words_inside(command.split()[1:])
    refuse_unread(verb, [word.partition("=")[0] for word in words], names())


@pytest.mark.parametrize("command", MEASURING)
def test_a_measuring_command_describes_runs(command, capsys, tmp_path):
    settings = [word for word in command.split() if "=" in word and not word.startswith(("-", "input.root"))]
    settings += [] if "input=" in command else ["input=synthetic"]
    if command.startswith("resnetx sweep"):
        status, said = main(["sweep", "--dry-run", *settings]), capsys.readouterr()
        told = "#SBATCH " if "launcher=slurm" in settings else "torchrun "
        if status:  # this machine has too few cores
            assert (status, "None of" in said.err, " can run here: gpus=4: " in said.err) == (2, True, True)
        else:
            assert told in said.out
    else:
        assert command.startswith(("resnetx train ", "resnetx verify ", BY_HAND))
        settings = [word for word in settings if not word.startswith(("TORCH_", "PYTHONSAFEPATH="))]
        task, _ = task_of(None, settings_of(settings), gpus=8 if command.startswith(BY_HAND) else None)
        check(task.request)


@pytest.mark.parametrize("command", shell_lines())
def test_a_shell_command_has_a_verb_that_reads_its_settings(command):
    _, verb, *words = typed(command)
    refuse_unread(verb, [key_of(word) for word in words if OVERRIDE.match(word)], names())
    flags = [word.removeprefix("--") for word in words if word.startswith("--")]
    assert set(flags) <= {*VERBS[verb].flags, "config-dir"}


def test_the_command_of_the_page_on_security_is_the_one_that_is_printed():
    page = (ROOT / "docs" / "security.md").read_text()
    assert executor.torchrun(8, ["-m", "resnetx.train", "model.x=16", "batch_size=64"]).line in page.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name}#{anchor}"
