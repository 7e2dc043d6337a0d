"""The arrays that collectives work on, and which sizes of them there is memory for.

One array serves all collectives and sizes, of which each uses the beginning; results that do not go where the data was
go to a second one. A size that would not fit is left out,
with the reason, and the others are measured all the same: what is free is asked for before anything is allocated, as a
rank that runs out of memory ends them all.
"""

from collections.abc import Iterable

import torch

from resnetx.host import free_memory_bytes
from resnetx.measure.launch.torchrun import ranks_here
from resnetx.measure.rank import distributed
from resnetx.measure.rank.distributed import Ranks
from resnetx.operations import OPERATIONS, Place
from resnetx.record import SkippedArray
from resnetx.record.bench import ELEMENT_BYTES, DType
from resnetx.units import si, size_text

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Of the free memory, for all but the array: buffers of NCCL and gloo, the check, the computing beside a collective.
RESERVED_BYTES, RESERVED_SHARE = 2**30, 1 / 4  # the smaller of the two
# gloo gathers into a second array, and scatters what it has reduced in one (torch, ProcessGroupGloo.cpp); NCCL works in
# the array itself.
ARRAYS = {"cuda": 1, "cpu": 2}


def place_of(collective: str, asked: Place | None) -> Place:
    """Where the results of a collective go."""
    return asked or OPERATIONS[collective].places[0]


def fitting(
    arrays: Iterable[tuple[str, int]], ranks: Ranks, place: Place | None = None
) -> tuple[list[tuple[str, int]], list[SkippedArray]]:
    """The arrays (collective, bytes) that fit into the memory of every rank; and those that do not."""
    usable = usable_bytes(ranks)
    kept, skipped = [], []
    for collective, size_bytes in arrays:
        copies = ARRAYS[ranks.device.type] + (place_of(collective, place) == "out")
        if copies * size_bytes <= usable:
            kept.append((collective, size_bytes))
            continue
        what = f"{collective} of {size_text(size_bytes)} takes {size_text(copies * size_bytes)} of memory"
        reason = f"{what} in each rank, and {si(usable, 'B')} can be had"
        skipped.append(SkippedArray(collective, size_bytes, reason))
    return kept, skipped


def usable_bytes(ranks: Ranks) -> int:
    """Memory that every rank may take for its arrays."""
    free = min(ranks.gather(_free_bytes(ranks)))
    return free - min(RESERVED_BYTES, int(free * RESERVED_SHARE))


def _free_bytes(ranks: Ranks) -> int:
    """Memory that this rank may take: its share of what is free on the GPU, or the host, that ranks share."""
    if ranks.device.type != "cuda":
        return free_memory_bytes() // ranks_here()
    sharing = -(-ranks_here() // torch.cuda.device_count()) if ranks.sharing else 1
    return torch.cuda.mem_get_info(ranks.device)[0] // sharing


def allocated(size_bytes: int, registered: bool, ranks: Ranks, dtype: DType = "fp32") -> tuple[torch.Tensor, object]:
    """An array, and what has to live as long; `registered`: in memory that NCCL's peers may read and write."""

    def make() -> torch.Tensor:
        # Written to, so that the kernel gives it pages of its own, and zero, so that sums stay finite.
        return torch.empty(size_bytes // ELEMENT_BYTES[dtype], dtype=DTYPES[dtype], device=ranks.device).zero_()

    return distributed.registered(make, ranks) if registered else (make(), None)
