"""Which k GPUs of a machine to use: every choice of them, by what a collective reaches.

Of choices that are alike by the symmetry of the machine, one is planned: 65 of the 12,870 choices of 8 in a DGX-2.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.interconnect import symmetry
from resnetx.interconnect.collective import CollectivePlan, plan
from resnetx.interconnect.system import System

MOST_CHOICES = 20_000
MANY = 200  # plans; their progress is shown


@dataclass(frozen=True)
class GpuSubset:
    """Some GPUs, and the bus bandwidth of a collective on them."""

    devices: tuple[int, ...]
    busbw_Bps: float
    like: CollectivePlan  # of a choice that is like it: all but the names of components is the same

    @property
    def plan(self) -> CollectivePlan:
        """How the collective runs on them."""
        return plan(self.like.system, self.like.collective, self.devices, self.like.library)

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
    first_like = symmetry.alike(system, combinations(candidates, count), candidates)
    differing = set(first_like.values())
    plans: dict[tuple[int, ...], CollectivePlan] = {}
    with progress.counting("choices of GPUs", len(differing)) if len(differing) > MANY else nullcontext() as advance:
        for devices in differing:
            plans[devices] = plan(system, collective, devices, library)
            if advance:
                advance(1)
    busbw_Bps = {devices: planned.cost(size_bytes).busbw_Bps for devices, planned in plans.items()}
    ranked = [GpuSubset(devices, busbw_Bps[like], plans[like]) for devices, like in first_like.items()]
    return sorted(ranked, key=lambda choice: (-choice.busbw_Bps, choice.devices))
