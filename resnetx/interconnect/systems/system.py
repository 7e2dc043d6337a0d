"""Systems: machines described as link graphs, one YAML file each.

about: NVIDIA DGX-1 with Tesla P100
wiring: Tallent et al. 2017, Fig. 1a                             # where the graph itself is from
library: nccl1                                                   # the collective library's generation, unless set
launch_mode: one-process                                         # or process-per-gpu: who starts the GPUs, unless set
components:
  gpu0..3: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}       # four of them, one unit apart
  plx0: {switch: pcie3-switch, at: [0, 1]}
links:
  - {between: [gpu0..3, gpu0..3], link: nvlink1}                 # every pair once
  - {between: [gpu0, plx0], link: pcie3, lanes: 16}

Links between GPUs may have more lanes one way than the other, and go through a photonic switch (`links_of`).
Parts (`p100-sxm2-16gb`, `nvlink1`) are in `configs/system/parts`; a file may add its own under `parts:`. Several nodes:
`load(name, nodes=4, ...)`, or as the file's `cluster:` says: `nodes`, `network`, the `nics` used of each node, which of
them the library drives for given GPUs (`rails`), and whether they read GPU memory (`gpu_direct`). An NVSwitch fabric is
one switch, with all the lanes that a GPU has into it.

Every refusal of a file names the line.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any, get_args

import msgspec

from resnetx.errors import ConfigError, FileError, shortened, unknown_name
from resnetx.interconnect.systems.graph import (
    COMPONENTS,
    TABLES,
    UNITS,
    ClusterEntry,
    ComponentSpec,
    Family,
    GpuSpec,
    NetworkSpec,
    PhotonicSpec,
    Provenance,
    SourcedValue,
    WireSpec,
    in_base_units,
)
from resnetx.interconnect.systems.graph import FABRIC as FABRIC
from resnetx.interconnect.systems.graph import Component as Component
from resnetx.interconnect.systems.graph import LaunchMode as LaunchMode
from resnetx.interconnect.systems.graph import Library as Library
from resnetx.interconnect.systems.graph import Link as Link
from resnetx.interconnect.systems.graph import System as System
from resnetx.loading import YamlFile, is_file, name_fault
from resnetx.settings import setting_types
from resnetx.settings.files import CONFIGS

# The YAML of systems and parts: keys carry units, and a mistake is refused in the units of the file, with its line.

MAX_COMPONENTS = 2**12  # of a file; found by arithmetic, as gpu0..999999999 would fill the memory
SMALLEST, LARGEST = 1e-15, 1e21  # figures in base units: from below a nanosecond to above an exaFLOP/s


def system_yaml(path: Path) -> YamlFile:
    """The tree of such a file, and on which line each of its values stands."""
    text = YamlFile(path, "a description of a system", mistake=_mistake)
    if not isinstance(text.tree, dict):
        raise text.error("expected a mapping of settings")
    return text


def _mistake(text: YamlFile, _: Exception, path: Sequence[str | int], said: str, kind: Any) -> FileError:
    """What msgspec refuses, with the values that are known and with keys as they are spelt in the file."""
    said = said.replace("a list in brackets", "a list in brackets (a figure is [value, provenance, source])")
    said = re.sub(r"`array` of length (\d)", r"a list of \1", said)
    words = {"family": Family, "library": Library, 1: Provenance}  # that may stand at the end of a path
    if said.endswith("not one of the known values") and (known := get_args(words.get(path[-1]))):
        said = f"{said} ({', '.join(known)})"
    elif "unknown field" in said:
        said = f"{said}; known: {', '.join(kind.__struct_fields__)}"
    return text.fault(in_file_units(path, text.tree), _keys_in_file_units(said))


def in_file_units(steps: Sequence[str | int], tree: Any) -> list[str | int]:
    """A path whose keys are spelt as in the file: `latency_s` is looked for as `latency_us`."""
    spelt: list[str | int] = []
    for step in steps:
        if isinstance(tree, dict) and step not in tree:
            step = next((key for key in tree if in_base_units({key: [0]}).keys() == {step}), step)
        spelt.append(step)
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            tree = None
    return spelt


def _keys_in_file_units(said: str) -> str:
    """A sentence about keys in base units, with the first unit that a file may use for each."""
    for suffix, (base, _) in UNITS.items():
        said = re.sub(rf"(?<=\w){base}\b", suffix, said)
    return said


def expand(text: YamlFile, where: Sequence[str | int], name: str) -> list[str]:
    """The names in a range: "gpu0..3" is gpu0 gpu1 gpu2 gpu3; any other name is itself."""
    check_name(text, where, name)
    match = re.fullmatch(r"(.*?)([0-9]+)\.\.([0-9]+)", name)
    if not match:
        return [name]
    first, last = int(match[2]), int(match[3])
    if last < first or last - first >= MAX_COMPONENTS:
        raise text.fault(where, f"{name}: expected a range from low to high of at most {MAX_COMPONENTS}")
    return [f"{match[1]}{number}" for number in range(first, last + 1)]


def figure_fault(figure: SourcedValue, zero_allowed: bool = False, limits: tuple[float, float] | None = None) -> str:
    """Why no machine has a figure, or ""; `limits`: the least and the most that any has, where they are known."""
    if figure.stated is None or (zero_allowed and figure.stated == 0):
        return ""
    if not figure.stated > 0:
        return "expected more than 0"
    least, most = limits or (SMALLEST, LARGEST)
    if not least <= figure.stated <= most:
        return f"no figure of a machine; expected {least:,g} to {most:,g}{' in base units' * (limits is None)}"
    return ""


def check_name(text: YamlFile, where: Sequence[str | int], name: str) -> None:
    if fault := name_fault(name):
        raise text.fault(where, f"{shortened(name)}: {fault}")


MAX_GPUS = 2**18  # of all nodes, as in the table of settings
FARTHEST = 1e6  # place in a drawing


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


def read(path: Path) -> System:
    """One node of the system that a file describes, with what it says of several, and the networks that it adds."""
    text = system_yaml(path)
    tree = text.tree
    if fault := name_fault(path.stem):
        raise text.error(f"a system has the name of its file, {path.stem}: {fault}")
    if "grids" in tree:
        raise text.fault(["grids"], "a study, not a system; expected it as study=, where a verb takes that")
    for key in tree:
        if key not in _FIELDS:
            raise text.fault([key], f"{key}: not a setting of a system; known: {', '.join(sorted(_FIELDS))}")
    for key in ("about", "wiring", "components", "links"):
        if key not in tree:
            raise text.fault([], f"{key} is missing")
    own = parts_of(text, tree.get("parts", {}), ["parts"])
    parts = cache(lambda table: {**parts_table(table), **own.get(table, {})})  # a table is read where it is used
    components = _components(text, parts)
    links = links_of(text, parts("links"), components)
    gpus = [component for component in components if component.kind == "gpu"]
    if not gpus:
        raise text.fault(["components"], "components: expected at least one gpu")
    others = [component for component in components if component.kind != "gpu"]
    system = System(
        name=path.stem,
        about=text.convert(str, ["about"]),
        library=text.convert(Library, ["library"], tree.get("library", "nccl2.4")),
        components=(*gpus, *others),
        links=links,
        launch_mode=text.convert(LaunchMode, ["launch_mode"]) if "launch_mode" in tree else None,
        cluster=text.convert(ClusterEntry, ["cluster"], tree.get("cluster", {})),
        networks=own.get("networks", {}),
    )
    if fault := nodes_fault(system, system.cluster.nodes):
        raise text.fault(["cluster", "nodes"], f"cluster.nodes={system.cluster.nodes}: {fault}")
    return system


def nodes_fault(system: System, nodes: int) -> str:
    """Why a system cannot have so many nodes, as the end of a sentence; "" where it can."""
    most = max(1, MAX_GPUS // len(system.gpus))
    return "expected at least 1" if nodes < 1 else f"expected at most {most:,} of {system.name}" * (nodes > most)


_read_once = cache(read)  # files that come with resnetx; the user's own may change from call to call


@cache
def parts_table(table: str) -> dict[str, Any]:
    """The shared parts of one kind: `parts_table("gpus")["p100-sxm2-16gb"]`."""
    text = system_yaml(CONFIGS / "system" / "parts" / f"{table}.yaml")
    return parts_of(text, {table: text.tree}, [])[table]


def gpu_named(name: str) -> GpuSpec:
    """A GPU of the shared parts."""
    part: GpuSpec = parts_table("gpus")[name]
    return part


def parts_of(text: YamlFile, tables: Any, where: list[str | int]) -> dict[str, dict[str, Any]]:
    """The parts that a file states. A file of the shared tables is one table; a system file names its tables."""
    if not isinstance(tables, Mapping):
        raise text.fault(where, "parts: expected tables of parts, as gpus or links")
    found: dict[str, dict[str, Any]] = {}
    for table, entries in tables.items():
        at = [*where, table] if where else []
        if table not in TABLES:
            raise text.fault(at, f"{table}: not a table of parts; known: {', '.join(TABLES)}")
        if not isinstance(entries, Mapping):
            raise text.fault(at, f"{table}: expected parts by their names")
        found[table] = {}
        for name, entry in entries.items():
            check_name(text, [*at, name], name)
            given = in_base_units(entry) if isinstance(entry, Mapping) else entry
            part = text.convert(TABLES[table], [*at, name], given)
            _check_figures(text, [*at, name], part)
            found[table][name] = part
    return found


def _check_figures(text: YamlFile, where: list[str | int], part: Any) -> None:
    for field in part.__struct_fields__:
        figure = getattr(part, field)
        if not isinstance(figure, SourcedValue):
            continue
        null = figure.stated is None and field not in part.may_be_null
        fault = figure_fault(figure, zero_allowed=field.endswith("_s"), limits=part.limits.get(field))
        if field == "copy_Bps" and not (null or fault) and figure.value > (part.bandwidth_Bps.stated or figure.value):
            fault = "more than bandwidth_GBps, of which a copy gets a part"
        if fault := "null; expected a number" if null else fault:
            steps = in_file_units([*where, field], text.tree)
            raise text.fault(steps, f"{'.'.join(map(str, steps))}: {fault}")


def _components(text: YamlFile, parts: Callable[[str], Mapping[str, ComponentSpec]]) -> list[Component]:
    """The components that a file describes, ranges of names expanded, in its order."""
    if not isinstance(text.tree["components"], Mapping):
        raise text.fault(["components"], "components: expected names with what each is, as gpu0: {gpu: p100-sxm2-16gb}")
    tables = {kind: next(table for table, part in TABLES.items() if part is COMPONENTS[kind]) for kind in COMPONENTS}
    components: dict[str, Component] = {}
    for names_ in text.tree["components"]:
        where = ["components", names_]
        entry = text.convert(_ComponentEntry, where)
        kinds = [kind for kind in COMPONENTS if getattr(entry, kind)]
        if len(kinds) != 1:
            raise text.fault(where, f"{names_}: expected exactly one of {', '.join(COMPONENTS)}, with a part's name")
        table, part_name = tables[kinds[0]], getattr(entry, kinds[0])
        if part_name not in parts(table):
            error = unknown_name(kinds[0], part_name, parts(table), f"{names_}.{kinds[0]}")
            raise text.fault([*where, kinds[0]], str(error))
        if any(abs(place) > FARTHEST for place in (*entry.at, *entry.step)):
            raise text.fault([*where, "at"], f"{names_}: expected places from {-FARTHEST:,.0f} to {FARTHEST:,.0f}")
        names = expand(text, where, names_)
        if len(components) + len(names) > MAX_COMPONENTS:
            raise text.fault(where, f"components: more than {MAX_COMPONENTS}; several machines are nodes of a cluster")
        for index, name in enumerate(names):
            if name in components:
                raise text.fault(where, f"{name}: described twice")
            x, y = (entry.at[axis] + index * entry.step[axis] for axis in (0, 1))
            components[name] = Component(name, part_name, parts(table)[part_name], x, y)
    return list(components.values())


# The links of a system's file, one of each pair of components and kind.
#
# - {between: [gpu0, gpu1..3], link: nvlink2, lanes: 2}         # lanes that carry traffic both ways
# - {each: [gpu0..7, plx0..3], link: pcie3, lanes: 16}          # likewise; the first range shared out over the second
# - {one_way: [gpu0, gpu1], link: nvlink2, lanes: 3}            # lanes from gpu0 to gpu1 alone
# - {one_way: [gpu1, gpu0], link: nvlink2, through: ocs0}       # one lane back, by a circuit of a photonic switch
#
# Lanes one way and both ways of one pair and kind add up. Only GPUs may send each other more one way than the other:
# what they exchange with a host, a switch or a network card goes both ways over the same link.

MAX_LINKS = 2**16
MAX_LANES = 2**10

Where = list[str | int]


class _LinkEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    between: tuple[str, str] | None = None  # names or ranges: every one of the first with every one of the second
    each: tuple[str, str] | None = None  # instead: the first range shared out evenly over the second
    one_way: tuple[str, str] | None = None  # instead: as `between`, but from the first to the second alone
    link: str
    lanes: int = 1
    peer: bool | None = None  # null: as the wire says, and the GPU of a link to the host
    copy_GBps: SourcedValue | None = None  # of one lane, where this link differs from its kind
    source: str | None = None  # null: the file's `wiring`
    bridge: str | None = None  # the host bridge of a CPU that it goes into, where a CPU has several
    through: str | None = None  # the photonic switch that joins its ends


def links_of(text: YamlFile, wires: Mapping[str, WireSpec], components: Sequence[Component]) -> tuple[Link, ...]:
    """The links that a file describes, ranges expanded, each pair in the order of its components."""
    if not isinstance(text.tree["links"], list):
        raise text.fault(["links"], "links: expected a list, as - {between: [gpu0, gpu1], link: nvlink1}")
    places = {component.name: index for index, component in enumerate(components)}
    kinds = {component.name: component.kind for component in components}
    named = {component.name: component for component in components}
    links: dict[tuple[str, str, str], Link] = {}
    stated: set[tuple[str, ...]] = set()
    for number in range(len(text.tree["links"])):
        where: Where = ["links", number]
        entry = _entry(text, where, wires)
        for first, second in _pairs(text, where, entry, MAX_LINKS - len(links)):
            _check_ends(text, where, entry, first, second, kinds)
            link = _link(text, where, wires, entry, first, second, places[first] > places[second])
            if entry.peer is None:
                peer = usual_peer(link.wire, named[first], named[second])
                link = msgspec.structs.replace(link, wire=msgspec.structs.replace(link.wire, peer=peer))
            pair = (link.a, link.b, link.part_name)
            key = (first, second, link.part_name, "one way") if entry.one_way else pair
            if key in stated:
                raise text.fault(where, f"links.{number}: {first} and {second} are linked twice; use lanes")
            stated.add(key)
            links[pair] = _added(text, where, links[pair], link) if pair in links else link
    found = tuple(links.values())
    _check_connected(text, components, found)
    _check_fabrics(text, kinds, found)
    _check_ports(text, components, found, wires)
    return found


def usual_peer(wire: WireSpec, *ends: Component) -> bool:
    """Whether GPU-to-GPU traffic may cross a link of which nothing is said: over PCIe as its GPUs' drivers let it."""
    refused = any(isinstance(end.part, GpuSpec) and not end.part.bus_peer for end in ends)
    return wire.peer and not (refused and wire.family == "pcie")


