"""Classes of pairs: which copies are alike, as measured, and what the described topology calls them.

    classes = classify({4 * 2**20: {(0, 1): 66e-6, (0, 4): 67e-6, ...}}, names_of(load("dgx1-p100"), "auto"))
    classes[4 * 2**20][0].name      "one NVLink"

At each size, pairs fall into classes where a gap between their times is wide beside the spread within, and comes back
(`pair_clusters`); "one class" is a possible answer. A class is named by what most of its pairs are in the topology, or
by its place in the order of bandwidth where none is described.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from resnetx.interconnect.graph import System
from resnetx.interconnect.pair_clusters import FEWEST, gap, groups, ranks_of, repeats
from resnetx.interconnect.paths import Path, Transport, copy_path

Place = int | str
Pair = tuple[Place, Place]
Times = Mapping[int, Mapping[Pair, float]]  # size in bytes -> pair -> seconds

ONE_CLASS = "one class"
LOCAL, ROUTED, NVSWITCH = "local", "routed (two hops)", "NVSwitch"
SAME_SWITCH, SWITCHES, SAME_SOCKET, ACROSS, NODES = (
    "same switch", "several switches", "same socket", "across sockets", "across nodes",
)  # fmt: skip
FROM_NEAR_TO_FAR = (LOCAL, "NVLink", NVSWITCH, ROUTED, SAME_SWITCH, SWITCHES, SAME_SOCKET, ACROSS, NODES)
_COUNTS = {1: "one NVLink", 2: "two NVLinks", 3: "three NVLinks", 4: "four NVLinks"}
_MOST_COMPARED = 24  # GPUs whose pairs decide whether differences come back; more would take long and tell no more
_MOST_SHARE = 0.75  # of a class's pairs: they name it alone
_SOME_SHARE = 0.2  # of them: they are named as well


# ---- as described


@dataclass(frozen=True)
class DescribedPair:
    """An ordered pair of GPUs: the path of a copy, and what the topology calls it."""

    path: Path
    name: str


def described_pairs(system: System, transport: Transport) -> list[DescribedPair]:
    """Every ordered pair of different GPUs; with `transport=peer`, others than peers go through the host."""
    chosen: Transport = "auto" if transport == "peer" else transport
    gpus = range(len(system.gpus))
    found = (copy_path(system, a, b, chosen) for a in gpus for b in gpus if a != b)
    return [DescribedPair(path, described(system, path)) for path in found]


def names_of(system: System, transport: Transport = "auto") -> dict[Pair, str]:
    """What the topology calls every ordered pair of different GPUs."""
    return {(each.path.source, each.path.target): each.name for each in described_pairs(system, transport)}


def described(system: System, path: Path) -> str:
    """What a path is: "one NVLink", "same switch", "across sockets"."""
    if path.kind == "relay":
        return ROUTED
    if path.kind in ("local", "network"):
        return LOCAL if path.kind == "local" else NODES
    if path.kind == "nvlink":
        before, _, link = path.steps[0]
        lanes = link.lanes_from(before)
        return _COUNTS.get(lanes, f"{lanes} NVLinks") if len(path.steps) == 1 else NVSWITCH
    kinds = [system.component(name).kind for name in path.names]
    crossed = [link.name for _, _, link in path.steps]
    if kinds.count("switch") and path.names[1] == path.names[-2]:
        return SAME_SWITCH
    if "cpu" not in kinds or len(set(crossed)) < len(crossed):
        return SWITCHES
    return ACROSS if kinds.count("cpu") > 1 else SAME_SOCKET


def distance(name: str) -> int | None:
    """How far apart pairs of a described class are; None for a name that is not one of the topology."""
    family = "NVLink" if name.endswith(("NVLink", "NVLinks")) else name
    return FROM_NEAR_TO_FAR.index(family) if family in FROM_NEAR_TO_FAR else None


# ---- as measured


@dataclass(frozen=True)
class PairClass:
    """Pairs whose copies of one size take alike."""

    name: str
    pairs: tuple[Pair, ...]
    time_s: float  # median
    gap: float | None  # to the next slower class, in units of the spread within both; None: the slowest


def classify(times: Times, names: Mapping[Pair, str] | None = None) -> dict[int, list[PairClass]]:
    """The classes at each size, the fastest first. Copies within one GPU are a class of their own."""
    apart = {size: {pair: value for pair, value in at.items() if pair[0] != pair[1]} for size, at in times.items()}
    found = {size: groups(np.log(list(at.values())).tolist()) for size, at in apart.items()}
    if any(len(each) > 1 for each in found.values()) and not _structured(apart):
        found = {size: [list(range(len(at)))] for size, at in apart.items()}
    return {size: _at_size(times[size], apart[size], found[size], names or {}) for size in times}


def class_names(classes: Sequence[PairClass]) -> dict[Pair, str]:
    """Pair -> the name of its class."""
    return {pair: each.name for each in classes for pair in each.pairs}


def _structured(times: Times) -> bool:
    """Whether the differences between pairs come back: in the opposite direction, at other sizes, of the same GPUs."""
    common = [pair for pair in next(iter(times.values()), {}) if all(pair in at for at in times.values())]
    ends = list(dict.fromkeys(end for pair in common for end in pair))
    compared = set(ends[:: -(-len(ends) // _MOST_COMPARED) or 1])  # spread over all of them
    common = [pair for pair in common if compared.issuperset(pair)]
    if len(common) < FEWEST:
        return True
    logs = np.log([[at[pair] for pair in common] for at in times.values()])
    places = {pair: place for place, pair in enumerate(common)}
    numbers = {place: number for number, place in enumerate(dict.fromkeys(end for pair in common for end in pair))}
    sources, targets = ([numbers[pair[end]] for pair in common] for end in (0, 1))
    mirror = [places.get((target, source), -1) for source, target in common]
    return repeats(ranks_of(logs), sources, targets, mirror)


def _at_size(
    times: Mapping[Pair, float], apart: Mapping[Pair, float], found: Sequence[Sequence[int]], names: Mapping[Pair, str]
) -> list[PairClass]:
    local = tuple(pair for pair in times if pair not in apart)
    pairs = list(apart)
    members = [tuple(pairs[place] for place in group) for group in found if group]
    between = _gaps([[apart[pair] for pair in group] for group in members])
    classes = [
        PairClass(name, group, float(median(apart[pair] for pair in group)), between[place])
        for place, (name, group) in enumerate(zip(_named(members, names), members, strict=True))
    ]
    if local:
        classes.append(PairClass(LOCAL, local, float(median(times[pair] for pair in local)), None))
    return sorted(classes, key=lambda each: each.time_s)


def _gaps(groups_s: Sequence[Sequence[float]]) -> list[float | None]:
    logs = [np.sort(np.log(group)) for group in groups_s]
    between: list[float | None] = [gap(below, above) for below, above in pairwise(logs)]
    return [*between, None]


def _named(members: Sequence[tuple[Pair, ...]], names: Mapping[Pair, str]) -> list[str]:
    """The name of each class, the fastest first; no two have the same."""
    described = [_common_name(group, names) for group in members]
    if len(members) == 1:
        return [described[0] if described[0] and " or " not in described[0] else ONE_CLASS]
    if not all(described):
        return _by_bandwidth(len(members))
    counts, seen = Counter(described), Counter[str]()
    told = []
    for name in described:
        seen[name] += 1
        told.append(name if counts[name] == 1 else f"{name}, {_by_bandwidth(counts[name])[seen[name] - 1]}")
    return told


def _common_name(group: Sequence[Pair], names: Mapping[Pair, str]) -> str:
    counts = Counter(names.get(pair, "") for pair in group)
    name, most = counts.most_common(1)[0]
    if most >= _MOST_SHARE * len(group):
        return name
    some = [each for each, count in counts.items() if each and count >= _SOME_SHARE * len(group)]
    return " or ".join(sorted(some, key=lambda each: distance(each) or 0))


def _by_bandwidth(count: int) -> list[str]:
    if count == 1:
        return [ONE_CLASS]
    middle = {3: ["middle"]}.get(count, [f"{_ordinal(place)} fastest" for place in range(2, count)])
    return ["fastest", *middle, "slowest"]


def _ordinal(place: int) -> str:
    ending = {2: "nd", 3: "rd"}.get(place, "th")
    return f"{place}{ending}"
