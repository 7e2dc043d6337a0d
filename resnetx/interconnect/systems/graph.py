"""What a system is made of: parts, each figure with its source, and components joined by links.

Parts are GPUs, CPUs, switches, NICs, storage, links and networks. The tables are `configs/system/parts/*.yaml`; a
system file may add parts of its own. A figure is written `[value, provenance, source]`, in the unit that its key
names; here everything is in base units.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, overload

import msgspec

from resnetx.errors import ConfigError
from resnetx.units import CPU, Unit

# ---- parts ----------------------------------------------------------------------------------------------------------

Provenance = Literal["datasheet", "measured", "assumed"]
Family = Literal["nvlink", "pcie", "smp", "network"]

# Copy engines fill NVLink packets of 256 bytes, kernels' stores those of 128, and each packet has a header of 16: so
# NCCL's author (NVIDIA/nccl-tests, issue 149, 2023), and the packet format in Foley & Danskin, IEEE Micro 37(2), 2017.
NVLINK_KERNELS = (128 / (128 + 16)) / (256 / (256 + 16))

# What a cloud lets one TCP flow carry, least and most: 5 Gb/s, and 10 within a cluster placement group (AWS EC2 User
# Guide, "Amazon EC2 instance network bandwidth": single-flow traffic). NCCL opens one socket a connection, except where
# a plugin, or NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD, open more; later ones 16 on AWS (net_socket.cc).
FLOW_Bps, FASTEST_FLOW_Bps = 5e9 / 8, 10e9 / 8

# Suffix of a key in a file -> suffix here, and the factor between them.
UNITS = {
    "_GBps": ("_Bps", 1e9),
    "_GB": ("_bytes", 1e9),
    "_us": ("_s", 1e-6),
    "_MHz": ("_Hz", 1e6),
    "_TFLOPps": ("_FLOPps", 1e12),
}


class SourcedValue(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One number and where it comes from. A GPU may have figures that no source states: null, with the reason."""

    stated: float | None
    provenance: Provenance
    source: str

    @property
    def value(self) -> float:
        """The number; refuses where it is needed and no source states it."""
        if self.stated is None:
            raise ConfigError(self.source)
        return self.stated


class _Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    may_be_null: ClassVar[frozenset[str]] = frozenset()  # figures that may be null with a reason: `SourcedValue`
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {}  # of figures whose least and most any part has are known

    about: str


class GpuSpec(_Spec, frozen=True, kw_only=True):
    """A GPU. Peaks are dense (no sparsity); null: it has no such unit, or no source states it."""

    kind: ClassVar[str] = "gpu"
    may_be_null: ClassVar[frozenset[str]] = frozenset({"fp32_FLOPps", "memory_bytes", "memory_Bps", "clock_Hz"})

    product_names: tuple[str, ...] = ()  # as its driver names it; "CPU": no GPU, but a rank on cores of the host
    chip: str = ""  # "GP100": forms of one chip compute alike at one clock and memory rate; "": the part's own
    bus: str = ""  # the kind of its link to the host; "": not stated
    peer_link: str = ""  # the kind of link that it reaches other GPUs by; "": it has none, or none is stated
    peer_links: int = 0  # how many of these it has
    bus_peer: bool = True  # may GPU-to-GPU traffic cross its link to the host? Drivers refuse it to GeForces
    compute_capability: SourcedValue
    fp32_FLOPps: SourcedValue
    tf32_FLOPps: SourcedValue | None = None
    fp16_FLOPps: SourcedValue | None = None
    bf16_FLOPps: SourcedValue | None = None
    memory_bytes: SourcedValue
    memory_Bps: SourcedValue
    clock_Hz: SourcedValue  # sustained (boost) clock of the multiprocessors
    copy_s: SourcedValue  # what a copy costs that crosses no link: launch and completion


class CpuSpec(_Spec, frozen=True, kw_only=True):
    """A CPU with its memory and its PCIe root: where traffic goes that may not go from GPU to GPU directly."""

    kind: ClassVar[str] = "cpu"
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"single_thread": (100, 10_000)}
    cores: SourcedValue | None = None  # of one socket; null: not stated
    single_thread: SourcedValue | None = None  # PassMark's rating of one thread; null: not stated
    # One copy staged through this CPU's memory: one alone, and two at once in opposite directions, summed.
    staging_Bps: SourcedValue
    staging_duplex_Bps: SourcedValue | None = None  # null: twice the one-way rate
    staging_s: SourcedValue  # a small staged copy, whole
    peer_Bps: SourcedValue | None = None  # GPU-to-GPU traffic through its PCIe root; null: refused, so staged


