"""How far off costs of pair copies are, as measured: `results/published/pairs-fit.yaml`.

Only figures count that nothing was fitted to. Copies are told apart by the kind of their path, their direction and the
band of their size. Of other systems than the published one, all copies between two GPUs count.

    error_of("dgx1-p100", "host", "one-way", 4 * 2**20).q90
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil

import msgspec

from resnetx.interconnect.pair_costs import FIT_FILE, PairFit
from resnetx.interconnect.pair_figures import SYSTEM, Direction, PairFigure
from resnetx.loading import own_yaml

BANDS_BYTES = (32 * 2**10, 2 * 2**20, 32 * 2**20)  # where a latency, a first chunk, and a start no longer decide
LEVEL = 0.9
SOURCE = "Tartan (Li et al. 2019) on a P100 DGX-1"


class PairError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Relative errors of times that were not fitted."""

    kind: str  # of the path; "any": all between two GPUs
    direction: Direction
    band: int  # index of `BANDS_BYTES`, one higher
    figures: int
    mean: float
    q90: float  # that 90 % were within
    worst: float
    bias: float  # mean of predicted over measured, less one


class ErrorFile(msgspec.Struct, frozen=True):
    """The file, but for what is fitted."""

    errors: list[PairError]


def errors(figures: Iterable[PairFigure], fit: PairFit) -> list[PairError]:
    """The errors of all figures that are not fitted, cell by cell."""
    cells: dict[tuple[str, Direction, int], list[float]] = {}
    for figure in figures:
        if not figure.fitted:
            error = figure.predicted_s(fit) / figure.time_s - 1
            for kind in ["local"] if figure.kind == "local" else [figure.kind, "any"]:
                cells.setdefault((kind, figure.direction, _band(figure.size_bytes)), []).append(error)
    return [_cell(*key, found) for key, found in sorted(cells.items())]


def _cell(kind: str, direction: Direction, band: int, found: Sequence[float]) -> PairError:
    sizes = sorted(map(abs, found))
    place = min(len(sizes), ceil(LEVEL * (len(sizes) + 1))) - 1
    mean, bias = (round(sum(each) / len(found), 4) for each in (sizes, found))
    q90, worst = (ceil(each * 1e4) / 1e4 for each in (sizes[place], sizes[-1]))
    return PairError(kind, direction, band, len(found), mean, q90, worst, bias)


def _band(size_bytes: int) -> int:
    return bisect_right(BANDS_BYTES, size_bytes)


@cache
def _by_key() -> dict[tuple[str, Direction, int], PairError]:
    file: ErrorFile = own_yaml(FIT_FILE, ErrorFile)
    return {(each.kind, each.direction, each.band): each for each in file.errors}


def error_of(system: str, kind: str, direction: Direction, size_bytes: int) -> PairError:
    """Of copies over this kind of path; of all between two GPUs on a system of which nobody has published any."""
    known, band = _by_key(), _band(size_bytes)
    of_kind = known.get((kind, direction, band)) if system == SYSTEM or kind == "local" else None
    return of_kind or known["any", direction, band]


def tolerance(system: str, kind: str, direction: Direction, size_bytes: int) -> float:
    """How far a time may be off before that is the machine's doing: farther than any published one was.

    Never less than the mean error of all kinds of copies.
    """
    own = error_of(system, kind, direction, size_bytes)
    return max(own.worst, _by_key()["any", direction, _band(size_bytes)].mean)
