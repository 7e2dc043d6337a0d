"""The machines of a run as records have them: GPUs, storage, software, and where each rank ran."""

from collections.abc import Iterable
from typing import Literal

from resnetx.record.sealing import RecordPart
from resnetx.units import CPU, Unit

# What sensors and counters of GPUs and hosts read during the windows of a run.


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


class Device(RecordPart, frozen=True):
    """Where one rank ran. On a CPU machine `index` is the rank's place on its node and the rest is null."""

    rank: int
    node: str
    index: int
    name: str
    uuid: str | None
    pci_bus_id: str | None
    cpus: str | None = None  # that the rank could run on: "0-31,64-95"; records from before it was asked lack it


def unit_of(devices: Iterable[Device]) -> Unit:
    """What ran on these devices."""
    return "rank" if any(device.name == CPU for device in devices) else "GPU"


class MemoryHealth(RecordPart, frozen=True, kw_only=True):
    """What ECC and row remapping of a GPU's memory have counted."""

    ecc_corrected: int | None  # errors since the driver was loaded
    ecc_uncorrected: int | None
    remapped_rows: int | None  # over the life of the GPU
    remapping_pending: bool | None  # a row is remapped at the next reset
    remapping_failed: bool | None  # no spare row was left: the GPU is to be replaced


class Gpu(RecordPart, frozen=True):
    """One GPU of the host, whether the run used it or not."""

    index: int
    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: str  # of an AMD GPU its architecture: "gfx942"
    memory_bytes: int | None
    power_limit_W: float | None
    sm_clock_max_Hz: float | None
    ecc: bool | None
    mig: bool | None
    pcie_generation: int | None
    pcie_generation_max: int | None
    pcie_width: int | None
    pcie_width_max: int | None
    nvlinks_active: int | None
    memory_health: MemoryHealth | None = None  # records from before it was asked lack it


class GpuProcess(RecordPart, frozen=True):
    """A process of another run or user on a GPU of this host when the run started."""

    gpu: int
    pid: int
    memory_bytes: int | None
    name: str | None = None  # records from before it was asked lack it


class Storage(RecordPart, frozen=True):
    """The file system that the images lie on."""

    path: str
    filesystem: str
    device: str
    rotational: bool | None


class Environment(RecordPart, frozen=True, kw_only=True):
    """The machine and the software, as far as they can change a figure."""

    node: str
    system: str  # kernel and distribution
    container: str | None
    python: str
    resnetx: str
    git_revision: str | None  # "+changes-DIGEST" behind it where the code differs from the commit
    torch: str
    torchvision: str | None
    cuda: str | None
    hip: str | None = None  # of ROCm, for AMD GPUs; records from before it was asked lack it
    cudnn: str | None
    nccl: str | None  # RCCL's with ROCm
    driver: str | None
    dali: str | None
    cpu: str
    cpu_sockets: int | None
    cpu_cores: int | None
    cpus_usable: int
    cpu_governor: str | None
    numa_nodes: int | None
    host_memory_bytes: int
    storage: Storage | None
    network: list[str]  # interfaces that are up, with their speed where it is known: "eth0 100 Gb/s"
    gpus: list[Gpu] | None
    gpu_processes: list[GpuProcess] | None
    topology: str | None  # `nvidia-smi topo -m`; between AMD GPUs, kinds of links and their highest rates
    topology_fingerprint: str | None  # equal on machines whose GPUs are wired alike
    threads: dict[str, int]  # torch's thread pools, in rank 0
    variables: dict[str, str]  # environment variables that torch, NCCL, gloo, OpenMP or DALI read
    # Of a node under Slurm, whose name (SLURMD_NODENAME) `node` is; records from before they were asked lack them.
    host: str | None = None  # its host name
    switch: str | None = None  # the switches above it, as Slurm's topology has them: "spine.leaf1"


class Job(RecordPart, frozen=True):
    """The job of a scheduler that a run was part of."""

    scheduler: Literal["slurm"]
    id: str  # "4711", of an array "4711_2"
    cluster: str | None
    partition: str | None
    nodes: list[str]  # of the job, which may be more than those of the run
    restarts: int  # how often it was requeued before
    ended: str | None = None  # why the scheduler ended the job during this run: "time limit"


class OtherNode(RecordPart, frozen=True):
    """A node of a run apart from rank 0's, which the record's own `environment` and `host_load` are of."""

    rank: int  # the first on it
    environment: Environment
    host_load: HostLoad | None


# How data travelled between ranks, and between nodes by which network cards.


class NicUse(RecordPart, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One end of a connection between nodes, as NCCL logged it: the sender's card, or the receiver's."""

    channel: int  # of NCCL, each of which has a ring
    connection: int  # 0: of collectives, 1: of single sends
    ring: bool  # it is a step of the channel's ring; else of its tree, or of a single send
    source: int  # rank
    target: int
    end: Literal["send", "receive"]
    network: str  # "IB", "Socket", "AWS Libfabric"
    nic: int  # number of the card on the node of this end
    name: str | None  # "mlx5_0"
    gpudirect: bool  # the card reaches GPU memory (GPUDirect RDMA), else memory of the host
    driver: int  # the rank that drives the card: the one of this end, or another of its node (PXN)


class Transport(RecordPart, frozen=True):
    """How gradients travelled between ranks."""

    requested: str
    used: list[str] | None
    evidence: list[str]
    nics: list[NicUse] | None = None  # both ends of each connection between nodes; older records lack it
