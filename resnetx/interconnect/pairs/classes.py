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
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from resnetx.interconnect.systems.graph import System
from resnetx.interconnect.systems.paths import Path, PathKind, Transport, copy_path
from resnetx.units import Unit, size_text

# Groups among the times of pairs at one size: sorted logarithms are split where the gap is wide in units of the spread
# within both sides, as pure noise reaches in 1 % of cases (Student's t of 3 degrees of freedom), again and again. A gap
# is one between classes if it comes back in the opposite direction, at other sizes, or in pairs with the same source or
# target (`repeats`).

Floats = npt.NDArray[np.float64]

FALSE_SPLITS = 0.01  # of groups of pure noise
FALSE_REPEATS = 0.05  # of shuffled values
FEWEST = 4  # values: of three, none has a gap between two and two
LEAST_SPREAD = 0.003  # relative: matrices are printed to two digits behind the point
LEAST_GAP = 0.02  # relative: nobody chooses GPUs by less
MANY = 24  # from so many values on, a group has at least `LEAST_OF_MANY`; below, two
LEAST_OF_MANY = 4
_DRAWN = 2000
_MOST_DRAWN = 64  # values: with more of them, gaps of noise are narrower
_SHUFFLES = 200
_SEED = 2017
_TAILS = 3


def groups(logs: Sequence[float]) -> list[list[int]]:
    """The places of the values, group by group, the smallest values first; one group where no gap is wide."""
    order = [int(place) for place in np.argsort(logs, kind="stable")]
    values = np.asarray(logs, dtype=float)[order]
    return [order[start:end] for start, end in _split(values, 0, len(order))]


def _split(values: Floats, start: int, end: int) -> list[tuple[int, int]]:
    width, at = widest(values[start:end])
    if width < critical(end - start) or values[start + at] - values[start + at - 1] < LEAST_GAP:
        return [(start, end)]
    return [*_split(values, start, start + at), *_split(values, start + at, end)]


def widest(ordered: Floats) -> tuple[float, int]:
    """The widest gap of ascending values in units of the spread beside it, and the place behind it; (0, 0): none."""
    least = _least(len(ordered))
    places = range(least, len(ordered) - least + 1)
    scores = [(gap(ordered[:at], ordered[at:]), at) for at in places]
    return max(scores, default=(0.0, 0))


def gap(below: Floats, above: Floats) -> float:
    """The gap between two groups of ascending values in units of their spread: the mean distance from their medians."""
    apart = np.concatenate([np.abs(below - np.median(below)), np.abs(above - np.median(above))])
    freedom = max(1, len(apart) - 2)
    return float((above[0] - below[-1]) / max(apart.sum() / freedom, LEAST_SPREAD))


def _least(count: int) -> int:
    return LEAST_OF_MANY if count >= MANY else 2


def critical(count: int) -> float:
    """How wide the widest gap of pure noise is in one of a hundred cases."""
    return _critical(min(count, _MOST_DRAWN)) if count >= FEWEST else np.inf


@cache
def _critical(count: int) -> float:
    drawn = np.sort(np.random.default_rng(_SEED).standard_t(_TAILS, (_DRAWN, count)), axis=1)
    least = _least(count)
    widths = np.zeros(_DRAWN)
    for at in range(least, count - least + 1):
        below, above = drawn[:, :at], drawn[:, at:]
        apart = _distances(below) + _distances(above)
        widths = np.maximum(widths, (above[:, 0] - below[:, -1]) / (apart / max(1, count - 2)))
    return float(np.quantile(widths, 1 - FALSE_SPLITS))


def _distances(rows: Floats) -> Any:
    return np.abs(rows - np.median(rows, axis=1, keepdims=True)).sum(axis=1)


# ---- what comes back


def repeats(
    ranks: Floats, sources: Sequence[int], targets: Sequence[int], mirror: Sequence[int], false: float = FALSE_REPEATS
) -> bool:
    """Whether values are more alike where they should be than shuffled ones are.

    `ranks`: a row for each size, a column for each pair. `sources`, `targets`: a number for each pair's; `mirror`: the
    column of the opposite pair, -1 where there is none. True where nothing is there to compare with.
    """
    alike = _Alike(ranks.shape, sources, targets, mirror)
    seen = alike.measures(ranks)
    if not len(seen):
        return True
    random = np.random.default_rng(_SEED)
    shuffled = np.array([alike.measures(random.permuted(ranks, axis=1)) for _ in range(_SHUFFLES)])
    middle, width = shuffled.mean(axis=0), shuffled.std(axis=0) + 1e-12
    highest = ((shuffled - middle) / width).max(axis=1)
    return bool((np.sum(highest >= ((seen - middle) / width).max() - 1e-9) + 1) / (_SHUFFLES + 1) <= false)


