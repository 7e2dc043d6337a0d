"""Reading the file of a system, and the shared tables of parts; every refusal names the line."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec

from resnetx.config import CONFIGS
from resnetx.errors import unknown_name
from resnetx.interconnect.graph import Component, Library, Link, System
from resnetx.interconnect.lined_yaml import LinedYaml, in_file_units
from resnetx.interconnect.parts import COMPONENTS, TABLES, Figure, Network, Part, Wire, in_base_units

MAX_COMPONENTS = 2**12  # of a range; gpu0..999999999 is refused before it is expanded
MAX_LINKS = 2**16  # of an entry


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of how many nodes its system has."""

    nodes: int = 1
    network: str | None = None
    nics: int | None = None


class SystemFile(msgspec.Struct, frozen=True):
    """A file: one node, what it says of several, and the networks that it knows."""

    system: System
    cluster: Cluster
    networks: dict[str, Network]


class _ComponentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpu: str | None = None
    switch: str | None = None
    cpu: str | None = None
    nic: str | None = None
    storage: str | None = None
    at: tuple[float, float] = (0, 0)
    step: tuple[float, float] = (0, 0)  # from one component of a range to the next


class _LinkEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    between: tuple[str, str] | None = None  # names or ranges: every one of the first with every one of the second
    each: tuple[str, str] | None = None  # instead: the first range shared out evenly over the second
    link: str
    lanes: int = 1
    peer: bool | None = None  # null: as the wire says
    copy_GBps: Figure | None = None  # of one lane, where this link differs from its kind
    source: str | None = None  # null: the file's `wiring`


_FIELDS = {"about", "wiring", "library", "components", "links", "parts", "cluster"}


def read(path: Path) -> SystemFile:
    text = LinedYaml(path)
    tree = text.tree
    for key in tree:
        if key not in _FIELDS:
            raise text.refuse([key], f"{key}: not a setting of a system; known: {', '.join(sorted(_FIELDS))}")
    for key in ("about", "wiring", "components", "links"):
        if key not in tree:
            raise text.refuse([], f"{key} is missing")
    parts = {table: dict(shared_parts()[table]) for table in TABLES}
    for table, added in _parts(text, tree.get("parts", {}), ["parts"]).items():
        parts[table] |= added
    components = _components(text, parts)
    links = _links(text, parts["links"], components)
    _check_connected(text, components, links)
    _check_fabrics(text, components, links)
    gpus = [component for component in components if component.kind == "gpu"]
    if not gpus:
        raise text.refuse(["components"], "components: expected at least one gpu")
    others = [component for component in components if component.kind != "gpu"]
    cluster = text.convert(["cluster"], Cluster, tree.get("cluster", {}))
    system = System(
        name=path.stem,
        about=text.convert(["about"], str, tree["about"]),
        library=text.convert(["library"], Library, tree.get("library", "nccl2.4")),
        components=(*gpus, *others),
        links=tuple(links),
    )
    return SystemFile(system=system, cluster=cluster, networks=parts["networks"])


@cache
def shared_parts() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        text = LinedYaml(CONFIGS / "system" / "parts" / f"{table}.yaml")
        tables |= _parts(text, {table: text.tree}, [])
    return tables


def _parts(text: LinedYaml, tables: Any, where: list[str | int]) -> dict[str, dict[str, Any]]:
    """The parts that a file states. A file of the shared tables is one table; a system file names its tables."""
    if not isinstance(tables, Mapping):
        raise text.refuse(where, "parts: expected tables of parts, as gpus or links")
    found: dict[str, dict[str, Any]] = {}
    for table, entries in tables.items():
        at = [*where, table] if where else []
        if table not in TABLES:
            raise text.refuse(at, f"{table}: not a table of parts; known: {', '.join(TABLES)}")
        if not isinstance(entries, Mapping):
            raise text.refuse(at, f"{table}: expected parts by their names")
        found[table] = {}
        for name, entry in entries.items():
            given = in_base_units(entry) if isinstance(entry, Mapping) else entry
            part = text.convert([*at, name], TABLES[table], given)
            _check_figures(text, [*at, name], part)
            found[table][str(name)] = part
    return found


def _check_figures(text: LinedYaml, where: list[str | int], part: Any) -> None:
    for field in part.__struct_fields__:
        figure = getattr(part, field)
        if isinstance(figure, Figure) and not (
            0 < figure.value < math.inf or (field.endswith("_s") and figure.value == 0)
        ):
            steps = in_file_units([*where, field], text.tree)
            raise text.refuse(steps, f"{'.'.join(map(str, steps))}: expected more than 0")


