"""What can be done with the words of a command line before Hydra is loaded, whose grammar takes 0.1 s to import."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resnetx.study import Point


def settings_in(words: list[str]) -> "Point":
    """The settings of these words, by name; Hydra is loaded if there are any."""
    if not words:
        return {}
    from resnetx.cli.words import settings_of

    return settings_of(words)
