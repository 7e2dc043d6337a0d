"""The records of comparisons: study B over study A, and systems over each other."""

from typing import Annotated, Literal

import msgspec

from resnetx.record.bench_record import CopyEnd
from resnetx.record.prediction import Interval, PredictedGpu
from resnetx.record.sealing import RecordPart
from resnetx.request import Request
from resnetx.statistics import Summary
from resnetx.table import Record, Tabular, row
from resnetx.units import Unit

# ---- comparison -----------------------------------------------------------------------------------------------------
# The record of a comparison: study B over study A, point by point, with what else differs between the two.
#
# Ratios are always B over A: above 1, B is faster. A ratio is null where a side has no run that went well; outcome and
# reason of that side say why.

Letter = Literal["A", "B"]
Agreement = Literal["agree", "differ", "open", "unknown"]  # open: the runs do not show it; unknown: nothing to go by


class ComparedStudy(RecordPart, frozen=True):
    """One of the two studies."""

    name: str
    node: str
    folder: str
    # A sentence for each file in it that is not a record; its name in JSON is an older word.
    skipped: list[str] = msgspec.field(name="aside")


class Difference(RecordPart, frozen=True):
    """A setting, or a fact of the machines, that is not one for both studies. Values are in words."""

    name: str  # as on the command line ("env.NCCL_ALGO"), or its path in a record ("gpus.pcie_width")
    a: list[str]  # what the points that are compared have in A, each value once
    b: list[str]
    varies_in: list[Letter]  # where runs differ in it on one number of GPUs, so that the study is not all of one piece


class StudySide(RecordPart, frozen=True):
    """One point in one of the studies, over its runs."""

    request_key: str
    outcome: str  # "ok" where any run went well, else how they ended; "missing": not run yet
    reason: str  # of the runs that did not go well
    images_per_s: Summary | None
    sm_clock_Hz: float | None  # median over runs, samples and GPUs
    limited_by: str  # and by how much, or why that is open; "" where no run went well


class ComparedPoint(RecordPart, frozen=True):
    """A point that is in both studies."""

    workload: str  # "ResNet/4"
    batch: str  # "batch 16"
    variant: str  # the settings that tell it from other points of A: "bf16, layerwise"
    request: Request  # A's; B's differs in `Comparison.settings` only
    a: StudySide
    b: StudySide
    ratio: Summary | None  # of images/s
    adjusted_p: float | None  # of t tests of all points; "different" up to 0.03; null: fewer than 3 runs a side
    verdict: Literal["different", "no difference shown", "too few runs to decide", "not measured"]
    speedup_ratio: Summary | None  # of the speed-ups over one baseline; null where that is the point itself or missing
    baseline: str  # "1 GPU", or "2 GPUs (1 GPU: not in both)", "itself", "none"


class Unmatched(RecordPart, frozen=True):
    """A point that is in one study only."""

    study: Letter
    point: str
    outcome: str


class Mean(RecordPart, frozen=True):
    """Geometric means over all points on one number of GPUs that ran well in both studies."""

    gpus: int
    points: int
    ratio: Summary
    speedup_points: int
    speedup_ratio: Summary | None  # null where no point has a baseline besides itself


class Control(RecordPart, frozen=True):
    """Something that has to agree before a difference on several GPUs can be attributed to the interconnect."""

    name: Literal["one-GPU rate", "SM clock"]
    agreement: Agreement
    why: str  # the point that decides it, with its figures


class Comparison(Tabular, RecordPart, frozen=True):
    """`comparison.json`."""

    kind: Literal["comparison"]
    schema: int
    resnetx: str  # version
    a: ComparedStudy
    b: ComparedStudy
    settings: list[Difference]  # in which all points of A differ from those of B
    points: list[ComparedPoint]  # in the order of A
    only_in_one: list[Unmatched]
    means: list[Mean]  # by number of GPUs
    controls: Annotated[list[Control], msgspec.Meta(min_length=2, max_length=2)]  # the rate of one GPU, its clock
    tolerance: float  # within which controls agree
    enough_runs: int | None  # of each point, that a difference can be shown with; null in old records

    machines: list[Difference]
    unit: Unit = "GPU"  # what is counted: ranks where CPU cores take the place of GPUs in both; GPU: an older record
    benches: "BenchComparison | None" = None  # those beside the studies, as `study=machine` measures them

    def rows(self) -> list[Record]:
        """A row for each point that is in both studies."""
        return [row(point, leave_out=("request",)) for point in self.points]


# The record of two benches compared: bench B over bench A, at every size that both have.
#
# Ratios are of speed, B over A: above 1, B is faster. Effective bandwidth is payload over time in GiB/s (2**30 bytes),
# as Tallent et al. 2017 draw it; of copies both ways at once, the payload of both directions.


class ComparedBench(RecordPart, frozen=True):
    """One of the two."""

    path: str
    sources: list[str]  # "measured", or the files that were imported
    libraries: list[str]
    gpus: list[int]  # of its benches


