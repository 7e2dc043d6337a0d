"""What stands out among measured pairs: near ones that are slower than far ones, a slow pair, a slow GPU.

Anti-locality (Li et al. 2019, section 3.1): GPUs below one switch copy more slowly than GPUs of different sockets. Its
usual cause is that peer access is off: both directions of a staged copy then cross the one uplink of the switch.
Peers stand out that copy more slowly than through host memory, where both were timed.
A pair or GPU stands out if it is slower than those like it by far more than they differ among themselves. So does a
direction that is far slower than the way back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from resnetx.interconnect.pairs.classes import LEAST_SPREAD, LOCAL, Pair, Times, distance
from resnetx.interconnect.systems.paths import PathKind
from resnetx.record.machine import Unit
from resnetx.units import size_text

SLOWER = 0.1  # relative: by less than this, no pair or GPU is named
SPREADS = 5  # and by so many times as much as others differ
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
    pairs = [] if gpus or not names else _slow_pairs(residuals, unit)
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
    text = f"anti-locality: copies of {size_text(worst)} take {ratios[worst]:.2f} times as long ({near}) as ({far})"
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


def _slow_pair(pair: Pair, ratios: Mapping[int, float], unit: Unit) -> PairFinding:
    worst = max(ratios, key=lambda size: ratios[size])
    text = f"copies from {pair[0]} to {pair[1]} take {ratios[worst]:.2f} times as long as alike ones at "
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


def _slow_peers(
    size: int, slow: Sequence[Pair], beside: Mapping[Pair, tuple[float, float]], ratios: Mapping[Pair, float]
) -> PairFinding:
    peers_s, staged_s = (median(beside[pair][place] for pair in slow) for place in (0, 1))
    named = "" if len(slow) > _MOST_NAMED else f" ({', '.join(f'{source} to {target}' for source, target in slow)})"
    text = (
        f"peer copies of {size_text(size)} reach {staged_s / peers_s:.2f} of the rate of those staged in host memory: "
        f"{size / peers_s / 1e9:.2f} against {size / staged_s / 1e9:.2f} GB/s in one direction, "
        f"{len(slow)} of {len(ratios)} pairs{named}"
    )
    worst = max(ratios[pair] for pair in slow)
    return PairFinding("slow peers", (size,), worst, tuple(slow), text, _SLOW_PEERS)


_SLOW_PEERS = (
    "check whether the driver supports peers between these GPUs, as not on every GeForce (nvidia-smi topo -p2p rw); an "
    "IOMMU or ACS, which sends their traffic through the root (dmesg; lspci -vvv: ACSCtl); until then, "
    "NCCL_P2P_DISABLE=1 makes NCCL stage in host memory"
)
