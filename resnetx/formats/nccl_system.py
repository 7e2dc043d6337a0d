r"""The machine in NCCL's or RCCL's debug log: the tree that NCCL_DEBUG_SUBSYS=GRAPH writes.

    host:4254:4327 [5] NCCL INFO === System : maxBw 48.0 totalBw 370.8 ===
    host:4254:4327 [5] NCCL INFO CPU/0-0 (1/2/-1)                                architecture, vendor, model
    host:4254:4327 [5] NCCL INFO + SYS[16.0] - CPU/0-1
    host:4254:4327 [5] NCCL INFO + PCI[48.0] - PCI/0-65000 (1000c03015d91d25)    a switch, and GB/s of its link
    host:4254:4327 [5] NCCL INFO               + PCI[48.0] - GPU/0-68000 (8)     rank 8, at 0000:68:00.0
    host:4254:4327 [5] NCCL INFO                             + NVL[370.8] - NVS/0-0

What hangs below a component begins where its name does. Older versions have no number before the address (GPU/68000).
Each rank writes the tree of its node, with the GPUs of the job alone. Of NVLinks it has the GB/s that NCCL plans with,
from which their number follows. Plain NCCL_DEBUG=INFO has no tree: rings, connections, network cards and the version.

Reference: NVIDIA/nccl, src/graph/topo.cc (ncclTopoPrint), topo.h; ROCm/rccl, the same files.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from resnetx.errors import FileError, shortened, visible
from resnetx.formats.logs import card_names, channels_of
from resnetx.formats.topology_xml import C2c, NvlinkEnd, PciNode, PciTree, device_id
from resnetx.loading import File

LOG_BYTES = 2**26
MOST_NODES = 2**13  # of a tree
MOST_UNREAD = 4  # hosts that are named
MAX_DEPTH = 64  # as that of NCCL's XML

_INFO = "NCCL INFO "
_RANK = re.compile(r"(\S{1,200}:\d{1,10}:\d{1,10} \[\d{1,4}\]) \Z")  # before NCCL INFO, behind what a launcher adds
_FIRST = re.compile(r"\s*=== System : max(?:Bw|Width|Speed) ")
_CPU = re.compile(r"CPU/(?:([0-9A-Fa-f]{1,16})-)?([0-9A-Fa-f]{1,16})(?: \((-?\d{1,3})/(-?\d{1,3})/(-?\d{1,3})\))?\s*\Z")
_NODE = re.compile(
    r"(?P<indent> *)\+ (?P<kind>LOC|NVL|XGMI|C2C|PCI|SYS|NET)\[(?P<rate>\d{1,6}(?:\.\d{1,3})?)\] - (?P<type>[A-Z]{3})/"
    r"(?:(?P<system>[0-9A-Fa-f]{1,16})-)?(?P<id>[0-9A-Fa-f]{1,16})(?: \((?P<more>[^)]{0,100})\))?"
)
_VERSION = re.compile(r"NCCL version (\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)")
# Lanes that NCCL makes of sysfs, in 100 Mb/s each (topo.cc, kvDictPciGen): its GB/s are lanes * rate / 80.
_LANE = {1: 15, 2: 30, 3: 60, 4: 120, 5: 240, 6: 480}
_LANES = (16, 8, 4, 2, 1)
_ROUNDED_GBps = 0.051  # to one digit behind the point
# GB/s that NCCL plans with for one NVLink, the most links of a GPU, its architecture, and the newest PCIe that it has
# (topo.h: SM60_NVLINK_BW ..., of which Turing has Volta's; 20 of Volta to Ampere were 21 and 22 before, as logs of NCCL
# 2.5 to 2.8 have it, and those of Hopper 20; sm_100 stands for what came after it, too).
_NVLINKS = (
    (20.6, 18, "sm_90", 5), (40.1, 18, "sm_100", 6),
    (20.0, 6, "sm_70", 3), (21.0, 6, "sm_70", 3), (22.0, 6, "sm_70", 3),
    (20.0, 2, "sm_75", 3), (21.0, 2, "sm_75", 3), (22.0, 2, "sm_75", 3),
    (20.0, 12, "sm_80", 4), (21.0, 12, "sm_80", 4), (22.0, 12, "sm_80", 4),
    (12.0, 4, "sm_86", 4), (18.0, 4, "sm_60", 3), (20.0, 18, "sm_90", 5),
)  # fmt: skip
_XGMI = (  # of gfx906, which has two links, and of gfx908 the rate is one
    (48.0, 16, "gfx942", 5), (36.0, 16, "gfx90a", 4), (24.0, 2, "gfx906", 4), (24.0, 6, "gfx908", 4),
)  # fmt: skip
# graph.h: NCCL_TOPO_CPU_ARCH_X86 ...
_INTEL = {1: "Broadwell or older", 2: "Skylake or Cascade Lake", 3: "Sapphire Rapids", 4: "Emerald Rapids"}


@dataclass(frozen=True)
class NcclLog:
    """The tree of a log, and what else it tells."""

    tree: PciTree
    findings: tuple[str, ...]
    others: Mapping[str, PciTree] = field(default_factory=dict)  # of the other hosts, by their names


@dataclass
class _Part:
    """One component while the tree is read."""

    type: str  # "PCI", "GPU", "NIC"
    system: int
    id: int
    rate_GBps: float = 0.0  # of its link towards the CPU
    more: str = ""
    links: list[re.Match[str]] = field(default_factory=list)  # NVL, C2C, NET
    children: list["_Part"] = field(default_factory=list)


def recognised(text: str) -> bool:
    """Whether a text is a debug log of NCCL."""
    return _INFO in text or bool(re.search(_FIRST.pattern, text))


def has_tree(text: str) -> bool:
    return bool(re.search(_FIRST.pattern, text))


def parse(file: File, text: str) -> NcclLog:
    """The machine of a log; refuses one without a tree in a sentence that says how to get one."""
    logs = _by_rank(text)
    trees = {rank: tree for rank, lines in logs.items() if (tree := _tree_lines(lines)).parts}
    if not trees:
        raise no_tree(file, text)
    names = card_names(text)
    hosts: dict[str, _Lines] = {}
    for rank, tree in trees.items():
        host = rank.partition(":")[0]
        hosts[host] = max(hosts.get(host, tree), tree, key=lambda each: (each.closed, len(each.parts)))
    first, *others = hosts
    made = _tree(file, hosts[first], names, len(hosts))
    read: dict[str, PciTree] = {}
    for host in others:
        with contextlib.suppress(FileError):
            read[host] = _tree(file, hosts[host], names, 1)
    unread = [f"{shortened(visible(host))}: its tree cannot be read" for host in others if host not in read]
    return NcclLog(made, (*_beside(text), *unread[:MOST_UNREAD]), read)


def no_tree(file: File, text: str) -> FileError:
    """What to set for a log that has the tree, and what this one has instead."""
    has = "; ".join(_beside(text)) or "no rings or connections either"
    return file.error(
        f"NCCL's log without the tree of the machine ({has}); expected the file that NCCL_TOPO_DUMP_FILE=nccl.xml "
        "writes, or a log of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,GRAPH"
    )


def _by_rank(text: str) -> dict[str, list[str]]:
    """The lines of each rank, without what stands in front of them; a text without any prefix is of one rank."""
    if _INFO not in text:
        return {"": text.splitlines()}
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        before, info, said = line.partition(_INFO)
        if info:
            rank = _RANK.search(before[-300:])
            found.setdefault(rank[1] if rank else before.strip(), []).append(said)
    return found


@dataclass(frozen=True)
class _Lines:
    """The lines of one tree."""

    parts: tuple[str, ...]
    closed: bool  # whether the line behind the last one is there


def _tree_lines(lines: Sequence[str]) -> _Lines:
    """The first tree of a rank."""
    start = next((index for index, line in enumerate(lines) if _FIRST.match(line)), None)
    found: list[str] = []
    for line in lines[start + 1 :] if start is not None else ():
        if line.strip().startswith("====="):
            return _Lines(tuple(found), closed=True)
        if _CPU.match(line) or _NODE.match(line):
            found.append(line)
    return _Lines(tuple(found), closed=False)


def _parts(file: File, lines: Iterable[str]) -> list[_Part]:
    """CPUs with what is below them: a line belongs to the last one above it that begins farther left."""
    cpus: list[_Part] = []
    above: list[tuple[int, _Part]] = []  # where its line begins, component
    for count, line in enumerate(lines, 1):
        if count > MOST_NODES:
            raise file.error(f"a tree of more than {MOST_NODES:,} lines")
        if cpu := _CPU.match(line):
            part = _Part(
                "CPU", int(cpu[1] or "0", 16), int(cpu[2], 16), more="/".join(cpu.group(3, 4, 5)) if cpu[3] else ""
            )
            cpus.append(part)
            above = [(-1, part)]
            continue
        link = _NODE.match(line)
        assert link is not None, line
        begins = len(link["indent"])
        while len(above) > 1 and above[-1][0] >= begins:
            above.pop()
        if not above:
            raise file.error("the tree does not begin with a CPU; its first lines are missing")
        owner = above[-1][1]
        if link["kind"] == "PCI" and link["type"] != "CPU":
            part = _Part(
                link["type"],
                int(link["system"] or "0", 16),
                int(link["id"], 16),
                float(link["rate"]),
                link["more"] or "",
            )
            if len(above) > MAX_DEPTH:
                raise file.error(f"a tree of components nested more than {MAX_DEPTH} deep")
            owner.children.append(part)
            above.append((begins, part))
        elif link["kind"] not in ("SYS", "LOC"):
            if owner.type == "CPU":
                if link["type"] == "GPU":  # seen from POWER CPUs, and by C2C: the GPU states it, too
                    continue
                raise file.error(
                    f"{link['kind']} below a CPU: the tree has lost the blanks in front of its lines; expected the log "
                    "as it was, or the file that NCCL_TOPO_DUMP_FILE=nccl.xml writes"
                )
            owner.links.append(link)
    return cpus


# ---- from parts to a tree of PCI ------------------------------------------------------------------------------------


def _tree(file: File, lines: _Lines, names: Mapping[tuple[str, int], str], hosts: int) -> PciTree:
    cpus = _parts(file, lines.parts)
    rates = [link for cpu in cpus for part in _below(cpu) for link in part.links if link["kind"] in ("NVL", "XGMI")]
    per_link, arch = _link_rate(file, rates, cpus)
    nodes = tuple(_cpu(cpu, per_link, arch, names) for cpu in cpus)
    tree = PciTree("NCCL's log", nodes)
    if not tree.of_kind("gpu"):
        raise file.error("the tree of NCCL's log has no GPU; it may be cut off")
    notes = ["GPUs and network cards that this job does not use: NCCL's log has those of the job alone"]
    if not lines.closed:
        notes.append("whether the machine has more: no line ends the tree (=====), so that the log may be cut off")
    if hosts > 1:
        notes.append(f"the other hosts: the log has the trees of {hosts}, of which the first is taken")
    if not rates:
        notes.append("NVLink: the log shows none between these GPUs")
    return PciTree(tree.source, nodes, tuple(notes))


def _below(part: _Part) -> list[_Part]:
    return [part, *(each for child in part.children for each in _below(child))]


def _link_rate(file: File, links: Sequence[re.Match[str]], cpus: Sequence[_Part]) -> tuple[float, str]:
    """(GB/s of one link, architectures that have it), by which all rates are whole numbers of links.

    No architecture fits whose PCIe is older than that of the GPUs; of the others, those with the oldest do.
    """
    if not links:
        return 0.0, ""
    table = _XGMI if links[0]["kind"] == "XGMI" else _NVLINKS
    parts = [part for cpu in cpus for part in _below(cpu)]
    totals = [sum(float(link["rate"]) for link in part.links if link["kind"] in ("NVL", "XGMI")) for part in parts]
    seen = max((_pcie(part.rate_GBps)[0] or 0 for part in parts if part.type == "GPU"), default=0)
    found = [
        (pcie, rate, arch)
        for rate, most, arch, pcie in table
        if all(abs(float(link["rate"]) / rate - _count(link, rate)) * rate < 0.1 for link in links)
        and max(totals) < (most + 0.5) * rate
    ]
    if not found:
        raise file.error(f"{links[0]['kind']}[{links[0]['rate']}]: no number of links at a rate that NCCL plans with")
    fitting = [each for each in found if each[0] >= seen]
    if not fitting:
        return found[0][1], ""
    oldest, rate, _ = min(fitting, key=lambda each: each[0])
    return rate, " or ".join(arch for pcie, own, arch in fitting if (pcie, own) == (oldest, rate))


def _count(link: re.Match[str], per_link: float) -> int:
    return max(1, round(float(link["rate"]) / per_link))


def _address(system: int, number: int) -> str:
    """NCCL's number of a device as its address: 68000 is 0000:68:00.0 (its digits without the marks)."""
    number &= 2**36 - 1
    address = f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"
    return f"{system:x}{address}" if 0 < system < 2**12 else address


