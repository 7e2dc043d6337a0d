"""How far off costs of collectives are, as measured: `results/published/collective-errors.yaml`.

Each published figure is predicted with what was fitted without its source (`fitting`). Its error counts for plans of
its system, library and collective in its band of sizes; where fewer than `FEWEST` figures are known, for those of the
library and collective on any system, of the library, then of all. A mean is never below that of the few which are
closer. Rings and messages (all-to-all, send-receive, gather, scatter) never stand for each other. Of a kind of machine
that no figure is of (`compared_kinds`) the error is not known: what it would fall back to is of something else.

    error_of(plan, 64 * 2**20).mean
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import TYPE_CHECKING

import msgspec

from resnetx.interconnect.compared_kinds import never_compared
from resnetx.interconnect.fitted import FOLDER
from resnetx.loading import own_yaml
from resnetx.operations import OPERATIONS

if TYPE_CHECKING:
    from resnetx.interconnect.collective import CollectivePlan

ERRORS_FILE = FOLDER / "collective-errors.yaml"
BANDS_BYTES = (256 * 2**10, 4 * 2**20, 64 * 2**20)  # where the second band begins, the third and the fourth
FEWEST = 5  # figures that make a cell by themselves
LEVEL = 0.9
SENDS = "sends"  # stands for the collectives that are messages; None: for those that go around rings

Key = tuple[str | None, str | None, str | None, bool, int | None]  # system, library, collective, several nodes, band


@dataclass(frozen=True)
class MeasuredError:
    """Relative errors of a time: their mean, what 90 % are within, from how many figures, and whose."""

    mean: float
    q90: float
    points: int  # 0: none is of such plans
    source: str
    held_out: bool = False  # of points that calibrate the plan, each predicted from the others

    @property
    def known(self) -> bool:
        """Whether anything alike was ever compared with measurements; else the figures are those of everything else."""
        return self.points > 0

    @property
    def text(self) -> str:
        """A sentence for results."""
        if not self.known:
            return f"Error not known: {self.source}."
        of = "held out of" if self.held_out else "mean of"
        return f"Off by {self.mean:.1%} ({of} {self.points} {self.source}), 90 % within {self.q90:.1%}."


@dataclass(frozen=True)
class Residual:
    """One published figure, and how far off its prediction is that knew nothing of its source."""

    system: str
    library: str
    collective: str
    nodes: int
    size_bytes: int
    publication: str
    error: float  # relative, of the time; not negative

    @property
    def source(self) -> tuple[str, str]:
        """(publication, system)"""
        return self.publication, self.system


class ErrorCell(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The errors of figures that are alike; null: of any."""

    mean: float
    q90: float
    points: int
    sources: list[str]
    system: str | None = None
    library: str | None = None
    collective: str | None = None
    several_nodes: bool = False
    band: int | None = None  # index of `BANDS_BYTES`, one higher

    @property
    def key(self) -> Key:
        return self.system, self.library, self.collective, self.several_nodes, self.band


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many figures lay within the 90 % that the figures of other sources give."""

    what: str
    points: int
    within: int


class SourceError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mean error of a source's figures: with all fitted, and with the source left out.

    Messages have nothing fitted that a source could be left out of: three of their constants are from three of these
    sources (`sends`).
    """

    publication: str
    system: str
    sends: bool  # of the collectives that are messages; false: of those that go around rings, or up and down trees
    points: int
    fitted_error: float
    left_out_error: float | None

    @property
    def name(self) -> str:
        return self.publication + ", messages" * self.sends


class ErrorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    held: list[Held]
    sources: list[SourceError]
    cells: list[ErrorCell]


# ---- measured


def cells(residuals: Sequence[Residual]) -> list[ErrorCell]:
    """One for each system, library, collective and band with figures, and for each that these fall back to."""
    grouped: dict[Key, list[Residual]] = {}
    for residual in residuals:
        for key in _keys(residual, residual.nodes > 1):
            grouped.setdefault(key, []).append(residual)
    return [_cell(key, found) for key, found in grouped.items()]


