"""The array that collectives work on, and which sizes of it there is memory for.

One array serves all collectives and sizes, of which each uses the beginning. A size that would not fit is left out,
with the reason, and the others are measured all the same: what is free is asked for before anything is allocated, as a
rank that runs out of memory ends them all.
"""

from collections.abc import Iterable

import torch

from resnetx.host import free_memory_bytes
from resnetx.measure.launch.torchrun import ranks_here
from resnetx.measure.rank import distributed
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import SkippedArray
from resnetx.units import si, size_text

ELEMENT_BYTES = 4  # fp32, as gradients
# Of the free memory, for all but the array: buffers of NCCL and gloo, the check, the computing beside a collective.
RESERVED_BYTES, RESERVED_SHARE = 2**30, 1 / 4  # the smaller of the two
# gloo gathers into a second array, and scatters what it has reduced in one (torch, ProcessGroupGloo.cpp); NCCL works in
# the array itself.
ARRAYS = {"cuda": 1, "cpu": 2}


def fitting(arrays: Iterable[tuple[str, int]], ranks: Ranks) -> tuple[list[tuple[str, int]], list[SkippedArray]]:
    """The arrays (collective, bytes) that fit into the memory of every rank; and those that do not."""
    free = min(ranks.gather(_free_bytes(ranks)))
    usable = free - min(RESERVED_BYTES, int(free * RESERVED_SHARE))
    copies = ARRAYS[ranks.device.type]
    kept, skipped = [], []
    for collective, size_bytes in arrays:
        if copies * size_bytes <= usable:
            kept.append((collective, size_bytes))
            continue
        what = f"{collective} of {size_text(size_bytes)} takes {size_text(copies * size_bytes)} of memory"
        reason = f"{what} in each rank, and {si(usable, 'B')} can be had"
        skipped.append(SkippedArray(collective, size_bytes, reason))
    return kept, skipped


def _free_bytes(ranks: Ranks) -> int:
    """Memory that this rank may take: its share of what is free on the GPU, or the host, that ranks share."""
    if ranks.device.type != "cuda":
        return free_memory_bytes() // ranks_here()
    sharing = -(-ranks_here() // torch.cuda.device_count()) if ranks.sharing else 1
    return torch.cuda.mem_get_info(ranks.device)[0] // sharing


def allocated(size_bytes: int, registered: bool, ranks: Ranks) -> tuple[torch.Tensor, object]:
    """The array, and what has to live as long; `registered`: in memory that NCCL's peers may read and write."""

    def make() -> torch.Tensor:
        # Written to, so that the kernel gives it pages of its own, and zero, so that sums stay finite.
        return torch.empty(size_bytes // ELEMENT_BYTES, device=ranks.device).zero_()

    return distributed.registered(make, ranks) if registered else (make(), None)
