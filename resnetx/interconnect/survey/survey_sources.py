"""Surveys from what other programs say of a machine: matrices of distances, texts and XML."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from resnetx.errors import ConfigError, FileError, shortened, visible
from resnetx.formats import logs, nccl_system, smi_topo, topology_xml
from resnetx.formats.smi_topo import FARTHER, NvidiaSmi, NvlinkPorts, RocmTopo, TopoMatrix
from resnetx.formats.topology_xml import C2c, PciNode, PciTree
from resnetx.interconnect.survey.gpus import pci_table
from resnetx.interconnect.survey.survey import DISTANCES, NAMES, PEERS, Pair, PCIE_GBps, SeenCpu, SeenNode, Survey
from resnetx.loading import File

# ---- matrix ---------------------------------------------------------------------------------------------------------
# A survey from distances: the matrix of `nvidia-smi topo -m`, or what `rocm-smi --showtopo` says.
#
# Distances of a tree are nested: devices that are PIX to each other share a switch, of these groups those that are PXB
# a second layer, those that are PHB a host bridge, those that are NODE a NUMA node, and SYS lies between. Words of
# pairs of GPUs hold; those of network cards and the affinity of CPUs fill in what NVLink hides, as far as they do not
# contradict.

PIX, PXB, PHB, NODE, SYS = range(len(FARTHER))
GRACE = "NVIDIA Grace"  # the CPU of GPUs whose memory is a NUMA node of the host, by NVLink-C2C
MOST_NVLINKS = 18  # of a GPU up to Blackwell: more, and they go into a switch

Groups = list[list[str]]


def of_nvidia_smi(said: NvidiaSmi, most_links: int = 0) -> Survey:
    """`most_links`: how many NVLinks each GPU has, where its kind is known."""
    findings = tuple(_inactive(said))
    if said.topo is None:
        if not said.peers:
            return replace(_names_only(said), ports=said.ports, findings=findings)
        places = {gpu: index for index, gpu in enumerate(said.peers[0].gpus)}
        return replace(_peers_only(said), ports=_ports(said, places), findings=findings)
    topo = said.topo
    survey = _Tree(topo.gpus, topo.cards, _ranks(topo), topo.affinity).survey("nvidia-smi topo -m")
    number = {gpu: index for index, gpu in enumerate(topo.gpus)}
    words = {(number[a], number[b]): word for (a, b), word in topo.words.items() if a in number and b in number}
    lanes = {pair: int(word[2:]) for pair, word in words.items() if word.startswith("NV") and pair[0] < pair[1]}
    direct, switched = _fabric(len(topo.gpus), lanes, most_links)
    nodes = tuple(_labelled(node, topo, said.names) for node in survey.nodes)
    unknown = [*survey.unknown, *topo.notes, *_of_nvlinks(lanes, switched, most_links)]
    return replace(
        survey,
        cpus=tuple(replace(cpu, product=GRACE) for cpu in survey.cpus) if topo.in_numa else survey.cpus,
        nodes=nodes,
        direct=direct,
        switched=switched,
        peers=_peers(said),
        words=words,
        ports=_ports(said, number),
        findings=findings,
        unknown=tuple(unknown),
    )


def _ports(said: NvidiaSmi, number: Mapping[str, int]) -> dict[int, NvlinkPorts]:
    """The NVLinks of the matrix's GPUs."""
    for gpu in said.ports:
        if f"GPU{gpu}" not in number:
            raise ConfigError(f"NVLinks of GPU{gpu}, which has no row in the matrix; expected texts of one machine")
    return {number[f"GPU{gpu}"]: ports for gpu, ports in said.ports.items()}


def _inactive(said: NvidiaSmi) -> Iterator[str]:
    """Which NVLinks are down."""
    for gpu, ports in said.ports.items():
        if ports.inactive:
            links = ", ".join(map(str, ports.inactive))
            total = len(ports.up) + len(ports.inactive)
            yield f"GPU{gpu}: {len(ports.inactive)} of {total} NVLinks are inactive: {links}"
        elif not ports.up:
            yield f"GPU{gpu}: no NVLink is active, by nvidia-smi nvlink -s"


