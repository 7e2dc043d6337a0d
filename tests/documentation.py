"""The pages of the documentation, and the commands and links in them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TUTORIALS = [*sorted(ROOT.glob("docs/tutorials/*.md")), ROOT / "docs/screens.md", ROOT / "docs/hydra.md"]
WITH_COMMANDS = [ROOT / "README.md", *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page not in TUTORIALS)]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def steps(page: Path) -> list[tuple[str, str]]:
    """Each command at a `$` of a page, with what stands below it: the output that it prints."""
    shown = (re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE) for block in blocks(page, "console"))
    return [step for block in shown for step in block]


def showing() -> list[Path]:
    """The pages that show what some of their commands print."""
    return [*TUTORIALS, *(page for page in WITH_COMMANDS if any(shown for _, shown in steps(page)))]


def commands() -> list[str]:
    """Every command at a `$` in README and docs whose output is not shown, once: those that tests run one by one."""
    return list(dict.fromkeys(command for page in WITH_COMMANDS for command, shown in steps(page) if not shown))


def programs(page: Path) -> dict[str, str]:
    """The programs of a page whose first line names their file (`# mine.py`)."""
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks(page, "python") if block[:2] == "# "}


def shell_lines() -> list[str]:
    """Every command of resnetx in a shell block, without its comment: those that need files or machines of a user."""
    found = [line for page in WITH_COMMANDS for block in blocks(page, "sh") for line in block.splitlines()]
    return list(dict.fromkeys(line.partition(" #")[0].rstrip() for line in found if line.startswith("resnetx ")))


def typed(command: str, shell: str = "bash") -> list[str]:
    """The words that a program gets of a command which a user types, or copies, into a shell."""
    told = "emulate -R zsh; " * (shell == "zsh")
    ended = subprocess.run([shell, "-c", f"{told}printf '%s\\0' {command}"], capture_output=True, text=True, check=True)
    return ended.stdout.split("\0")[:-1]


def anchors(page: Path) -> set[str]:
    """What a link may name behind # in a page: the headings, as GitHub and MyST write them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The links of a page to files here, each with its anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            yield (page.parent / name if name else page), anchor