class BenchRatio(RecordPart, frozen=True):
    """The same operation at the same size in both."""

    what: str  # "allreduce", "device copies, one way, reads by SMs, device memory"
    gpus: int | None  # of a collective; null: a copy
    source: CopyEnd | None  # of a copy; null: a collective, or all pairs of a class
    target: CopyEnd | None
    pair_class: str | None  # null: a collective, or not classified alike in both
    size_bytes: int
    a_s: float  # median
    b_s: float
    a_GiBps: float
    b_GiBps: float
    ratio: Annotated[float, msgspec.Meta(gt=0)]  # of speed, B over A


class BenchCrossing(RecordPart, frozen=True):
    """Two neighbouring sizes between which the other bench takes the lead."""

    what: str
    gpus: int | None
    pair_class: str | None
    above_bytes: int
    below_bytes: int
    at_bytes: float  # on a straight line of the logarithms
    ahead_above: Letter  # who is faster with larger sizes


class BenchMean(RecordPart, frozen=True):
    """The geometric mean of the ratios within the band of payloads."""

    what: str
    gpus: int | None
    pair_class: str | None
    sizes: int
    ratio: float


class BenchComparison(Tabular, RecordPart, frozen=True):
    """`bench_comparison.json`."""

    kind: Literal["bench comparison"]
    schema: int
    resnetx: str  # version
    a: ComparedBench
    b: ComparedBench
    band_bytes: Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]  # least and most payload of the means
    collectives: list[BenchRatio]
    cells: list[BenchRatio]
    classes: list[BenchRatio]
    crossings: list[BenchCrossing]
    means: list[BenchMean]
    only_in_one: list[str]  # what has no counterpart, in words
    machines: list[Difference]  # environments that differ

    def rows(self) -> list[Record]:
        """A row for each collective and cell that is in both."""
        return [row(ratio) for ratio in (*self.collectives, *self.cells)]


# The record of a prediction put beside the measurement that checks it.
#
# Errors are predicted / measured - 1 of the iteration's time: above zero, the prediction was too slow. What was
# predicted or measured is null where that side has no time; outcome and reason of that side say why, and errors are
# null with it.


class CheckedPoint(RecordPart, frozen=True):
    """A point that was predicted and measured."""

    workload: str
    batch_size: int
    gpus: int
    strategy: str
    precision: str
    variant: str  # what tells it from other points of its workload, batch and GPUs: "bf16, layerwise"
    system: str
    library: str
    request: Request  # as measured
    predicted_outcome: str
    predicted_reason: str
    measured_outcome: str
    measured_reason: str
    predicted_s: float | None  # of an iteration
    predicted_interval_s: Interval | None
    measured_s: Summary | None
    error: float | None
    allowed: float | None  # the larger of 10 % and twice the point's measured interval
    within: bool | None  # |error| <= allowed, and not outside the predicted interval
    overlap: bool | None  # the predicted and the measured interval have a time in common
    covered: bool | None  # the measured median is inside the predicted interval
    made_before: bool | None  # the prediction is older than the first run; null: it did not run


class CheckedAdvantage(RecordPart, frozen=True):
    """One strategy over another at one point: rates, predicted and measured."""

    workload: str
    batch_size: int
    gpus: int
    variant: str  # of the first strategy's point
    system: str
    library: str
    strategy: str
    over: str
    predicted: float
    measured: Summary
    decided: bool  # the measured interval leaves out 1
    right: bool | None  # both on the same side of 1; null: not decided


class Total(RecordPart, frozen=True):
    """All points of one system and library that have an error; on one GPU only where there are no others."""

    system: str
    library: str
    points: int
    mean_absolute_error: float
    worst_error: float  # the largest in size, with its sign
    worst_point: str
    bias: float  # mean error
    within: int  # points
    overlapping: int
    covered: int
    advantages: int  # that the measurement decides
    advantages_right: int


class Accuracy(Tabular, RecordPart, frozen=True):
    """`accuracy.json`."""

    kind: Literal["accuracy"]
    schema: int
    resnetx: str  # version
    prediction: str  # digest
    made_at: str
    study: str
    node: str
    folder: str
    points: list[CheckedPoint]  # in the order of the study
    advantages: list[CheckedAdvantage]
    totals: list[Total]
    not_measured: list[str]  # predicted points that are not in the study
    not_predicted: list[str]  # points of the study that were not predicted
    warnings: list[str]

    def rows(self) -> list[Record]:
        """A row for each point."""
        return [row(point, leave_out=("request",)) for point in self.points]


# ---- systems --------------------------------------------------------------------------------------------------------
# The record of a comparison of systems: the points of one prediction, the systems side by side.
#
# Rates are predicted, so their ends are those of a prediction interval, not of repeated runs. A rate is null where a
# system cannot run the point: outcome and reason beside it say why. What follows from the rates of two systems is null
# where fewer than two of them have one.

Lead = Literal["ahead", "open", "level"]  # open: the interval of the margin holds 1; level: less than half a percent
Axis = Literal["payload", "intensity", "gpus", "message"]
# open: errors of predictions could turn it either way. given: it went into descriptions or settings, and so holds.
Outcome = Literal["hit", "miss", "open", "given", "not predicted"]


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
    between: list[float] | None = None  # iterations/s: both ends of a side that has no rate until then


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
