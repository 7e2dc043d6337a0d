"""The record of a score: published figures, what somebody predicted of them, and how far off that was.

Figures are neutral: whatever predicts training or collectives can be judged by them, from a CSV of `id,predicted`.
"""

from typing import Any, Literal

import msgspec

from resnetx.record.comparisons import CheckedClaim
from resnetx.record.sealing import RecordPart
from resnetx.table import Record, Tabular, row


class PublishedFigure(RecordPart, frozen=True, kw_only=True):
    """One figure that somebody measured and published. What its source does not say, or does not apply, is null."""

    id: str  # of what was measured and where it is from, not of its value: it stays if the value is corrected
    kind: str  # by which scores are counted: "training, one node"
    value: float
    unit: str  # GBps: 1e9 bytes a second; busbw and algbw as nccl-tests defines them
    system: str | None  # as `resnetx topology` lists it; of one GPU, its name among the parts
    nodes: int | None = None
    network: str | None = None  # between nodes
    nics: int | None = None  # network ports used on each node
    gpus: int | None = None
    library: str | None = None
    collective: str | None = None
    size_bytes: int | None = None  # of the whole array, as nccl-tests counts it
    workload: str | None = None
    image_size: int | None = None
    batch_size_per_gpu: int | None = None
    precision: str | None = None
    clock_MHz: float | None = None  # null: the GPU's own
    exchange: str | None = None  # of gradients: "all-reduce", "parameter server"
    input: str | None = None  # what feeds the GPUs: "synthetic", "real"
    settings: str | None = None  # whatever else matters, in words
    one_gpu: float | None = None  # the rate of one GPU of the same series, in the figure's unit
    source: str
    seen: bool  # whether it was known while the model of resnetx was written


class FigurePrediction(RecordPart, frozen=True, kw_only=True):
    """What somebody predicts of a figure, in its unit; null ends: no interval is stated."""

    id: str
    predicted: float
    low: float | None = None
    high: float | None = None


class KindScore(RecordPart, frozen=True, kw_only=True):
    """How far off one predictor is of the figures of one kind."""

    kind: str  # "all": of all kinds
    predictor: str
    figures: int  # that there are
    predicted: int  # of these
    mean_error: float  # of |predicted/value - 1|
    worst_error: float
    bias: float  # mean of predicted/value - 1, of times its opposite: above 0, predictions are too fast
    intervals: int  # predictions that state one
    covered: float | None  # share of the intervals that hold the value; null: there are none
    unseen: int  # predicted figures that were not known while the model of resnetx was written
    unseen_error: float | None  # mean error of these


class PredictorScore(RecordPart, frozen=True, kw_only=True):
    """All predictions of one predictor."""

    predictor: str
    predictions: list[FigurePrediction]


class Score(Tabular, RecordPart, frozen=True, kw_only=True):
    """`score.json`."""

    kind: Literal["score"]
    schema: int
    resnetx: str  # version
    figures: list[PublishedFigure]
    predictors: list[PredictorScore]  # those that were asked for, then the two baselines
    scores: list[KindScore]

    def rows(self) -> list[Record]:
        """A row for each kind and predictor."""
        return [row(score) for score in self.scores]


# The record of papers' statements beside what is predicted: those that are checked, and those that are not.


class UncheckedStatement(RecordPart, frozen=True):
    """A statement that is not checked, and why."""

    paper: str
    section: str
    says: str
    why: str


class MeasuredMachine(RecordPart, frozen=True, kw_only=True):
    """What was measured of a system of a paper, or stands for it."""

    system: str
    path: str  # of the folder with its studies and benches
    lab_scale: float | None  # that the links of the lab were divided by, and its times are; null: no lab


class CheckedPapers(Tabular, RecordPart, frozen=True, kw_only=True):
    """`papers.json`."""

    kind: Literal["checked papers"]
    schema: int
    resnetx: str  # version
    papers: list[str]
    titles: list[str] = msgspec.field(default_factory=list)  # of the papers: "Li et al. 2019"; []: an older record
    claims: list[CheckedClaim]
    left_out: list[UncheckedStatement]
    machines: list[MeasuredMachine] = msgspec.field(default_factory=list)  # beside what is predicted; []: none
    measured: list[CheckedClaim] = msgspec.field(default_factory=list)  # the statements that these say something of

    @property
    def names(self) -> str:
        """The papers in words."""
        names = self.titles or self.papers
        return " and ".join(names) if len(names) < 3 else f"{len(names)} papers"

    def rows(self) -> list[Record]:
        """A row for each statement; several where what its paper leaves open is checked in several ways, and more for
        what is measured of it (variant "measured")."""
        return [row(claim) for claim in [*self.claims, *self.measured]]


# How far off a model is of published figures, group by group; `--validate --json` prints one.


class ValidationGroup(RecordPart, frozen=True):
    """How far off the figures of a group are."""

    group: str
    points: int
    unseen: int  # of them, such as nobody looked at while the model was written
    # Of |ln(predicted / measured)| of training rates, of |predicted / measured - 1| of collectives; null: all are open
    mean_error: float | None
    worst_error: float | None  # likewise, the largest
    bias: float | None  # mean of predicted / measured - 1
    coverage: float | None  # share of figures that the stated intervals hold; null: none is stated
    interval_level: float  # that these state
    open: int = 0  # of the points, between two ends: they have no error, and `coverage` is of the ends
    # Of training rates, as logarithms, the rivals' beside them: "GPUs x the rate of one", and that times five
    # constants (the median efficiency of other systems on as many GPUs). A score is the mean width of intervals, and 20
    # times what they miss by. null: none is made
    half_width: float | None = None  # mean of the stated intervals' half widths
    score: float | None = None
    linear_error: float | None = None
    linear_score: float | None = None
    five_constants_error: float | None = None
    five_constants_score: float | None = None


class ValidationRecord(RecordPart, frozen=True):
    """Groups of published figures, and each figure beside its prediction."""

    verb: Literal["predict", "topology"]
    groups: list[ValidationGroup]
    figures: list[Any]  # as the verb's rows have them
