"""The links of a system's file, one of each pair of components and kind.

- {between: [gpu0, gpu1..3], link: nvlink2, lanes: 2}         # lanes that carry traffic both ways
- {each: [gpu0..7, plx0..3], link: pcie3, lanes: 16}          # likewise; the first range shared out over the second
- {one_way: [gpu0, gpu1], link: nvlink2, lanes: 3}            # lanes from gpu0 to gpu1 alone
- {one_way: [gpu1, gpu0], link: nvlink2, through: ocs0}       # one lane back, by a circuit of a photonic switch

Lanes one way and both ways of one pair and kind add up. Only GPUs may send each other more one way than the other: what
they exchange with a host, a switch or a network card goes both ways over the same link.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product

import msgspec

from resnetx.errors import unknown_name
from resnetx.interconnect.component import Component, Link
from resnetx.interconnect.lined_yaml import LinedYaml, check_figure, expand
from resnetx.interconnect.parts import PhotonicSpec, SourcedValue, WireSpec

MAX_LINKS = 2**16
MAX_LANES = 2**10

Where = list[str | int]


class _LinkEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    between: tuple[str, str] | None = None  # names or ranges: every one of the first with every one of the second
    each: tuple[str, str] | None = None  # instead: the first range shared out evenly over the second
    one_way: tuple[str, str] | None = None  # instead: as `between`, but from the first to the second alone
    link: str
    lanes: int = 1
    peer: bool | None = None  # null: as the wire says
    copy_GBps: SourcedValue | None = None  # of one lane, where this link differs from its kind
    source: str | None = None  # null: the file's `wiring`
    bridge: str | None = None  # the host bridge of a CPU that it goes into, where a CPU has several
    through: str | None = None  # the photonic switch that joins its ends


def links_of(text: LinedYaml, wires: Mapping[str, WireSpec], components: Sequence[Component]) -> tuple[Link, ...]:
    """The links that a file describes, ranges expanded, each pair in the order of its components."""
    if not isinstance(text.tree["links"], list):
        raise text.error(["links"], "links: expected a list, as - {between: [gpu0, gpu1], link: nvlink1}")
    places = {component.name: place for place, component in enumerate(components)}
    kinds = {component.name: component.kind for component in components}
    links: dict[tuple[str, str, str], Link] = {}
    stated: set[tuple[str, ...]] = set()
    for number in range(len(text.tree["links"])):
        where: Where = ["links", number]
        entry = _entry(text, where, wires)
        for first, second in _pairs(text, where, entry, MAX_LINKS - len(links)):
            _check_ends(text, where, entry, first, second, kinds)
            link = _link(text, where, wires, entry, first, second, places[first] > places[second])
            pair = (link.a, link.b, link.part_name)
            key = (first, second, link.part_name, "one way") if entry.one_way else pair
            if key in stated:
                raise text.error(where, f"links.{number}: {first} and {second} are linked twice; use lanes")
            stated.add(key)
            links[pair] = _added(text, where, links[pair], link) if pair in links else link
    found = tuple(links.values())
    _check_connected(text, components, found)
    _check_fabrics(text, kinds, found)
    _check_ports(text, components, found)
    return found


def _entry(text: LinedYaml, where: Where, wires: Mapping[str, WireSpec]) -> _LinkEntry:
    """One entry of `links`, with a known kind and a number of lanes that there may be."""
    entry: _LinkEntry = text.convert(_LinkEntry, where)
    name = ".".join(map(str, where))
    if entry.link not in wires:
        raise text.error(where, str(unknown_name("link", entry.link, wires, f"{name}.link")))
    if not 1 <= entry.lanes <= MAX_LANES:
        bound = "at least 1" if entry.lanes < 1 else f"at most {MAX_LANES}"
        raise text.error(where, f"{name}.lanes={entry.lanes}: expected {bound}")
    return entry


def _pairs(text: LinedYaml, where: Where, entry: _LinkEntry, most: int) -> list[tuple[str, str]]:
    """The pairs of components that one entry of `links` joins; `most`: as there may be."""
    given = [ends for ends in (entry.between, entry.each, entry.one_way) if ends]
    if len(given) != 1:
        raise text.error(where, "links: expected one of `between`, `each` and `one_way`, with two names or ranges")
    first, second = (expand(text, where, end) for end in given[0])
    among = bool(entry.between) and first == second and len(first) > 1
    joined = len(first) if entry.each else math.comb(len(first), 2) if among else len(first) * len(second)
    if joined > most:
        raise text.error(where, f"links: {joined:,} more links, of at most {MAX_LINKS} in all")
    if not entry.each:
        return list(combinations(first, 2) if among else product(first, second))
    if len(first) % len(second):
        raise text.error(where, f"{len(first)} components cannot be shared out evenly over {len(second)}")
    share = len(first) // len(second)
    return [(name, second[index // share]) for index, name in enumerate(first)]


def _check_ends(
    text: LinedYaml, where: Where, entry: _LinkEntry, first: str, second: str, kinds: Mapping[str, str]
) -> None:
    """Refuses ends that are not there, or that cannot be joined so."""
    name = ".".join(map(str, where))
    if stranger := next((end for end in (first, second, entry.through or first) if end not in kinds), None):
        raise text.error(where, f"{name}: no component is called {stranger}")
    if first == second:
        raise text.error(where, f"{name}: {first} is linked to itself")
    if entry.through and kinds[entry.through] != "photonic":
        raise text.error(where, f"{name}.through={entry.through}: a {kinds[entry.through]}; expected a photonic switch")
    if switch := next((end for end in (first, second) if kinds[end] == "photonic"), None):
        what = f"{switch} is a photonic switch, which ends no link; expected two GPUs and through: {switch}"
        raise text.error(where, f"{name}: {what}")
    if (entry.one_way or entry.through) and {kinds[first], kinds[second]} != {"gpu"}:
        setting = "one_way" if entry.one_way else "through"
        raise text.error(where, f"{name}.{setting}: {first} and {second} are not both GPUs; expected two GPUs")


def _link(
    text: LinedYaml,
    where: Where,
    wires: Mapping[str, WireSpec],
    entry: _LinkEntry,
    first: str,
    second: str,
    turned: bool,
) -> Link:
    """What an entry says of two components; `turned`: the second one is described before the first."""
    return Link(
        a=second if turned else first,
        b=first if turned else second,
        part_name=entry.link,
        wire=_wire(text, where, wires, entry),
        lanes=0 if entry.one_way and turned else entry.lanes,
        source=text.convert(str, ["wiring"]) if entry.source is None else entry.source,
        bridge=entry.bridge or "",
        lanes_back=None if not entry.one_way else entry.lanes if turned else 0,
        through=entry.through or "",
    )


def _added(text: LinedYaml, where: Where, link: Link, more: Link) -> Link:
    """A link with the lanes of another entry about it."""
    alike = ("wire", "bridge", "through")
    if any(getattr(link, field) != getattr(more, field) for field in alike):
        name = ".".join(map(str, where))
        what = f"{link.a} and {link.b} have another entry with another peer, copy_GBps, bridge or through"
        raise text.error(where, f"{name}: {what}; expected the same in both")
    lanes, back = (link.lanes_from(end) + more.lanes_from(end) for end in (link.a, link.b))
    source = link.source if link.source == more.source else f"{link.source}; {more.source}"
    return msgspec.structs.replace(link, lanes=lanes, lanes_back=None if back == lanes else back, source=source)


def _wire(text: LinedYaml, where: Where, wires: Mapping[str, WireSpec], entry: _LinkEntry) -> WireSpec:
    """The wire of one link: its kind's, with what this link's entry changes."""
    wire = wires[entry.link]
    if entry.peer is not None:
        wire = msgspec.structs.replace(wire, peer=entry.peer)
    if entry.copy_GBps is not None:
        figure = msgspec.structs.replace(entry.copy_GBps, stated=entry.copy_GBps.value * 1e9)
        check_figure(text, [*where, "copy_GBps"], "copy_GBps", figure)
        wire = msgspec.structs.replace(wire, copy_Bps=figure, duplex_Bps=None)
    return wire


# ---- all of them ----------------------------------------------------------------------------------------------------


def _check_connected(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    """Refuses components that no links connect to the first one."""
    neighbours: dict[str, set[str]] = {component.name: set() for component in components}
    for link in links:
        for one, other in permutations({link.a, link.b, link.through} - {""}, 2):
            neighbours[one].add(other)
    seen: set[str] = set()
    ahead = {components[0].name} if components else set()
    while ahead:
        seen |= ahead
        ahead = {near for name in ahead for near in neighbours[name]} - seen
    if alone := [component.name for component in components if component.name not in seen]:
        raise text.error(
            ["links"], f"links: nothing connects {', '.join(alone[:4])}{' ...' if len(alone) > 4 else ''} to the rest"
        )


def _check_fabrics(text: LinedYaml, kinds: Mapping[str, str], links: Sequence[Link]) -> None:
    """Refuses the chips of one NVSwitch fabric as switches of their own: a path would take only one of them."""
    joined: dict[str, set[str]] = {}
    for link in links:
        for switch, gpu in ((link.a, link.b), (link.b, link.a)):
            if link.wire.family == "nvlink" and (kinds[switch], kinds[gpu]) == ("switch", "gpu"):
                joined.setdefault(switch, set()).add(gpu)
    for a, b in combinations(joined, 2):
        if len(joined[a] & joined[b]) > 1:
            what = (
                f"{a} and {b} join the same GPUs over NVLink; describe a fabric as one switch, with all lanes into it"
            )
            raise text.error(["links"], f"links: {what}")


def _check_ports(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    """Refuses more circuits than a photonic switch has ports."""
    circuits = Counter[str]()
    for link in links:
        circuits[link.through] += link.lanes_from(link.a) + link.lanes_from(link.b)
    for component in components:
        if isinstance(component.part, PhotonicSpec) and circuits[component.name] > component.part.ports.value:
            what = f"{circuits[component.name]} lanes go through {component.name}, counted one way"
            most = f"{component.part.ports.value:g}, as {component.part_name} has so many ports"
            raise text.error(["links"], f"links: {what}; expected at most {most}")
