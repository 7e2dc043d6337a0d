"""Reading the file of a system, and the shared tables of parts; every refusal names the line."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from resnetx.errors import unknown_name
from resnetx.interconnect.graph import Component, LaunchMode, Library, Rails, System
from resnetx.interconnect.lined_yaml import MAX_COMPONENTS, LinedYaml, check_figure, check_name, expand, in_file_units
from resnetx.interconnect.link_entries import links_of
from resnetx.interconnect.parts import (
    COMPONENTS,
    TABLES,
    ComponentSpec,
    NetworkSpec,
    SourcedValue,
    in_base_units,
)
from resnetx.loading import name_fault
from resnetx.settings.files import CONFIGS

MAX_GPUS = 2**18  # of all nodes, as in `bounds`
FARTHEST = 1e6  # place in a drawing


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
    photonic: str | None = None
    at: tuple[float, float] = (0, 0)
    step: tuple[float, float] = (0, 0)  # from one component of a range to the next


_FIELDS = {"about", "wiring", "library", "launch_mode", "components", "links", "parts", "cluster"}


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
    for table, added in parts_of(text, tree.get("parts", {}), ["parts"]).items():
        parts[table] |= added
    components = _components(text, parts)
    links = links_of(text, parts["links"], components)
    gpus = [component for component in components if component.kind == "gpu"]
    if not gpus:
        raise text.error(["components"], "components: expected at least one gpu")
    others = [component for component in components if component.kind != "gpu"]
    system = System(
        name=path.stem,
        about=text.convert(str, ["about"]),
        library=text.convert(Library, ["library"], tree.get("library", "nccl2.4")),
        components=(*gpus, *others),
        links=links,
        launch_mode=text.convert(LaunchMode, ["launch_mode"]) if "launch_mode" in tree else None,
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
        tables |= parts_of(text, {table: text.tree}, [])
    return tables


def parts_of(text: LinedYaml, tables: Any, where: list[str | int]) -> dict[str, dict[str, Any]]:
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
            check_name(text, [*at, name], name)
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
            if figure.stated is None and field not in part.may_be_null:
                raise text.error(steps, f"{'.'.join(map(str, steps))}: null; expected a number")
            check_figure(text, steps, ".".join(map(str, steps)), figure, zero_allowed=field.endswith("_s"))


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
        names = expand(text, where, names_)
        if len(components) + len(names) > MAX_COMPONENTS:
            raise text.error(where, f"components: more than {MAX_COMPONENTS}; several machines are nodes of a cluster")
        for index, name in enumerate(names):
            if name in components:
                raise text.error(where, f"{name}: described twice")
            x, y = (entry.at[axis] + index * entry.step[axis] for axis in (0, 1))
            components[name] = Component(name, part_name, parts[table][part_name], x, y)
    return list(components.values())