def held(residuals: Sequence[Residual]) -> list[Held]:
    """Each source judged by the cells of all others."""
    within: dict[Residual, bool] = {}
    for source in dict.fromkeys(residual.source for residual in residuals):
        others = {cell.key: cell for cell in cells([each for each in residuals if each.source != source])}
        for each in (each for each in residuals if each.source == source):
            within[each] = each.error <= _looked_up(others, each, each.nodes > 1).q90
    rings = [each for each in residuals if not OPERATIONS[each.collective].sends]
    large = [each for each in rings if each.collective == "allreduce" and each.size_bytes >= 2**20]
    kinds = {"figures of rings and trees": rings, "all-reduces of 1 MiB and more": large}
    return [Held(what, len(kind), sum(within[each] for each in kind)) for what, kind in kinds.items()]


def _keys(place: Residual, several: bool) -> Iterator[Key]:
    """From the closest to the widest."""
    band = bisect_right(BANDS_BYTES, place.size_bytes)
    yield place.system, place.library, place.collective, several, band
    yield None, place.library, place.collective, several, band
    operation = OPERATIONS.get(place.collective)  # "" stands for any that goes around rings
    kind = SENDS if operation and operation.sends else None
    yield None, place.library, kind, several, band
    yield None, None, kind, several, band
    yield None, None, kind, several, None
    yield None, None, kind, not several, None


def _cell(key: Key, found: Sequence[Residual]) -> ErrorCell:
    errors = sorted(each.error for each in found)
    place = min(len(errors), ceil(LEVEL * (len(errors) + 1))) - 1  # of a new figure, not of those that are known
    system, library, collective, several, band = key
    return ErrorCell(
        mean=_rounded(sum(errors) / len(errors)),
        q90=_rounded(errors[place]),
        points=len(errors),
        sources=sorted({each.publication for each in found}),
        system=system,
        library=library,
        collective=collective,
        several_nodes=several,
        band=band,
    )


def _rounded(error: float) -> float:
    return round(error, 4)


# ---- read


@cache
def table() -> ErrorTable:
    """The file."""
    return own_yaml(ERRORS_FILE, ErrorTable)


@cache
def _by_key() -> dict[Key, ErrorCell]:
    return {cell.key: cell for cell in table().cells}


def error_of(plan: "CollectivePlan", size_bytes: float) -> MeasuredError:
    """How far off `plan.cost(size_bytes)` is: as its calibration held out, else as published figures say.

    What is published was measured with the transport that the library takes by itself: of another, all of it counts.
    """
    calibration = plan.calibration
    if calibration is not None and calibration.judged and calibration.covers(size_bytes):
        return MeasuredError(
            calibration.held_out_error, calibration.held_out_q90, calibration.points, calibration.source, held_out=True
        )
    nodes, band = plan.system.nodes, bisect_right(BANDS_BYTES, size_bytes)
    if plan.transport == "auto":
        error = _published_error(plan.system.name, plan.library, plan.collective, nodes, band)
    else:
        error = _published_error("", "", plan.collective if OPERATIONS[plan.collective].sends else "", nodes, band)
    if fault := never_compared(plan):
        return replace(error, points=0, source=fault)
    return error


@cache
def _published_error(system: str, library: str, collective: str, nodes: int, band: int) -> MeasuredError:
    size_bytes = (0, *BANDS_BYTES)[band]
    asked = Residual(system, library, collective, nodes, size_bytes, "", 0.0)
    return _looked_up(_by_key(), asked, nodes > 1)


def _looked_up(known: dict[Key, ErrorCell], asked: Residual, several: bool) -> MeasuredError:
    least_mean = least_q90 = 0.0
    cell = None
    for key in _keys(asked, several):
        if (cell := known.get(key)) is None:
            continue
        least_mean, least_q90 = max(least_mean, cell.mean), max(least_q90, cell.q90)
        if cell.points >= FEWEST:
            break
    assert cell is not None, f"{asked}: no errors in {ERRORS_FILE}"
    return MeasuredError(least_mean, least_q90, cell.points, _whose(cell))


def _whose(cell: ErrorCell) -> str:
    """Which published points these are, in words."""
    collective = "messages" if cell.collective == SENDS else cell.collective
    about = " ".join(filter(None, (cell.library, collective))) or "any library"
    where = f"of {about} on {cell.system}" if cell.system else f"of {about} on any system"
    sources = ", ".join(cell.sources[:3]) + (f" and {len(cell.sources) - 3} more" if len(cell.sources) > 3 else "")
    return f"published points {where}: {sources}"
