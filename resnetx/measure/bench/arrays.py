"""The arrays that collectives work on, and which sizes of them there is memory for.

One array serves all collectives and sizes, of which each uses the beginning; results that do not go where the data was
go to a second one. A size that would not fit is left out, with the reason, and the others are measured all the same:
what is free is asked for before anything is allocated, as a rank that runs out of memory ends them all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import torch

from resnetx.copies import CopyPlace, Entry
from resnetx.host import free_memory_bytes
from resnetx.measure.launch import ranks_here
from resnetx.measure.rank import distributed
from resnetx.measure.rank.distributed import Ranks
from resnetx.operations import ALL, OPERATIONS, Place
from resnetx.record import SkippedArray, Unknown
from resnetx.record.bench_record import ELEMENT_BYTES, DType, Endpoint
from resnetx.units import si, size_text

Point = TypeVar("Point")

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Of the free memory, for all but the array: buffers of NCCL and gloo, the check, the computing beside a collective.
RESERVED_BYTES, RESERVED_SHARE = 2**30, 1 / 4  # the smaller of the two
# gloo gathers into a second array, and scatters what it has reduced in one (torch, ProcessGroupGloo.cpp); NCCL works in
# the array itself.
ARRAYS = {"cuda": 1, "cpu": 2}


@dataclass(frozen=True)
class Timed(Generic[Point]):
    """What was asked for, timed."""

    points: list[Point] = field(default_factory=list)  # in the order in which they were timed
    skipped: list[SkippedArray] = field(default_factory=list)


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


# Whether a collective, or a copy, makes what it should. Element i of rank r's array is (i + 31 r) modulo 251: as 251 is
# prime, ranks and places differ, and fp32 adds up to 65,536 ranks exactly; in half precision it is modulo so many that
# a sum over all ranks stays exact.

PERIOD, STEP = 251, 31
_EXACT_BITS = {torch.bfloat16: 8, torch.float16: 11}  # of the integers that a type has all of; fp32: 24
# Elements that are compared at a time, which takes a byte for each: a check of 8 GiB needs 16 MiB beside it.
_AT_ONCE = 2**24 // PERIOD * PERIOD


def fill(array: torch.Tensor, collective: str, ranks: Ranks) -> None:
    """What this rank's array holds before the collective."""
    mine = _data(ranks.rank, array, ranks)
    if OPERATIONS[collective].own_part:
        array.fill_(-1)
        part = ranks.part(array)
        write(part, _from(mine, ranks.rank * len(part)))
    else:
        write(array, mine)


def wrong_elements(array: torch.Tensor, collective: str, ranks: Ranks) -> int:
    """Elements of this rank's array that are not what the collective makes of what `fill` wrote.

    Where the result is another rank's, or a part of the array, the rest says nothing and is not looked at.
    """
    wrong, parts = 0, array.chunk(ranks.world_size)
    for made in OPERATIONS[collective].expected(ranks.rank, ranks.world_size):
        period = _sum(array, ranks) if made.rank is ALL else _data(made.rank, array, ranks)
        if made.part is ALL or made.source is ALL:
            wrong += unlike(array, period)
        else:
            wrong += unlike(parts[made.part], _from(period, made.source * len(parts[0])))
    return wrong


def pattern(rank: int) -> torch.Tensor:
    """One period of what a rank's array holds; its integers fit into a byte."""
    return ((torch.arange(PERIOD) + STEP * rank) % PERIOD).float()


def _data(rank: int, array: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """One period of a rank's data, whose sum over all ranks the type of the array still has exactly."""
    exact = 2 ** _EXACT_BITS.get(array.dtype, 24)
    data: torch.Tensor = pattern(rank) % min(PERIOD, max(2, exact // ranks.world_size + 1))
    return data


def _sum(array: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    return torch.stack([_data(rank, array, ranks) for rank in range(ranks.world_size)]).sum(dim=0)


def _from(period: torch.Tensor, index: int) -> torch.Tensor:
    """The same period for an array that begins at `place` of a longer one."""
    return period.roll(-(index % PERIOD))


def write(array: torch.Tensor, period: torch.Tensor) -> None:
    """Fills an array of any type with a period, again and again."""
    whole, rest = _in_periods(array)
    period = period.to(array.device, array.dtype)
    whole.copy_(period.expand_as(whole))
    rest.copy_(period[: len(rest)])


def unlike(array: torch.Tensor, period: torch.Tensor) -> int:
    """Elements that are not what `write` makes of the period."""
    period = period.to(array.device, array.dtype)
    return sum(_unlike_part(part, period) for part in array.split(_AT_ONCE))


def _unlike_part(array: torch.Tensor, period: torch.Tensor) -> int:
    whole, rest = _in_periods(array)
    return int((whole != period).sum() + (rest != period[: len(rest)]).sum())


def _in_periods(array: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole periods of an array as rows, and what is left: views, so that large arrays need no second one."""
    end = len(array) // PERIOD * PERIOD
    return array[:end].view(-1, PERIOD), array[end:]


# What the ways to copy have in common: what comes back of one entry, and the bytes that copies are checked by.

CLEAR = 255  # no byte of `data_of`
_HOST_PATTERN = 200  # beyond the GPUs of one host


@dataclass(frozen=True)
class Observed:
    """One entry as it was measured, the same on every rank."""

    times_s: list[list[float]]  # [flow][timing]
    wrong: list[int]  # [flow]: bytes of the target that are not those of the source, behind the timing
    endpoint: Endpoint
    path: str | Unknown
    evidence: list[str] = field(default_factory=list)


class Copier(Protocol):
    """A way to copy, which all ranks call for the same entries in the same order."""

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed: ...


def by_first(ranks: Ranks, observe: Callable[[], Observed]) -> Observed:
    """What rank 0 observes of an entry that it copies alone, on every rank."""
    observed = ranks.gather(observe() if ranks.first else None)[0]
    assert observed is not None, "rank 0 copies"
    return observed


def data_of(place: CopyPlace) -> torch.Tensor:
    """The period of bytes that is copied from a place; those of any two differ."""
    return pattern(place if isinstance(place, int) else _HOST_PATTERN).to(torch.uint8)


def ended_together(entry: Entry, times_s: Sequence[Sequence[float]]) -> list[list[float]]:
    """[flow][timing] of an entry: both ways at once, what counts is when both have ended."""
    if entry.direction == "one-way":
        return [list(times) for times in times_s]
    return [[max(both) for both in zip(*times_s, strict=True)]]