def of_rocm_smi(said: RocmTopo) -> Survey:
    """Who is joined by XGMI; PCIe beyond the NUMA nodes is not said."""
    tree = _Tree(said.gpus, (), {}, said.affinity).survey(said.program)
    number = {gpu: index for index, gpu in enumerate(said.gpus)}
    direct = {(number[a], number[b]): 1 for a, b in said.direct}
    nodes = tuple(
        replace(node, label=f"GPU{index}", product=said.names.get(index, "")) for index, node in enumerate(tree.nodes)
    )
    unknown = (*tree.unknown, *said.notes, f"PCIe: {said.program} does not describe its switches")
    return replace(tree, nodes=nodes, direct=direct, link="xgmi", unknown=unknown)


def _peers_only(said: NvidiaSmi) -> Survey:
    gpus = said.peers[0].gpus
    survey = _Tree(gpus, (), {}, {}).survey("nvidia-smi topo -p2p")
    nodes = tuple(
        replace(node, label=gpu, product=said.names.get(int(gpu[3:]), ""))
        for node, gpu in zip(survey.nodes, gpus, strict=True)
    )
    unknown = (*survey.unknown, "how GPUs are wired: the text has peers alone; nvidia-smi topo -m has their wiring")
    return replace(survey, nodes=nodes, peers=_peers(said), unknown=unknown, worth=PEERS)


def _names_only(said: NvidiaSmi) -> Survey:
    nodes = tuple(
        SeenNode("gpu", f"gpu{index}", "", label=f"GPU{number}", product=said.names.get(number, ""))
        for index, number in enumerate(sorted({*said.names, *said.ports}))
    )
    return Survey("nvidia-smi nvlink -s" if said.ports else "names of nvidia-smi", (), nodes, worth=NAMES)


def _peers(said: NvidiaSmi) -> dict[Pair, bool]:
    """Pairs that may read and write each other's memory; a matrix that names no capability is taken for it.

    p and n say which pairs may be peers over PCIe, and over NVLink: read where nothing says more of a pair.
    """
    found: dict[Pair, bool] = {}
    for matrix in sorted(said.peers, key=lambda matrix: matrix.capability in ("p", "n")):
        number = {gpu: index for index, gpu in enumerate(matrix.gpus)}
        for (a, b), may in matrix.peers.items():
            pair = number[a], number[b]
            if matrix.capability in ("", "r", "w", "rw"):
                found[pair] = found.get(pair, True) and may
            elif may and matrix.capability in ("p", "n"):
                found[pair] = found.get(pair, True)
            elif matrix.capability == "p" and said.topo and said.topo.words.get((a, b), "NV")[:2] != "NV":
                found.setdefault(pair, False)
    return found


def _ranks(topo: TopoMatrix) -> dict[tuple[str, str], int]:
    return {pair: FARTHER.index(word) for pair, word in topo.words.items() if word in FARTHER}


def _labelled(node: SeenNode, topo: TopoMatrix, names: dict[int, str]) -> SeenNode:
    if node.kind == "gpu":
        label = topo.gpus[int(node.name[3:])]
        c2c = C2c() if label in topo.in_numa else None
        return replace(node, label=label, product=names.get(int(label[3:]), ""), c2c=c2c)
    return replace(node, label=topo.card_names.get(node.label, node.label))


# ---- NVLink ---------------------------------------------------------------------------------------------------------


def _fabric(count: int, lanes: dict[Pair, int], most_links: int) -> tuple[dict[Pair, int], dict[int, int]]:
    """(links of pairs, links into switches): more links than a GPU has can only be those of a switch."""
    ends = {gpu: [n for pair, n in lanes.items() if gpu in pair] for gpu in range(count)}
    if all(sum(end) <= (most_links or MOST_NVLINKS) for end in ends.values()):
        return lanes, {}
    return {}, {gpu: max(end) for gpu, end in ends.items() if end}


