"""Pair copies: what was copied from where to where, how long it took, and by which path.

A cell is one kind of copy between one source and one target at one size. A GPU, or the rank of a CPU run, is its number
among the bench's devices; memory of a host is "host", or "numa0" where it is bound to a NUMA node; a disk is "storage".
"""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec

from resnetx.record.files import RecordPart

Direction = Literal["one-way", "both-ways"]
Endpoint = Literal["device", "pinned", "pageable"]  # memory that a copy between hosts starts from and ends in
Verdict = Literal["as expected", "low", "above the link", "not judged"]
# Which GPU issues a copy: the one that sends, or the one that receives; "": not said.
Access = Literal["", "write", "read"]
Engine = Literal["", "copy engine", "SM", "TMA"]  # of a GPU, that copies; "": not said
Place = int | str
Times = Annotated[list[Annotated[float, msgspec.Meta(gt=0)]], msgspec.Meta(min_length=1)]


class CopyFamily(NamedTuple):
    """What copies that can be compared with each other have in common."""

    copy: str
    direction: Direction
    endpoint: Endpoint
    access: Access
    engine: Engine

    @property
    def words(self) -> str:
        """For a person: "device copies, one way, reads by SMs"."""
        return f"{self.copy} copies, {self.direction.replace('-', ' ')}{self.issued}"

    @property
    def issued(self) -> str:
        """How copies are issued, as it goes on in a list: ", reads by SMs"; "": not said."""
        engine = {"": "", "copy engine": "by copy engines", "SM": "by SMs", "TMA": "by TMA"}[self.engine]
        access = f"{self.access}s" if self.access else ""
        words = " ".join(word for word in (access, engine) if word)
        return f", {words}" if words else ""

    @property
    def slug(self) -> str:
        """For names of files: "device_one-way_device_read_sm"."""
        return "_".join(word.lower().replace(" ", "-") for word in self if word)


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
    access: Access = ""
    engine: Engine = ""
    together: list[Pair] = msgspec.field(default_factory=list)  # what ran at the same time; []: nothing did
    time_s: Times  # of one copy, of each timing
    wrong: int | None  # bytes that were not what they should be, in a check behind the timing
    path: str | None  # what it went over, as far as evidence says: "nvlink", "pcie", "host", "socket", "shared memory"
    evidence: list[str]  # for the path: peer state, byte counters, interface
    expected_s: float | None  # what the described topology allows; null: none described
    verdict: Verdict  # of the median time beside `expected_s`
    causes: list[str] = msgspec.field(default_factory=list)  # to check where it is low, the likeliest first
    pair_class: str | None  # pairs that behave alike: "one NVLink", "same switch"; null: not classified

    @property
    def family(self) -> CopyFamily:
        """What it can be compared with."""
        return CopyFamily(self.copy, self.direction, self.endpoint, self.access, self.engine)


def families(cells: Iterable[CopyCell]) -> dict[CopyFamily, list[CopyCell]]:
    """The cells that ran alone, by what they can be compared with."""
    found: dict[CopyFamily, list[CopyCell]] = {}
    for cell in cells:
        if cell.time_s and not cell.together:
            found.setdefault(cell.family, []).append(cell)
    return found
