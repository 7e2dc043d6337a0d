"""Comparing two things on a machine that is shared and noisy: in turns, as a ratio, with a control.

Every round times each contender once, in random order; a ratio is taken within its round, so that what slows the
machine for seconds slows both. The control is a contender against its own twin: its spread is what the machine can
tell apart, and a result within it decides nothing.
"""

import random
from collections.abc import Callable, Mapping

import numpy as np


def rounds(contenders: Mapping[str, Callable[[], float]], count: int, seed: int = 0) -> dict[str, list[float]]:
    """Seconds of each contender in each of `count` rounds; the same order in every process with the same seed."""
    shuffle = random.Random(seed).shuffle
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(count):
        order = list(contenders)
        shuffle(order)
        for name in order:
            times[name].append(contenders[name]())
    return times


def ratio(of: list[float], to: list[float]) -> dict[str, float]:
    """Median over the rounds of `of` / `to`, with the 95 % interval of a percentile bootstrap."""
    ratios = np.array(of) / np.array(to)
    draws = np.random.default_rng(0).choice(ratios, size=(10_000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return {"median": float(np.median(ratios)), "low": float(low), "high": float(high), "rounds": len(ratios)}


def ratio_of_quantiles(of: list[float], to: list[float], share: float = 0.5) -> dict[str, float]:
    """The same quantile of both, divided: medians, or what calls take that nothing disturbs (`share` = 0.1).

    The 95 % interval is that of a bootstrap that draws rounds, so that what slowed one round stays in both.
    """
    pairs = np.array([of, to])
    ours, theirs = np.quantile(pairs, share, axis=1)
    draws = np.random.default_rng(0).integers(len(of), size=(2_000, len(of)))
    drawn = np.array([np.quantile(pairs[:, draw], share, axis=1) for draw in draws])
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
    return {"median": float(ours / theirs), "low": float(low), "high": float(high), "rounds": len(of)}


def sentence(name: str, result: Mapping[str, float]) -> str:
    return f"{name}: {result['median']:.3f} [{result['low']:.3f}, {result['high']:.3f}] over {result['rounds']} rounds"
