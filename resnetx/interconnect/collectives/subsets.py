"""Which k GPUs of a machine to use: every choice of them, by what a collective reaches.

Of choices that are alike by the symmetry of the machine, one is planned: 65 of the 12,870 choices of 8 in a DGX-2.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.plan import CollectivePlan, plan
from resnetx.interconnect.systems.system import System
from resnetx.units import CPU

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
        """The shell's setting that lets a program see these GPUs only; "" of several nodes, and of what are no GPUs."""
        system = self.like.system
        if system.nodes > 1 or CPU in system.gpu_part(0).product_names:
            return ""
        return f"CUDA_VISIBLE_DEVICES={','.join(map(str, self.devices))}"


def pick(
    system: System,
    count: int,
    free: Sequence[int] | None = None,
    collective: str = "allreduce",
    size_bytes: float = 2**28,
    library: str | None = None,
) -> list[GpuSubset]:
    """All choices of `count` from the `free` GPUs (all unless set), the best first; equals in order of their ids.

    Without those of GPUs that are no peers: what such reach is open.
    """
    known = range(len(system.gpus))
    candidates = sorted(known if free is None else free)
    if len(set(candidates)) != len(candidates) or not set(candidates) <= set(known):
        raise ConfigError(
            f"free={list(free or ())}: expected different GPU ids from 0 to {len(known) - 1} of {system.name}"
        )
    if len(candidates) < 2:
        raise ConfigError(f"free={list(candidates)}: expected two GPUs of {system.name} or more")
    if not 2 <= count <= len(candidates):
        raise ConfigError(f"pick={count}: expected 2 to {len(candidates)}, the number of free GPUs")
    if (choices := math.comb(len(candidates), count)) > MOST_CHOICES:
        raise ConfigError(
            f"pick={count}: {choices} choices from {len(candidates)} GPUs are too many; name fewer with free= (at most "
            f"{MOST_CHOICES} choices)"
        )
    first_like = alike(system, combinations(candidates, count), candidates)
    differing = set(first_like.values())
    plans: dict[tuple[int, ...], CollectivePlan] = {}
    with progress.counting("choices of GPUs", len(differing)) if len(differing) > MANY else nullcontext() as advance:
        for devices in differing:
            plans[devices] = plan(system, collective, devices, library)
            if advance:
                advance(1)
    known_Bps = {
        devices: planned.cost(size_bytes).busbw_Bps for devices, planned in plans.items() if not planned.no_peers
    }
    if not known_Bps:
        raise ConfigError(
            f"pick={count}: no two of any {count} free GPUs of {system.name} are peers, so that none are known to be "
            f"better; expected some that are peers; collective={collective} gpus={count} without pick= has the two ends"
        )
    ranked = [
        GpuSubset(devices, known_Bps[like], plans[like]) for devices, like in first_like.items() if like in known_Bps
    ]
    if open_choices := choices - len(ranked):
        progress.note(f"pick={count}: {open_choices} choices of GPUs that are no peers are left out: open")
    return sorted(ranked, key=lambda choice: (-choice.busbw_Bps, choice.devices))


# Which GPUs of a machine are alike: permutations of its components that leave all parts and links as they are.
#
#     alike(load("dgx2"), combinations(range(16), 8))     # of 12,870 choices 65 differ
#
# What a collective reaches is the same for two choices of GPUs that such a permutation takes into each other. They are
# found by colours: components have one colour as long as no part, and no link to other colours, tells them apart. Where
# that leaves several alike, one is chosen, and the others follow (McKay, Practical graph isomorphism, 1981).

MOST_COMPONENTS = 256  # of larger machines no two choices are known to be alike

Choice = tuple[int, ...]
Colours = list[int]  # by component
Permutation = list[int]  # component -> component


def alike(system: System, choices: Iterable[Choice], known: Sequence[int]) -> dict[Choice, Choice]:
    """Each choice of some of the `known` GPUs, in order, and the first one that it is like."""
    turned = _gpu_permutations(system, known)
    found: dict[Choice, Choice] = {}
    for choice in choices:
        if choice in found:
            continue
        found[choice] = choice
        ahead = deque([choice])
        while ahead:
            devices = ahead.popleft()
            for permutation in turned:
                other = tuple(sorted([permutation[device] for device in devices]))
                if other not in found:
                    found[other] = choice
                    ahead.append(other)
    return found


