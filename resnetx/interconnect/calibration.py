"""Measured collectives that correct a plan: factors on its fixed time and on its bandwidth, by bands of sizes.

    calibrate(plan(system, devices=[0, 1, 2, 3]), read("all_reduce_perf.txt"))        # in collective.py

The factors are ratios to the uncalibrated plan, so a calibration made on four GPUs also corrects a plan for eight. How
good it is, is said by its held-out error: every point predicted from all the others.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from resnetx.config import ConfigError, sentence
from resnetx.units import size

MAX_BYTES = 2**24
MOST_BANDS = 3
NEGLIGIBLE = 1e-3  # share of a measured time from which nothing can be fitted
LEAST_POINTS = 3  # of a band; two would fit it exactly, and no error could be held out


@dataclass(frozen=True)
class Point:
    """One measured collective: the size of the whole array, and the time of one operation."""

    size_bytes: float
    time_s: float


@dataclass(frozen=True)
class Measured:
    """Points of one collective on one set of GPUs, and where they are from."""

    source: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Calibration:
    """Factors on a plan's fixed time and on its bandwidth, in bands of sizes."""

    source: str
    points: int
    from_bytes: tuple[float, ...]  # where each band begins; the first also holds for smaller sizes
    latency: tuple[float, ...]
    efficiency: tuple[float, ...]
    held_out_error: float  # mean relative error of each point, predicted from the others; nan with two points

    def at(self, size_bytes: float) -> tuple[float, float]:
        """(factor on the fixed time, factor on the bandwidth) of the band that holds a size."""
        band = max(0, bisect_right(self.from_bytes, size_bytes) - 1)
        return self.latency[band], self.efficiency[band]


@dataclass(frozen=True)
class Parts:
    """What an uncalibrated plan says of one point: the time that no byte costs, and the time of its bytes."""

    point: Point
    fixed_s: float
    moving_s: float


# ---- fitting


def fit(source: str, parts: Sequence[Parts]) -> Calibration:
    """The calibration with the smallest held-out error, in one to three bands of at least three points each."""
    if len({each.point.size_bytes for each in parts}) < 2:
        raise ConfigError(
            f"calibration={source}: {len(parts)} sizes; expected at least two to fit latency and efficiency"
        )
    ordered = sorted(parts, key=lambda each: each.point.size_bytes)
    splits = [bands for bands in _splits(ordered) if all(len(band) >= LEAST_POINTS for band in bands)] or [[ordered]]
    best = min(splits, key=_held_out_error)
    factors = [_factors(band) for band in best]
    return Calibration(
        source=source,
        points=len(ordered),
        from_bytes=(
            0.0,
            *((below[-1].point.size_bytes * above[0].point.size_bytes) ** 0.5 for below, above in pairwise(best)),
        ),
        latency=tuple(latency for latency, _ in factors),
        efficiency=tuple(1 / slowness for _, slowness in factors),
        held_out_error=_held_out_error(best),
    )


def _splits(ordered: list[Parts]) -> Iterator[list[list[Parts]]]:
    """All ways to cut the points into bands, fewest bands first."""
    inner = range(LEAST_POINTS, len(ordered) - LEAST_POINTS + 1)
    for count in range(MOST_BANDS):
        for cuts in combinations(inner, count):
            yield [ordered[start:end] for start, end in pairwise((0, *cuts, len(ordered)))]


def _factors(band: Sequence[Parts]) -> tuple[float, float]:
    """(factor on the fixed time, factor on the time of bytes) with the least relative squared error, none negative."""
    weights = 1 / np.array([each.point.time_s for each in band])
    fixed = np.array([each.fixed_s for each in band]) * weights
    moving = np.array([each.moving_s for each in band]) * weights
    (latency, slowness), *_ = np.linalg.lstsq(np.stack([fixed, moving], axis=1), np.ones(len(band)), rcond=None)
    if latency < 0:
        return 0.0, float(moving.sum() / (moving @ moving))
    if slowness * moving.max() < NEGLIGIBLE:  # sizes so small that bytes take no time: their rate stays the plan's
        rest = np.ones(len(band)) - moving
        return max(0.0, float((fixed @ rest) / (fixed @ fixed))), 1.0
    return float(latency), float(slowness)


def _held_out_error(bands: Sequence[Sequence[Parts]]) -> float:
    errors = []
    for band in bands:
        for index, each in enumerate(band):
            others = [*band[:index], *band[index + 1 :]]
            if len(others) < 2:
                return float("nan")
            latency, slowness = _factors(others)
            errors.append(abs((each.fixed_s * latency + each.moving_s * slowness) / each.point.time_s - 1))
    return float(np.mean(errors))


# ---- reading


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points typed in: `source: ...` and `points: [{size: 64MiB, time_us: 911}]`."""

    source: str
    points: list[dict[str, Any]]


def read(path: str) -> Measured:
    """Measured points from a table or JSON of nccl-tests (out of place), or from a YAML file of points."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"calibration={path}: larger than {MAX_BYTES >> 20} MiB, so no table of a benchmark")
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"calibration={path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    if file.suffix in (".yaml", ".yml"):
        return _typed(path, text)
    points = _from_json(path, text) if file.suffix == ".json" else _from_table(text)
    if not points:
        raise ConfigError(
            f"calibration={path}: no line of it is a result of nccl-tests (size, count, type, ..., time, ...)"
        )
    return Measured(f"{file.name} (nccl-tests)", tuple(points))


def _typed(path: str, text: str) -> Measured:
    import yaml

    try:
        tree = yaml.safe_load(text)
        typed = msgspec.convert(tree, _Typed)
        points = [Point(size(str(point["size"])), float(point["time_us"]) * 1e-6) for point in typed.points]
    except yaml.YAMLError as error:
        raise ConfigError(f"calibration={path}: not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"calibration={path}: {sentence(str(error), tree)}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"calibration={path}: {error}: expected points as {{size: 64MiB, time_us: 911}}") from None
    if not all(point.size_bytes > 0 and point.time_s > 0 for point in points):
        raise ConfigError(f"calibration={path}: expected sizes and times above 0")
    return Measured(typed.source, tuple(points))


def _from_json(path: str, text: str) -> list[Point]:
    try:
        results = json.loads(text)["results"]
        return [
            Point(float(each["size"]), float(each["out_of_place"]["time"]) * 1e-6)
            for each in results
            if float(each["size"]) > 0
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"calibration={path}: not the JSON of nccl-tests: {error}") from None


def _from_table(text: str) -> list[Point]:
    """Rows of the printed table: size, count, type, redop, (root,) time in us, ..., out of place first."""
    has_root = re.search(r"^#\s+size\s+count\s+type\s+redop\s+root\b", text, re.MULTILINE) is not None
    time_column = 5 if has_root else 4
    points = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > time_column and words[0].isdigit() and words[1].isdigit() and not words[2].isdigit():
            try:
                point = Point(float(words[0]), float(words[time_column]) * 1e-6)
            except ValueError:
                continue
            if point.size_bytes > 0 and point.time_s > 0:
                points.append(point)
    return points
