"""The record of a comparison of systems: the points of one prediction, the systems side by side.

Rates are predicted, so their ends are those of a prediction interval, not of repeated runs. A rate is null where a
system cannot run the point: outcome and reason beside it say why. What follows from the rates of two systems is null
where fewer than two of them have one.
"""

from pathlib import Path
from typing import Literal

import msgspec

from resnetx.record.files import RecordPart
from resnetx.record.prediction import PredictedGpu
from resnetx.request import Request
from resnetx.table import Record, Tabular, row

Lead = Literal["ahead", "open", "level"]  # open: the interval of the margin holds 1; level: less than half a percent
Axis = Literal["payload", "intensity", "gpus", "message"]
# open: errors of predictions could turn it either way. given: it went into descriptions or settings, and so holds.
Outcome = Literal["hit", "miss", "open", "given", "not predicted"]


def system_comparison_file(folder: Path) -> Path:
    """Where the comparison of a folder is; nothing else in resnetx spells its name."""
    return folder / "systems.json"


class Estimate(RecordPart, frozen=True):
    """A predicted figure with the ends of its prediction interval."""

    value: float
    low: float
    high: float


class SystemSide(RecordPart, frozen=True):
    """One point on one system."""

    system: str
    library: str
    outcome: Literal["ok", "oom", "refused"]
    reason: str  # "" where the outcome is ok
    iterations_per_s: Estimate | None
    images_per_s: Estimate | None
    speedup: float | None
    speedup_interval: list[float] | None
    limited_by: str | None
    limit_share: float | None  # of the iteration that would be saved if what limits cost nothing
    compute_s: float | None
    communication_s: float | None  # all messages, one after the other, alone
    exposed_communication_s: float | None
    compute_source: str | None
    compute_error: float | None
    compute_where: str = ""  # the trace, or what the roofline was fitted to
    gpu: PredictedGpu | None = None
    by_compute: Estimate | None = None  # iterations/s, with the error of compute alone
    by_scaling: Estimate | None = None  # iterations/s, with the error of what scaling costs alone
    # The command whose measurement determines it; until then it has no rate. "": it is determined, or cannot run
    open: str = ""


class SimpleModel(RecordPart, frozen=True):
    """What `report.simple_model` (Tallent et al. 2017, section 4.4) expects of the first system over the second."""

    communication_share: float  # of the first system's step, nothing overlapping
    allreduce_advantage: float  # of the first system: 0.4 is 40 % faster
    ratio: float  # 1 + share x advantage


class Margin(RecordPart, frozen=True):
    """The fastest system over the next one."""

    first: str
    second: str
    ratio: Estimate  # of iterations/s
    lead: Lead
    simple_model: SimpleModel | None  # null: it speaks of equal GPUs (`SystemSide.gpu`), and of known times


class SystemPoint(RecordPart, frozen=True):
    """One workload on one number of GPUs, on every system."""

    workload: str
    batch_size: int  # global
    gpus: int
    strategy: str
    precision: str
    library: str  # of all systems; "" where each has its own
    variant: str  # what tells it from other points of its workload, batch and GPUs: "bf16, layerwise"
    gradient_bytes: int
    intensity_per_gpu: float | None
    request: Request | None  # without the devices, which may be others on each system
    sides: list[SystemSide]  # in the order of `SystemComparison.systems`
    margin: Margin | None


class Crossing(RecordPart, frozen=True):
    """Where one system takes the lead from another as one thing grows, all else alike."""

    axis: Axis
    # payload, message: bytes; intensity: activations per parameter on each GPU; gpus: how many.
    at: float  # interpolated, both axes logarithmic
    between: list[float]  # [below, above]: the neighbouring points that differ in who leads
    below: str  # who leads below, and above
    above: str
    library: str
    fixed: str  # what is alike along the line: "8 GPUs, batch 16"
    shown: bool | None  # both neighbours have a margin whose interval leaves out 1; null: messages alone have none


class CollectivePoint(RecordPart, frozen=True):
    """One collective of one size on some GPUs of a system."""

    system: str
    library: str
    collective: str
    gpus: int
    size_bytes: int
    time_s: float
    algbw_Bps: float  # size / time: the effective bandwidth of Tallent et al. 2017
    error: float | None = None  # relative, of the time; null: an older record


class CopyPoint(RecordPart, frozen=True):
    """One copy of one size to a GPU of a system, by itself."""

    system: str
    source: int | None  # GPU id; null: the host's memory
    target: int
    size_bytes: int
    time_s: float
    peers: bool  # without staging in the host's memory
    duplex_Bps: float | None = (
        None  # of this copy and the opposite one at once, large ones, summed; null: not looked at
    )
    through: int | None = None  # the GPU that relays it; null: none does
    error: float | None = None  # relative, of the time; null: nobody states it


class CheckedClaim(RecordPart, frozen=True, kw_only=True):
    """What a paper states of its systems, and what these predictions say of the same."""

    claim: str  # "Tc9a"
    section: str
    says: str
    reading: str  # how the sentence was made into a check; "" where it says so itself
    variant: str  # of the points: "nccl1, bucket, fp32"
    where: str  # the point, or the set of points: "AlexNet, batch 256, 8 GPUs"
    alternative: str = ""  # of what the paper leaves open and this row takes: "256", of batch_size
    quantity: str
    unit: str
    stated: float | None  # null: the paper states an order or a direction, no figure
    ours: float | None  # null: not predicted
    ours_low: float | None = None  # the ends of its interval; null where it has none
    ours_high: float | None = None
    difference: float | None  # ours / stated - 1; null where nothing is stated
    tolerance: float | None  # of the difference, for a hit
    outcome: Outcome
    note: str  # the count of points that agree, where the check is over several
    cause: str = ""  # of a miss: what decides it, or that nothing explains it
    paper: str = ""  # the file of statements that it is from: "li2019"
    seen: bool | None = None  # whether it was known while the model was written; null: an older record
    repeats: str = ""  # the statement that this one repeats, in other words or by arithmetic: it is not counted again


class Explanation(RecordPart, frozen=True):
    """One statement of a paper over all combinations of what the paper leaves open."""

    claim: str
    says: str
    combinations: int
    holds: int  # in so many of them
    undecided: int  # in so many the errors of the predictions leave it open
    decided_by: list[str]  # the smallest set of assumptions that tells where it holds
    when: str  # "library is nccl1 and batch_size is 512"; "" where it holds nowhere, or everywhere


class SystemComparison(Tabular, RecordPart, frozen=True, kw_only=True):
    """`systems.json`."""

    kind: Literal["system comparison"]
    schema: int
    resnetx: str  # version
    prediction: str  # digest of the prediction
    made_at: str  # when the prediction was made
    systems: list[str]
    points: list[SystemPoint]
    job: list[SystemPoint] = msgspec.field(default_factory=list)  # the user's own, located among them
    crossings: list[Crossing]
    claims: list[CheckedClaim]
    explanations: list[Explanation] = msgspec.field(default_factory=list)  # of the claims; [] unless asked for
    collectives: list[CollectivePoint]
    copies: list[CopyPoint] = msgspec.field(default_factory=list)

    def rows(self) -> list[Record]:
        """A row for each point on each system."""
        sided = ((point, side) for point in self.points for side in point.sides)
        return [{**row(point, leave_out=("request",)), **row(side, leave_out=("gpu",))} for point, side in sided]
