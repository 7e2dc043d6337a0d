"""A comparison of systems as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing is predicted.

- `points`: a row for each point and system: what it is, `iterations_per_s` and `images_per_s` with `_low` and `_high`,
  what limits it, and who leads at this point by how much (`first`, `second`, `margin`, `lead`), beside what the simple
  model of Tallent et al. 2017 expects (`simple_model`).
- `crossings`, `claims`, `explanations`, `collectives`, `copies`: the lists of the record.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from resnetx.record.system_comparison import Estimate, SystemComparison, SystemPoint
from resnetx.reporting.study.export import Table

_OF_POINT = (
    "workload",
    "batch_size",
    "gpus",
    "strategy",
    "precision",
    "variant",
    "gradient_bytes",
    "intensity_per_gpu",
)
_OF_SIDE = (
    "limited_by", "limit_share", "compute_s", "communication_s", "exposed_communication_s", "compute_source",
)  # fmt: skip


def tables(found: SystemComparison) -> dict[str, Table]:
    """Every table that has rows, by its name."""
    made: dict[str, Table] = {
        "points": [row for point in found.points for row in _rows(point)],
        "crossings": [_crossing(msgspec.to_builtins(each)) for each in found.crossings],
        "claims": [msgspec.to_builtins(each) for each in found.claims],
        "explanations": [_explanation(msgspec.to_builtins(each)) for each in found.explanations],
        "collectives": [msgspec.to_builtins(each) for each in found.collectives],
        "copies": [msgspec.to_builtins(each) for each in found.copies],
    }
    return {name: table for name, table in made.items() if table}


def _rows(point: SystemPoint) -> Iterator[dict[str, Any]]:
    for side in point.sides:
        yield {
            **{name: getattr(point, name) for name in _OF_POINT},
            "system": side.system,
            "library": side.library,
            "outcome": side.outcome,
            "reason": side.reason,
            **estimate("iterations_per_s", side.iterations_per_s),
            **estimate("images_per_s", side.images_per_s),
            "speedup": side.speedup,
            **{name: getattr(side, name) for name in _OF_SIDE},
            **_margin(point),
        }


def estimate(name: str, found: Estimate | None) -> dict[str, float | None]:
    """An estimate as three columns."""
    value, low, high = (found.value, found.low, found.high) if found else (None, None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _margin(point: SystemPoint) -> dict[str, Any]:
    margin = point.margin
    expected = margin.simple_model if margin else None
    return {
        "first": margin.first if margin else None,
        "second": margin.second if margin else None,
        **estimate("margin", margin.ratio if margin else None),
        "lead": margin.lead if margin else None,
        "simple_model": expected.ratio if expected else None,
    }


def _explanation(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "decided_by": " ".join(row["decided_by"])}


def _crossing(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row.pop("between")
    return {**row, "between_low": low, "between_high": high}
