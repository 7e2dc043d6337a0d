"""The settings of the paper's own comparison, where its systems and its workloads are asked for."""

from collections.abc import Mapping
from typing import Any

from resnetx import progress
from resnetx.compose import options_of
from resnetx.reporting.systems.claims import PaperSetting, published
from resnetx.settings.words import written
from resnetx.study import Point

# Studies of the paper's workloads: its own, parts of it, and the same workloads with weak scaling.
OF_ITS_WORKLOADS = ("paper", "paper-resnetx", "paper-alexnet-googlenet", "weak")


def is_the_papers(asked: Mapping[str, Any]) -> bool:
    """Whether its systems and its study are asked for."""
    stated = published("tallent2017")
    return bool(asked.get("study") == stated.study and asked.get("systems") == stated.systems)


def as_in_the_paper(asked: Mapping[str, Any]) -> Point:
    """The settings to add for a comparison of its systems on its workloads; says which."""
    systems = asked.get("systems")
    pair = isinstance(systems, list) and sorted(map(str, systems)) == sorted(published("tallent2017").systems)
    left = left_to_the_paper(asked) if pair and asked.get("study") in OF_ITS_WORKLOADS else {}
    added = {key: each.value for key, each in left.items()}
    if added:
        progress.note(f"as in the paper: {' '.join(written(added))}", indent=2, warning=True)
    return added


def left_to_the_paper(asked: Mapping[str, Any]) -> dict[str, PaperSetting]:
    """The paper's settings that are not asked for otherwise."""
    settings = published("tallent2017").settings.items()
    return {key: each for key, each in settings if key not in asked and not _has_no(asked, key)}


def _has_no(asked: Mapping[str, Any], key: str) -> bool:
    """Whether a setting belongs to a choice of its group that is not made: input=synthetic has no recipe."""
    group, _, below = key.partition(".")
    return bool(below) and group in asked and key not in options_of(group, str(asked[group]))
