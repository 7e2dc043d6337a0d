"""Pair copies: what was copied from where to where, how long it took, and by which path.

A cell is one kind of copy between one source and one target at one size. A GPU, or the rank of a CPU run, is its number
among the bench's devices; memory of a host is "host", or "numa0" where it is bound to a NUMA node; a disk is "storage".
"""

from typing import Annotated, Literal

import msgspec

from resnetx.record.base import RecordPart

Direction = Literal["one-way", "both-ways"]
Endpoint = Literal["device", "pinned", "pageable"]  # memory that a copy between hosts starts from and ends in
Verdict = Literal["as expected", "low", "above the link", "not judged"]
Place = int | str
Times = Annotated[list[Annotated[float, msgspec.Meta(gt=0)]], msgspec.Meta(min_length=1)]


class Pair(RecordPart, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A copy that ran at the same time as another."""

    source: Place
    target: Place


class CopyCell(
    RecordPart,
    frozen=True,
    kw_only=True,
    rename={"source": "from", "target": "to", "pair_class": "class"},
):
    """One kind of copy between one pair at one size."""

    copy: str  # its entry in `resnetx.copies`: "device", "relay", "to-host"
    source: Place
    target: Place
    through: int | None = None  # the GPU that relays; null: none
    size_bytes: int  # in one direction
    direction: Direction  # both ways at once: both copies of `size_bytes` have ended
    endpoint: Endpoint
    together: list[Pair] = msgspec.field(default_factory=list)  # what ran at the same time; []: nothing did
    time_s: Times  # of one copy, of each timing
    wrong: int | None  # bytes that were not what they should be, in a check behind the timing
    path: str | None  # what it went over, as far as evidence says: "nvlink", "pcie", "host", "socket", "shared memory"
    evidence: list[str]  # for the path: peer state, byte counters, interface
    expected_s: float | None  # what the described topology allows; null: none described
    verdict: Verdict  # of the median time beside `expected_s`
    causes: list[str] = msgspec.field(default_factory=list)  # to check where it is low, the likeliest first
    pair_class: str | None  # pairs that behave alike: "one NVLink", "same switch"; null: not classified
