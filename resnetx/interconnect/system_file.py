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
from resnetx.errors import shortened, unknown_name
from resnetx.interconnect.graph import Component, Library, Link, Rails, System
from resnetx.interconnect.lined_yaml import LinedYaml, in_file_units
from resnetx.interconnect.parts import (
    COMPONENTS,
    TABLES,
    ComponentSpec,
    NetworkSpec,
    SourcedValue,
    WireSpec,
    in_base_units,
)
from resnetx.loading import name_fault

# Of a file; found by arithmetic, as gpu0..999999999 would fill the memory.
MAX_COMPONENTS = 2**12
MAX_LINKS = 2**16
MAX_GPUS = 2**18  # of all nodes, as in `bounds`
MAX_LANES = 2**10
FARTHEST = 1e6  # place in a drawing
SMALLEST, LARGEST = 1e-15, 1e21  # figures in base units: from below a nanosecond to above an exaFLOP/s


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of how many nodes its system has."""

    nodes: int = 1
    network: str | None = None
    nics: int | None = None
    rails: Rails = "nearest"
    gpu_direct: bool | None = None  # may its network cards read GPU memory? null: as the network says


class SystemFile(msgspec.Struct, frozen=True):
    """A file: one node, what it says of several, and the networks that it knows."""

    system: System
    cluster: Cluster
    networks: dict[str, NetworkSpec]


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
    copy_GBps: SourcedValue | None = None  # of one lane, where this link differs from its kind
    source: str | None = None  # null: the file's `wiring`


_FIELDS = {"about", "wiring", "library", "components", "links", "parts", "cluster"}


def read(path: Path) -> SystemFile:
    text = LinedYaml(path)
    tree = text.tree
    if fault := name_fault(path.stem):
        raise text.file.error(f"a system has the name of its file, {path.stem}: {fault}")
    for key in tree:
        if key not in _FIELDS:
            raise text.error([key], f"{key}: not a setting of a system; known: {', '.join(sorted(_FIELDS))}")
    for key in ("about", "wiring", "components", "links"):
        if key not in tree:
            raise text.error([], f"{key} is missing")
    parts = {table: dict(shared_parts()[table]) for table in TABLES}
    for table, added in _parts(text, tree.get("parts", {}), ["parts"]).items():
        parts[table] |= added
    components = _components(text, parts)
    links = _links(text, parts["links"], components)
    _check_connected(text, components, links)
    _check_fabrics(text, components, links)
    gpus = [component for component in components if component.kind == "gpu"]
    if not gpus:
        raise text.error(["components"], "components: expected at least one gpu")
    others = [component for component in components if component.kind != "gpu"]
    system = System(
        name=path.stem,
        about=text.convert(str, ["about"]),
        library=text.convert(Library, ["library"], tree.get("library", "nccl2.4")),
        components=(*gpus, *others),
        links=tuple(links),
    )
    cluster = text.convert(Cluster, ["cluster"], tree.get("cluster", {}))
    if fault := nodes_fault(system, cluster.nodes):
        raise text.error(["cluster", "nodes"], f"cluster.nodes={cluster.nodes}: {fault}")
    return SystemFile(system=system, cluster=cluster, networks=parts["networks"])


def nodes_fault(system: System, nodes: int) -> str:
    """Why a system cannot have so many nodes, as the end of a sentence; "" where it can."""
    most = max(1, MAX_GPUS // len(system.gpus))
    return "expected at least 1" if nodes < 1 else f"expected at most {most:,} of {system.name}" * (nodes > most)


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
        raise text.error(where, "parts: expected tables of parts, as gpus or links")
    found: dict[str, dict[str, Any]] = {}
    for table, entries in tables.items():
        at = [*where, table] if where else []
        if table not in TABLES:
            raise text.error(at, f"{table}: not a table of parts; known: {', '.join(TABLES)}")
        if not isinstance(entries, Mapping):
            raise text.error(at, f"{table}: expected parts by their names")
        found[table] = {}
        for name, entry in entries.items():
            _check_name(text, [*at, name], name)
            given = in_base_units(entry) if isinstance(entry, Mapping) else entry
            part = text.convert(TABLES[table], [*at, name], given)
            _check_figures(text, [*at, name], part)
            found[table][name] = part
    return found


def _check_figures(text: LinedYaml, where: list[str | int], part: Any) -> None:
    for field in part.__struct_fields__:
        figure = getattr(part, field)
        if isinstance(figure, SourcedValue):
            steps = in_file_units([*where, field], text.tree)
            _check_figure(text, steps, ".".join(map(str, steps)), figure, zero_allowed=field.endswith("_s"))


def _check_figure(
    text: LinedYaml, where: Sequence[str | int], name: str, figure: SourcedValue, zero_allowed: bool = False
) -> None:
    """Refuses a figure that no machine has."""
    if zero_allowed and figure.value == 0:
        return
    if not figure.value > 0:
        raise text.error(where, f"{name}: expected more than 0")
    if not SMALLEST <= figure.value <= LARGEST:
        raise text.error(where, f"{name}: no figure of a machine; expected {SMALLEST:g} to {LARGEST:g} in base units")


def _check_name(text: LinedYaml, where: Sequence[str | int], name: str) -> None:
    if fault := name_fault(name):
        raise text.error(where, f"{shortened(name)}: {fault}")


def _components(text: LinedYaml, parts: Mapping[str, Mapping[str, ComponentSpec]]) -> list[Component]:
    """The components that a file describes, ranges of names expanded, in its order."""
    if not isinstance(text.tree["components"], Mapping):
        raise text.error(["components"], "components: expected names with what each is, as gpu0: {gpu: p100-sxm2-16gb}")
    tables = {kind: next(table for table, part in TABLES.items() if part is COMPONENTS[kind]) for kind in COMPONENTS}
    components: dict[str, Component] = {}
    for names_ in text.tree["components"]:
        where = ["components", names_]
        entry = text.convert(_ComponentEntry, where)
        kinds = [kind for kind in COMPONENTS if getattr(entry, kind)]
        if len(kinds) != 1:
            raise text.error(where, f"{names_}: expected exactly one of {', '.join(COMPONENTS)}, with a part's name")
        table, part_name = tables[kinds[0]], getattr(entry, kinds[0])
        if part_name not in parts[table]:
            error = unknown_name(kinds[0], part_name, parts[table], f"{names_}.{kinds[0]}")
            raise text.error([*where, kinds[0]], str(error))
        if any(abs(place) > FARTHEST for place in (*entry.at, *entry.step)):
            raise text.error([*where, "at"], f"{names_}: expected places from {-FARTHEST:,.0f} to {FARTHEST:,.0f}")
        names = _expand(text, where, names_)
        if len(components) + len(names) > MAX_COMPONENTS:
            raise text.error(where, f"components: more than {MAX_COMPONENTS}; several machines are nodes of a cluster")
        for index, name in enumerate(names):
            if name in components:
                raise text.error(where, f"{name}: described twice")
            x, y = (entry.at[axis] + index * entry.step[axis] for axis in (0, 1))
            components[name] = Component(name, part_name, parts[table][part_name], x, y)
    return list(components.values())


def _links(text: LinedYaml, wires: Mapping[str, WireSpec], components: Sequence[Component]) -> list[Link]:
    """The links that a file describes, ranges expanded, each pair in the order of its components."""
    if not isinstance(text.tree["links"], list):
        raise text.error(["links"], "links: expected a list, as - {between: [gpu0, gpu1], link: nvlink1}")
    places = {component.name: place for place, component in enumerate(components)}
    links: dict[tuple[str, str, str], Link] = {}
    for number in range(len(text.tree["links"])):
        where: list[str | int] = ["links", number]
        entry = text.convert(_LinkEntry, where)
        if entry.link not in wires:
            raise text.error(where, str(unknown_name("link", entry.link, wires, f"links.{number}.link")))
        if not 1 <= entry.lanes <= MAX_LANES:
            bound = "at least 1" if entry.lanes < 1 else f"at most {MAX_LANES}"
            raise text.error(where, f"links.{number}.lanes={entry.lanes}: expected {bound}")
        for a, b in _pairs(text, where, entry, MAX_LINKS - len(links)):
            if stranger := next((name for name in (a, b) if name not in places), None):
                raise text.error(where, f"links.{number}: no component is called {stranger}")
            if a == b:
                raise text.error(where, f"links.{number}: {a} is linked to itself")
            a, b = sorted((a, b), key=places.__getitem__)
            if (a, b, entry.link) in links:
                raise text.error(where, f"links.{number}: {a} and {b} are linked twice; use lanes")
            source = entry.source or text.convert(str, ["wiring"])
            links[a, b, entry.link] = Link(a, b, entry.link, _wire(text, where, wires, entry), entry.lanes, source)
    return list(links.values())


def _pairs(text: LinedYaml, where: list[str | int], entry: _LinkEntry, most: int) -> list[tuple[str, str]]:
    """The pairs of components that one entry of `links` joins; `most`: as there may be."""
    given = entry.between or entry.each
    if given is None or (entry.between and entry.each):
        raise text.error(where, "links: expected `between` or `each`, with two names or ranges")
    first, second = (_expand(text, where, end) for end in given)
    among = first == second and len(first) > 1
    joined = len(first) if entry.each else math.comb(len(first), 2) if among else len(first) * len(second)
    if joined > most:
        raise text.error(where, f"links: {joined:,} more links, of at most {MAX_LINKS} in all")
    if entry.between:
        return list(combinations(first, 2) if among else product(first, second))
    if len(first) % len(second):
        raise text.error(where, f"{len(first)} components cannot be shared out evenly over {len(second)}")
    share = len(first) // len(second)
    return [(name, second[index // share]) for index, name in enumerate(first)]


def _wire(text: LinedYaml, where: list[str | int], wires: Mapping[str, WireSpec], entry: _LinkEntry) -> WireSpec:
    """The wire of one link: its kind's, with what this link's entry changes."""
    wire = wires[entry.link]
    if entry.peer is not None:
        wire = msgspec.structs.replace(wire, peer=entry.peer)
    if entry.copy_GBps is not None:
        figure = msgspec.structs.replace(entry.copy_GBps, value=entry.copy_GBps.value * 1e9)
        _check_figure(text, [*where, "copy_GBps"], "copy_GBps", figure)
        wire = msgspec.structs.replace(wire, copy_Bps=figure, duplex_Bps=None)
    return wire


def _expand(text: LinedYaml, where: Sequence[str | int], name: str) -> list[str]:
    """The names in a range: "gpu0..3" is gpu0 gpu1 gpu2 gpu3; any other name is itself."""
    _check_name(text, where, name)
    found = re.fullmatch(r"(.*?)([0-9]+)\.\.([0-9]+)", name)
    if not found:
        return [name]
    first, last = int(found[2]), int(found[3])
    if last < first or last - first >= MAX_COMPONENTS:
        raise text.error(where, f"{name}: expected a range from low to high of at most {MAX_COMPONENTS}")
    return [f"{found[1]}{number}" for number in range(first, last + 1)]


def _check_connected(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    """Refuses components that no links connect to the first one."""
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
        raise text.error(
            ["links"], f"links: nothing connects {', '.join(alone[:4])}{' ...' if len(alone) > 4 else ''} to the rest"
        )


def _check_fabrics(text: LinedYaml, components: Sequence[Component], links: Sequence[Link]) -> None:
    """Refuses the chips of one NVSwitch fabric as switches of their own: a path would take only one of them."""
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
            raise text.error(["links"], f"links: {what}")
