"""What any model of collectives has to beat: two textbook forms, fitted to the same figures as it.

    alpha-beta   base + steps x alpha + bytes / (share x beta): Hockney 1994; beta is what the rings' links carry
    power law    c x (bytes / beta) ** a x steps ** b, a fit for each band of sizes

Both know the described links, and how many steps the operation has; neither knows of protocols, trees, switches that
reduce, or who starts the GPUs.
"""

from collections.abc import Sequence

import numpy as np

from resnetx.interconnect.bands import Floats

_GUESS = np.array([1e-5, 3e-6, 1.0])  # base s, alpha s, 1 / share
_ROBUST = 0.1  # as of the model's own fit


def alpha_beta(known: Floats, times_s: Floats, asked: Floats) -> Floats:
    """Times of `asked` by a fit to `known`: rows of (steps, seconds that bytes take at the described rate, band)."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    def predicted(logs: Floats, rows: Floats) -> Floats:
        base, alpha, slowness = np.exp(logs) * _GUESS
        times: Floats = base + alpha * rows[:, 0] + slowness * rows[:, 1]
        return times

    def misses(logs: Floats) -> Floats:
        return np.log(predicted(logs, known) / times_s)

    return predicted(least_squares(misses, np.zeros(3), loss="soft_l1", f_scale=_ROBUST).x, asked)


def power_law(known: Floats, times_s: Floats, asked: Floats) -> Floats:
    """The same by a power law of each band; of a band without figures by that of all."""
    found = np.empty(len(asked))
    for band in set(asked[:, 2]):
        own = known[:, 2] == band
        own = own if own.any() else np.ones(len(known), dtype=bool)
        solved, *_ = np.linalg.lstsq(_terms(known[own]), np.log(times_s[own]), rcond=None)
        of_band = asked[:, 2] == band
        found[of_band] = np.exp(_terms(asked[of_band]) @ solved)
    return found


def _terms(rows: Floats) -> Floats:
    return np.column_stack([np.ones(len(rows)), np.log(rows[:, 1]), np.log(rows[:, 0])])


def row(steps: int, bytes_s: float, band: int) -> Sequence[float]:
    """One figure, as both read it."""
    return steps, bytes_s, band
