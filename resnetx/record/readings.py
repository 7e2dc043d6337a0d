"""What sensors and counters of GPUs and hosts read during the windows of a run."""

from resnetx.record.base import RecordPart


class GpuSamples(RecordPart, frozen=True):
    """NVML readings of one GPU during the windows; every list has one entry per sample."""

    rank: int
    time_s: list[float]  # since the first window began
    sm_clock_Hz: list[float] | None
    power_W: list[float] | None
    temperature_C: list[float] | None
    busy: list[float] | None  # share of the last sampling period in which a kernel ran, 0 to 1
    throttle_reasons: list[int] | None  # NVML's clock event reasons, a bit mask
    energy_J: float | None  # over the windows


class DeviceMemory(RecordPart, frozen=True):
    """What the run of one rank took of its GPU's memory, in bytes."""

    rank: int
    allocated_bytes: int  # by PyTorch's tensors, at most
    reserved_bytes: int  # by PyTorch, for these and for later ones, at most
    # After the windows, by whatever is on this GPU: besides PyTorch the CUDA context, NCCL, DALI, and other processes.
    used_bytes: int
    total_bytes: int


class LinkCounters(RecordPart, frozen=True):
    """What the links of one GPU counted over the windows: differences between the end and the start."""

    rank: int
    pcie_replays: int | None
    nvlink_errors: int | None
    nvlink_sent_bytes: int | None
    nvlink_received_bytes: int | None


class LockedClock(RecordPart, frozen=True):
    """The clock that the GPUs of a run were locked at (`clock=`), and whether they held it."""

    clock_Hz: float
    lowest_Hz: list[list[float]]  # [rank][window]: that were seen; of a bench [rank][0], over all of it
    highest_Hz: list[list[float]]
    why_not: str  # where a GPU did not hold it, which, and why; "" where all did in every window


class HostLoad(RecordPart, frozen=True):
    """How busy the host's CPUs were during the windows; shares of all its CPUs, 0 to 1."""

    busy: float
    foreign: float  # by processes that are not of this run