class SwitchSpec(_Spec, frozen=True, kw_only=True):
    """A PCIe switch or an NVSwitch: forwards between all its ports at their full rate."""

    kind: ClassVar[str] = "switch"
    latency_s: SourcedValue
    reduces: bool = False  # adds up and multicasts inside (NVLink SHARP), which `nvls` needs


class NicSpec(_Spec, frozen=True, kw_only=True):
    """A network card."""

    kind: ClassVar[str] = "nic"
    bandwidth_Bps: SourcedValue  # per direction


class PhotonicSpec(_Spec, frozen=True, kw_only=True):
    """An optical circuit switch. Each lane through it takes one port in and one port out, and waits for nothing."""

    kind: ClassVar[str] = "photonic"
    ports: SourcedValue  # in, and as many out
    reconfiguration_s: SourcedValue  # until all its circuits are others


class StorageSpec(_Spec, frozen=True, kw_only=True):
    """What training images are read from."""

    kind: ClassVar[str] = "storage"
    bandwidth_Bps: SourcedValue  # sequential reading
    shared: bool = False  # by all nodes of a cluster, as a file server is; else each node has its own


class WireSpec(_Spec, frozen=True, kw_only=True):
    """One kind of link. All figures are of ONE lane (an NVLink link counts as one lane, PCIe x16 has 16)."""

    family: Family
    bandwidth_Bps: SourcedValue  # per direction, as the datasheet states it
    copy_Bps: SourcedValue  # per direction, what one large copy reaches (with the other direction idle)
    duplex_Bps: SourcedValue | None = None  # two copies in opposite directions, summed; null: twice `copy_Bps`
    latency_s: SourcedValue  # what crossing it adds to a small copy
    # Per direction, what the GPUs' kernels get; null: as copies, but on NVLink in smaller packets (NVLINK_KERNELS).
    kernel_Bps: SourcedValue | None = None
    peer: bool = True  # may GPU-to-GPU traffic cross?
    one: bool = False  # its figures are of all links between two components together: it takes one lane
    word: str = "NV"  # of links between GPUs: what the matrix of connectivity calls them, before the number of lanes

    @property
    def peer_name(self) -> str:
        """What links between GPUs of this kind are called."""
        return "NVLink" if self.word == "NV" else self.word


class NetworkSpec(_Spec, frozen=True, kw_only=True):
    """What joins nodes: one port of a NIC to one non-blocking fabric."""

    bandwidth_Bps: SourcedValue  # per port and direction
    copy_Bps: SourcedValue  # what one large message reaches
    latency_s: SourcedValue  # one-way, small message
    gpu_direct: bool  # may NICs read GPU memory? If not, through the host


ComponentSpec = GpuSpec | CpuSpec | SwitchSpec | PhotonicSpec | NicSpec | StorageSpec
COMPONENTS: dict[str, type[ComponentSpec]] = {
    kind.kind: kind for kind in (GpuSpec, CpuSpec, SwitchSpec, PhotonicSpec, NicSpec, StorageSpec)
}
TABLES: dict[str, type[msgspec.Struct]] = {
    "gpus": GpuSpec,
    "cpus": CpuSpec,
    "switches": SwitchSpec,
    "photonics": PhotonicSpec,
    "nics": NicSpec,
    "storage": StorageSpec,
    "links": WireSpec,
    "networks": NetworkSpec,
}