def _cpu(cpu: _Part, per_link: float, arch: str, names: Mapping[tuple[str, int], str]) -> PciNode:
    numa = "-1" if cpu.id >= 2**31 else str(cpu.id)
    children = tuple(node for child in cpu.children for node in _node(child, per_link, arch, names))
    return PciNode("cpu", numa, product=_product(cpu.more), host=f"{cpu.system:x}", children=children)


def _product(codes: str) -> str:
    """A CPU by its architecture, vendor and model: x86, POWER and Arm are 1 to 3, Intel and AMD 1 and 2."""
    architecture, vendor, model = [*map(int, codes.split("/")), 0, 0, 0][:3] if codes else (0, 0, 0)
    if architecture == 1 and vendor == 1:
        return f"Intel CPU ({_INTEL[model]})" if model in _INTEL else "Intel CPU"
    return {1: "AMD CPU" if vendor == 2 else "", 2: "POWER CPU", 3: "Arm CPU"}.get(architecture, "")


def _node(part: _Part, per_link: float, arch: str, names: Mapping[tuple[str, int], str]) -> list[PciNode]:
    """A device, or what is in its place: of NCCL's DEV, the GPU that it is."""
    address = _address(part.system, part.id)
    generation, lanes = _pcie(part.rate_GBps)
    if part.type in ("GPU", "DEV"):
        ids = re.fullmatch(r"([0-9a-f]{4})([0-9a-f]{4})[0-9a-f]{8}", part.more.lower())
        gpu = PciNode(
            kind="gpu",
            name=address,
            generation=generation,
            lanes=lanes,
            index=int(part.more) if re.fullmatch(r"\d{1,6}", part.more) else None,
            nvlinks=tuple(_ends(part, per_link)) or None,
            device=device_id(*ids.groups()) if ids else "",
            arch=arch,
            c2c=_c2c(part),
        )
        return [gpu]
    nets = [link for link in part.links if link["kind"] == "NET"]
    if part.type == "NIC" or nets:
        speeds = [_speed_GBps(net) * 1e9 for net in nets]
        label = next((name for net in nets if (name := names.get(("IB", int(net["id"], 16))))), "")
        return [PciNode("nic", address, generation, lanes, speed_Bps=sum(speeds) or None, label=label)]
    children = tuple(node for child in part.children for node in _node(child, per_link, arch, names))
    return [PciNode("bridge", address, generation, lanes, children=children)] if children else []


