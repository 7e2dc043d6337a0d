"""What the ranks of a point send each other, and what that costs on a system."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from resnetx import choices
from resnetx.interconnect import validation
from resnetx.interconnect.collective import CollectivePlan
from resnetx.prediction.step import TimedMessage
from resnetx.workloads import buckets
from resnetx.workloads.buckets import Gradient
from resnetx.workloads.counts import BYTES_PER_PARAMETER

# Mean error of the messages of ResNet-50 between four nodes (Shi et al. 2018, two points) if cards are taken to read
# GPU memory if their network can; tests/prediction/test_domains.py measures it again. Large sizes and 8 bytes
# between two to eight nodes are nearer (31 and 23 points of `topology --validate`).
BETWEEN_NODES = 0.21
LARGE_BYTES = 2**30  # a size at which only bandwidth counts


@dataclass(frozen=True)
class Exchange:
    """The messages of a step with their times, and how far off those may be."""

    messages: tuple[TimedMessage, ...]
    sizes_bytes: tuple[int, ...]
    library: str
    error: float  # relative, of a message's time
    calibrated: str  # what the plan was refined by; "" if by nothing
    limiting_link: str | None
    link_share: float | None  # of the rate that large messages reach, while these move

    @property
    def time_s(self) -> float:
        """All messages, one after the other."""
        return sum(message.time_s for message in self.messages)


NOTHING_SENT = Exchange((), (), "none", 0.0, "", None, None)


def exchange(
    made: CollectivePlan,
    gradients: Sequence[Gradient],
    strategy: choices.Strategy,
    bytes_each: int,
    gradient_copy_Bps: float,
) -> Exchange:
    """What `gradients` (in the order in which they become ready) cost by a plan; `bytes_each`: of one element."""
    sent = buckets.grouped(gradients, strategy)
    sizes = tuple(message.size_bytes * bytes_each // BYTES_PER_PARAMETER for message in sent)
    costs = [made.cost(size_bytes) for size_bytes in sizes]
    unpacked = isinstance(strategy, choices.Bucket) and not strategy.gradient_as_bucket_view
    messages = tuple(
        TimedMessage(message.layers, cost.time_s, message.size_bytes / gradient_copy_Bps if unpacked else 0.0)
        for message, cost in zip(sent, costs, strict=True)
    )
    if not messages:
        return NOTHING_SENT
    large = made.cost(LARGE_BYTES)
    return Exchange(
        messages,
        sizes,
        made.library,
        error_of(made),
        "" if made.calibration is None else made.calibration.source,
        max(costs, key=lambda cost: cost.time_s).limiting_link,
        sum(sizes) / large.algbw_Bps / sum(cost.time_s for cost in costs),
    )


def error_of(made: CollectivePlan) -> float:
    """How far off a cost may be: as the calibration held out, else as the published measurements of this kind say."""
    if made.calibration is not None and not math.isnan(made.calibration.held_out_error):
        return made.calibration.held_out_error
    allowed = _tolerance(made.system.name, made.library)
    return max(allowed, BETWEEN_NODES) if made.system.nodes > 1 else allowed


@cache
def _tolerance(system: str, library: str) -> float:
    """The largest mean error that the validation allows for this system and library; for any, where it has none."""
    return validation.mean_tolerance(system, library)
