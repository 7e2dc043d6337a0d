"""What stands out among measured pairs: near ones that are slower than far ones, a slow pair, a slow GPU.

Anti-locality (Li et al. 2019, section 3.1): GPUs below one switch copy more slowly than GPUs of different sockets. Its
usual cause is that peer access is off: both directions of a staged copy then cross the one uplink of the switch.
A pair or GPU stands out if it is slower than those like it by far more than they differ among themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from resnetx.interconnect.pair_classes import LOCAL, Pair, Times, distance
from resnetx.interconnect.pair_clusters import LEAST_SPREAD
from resnetx.interconnect.paths import PathKind
from resnetx.units import size_text

SLOWER = 0.1  # relative: by less than this, no pair or GPU is named
SPREADS = 5  # and by so many times as much as others differ
NEAR_SLOWER = 0.03  # relative, of a class nearer than another
_NEAR_SPREADS = 2
_FEWEST_GPUS = 4


@dataclass(frozen=True)
class Finding:
    """One thing that stands out."""

    what: Literal["anti-locality", "slow pair", "slow GPU"]
    sizes_bytes: tuple[int, ...]  # at which it does
    ratio: float  # of times, where it is largest
    pairs: tuple[Pair, ...]
    text: str
    cause: str  # the likely one; "": none is known


def findings(times: Times, names: Mapping[Pair, str], kinds: Mapping[Pair, PathKind]) -> list[Finding]:
    """All that stands out. `names`, `kinds`: the described class of pairs and the kind of their paths, or nothing."""
    apart = {size: {pair: value for pair, value in at.items() if pair[0] != pair[1]} for size, at in times.items()}
    residuals = {size: _residuals(at, names) for size, at in apart.items()}
    gpus = _slow_gpus(residuals) if names else _slow_gpus({size: _by_profile(at) for size, at in apart.items()})
    pairs = [] if gpus or not names else _slow_pairs(residuals)
    return [*_anti_locality(apart, names, kinds), *gpus, *pairs]


# ---- near and far


def _anti_locality(times: Times, names: Mapping[Pair, str], kinds: Mapping[Pair, PathKind]) -> list[Finding]:
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
    return [Finding("anti-locality", tuple(sorted(ratios)), ratios[worst], pairs, text, cause)]


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
        for place, (value, pair) in enumerate(each):
            beside = float(np.log(value / median(profile[place][0] for profile in own.values())))
            found[pair] = max(found.get(pair, -np.inf), beside)
    return found


def _gpus(pairs: Mapping[Pair, float]) -> list[int | str]:
    return list(dict.fromkeys(end for pair in pairs for end in pair))


def _slow_gpus(residuals: Mapping[int, Residuals]) -> list[Finding]:
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
    return [_slow_gpu(gpu, ratios, residuals) for gpu, ratios in seen.items()]


def _slow_gpu(gpu: int | str, ratios: Mapping[int, float], residuals: Mapping[int, Residuals]) -> Finding:
    worst = max(ratios, key=lambda size: ratios[size])
    pairs = tuple(pair for pair in residuals[worst] if gpu in pair)
    text = f"GPU {gpu} is slow with most others: {ratios[worst]:.2f} times as long as theirs at {size_text(worst)}"
    return Finding("slow GPU", tuple(sorted(ratios)), ratios[worst], pairs, text, _SLOW_GPU)


_SLOW_GPU = "its PCIe width or generation, its slot or riser, replays and ECC errors, its power state"
_SLOW_PAIR = "one link between them: its width, lanes that are down, CRC errors and replays"


def _slow_pairs(residuals: Mapping[int, Residuals]) -> list[Finding]:
    seen: dict[Pair, dict[int, float]] = {}
    for size, at in residuals.items():
        spread = _spread(list(at.values())) if at else 0.0
        for pair, value in at.items():
            if value > max(np.log1p(SLOWER), SPREADS * spread):
                seen.setdefault(pair, {})[size] = float(np.exp(value))
    lasting = {pair: ratios for pair, ratios in seen.items() if 2 * len(ratios) > len(residuals)}
    return [_slow_pair(pair, ratios) for pair, ratios in lasting.items()]


def _slow_pair(pair: Pair, ratios: Mapping[int, float]) -> Finding:
    worst = max(ratios, key=lambda size: ratios[size])
    text = f"copies from {pair[0]} to {pair[1]} take {ratios[worst]:.2f} times as long as alike ones at "
    return Finding("slow pair", tuple(sorted(ratios)), ratios[worst], (pair,), text + size_text(worst), _SLOW_PAIR)
