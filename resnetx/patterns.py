"""Patterns of communication: the messages that an iteration of an application sends before and after it computes.

    rounds("halo", ranks=8, size_bytes=2**26).after       # lists of `PatternMessage`: those of a list go at once

Five patterns stand for the fourteen applications of Tartan (Li et al. 2019, Table 3), none of which is here: what they
compute is waited out. Which application each pattern stands for, and its usual problem, is in `configs/pattern`. A
message carries data of a rank, its own or what it was sent; who receives it can tell what it has to hold.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

import msgspec

from resnetx.errors import unknown_name
from resnetx.loading import YamlFile
from resnetx.settings.files import CONFIGS
from resnetx.units import size

HOST = -1  # memory of the host, of which each rank has some
Scaling = Literal["strong", "weak"]
_ELEMENT, _GRAIN = 4, 16  # bytes: of a place of a grid, and what messages are multiples of


class PatternMessage(NamedTuple):
    """One message of a round."""

    source: int  # rank, or HOST: that of the target
    target: int
    size_bytes: int
    origin: int  # the rank whose data it is
    number: int = 0  # of the data of that rank

    def includes(self, rank: int) -> bool:
        """Whether a rank sends or receives it."""
        return rank in (self.source, self.target)


Round = list[PatternMessage]  # that go at once


class Rounds(NamedTuple):
    """What is sent in an iteration, one round after the other."""

    before: list[Round]  # what is computed
    after: list[Round]

    def sent_bytes(self, ranks: int) -> int:
        """Bytes that the busiest rank of each round sends or receives, whichever is more; rounds go one by one."""
        return sum(_most_moved(round, ranks) for round in (*self.before, *self.after))


def _most_moved(round: Round, ranks: int) -> int:
    sent, received = [0] * ranks, [0] * ranks
    for message in round:
        if message.source != HOST:
            sent[message.source] += message.size_bytes
        if message.target != HOST:
            received[message.target] += message.size_bytes
    return max(*sent, *received)


class PatternFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of `configs/pattern` says."""

    about: str
    size: str  # of the problem, where none is asked for
    compute: float  # seconds of the whole problem on one rank, where none are asked for
    applications: dict[str, str]  # of Tartan, and what Li et al. 2019 call their pattern

    @property
    def size_bytes(self) -> int:
        return size(self.size)


def rounds(name: str, ranks: int, size_bytes: int, scaling: Scaling = "strong") -> Rounds:
    """The messages of an iteration; `size_bytes`: of the problem, with `weak` scaling of each rank's part of it."""
    return _ROUNDS[name](ranks, size_bytes * (ranks if scaling == "weak" and name not in ALIKE else 1))


def compute_s(whole_s: float, ranks: int, scaling: Scaling) -> float:
    """What each rank computes in an iteration, of a problem that takes one rank `whole_s`."""
    return whole_s / ranks if scaling == "strong" else whole_s


@cache
def load(name: str) -> PatternFile:
    """A pattern by its name."""
    if name not in _ROUNDS:
        raise unknown_name("pattern", name, NAMES, "pattern")
    text = YamlFile(CONFIGS / "pattern" / f"{name}.yaml", "a pattern")
    file: PatternFile = text.convert(PatternFile)
    return file


# ---- their messages -------------------------------------------------------------------------------------------------


def _halo(ranks: int, size_bytes: int) -> Rounds:
    """A cube, in blocks as like cubes as the number of ranks has factors; it is open at its sides."""
    # Three factors of a number, as near each other as there are.
    found = (
        (factor, two, ranks // factor // two)
        for factor in _factors(ranks)
        for two in _factors(ranks // factor)
        if factor >= two >= ranks // factor // two
    )
    grid = min(found, key=sum)
    side = (size_bytes / _ELEMENT) ** (1 / 3)  # places along each edge
    places = list(product(*map(range, grid)))
    rank_of = {place: rank for rank, place in enumerate(places)}
    messages: Round = []
    for place, rank in rank_of.items():
        for axis, step in product(range(3), (-1, 1)):
            neighbour = tuple(at + step * (other == axis) for other, at in enumerate(place))
            if neighbour in rank_of:
                face = math.prod(side / parts for other, parts in enumerate(grid) if other != axis)
                number = 2 * axis + (step + 1) // 2
                messages.append(PatternMessage(rank, rank_of[neighbour], _whole(face * _ELEMENT), rank, number))
    return Rounds([], [messages])


def _factors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _alltoall(ranks: int, size_bytes: int) -> Rounds:
    part = _whole(size_bytes / ranks**2)
    pairs = product(range(ranks), repeat=2)
    return Rounds([], [[PatternMessage(one, other, part, one, other) for one, other in pairs if one != other]])


def _broadcast_tree(ranks: int, size_bytes: int) -> Rounds:
    """In each round all that have it send it on, so that twice as many have it then."""
    found: list[Round] = []
    having, size = 1, _whole(size_bytes)
    while having < ranks:
        targets = range(having, min(2 * having, ranks))
        found.append([PatternMessage(target - having, target, size, 0) for target in targets])
        having *= 2
    return Rounds(found, [])


def _gather_scatter(ranks: int, size_bytes: int) -> Rounds:
    part = _whole(size_bytes / ranks)
    others = range(1, ranks)
    scatter = [PatternMessage(0, rank, part, 0, rank) for rank in others]
    return Rounds([scatter], [[PatternMessage(rank, 0, part, rank) for rank in others]])


def _host_stream(ranks: int, size_bytes: int) -> Rounds:
    part = _whole(size_bytes / ranks)
    down = [PatternMessage(HOST, rank, part, rank) for rank in range(ranks)]
    return Rounds([down], [[PatternMessage(rank, HOST, part, rank) for rank in range(ranks)]])


def _whole(size_bytes: float) -> int:
    return -(-math.ceil(size_bytes) // _GRAIN) * _GRAIN


_ROUNDS: Mapping[str, Callable[[int, int], Rounds]] = {
    "halo": _halo,
    "alltoall": _alltoall,
    "broadcast-tree": _broadcast_tree,
    "gather-scatter": _gather_scatter,
    "host-stream": _host_stream,
}
NAMES = tuple(_ROUNDS)
ALIKE = ("broadcast-tree",)  # whose message is the same, however many ranks there are
