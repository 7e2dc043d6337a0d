"""A survey from files: what other programs say of a machine, each recognised by its content.

`nvidia-smi topo -m`, `topo -p2p`, `nvlink -s` and `-L`, `rocm-smi --showtopo`, the topology that NCCL or RCCL writes or
has in its debug log, and the XML of `lstopo`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from resnetx.errors import ConfigError, FileError, shortened
from resnetx.formats import device_matrix, logs, nccl_system, nccl_tests, nvidia_smi_topo, topology_xml
from resnetx.formats.pci_tree import PciNode, PciTree
from resnetx.interconnect.survey.gpus import pci_table
from resnetx.interconnect.survey.matrix import of_nvidia_smi, of_rocm_smi
from resnetx.interconnect.survey.parts import PCIE_GBps
from resnetx.interconnect.survey.survey import Pair, SeenCpu, SeenNode, Survey
from resnetx.loading import File
from resnetx.visible import visible

MOST_OF_OTHERS = 8  # findings of the other hosts of a log

WHAT = "the text of nvidia-smi topo -m or -p2p, of rocm-smi --showtopo, NCCL's XML or debug log, or the XML of lstopo"


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
    if device_matrix.recognised(text):
        return of_rocm_smi(device_matrix.parse(file, text))
    if is_log:
        raise nccl_system.no_tree(file, text)
    if nvidia_smi_topo.recognised(text):
        return of_nvidia_smi(nvidia_smi_topo.parse(file, text), nvlinks)
    other = nccl_tests.refused(as_it_is)
    raise file.error(f"{other}; expected {WHAT}" if other else f"expected {WHAT}")


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
            elif end.target in number and number[end.target] != index:
                ends[index, number[end.target]] += end.count
            else:
                lost.append(f"where NVLinks of gpu{index} lead: the source has no {end.target}")
    direct = {(min(pair), max(pair)): max(ends[pair], ends[pair[::-1]]) for pair in list(ends)}
    return direct, dict(switched), dict(host), lost
