"""The command that starts the ranks of a run."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# `python -P` for torchrun and its ranks: `python -m` would look for modules in the folder that it is started in first.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class Command:
    """What starts the ranks of a run."""

    words: list[str]
    variables: dict[str, str]  # of its environment, besides those that the launcher has
    gently: bool = False  # ended by SIGTERM, at which it ends what it started on other nodes; else by SIGKILL
    starter: int = 0  # how many words are of a program that takes no variables to other nodes: they go behind it

    @property
    def line(self) -> str:
        """As any shell takes it."""
        return shlex.join(["env", *(f"{name}={value}" for name, value in self.variables.items()), *self.words])

    def carrying(self, variables: Mapping[str, str]) -> list[str]:
        """The words, and among them the variables, where they reach other nodes in no other way."""
        words = [program(self.words[0]), *self.words[1:]]
        named = [f"{name}={value}" for name, value in variables.items()]
        return [*words[: self.starter], "env", *named, *words[self.starter :]] if self.starter else words


def program(name: str) -> str:
    """The program of this name that belongs to this Python, or else the one on the PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name
