"""Systems: machines described as link graphs, one YAML file each.

about: NVIDIA DGX-1 with Tesla P100
wiring: Tallent et al. 2017, Fig. 1a                             # where the graph itself is from
library: nccl1                                                   # the collective library's generation, unless asked
components:
  gpu0..3: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}       # four of them, one unit apart
  plx0: {switch: pcie3-switch, at: [0, 1]}
links:
  - {between: [gpu0..3, gpu0..3], link: nvlink1}                 # every pair once
  - {between: [gpu0, plx0], link: pcie3, lanes: 16}

Parts (`p100-sxm2-16gb`, `nvlink1`) are in `configs/system/parts`; a file may add its own under `parts:`. Several nodes:
`compose(system, nodes=4, ...)`. Figures are in base units here, in the units of their keys' suffixes in the files.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx.config import CONFIGS, ConfigError, sentence, unknown_name
from resnetx.interconnect.parts import (
    COMPONENTS,
    NVLINK_KERNELS,
    TABLES,
    UNITS,
    Figure,
    Gpu,
    Network,
    Part,
    Switch,
    Wire,
    in_base_units,
)

MAX_BYTES = 2**20
MAX_COMPONENTS = 2**14  # of one file; a range such as gpu0..999999999 is refused before it is expanded
FABRIC = "fabric"  # the component that joins the nodes of a composed system
Library = Literal["nccl1", "nccl2", "nccl2.4", "nvls", "gloo"]


class Component(msgspec.Struct, frozen=True):
    """A vertex of the link graph. `node` is the number of the machine it is in."""

    name: str
    part_name: str
    part: Part
    x: float  # where it is drawn; y grows upward, like the hierarchy: GPUs low, CPUs high
    y: float
    node: int = 0

    @property
    def kind(self) -> str:
        return self.part.kind


class Link(msgspec.Struct, frozen=True):
    """An edge of the link graph: `lanes` lanes that carry traffic both ways."""

    a: str
    b: str
    part_name: str
    wire: Wire
    lanes: int
    source: str  # of the wiring, not of the wire's figures

    @property
    def name(self) -> str:
        return f"{self.a}-{self.b}"

    @property
    def bandwidth_Bps(self) -> float:
        """Per direction, by the datasheet."""
        return self.lanes * self.wire.bandwidth_Bps.value

    @property
    def copy_Bps(self) -> float:
        """Per direction, as large copies see it."""
        return self.lanes * self.wire.copy_Bps.value

    @property
    def duplex_Bps(self) -> float:
        """Both directions together, when both are busy."""
        return self.lanes * self.wire.duplex_Bps.value if self.wire.duplex_Bps else 2 * self.copy_Bps

    @property
    def kernel_Bps(self) -> float:
        """Per direction, as the kernels of collectives see it."""
        if self.wire.kernel_Bps is not None:
            return self.lanes * self.wire.kernel_Bps.value
        return self.copy_Bps * (NVLINK_KERNELS if self.wire.family == "nvlink" else 1)


class System(msgspec.Struct, frozen=True, dict=True):
    """A machine, or several joined by a network."""

    name: str
    about: str
    library: Library
    components: tuple[Component, ...]  # GPUs in the order of their ids
    links: tuple[Link, ...]
    nodes: int = 1
    network: str | None = None  # the name of what joins the nodes
    nics: int | None = None  # used of each node

    @cached_property
    def gpus(self) -> list[Component]:
        """A GPU's id is its place here; ids go on from node to node."""
        return [component for component in self.components if component.kind == "gpu"]

    @cached_property
    def neighbours(self) -> dict[str, list[tuple[Link, str]]]:
        """The links of every component, each with what is at its other end."""
        found: dict[str, list[tuple[Link, str]]] = {component.name: [] for component in self.components}
        for link in self.links:
            found[link.a].append((link, link.b))
            found[link.b].append((link, link.a))
        return found

    @cached_property
    def _by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components}

    def component(self, name: str) -> Component:
        return self._by_name[name]

    def gpu_part(self, device: int) -> Gpu:
        part = self.gpus[device].part
        assert isinstance(part, Gpu)
        return part


# ---- reading


def names() -> dict[str, str]:
    """The systems that come with resnetx, each with what it is."""
    return {path.stem: load(path.stem).about for path in sorted((CONFIGS / "system").glob("*.yaml"))}


def load(name: str, nodes: int | None = None, network: str | None = None, nics: int | None = None) -> System:
    """A system by its name or the path of the user's own file; of several nodes if asked, or if its file says so.

    `nodes`, `network` and `nics` (network ports used of each node) win over the file's `cluster`.
    """
    file = _read(_path(name))
    cluster = file.cluster or _Cluster()
    nodes = cluster.nodes if nodes is None else nodes
    if nodes < 1:
        raise ConfigError(f"nodes={nodes}: expected at least 1")
    if nodes == 1:
        return file.system
    return _compose(file, nodes, network or cluster.network, nics or cluster.nics)


def parts_table(table: str) -> dict[str, Any]:
    """The shared parts of one kind: `parts_table("gpus")["p100-sxm2-16gb"]`."""
    return _shared()[table]