def _of_nvlinks(lanes: dict[Pair, int], switched: dict[int, int], most_links: int) -> Iterator[str]:
    if switched:
        yield "the switches of NVLink: that there are some follows from the number of links; their number is not said"
    elif lanes and set(lanes.values()) == {most_links or MOST_NVLINKS}:
        yield "whether NVLinks go through a switch: as many as a GPU has may join two directly; taken so"


# ---- PCIe -----------------------------------------------------------------------------------------------------------


@dataclass
class _Tree:
    """Groups devices by how near they are."""

    gpus: Sequence[str]
    cards: Sequence[str]
    ranks: dict[tuple[str, str], int]  # of each pair that is said, both ways round
    affinity: dict[str, str]
    unknown: list[str] = field(default_factory=list)
    switches: int = 0
    nodes: list[SeenNode] = field(default_factory=list)

    def survey(self, source: str) -> Survey:
        layers = self._layers()
        cpus = []
        for number, group in enumerate(layers[NODE]):
            cpu = f"cpu{number}"
            numa = next((said[5:] for name in group if (said := self.affinity.get(name, "")).startswith("NUMA ")), "")
            cpus.append(SeenCpu(cpu, numa))
            self._below_cpu(cpu, group, layers)
        unknown = tuple(dict.fromkeys(self.unknown))
        return Survey(source, tuple(cpus), tuple(self._in_order()), unknown=unknown, worth=DISTANCES)

    def _layers(self) -> list[Groups]:
        """Groups of switches, of layered switches, of host bridges and of NUMA nodes; each of whole groups before."""
        groups: Groups = [[name] for name in (*self.gpus, *self.cards)]
        layers = []
        for level in (PIX, PXB, PHB, NODE):
            groups = [list(group) for group in groups]
            for one, other in self._pairs():
                if self.ranks.get((one, other), SYS + 1) <= level:
                    self._unite(groups, one, other, level, said=True)
            if level == NODE:
                self._by_affinity(groups)
            layers.append([list(group) for group in groups])
        return layers

    def _pairs(self) -> list[tuple[str, str]]:
        """Pairs of GPUs, the nearest first, then those with network cards."""
        order = [*combinations(self.gpus, 2), *((g, c) for g in self.gpus for c in self.cards),
                 *combinations(self.cards, 2)]  # fmt: skip
        among = set(self.gpus)
        return sorted(order, key=lambda pair: (not set(pair) <= among, self.ranks.get(pair, SYS)))

    def _unite(self, groups: Groups, one: str, other: str, level: int, said: bool) -> bool:
        """Makes one group of those of two devices, unless that puts two too near that are said to be farther."""
        a = next(group for group in groups if one in group)
        b = next(group for group in groups if other in group)
        if a is b:
            return True
        apart = next(((x, y) for x in a for y in b if SYS >= self.ranks.get((x, y), -1) > level), None)
        if apart is None:
            a += b
            groups.remove(b)
            return True
        if said:
            what = (
                f"{one} and {other} are {FARTHER[self.ranks[one, other]]}, which is nearer than {apart[0]} and "
                f"{apart[1]} can be, which are {FARTHER[self.ranks[apart]]}"
            )
            if {one, other} <= set(self.gpus) and set(apart) <= set(self.gpus):
                raise ConfigError(f"the matrix contradicts itself: {what}")
            self.unknown.append(f"where network cards are: {what}")
        return False

    def _by_affinity(self, groups: Groups) -> None:
        """GPUs of one NUMA node together; then those of none to the first CPU that the distances allow."""
        for one, other in combinations(self.gpus, 2):
            if one in self.affinity and self.affinity[one] == self.affinity.get(other):
                self._unite(groups, one, other, NODE, said=False)
        placed = list(groups[0])
        for gpu in self.gpus:
            own = next(group for group in groups if gpu in group)
            if any(name in self.affinity for name in own):
                continue
            first = next((name for name in placed if name not in own and self._may_share(groups, name, gpu)), None)
            if first is not None and self._unite(groups, first, gpu, NODE, said=False):
                self.unknown.append("the CPUs of GPUs: the fewest that the distances allow are assumed")
            placed.append(gpu)

    def _may_share(self, groups: Groups, one: str, other: str) -> bool:
        a = next(group for group in groups if one in group)
        b = next(group for group in groups if other in group)
        return a is not b and not any(self.ranks.get((x, y)) == SYS for x in a for y in b)

    def _below_cpu(self, cpu: str, group: list[str], layers: list[Groups]) -> None:
        bridges = [part for part in layers[PHB] if part[0] in group]
        apart = any(self.ranks.get((x, y)) == NODE for x, y in combinations(group, 2))
        for number, part in enumerate(bridges):
            bridge = str(number) if apart and len(bridges) > 1 else ""
            for layered in (switch for switch in layers[PXB] if switch[0] in part):
                self._below_bridge(cpu, bridge, layered, layers[PIX])

    def _below_bridge(self, cpu: str, bridge: str, layered: list[str], switches: Groups) -> None:
        """One switch or device, or several switches below one."""
        parts = [part for part in switches if part[0] in layered]
        if len(parts) == 1:
            self._leaf(cpu, bridge, parts[0], own=len(parts[0]) > 1)
            return
        top = self._switch(cpu, bridge)
        for part in parts:
            self._leaf(top, "", part, own=len(part) > 1 or part[0] in self.gpus)

    def _leaf(self, above: str, bridge: str, devices: Iterable[str], own: bool) -> None:
        """Devices below a switch of their own, or directly."""
        if own:
            above, bridge = self._switch(above, bridge), ""
        for name in devices:
            kind = "gpu" if name in self.gpus else "nic"
            index = (self.gpus if kind == "gpu" else self.cards).index(name)
            self.nodes.append(SeenNode("gpu" if kind == "gpu" else "nic", f"{kind}{index}", above, bridge, name))

    def _switch(self, above: str, bridge: str) -> str:
        name = f"pcie{self.switches}"
        self.switches += 1
        self.nodes.append(SeenNode("switch", name, above, bridge))
        return name

    def _in_order(self) -> list[SeenNode]:
        """GPUs by their numbers, then all else as it was met."""
        by_number: Callable[[SeenNode], int] = lambda node: int(node.name[3:])  # noqa: E731
        gpus = sorted((node for node in self.nodes if node.kind == "gpu"), key=by_number)
        return [*gpus, *(node for node in self.nodes if node.kind != "gpu")]


