"""What the ranks of a point send each other, and what that costs on a system."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from resnetx import choices
from resnetx.hashed import HashedTuple
from resnetx.interconnect import errors
from resnetx.interconnect.collective import CollectivePlan
from resnetx.prediction.staged import StagedPaths
from resnetx.prediction.step import TimedMessage
from resnetx.workloads import buckets
from resnetx.workloads.buckets import Gradient
from resnetx.workloads.counts import BYTES_PER_PARAMETER

# Mean error of the messages of ResNet-50 between four nodes (Shi et al. 2018, two points) if cards are taken to read
# GPU memory where their network can; tests/prediction/test_domains.py measures it again. Collectives between two to
# eight nodes of SummitDev are nearer (6.4 %), but the rates of its CPUs are taken from the same figures.
BETWEEN_NODES = 0.21
# Of the time in which messages are on their way, what computing on a GPU loses: the share of the multiprocessors that
# kernels of the library occupy (8 to 32 blocks of 56 to 132), assumed; in-switch reduction needs fewer. The interval
# reaches from nothing to all. On CPUs `job.HostShare` has it.
CONTENTION = {"nccl1": 0.2, "nccl2": 0.2, "nccl2.4": 0.2, "nvls": 0.1}
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
    contention: float = 0.0  # of the time they are on their way, what computing loses to them
    fetched: tuple[TimedMessage, ...] = ()  # parameters, which come while the forward pass runs
    more_s: float = 0.0  # of the messages, beyond what is modelled: as rates of several GPUs show it, without an error

    @property
    def time_s(self) -> float:
        """All messages, one after the other."""
        return sum(message.time_s for message in (*self.messages, *self.fetched))

    def with_more(self, first_layer: str, more_s: float) -> "Exchange":
        """With time beyond what is modelled, which rates of several GPUs show."""
        messages = HashedTuple((*self.messages, more_message(first_layer, more_s)))
        error = self.error * self.time_s / (self.time_s + more_s)
        return replace(self, messages=messages, error=error, more_s=more_s)

    @property
    def modelled_error(self) -> float:
        """Relative, of what is modelled alone."""
        return self.error * self.time_s / (self.time_s - self.more_s) if self.more_s else self.error


def more_message(first_layer: str, more_s: float) -> TimedMessage:
    """What messages take beyond what is modelled; it is sent when the backward pass has ended."""
    return TimedMessage((first_layer,), more_s, name="beyond what is modelled")


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
    messages = HashedTuple(
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
        error_of(made, sizes),
        "" if made.calibration is None else made.calibration.source,
        max(costs, key=lambda cost: cost.time_s).limiting_link,
        sum(sizes) / large.algbw_Bps / sum(cost.time_s for cost in costs),
        CONTENTION.get(made.library, 0.0),
    )


def staged(paths: StagedPaths, gradient_bytes: int, gpus: int, library: str, first_layer: str) -> Exchange:
    """All gradients through the host when the backward pass has ended: published boxes show no overlap."""
    message = TimedMessage((first_layer,), paths.allreduce_s(gradient_bytes, gpus))
    return Exchange(
        HashedTuple((message,)), (gradient_bytes,), library, paths.error, paths.source, paths.link, link_share=1.0
    )


def error_of(made: CollectivePlan, sizes_bytes: Sequence[int]) -> float:
    """What nine of ten times of these messages were off by at most: each by its size, for the time that it takes."""
    times_s = [made.cost(size_bytes).time_s for size_bytes in sizes_bytes]
    measured = [errors.error_of(made, size_bytes).q90 for size_bytes in sizes_bytes]
    error = sum(time_s * error for time_s, error in zip(times_s, measured, strict=True)) / sum(times_s)
    return max(error, BETWEEN_NODES) if made.system.nodes > 1 and made.calibration is None else error