def in_base_units(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A part as its file states it, but in base units: `latency_us: [4, ...]` becomes `latency_s: [4e-6, ...]`."""
    converted: dict[str, Any] = {}
    for key, value in tree.items():
        for suffix, (base, factor) in UNITS.items():
            if str(key).endswith(suffix):
                key = key.removesuffix(suffix) + base
                if isinstance(value, list) and value and type(value[0]) in (int, float):  # a bool is left to be refused
                    value = [value[0] * factor, *value[1:]]
                break
        converted[key] = value
    return converted


# ---- graph ----------------------------------------------------------------------------------------------------------

FABRIC = "fabric"  # the component that joins several nodes
NO_NODE = -1  # where that is
NO_BLOCKING = SwitchSpec(
    about="A network fabric that blocks nothing", latency_s=SourcedValue(0, "assumed", "in the network's")
)


class Component(msgspec.Struct, frozen=True):
    """A vertex of the link graph. `node` is the number of the machine it is in."""

    name: str
    part_name: str
    part: ComponentSpec
    x: float  # where it is drawn; y grows upward, like the hierarchy: GPUs low, CPUs high
    y: float
    node: int = 0

    @property
    def kind(self) -> str:
        return self.part.kind


class Link(msgspec.Struct, frozen=True):
    """An edge of the link graph: `lanes` lanes that carry traffic in both directions.

    Between two GPUs, more lanes may go one way than the other. Rates are those from `a` to `b`, unless `leaving` turns
    it round.
    """

    a: str
    b: str
    part_name: str
    wire: WireSpec
    lanes: int
    source: str  # of the wiring, not of the wire's figures
    bridge: str = ""  # the PCIe host bridge of a CPU that it goes into; "": not stated
    lanes_back: int | None = None  # from b to a; None: as many as from a to b
    through: str = ""  # the photonic switch that joins its two ends; "": a wire does

    @property
    def name(self) -> str:
        return f"{self.a}-{self.b}"

    def leaving(self, end: str) -> "Link":
        """The same link with `end` as its first end."""
        if end == self.a or self.lanes_back is None:
            return self
        return msgspec.structs.replace(self, a=self.b, b=self.a, lanes=self.lanes_back, lanes_back=self.lanes)

    def lanes_from(self, end: str) -> int:
        """The lanes that carry what `end` sends."""
        return self.lanes if end == self.a or self.lanes_back is None else self.lanes_back

    @property
    def uneven(self) -> bool:
        """Whether it has more lanes in one direction than in the other."""
        return self.lanes_back is not None

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
        back = self.lanes if self.lanes_back is None else self.lanes_back
        if self.wire.duplex_Bps is None:
            return (self.lanes + back) * self.wire.copy_Bps.value
        alone = abs(self.lanes - back)  # lanes without one in the other direction
        return min(self.lanes, back) * self.wire.duplex_Bps.value + alone * self.wire.copy_Bps.value

    @property
    def kernel_Bps(self) -> float:
        """Per direction, as the kernels of collectives see it."""
        if self.wire.kernel_Bps is not None:
            return self.lanes * self.wire.kernel_Bps.value
        return self.copy_Bps * (NVLINK_KERNELS if self.wire.family == "nvlink" else 1)


Neighbours = list[tuple[Link, str]]  # the links of a component, each with what is at its other end

Library = Literal["nccl1", "nccl2", "nccl2.4", "nvls", "gloo"]
LaunchMode = Literal["process-per-gpu", "one-process"]  # who starts the GPUs of a node: each its process, or one all
MOST_OF_A_HOST = 16  # GPUs (DGX-2): a system of more in one node is a rack, whose hosts share one NVLink domain
Rails = Literal["nearest", "all", "one"]  # the network cards of a node that a library drives; nearest: to each GPU


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of how many nodes its system has."""

    nodes: int = 1
    network: str | None = None
    nics: int | None = None
    rails: Rails = "nearest"
    gpu_direct: bool | None = None  # may its network cards read GPU memory? null: as the network says


class System(msgspec.Struct, frozen=True, dict=True):
    """A machine, or several equal ones joined by a network.

    What a node has is stated once. Of several, ids, names ("node3.gpu0"), places and neighbours follow by arithmetic,
    so that a hundred thousand GPUs take no more memory than eight.
    """

    name: str
    about: str
    library: Library
    components: Sequence[Component]  # of each node, as it alone names them: GPUs in the order of their ids
    links: Sequence[Link]  # inside each node
    nodes: int = 1
    network: str | None = None  # the name of what joins the nodes
    nics: int | None = None  # used of each node: its first ones
    port: WireSpec | None = None  # from each of these to the fabric; None: it is one machine
    rails: Rails = "nearest"  # what NCCL drives of them
    launch_mode: LaunchMode | None = None  # None: not told
    cluster: ClusterEntry = ClusterEntry()  # what its file says of several of it
    networks: Mapping[str, NetworkSpec] = {}  # that its file adds

    # ---- what all nodes have

    @cached_property
    def gpus(self) -> Sequence[Component]:
        """A GPU's id is its place here; ids go on from node to node."""
        return GpusOfNodes(self) if self.port else self.node_gpus

    @property
    def all_components(self) -> Sequence[Component]:
        """GPUs in the order of their ids, all others node by node, and the fabric."""
        if not self.port:
            return self.components
        others = [component for component in self.components if component.kind != "gpu"]
        return [*self.gpus, *(self.placed(each, node) for node in range(self.nodes) for each in others), self.fabric]

    @property
    def all_links(self) -> Sequence[Link]:
        """Those inside nodes, node by node, then those to the fabric."""
        if not self.port:
            return self.links
        nodes = range(self.nodes)
        inside = [link for node in nodes for link in self.links_in(node)]
        return [*inside, *(port for node in nodes for port, _ in self._ports(node))]

    @cached_property
    def neighbours(self) -> Mapping[str, Neighbours]:
        """The links of a component by its name."""
        return _NeighboursInNodes(self) if self.port else self._node_neighbours

    @cached_property
    def fabric(self) -> Component:
        """The switch that joins all nodes, drawn above their middle."""
        top = 1 + max(component.y for component in self.components)
        return Component(FABRIC, self.network or "", NO_BLOCKING, (self.nodes - 1) * self._width / 2, top, NO_NODE)

    @property
    def one_flow(self) -> float:
        """What one TCP flow of a network card may be kept to, of the rate of its network; 1: all of it.

        A measured rate of a network is taken to be that of the flows that a library opens there.
        """
        port = self.port
        if port is None or "TCP" not in port.about or port.copy_Bps.provenance == "measured":
            return 1.0
        return min(1.0, FLOW_Bps / port.copy_Bps.value)

    @property
    def node_name(self) -> str:
        """The name of each of its nodes: by it one node is loaded, and its figures and its price are known."""
        return self.name.removeprefix(f"{self.nodes}x ") if self.nodes > 1 else self.name

    @cached_property
    def plans(self) -> dict[tuple[Any, ...], Any]:
        """The plans of collectives that were made for it (`plan.plan`), as rings take time to find."""
        return {}

    @cached_property
    def found_paths(self) -> dict[tuple[Any, ...], Any]:
        """The paths that were searched for (`paths`), as every choice of GPUs needs them."""
        return {}

    def component(self, name: str) -> Component:
        """The component of this name, which begins with its node's where there are several."""
        if not self.port:
            return self._by_name[name]
        if name == FABRIC:
            return self.fabric
        node, own = self._node_and_name(name)
        return self.placed(self._by_name[own], node)

    @property
    def is_rack(self) -> bool:
        """Whether its nodes are racks of hosts that share one NVLink domain."""
        return len(self.gpus) > MOST_OF_A_HOST * self.nodes

    @property
    def unit(self) -> Unit:
        """What computes in it: GPUs, or where a host has none, ranks on its cores."""
        return "rank" if self.gpus and CPU in self.gpu_part(0).product_names else "GPU"

    @cached_property
    def uneven(self) -> bool:
        """Whether a link between GPUs has more lanes one way than the other."""
        return any(link.uneven for link in self.links)

    def near(self, name: str, nodes: Collection[int]) -> Neighbours:
        """The links of a component to those in some nodes, each with what is at its other end."""
        if self.port and name == FABRIC:
            return [pair for node in sorted(set(nodes) - {NO_NODE}) for pair in self._ports(node)]
        return [(link, near) for link, near in self.neighbours[name] if self.component(near).node in nodes]

    def counted_components(self) -> Iterator[tuple[Component, int]]:
        """Each component of a node, as it alone names it, and how many of it all nodes have; then what joins them."""
        yield from ((component, self._copies) for component in self.components)
        if self.port:
            yield self.fabric, 1

    def counted_links(self) -> Iterator[tuple[Link, int]]:
        """Each link in a node, and how many of it all nodes have; then those between nodes."""
        yield from ((link, self._copies) for link in self.links)
        yield from ((link, self._copies) for link, _ in self._ports(0))

    # ---- what one of them has

    @cached_property
    def node_gpus(self) -> list[Component]:
        return [component for component in self.components if component.kind == "gpu"]

    def gpu_part(self, device: int) -> GpuSpec:
        part = self.gpu_of_node(device).part
        assert isinstance(part, GpuSpec)
        return part

    def gpu_of_node(self, device: int) -> Component:
        """A GPU as its node alone names it."""
        return self.node_gpus[device % len(self.node_gpus) if self.port else device]

    def node_of(self, device: int) -> int:
        """The number of the node that a GPU is in."""
        return device // len(self.node_gpus) if self.port else self.gpus[device].node

    def in_node(self, node: int) -> Iterable[Component]:
        """The components of one node."""
        if self.port:
            return [self.placed(component, node) for component in self.components]
        return [component for component in self.components if component.node == node]

    def links_in(self, node: int) -> Iterable[Link]:
        """The links inside one of several nodes."""
        return [self._placed_link(link, node) for link in self.links]

    def cards(self, node: int) -> list[str]:
        """The network cards of a node that are plugged in."""
        return [card for _, card in self.near(FABRIC, {node})]

    def neighbours_in_nodes(self, name: str) -> Neighbours:
        """The links of a component of several nodes."""
        if name == FABRIC:
            return [pair for node in range(self.nodes) for pair in self._ports(node)]
        node, own = self._node_and_name(name)
        inside = [(self._placed_link(link, node), _name_in(node, near)) for link, near in self._node_neighbours[own]]
        return inside + [(link, FABRIC) for link, card in self._ports(node) if card == name]

    def placed(self, component: Component, node: int) -> Component:
        """A component of a node as that node's own, drawn to the right of the node before."""
        name, x = _name_in(node, component.name), component.x + node * self._width
        return Component(name, component.part_name, component.part, x, component.y, node)

    def _node_and_name(self, name: str) -> tuple[int, str]:
        """The node that a name begins with, and what the node itself calls the component."""
        node, _, own = name.partition(".")
        number = node.removeprefix("node")
        if not number.isdecimal() or int(number) >= self.nodes or node != f"node{int(number)}":
            raise KeyError(name)
        return int(number), own

    def _placed_link(self, link: Link, node: int) -> Link:
        through = link.through and _name_in(node, link.through)
        return msgspec.structs.replace(link, a=_name_in(node, link.a), b=_name_in(node, link.b), through=through)

    def _ports(self, node: int) -> Neighbours:
        """The links of the fabric to one node, each with the card at its other end."""
        if self.port is None:
            return []
        cards = [_name_in(node, component.name) for component in self.components if component.kind == "nic"]
        network, source = self.network or "", "composed: nodes, network and nics"
        return [(Link(card, FABRIC, network, self.port, 1, source), card) for card in cards[: self.nics]]

    @property
    def _copies(self) -> int:
        """How many of each component there are."""
        return self.nodes if self.port else 1

    @cached_property
    def _width(self) -> float:
        """From one node to the next, in a drawing."""
        across = [component.x for component in self.components]
        return 2 + max(across) - min(across)

    @cached_property
    def _by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components}

    @cached_property
    def _node_neighbours(self) -> dict[str, Neighbours]:
        found: dict[str, Neighbours] = {component.name: [] for component in self.components}
        for link in self.links:
            found[link.a].append((link, link.b))
            found[link.b].append((link, link.a))
        return found


