"""How far off a model is of published figures, group by group; `--validate --json` prints one."""

from typing import Any, Literal

from resnetx.record.base import RecordPart


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
