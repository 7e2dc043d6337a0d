"""Replayed steps: computing that is waited out while the communication of a step really happens."""

from resnetx.record.base import RecordPart


class ReplayedLayer(RecordPart, frozen=True):
    """One layer of a replayed step."""

    name: str
    forward_s: float
    backward_s: float
    gradients: list[int]  # elements of each trainable tensor, in the order in which their gradients become ready


class ReplayedStep(RecordPart, frozen=True):
    """What one rank computes in a step; layers in the order of the forward pass."""

    source: str  # "p100-sxm2-16gb by its roofline", or the trace
    layers: list[ReplayedLayer]
    update_s: float
    slowed: float = 1.0  # by this factor, as the links of the lab are
    jitter: float = 0.0  # standard deviation over the mean by which it varies from step to step, on each rank by itself
