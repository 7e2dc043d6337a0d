"""The record of a prediction put beside the measurement that checks it.

Errors are predicted / measured - 1 of the iteration's time: above zero, the prediction was too slow. What was predicted
or measured is null where that side has no time; outcome and reason of that side say why, and errors are null with it.
"""

from pathlib import Path
from typing import Literal

from resnetx.record.base import RecordPart
from resnetx.record.prediction import Interval
from resnetx.request import Request
from resnetx.statistics import Summary
from resnetx.table import Record, Tabular, row


def accuracy_file(folder: Path) -> Path:
    """Where the record of a folder is; nothing else in resnetx spells its name."""
    return folder / "accuracy.json"


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
