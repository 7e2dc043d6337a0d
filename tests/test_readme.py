"""The documentation is true: its commands work, its links lead somewhere, each set-up command is one line."""

import re
from pathlib import Path

import pytest

from resnetx.cli import main
from resnetx.cli.verbs import train
from resnetx.config import check
from resnetx.measure.launch import executor

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.S) for line in block.splitlines()]


def test_the_first_two_shell_blocks_are_one_line_each():
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    assert [block.count("\n") for block in blocks[:2]] == [1, 1]
    assert "resnetx images" in blocks[0]
    assert "resnetx sweep study=quickstart" in blocks[0]
    assert blocks[1].rstrip().endswith("pytest")


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("resnetx describe")])
def test_a_describe_command_of_the_readme_runs(command, capsys):
    assert main(command.split()[1:]) == 0
    assert "convention" in capsys.readouterr().out


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("resnetx topology")])
def test_a_topology_command_of_the_readme_runs(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out


def test_the_system_of_the_readme_is_one(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (text,) = [each for each in re.findall(r"```yaml\n(.*?)```", README, re.S) if "\ncomponents:" in each]
    Path("mine.yaml").write_text(text)
    assert main(["topology", "mine.yaml", "transport=host"]) == 0
    assert "a bus of mine" in capsys.readouterr().out


@pytest.mark.parametrize("command", [each for each in COMMANDS if re.match("resnetx (predict|compare)", each)])
def test_a_predicting_command_of_the_readme_runs(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()[1:]) == 0
    out = capsys.readouterr().out
    assert "holds" in out if "--validate" in command else "dgx1-p100" in out or "gx8" in out or "dgx-h100" in out


@pytest.mark.dist
@pytest.mark.parametrize("command", [each for each in COMMANDS if re.match("resnetx (bench|trace)", each)])
def test_a_layerwise_or_collective_command_of_the_readme_runs(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if not re.search(r"\b(image_)?size=", command):
        command += " size=[8,64KiB]" if "bench" in command else " image_size=67 batch_size=4"
    assert main([*command.split()[1:], "iterations=2"]) == 0
    assert capsys.readouterr().out


BY_HAND = executor.torchrun(8, ["-m", "resnetx.train"]).line.replace(" --max-restarts=0", "")  # 0 is the default
MEASURING = [each for each in COMMANDS if re.match("resnetx (train|sweep|verify)|env .* torchrun", each)]


def test_every_command_of_the_readme_is_one_that_the_tests_below_look_at():
    known = "resnetx (describe|topology|predict|compare|bench|trace|train|sweep|verify)|env .* torchrun"
    assert [each for each in COMMANDS if not re.match(known, each)] == []


@pytest.mark.parametrize("command", MEASURING)
def test_a_measuring_command_of_the_readme_describes_runs(command, capsys, tmp_path):
    settings = [word for word in command.split() if "=" in word and not word.startswith(("-", "input.root"))]
    settings += [] if "input=" in command else ["input=synthetic"]
    if command.startswith("resnetx sweep"):
        assert main(["sweep", "--dry-run", *settings]) == 0
        assert "torchrun " in capsys.readouterr().out
    else:
        assert command.startswith(("resnetx train ", "resnetx verify ", BY_HAND))
        settings = [word for word in settings if not word.startswith("TORCH_")]
        task, _ = train._task([], settings, gpus=8 if command.startswith(BY_HAND) else None)
        check(task.request)


def test_the_command_of_the_page_on_security_is_the_one_that_is_printed():
    page = (ROOT / "docs" / "security.md").read_text()
    assert executor.torchrun(8, ["-m", "resnetx.train", "model.x=16", "batch_size=64"]).line in page.splitlines()


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