def _entry(text: YamlFile, where: Where, wires: Mapping[str, WireSpec]) -> _LinkEntry:
    """One entry of `links`, with a known kind and a number of lanes that there may be."""
    entry: _LinkEntry = text.convert(_LinkEntry, where)
    name = ".".join(map(str, where))
    if entry.link not in wires:
        raise text.fault(where, str(unknown_name("link", entry.link, wires, f"{name}.link")))
    most = 1 if (is_one := wires[entry.link].one) else MAX_LANES
    if not 1 <= entry.lanes <= most:
        bound = "at least 1" if entry.lanes < 1 else f"at most {most}" + ", as its figures are of all links" * is_one
        raise text.fault(where, f"{name}.lanes={entry.lanes}: expected {bound}")
    return entry


def _pairs(text: YamlFile, where: Where, entry: _LinkEntry, most: int) -> list[tuple[str, str]]:
    """The pairs of components that one entry of `links` joins; `most`: as there may be."""
    given = [ends for ends in (entry.between, entry.each, entry.one_way) if ends]
    if len(given) != 1:
        raise text.fault(where, "links: expected one of `between`, `each` and `one_way`, with two names or ranges")
    first, second = (expand(text, where, end) for end in given[0])
    among = bool(entry.between) and first == second and len(first) > 1
    joined = len(first) if entry.each else math.comb(len(first), 2) if among else len(first) * len(second)
    if joined > most:
        raise text.fault(where, f"links: {joined:,} more links, of at most {MAX_LINKS} in all")
    if not entry.each:
        return list(combinations(first, 2) if among else product(first, second))
    if len(first) % len(second):
        raise text.fault(where, f"{len(first)} components cannot be shared out evenly over {len(second)}")
    share = len(first) // len(second)
    return [(name, second[index // share]) for index, name in enumerate(first)]


def _check_ends(
    text: YamlFile, where: Where, entry: _LinkEntry, first: str, second: str, kinds: Mapping[str, str]
) -> None:
    """Refuses ends that are not there, or that cannot be joined so."""
    name = ".".join(map(str, where))
    if stranger := next((end for end in (first, second, entry.through or first) if end not in kinds), None):
        raise text.fault(where, f"{name}: no component is called {stranger}")
    if first == second:
        raise text.fault(where, f"{name}: {first} is linked to itself")
    if entry.through and kinds[entry.through] != "photonic":
        raise text.fault(where, f"{name}.through={entry.through}: a {kinds[entry.through]}; expected a photonic switch")
    if switch := next((end for end in (first, second) if kinds[end] == "photonic"), None):
        what = f"{switch} is a photonic switch, which ends no link; expected two GPUs and through: {switch}"
        raise text.fault(where, f"{name}: {what}")
    if (entry.one_way or entry.through) and {kinds[first], kinds[second]} != {"gpu"}:
        setting = "one_way" if entry.one_way else "through"
        raise text.fault(where, f"{name}.{setting}: {first} and {second} are not both GPUs; expected two GPUs")


def _link(
    text: YamlFile,
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


def _added(text: YamlFile, where: Where, link: Link, more: Link) -> Link:
    """A link with the lanes of another entry about it."""
    alike = ("wire", "bridge", "through")
    if any(getattr(link, field) != getattr(more, field) for field in alike):
        name = ".".join(map(str, where))
        what = f"{link.a} and {link.b} have another entry with another peer, copy_GBps, bridge or through"
        raise text.fault(where, f"{name}: {what}; expected the same in both")
    lanes, back = (link.lanes_from(end) + more.lanes_from(end) for end in (link.a, link.b))
    source = link.source if link.source == more.source else f"{link.source}; {more.source}"
    return msgspec.structs.replace(link, lanes=lanes, lanes_back=None if back == lanes else back, source=source)


def _wire(text: YamlFile, where: Where, wires: Mapping[str, WireSpec], entry: _LinkEntry) -> WireSpec:
    """The wire of one link: its kind's, with what this link's entry changes."""
    wire = wires[entry.link]
    if entry.peer is not None:
        wire = msgspec.structs.replace(wire, peer=entry.peer)
    if entry.copy_GBps is not None:
        if entry.copy_GBps.stated is None:
            raise text.fault([*where, "copy_GBps"], "copy_GBps: expected a number; leave it out where it is not known")
        figure = msgspec.structs.replace(entry.copy_GBps, stated=entry.copy_GBps.value * 1e9)
        if fault := figure_fault(figure):
            raise text.fault([*where, "copy_GBps"], f"copy_GBps: {fault}")
        wire = msgspec.structs.replace(wire, copy_Bps=figure, duplex_Bps=None)
    return wire


# ---- all of them ----------------------------------------------------------------------------------------------------


def _check_connected(text: YamlFile, components: Sequence[Component], links: Sequence[Link]) -> None:
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
        names = ", ".join(alone[:4]) + " ..." * (len(alone) > 4)
        raise text.fault(["links"], f"links: nothing connects {names} to the rest")


def _check_fabrics(text: YamlFile, kinds: Mapping[str, str], links: Sequence[Link]) -> None:
    """Refuses the chips of one NVSwitch fabric as switches of their own: a path would take only one of them."""
    joined: dict[str, set[str]] = {}
    for link in links:
        for switch, gpu in ((link.a, link.b), (link.b, link.a)):
            if link.wire.family == "nvlink" and (kinds[switch], kinds[gpu]) == ("switch", "gpu"):
                joined.setdefault(switch, set()).add(gpu)
    for a, b in combinations(joined, 2):
        if len(joined[a] & joined[b]) > 1:
            what = f"{a} and {b} join the same GPUs over NVLink"
            raise text.fault(["links"], f"links: {what}; describe a fabric as one switch, with all lanes into it")


def _check_ports(
    text: YamlFile, components: Sequence[Component], links: Sequence[Link], wires: Mapping[str, WireSpec]
) -> None:
    """Refuses more circuits than a photonic switch has ports, and more links to others than a GPU has."""
    circuits, begun = Counter[str](), Counter[tuple[str, str]]()
    for link in links:
        for end in (link.a, link.b):
            circuits[link.through] += link.lanes_from(end)
            begun[end, link.wire.about] += link.lanes_from(end)
    for component in sorted(components, key=lambda each: each.kind != "photonic"):
        part, name = component.part, component.name
        if isinstance(part, PhotonicSpec):
            lanes, most, what, of = circuits[name], part.ports.value, f"go through {name}, counted one way", "ports"
        elif isinstance(part, GpuSpec) and part.peer_links and part.peer_link in wires:
            about = wires[part.peer_link].about
            lanes, most, what, of = begun[name, about], part.peer_links, f"of {about} leave {name}", "links"
        else:
            continue
        if lanes > most:
            said = f"{lanes} lanes {what}; expected at most {most:g}, as {component.part_name} has so many {of}"
            raise text.fault(["links"], f"links: {said}")


# ---- by name, and several nodes ------------------------------------------------------------------------------------


def names() -> dict[str, str]:
    """The systems that come with resnetx, each with what it is."""
    return {path.stem: load(path.stem).about for path in sorted((CONFIGS / "system").glob("*.yaml"))}


def load(
    name: str,
    nodes: int | None = None,
    network: str | None = None,
    nics: int | None = None,
    gpu_direct: bool | None = None,
    key: str = "systems",
) -> System:
    """A system by its name or the path of the user's own file; of several nodes if `nodes` or its file says so.

    `nodes`, `network`, `nics` (network ports used of each node) and `gpu_direct` win over the file's `cluster`.
    `key`: the setting that names it.
    """
    system = described(name, key)
    cluster = system.cluster
    nodes = cluster.nodes if nodes is None else nodes
    gpu_direct = cluster.gpu_direct if gpu_direct is None else gpu_direct
    setting_types.check({"nodes": nodes})
    if fault := nodes_fault(system, nodes):
        raise ConfigError(f"{name}: nodes={nodes}: {fault}")
    if nodes == 1:
        return system
    try:
        return _compose(system, nodes, network or cluster.network, cluster.nics if nics is None else nics, gpu_direct)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def described(name: str, key: str = "systems") -> System:
    """One node of a system."""
    path = _path(name, key)
    return _read_once(path) if path.parent == CONFIGS / "system" else read(path)


def _path(name: str, key: str) -> Path:
    if (path := Path(name)).suffix in (".yaml", ".yml"):
        return path
    path = CONFIGS / "system" / f"{name}.yaml"
    if name_fault(name) or not is_file(path):
        raise unknown_name("system", name, (own.stem for own in (CONFIGS / "system").glob("*.yaml")), key)
    return path


# ---- several nodes


def _compose(system: System, nodes: int, network: str | None, nics: int | None, gpu_direct: bool | None) -> System:
    """`nodes` copies of a system whose first `nics` network cards are each plugged into one non-blocking fabric."""
    network, nics = _plugged(system, nodes, network, nics)
    port = _network_wire(_networks(system)[network], gpu_direct)
    return msgspec.structs.replace(
        system,
        name=f"{nodes}x {system.name}",
        about=f"{nodes} nodes of: {system.about}",
        nodes=nodes,
        network=network,
        nics=nics,
        port=port,
        rails=system.cluster.rails,
    )


def _networks(system: System) -> dict[str, NetworkSpec]:
    """Those that nodes of a system may be joined by."""
    return {**parts_table("networks"), **system.networks}


def _plugged(system: System, nodes: int, network: str | None, nics: int | None) -> tuple[str, int]:
    """The network's name, and how many cards of each node are used."""
    cards, known = sum(component.kind == "nic" for component in system.components), _networks(system)
    nics = cards if nics is None else nics
    if not cards:
        raise ConfigError(
            f"nodes={nodes}: {system.name} is described without network cards; leave nodes= out, or describe them in a "
            "file of your own (docs/topology.md)"
        )
    if network is None:
        raise ConfigError(f"nodes={nodes} of {system.name}: expected network=, one of {', '.join(sorted(known))}")
    if network not in known:
        raise unknown_name("network", network, known, "network")
    if not 1 <= nics <= cards:
        raise ConfigError(f"nics={nics}: {system.name} has {cards} network card{'s' * (cards != 1)} in each node")
    return network, nics


def _network_wire(network: NetworkSpec, gpu_direct: bool | None) -> WireSpec:
    """A network's port as a wire: half of its latency on either side of the fabric."""
    return WireSpec(
        about=network.about,
        family="network",
        bandwidth_Bps=network.bandwidth_Bps,
        copy_Bps=network.copy_Bps,
        latency_s=msgspec.structs.replace(network.latency_s, stated=network.latency_s.value / 2),
        peer=network.gpu_direct if gpu_direct is None else gpu_direct,
    )
