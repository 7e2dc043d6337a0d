"""Boxes whose GPUs are no peers: what an all-reduce costs where every byte goes through the memory of the host.

    CLASSES["shared"].allreduce_s(gradient_bytes, gpus=8)

A ring of n GPUs takes 2(n-1)/n x bytes x n^p / rate. Published boxes are of two classes: in one all GPUs share a path,
whose rate is the sum of theirs (p = 1), in the other each has its own (p = 0). No description tells which a box is:
`staged=` says it, or all-reduces on 2 and 4 GPUs show it. Nothing overlaps with computing.
`results/published/staged.yaml` has the rates that the constants are fitted to, one box of each class: `fitted` fits
them again, and `resnetx predict --validate` leaves out each network. What one GPU alone moves where all share a
path is not known: on 2 GPUs the shared path is the slower one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal, NamedTuple

from resnetx.interconnect.collectives.measured import MeasuredCollective

StagedClass = Literal["shared", "per-gpu"]
SHOWN_BY = (2, 4)  # numbers of GPUs whose all-reduces, or rates, show the class


@dataclass(frozen=True)
class StagedPaths:
    """How fast the GPUs of a box reach each other through the host."""

    link: str  # what limits, in words
    source: str
    error: float  # relative, of a message's time, that nine of ten stay within
    rate_Bps: float  # that all GPUs share, in sum; or of each, where `power` is 0
    power: float  # of the number of GPUs, with which the share of each falls
    faster: float = 0.0  # ln of how many times as fast a message may be, where that is more than the error

    def allreduce_s(self, size_bytes: float, gpus: int) -> float:
        shared: float = gpus**self.power
        return 2 * (gpus - 1) / gpus * size_bytes * shared / self.rate_Bps


# The errors are what nine of ten messages are within in the steps of the box that shares a path, networks left out.
RATES = 30  # of each box
_PUBLISHED = f"fitted to results/published/staged.yaml: {RATES} rates of one box"
CLASSES: Mapping[StagedClass, StagedPaths] = {
    "shared": StagedPaths("one path through the host that all GPUs share", _PUBLISHED, 0.32, 6.44e9, 1.0),
    "per-gpu": StagedPaths("each GPU's path through the host", _PUBLISHED, 0.32, 4.86e9, 0.0),
}
# The box with a path for each has PCIe 3.0. Eight RTX 4090 on PCIe 4.0, each on a port of its CPU, move 14.9 GB/s each
# (blog.chlc.cc, "RTX4090 GPUDirect P2P Unlocked", 2025: all-reduce of 64 MiB before it), 0.47 of what x16 carries.
BUS_SHARE = 0.47
# Rates of several numbers of GPUs say all of what messages take: nothing of it is modelled.
_FREE_Bps = 1e15  # so that a message takes next to nothing
SHOWN_BY_RATES = StagedPaths("paths through the host", "rates of several numbers of GPUs", 0.0, _FREE_Bps, 0.0)


def fastest(bus_Bps: float) -> StagedPaths:
    """A path for each GPU as fast as any published one, by what its bus carries one way."""
    per_gpu = CLASSES["per-gpu"]
    return replace(per_gpu, rate_Bps=max(per_gpu.rate_Bps, BUS_SHARE * bus_Bps))


def on_bus(told: StagedPaths, bus_Bps: float) -> StagedPaths:
    """The class that is told, with how much faster paths of their own may be on such a bus."""
    return told if told.power else replace(told, faster=log(fastest(bus_Bps).rate_Bps / told.rate_Bps))


def closing_command(node_gpus: int) -> str:
    """The measurement that shows the class of a box with so many GPUs."""
    counts = ",".join(str(gpus) for gpus in SHOWN_BY if gpus <= node_gpus) if node_gpus != 3 else "2,3"
    return f"resnetx bench collective=allreduce gpus={counts} size=64MiB"


def measured_paths(by_gpus: Mapping[int | None, MeasuredCollective]) -> StagedPaths | None:
    """What all-reduces on 2 and on 4 GPUs show of the box; None where not both are there."""
    collectives = [by_gpus.get(gpus) for gpus in SHOWN_BY]
    if None in collectives:
        return None
    two, four = (
        (collective, gpus) for collective, gpus in zip(collectives, SHOWN_BY, strict=True) if collective is not None
    )
    two_Bps, four_Bps = _bus_Bps(*two), _bus_Bps(*four)
    power = -log(min(1.0, max(0.5, four_Bps / two_Bps)), 2)
    return StagedPaths(
        "paths through the host, as on 2 and 4 GPUs",
        f"all-reduces on 2 and 4 GPUs: {two[0].source} and {four[0].source}",
        max(paths.error for paths in CLASSES.values()),
        four_Bps * SHOWN_BY[1] ** power,
        power,
    )


def _bus_Bps(measured: MeasuredCollective, gpus: int) -> float:
    """By the largest size."""
    largest = max(measured.points, key=lambda point: point.size_bytes)
    return 2 * (gpus - 1) / gpus * largest.size_bytes / largest.time_s


class StagedRate(NamedTuple):
    """A published step on several GPUs, beside that of one."""

    gpus: int
    gradient_bytes: float
    one_s: float
    step_s: float


def fitted(rates: Sequence[StagedRate], box: StagedPaths) -> StagedPaths:
    """The class of `box` with the rate that published steps show, by least squares of their logarithms."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    def made(power: float) -> StagedPaths:
        return replace(box, rate_Bps=exp(power))

    def squares(power: float) -> float:
        paths = made(power)
        return sum(
            log((rate.one_s + paths.allreduce_s(rate.gradient_bytes, rate.gpus)) / rate.step_s) ** 2 for rate in rates
        )

    slowest_Bps, fastest_Bps = 1e8, 1e11
    return made(minimize_scalar(squares, bounds=(log(slowest_Bps), log(fastest_Bps)), method="bounded").x)
