"""Which k GPUs of a machine to use: every choice of them, by what a collective reaches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from resnetx.errors import ConfigError
from resnetx.interconnect.collective import CollectivePlan, plan
from resnetx.interconnect.system import System

MOST_CHOICES = 20_000  # about 20 s


@dataclass(frozen=True)
class GpuSubset:
    """Some GPUs, and the bus bandwidth of a collective on them."""

    devices: tuple[int, ...]
    busbw_Bps: float
    plan: CollectivePlan

    @property
    def command(self) -> str:
        """The shell's setting that lets a program see these GPUs only."""
        return f"CUDA_VISIBLE_DEVICES={','.join(map(str, self.devices))}"


def pick(
    system: System,
    count: int,
    free: Sequence[int] | None = None,
    collective: str = "allreduce",
    size_bytes: float = 2**28,
    library: str | None = None,
) -> list[GpuSubset]:
    """All choices of `count` from the `free` GPUs (all unless set), the best first; equals in order of their ids."""
    known = range(len(system.gpus))
    candidates = sorted(known if free is None else free)
    if len(set(candidates)) != len(candidates) or not set(candidates) <= set(known):
        raise ConfigError(
            f"free={list(free or ())}: expected different GPU ids from 0 to {len(known) - 1} of {system.name}"
        )
    if not 2 <= count <= len(candidates):
        raise ConfigError(f"pick={count}: expected 2 to {len(candidates)}, the number of free GPUs")
    if (choices := math.comb(len(candidates), count)) > MOST_CHOICES:
        raise ConfigError(
            f"pick={count}: {choices} choices from {len(candidates)} GPUs are too many; name fewer with free= (at most "
            f"{MOST_CHOICES} choices)"
        )
    plans = [plan(system, collective, devices, library) for devices in combinations(candidates, count)]
    ranked = [GpuSubset(planned.devices, planned.cost(size_bytes).busbw_Bps, planned) for planned in plans]
    return sorted(ranked, key=lambda choice: (-choice.busbw_Bps, choice.devices))
