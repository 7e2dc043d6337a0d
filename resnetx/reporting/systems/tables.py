"""A comparison of systems as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing is predicted.

- `points`: a row for each point and system: what it is, `iterations_per_s` and `images_per_s` with `_low` and `_high`,
  what limits it, and who leads at this point by how much (`first`, `second`, `margin`, `lead`), beside what the simple
  model of Tallent et al. 2017 expects (`simple_model`).
- `crossings`, `claims`, `explanations`, `collectives`, `copies`: the lists of the record.
"""

import msgspec

from resnetx.record.system_comparison import Axis, Crossing, Estimate, Lead, SystemComparison, SystemPoint, SystemSide
from resnetx.reporting.table import table_of
from resnetx.table import Table


class SystemPointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One point on one system."""

    workload: str
    batch_size: int
    gpus: int
    strategy: str
    precision: str
    variant: str
    gradient_bytes: int
    intensity_per_gpu: float | None
    system: str
    library: str
    outcome: str
    reason: str
    iterations_per_s: Estimate | None
    images_per_s: Estimate | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    limited_by: str | None
    limit_share: float | None
    compute_s: float | None
    communication_s: float | None
    exposed_communication_s: float | None
    compute_source: str | None
    # Of the point, the same on each system.
    first: str | None
    second: str | None
    margin: Estimate | None
    lead: Lead | None
    simple_model: float | None


class CrossingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A `Crossing`, its two neighbours in columns of their own."""

    axis: Axis
    at: float
    below: str
    above: str
    library: str
    fixed: str
    shown: bool | None
    between_low: float
    between_high: float


def tables(comparison: SystemComparison) -> dict[str, Table]:
    """Every table that has rows, by its name."""
    made = {
        "points": table_of(_row(point, side) for point in comparison.points for side in point.sides),
        "crossings": table_of(map(_crossing, comparison.crossings)),
        "claims": table_of(comparison.claims),
        "explanations": table_of(comparison.explanations),
        "collectives": table_of(comparison.collectives),
        "copies": table_of(comparison.copies),
    }
    return {name: table for name, table in made.items() if table.rows}


def _row(point: SystemPoint, side: SystemSide) -> SystemPointRow:
    margin = point.margin
    expected = margin.simple_model if margin else None
    return SystemPointRow(
        workload=point.workload,
        batch_size=point.batch_size,
        gpus=point.gpus,
        strategy=point.strategy,
        precision=point.precision,
        variant=point.variant,
        gradient_bytes=point.gradient_bytes,
        intensity_per_gpu=point.intensity_per_gpu,
        system=side.system,
        library=side.library,
        outcome=side.outcome,
        reason=side.reason,
        iterations_per_s=side.iterations_per_s,
        images_per_s=side.images_per_s,
        speedup=side.speedup,
        speedup_low=side.speedup_interval[0] if side.speedup_interval else None,
        speedup_high=side.speedup_interval[1] if side.speedup_interval else None,
        limited_by=side.limited_by,
        limit_share=side.limit_share,
        compute_s=side.compute_s,
        communication_s=side.communication_s,
        exposed_communication_s=side.exposed_communication_s,
        compute_source=side.compute_source,
        first=margin.first if margin else None,
        second=margin.second if margin else None,
        margin=margin.ratio if margin else None,
        lead=margin.lead if margin else None,
        simple_model=expected.ratio if expected else None,
    )


def _crossing(crossing: Crossing) -> CrossingRow:
    below, above = crossing.between
    return CrossingRow(
        axis=crossing.axis,
        at=crossing.at,
        below=crossing.below,
        above=crossing.above,
        library=crossing.library,
        fixed=crossing.fixed,
        shown=crossing.shown,
        between_low=below,
        between_high=above,
    )
