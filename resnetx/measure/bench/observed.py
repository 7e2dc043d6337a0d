"""What the ways to copy have in common: what comes back of one entry, and the bytes that copies are checked by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from resnetx.copies import Entry, Place
from resnetx.measure.bench import checks
from resnetx.record import Unknown
from resnetx.record.copies import Endpoint

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


def data_of(place: Place) -> torch.Tensor:
    """The period of bytes that is copied from a place; those of any two differ."""
    return checks.pattern(place if isinstance(place, int) else _HOST_PATTERN).to(torch.uint8)


def ended_together(entry: Entry, times_s: Sequence[Sequence[float]]) -> list[list[float]]:
    """[flow][timing] of an entry: both ways at once, what counts is when both have ended."""
    if entry.direction == "one-way":
        return [list(times) for times in times_s]
    return [[max(both) for both in zip(*times_s, strict=True)]]