# ---- reading --------------------------------------------------------------------------------------------------------
# A survey from files: what other programs say of a machine, each recognised by its content.
#
# `nvidia-smi topo -m`, `topo -p2p`, `nvlink -s` and `-L`, `rocm-smi --showtopo`, the topology that NCCL or RCCL writes
# or has in its debug log, and the XML of `lstopo`.

MOST_OF_OTHERS = 8  # findings of the other hosts of a log

WHAT = "the text of nvidia-smi topo -m or -p2p, of rocm-smi --showtopo, NCCL's XML or debug log, or the XML of lstopo"

OWN = "which `topology --import` reads"  # of a text that is of such a program, and has none of its rows


def read_survey(path: Path, gpus: int | None = None, nvlinks: int = 0) -> Survey:
    """What one file says. `gpus`: see `of_tree`; `nvlinks`: of each GPU, 0 where that is not known."""
    file = File(path, WHAT, nccl_system.LOG_BYTES)
    return survey_of(file, file.text(), gpus, nvlinks)


def survey_of(file: File, text: str, gpus: int | None = None, nvlinks: int = 0) -> Survey:
    """The same of a text; `file` is who is blamed."""
    try:
        survey = _recognised(file, text, gpus, nvlinks)
    except FileError:
        raise
    except ConfigError as error:
        raise file.error(str(error)) from None
    return replace(survey, source=f"{survey.source} ({file.path.name})")


