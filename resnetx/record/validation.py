"""How far off a model is of published figures, group by group; `--validate --json` prints one."""

from typing import Any, Literal

from resnetx.record.base import RecordPart


class ValidationGroup(RecordPart, frozen=True):
    """How far off the figures of a group are."""

    group: str
    points: int
    unseen: int  # of them, such as nobody looked at while the model was written
    mean_error: float  # of |ln(predicted / measured)| of training rates, of |predicted / measured - 1| of collectives
    worst_error: float  # likewise, the largest
    bias: float  # mean of predicted / measured - 1
    coverage: float | None  # share of figures that the stated intervals hold; null: none is stated
    interval_level: float  # that these state


class ValidationRecord(RecordPart, frozen=True):
    """Groups of published figures, and each figure beside its prediction."""

    verb: Literal["predict", "topology"]
    groups: list[ValidationGroup]
    figures: list[Any]  # as the verb's rows have them
