"""Whether a collective, or a copy, makes what it should: of small integers, which fp32 adds exactly in any order.

Element i of rank r's array is (i + 31 r) modulo 251: ranks differ, and so do places, as 251 is prime and libraries cut
arrays at powers of two. Up to 65,536 ranks, sums stay below 2**24 and are exact. Half precision has fewer exact
integers: there the same modulo so many that a sum over all ranks stays exact.
"""

import torch

from resnetx.measure.rank.distributed import Ranks
from resnetx.operations import ALL, OPERATIONS

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


def _from(period: torch.Tensor, place: int) -> torch.Tensor:
    """The same period for an array that begins at `place` of a longer one."""
    return period.roll(-(place % PERIOD))


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