class _Alike:
    """How alike opposite pairs, other sizes, and pairs of one source or target are; each only where there are any."""

    def __init__(
        self, shape: tuple[int, ...], sources: Sequence[int], targets: Sequence[int], mirror: Sequence[int]
    ) -> None:
        self.sizes, count = shape
        self.opposite = [(index, other) for index, other in enumerate(mirror) if other >= 0]
        self.ends = [_one_hot(end) for end in (sources, targets) if 1 < len(set(end)) < count]

    def measures(self, ranks: Floats) -> Floats:
        """Each the more alike, the higher."""
        found = []
        if self.opposite:
            here, there = np.array(self.opposite).T
            found.append(-float(np.abs(ranks[:, here] - ranks[:, there]).mean()))
        if self.sizes > 1:
            found.append(-float(np.mean([np.abs(a - b).mean() for a, b in pairwise(ranks)])))
        found += [float(((ranks @ end / end.sum(axis=0)) ** 2 @ end.sum(axis=0)).sum()) for end in self.ends]
        return np.array(found)


def _one_hot(ends: Sequence[int]) -> Floats:
    names = sorted(set(ends))
    return np.array([[float(end == name) for name in names] for end in ends])


def ranks_of(logs: Floats) -> Floats:
    """Each row's values as places from -1 to 1; equal values share theirs."""
    count = logs.shape[1]
    below = (logs[:, :, None] > logs[:, None, :]).sum(axis=2)
    above = (logs[:, :, None] < logs[:, None, :]).sum(axis=2)
    placed: Floats = (below - above) / max(1, count - 1)
    return placed


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
    return {
        (described_pair.path.source, described_pair.path.target): described_pair.name
        for described_pair in described_pairs(system, transport)
    }


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
        split = sum(len(each) > 1 for each in found.values())
        found = {size: _if_it_repeats(list(apart[size]), each, FALSE_REPEATS / split) for size, each in found.items()}
    return {size: _at_size(times[size], apart[size], found[size], names or {}) for size in times}


def class_names(classes: Sequence[PairClass]) -> dict[Pair, str]:
    """Pair -> the name of its class."""
    return {pair: each.name for each in classes for pair in each.pairs}


def _if_it_repeats(pairs: Sequence[Pair], found: list[list[int]], false: float) -> list[list[int]]:
    """The groups of one size where they come back within it, beside sizes that have none, as latencies; else one."""
    number = {pairs[place]: index + 1.0 for index, places in enumerate(found) for place in places}
    kept = len(found) > 1 and _structured({0: {pair: number[pair] for pair in pairs}}, false)
    return found if kept else [list(range(len(pairs)))]