def _recognised(file: File, text: str, gpus: int | None, nvlinks: int) -> Survey:
    if nccl_system.has_tree(text):
        log = nccl_system.parse(file, text)
        survey = of_tree(log.tree, gpus)
        return replace(survey, findings=(*survey.findings, *log.findings, *_of_other_hosts(log)))
    is_log, as_it_is = nccl_system.recognised(text), text
    if not (is_log or topology_xml.has_topology(text) or len(text) > topology_xml.XML_BYTES):
        text = logs.plain(text)
    if topology_xml.looks_like_xml(text):
        if len(text) > topology_xml.XML_BYTES:
            raise file.error(f"XML of {len(text):,} letters; expected at most {topology_xml.XML_BYTES:,}")
        top = topology_xml.parse_xml(file, text)
        if top.tag in ("system", "graphs"):
            return of_tree(topology_xml.parse_nccl(file, top), gpus)
        if top.tag == "topology":
            return of_tree(topology_xml.parse_hwloc(file, top), gpus)
        if top.tag == "nvidia_smi_log":
            raise file.error("nvidia-smi -q -x: GPUs without their wiring; expected nvidia-smi topo -m", top.line)
        raise file.error(f"<{top.tag[:40]}>: not a topology; expected {WHAT}", top.line)
    if len(text) > topology_xml.XML_BYTES and not is_log:
        raise file.error(f"{len(text):,} letters; expected {WHAT}, of at most {topology_xml.XML_BYTES:,}")
    if smi_topo.rocm_recognised(text):
        return of_rocm_smi(smi_topo.parse_rocm(file, text))
    if is_log:
        raise nccl_system.no_tree(file, text)
    if smi_topo.recognised(text):
        return of_nvidia_smi(smi_topo.parse(file, text), nvlinks)
    other = logs.refused(as_it_is)
    raise file.error(f"{other}; expected {WHAT}" if other and OWN not in other else f"expected {WHAT}")


def _of_other_hosts(log: nccl_system.NcclLog) -> Iterator[str]:
    """What deserves a look in the trees of the other hosts, and in what they are not like the first."""
    first = _summary(log.tree)
    said = [
        f"{shortened(visible(host))}: {each}"
        for host, tree in log.others.items()
        for each in (
            *of_tree(tree).findings,
            *(
                f"{own}; the first host: {other}"
                for own, other in zip(_summary(tree), first, strict=True)
                if own != other
            ),
        )
    ]
    yield from said[:MOST_OF_OTHERS]
    if len(said) > MOST_OF_OTHERS:
        yield f"{len(said) - MOST_OF_OTHERS} more findings of other hosts"


def _summary(tree: PciTree) -> tuple[str, str]:
    """The GPUs and network cards of a tree, in short."""
    gpus = Counter(
        (gpu.generation, gpu.lanes, sum(end.count for end in gpu.nvlinks or ())) for gpu in tree.of_kind("gpu")
    )
    kinds = sorted((count, *(figure or 0 for figure in kind)) for kind, count in gpus.items())
    of_gpus = ", ".join(f"{n} of PCIe {pcie}.0 x{lanes} and {links} NVLinks" for n, pcie, lanes, links in kinds)
    cards = tree.of_kind("nic")
    speed = sum(card.speed_Bps or 0.0 for card in cards) / 1e9
    return f"GPUs: {of_gpus}", f"network cards: {len(cards)} of together {speed:.4g} GB/s"


# A survey from a tree of PCI devices: NCCL's XML, hwloc's, or the kernel's.
#
# GPUs are numbered as the source does, else by their addresses, as CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID. Of
# devices whose class is not stated, a count of GPUs tells which are: the first ones. Without it, all are taken for
# GPUs.

SLOW = (
    8  # times slower than what is below it: virtual machines that hide PCIe show that, hardly any machine is built so
)

# Interfaces that Linux names so are no cards of a cluster: WLAN, mobile networks, tunnels, bridges, ends of containers.
_NOT_OF_A_CLUSTER = re.compile(
    r"(?:wl|ww|tun|tap|docker|veth|virbr|br-|wg|tailscale|zt|cni|flannel|cali|vxlan|utun|podman|lxc)[\w.-]*|lo|bnep\d*"
)


