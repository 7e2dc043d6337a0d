"""Whether a collective moves and adds what it should: small integers, which fp32 adds exactly in any order.

Element i of rank r's array is (i + 31 r) modulo 251: ranks differ, and so do places, as 251 is prime and libraries cut
arrays at powers of two. Up to 65,536 ranks, sums stay below 2**24 and are exact.
"""

import torch

from resnetx.measure.rank.distributed import Ranks
from resnetx.operations import ALL, OPERATIONS

PERIOD, STEP = 251, 31
# Elements that are compared at a time, which takes a byte for each: a check of 8 GiB needs 16 MiB beside it.
_AT_ONCE = 2**24 // PERIOD * PERIOD


def fill(array: torch.Tensor, collective: str, ranks: Ranks) -> None:
    """What this rank's array holds before the collective."""
    if OPERATIONS[collective].own_part:
        array.fill_(-1)
        part = ranks.part(array)
        _write(part, _from(_pattern(ranks.rank), ranks.rank * len(part)))
    else:
        _write(array, _pattern(ranks.rank))


def wrong_elements(array: torch.Tensor, collective: str, ranks: Ranks) -> int:
    """Elements of this rank's array that are not what the collective makes of what `fill` wrote.

    Where the result is another rank's, or a part of the array, the rest says nothing and is not looked at.
    """
    wrong, parts = 0, array.chunk(ranks.world_size)
    for part, rank in OPERATIONS[collective].expected(ranks.rank, ranks.world_size):
        period = _sum(ranks) if rank is ALL else _pattern(rank)
        if part is ALL:
            wrong += _unlike(array, period)
        else:
            wrong += _unlike(parts[part], _from(period, part * len(parts[0])))
    return wrong


def _pattern(rank: int) -> torch.Tensor:
    """One period of what a rank's array holds."""
    return ((torch.arange(PERIOD) + STEP * rank) % PERIOD).float()


def _sum(ranks: Ranks) -> torch.Tensor:
    return torch.stack([_pattern(rank) for rank in range(ranks.world_size)]).sum(dim=0)


def _from(period: torch.Tensor, place: int) -> torch.Tensor:
    """The same period for an array that begins at `place` of a longer one."""
    return period.roll(-(place % PERIOD))


def _write(array: torch.Tensor, period: torch.Tensor) -> None:
    whole, rest = _in_periods(array)
    period = period.to(array.device)
    whole.copy_(period.expand_as(whole))
    rest.copy_(period[: len(rest)])


def _unlike(array: torch.Tensor, period: torch.Tensor) -> int:
    period = period.to(array.device)
    return sum(_unlike_part(part, period) for part in array.split(_AT_ONCE))


def _unlike_part(array: torch.Tensor, period: torch.Tensor) -> int:
    whole, rest = _in_periods(array)
    return int((whole != period).sum() + (rest != period[: len(rest)]).sum())


def _in_periods(array: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole periods of an array as rows, and what is left: views, so that large arrays need no second one."""
    end = len(array) // PERIOD * PERIOD
    return array[:end].view(-1, PERIOD), array[end:]