class _Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of how many nodes its system has."""

    nodes: int = 1
    network: str | None = None
    nics: int | None = None


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


class _File(msgspec.Struct, frozen=True):
    system: System
    cluster: _Cluster | None
    networks: dict[str, Network]


class _Text:
    """A YAML file that knows on which line each of its values stands."""

    def __init__(self, path: Path) -> None:
        import yaml

        self.path = path
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a system")
            text = path.read_text()
            self.root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.tree = yaml.safe_load(text)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(self.tree, dict):
            raise ConfigError(f"{path}: expected the settings about, wiring, library, components and links")

    def refuse(self, where: Sequence[str | int], what: str) -> ConfigError:
        """The error that says `what` of the value at `where`, with its line."""
        return ConfigError(f"{self.path}, line {self.line(where)}: {what}")

    def line(self, where: Sequence[str | int]) -> int:
        """The line of a value; of the nearest one that holds it, where it is missing."""
        import yaml

        node, line = self.root, 1
        for step in where:
            if isinstance(node, yaml.MappingNode):
                found = {key.value: (key, value) for key, value in node.value}.get(str(step))
                if found is None:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line + 1
            else:
                break
        return line

    def convert(self, where: Sequence[str | int], kind: Any, tree: Any) -> Any:
        """`tree`, which stands at `where`, as `kind`; refuses it with the line."""
        try:
            return msgspec.convert(tree, kind)
        except msgspec.ValidationError as error:
            inner = re.findall(r"[^.\[\]$`]+", str(error).partition(" - at `$")[2])
            steps = [*where, *(int(step) if step.isdigit() else step for step in inner)]
            said = sentence(str(error), tree, ".".join(map(str, where)))
            said = said.replace("a list in brackets", "a list in brackets (a figure is [value, provenance, source])")
            raise self.refuse(_in_file_units(steps, self.tree), _keys_in_file_units(said, self.tree)) from None


def _in_file_units(steps: Sequence[str | int], tree: Any) -> list[str | int]:
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


def _keys_in_file_units(said: str, tree: Any) -> str:
    """A sentence about keys in base units, with the first unit that a file may use for each."""
    for suffix, (base, _) in UNITS.items():
        said = re.sub(rf"(?<=\w){base}\b", suffix, said)
    return said


_FIELDS = {"about", "wiring", "library", "components", "links", "parts", "cluster"}


def _path(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    path = CONFIGS / "system" / f"{name}.yaml"
    if not path.is_file():
        raise unknown_name("system", name, (own.stem for own in (CONFIGS / "system").glob("*.yaml")), "systems")
    return path


def _read(path: Path) -> _File:
    text = _Text(path)
    tree = text.tree
    for key in tree:
        if key not in _FIELDS:
            raise text.refuse([key], f"{key}: not a setting of a system; known: {', '.join(sorted(_FIELDS))}")
    for key in ("about", "wiring", "components", "links"):
        if key not in tree:
            raise text.refuse([], f"{key} is missing")
    parts = {table: dict(_shared()[table]) for table in TABLES}
    for table, added in _parts(text, tree.get("parts", {}), ["parts"]).items():
        parts[table] |= added
    components = _components(text, parts)
    links = _links(text, parts["links"], components)
    _check_connected(text, components, links)
    gpus = [component for component in components if component.kind == "gpu"]
    if not gpus:
        raise text.refuse(["components"], "components: expected at least one gpu")
    others = [component for component in components if component.kind != "gpu"]
    cluster = text.convert(["cluster"], _Cluster, tree["cluster"]) if "cluster" in tree else None
    system = System(
        name=path.stem,
        about=text.convert(["about"], str, tree["about"]),
        library=text.convert(["library"], Library, tree.get("library", "nccl2.4")),
        components=(*gpus, *others),
        links=tuple(links),
    )
    return _File(system=system, cluster=cluster, networks=parts["networks"])


@cache
def _shared() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        text = _Text(CONFIGS / "system" / "parts" / f"{table}.yaml")
        tables |= _parts(text, {table: text.tree}, [])
    return tables


def _parts(text: _Text, tables: Any, where: list[str | int]) -> dict[str, dict[str, Any]]:
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


def _check_figures(text: _Text, where: list[str | int], part: Any) -> None:
    for field in part.__struct_fields__:
        figure = getattr(part, field)
        if isinstance(figure, Figure) and figure.value <= 0 and not (field.endswith("_s") and figure.value == 0):
            steps = _in_file_units([*where, field], text.tree)
            raise text.refuse(steps, f"{'.'.join(map(str, steps))}: expected more than 0")


def _components(text: _Text, parts: Mapping[str, Mapping[str, Part]]) -> list[Component]:
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


def _links(text: _Text, wires: Mapping[str, Wire], components: Sequence[Component]) -> list[Link]:
    if not isinstance(text.tree["links"], list):
        raise text.refuse(["links"], "links: expected a list, as - {between: [gpu0, gpu1], link: nvlink1}")
    known = [component.name for component in components]
    found: dict[tuple[str, str, str], Link] = {}
    for number, given in enumerate(text.tree["links"]):
        where: list[str | int] = ["links", number]
        entry = text.convert(where, _LinkEntry, given)
        if entry.link not in wires:
            raise text.refuse(where, str(unknown_name("link", entry.link, wires, f"links.{number}.link")))
        if entry.lanes < 1:
            raise text.refuse(where, f"links.{number}.lanes={entry.lanes}: expected at least 1")
        for a, b in _pairs(text, where, entry):
            if stranger := next((name for name in (a, b) if name not in known), None):
                raise text.refuse(where, f"links.{number}: no component is called {stranger}")
            if a == b:
                raise text.refuse(where, f"links.{number}: {a} is linked to itself")
            a, b = sorted((a, b), key=known.index)
            if (a, b, entry.link) in found:
                raise text.refuse(where, f"links.{number}: {a} and {b} are linked twice; use lanes")
            source = entry.source or text.convert(["wiring"], str, text.tree["wiring"])
            found[a, b, entry.link] = Link(a, b, entry.link, _wire(text, where, wires, entry), entry.lanes, source)
    return list(found.values())


def _pairs(text: _Text, where: list[str | int], entry: _LinkEntry) -> list[tuple[str, str]]:
    """The pairs of components that one entry of `links` joins."""
    given = entry.between or entry.each
    if given is None or (entry.between and entry.each):
        raise text.refuse(where, "links: expected `between` or `each`, with two names or ranges")
    first, second = (_expand(text, where, end) for end in given)
    if entry.between:
        return list(combinations(first, 2) if first == second and len(first) > 1 else product(first, second))
    if len(first) % len(second):
        raise text.refuse(where, f"{len(first)} components cannot be shared out evenly over {len(second)}")
    share = len(first) // len(second)
    return [(name, second[index // share]) for index, name in enumerate(first)]


def _wire(text: _Text, where: list[str | int], wires: Mapping[str, Wire], entry: _LinkEntry) -> Wire:
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


def _expand(text: _Text, where: Sequence[str | int], name: str) -> list[str]:
    """The names in a range: "gpu0..3" is gpu0 gpu1 gpu2 gpu3; any other name is itself."""
    found = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", name)
    if not found:
        return [name]
    first, last = int(found[2]), int(found[3])
    if last < first or last - first >= MAX_COMPONENTS:
        raise text.refuse(where, f"{name}: expected a range from low to high of at most {MAX_COMPONENTS}")
    return [f"{found[1]}{number}" for number in range(first, last + 1)]


def _check_connected(text: _Text, components: Sequence[Component], links: Sequence[Link]) -> None:
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


# ---- several nodes


def _compose(file: _File, nodes: int, network: str | None, nics: int | None) -> System:
    """`nodes` copies of a system whose first `nics` network cards are each plugged into one non-blocking fabric."""
    system = file.system
    if network is None:
        raise ConfigError(
            f"nodes={nodes} of {system.name}: expected network=, one of {', '.join(sorted(file.networks))}"
        )
    if network not in file.networks:
        raise unknown_name("network", network, file.networks, "network")
    cards = [component.name for component in system.components if component.kind == "nic"]
    nics = nics or len(cards)
    if not 1 <= nics <= len(cards):
        raise ConfigError(f"nics={nics}: {system.name} has {len(cards)} network cards in each node")
    width = 2 + max(c.x for c in system.components) - min(c.x for c in system.components)
    gpus: list[Component] = []
    others: list[Component] = []
    links: list[Link] = []
    for node in range(nodes):
        for component in system.components:
            placed = Component(
                _in_node(node, component.name),
                component.part_name,
                component.part,
                component.x + node * width,
                component.y,
                node,
            )
            (gpus if component.kind == "gpu" else others).append(placed)
        for link in system.links:
            a, b = _in_node(node, link.a), _in_node(node, link.b)
            links.append(msgspec.structs.replace(link, a=a, b=b))
    wire = _network_wire(file.networks[network])
    for node, card in product(range(nodes), cards[:nics]):
        links.append(Link(_in_node(node, card), FABRIC, network, wire, 1, "composed: nodes, network and nics"))
    top = 1 + max(c.y for c in system.components)
    fabric = Switch(about="A network fabric that blocks nothing", latency_s=Figure(0, "assumed", "in the network's"))
    others.append(Component(FABRIC, network, fabric, (nodes - 1) * width / 2, top, -1))
    return System(
        name=f"{nodes}x {system.name}",
        about=f"{nodes} nodes of: {system.about}",
        library=system.library,
        components=(*gpus, *others),
        links=tuple(links),
        nodes=nodes,
        network=network,
        nics=nics,
    )


def _in_node(node: int, name: str) -> str:
    return f"node{node}.{name}"


def _network_wire(network: Network) -> Wire:
    """A network's port as a wire: half of its latency on either side of the fabric."""
    return Wire(
        about=network.about,
        family="network",
        bandwidth_Bps=network.bandwidth_Bps,
        copy_Bps=network.copy_Bps,
        latency_s=msgspec.structs.replace(network.latency_s, value=network.latency_s.value / 2),
        peer=network.gpu_direct,
    )