def _name_in(node: int, name: str) -> str:
    return f"node{node}.{name}"


class GpusOfNodes(Sequence[Component]):
    """The GPUs of several nodes by their ids, each made when it is asked for."""

    def __init__(self, system: System) -> None:
        self._system = system

    def __len__(self) -> int:
        return self._system.nodes * len(self._system.node_gpus)

    @overload
    def __getitem__(self, index: int) -> Component: ...
    @overload
    def __getitem__(self, index: slice) -> list[Component]: ...
    def __getitem__(self, index: int | slice) -> Component | list[Component]:
        devices = range(len(self))[index]
        return self._gpu(devices) if isinstance(devices, int) else list(map(self._gpu, devices))

    def _gpu(self, device: int) -> Component:
        return self._system.placed(self._system.gpu_of_node(device), self._system.node_of(device))


class _NeighboursInNodes(dict[str, Neighbours]):
    """The links of components of several nodes, each component's made when it is asked for."""

    def __init__(self, system: System) -> None:
        self._system = system

    def __missing__(self, name: str) -> Neighbours:
        found = self[name] = self._system.neighbours_in_nodes(name)
        return found


def by_node(system: System, devices: Sequence[int]) -> list[tuple[int, ...]]:
    """The devices of each node."""
    nodes: dict[int, list[int]] = {}
    for device in devices:
        nodes.setdefault(system.node_of(device), []).append(device)
    return [tuple(group) for group in nodes.values()]


def unlike_nodes(system: System, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """One group of every kind: nodes are alike, so that the same ids within a node are the same to look at."""
    per_node = len(system.gpus) // system.nodes
    return list({tuple(device % per_node for device in group): group for group in reversed(groups)}.values())
