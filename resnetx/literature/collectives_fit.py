"""Fits what NCCL takes beyond its source to published times, and measures errors with kinds of machines left out.

    python -m resnetx.literature.collectives_fit      writes collectives-fit.yaml and collective-errors.yaml

The figures of `Fitted` are fitted by least squares of the logarithm of predicted over measured time, from what
the source of NCCL says. One that no figure tells stays where it began. Each kind of machine (`errors`) is
predicted with a fit to all others: only these errors go into the table, beside those of `rivals` that were fitted to
the same others.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, log
from typing import SupportsFloat, get_args

import msgspec
import numpy as np
import yaml

from resnetx.interconnect.collectives.algorithms import (
    LAUNCH_SHARES,
    Algorithm,
    NcclAlgorithms,
    choices,
    time_of,
)
from resnetx.interconnect.collectives.collective_errors import (
    BANDS_BYTES,
    ERRORS_FILE,
    FEWEST,
    LEVEL,
    BandErrors,
    ErrorCell,
    ErrorTable,
    Judged,
    Key,
    KindErrors,
    OneSizeErrors,
    Place,
    is_open,
    keys_of,
    kind_of,
    place_of,
    sends_of,
    system_name,
)
from resnetx.interconnect.collectives.measured import carried
from resnetx.interconnect.collectives.plan import nccl_algorithms, nccl_sends, plan
from resnetx.interconnect.collectives.protocols import FIT_FILE, UNFITTED, Fitted, fitted
from resnetx.interconnect.collectives.published import (
    PlanKey,
    PublishedTime,
    ladder_of,
    load_published,
    measured_devices,
    times,
)
from resnetx.interconnect.collectives.sends import NcclSends
from resnetx.interconnect.collectives.sizes import Floats
from resnetx.literature import rivals
from resnetx.operations import OPERATIONS

# Least and most of each figure, and the size of a step that makes a difference.
_TIMES_s = (0.0, 300e-6, 10e-6)
_HOPS_s = (0.0, 20e-6, 1e-6)
_SHARES = (0.02, 1.0, 0.1)
_LL_SHARES = (0.02, 0.5, 0.1)  # a flag beside every 4 bytes
_RANGES = {
    "hop_s": _HOPS_s,
    "ll128_hop_s": _HOPS_s,
    "last_step_share": (0.0, 1.0, 0.1),
    "rings_lost_s": _TIMES_s,
    "rings_over_s": (50e-6, 5e-3, 0.2e-3),
    "launch_s": _HOPS_s,
    "rccl_launch_s": _HOPS_s,
    "in_switch_s": _TIMES_s,
    "in_switch_chunk_s": (0.0, 1e-6, 0.03e-6),
    "in_switch_fill": (0.0, 5.0, 1.0),
    "ll_channel_s_per_B": (0.0, 1e-9, 0.1e-9),
    **dict.fromkeys(("ll_twice", "ll_once", "ll_chain", "pcie_ll"), _LL_SHARES),
}
_NAMES = Fitted.__struct_fields__
_LEAST, _MOST, _STEP = np.array([_RANGES.get(name, _SHARES) for name in _NAMES]).T
# Of two figures that are alike, one that no figure tells stays near the other, and not where it began.
_ALIKE = (
    ("pcie_ring_share", "one_switch_share"),
    ("launch_s", "rccl_launch_s"),
    *((f"{protocol}_twice", f"{protocol}_{shape}") for protocol in ("ll", "ll128") for shape in ("once", "chain")),
    ("pcie_ring_share", "all_pairs_share"),  # GPUs send and receive at once
)
_ANCHOR = np.array([0.1 if any(name in pair for pair in _ALIKE) else 1.0 for name in _NAMES])
_TIED = np.array(
    [
        [
            (name == one) * step / _STEP[_NAMES.index(other)] - (name == other)
            for name, step in zip(_NAMES, _STEP, strict=True)
        ]
        for one, other in _ALIKE
    ]
)
_HOLD = 0.02  # of a step away from the source of NCCL, as a relative error: it decides where no figure does
_ROBUST = 0.1  # errors beyond this count less
WIDENED: list[float] = np.arange(1.0, 5.0, 0.01).round(2).tolist()
PLACES: tuple[Place, ...] = get_args(Place)
FABRICS = ("RoCE", "EFA")
FEWEST_SIZES = 4  # of a ladder that its largest calibrates
_DIGITS = 4  # significant ones that the file keeps
_CHANNELS_s_per_B = [round(n * 1e-11, 12) for n in range(41)]  # tried of trees in LL between nodes
_LOST = [round(n * 0.01, 2) for n in range(31)]  # tried of switches of a rack


def main() -> None:
    """Writes both files, and prints the errors of each kind and band."""
    points = times()
    everything = fit(points)
    written = {"fitted": msgspec.to_builtins(everything)}
    FIT_FILE.write_text(_comment("fit") + yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    fitted.cache_clear()
    table = _error_table(points, everything)
    text = yaml.safe_dump(msgspec.to_builtins(table), sort_keys=False, default_flow_style=None, width=200)
    ERRORS_FILE.write_text(_comment("errors") + text, encoding="utf-8")
    for kind in table.kinds:
        print(
            f"{kind.kind + ', messages' * kind.sends:75} {kind.points:4}  fitted {kind.fitted:6.1%}  left out "
            f"{kind.left_out:6.1%}  alpha-beta {kind.alpha_beta:6.1%}  power law {kind.power_law:6.1%}"
        )
    for band in table.bands:
        print(f"{band.text}, {band.points}:", band.model, band.alpha_beta, band.power_law, sep="\n    ")
    print(*table.by_one_size, sep="\n")
    print(f"widened {table.widened}, in a kind {table.widened_in_kind}, launches by one process {table.launch_q90}")


def _comment(what: str) -> str:
    said = {
        "fit": "What NCCL takes beyond its source, fitted to collectives.yaml (collectives/protocols.py).",
        "errors": "How far off collectives.yaml is predicted, each kind of machine left out (collective_errors.py).",
    }
    return f"# Generated by `python -m resnetx.literature.collectives_fit`. {said[what]}\n"


# ---- errors, counted together


@dataclass(frozen=True)
class CollectiveResidual:
    """One published figure, and how far off its prediction is that knew of no machine of its kind."""

    system: str
    kind: str
    library: str
    collective: str
    size_bytes: int
    publication: str
    error: float  # |ln(predicted / measured)|
    fitted: float = 0.0  # the same by what was fitted to all figures
    rivals: tuple[float, ...] = (0.0, 0.0)  # the same of alpha-beta and of a power law (`rivals`)
    gpus: int = 0
    launched: bool = False  # launches by one process decide its time

    @property
    def machine(self) -> tuple[str, str]:
        return self.publication, self.system

    @property
    def band(self) -> int:
        return bisect_right(BANDS_BYTES, self.size_bytes)

    @property
    def sends(self) -> str | None:
        return sends_of(self.collective)

    @property
    def place(self) -> Place:
        return place_of(self.kind)

    @property
    def keys(self) -> tuple[Key, ...]:
        """From the closest to the widest."""
        return keys_of(self.system, self.kind, self.library, self.collective, self.band)

    @property
    def ladder(self) -> tuple[object, ...]:
        """Of which series of sizes it is one."""
        return self.publication, self.system, self.library, self.collective, self.gpus

    @property
    def counted_in(self) -> tuple[Key, ...]:
        """All that it is counted in: what is said of several hosts has the figures of one, too."""
        between: Key = ("any", "several hosts", None, self.sends, self.band)
        return self.keys if between in self.keys else (*self.keys, between)


def cells(
    residuals: Sequence[CollectiveResidual], widened: Mapping[Place, float], in_kind: Mapping[Place, float]
) -> list[ErrorCell]:
    """One for each system, library, collective and band with figures, for each kind and band, and for each band."""
    grouped: dict[Key, list[CollectiveResidual]] = {}
    for residual in residuals:
        for key in residual.counted_in:
            grouped.setdefault(key, []).append(residual)
    factors = {("any", place): widened[place] for place in PLACES} | {
        ("kind", residual.kind): in_kind[residual.place] for residual in residuals
    }
    return [cell(key, of_key, factors.get((key[0], str(key[1])), 1.0)) for key, of_key in grouped.items()]


def cell(key: Key, residuals: Sequence[CollectiveResidual], widened: float = 1.0) -> ErrorCell:
    """The errors of these figures, `widened` times as wide as most of them are off."""
    scope, of, library, collective, band = key
    errors = [max(residual.error, residual.fitted) if scope == "system" else residual.error for residual in residuals]
    alike_by = [residual.kind if scope == "any" else str(residual.machine) for residual in residuals]
    several = len(set(alike_by)) > 1 or scope == "any"
    mean, q90 = alike(errors, alike_by, widened) if several else (sum(errors) / len(errors), _q90(errors))
    sources = sorted({residual.publication for residual in residuals})
    # rounded up, so that the figure that sets it is within
    sizes = len({residual.size_bytes for residual in residuals})
    ladders = len({residual.ladder for residual in residuals})
    machines = len({residual.machine for residual in residuals})
    mean, q90 = rounded(mean), rounded(q90 + 4.9e-5)
    return ErrorCell(scope, mean, q90, len(residuals), sizes, ladders, machines, sources, band, of, library, collective)


def _q90(errors: Sequence[float]) -> float:
    """Of a new figure, not of those that are known."""
    return sorted(errors)[min(len(errors), ceil(LEVEL * (len(errors) + 1))) - 1]


def alike(errors: Sequence[float], kinds: Sequence[str], widened: float = 1.0) -> tuple[float, float]:
    """(mean, what 90 % are within) where every kind counts alike, however many figures it has; few count for less."""
    every = sum(weight(kinds.count(kind)) for kind in dict.fromkeys(kinds))
    weights = [weight(kinds.count(kind)) / kinds.count(kind) / every for kind in kinds]
    below, q90 = 0.0, 0.0
    for error, share in sorted(zip(errors, weights, strict=True)):
        if below > LEVEL - 1e-9:  # shares add up to it but for rounding
            break
        below, q90 = below + share, error
    mean = sum(error * share for error, share in zip(errors, weights, strict=True))
    return mean, widened * q90


def weight(figures: int) -> float:
    """Of a kind with so many figures, beside others."""
    return min(1.0, figures / FEWEST)


def rounded(error: SupportsFloat) -> float:
    """With the digits that the file keeps."""
    return round(float(error), 4)


# ---- whole kinds of machines left out


def _error_table(points: Sequence[PublishedTime], everything: Fitted) -> ErrorTable:
    fits = _fits(points, everything)
    residuals = _left_out(points, fits, everything)
    rings = [each for each in residuals if not each.sends]
    in_kind = {place: _widened_in_kind([ring for ring in rings if ring.place == place]) for place in PLACES}
    ways = [_Way(rings, way) for way in range(3)]
    groups: dict[tuple[str, bool], list[CollectiveResidual]] = {}
    for residual in residuals:
        groups.setdefault((residual.kind, bool(residual.sends)), []).append(residual)
    kinds = [_kind_errors(group, ways[0]) for group in groups.values()]
    inside = [ring for ring in rings if ring.place == "one host"]
    bands = [_band_errors([ring for ring in inside if ring.band == band], ways) for band in range(len(BANDS_BYTES) + 1)]
    between = _band_errors([ring for ring in rings if ring.place == "several hosts"], ways)
    return ErrorTable(
        widened=ways[0].widened,
        widened_in_kind=in_kind,
        launch_q90=_launch_q90(rings),
        another_machine=_another_machine(points),
        bands=[_band_errors(inside, ways), *bands, between],
        kinds=kinds,
        by_one_size=_one_size_errors(points, fits),
        cells=cells(residuals, ways[0].widened, in_kind),
    )


def _widened_in_kind(residuals: Sequence[CollectiveResidual]) -> float:
    """How many times as wide as other machines of its kind say it has to be, until 90 % of each machine are inside.

    Each machine in each band counts alike, where others of its kind are enough to speak for it.
    """
    ratios: list[float] = []
    machines: list[str] = []
    for machine, kind, band in dict.fromkeys((each.machine, each.kind, each.band) for each in residuals):
        of_kind = [each for each in residuals if (each.kind, each.band) == (kind, band)]
        own = [each for each in of_kind if each.machine == machine]
        if len(own) == len(of_kind):
            continue
        others = cell(("kind", kind, None, None, band), [each for each in of_kind if each.machine != machine])
        if others.speaks:
            ratios += [each.error / others.q90 for each in own]
            machines += [f"{machine} {band}"] * len(own)
    return max(1.0, rounded(alike(ratios, machines)[1]))


def _launch_q90(residuals: Sequence[CollectiveResidual]) -> float:
    """Of times below 1 MiB that launches by one process decide, whatever the kind; each machine counting alike."""
    launched = [replace(each, kind="one process") for each in residuals if each.launched and each.band == 0]
    widened = _widened_in_kind(launched)
    return rounded(widened * cell(("kind", "one process", None, None, 0), launched).q90)


def _another_machine(points: Sequence[PublishedTime]) -> list[tuple[float, float]]:
    """Errors of a machine by band, its plan calibrated by what others published of its system; each counting alike."""
    ladders: dict[PlanKey, list[PublishedTime]] = {}
    for point in points:
        if point.entry.cluster is None:
            key = (*point.plan_key[:3], None, *point.plan_key[4:])  # whoever started the GPUs
            ladders.setdefault(key, []).append(point)
    errors: list[list[tuple[float, str]]] = [[] for _ in range(len(BANDS_BYTES) + 1)]
    for (system, _, library, _, collective, gpus), times_of in ladders.items():
        for mode, publication in dict.fromkeys((each.entry.told_mode, each.entry.publication) for each in times_of):
            plain = plan(load_published(system, None), collective, range(gpus), library).launched_by(mode)
            others = ladder_of(plain, [each for each in times_of if each.entry.publication != publication])
            for point in times_of if others else ():
                own = (point.entry.told_mode, point.entry.publication) == (mode, publication)
                if own and others and others.covers(point.size_bytes):
                    off = abs(log(replace(plain, calibration=others).time_s(point.size_bytes) / point.time_s))
                    errors[bisect_right(BANDS_BYTES, point.size_bytes)].append((off, f"{publication} {system}"))
    found = (alike([off for off, _ in of_band], [machine for _, machine in of_band]) for of_band in errors)
    return [(rounded(mean), rounded(q90)) for mean, q90 in found]


class _Way:
    """One way to predict: what all other kinds say of each figure's error, widened until that holds for 90 %.

    Of one host: all others in one host. The same is counted between hosts by themselves, on three kinds.
    """

    def __init__(self, residuals: Sequence[CollectiveResidual], way: int) -> None:
        self.way = way
        self.plain: dict[tuple[str, int], float] = {}
        for kind, band in dict.fromkeys((residual.kind, residual.band) for residual in residuals):
            of_band = [residual for residual in residuals if residual.band == band and residual.kind != kind]
            inside = [residual for residual in of_band if residual.place == "one host"]
            others = inside if place_of(kind) == "one host" else of_band
            self.plain[kind, band] = alike([self.error(each) for each in others], [each.kind for each in others])[1]
        self.widened: dict[Place, float] = {}
        for place in PLACES:
            there = [residual for residual in residuals if residual.place == place]
            self.widened[place] = next(factor for factor in WIDENED if self._held(there, factor) >= LEVEL)

    def error(self, residual: CollectiveResidual) -> float:
        by_rival: float = residual.rivals[self.way - 1]
        return by_rival if self.way else residual.error

    def half_width(self, residual: CollectiveResidual) -> float:
        return self.widened[residual.place] * self.plain[residual.kind, residual.band]

    def judged(self, residuals: Sequence[CollectiveResidual]) -> Judged:
        mean = np.mean([self.error(residual) for residual in residuals])
        half_width = np.mean([self.half_width(residual) for residual in residuals])
        within = sum(self.error(residual) <= self.half_width(residual) for residual in residuals)
        close = np.mean([_is_close(self.error(residual)) for residual in residuals])
        held = self._held(residuals, self.widened[residuals[0].place])
        unpointed = sum(is_open(self.half_width(residual)) for residual in residuals)
        return Judged(rounded(mean), rounded(half_width), int(within), rounded(held), rounded(close), unpointed)

    def _held(self, residuals: Sequence[CollectiveResidual], widened: float) -> float:
        """The share of figures that is within, each kind in each band counting alike."""
        groups: dict[tuple[str, int], list[bool]] = {}
        for residual in residuals:
            within = self.error(residual) <= widened * self.plain[residual.kind, residual.band]
            groups.setdefault((residual.kind, residual.band), []).append(within)
        weights = [weight(len(group)) for group in groups.values()]
        return float(np.average([np.mean(group) for group in groups.values()], weights=weights))


def _kind_errors(residuals: Sequence[CollectiveResidual], model: _Way) -> KindErrors:
    sends = bool(residuals[0].sends)
    alpha_beta, power_law = np.mean([residual.rivals for residual in residuals], axis=0)
    small = [_is_close(residual.error) for residual in residuals if residual.band == 0]
    return KindErrors(
        kind=residuals[0].kind,
        sends=sends,
        points=len(residuals),
        fitted=rounded(np.mean([residual.fitted for residual in residuals])),
        left_out=rounded(np.mean([residual.error for residual in residuals])),
        alpha_beta=rounded(alpha_beta),
        power_law=rounded(power_law),
        half_width=None if sends else rounded(np.mean([model.half_width(residual) for residual in residuals])),
        within=None if sends else int(sum(residual.error <= model.half_width(residual) for residual in residuals)),
        small_within_half=rounded(np.mean(small)) if small else None,
    )


def _is_close(error: float) -> bool:
    return error <= log(1.5)


def _band_errors(residuals: Sequence[CollectiveResidual], ways: Sequence[_Way]) -> BandErrors:
    bands = {residual.band for residual in residuals}
    kinds = len({residual.kind for residual in residuals})
    band = bands.pop() if len(bands) == 1 else None
    return BandErrors(residuals[0].place, band, len(residuals), kinds, *(way.judged(residuals) for way in ways))


def _left_out(
    points: Sequence[PublishedTime], fits: Mapping[str, Fitted], everything: Fitted
) -> list[CollectiveResidual]:
    """Each figure as it is predicted by what was fitted without any machine of its kind."""
    kinds = np.array([_apart(point.plan_key) for point in points])
    sends = np.array([OPERATIONS[point.entry.collective].sends is not None for point in points])
    rows = np.array([_rival_row(point) for point in points])
    times_s = np.array([point.time_s for point in points])
    errors = np.empty((4, len(points)))  # of the model left out and fitted, and of two rivals
    errors[1] = log_errors(points, everything)
    for kind, without in fits.items():
        own = kinds == kind
        errors[0, own] = log_errors([point for point, is_own in zip(points, own, strict=True) if is_own], without)
        for of_kind in (own & sends, own & ~sends):
            if of_kind.any():
                known = ~own & (sends == sends[of_kind][0])
                for index, rival in enumerate((rivals.fitted_alpha_beta, rivals.power_law), 2):
                    predicted_s = rival(rows[known], times_s[known], rows[of_kind])
                    errors[index, of_kind] = np.log(predicted_s / times_s[of_kind])
    return [
        _residual(point, _kind(point.plan_key), *map(float, found))
        for point, found in zip(points, np.abs(errors).T, strict=True)
    ]


def _fits(points: Sequence[PublishedTime], everything: Fitted) -> dict[str, Fitted]:
    """By what is left out (`_apart`): what was fitted without it."""
    kinds: dict[str, list[PublishedTime]] = {}
    for point in points:
        kinds.setdefault(_apart(point.plan_key), []).append(point)
    fits = {}
    for kind, own in kinds.items():
        others = [point for point in points if _apart(point.plan_key) != kind]
        fits[kind] = fit(others) if any(map(_on_one_host, own)) else _with_hosts(others, everything)
    return fits


def _one_size_errors(points: Sequence[PublishedTime], fits: Mapping[str, Fitted]) -> list[OneSizeErrors]:
    """Of ladders that their largest size calibrates (`plan.calibrate`)."""
    ladders: dict[tuple[object, ...], list[PublishedTime]] = {}
    for point in points:
        if not OPERATIONS[point.entry.collective].sends:
            ladders.setdefault((point.source, point.plan_key), []).append(point)
    found: dict[tuple[Place, int], list[tuple[float, float, str]]] = {}
    for ladder in ladders.values():
        largest, kind = max(ladder, key=lambda point: point.size_bytes), _kind(ladder[0].plan_key)
        without = fits[_apart(ladder[0].plan_key)]
        if len(ladder) >= FEWEST_SIZES and largest.size_bytes >= BANDS_BYTES[-1]:
            taken = {point.size_bytes: _taken(point, without) for point in ladder}
            moving_s, modelled_s = taken[largest.size_bytes]
            slower = max(0.0, 1 + (largest.time_s - modelled_s) / moving_s)
            for point in (point for point in ladder if point is not largest):
                moving_s, modelled_s = taken[point.size_bytes]
                more_s = (slower ** carried(point.size_bytes, largest.size_bytes) - 1) * moving_s
                errors = [abs(log(each_s / point.time_s)) for each_s in (modelled_s, modelled_s + more_s)]
                key = place_of(kind), bisect_right(BANDS_BYTES, point.size_bytes)
                found.setdefault(key, []).append((errors[0], errors[1], kind))
    return [
        OneSizeErrors(
            place,
            band,
            len(of_band),
            rounded(np.mean([plain for plain, _, _ in of_band])),
            rounded(np.mean([error for _, error, _ in of_band])),
            rounded(alike([error for _, error, _ in of_band], [kind for _, _, kind in of_band])[1]),
        )
        for (place, band), of_band in sorted(found.items())
    ]


def _taken(point: PublishedTime, figures: Fitted) -> tuple[float, float]:
    """(seconds that bytes take, all seconds) of a size as its library runs it."""
    tried = _tried(point, figures)
    chosen = _chosen(point, tried)
    return tried[chosen[0][0]].moving_s(point.size_bytes), time_of(tried, chosen)


def _residual(point: PublishedTime, kind: str, error: float, with_all: float, *by_rivals: float) -> CollectiveResidual:
    entry = point.entry
    tried = _tried(point, fitted())
    by_one = tried[_chosen(point, tried)[0][0]]
    return CollectiveResidual(
        system_name(load_published(entry.system, entry.cluster)),
        kind,
        entry.library,
        entry.collective,
        point.size_bytes,
        entry.publication,
        error,
        with_all,
        by_rivals,
        point.gpus,
        entry.told_mode == "one-process" and by_one.launch_decides(point.size_bytes),
    )


@cache
def _kind(key: PlanKey) -> str:
    return kind_of(load_published(*key[:2]), _algorithms(key).staged)


@cache
def _apart(key: PlanKey) -> str:
    """What is left out together: a kind; of nodes each fabric apart from InfiniBand, though they are counted as one."""
    wires = [link.wire for link, _ in load_published(*key[:2]).counted_links() if link.wire.family == "network"]
    fabric = next((name for name in FABRICS if any(name in wire.about for wire in wires)), None)
    return _kind(key) + (f" over {fabric}" if fabric else "")


def _rival_row(point: PublishedTime) -> Sequence[float]:
    operation, algorithms = OPERATIONS[point.entry.collective], _algorithms(point.plan_key)
    if isinstance(algorithms, NcclSends):
        s_per_byte = algorithms.all()[0].s_per_byte
    else:
        s_per_byte = operation.bus_factor(point.gpus) / algorithms.planned_ring_Bps
    band = bisect_right(BANDS_BYTES, point.size_bytes)
    return rivals.row(operation.steps(point.gpus), s_per_byte * point.size_bytes, band)


# ---- fitting


def fit(points: Sequence[PublishedTime]) -> Fitted:
    """The figures with the least errors of the points."""
    return _with_hosts(points, _fit_inside(points))


def _with_hosts(points: Sequence[PublishedTime], figures: Fitted) -> Fitted:
    """The figures with the two that only several hosts tell: small sizes of trees, and large ones of a rack."""
    between = [point for point in points if not _on_one_host(point)]
    small = [point for point in between if point.size_bytes < BANDS_BYTES[0]]
    of_rack = [point for point in between if point.entry.cluster is None and point.size_bytes >= BANDS_BYTES[-1]]
    figures = _least(small, figures, "ll_channel_s_per_B", _CHANNELS_s_per_B)
    return _least(of_rack, figures, "in_switch_lost", _LOST)


def _least(points: Sequence[PublishedTime], figures: Fitted, name: str, values: Sequence[float]) -> Fitted:
    """The figures with that value of one which has the least errors."""
    tried = [msgspec.structs.replace(figures, **{name: value}) for value in values]
    return min(tried, key=lambda each: float(np.abs(log_errors(points, each)).sum()))


def _fit_inside(points: Sequence[PublishedTime]) -> Fitted:
    """By the points inside one host."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    inside = _told([point for point in points if _on_one_host(point) and point.is_fitted])
    start, errors_of = _vector(UNFITTED), _remembered(inside)

    def misses(vector: Floats) -> Floats:
        errors = errors_of(Fitted(*(vector * _STEP).tolist()))
        return np.concatenate([errors, _HOLD * _ANCHOR * (vector - start), _HOLD * (_TIED @ vector)])

    found = least_squares(misses, start, bounds=(_LEAST / _STEP, _MOST / _STEP), loss="soft_l1", f_scale=_ROBUST)
    return Fitted(*(float(f"{value:.{_DIGITS}g}") for value in found.x * _STEP))