def of_tree(tree: PciTree, gpus: int | None = None) -> Survey:
    """`gpus`: how many of the devices without a class are GPUs."""
    tree, unknown = _classed(tree, gpus)
    nodes = tree.of_kind("gpu")
    numbered = len({gpu.index for gpu in nodes} - {None}) == len(nodes)
    ranked = sorted(nodes, key=lambda gpu: (gpu.index or 0) if numbered else _address(gpu.name))
    number = {gpu.name: index for index, gpu in enumerate(ranked)}
    if len(number) < len(nodes):
        raise ConfigError(f"{tree.source}: two GPUs have one address; expected the topology of one machine")
    walk = _Walk(number)
    cpus = tuple(SeenCpu(f"cpu{index}", cpu.name, cpu.product, cpu.host) for index, cpu in enumerate(tree.cpus))
    for seen, cpu in zip(cpus, tree.cpus, strict=True):
        several = len({child.root for child in cpu.children}) > 1
        for child in cpu.children:
            walk.node(child, seen.name, child.root if several else "")
    direct, switched, host_links, lost = _nvlinks(ranked, number)
    gpu_nodes = sorted((node for node in walk.nodes if node.kind == "gpu"), key=lambda node: int(node.name[3:]))
    others = [node for node in walk.nodes if node.kind != "gpu"]
    return Survey(
        source=tree.source,
        cpus=cpus,
        nodes=(*gpu_nodes, *others),
        direct=direct,
        switched=switched,
        link="xgmi" if any(end.xgmi for gpu in ranked for end in gpu.nvlinks or ()) else "",
        host_links=host_links,
        findings=tuple(_slow_uplinks(tree)),
        unknown=(*unknown, *tree.notes, *_idle(ranked), *lost, *_left_out(walk.left_out)),
    )


def _idle(gpus: Sequence[PciNode]) -> list[str]:
    """GPUs whose link is as slow as an idle one's, which is not taken for its rate."""
    idle = [f"gpu{index}" for index, gpu in enumerate(gpus) if gpu.generation == 1]
    return [f"PCIe of {_some(idle)}: 2.5 GT/s, as when idle; what it reaches is not said"] if idle else []


def _left_out(labels: Sequence[str]) -> list[str]:
    return [f"{_some(labels)}: left out, as WLAN, tunnels and bridges are no network cards of a cluster"] * bool(labels)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + f" and {len(names) - 4} more" * (len(names) > 4)


def _slow_uplinks(tree: PciTree) -> list[str]:
    """Switches whose way to the CPU is far slower than what hangs below them."""
    slow = []
    for cpu in tree.cpus:
        for switch in (node for node in cpu.below() if node.kind == "bridge" and node.generation):
            own, below = _rate_GBps(switch), max(map(_rate_GBps, switch.children), default=0.0)
            if own * SLOW < below:
                in_log = 0.75 * 2.0 ** ((switch.generation or 3) - 3) * (switch.lanes or 16)  # NCCL, topo.cc
                slow.append(f"the switch {switch.name} reaches the CPU at {own:.2g} GB/s (PCI[{in_log:.1f}] in NCCL's "
                            f"log), what is below it at {below:.3g}")  # fmt: skip
    more = f"; so do {len(slow) - 1} more" * (len(slow) > 1)
    return [
        f"{slow[0]}{more}: NCCL plans with that. Virtual machines that hide PCIe show such links; their provider's "
        "topology goes into NCCL_TOPO_FILE"
    ] if slow else []  # fmt: skip


def _rate_GBps(node: PciNode) -> float:
    """Of a link, each way; 0: not said."""
    return PCIE_GBps.get(node.generation or 0, 0.0) * (node.lanes or 16)