def _structured(times: Times, false: float = FALSE_REPEATS) -> bool:
    """Whether the differences between pairs come back: in the opposite direction, at other sizes, of the same GPUs."""
    common = [pair for pair in next(iter(times.values()), {}) if all(pair in at for at in times.values())]
    ends = list(dict.fromkeys(end for pair in common for end in pair))
    compared = set(ends[:: -(-len(ends) // _MOST_COMPARED) or 1])  # spread over all of them
    common = [pair for pair in common if compared.issuperset(pair)]
    if len(common) < FEWEST:
        return True
    logs = np.log([[at[pair] for pair in common] for at in times.values()])
    places = {pair: index for index, pair in enumerate(common)}
    numbers = {place: number for number, place in enumerate(dict.fromkeys(end for pair in common for end in pair))}
    sources, targets = ([numbers[pair[end]] for pair in common] for end in (0, 1))
    mirror = [places.get((target, source), -1) for source, target in common]
    return repeats(ranks_of(logs), sources, targets, mirror, false)


def _at_size(
    times: Mapping[Pair, float], apart: Mapping[Pair, float], found: Sequence[Sequence[int]], names: Mapping[Pair, str]
) -> list[PairClass]:
    local = tuple(pair for pair in times if pair not in apart)
    pairs = list(apart)
    members = [tuple(pairs[place] for place in group) for group in found if group]
    between = _gaps([[apart[pair] for pair in group] for group in members])
    classes = [
        PairClass(name, group, float(median(apart[pair] for pair in group)), between[index])
        for index, (name, group) in enumerate(zip(_named(members, names), members, strict=True))
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
    middle = {3: ["middle"]}.get(count, [f"{_ordinal(index)} fastest" for index in range(2, count)])
    return ["fastest", *middle, "slowest"]


def _ordinal(index: int) -> str:
    ending = {2: "nd", 3: "rd"}.get(index, "th")
    return f"{index}{ending}"


# ---- findings -------------------------------------------------------------------------------------------------------
# What stands out among measured pairs: near ones that are slower than far ones (anti-locality: Li et al. 2019, section
# 3.1; as a rule peer access is off, so that both directions of a staged copy cross one uplink); peers slower than
# through host memory; a pair, a GPU or a direction far slower than those like it.

SLOWER = 0.1  # relative: by less than this, no pair or GPU is named
SPREADS = 5  # and by so many times as much as others differ
FAR_SLOWER = 2  # times, of two GPUs where no topology says which others are alike
SLOWER_THAN_BACK = 0.5  # relative: of links that carry as much both ways, timings differ by less
SLOWER_THAN_STAGED = 0.25  # relative, of some pairs alone: one timing of a staged copy is 10 % off at times
NEAR_SLOWER = 0.03  # relative, of a class nearer than another
_NEAR_SPREADS = 2
_FEWEST_GPUS = 4
_MOST_NAMED = 4  # pairs, in a sentence


@dataclass(frozen=True)
class PairFinding:
    """One thing that stands out."""

    what: Literal["anti-locality", "slow pair", "slow direction", "slow GPU", "slow rank", "slow peers"]
    sizes_bytes: tuple[int, ...]  # at which it does
    ratio: float  # of times, where it is largest
    pairs: tuple[Pair, ...]
    text: str
    cause: str  # the likely one; "": none is known


def findings(
    times: Times, names: Mapping[Pair, str], kinds: Mapping[Pair, PathKind], unit: Unit = "GPU"
) -> list[PairFinding]:
    """All that stands out. `names`, `kinds`: the described class of pairs and the kind of their paths, or nothing.

    `unit`: what copies to each other.
    """
    apart = {size: {pair: value for pair, value in at.items() if pair[0] != pair[1]} for size, at in times.items()}
    residuals = {size: _residuals(at, names) for size, at in apart.items()}
    profiles = residuals if names else {size: _by_profile(at) for size, at in apart.items()}
    gpus = _slow_gpus(profiles, unit)
    pairs = [] if gpus else _slow_pairs(residuals, unit) if names else _slowest_pair(apart, unit)
    named = {pair for finding in pairs for pair in finding.pairs}
    return [*_anti_locality(apart, names, kinds), *gpus, *pairs, *_slow_directions(apart, names, named, unit)]


# ---- near and far


def _anti_locality(times: Times, names: Mapping[Pair, str], kinds: Mapping[Pair, PathKind]) -> list[PairFinding]:
    """The worst reversal: a nearer class that takes longer than a farther one, at the sizes where it does."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for size, at in times.items():
        for near, far, ratio in _reversals(at, names):
            found.setdefault((near, far), {})[size] = ratio
    if not found:
        return []
    (near, far), ratios = max(found.items(), key=lambda each: max(each[1].values()))
    worst = max(ratios, key=lambda size: ratios[size])
    pairs = tuple(pair for pair in times[worst] if names.get(pair) == near)
    staged = all(kinds.get(pair) == "host" for pair in pairs)
    text = f"copies of {size_text(worst)} take {ratios[worst]:.2f} times as long ({near}) as ({far})"
    cause = _SHARED_UPLINK if staged else _REDIRECTED
    return [PairFinding("anti-locality", tuple(sorted(ratios)), ratios[worst], pairs, text, cause)]


_SHARED_UPLINK = "peer access is off: a staged copy crosses the uplink that both GPUs share, up and down"
_REDIRECTED = "the near pairs' traffic takes a way round: ACS or an IOMMU sends it through the root, or a link is slow"


def _reversals(at: Mapping[Pair, float], names: Mapping[Pair, str]) -> list[tuple[str, str, float]]:
    """(near, far, time near / time far) of each two described classes in the wrong order."""
    classes: dict[str, list[float]] = {}
    for pair, value in at.items():
        if distance(names.get(pair, "")) is not None and names[pair] != LOCAL:
            classes.setdefault(names[pair], []).append(float(np.log(value)))
    found = []
    for near, slow in classes.items():
        for far, fast in classes.items():
            apart = median(slow) - median(fast)
            spread = max((_spread(slow) + _spread(fast)) / 2, LEAST_SPREAD)
            if _nearer(near, far) and apart > max(np.log1p(NEAR_SLOWER), _NEAR_SPREADS * spread):
                found.append((near, far, float(np.exp(apart))))
    return found


def _nearer(near: str, far: str) -> bool:
    here, there = distance(near), distance(far)
    return here is not None and there is not None and here < there


def _spread(logs: Sequence[float]) -> float:
    """The median distance from the median, as a standard deviation."""
    middle = median(logs)
    return 1.4826 * median(abs(each - middle) for each in logs)


# ---- one pair, one GPU

Residuals = Mapping[Pair, float]  # logarithms of time over that of pairs alike


def _residuals(at: Mapping[Pair, float], names: Mapping[Pair, str]) -> dict[Pair, float]:
    classes: dict[str, list[float]] = {}
    for pair, value in at.items():
        classes.setdefault(names.get(pair, ""), []).append(value)
    return {pair: float(np.log(value / median(classes[names.get(pair, "")]))) for pair, value in at.items()}


def _by_profile(at: Mapping[Pair, float]) -> dict[Pair, float]:
    """Without a topology: each GPU's times, sorted, beside those of the others at the same place."""
    own = {gpu: sorted((value, pair) for pair, value in at.items() if gpu in pair) for gpu in _gpus(at)}
    if len({len(each) for each in own.values()}) != 1:
        return {}
    found: dict[Pair, float] = {}
    for each in own.values():
        for index, (value, pair) in enumerate(each):
            beside = float(np.log(value / median(profile[index][0] for profile in own.values())))
            found[pair] = max(found.get(pair, -np.inf), beside)
    return found


def _gpus(pairs: Mapping[Pair, float]) -> list[int | str]:
    return list(dict.fromkeys(end for pair in pairs for end in pair))


def _slow_gpus(residuals: Mapping[int, Residuals], unit: Unit) -> list[PairFinding]:
    """GPUs that most of their own pairs, and few others, are slow with."""
    seen: dict[int | str, dict[int, float]] = {}
    for size, at in residuals.items():
        gpus = _gpus(at)
        if len(gpus) < _FEWEST_GPUS:
            continue
        for gpu in gpus:
            mine = [value for pair, value in at.items() if gpu in pair]
            others = [value for pair, value in at.items() if gpu not in pair]
            if not others:  # every pair has it
                continue
            own = median(mine)
            if own - median(others) > max(np.log1p(SLOWER), SPREADS * _spread(others)):
                seen.setdefault(gpu, {})[size] = float(np.exp(own - median(others)))
    return [_slow_gpu(gpu, ratios, residuals, unit) for gpu, ratios in seen.items()]


def _slow_gpu(
    gpu: int | str, ratios: Mapping[int, float], residuals: Mapping[int, Residuals], unit: Unit
) -> PairFinding:
    worst = max(ratios, key=lambda size: ratios[size])
    pairs = tuple(pair for pair in residuals[worst] if gpu in pair)
    text = f"{unit} {gpu} is slow with most others: {ratios[worst]:.2f} times as long as theirs at {size_text(worst)}"
    what: Literal["slow GPU", "slow rank"] = "slow GPU" if unit == "GPU" else "slow rank"
    return PairFinding(what, tuple(sorted(ratios)), ratios[worst], pairs, text, _SLOW_ONE[unit])


_SLOW_ONE: dict[Unit, str] = {
    "GPU": "its PCIe width or generation, its slot or riser, replays and ECC errors, its power state",
    "rank": "the cores that it runs on: their clock, their NUMA node, other processes on them",
}
_SLOW_PAIR: dict[Unit, str] = {
    "GPU": "one link between them: its width, lanes that are down, CRC errors and replays",
    "rank": "the link between them: its rate, and what else it carries",
}


def _slow_pairs(residuals: Mapping[int, Residuals], unit: Unit) -> list[PairFinding]:
    seen: dict[Pair, dict[int, float]] = {}
    for size, at in residuals.items():
        spread = _spread(list(at.values())) if at else 0.0
        for pair, value in at.items():
            if value > max(np.log1p(SLOWER), SPREADS * spread):
                seen.setdefault(pair, {})[size] = float(np.exp(value))
    lasting = {pair: ratios for pair, ratios in seen.items() if 2 * len(ratios) > len(residuals)}
    return [_slow_pair(pair, ratios, unit) for pair, ratios in lasting.items()]


def _slowest_pair(times: Times, unit: Unit) -> list[PairFinding]:
    """Without a topology: two that both take far longer to each other than any other two, at half of the sizes."""
    seen: dict[Pair, dict[int, float]] = {}
    for size, at in times.items():
        pair = max(at, key=lambda each: at[each], default=None)
        if pair is not None and len(_gpus(at)) >= _FEWEST_GPUS:
            others = max(value for each, value in at.items() if set(each) != set(pair))
            if min(at[pair], at.get(pair[::-1], at[pair])) > FAR_SLOWER * others:
                either = min(pair, pair[::-1]) if pair[::-1] in at else pair  # one finding, whichever way is slower
                seen.setdefault(either, {})[size] = at[pair] / others
    lasting = {pair: ratios for pair, ratios in seen.items() if 2 * len(ratios) >= len(times)}
    return [_slow_pair(pair, ratios, unit, "any others") for pair, ratios in lasting.items()]


def _slow_pair(pair: Pair, ratios: Mapping[int, float], unit: Unit, others: str = "alike ones") -> PairFinding:
    worst = max(ratios, key=lambda size: ratios[size])
    text = f"copies from {pair[0]} to {pair[1]} take {ratios[worst]:.2f} times as long as {others} at "
    return PairFinding(
        "slow pair", tuple(sorted(ratios)), ratios[worst], (pair,), text + size_text(worst), _SLOW_PAIR[unit]
    )


def _slow_directions(times: Times, names: Mapping[Pair, str], named: set[Pair], unit: Unit) -> list[PairFinding]:
    """Pairs of one class both ways round, of which one direction is far slower at most sizes; in one sentence."""
    seen: dict[Pair, dict[int, float]] = {}
    for size, at in times.items():
        for pair, value in at.items():
            back = pair[::-1]
            if pair in named or back not in at or names.get(pair) != names.get(back):
                continue
            if value > (1 + SLOWER_THAN_BACK) * at[back]:
                seen.setdefault(pair, {})[size] = value / at[back]
    lasting = {pair: ratios for pair, ratios in seen.items() if 2 * len(ratios) > len(times)}
    if not lasting:
        return []
    pair = max(lasting, key=lambda each: max(lasting[each].values()))
    worst = max(lasting[pair], key=lambda size: lasting[pair][size])
    others = f" ({len(lasting) - 1} more so)" if len(lasting) > 1 else ""
    text = (
        f"copies from {pair[0]} to {pair[1]} take {lasting[pair][worst]:.2f} times as long as those back at "
        f"{size_text(worst)}{others}"
    )
    return [
        PairFinding(
            "slow direction", tuple(sorted(lasting[pair])), lasting[pair][worst], tuple(lasting), text, _SLOW_PAIR[unit]
        )
    ]


# ---- peers


def slow_peers(peers: Times, staged: Times) -> list[PairFinding]:
    """Pairs that copy more slowly as peers than through host memory, at the largest size at which some do."""
    for size in sorted(peers.keys() & staged.keys(), reverse=True):
        beside = {pair: (time_s, staged[size][pair]) for pair, time_s in peers[size].items() if pair in staged[size]}
        ratios = {pair: over / under for pair, (over, under) in beside.items() if pair[0] != pair[1]}
        most = bool(ratios) and median(ratios.values()) > 1 + SLOWER
        slow = [pair for pair, ratio in ratios.items() if ratio > 1 + (SLOWER if most else SLOWER_THAN_STAGED)]
        if slow:
            return [_slow_peers(size, slow, beside, ratios)]
    return []


LATENCY_BYTES = 4096  # up to here, the time of a copy is a latency, and its rate means nothing


def _slow_peers(
    size: int, slow: Sequence[Pair], beside: Mapping[Pair, tuple[float, float]], ratios: Mapping[Pair, float]
) -> PairFinding:
    peers_s, staged_s = (median(beside[pair][place] for pair in slow) for place in (0, 1))
    named = "" if len(slow) > _MOST_NAMED else f" ({', '.join(f'{source} to {target}' for source, target in slow)})"
    if size <= LATENCY_BYTES:
        than = f"take {peers_s / staged_s:.2f} times as long as those staged in host memory: "
        both = f"{peers_s * 1e6:.3g} against {staged_s * 1e6:.3g} us"
    else:
        than = f"reach {staged_s / peers_s:.2f} of the rate of those staged in host memory: "
        both = f"{size / peers_s / 1e9:.2f} against {size / staged_s / 1e9:.2f} GB/s in one direction"
    text = f"peer copies of {size_text(size)} {than}{both}, {len(slow)} of {len(ratios)} pairs{named}"
    worst = max(ratios[pair] for pair in slow)
    return PairFinding("slow peers", (size,), worst, tuple(slow), text, _SLOW_PEERS)


_SLOW_PEERS = (
    "check whether the driver supports peers between these GPUs, as not on every GeForce (nvidia-smi topo -p2p rw); an "
    "IOMMU or ACS, which sends their traffic through the root (dmesg; lspci -vvv: ACSCtl); until then, "
    "NCCL_P2P_DISABLE=1 makes NCCL stage in host memory"
)