def _remembered(points: Sequence[PublishedTime]) -> Callable[[Fitted], Floats]:
    """`log_errors` of points for one set of figures after another: a plan is made again if a figure of its own changes.

    Slopes change one figure at a time, and a plan has few of the figures.
    """
    plans: dict[PlanKey, list[int]] = {}
    for index, point in enumerate(points):
        plans.setdefault(point.plan_key, []).append(index)
    of_plan = [([points[index] for index in indexes], _told_by(points[indexes[0]])) for indexes in plans.values()]
    order = np.argsort(np.concatenate([*plans.values()]))
    known: dict[tuple[object, ...], Floats] = {}

    def errors_of(figures: Fitted) -> Floats:
        parts = []
        for number, (of, names) in enumerate(of_plan):
            key = (number, *(getattr(figures, name) for name in names))
            if key not in known:
                known[key] = log_errors(of, figures, as_expected=True)
            parts.append(known[key])
        return np.concatenate(parts)[order]

    return errors_of


def _told_by(point: PublishedTime) -> list[str]:
    """The figures that change what the library tries; each does it one way only, up or down."""

    def tried(name: str, value: float) -> tuple[Algorithm, ...]:
        return _tried(point, msgspec.structs.replace(UNFITTED, **{name: value}))

    ends = zip(_NAMES, _LEAST.tolist(), _MOST.tolist(), strict=True)
    return [name for name, least, most in ends if tried(name, least) != tried(name, most)]


