"""Tutorials, and all pages that show what a command prints, do what they show: every command runs, in a folder of its
page, and prints what stands below it. A line `...` leaves out some of it; figures that were measured here are not
compared.

`python -m tests.test_tutorials` writes what is printed now into the pages, but not what is measured. Where lines are
left out, each line that is shown gets the figures that are printed now; where one is missing, nothing is written.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation import ROOT, TUTORIALS, programs, showing, steps

pytestmark = pytest.mark.slow

MEASURING = re.compile(r"resnetx (train|bench|trace|sweep)\b(?!.*--dry-run)|.*\bmine/")


def printed(command: str, programs: Path = Path(sys.executable).parent) -> str:
    """What a command prints in the current folder; a verdict that is not good has the exit status 1."""
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("COLUMNS", None)
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=600)
    assert ended.returncode in (0, 1), f"{command}\n{ended.stderr}"
    return "\n".join(line.rstrip() for line in ended.stdout.strip("\n").splitlines())


def same(text: str, command: str) -> str:
    """The words of a text, without figures where these differ each time."""
    if MEASURING.match(command):
        text = re.sub(r"Measured on [\w.-]+|\(torch [^)]*\)", "...", text)
        text = re.sub(r"[\d.,]*\d(e[+-]\d+)?%?", "#", text)
    return " ".join(text.split())


def missing(shown: str, output: str, command: str) -> str | None:
    """The part of what a page shows that was not printed, in its order, or what was printed beyond it."""
    rest, parts = same(output, command), re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    if len(parts) == 1:
        return None if rest == same(shown, command) else rest
    for part in (part for part in parts if part.strip()):
        _, found, rest = rest.partition(same(part, command))
        if not found:
            return part
    return None


def renewed(shown: str, output: str) -> str:
    """What a page shows of a command, with the figures that it prints now: for each part the lines most like it."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    if len(parts) == 1:
        return output
    lines, begin, now = output.splitlines(), 0, []
    for part in parts:
        old = part.splitlines()
        places = [
            place
            for place in range(begin, len(lines) - len(old) + 1)
            if [*map(figureless, lines[place : place + len(old)])] == [*map(figureless, old)]
        ]
        if not places:
            return shown
        begin = max(places, key=lambda place: equal_words(old, lines[place : place + len(old)]))
        now.append("".join(f"{line}\n" for line in lines[begin : begin + len(old)]))
        begin += len(old)
    return "...\n".join(now)


def equal_words(old: list[str], now: list[str]) -> int:
    pairs = zip(old, now, strict=True)
    return sum(before == after for one, two in pairs for before, after in zip(one.split(), two.split(), strict=False))


def figureless(line: str) -> str:
    return re.sub(r"[\d.,]*\d(e[+-]\d+)?", "#", " ".join(line.split()))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return prepared(tmp_path, monkeypatch.chdir)


def prepared(path: Path, change=os.chdir) -> Path:
    change(path)
    for name in ("results", "configs"):
        Path(name).symlink_to(ROOT / name)
    return path


@pytest.mark.parametrize("page", showing(), ids=lambda page: page.stem)
def test_each_step_of_a_tutorial_prints_what_it_shows(page, folder, preloaded_python):
    for name, text in programs(page).items():
        Path(name).write_text(text)
    shown_steps = [step for step in steps(page) if step[1] or page in TUTORIALS]
    assert shown_steps
    for command, shown in shown_steps:
        output = printed(command, Path(preloaded_python).parent)
        assert missing(shown, output, command) is None, f"{command}\n{output}"


def test_what_is_not_printed_is_missing():
    assert missing("1 GPU\n2 GPUs\n", "1 GPU\n2  GPUs", "resnetx predict") is None
    assert missing("1 GPU\n...\n", "1 GPU\n2 GPUs", "resnetx predict") is None
    assert missing("1 GPU\n", "1 GPU\n2 GPUs", "resnetx predict") == "1 GPU 2 GPUs"
    assert missing("3 GPUs\n...\n", "1 GPU\n2 GPUs", "resnetx predict") == "3 GPUs\n"
    assert missing("took 3.1 ms\n", "took 4 ms", "resnetx train") is None


def test_figures_of_lines_that_are_shown_are_renewed():
    assert renewed("1 GPU: 2\n...\n3 GPUs: 4\n", "1 GPU: 5\n2 GPUs\n3 GPUs: 7\n") == "1 GPU: 5\n...\n3 GPUs: 7\n"
    assert renewed("1 GPU: 2\n...\n", "another sentence\n") == "1 GPU: 2\n...\n"
    assert renewed("1 GPU\n", "2 GPUs\n") == "2 GPUs\n"
    assert renewed("GPUs x\n...\n8 2.5 x\n", "GPUs x\n2 1.5 x\n8 3.5 x\n") == "GPUs x\n...\n8 3.5 x\n"


def test_no_command_of_a_tutorial_has_what_a_shell_changes():
    assert [command for page in TUTORIALS for command, _ in steps(page) if re.search(r"[][{}]", command)] == []


if __name__ == "__main__":
    import tempfile

    for page in [page for page in showing() if sys.argv[1:] in ([], [page.stem])]:
        prepared(Path(tempfile.mkdtemp()))
        for name, text in programs(page).items():
            Path(name).write_text(text)
        text = page.read_text()
        for command, shown in [step for step in steps(page) if step[1] or page in TUTORIALS]:
            if not (shown and MEASURING.match(command)):
                output = (printed(command) + "\n").lstrip("\n")
                if missing(shown, output, command) is not None:
                    text = text.replace(f"$ {command}\n{shown}", f"$ {command}\n{renewed(shown, output)}")
        page.write_text(text)
