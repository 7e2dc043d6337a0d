"""How collectives of a bench are run: what no machine can do of it, what this one cannot, how long it takes."""

from collections.abc import Callable

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.lab_network import lab_network
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRequest
from resnetx.record.bench import QUEUE_LENGTH, Counts, counts
from resnetx.units import si

# NCCL User Guide, NCCL_ALGO and NCCL_PROTO; "auto" leaves the choice to NCCL.
ALGORITHMS = ("auto", "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
PROTOCOLS = ("auto", "ll", "ll128", "simple")
# The announced time: what every operation takes besides its bytes, and a size besides its operations.
OPERATION_s, SIZE_s = 100e-6, 10e-3
# Its rates: sockets and memory of a small host; PCIe 3.0 with 16 lanes, which gets 12 GB/s at most. What is faster is
# over sooner.
CPU_Bps, GPU_Bps = 1e9, 10e9
_OWN = ("place", "timing", "algorithm", "protocol")


def check(r: BenchRequest) -> None:
    """Refuses what no machine can do."""
    for key, value, known in (("algorithm", r.algorithm, ALGORITHMS), ("protocol", r.protocol, PROTOCOLS)):
        if value is not None and value.lower() not in known:
            raise ConfigError(f"{key}={value}: expected one of {', '.join(known)}")
        variable = {"algorithm": "NCCL_ALGO", "protocol": "NCCL_PROTO"}[key]
        if value is not None and variable in r.env:
            raise ConfigError(f"env.{variable}: set by {key}={value}; leave one of them out")
        if value is not None and r.collectives and all(OPERATIONS[name].sends for name in r.collectives):
            raise ConfigError(
                f"{key}={value}: NCCL has no such choice for {', '.join(r.collectives)}, which are sends and receives; "
                "leave it out"
            )
    if not r.collectives:
        asked = next((key for key in _OWN if getattr(r, key) is not None), "dtype" if r.dtype != "fp32" else "")
        if asked:
            raise ConfigError(f"{asked}={getattr(r, asked)}: only for collectives, and none is requested; leave it out")
    for name in r.collectives:
        if r.place is not None and r.place not in OPERATIONS[name].places:
            (only,) = OPERATIONS[name].places
            words = {"in": "in place", "out": "out of place"}[only]
            raise ConfigError(f"place={r.place} with collective={name}: torch runs it {words} only; use place={only}")


def obstacle(r: BenchRequest, gpus_here: int) -> str:
    """Why this machine cannot run collectives so, in one sentence; "" where it can."""
    if gpus_here:
        return ""
    if r.timing == "graph":
        return "timing=graph: CUDA graphs need a GPU, and this machine has none; use blocking or back-to-back"
    for key in ("algorithm", "protocol"):
        if (value := getattr(r, key)) is not None:
            return f"{key}={value}: a choice of NCCL, and CPU ranks use gloo, which has none; leave it out"
    return ""


def planned_s(r: BenchRequest, seconds_of: Callable[[str, int], float], *, on_gpus: bool) -> float:
    """Seconds that measuring the collectives takes where one of so many bytes takes `seconds_of` it."""
    total_s = 0.0
    row = 1 if r.timing in (None, "blocking") else QUEUE_LENGTH
    for size_bytes in r.sizes_bytes:
        for name in r.collectives:
            operation_s = seconds_of(name, size_bytes)
            often = counts(size_bytes, operation_s, r.iterations, row) if on_gpus else Counts(r.iterations, 0, 0)
            blocking = r.warmup + often.iterations
            checked = 1 + on_gpus  # and on GPUs one as a sample of what it takes
            operations = r.warmup + often.iterations * row + often.queues * (often.queue_length + 1) + checked
            total_s += SIZE_s + blocking * OPERATION_s + operations * operation_s
    return total_s


def announced_rate(r: BenchRequest) -> tuple[float, bool]:
    """The rate by which the announced time is calculated, in B/s, and whether it is of GPUs.

    In the lab that of its slowest link.
    """
    from resnetx.measure.machine.visible_gpus import gpus_here

    if r.lab is not None:
        network = lab_network(system.load(r.lab.system), r.devices, r.gpus, r.lab.scale, r.lab.transport)
        rates = (link.from_Bps(end) for link in network.links for end in (link.a, link.b))
        return min(filter(None, rates), default=CPU_Bps), False  # 0: no copy goes that way; none: one rank
    return (GPU_Bps, True) if gpus_here() else (CPU_Bps, False)


def announce(r: BenchRequest) -> None:
    """Says how long collectives will take, before they start."""
    if not r.collectives:
        return
    rate_Bps, on_gpus = announced_rate(r)
    seconds = planned_s(
        r, lambda name, size_bytes: size_bytes * OPERATIONS[name].bus_factor(r.gpus) / rate_Bps, on_gpus=on_gpus
    )
    what = f"{len(r.collectives)} collective{'s' * (len(r.collectives) > 1)} at {len(r.sizes_bytes)} sizes"
    progress.note(f"{what}: about {seconds:,.0f} s if they run at {si(rate_Bps, 'B/s')}")