def _classed(tree: PciTree, count: int | None) -> tuple[PciTree, list[str]]:
    """The tree with every device of a kind, and what was assumed for it."""
    tree = replace(tree, cpus=tuple(map(_known_by_id, tree.cpus)))
    unclassed = [node.name for node in tree.of_kind("unclassed")]
    if not unclassed:
        return tree, []
    stated = len(tree.of_kind("gpu"))
    wanted = len(unclassed) if count is None else count - stated
    if not 0 <= wanted <= len(unclassed):
        raise ConfigError(f"gpus={count}: expected {stated} to {stated + len(unclassed)}, the devices of {tree.source}")
    chosen = set(unclassed[:wanted])

    def classed(node: PciNode) -> PciNode:
        kind = node.kind if node.kind != "unclassed" else "gpu" if node.name in chosen else "nic"
        return replace(node, kind=kind, children=tuple(map(classed, node.children)))

    assumed = "all are taken for GPUs (assumed); gpus=N takes the first N" if count is None else (
        f"the first {wanted} are taken for GPUs (assumed), the others for network cards"
    )  # fmt: skip
    note = f"what {len(unclassed)} PCI devices are: the file states no class of them; {assumed}"
    return replace(tree, cpus=tuple(map(classed, tree.cpus))), [note]


def _known_by_id(node: PciNode) -> PciNode:
    """A device without a class whose PCI id is that of a GPU, and all below it."""
    kind = "gpu" if node.kind == "unclassed" and node.device in pci_table().devices else node.kind
    return replace(node, kind=kind, children=tuple(map(_known_by_id, node.children)))


def _address(bus: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in bus.replace(".", ":").split(":"))


@dataclass
class _Walk:
    """Names what it meets."""

    number: dict[str, int]  # of a GPU by its address
    nodes: list[SeenNode] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)  # network interfaces

    def node(self, found: PciNode, above: str, bridge: str) -> None:
        if found.kind == "storage":
            return
        if found.kind == "nic" and _NOT_OF_A_CLUSTER.fullmatch(found.label):
            self.left_out.append(found.label)
            return
        kind = {"bridge": "switch", "cpu": "switch"}.get(found.kind, found.kind)
        assert kind in ("gpu", "nic", "switch"), kind
        name = f"gpu{self.number[found.name]}" if kind == "gpu" else self._next({"switch": "pcie"}.get(kind, kind))
        idle = kind == "gpu" and (found.generation == 1 or found.c2c is not None)  # then PCIe is not its way
        self.nodes.append(
            SeenNode(
                "gpu" if kind == "gpu" else "nic" if kind == "nic" else "switch", name, above, bridge, found.label,
                found.name, found.product, None if idle else found.generation, None if idle else found.lanes,
                found.speed_Bps, found.device, found.arch, found.c2c,
            )
        )  # fmt: skip
        for child in found.children:
            self.node(child, name, "")

    def _next(self, stem: str) -> str:
        self.counts[stem] += 1
        return f"{stem}{self.counts[stem] - 1}"


def _nvlinks(
    gpus: Sequence[PciNode], number: dict[str, int]
) -> tuple[dict[Pair, int], dict[int, int], dict[int, int], list[str]]:
    """(between GPUs, into switches, to CPUs, what leads nowhere); both ends of a link may state it, or one."""
    ends: Counter[tuple[int, int]] = Counter()
    switched: Counter[int] = Counter()
    host: Counter[int] = Counter()
    lost: list[str] = []
    for index, gpu in enumerate(gpus):
        for end in gpu.nvlinks or ():
            if end.to_switch:
                switched[index] += end.count
            elif end.to_cpu:
                host[index] += end.count
            elif number.get(end.target) == index:
                lost.append(f"where NVLinks of gpu{index} lead: the source says to gpu{index} itself")
            elif end.target in number:
                ends[index, number[end.target]] += end.count
            else:
                lost.append(f"where NVLinks of gpu{index} lead: the source has no {end.target}")
    direct = {(min(pair), max(pair)): max(ends[pair], ends[pair[::-1]]) for pair in list(ends)}
    return direct, dict(switched), dict(host), lost
