"""A survey from distances: the matrix of `nvidia-smi topo -m`, or what `rocm-smi --showtopo` says.

Distances of a tree are nested: devices that are PIX to each other share a switch, of these groups those that are PXB a
second layer, those that are PHB a host bridge, those that are NODE a NUMA node, and SYS lies between. Words of pairs of
GPUs hold; those of network cards and the affinity of CPUs fill in what NVLink hides, as far as they do not contradict.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from resnetx.errors import ConfigError
from resnetx.formats.device_matrix import RocmTopo
from resnetx.formats.nvidia_smi_topo import FARTHER, NvidiaSmi, NvlinkPorts, TopoMatrix
from resnetx.formats.pci_tree import C2c
from resnetx.interconnect.survey.survey import DISTANCES, NAMES, PEERS, Pair, SeenCpu, SeenNode, Survey

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
    """Pairs that may read and write each other's memory; a matrix that names no capability is taken for it."""
    found: dict[Pair, bool] = {}
    for matrix in said.peers:
        if matrix.capability in ("", "r", "w", "rw"):
            number = {gpu: index for index, gpu in enumerate(matrix.gpus)}
            for (a, b), may in matrix.peers.items():
                pair = number[a], number[b]
                found[pair] = found.get(pair, True) and may
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
            for layered in (each for each in layers[PXB] if each[0] in part):
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
