"""The pages of the documentation, and the commands and links in them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
WITH_COMMANDS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Every command at a `$` in README and docs, once: those that tests run."""
    found = [line for page in WITH_COMMANDS for block in blocks(page, "console") for line in block.splitlines()]
    return list(dict.fromkeys(line.removeprefix("$ ") for line in found))


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