def _on_one_host(point: PublishedTime) -> bool:
    system, cluster = point.entry.system, point.entry.cluster
    return cluster is None and not load_published(system, cluster).is_rack


def _vector(figures: Fitted) -> Floats:
    values: Floats = np.array(msgspec.structs.astuple(figures)) / _STEP
    return np.clip(values, _LEAST / _STEP, _MOST / _STEP)


def _told(points: Sequence[PublishedTime]) -> list[PublishedTime]:
    """The points that say something of any figure."""
    changed = Fitted(*(_LEAST + 0.5 * (_MOST - _LEAST)).tolist())
    differs = log_errors(points, UNFITTED) != log_errors(points, changed)
    return [point for point, tells in zip(points, differs, strict=True) if tells]


# ---- predicting


def log_errors(points: Sequence[PublishedTime], figures: Fitted, as_expected: bool = False) -> Floats:
    """ln of predicted over measured time. `as_expected`: by what the library expects to be fastest."""
    made: dict[PlanKey, tuple[Algorithm, ...]] = {}
    errors = []
    for point in points:
        if point.plan_key not in made:
            made[point.plan_key] = _tried(point, figures)
        tried = made[point.plan_key]
        chosen = _chosen(point, tried)
        errors.append(log(time_of(tried, chosen[:1] if as_expected else chosen) / point.time_s))
    return np.array(errors)


def _tried(point: PublishedTime, figures: Fitted) -> tuple[Algorithm, ...]:
    """What the library tries, started as the point's GPUs were."""
    share = LAUNCH_SHARES[point.entry.told_mode]
    tried = replace(_algorithms(point.plan_key), fitted=figures).all()
    return tuple(replace(algorithm, launch_share=share) for algorithm in tried)


def _chosen(point: PublishedTime, tried: Sequence[Algorithm]) -> list[tuple[int, float]]:
    """What the library runs for a size and larger ones."""
    expects = tried[-1].expected is not None
    return _choices(point.plan_key, point.size_bytes) if expects else choices(tried, point.size_bytes)


@cache
def _choices(key: PlanKey, size_bytes: int) -> list[tuple[int, float]]:
    """The same by what the library expects, which depends on no figure that is fitted."""
    return choices(_algorithms(key).all(), size_bytes)


@cache
def _algorithms(key: PlanKey) -> NcclAlgorithms | NcclSends:
    system, cluster, library, _, collective, gpus = key
    loaded = load_published(system, cluster)
    run = nccl_sends if OPERATIONS[collective].sends else nccl_algorithms
    return run(loaded, collective, measured_devices(loaded, cluster, gpus), library)


if __name__ == "__main__":
    main()
