"""What can be done with the words of a command line before Hydra is loaded, whose grammar takes 0.1 s to import."""

from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.settings.files import CONFIGS

if TYPE_CHECKING:
    from resnetx.study import Point


def is_system(word: str) -> bool:
    """Whether a word that could be a path is the name of a system that comes with resnetx, or several: "gx8,dgx2"."""
    return not Path(word).exists() and all(map(_is_named, word.split(",")))


def _is_named(name: str) -> bool:
    return "/" not in name and (CONFIGS / "system" / f"{name}.yaml").is_file()


def settings_in(words: list[str], verb: str | None = None) -> "Point":
    """The settings of these words of a verb, by name; Hydra is loaded if there are any."""
    if not words:
        return {}
    from resnetx.cli.words import settings_of

    return settings_of(words, verb)
