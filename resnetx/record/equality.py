"""Whether several ranks compute what one process computes, as `resnetx verify` records it."""

from typing import Literal

from resnetx.record.base import RecordPart


class Deviation(RecordPart, frozen=True):
    """How far several ranks are from one process: relative differences, the largest over all ranks and steps.

    Of a gradient: root mean square of the difference over that of the gradient.
    """

    loss: float | None
    layers: dict[str, float | None]  # by layer, in the order of the model


class Equality(RecordPart, frozen=True):
    """Whether several ranks compute the losses and gradients that one process computes on the same global batch."""

    equal: bool
    tolerance: float
    steps: int  # one after the other
    # frozen: those of the global batch, fixed; synchronised: computed over all ranks in each step.
    statistics: Literal["none", "frozen", "synchronised"]  # of batch normalisation
    double: Deviation  # in double precision, which is what `equal` judges
    as_trained: Deviation  # one step in the request's precision: rounding
    per_rank: Deviation | None  # one step with statistics of each rank's own images, as in training; double precision
