"""A system as the text of its file, which reads back as the same system.

    system_text(described("dgx1-v100"), ["Made by resnetx steer"])

Parts that are not in the shared tables, or differ from them, are written as well. The file's name is the system's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf, nextafter
from typing import Any

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.file import ClusterEntry, SystemFile, shared_parts
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.parts import COMPONENTS, TABLES, UNITS, SourcedValue, WireSpec
from resnetx.loading import is_bare_text


def system_text(file: SystemFile, comments: Sequence[str] = ()) -> str:
    """The YAML of a system and of what its file says of several nodes; `comments`: the lines at its top."""
    system = file.system
    if system.nodes > 1:
        raise ConfigError(f"{system.name}: several nodes; expected one node, of which a file has the description")
    wiring = Counter(link.source for link in system.links).most_common(1)[0][0]
    wires = _wires(system)
    lines = [
        *(f"# {one_line(comment)}" for comment in comments),
        f"about: {quoted(system.about)}",
        f"wiring: {quoted(wiring)}",
        f"library: {system.library}",
        *_cluster_lines(file.cluster),
        "components:",
        *(
            f"  {named(part.name)}: {flow({part.kind: part.part_name, 'at': [part.x, part.y]})}"
            for part in system.components
        ),
        "links:",
        *(
            f"  - {flow(entry)}"
            for link in system.links
            for entry in _link_entries(link, wires[link.part_name], wiring)
        ),
        *_own_parts(file, wires),
    ]
    return "\n".join([*lines, ""])


def _cluster_lines(cluster: ClusterEntry) -> Iterator[str]:
    said = _changed(cluster)
    if said:
        yield f"cluster: {flow(said)}"


def _link_entries(link: Link, wire: WireSpec, wiring: str) -> Iterator[dict[str, Any]]:
    """One entry both ways, or one for each direction where they differ."""
    changed: dict[str, Any] = {} if link.wire.peer == wire.peer else {"peer": link.wire.peer}
    if link.wire.copy_Bps != wire.copy_Bps:
        figure = link.wire.copy_Bps
        changed["copy_GBps"] = [_divided(figure.value, 1e9) or figure.value / 1e9, figure.provenance, figure.source]
    changed |= {key: value for key in ("bridge", "through") if (value := getattr(link, key))}
    changed |= {} if link.source == wiring else {"source": link.source}
    ways = [("one_way", link.a, link.b), ("one_way", link.b, link.a)] if link.uneven else [("between", link.a, link.b)]
    for way, first, second in ways:
        if lanes := link.lanes_from(first):
            yield {way: [first, second], "link": link.part_name, **({"lanes": lanes} if lanes > 1 else {}), **changed}


# ---- parts ----------------------------------------------------------------------------------------------------------


def _wires(system: System) -> dict[str, WireSpec]:
    """The wire of each kind of link, from which a link may differ in who crosses it and in what a copy gets."""
    wires: dict[str, WireSpec] = {}
    for name in dict.fromkeys(link.part_name for link in system.links):
        specs = [link.wire for link in system.links if link.part_name == name]
        shared = shared_parts()["links"].get(name)
        first = next((wire for wire in specs if wire.duplex_Bps), specs[0])
        wires[name] = shared if shared and _but_for_a_link(shared) == _but_for_a_link(first) else first
    return wires


def _but_for_a_link(wire: WireSpec) -> WireSpec:
    """A wire without what a link's entry may change."""
    return msgspec.structs.replace(wire, peer=True, copy_Bps=wire.bandwidth_Bps, duplex_Bps=None)


def _own_parts(file: SystemFile, wires: Mapping[str, WireSpec]) -> Iterator[str]:
    """The parts that the shared tables do not have, or have otherwise."""
    tables = {kind: next(table for table, part in TABLES.items() if part is spec) for kind, spec in COMPONENTS.items()}
    own: dict[str, dict[str, dict[str, Any]]] = {}

    def add(table: str, name: str, part: Any) -> None:
        if shared_parts()[table].get(name) != part:
            own.setdefault(table, {})[name] = _entry(part)

    for component in file.system.components:
        add(tables[component.kind], component.part_name, component.part)
    for name, wire in wires.items():
        add("links", name, wire)
    for name, network in file.networks.items():
        add("networks", name, network)
    if own:
        yield "parts:"
        yield from (line for table, parts in own.items() for line in part_lines(table, parts))


def _entry(part: Any) -> dict[str, Any]:
    """A part as its file has it, in the file's units where these give the same number back."""
    return dict(_in_file_units(name, value) for name, value in _changed(part).items())


def _in_file_units(name: str, value: Any) -> tuple[str, Any]:
    if not isinstance(value, SourcedValue):
        return name, value
    for suffix, (base, factor) in UNITS.items():
        if name.endswith(base) and (divided := _divided(value.stated, factor)) is not None:
            return name.removesuffix(base) + suffix, [divided, value.provenance, value.source]
    return name, [value.stated, value.provenance, value.source]


def _divided(value: float | None, factor: float) -> float | None:
    """The number that times `factor` gives exactly this value; None where there is none."""
    if value is None:
        return None
    quotient = value / factor
    near = (round(quotient, 6), quotient, nextafter(quotient, inf), nextafter(quotient, -inf))
    return next((each for each in near if each * factor == value), None)


def _changed(struct: Any) -> dict[str, Any]:
    """The fields of a struct that are not as they would be without being said."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    return {name: value for name in defaults if (value := getattr(struct, name)) != defaults[name]}


# Values as one line of YAML each, as the files of systems have them.


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{named(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quoted(value) if isinstance(value, str) else _number(value) if isinstance(value, float) else str(value)


def quoted(text: str) -> str:
    """A text as it is where YAML takes it so, else in quotes, in one line."""
    if is_bare_text(text) and not text[0].isdigit():
        return text
    letters = text if text.isprintable() and not set('\\"') & set(text) else map(_letter, text)
    return f'"{"".join(letters)}"'


def named(key: str) -> str:
    """The same of a key."""
    return key if is_bare_text(key) else quoted(key)


def _letter(letter: str) -> str:
    """A character within double quotes (YAML 1.2.2, section 5.7), where some may not stand as they are."""
    if letter in '\\"':
        return f"\\{letter}"
    code = ord(letter)
    return letter if letter.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(value: float) -> str:
    """As short as can be, but never another number."""
    return short if float(short := f"{value:g}") == value else repr(value)


def one_line(text: str) -> str:
    """A text as the end of a comment."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def part_lines(table: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"  {table}:"
    for name, entry in parts.items():
        yield f"    {named(name)}:"
        yield from (f"      {key}: {flow(value)}" for key, value in entry.items())