def _speed_GBps(net: re.Match[str]) -> float:
    """Of a network card: what stands last behind its name, where that is the rate that is rounded before it."""
    rounded, exact = float(net["rate"]), (net["more"] or "").rpartition("/")[2]
    known = float(exact) if re.fullmatch(r"\d{1,6}\.\d{1,9}", exact) else rounded
    return known if abs(known - rounded) <= _ROUNDED_GBps else rounded


def _pcie(rate_GBps: float) -> tuple[int | None, int | None]:
    """Generation and lanes of a link by NCCL's GB/s: of several that give it, 16 lanes, else a generation from 3 on."""
    fits = [
        (generation, lanes) for lanes in _LANES for generation, lane in _LANE.items()
        if abs(lanes * lane / 80 - rate_GBps) < 0.06
    ]  # fmt: skip
    wide = [fit for fit in fits if fit[0] >= 3]
    return next(iter(wide or fits), (None, None))


def _ends(part: _Part, per_link: float) -> Iterable[NvlinkEnd]:
    for link in part.links:
        if link["kind"] in ("NVL", "XGMI"):
            target = _address(int(link["system"] or "0", 16), int(link["id"], 16))
            yield NvlinkEnd(
                target, _count(link, per_link), link["type"] == "NVS", link["type"] == "CPU", link["kind"] == "XGMI"
            )


