"""The settings of the paper's own comparison, where its systems and its study are asked for."""

from collections.abc import Mapping
from typing import Any

from resnetx.cli import show
from resnetx.cli.compose import options_of
from resnetx.reporting.systems.claims import Setting, published


def is_the_papers(asked: Mapping[str, Any]) -> bool:
    """Whether its systems and its study are asked for."""
    stated = published("tallent2017")
    return bool(asked.get("study") == stated.study and asked.get("systems") == stated.systems)


def as_in_the_paper(asked: Mapping[str, Any]) -> list[str]:
    """The words to add for a comparison; prints them, each with where the paper has it."""
    left = left_to_the_paper(asked) if is_the_papers(asked) else {}
    words = words_of({key: each.value for key, each in left.items()})
    if words:
        show.say(f"as in the paper: {' '.join(words)}", show.err, indent=2)
        for word, each in zip(words, left.values(), strict=True):
            show.say(f"  {word}: {each.why}", show.err, indent=2)
    return words


def left_to_the_paper(asked: Mapping[str, Any]) -> dict[str, Setting]:
    """The paper's settings that are not asked for otherwise."""
    settings = published("tallent2017").settings.items()
    return {key: each for key, each in settings if key not in asked and not _has_no(asked, key)}


def words_of(settings: Mapping[str, str]) -> list[str]:
    """Settings as words of the command line."""
    return [f"{key}={value}" for key, value in settings.items()]


def _has_no(asked: Mapping[str, Any], key: str) -> bool:
    """Whether a setting belongs to a choice of its group that is not made: input=synthetic has no recipe."""
    group, _, below = key.partition(".")
    return bool(below) and group in asked and key not in options_of(group, str(asked[group]))
