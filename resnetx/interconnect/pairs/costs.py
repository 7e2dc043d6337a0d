"""What one copy between a pair of GPUs costs, by size: alone, or with a copy of the same size the other way.

    path = copy_path(load("dgx1-p100"), 0, 4, "host")
    pair_cost(path, 4 * 2**20).bandwidth_Bps

A direct copy takes its latency and then size / rate. Without peer access the driver stages a copy in buffers of host
memory, chunk by chunk: a chunk goes up to the host, then down to the other GPU, while the next one goes up. So a copy
of one chunk pays both ways one after the other, and only a long one reaches the rate of the path:

    time = latency + ways x min(size, chunk) / stage rate + (size - chunk) / rate of the path

With a copy each way at once, two GPUs below one switch share its uplink: while one copy comes down, the other one goes
up, so that their first chunks pay three ways instead of two.

Four figures are fitted to a part of what Tartan measured (`pairs_fit`), the rest of it judges.

References: Li et al. 2019, section 3.1 and Fig. 15 to 17; `results/published/pairs.yaml`.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property

import msgspec

from resnetx.copies import Direction
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.paths import Path, to_host
from resnetx.loading import own_yaml
from resnetx.settings.files import PUBLISHED

FIT_FILE = PUBLISHED / "pairs-fit.yaml"


class PairFit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is fitted to published pair copies."""

    chunk_bytes: int = 2**20  # of a staged copy that is in one buffer of the host
    stage_share: float = 0.9  # of a link's copy rate between GPUs that a copy between a GPU and the host gets
    both_starts: float = 1.5  # latencies until two direct copies in opposite directions have started and ended
    local_share: float = 0.7  # of half the memory's rate that a copy within one GPU gets


class PairError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Relative errors of times that were not fitted."""

    kind: str  # of the path; "any": all between two GPUs
    direction: Direction
    band: int  # index of `BANDS_BYTES`, one higher
    figures: int
    mean: float
    q90: float  # that 90 % were within
    worst: float
    bias: float  # mean of predicted over measured, less one


class PairsFile(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The file."""

    fitted: PairFit
    errors: list[PairError]

    @cached_property
    def by_key(self) -> dict[tuple[str, Direction, int], PairError]:
        return {(error.kind, error.direction, error.band): error for error in self.errors}


@cache
def pairs_file() -> PairsFile:
    return own_yaml(FIT_FILE, PairsFile)


@dataclass(frozen=True)
class PairCost:
    """One copy of one size over one path."""

    path: Path
    size_bytes: int
    time_s: float
    both_ways_s: float  # until this copy and one of its size the other way have both ended

    @property
    def bandwidth_Bps(self) -> float:
        return self.size_bytes / self.time_s

    @property
    def bidirectional_Bps(self) -> float:
        """Of both directions, summed."""
        return 2 * self.size_bytes / self.both_ways_s


def pair_cost(path: Path, size_bytes: int, fit: PairFit | None = None) -> PairCost:
    """What a copy of this size costs on a path (`paths.copy_path`, `paths.routes`, `host_path`)."""
    chosen = fit or pairs_file().fitted
    if path.kind == "local":
        time_s = path.latency_s + size_bytes / (chosen.local_share * path.bandwidth_Bps)
        return PairCost(path, size_bytes, time_s, 2 * time_s - path.latency_s)
    if path.kind == "host":
        return PairCost(path, size_bytes, *_staged_s(path, size_bytes, chosen))
    both_s = path.latency_s + 2 * size_bytes / path.duplex_Bps
    return PairCost(
        path,
        size_bytes,
        path.latency_s + size_bytes / path.bandwidth_Bps,
        max(both_s, chosen.both_starts * path.latency_s),
    )


def _staged_s(path: Path, size_bytes: int, fit: PairFit) -> tuple[float, float]:
    """One way, and both ways at once."""
    chunk = min(size_bytes, fit.chunk_bytes)
    stage_s = chunk / max(fit.stage_share * _slowest_stage_Bps(path), path.bandwidth_Bps)
    rest = size_bytes - chunk
    # Whether what goes up crosses a link that what comes down crosses, too.
    crossed = [link.name for link in _device_links(path)]
    ways = 3 if len(set(crossed)) < len(crossed) else 2
    one_way_s = path.latency_s + 2 * stage_s + rest / path.bandwidth_Bps
    return one_way_s, path.latency_s + ways * stage_s + 2 * rest / path.duplex_Bps


def _slowest_stage_Bps(path: Path) -> float:
    """Of the links between the GPUs and their hosts; of ranks on cores, which have none, of the path."""
    return min((link.copy_Bps for link in _device_links(path)), default=path.bandwidth_Bps)


def _device_links(path: Path) -> list[Link]:
    return [link for _, _, link in path.steps if link.wire.family not in ("smp", "network")]


def host_path(system: System, device: int) -> Path | None:
    """The path between a GPU and the nearest host memory, pinned; None where no CPU is described."""
    steps = to_host(system, system.gpus[device].name)
    if not steps:
        return None
    share = pairs_file().fitted.stage_share
    slowest = min((link for _, _, link in steps), key=lambda link: link.copy_Bps)
    rate_Bps = share * slowest.copy_Bps
    latency_s = system.gpu_part(device).copy_s.value + sum(link.wire.latency_s.value for _, _, link in steps)
    duplex_Bps = share * min(2 * slowest.copy_Bps, slowest.duplex_Bps)
    return Path(device, device, "pcie", steps, rate_Bps, duplex_Bps, latency_s, f"{slowest.name}, copied by the GPU")


# How far off costs of pair copies are, as measured: `results/published/pairs-fit.yaml`.
#
# Only figures count that nothing was fitted to. Copies are told apart by the kind of their path, their direction and
# the band of their size. Of other systems than the published one, all copies between two GPUs count.
#
#     error_of("dgx1-p100", "host", "one-way", 4 * 2**20).q90

SYSTEM = "dgx1-p100"  # that these were measured on
BANDS_BYTES = (32 * 2**10, 2 * 2**20, 32 * 2**20)  # where a latency, a first chunk, and a start no longer decide
SOURCE = "Tartan (Li et al. 2019) on a P100 DGX-1"


def band_of(size_bytes: int) -> int:
    return bisect_right(BANDS_BYTES, size_bytes)


def error_of(system: str, kind: str, direction: Direction, size_bytes: int) -> PairError:
    """Of copies over this kind of path; of all between two GPUs on a system of which nobody has published any."""
    known, band = pairs_file().by_key, band_of(size_bytes)
    of_kind = known.get((kind, direction, band)) if system == SYSTEM or kind == "local" else None
    return of_kind or known["any", direction, band]


def tolerance(system: str, kind: str, direction: Direction, size_bytes: int) -> float:
    """How far a time may be off before that is the machine's doing: farther than any published one was.

    Never less than the mean error of all kinds of copies.
    """
    error = error_of(system, kind, direction, size_bytes)
    return max(error.worst, pairs_file().by_key["any", direction, band_of(size_bytes)].mean)