def _c2c(part: _Part) -> C2c | None:
    rates = [float(link["rate"]) * 1e9 for link in part.links if link["kind"] == "C2C"]
    return C2c(sum(rates)) if rates else None


# ---- what else a log tells ------------------------------------------------------------------------------------------


def _beside(text: str) -> Iterable[str]:
    """Version, rings, connections and network, each in short."""
    if version := _VERSION.search(text):
        yield f"NCCL {version[1]}"
    channels = channels_of(text)
    if channels is not None and channels.rings:
        order = " ".join(map(str, channels.rings[0][:16])) + " ..." * (len(channels.rings[0]) > 16)
        yield f"{len(channels.rings)} rings, the first {order}"
    if channels is not None and channels.transports:
        counted = Counter(channels.transports).most_common(4)
        yield "connections by " + ", ".join(f"{name} ({count})" for name, count in counted)
    networks = dict.fromkeys(re.findall(r"NCCL INFO NET/(\w{1,40}) : Using ", text))
    if networks:
        cards = [name for (network, _), name in sorted(card_names(text).items()) if network in networks]
        some = ", ".join(cards[:8]) + f" and {len(cards) - 8} more" * (len(cards) > 8)
        yield f"network: {', '.join(networks)}" + f" by {some}" * bool(cards)