def _components(text: LinedYaml, parts: Mapping[str, Mapping[str, Part]]) -> list[Component]:
    if not isinstance(text.tree["components"], Mapping):
        raise text.refuse(
            ["components"], "components: expected names with what each is, as gpu0: {gpu: p100-sxm2-16gb}"
        )
    tables = {kind: next(table for table, part in TABLES.items() if part is COMPONENTS[kind]) for kind in COMPONENTS}
    found: dict[str, Component] = {}
    for names_, given in text.tree["components"].items():
        where = ["components", names_]
        entry = text.convert(where, _ComponentEntry, given)
        kinds = [kind for kind in COMPONENTS if getattr(entry, kind)]
        if len(kinds) != 1:
            raise text.refuse(where, f"{names_}: expected exactly one of {', '.join(COMPONENTS)}, with a part's name")
        table, part_name = tables[kinds[0]], getattr(entry, kinds[0])
        if part_name not in parts[table]:
            error = unknown_name(kinds[0], part_name, parts[table], f"{names_}.{kinds[0]}")
            raise text.refuse([*where, kinds[0]], str(error))
        for index, name in enumerate(_expand(text, where, str(names_))):
            if name in found:
                raise text.refuse(where, f"{name}: described twice")
            x, y = (entry.at[axis] + index * entry.step[axis] for axis in (0, 1))
            found[name] = Component(name, part_name, parts[table][part_name], x, y)
    return list(found.values())


def _links(text: LinedYaml, wires: Mapping[str, Wire], components: Sequence[Component]) -> list[Link]:
    if not isinstance(text.tree["links"], list):
        raise text.refuse(["links"], "links: expected a list, as - {between: [gpu0, gpu1], link: nvlink1}")
    places = {component.name: place for place, component in enumerate(components)}
    found: dict[tuple[str, str, str], Link] = {}
    for number, given in enumerate(text.tree["links"]):
        where: list[str | int] = ["links", number]
        entry = text.convert(where, _LinkEntry, given)
        if entry.link not in wires:
            raise text.refuse(where, str(unknown_name("link", entry.link, wires, f"links.{number}.link")))
        if entry.lanes < 1:
            raise text.refuse(where, f"links.{number}.lanes={entry.lanes}: expected at least 1")
        for a, b in _pairs(text, where, entry):
            if stranger := next((name for name in (a, b) if name not in places), None):
                raise text.refuse(where, f"links.{number}: no component is called {stranger}")
            if a == b:
                raise text.refuse(where, f"links.{number}: {a} is linked to itself")
            a, b = sorted((a, b), key=places.__getitem__)
            if (a, b, entry.link) in found:
                raise text.refuse(where, f"links.{number}: {a} and {b} are linked twice; use lanes")
            source = entry.source or text.convert(["wiring"], str, text.tree["wiring"])
            found[a, b, entry.link] = Link(a, b, entry.link, _wire(text, where, wires, entry), entry.lanes, source)
    return list(found.values())


def _pairs(text: LinedYaml, where: list[str | int], entry: _LinkEntry) -> list[tuple[str, str]]:
    """The pairs of components that one entry of `links` joins."""
    given = entry.between or entry.each
    if given is None or (entry.between and entry.each):
        raise text.refuse(where, "links: expected `between` or `each`, with two names or ranges")
    first, second = (_expand(text, where, end) for end in given)
    if len(first) * len(second) > MAX_LINKS:
        raise text.refuse(where, f"links: {len(first)} x {len(second)} links are more than {MAX_LINKS}")
    if entry.between:
        return list(combinations(first, 2) if first == second and len(first) > 1 else product(first, second))
    if len(first) % len(second):
        raise text.refuse(where, f"{len(first)} components cannot be shared out evenly over {len(second)}")
    share = len(first) // len(second)
    return [(name, second[index // share]) for index, name in enumerate(first)]


def _wire(text: LinedYaml, where: list[str | int], wires: Mapping[str, Wire], entry: _LinkEntry) -> Wire:
    """The wire of one link: its kind's, with what this link's entry changes."""
    wire = wires[entry.link]
    if entry.peer is not None:
        wire = msgspec.structs.replace(wire, peer=entry.peer)
    if entry.copy_GBps is not None:
        if entry.copy_GBps.value <= 0:
            raise text.refuse([*where, "copy_GBps"], "copy_GBps: expected more than 0")
        figure = msgspec.structs.replace(entry.copy_GBps, value=entry.copy_GBps.value * 1e9)
        wire = msgspec.structs.replace(wire, copy_Bps=figure, duplex_Bps=None)
    return wire


def _expand(text: LinedYaml, where: Sequence[str | int], name: str) -> list[str]:
    """The names in a range: "gpu0..3" is gpu0 gpu1 gpu2 gpu3; any other name is itself."""
    found = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", name)
    if not found:
        return [name]
    first, last = int(found[2]), int(found[3])
    if last < first or last - first >= MAX_COMPONENTS:
        raise text.refuse(where, f"{name}: expected a range from low to high of at most {MAX_COMPONENTS}")
    return [f"{found[1]}{number}" for number in range(first, last + 1)]


def _check_connected(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    neighbours: dict[str, set[str]] = {component.name: set() for component in components}
    for link in links:
        neighbours[link.a].add(link.b)
        neighbours[link.b].add(link.a)
    seen: set[str] = set()
    ahead = {components[0].name} if components else set()
    while ahead:
        seen |= ahead
        ahead = {near for name in ahead for near in neighbours[name]} - seen
    if alone := [component.name for component in components if component.name not in seen]:
        raise text.refuse(
            ["links"], f"links: nothing connects {', '.join(alone[:4])}{' ...' if len(alone) > 4 else ''} to the rest"
        )


def _check_fabrics(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    """Refuses the chips of one NVSwitch fabric as switches of their own: a way would take only one of them."""
    kinds = {component.name: component.kind for component in components}
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
            raise text.refuse(["links"], f"links: {what}")
