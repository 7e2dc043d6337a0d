"""What a paper states of its systems beside what a prediction says of the same: hits and misses alike.

The statements are data, a file in `results/published` for each paper; `claim_checks` has the few kinds of checks that
they need, `claim_items` what they are checked on.

Tallent et al. compared two systems over a study, which a user can predict with other settings: its file names the
`systems` and the `study`, and its statements are checked on whatever was predicted of them. As it names no library
generation, each statement is checked with every library that was predicted. What decides a statement that misses is
searched for by `paper_causes`, and kept (`explanations`).

The other papers have `cases` of their own (a system, a library, a transport), which `papers` predicts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from resnetx import progress
from resnetx.compose import options_of
from resnetx.interconnect.systems.paths import Transport
from resnetx.literature.claim_checks import CHECKS, Claim, ClaimCase, Items
from resnetx.literature.claim_items import (
    COPIES,
    TRAFFIC,
    WORKLOADS,
    Item,
    of_collectives,
    of_copies,
    of_points,
    of_workloads,
)
from resnetx.loading import own_yaml
from resnetx.record.comparisons import CheckedClaim, CollectivePoint, CopyPoint, SystemPoint
from resnetx.settings.files import PUBLISHED
from resnetx.settings.setting_types import written
from resnetx.study import Point

PAPERS = ("tallent2017", "tallent2017-fig1", "li2019", "sth2017", "shi2018", "anderson2018")  # the files of statements
COMPARED = "tallent2017"  # the one whose comparison `compare` makes
WITHOUT_SETTINGS = (WORKLOADS, COPIES, TRAFFIC)  # kinds of items that no library and no strategy changes


Value = str | bool | int | float | list[str | int] | dict[str, float]  # of a setting


class PaperSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that the paper's own comparison was made with, and where it says so."""

    value: Value
    why: str


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way in which something may have been that the paper leaves open: settings of the command line."""

    about: str
    settings: dict[str, Value]


class Assumption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the paper leaves open, and the ways in which it may have been."""

    about: str
    options: dict[str, Option]
    only_with: dict[str, list[str]] = {}  # options of another assumption, without which this one changes nothing


class LeftOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement that is not checked."""

    section: str
    says: str
    why: str


class DrawnFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of a paper: the names of ours that show the same, and the statements on what is in it."""

    about: str
    drawn: list[str]
    claims: list[str]  # with * for any letters


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that a paper compares: a system, and what messages take there."""

    system: str
    library: str | None = None  # null: the system's
    transport: Transport = "auto"
    nodes: int | None = None  # null: the system's, or one
    network: str | None = None
    nics: int | None = None
    devices: list[int] = []  # which GPUs take part, as many of them as a statement says; none: all
    settings: dict[str, Value] = {}  # of its points, beside those of the paper
    points: bool = False  # whether the paper's workloads are predicted on it


class Claims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file of published statements says."""

    title: str  # of the paper: "Tallent et al. 2017"
    systems: list[str] = []  # of the comparison that the paper made; none: it has cases
    study: str = ""
    cases: dict[str, Case] = {}
    workloads: list[dict[str, Value]] = []  # of the points of its cases, each in settings of the command line
    networks: list[str] = []  # workloads of which no more than the variables is known (`steered_traffic`)
    settings: dict[str, PaperSetting] = {}
    assumptions: dict[str, Assumption] = {}
    tolerance: float
    seen: bool  # whether its figures were known while the model was written; a statement may say otherwise
    figures: dict[int, DrawnFigure] = {}  # by the number in the paper
    claims: list[Claim]
    left_out: list[LeftOut]


def check_claims(
    points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint] = (), copies: Sequence[CopyPoint] = ()
) -> list[CheckedClaim]:
    """Every statement of the paper of a comparison, for every variant of the points; none of other systems."""
    stated = published(COMPARED)
    there = {side.system for point in points for side in point.sides}
    if not there.issuperset(stated.systems):
        return []
    copied = [copy for copy in copies if copy.system in stated.systems]
    return check_paper(COMPARED, [*of_points(points, stated.systems), *of_messages(points, collectives, copied)])


def are_of_the_paper(points: Sequence[SystemPoint]) -> bool:
    """Whether what is compared is what the paper compares (its Fig. 12 and 13), or a part of it."""
    return all(point.workload in _WORKLOADS and point.batch_size in _BATCHES for point in points)


_WORKLOADS = {"AlexNet", "GoogLeNet", *(f"ResNet/{2**power}" for power in range(6))}
_BATCHES = {16, 32, 64, 256, 512}


def of_messages(
    points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint], copies: Sequence[CopyPoint]
) -> list[Item]:
    """What is checked besides points: their workloads, and messages alone."""
    return [*of_workloads(points), *of_collectives(collectives), *of_copies(copies)]


def check_paper(paper: str, items: Iterable[Item]) -> list[CheckedClaim]:
    """Every statement of a paper, for every variant of the items."""
    variants = _by_variant(items)
    return [checked for claim in published(paper).claims for checked in _checked(claim, variants, paper)]


def _by_variant(items: Iterable[Item]) -> dict[str, Items]:
    """Variant -> the items of each kind: its own, and those that no setting changes."""
    kinds: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        kinds[item.variant][item.of].append(item)
    unchanged = {kind: kinds[kind][kind] for kind in WITHOUT_SETTINGS if kind in kinds}
    return {variant: {**unchanged, **own} for variant, own in kinds.items()}


# ---- counting -------------------------------------------------------------------------------------------------------


# ---- files ----------------------------------------------------------------------------------------------------------


@cache
def published(name: str) -> Claims:
    """A file of statements that comes with resnetx."""
    return own_yaml(PUBLISHED / f"{name}.yaml", Claims)


def _checked(claim: Claim, variants: Mapping[str, Items], paper: str) -> Iterator[CheckedClaim]:
    """One statement, in every variant that has items of its kind; a paper with cases has none left out."""
    stated = published(paper)
    tolerance, seen = claim.tolerance or stated.tolerance, stated.seen if claim.seen is None else claim.seen
    there = {
        variant: items
        for variant, items in variants.items()
        if claim.of in items and (claim.of not in WITHOUT_SETTINGS or claim.of == variant)
    }
    if stated.cases and not there:
        yield ClaimCase(claim, "", {}, tolerance, paper, seen).not_predicted(0)
    for variant, items in there.items():
        yield from CHECKS[claim.check](ClaimCase(claim, variant, items, tolerance, paper, seen))


# The settings of the paper's own comparison, where its systems and its workloads are asked for.

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
    added = {key: setting.value for key, setting in left.items()}
    if added:
        words = (word.replace("[", "").replace("]", "") for word in written(added))  # as every shell passes them on
        progress.assumed(f"as in the paper: {' '.join(words)}")
    return added


def left_to_the_paper(asked: Mapping[str, Any]) -> dict[str, PaperSetting]:
    """The paper's settings that are not asked for otherwise."""
    settings = published("tallent2017").settings.items()
    return {key: setting for key, setting in settings if key not in asked and not _has_no(asked, key)}


def _has_no(asked: Mapping[str, Any], key: str) -> bool:
    """Whether a setting belongs to a choice that is not made: input=synthetic has no recipe, no exchange a library."""
    if key == "library":
        return asked.get("strategy") in ("none", "server")
    group, _, below = key.partition(".")
    return bool(below) and group in asked and key not in options_of(group, str(asked[group]))