def _gpu_permutations(system: System, known: Sequence[int]) -> list[Mapping[int, int]]:
    """Permutations of the known GPUs among themselves of which all others are made."""
    if system.port or len(system.components) > MOST_COMPONENTS:
        return []
    graph = _Graph(system, known)
    places = {component.name: index for index, component in enumerate(system.components)}
    gpus = [places[gpu.name] for gpu in system.gpus]
    devices = {gpu: device for device, gpu in enumerate(gpus)}
    return [{device: devices[turned[gpus[device]]] for device in known} for turned in graph.generators(gpus)]


class _Graph:
    """The components as vertices with colours, and their links as directed edges with labels."""

    def __init__(self, system: System, known: Sequence[int]) -> None:
        places = {component.name: index for index, component in enumerate(system.components)}
        chosen = {system.gpus[device].name for device in known}
        kinds: dict[object, int] = {}
        self.colours = [
            kinds.setdefault((each.part_name, each.part, each.node, each.name in chosen), len(kinds))
            for each in system.components
        ]
        self.edges: list[list[tuple[int, int]]] = [[] for _ in places]  # (label, the component at the other end)
        for link in system.links:
            for end, other in ((link.a, link.b), (link.b, link.a)):
                way = (
                    link.part_name,
                    link.wire,
                    link.lanes_from(end),
                    link.lanes_from(other),
                    link.bridge,
                    link.through,
                )
                self.edges[places[end]].append((kinds.setdefault(way, len(kinds)), places[other]))

    def generators(self, base: Sequence[int]) -> list[Permutation]:
        """Permutations that, one after the other, give every one there is of the base."""
        found: list[Permutation] = []
        for depth in reversed(range(len(base))):
            fixed, first = base[:depth], base[depth]
            for second in base[depth + 1 :]:
                if second in _orbit(first, [each for each in found if all(each[one] == one for one in fixed)]):
                    continue
                pairs = [*((one, one) for one in fixed), (first, second)]
                if (turned := self._extended(pairs)) is not None:
                    found.append(turned)
        return found

    def _extended(self, pairs: Sequence[tuple[int, int]]) -> Permutation | None:
        """A permutation that takes the first of each pair to the second; None where there is none."""
        before, after = list(self.colours), list(self.colours)
        for number, (one, other) in enumerate(pairs):
            if before[one] != after[other]:
                return None
            before[one] = after[other] = -1 - number
        return self._search(before, after)

    def _search(self, before: Colours, after: Colours) -> Permutation | None:
        before, after = self._refined(before, after)
        counts = Counter(before)
        if counts != Counter(after):
            return None
        several = next((colour for colour in before if counts[colour] > 1), None)
        if several is None:
            places = {colour: index for index, colour in enumerate(after)}
            turned = [places[colour] for colour in before]
            return turned if self._keeps(turned) else None
        one, chosen = before.index(several), max(before) + 1
        for other, colour in enumerate(after):
            if colour == several:
                marked = [*after[:other], chosen, *after[other + 1 :]]
                if found := self._search([*before[:one], chosen, *before[one + 1 :]], marked):
                    return found
        return None

    def _refined(self, before: Colours, after: Colours) -> tuple[Colours, Colours]:
        """The same colours, told apart by those at the other ends of links, until nothing more is."""
        while True:
            names: dict[object, int] = {}
            finer = [
                [
                    names.setdefault(
                        (colour, tuple(sorted([(label, colours[end]) for label, end in ends]))), len(names)
                    )
                    for colour, ends in zip(colours, self.edges, strict=True)
                ]
                for colours in (before, after)
            ]
            if len(set(finer[0])) == len(set(before)):
                return finer[0], finer[1]
            before, after = finer

    def _keeps(self, turned: Permutation) -> bool:
        """Whether every component is taken to one of its kind, and every link to one like it."""
        return all(
            self.colours[index] == self.colours[other]
            and Counter((label, turned[end]) for label, end in self.edges[index]) == Counter(self.edges[other])
            for index, other in enumerate(turned)
        )


def _orbit(first: int, permutations: Sequence[Permutation]) -> set[int]:
    """Where permutations, one after the other, take a component."""
    found, ahead = {first}, [first]
    while ahead:
        index = ahead.pop()
        new = {permutation[index] for permutation in permutations} - found
        found |= new
        ahead += new
    return found
