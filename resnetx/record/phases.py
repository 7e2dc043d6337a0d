"""Where the time of a step goes, as an instrumented run records it: phases, messages of gradients, copies."""

import msgspec

from resnetx.record.base import RecordPart
from resnetx.record.unknown import if_known


class Phases(RecordPart, frozen=True):
    """Seconds of each phase of a step in an instrumented run: for each rank, the mean over all windows.

    The phases add up to the step. Ranks that wait for each other differ: the one that computes longest has the shortest
    exposed communication, and the others wait for it.
    """

    clock: str  # "host", or "CUDA events": the device's time line, where a phase begins when the device gets to it
    step_s: list[float]  # of the instrumented step; the clean one is in runs with measure=step
    input_wait_s: list[float]
    host_to_device_s: list[float]  # that the step itself spends on copying its batch; DALI copies ahead
    forward_s: list[float]
    backward_s: list[float]  # until the last gradient is there
    # From then until all gradients are those of all ranks; strategy=server: until all parameters are updated and here.
    exposed_communication_s: list[float]
    optimizer_s: list[float]
    # [rank][step of the last window]: when the step began, since this rank left the barrier before the window.
    begin_s: list[list[float]]
    # Parameters that are gathered: strategy=zero1 after the update, fsdp before and in the passes. []: not recorded yet
    gather_s: list[float] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        left_out = ("clock",) if self.gather_s else ("clock", "gather_s")
        parts = {name: len(getattr(self, name)) for name in self.__struct_fields__ if name not in left_out}
        if len(set(parts.values())) != 1 or not parts["step_s"]:
            raise ValueError(f"phases of different numbers of ranks: {parts}")


class GradientBucket(RecordPart, frozen=True):
    """One message of gradients as the strategy really sent it: a bucket of DDP, a layer, a variable, or all of them.

    Times are of an instrumented run, [rank][step of its last window], in seconds since that rank's step began
    (`Phases.begin_s`), by the clock of `Phases`.
    """

    index: int  # in the order in which they are sent
    size_bytes: int
    ready_s: list[list[float]] | None  # the last of its gradients was there
    start_s: list[list[float]] | None  # it was handed to gloo; on GPUs: NCCL's kernel began
    end_s: list[list[float]] | None  # the sums were there; strategy=server: the updated parameters

    def __post_init__(self) -> None:
        every = map(if_known, (self.ready_s, self.start_s, self.end_s))
        shapes = [[len(rank) for rank in times] for times in every if times is not None]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"message {self.index}: its times are of different ranks or steps")


class Copies(RecordPart, frozen=True):
    """Bytes and seconds of memory copies per step, by direction, summed over the ranks; of a few profiled steps."""

    host_to_device_bytes: int
    host_to_device_s: float
    device_to_host_bytes: int
    device_to_host_s: float
    device_to_device_bytes: int
    device_to_device_s: float
