"""What is known of a machine before figures are chosen for it: who hangs where, and what was not said.

    Survey
      cpus       NUMA nodes
      nodes      GPUs, network cards and switches, each with what is above it
      direct     NVLinks between pairs of GPUs; `switched`: NVLinks of a GPU into a switch
      peers      which pairs may be peers, where that is said
      ports      which NVLinks of a GPU are up, where that is said
      findings   what the sources say that deserves a look, in sentences
      unknown    what they do not say

Texts, XML and the machine at hand all become one (`survey_sources`), several of one machine are joined
here, and `system_text` makes a system's file of it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any, Literal

from resnetx.errors import ConfigError, unknown_name
from resnetx.formats.smi_topo import NvlinkPorts
from resnetx.formats.topology_xml import C2c
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.system import MAX_COMPONENTS
from resnetx.loading import own_yaml
from resnetx.settings.files import CONFIGS
from resnetx.units import how_many

Pair = tuple[int, int]  # two GPUs, by their numbers

NAMES, PEERS, DISTANCES, TREE = range(4)  # what a survey tells of wiring: nothing, who are peers, how near, where


@dataclass(frozen=True)
class SeenCpu:
    """A NUMA node with CPUs."""

    name: str  # cpu0
    numa: str = ""  # its number, as the source has it
    product: str = ""
    host: str = ""


@dataclass(frozen=True)
class SeenNode:
    """A GPU, a network card, a drive or a switch. GPUs stand in the order of their numbers."""

    kind: Literal["gpu", "nic", "storage", "switch"]
    name: str  # gpu0, as the system's file calls it
    above: str  # the switch or CPU that it hangs below
    bridge: str = ""  # by which host bridge of the CPU; "": not said
    label: str = ""  # as the source calls it: GPU0, mlx5_0
    bus: str = ""
    product: str = ""
    generation: int | None = None  # of PCIe
    lanes: int | None = None
    speed_Bps: float | None = None  # of a network card, each way
    device: str = ""  # vendor and device id on PCI: "10de:2684"
    arch: str = ""  # of a GPU: "sm_89", "gfx90a"
    c2c: C2c | None = None  # of a GPU: its links to the CPU beside PCIe


@dataclass(frozen=True)
class Survey:
    """A machine, as far as it is known."""

    source: str  # what said so: "nvidia-smi topo -m"
    cpus: tuple[SeenCpu, ...]
    nodes: tuple[SeenNode, ...]
    direct: Mapping[Pair, int] = field(default_factory=dict)
    switched: Mapping[int, int] = field(default_factory=dict)
    peers: Mapping[Pair, bool] = field(default_factory=dict)
    link: str = ""  # the kind of links between GPUs, where it is said: "xgmi"
    host_links: Mapping[int, int] = field(default_factory=dict)  # NVLinks of a GPU to its CPU
    words: Mapping[Pair, str] = field(default_factory=dict)  # nearness as nvidia-smi has it
    ports: Mapping[int, NvlinkPorts] = field(default_factory=dict)  # by the number of a GPU
    findings: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    worth: int = TREE  # how much of the wiring it tells

    @property
    def gpus(self) -> list[SeenNode]:
        return [node for node in self.nodes if node.kind == "gpu"]

    def of_kind(self, kind: str) -> list[SeenNode]:
        return [node for node in self.nodes if node.kind == kind]

    @property
    def has_nvlinks(self) -> bool:
        return bool(self.direct or self.switched)


def joined(surveys: Sequence[Survey]) -> Survey:
    """Several surveys of one machine as one; what tells most of the wiring is the base, the others add to it."""
    whole, *others = sorted(surveys, key=lambda survey: -survey.worth)
    if not whole.gpus:
        raise ConfigError(f"{whole.source}: it has no GPU; expected a machine with GPUs")
    if whole.worth == NAMES:
        down = f" ({whole.findings[0]})" if whole.findings else ""
        has = f"which NVLinks are up{down}, not where they lead" if whole.ports else "names of GPUs alone"
        raise ConfigError(f"{whole.source}: {has}; expected nvidia-smi topo -m or NCCL's XML, too")
    for other in others:
        numbers = [int(gpu.label[3:]) for gpu in other.gpus] if other.worth == NAMES else []
        if not numbers and len(other.gpus) != len(whole.gpus):
            raise ConfigError(
                f"{other.source} has {len(other.gpus)} GPUs, {whole.source} {len(whole.gpus)}: expected files of one "
                "machine"
            )
        if numbers and (max(numbers) >= len(whole.gpus) or (not other.ports and len(numbers) < len(whole.gpus))):
            raise ConfigError(
                f"{other.source} has {len(numbers)} GPUs, up to GPU{max(numbers)}, {whole.source} "
                f"{len(whole.gpus)}: expected files of one machine"
            )
        whole = _with(whole, other)
    up = {gpu: len(whole.ports[gpu].up) if gpu in whole.ports else links for gpu, links in whole.switched.items()}
    return replace(whole, switched={gpu: links for gpu, links in up.items() if links})


def _with(whole: Survey, other: Survey) -> Survey:
    """A survey with what another one knows more."""
    linked = whole if whole.has_nvlinks or not other.has_nvlinks else other
    return replace(
        whole,
        source=f"{whole.source}; {other.source}",
        nodes=tuple(_named(node, other) for node in whole.nodes),
        direct=linked.direct,
        switched=linked.switched,
        link=linked.link,
        ports={**whole.ports, **other.ports},
        findings=tuple(dict.fromkeys([*whole.findings, *other.findings])),
        peers={**whole.peers, **other.peers},
        words=whole.words or other.words,
        unknown=tuple(dict.fromkeys([*_still_unknown(whole, linked), *_still_unknown(other, linked)])),
        host_links=whole.host_links or other.host_links,
    )


def _named(node: SeenNode, other: Survey) -> SeenNode:
    """A GPU with the name and the PCIe link that the other survey knows of it."""
    if node.kind != "gpu":
        return node
    same = _same(node, other)
    if same is None:
        return node
    return replace(
        node,
        label=node.label or same.label,
        bus=node.bus or same.bus,
        product=same.product if node.product.endswith("...") and same.product else node.product or same.product,
        generation=node.generation or same.generation,
        lanes=node.lanes or same.lanes,
        device=node.device or same.device,
        arch=node.arch or same.arch,
        c2c=node.c2c or same.c2c,
    )


def _same(node: SeenNode, other: Survey) -> SeenNode | None:
    """A GPU in another survey: where that is a list of names, which may be of some GPUs, by its number."""
    if other.worth == NAMES:
        return next((gpu for gpu in other.gpus if gpu.label[3:] == node.name[3:]), None)
    return other.gpus[int(node.name[3:])]


def _still_unknown(survey: Survey, linked: Survey) -> list[str]:
    """What a survey did not say, but for NVLinks where another one has them."""
    if survey.worth < DISTANCES:  # what it does not say of wiring, the others do
        return []
    return [said for said in survey.unknown if not (linked.has_nvlinks and said.startswith(("NVLink: ", "XGMI: ")))]


# ---- parts ----------------------------------------------------------------------------------------------------------
# Which described parts a surveyed machine is made of, and which figures are assumed where no source names a part.
#
# What a source names is looked up in `configs/system/parts`; what a setting names wins. A part that nobody names gets
# the figures of the nearest one by what is known (the generation of PCIe), each marked `assumed` with the reason, under
# a name of its own. GPUs are in `gpus`.

# PCI Express Base Specification: GB/s of a lane and direction, after encoding.
PCIE_GBps = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
PEERS_THROUGH_CPU_GBps = {3: 10.3, 4: 20.0, 5: 54.6}  # of Xeon E5-2697 v4, twice that, EPYC 9575F
FABRICS = {  # kind of NVLink -> that into a switch, and the switch
    "nvlink2": ("nvlink2-to-nvswitch", "nvswitch1"),
    "nvlink3": ("nvlink3", "nvswitch2"),
    "nvlink4": ("nvlink4", "nvswitch3"),
    "nvlink5": ("nvlink5", "nvswitch4-hgx"),
}
RACKS = {"nvswitch4-hgx": "nvswitch4"}  # switch of a baseboard -> that of a rack (NVL72) in its place
SOCKETS = {  # the links between two CPUs of a kind, as the systems that come with resnetx have them
    "xeon-e5": ("qpi-9.6", 2),
    "xeon-platinum": ("upi-10.4", 3),
    "xeon-gold": ("upi-10.4", 3),
    "xeon-8": ("upi-16", 4),
    "epyc-9": ("xgmi-turin", 1),
    "epyc": ("xgmi-rome", 4),
    "power8": ("xbus-power8", 1),
    "power9": ("xbus-power9", 1),
    "grace": ("c2c-grace", 1),
}
_MAKERS = ("Intel", "AMD", "NVIDIA")
_CPU_BY_WORD = (
    ("Broadwell", "xeon-e5-2698v4"), ("Haswell", "xeon-e5-2690v3"), ("Skylake", "xeon-platinum-8168"),
    ("Sapphire", "xeon-8480c"), ("Emerald", "xeon-8570"), ("POWER", "power9"), ("Arm", "grace"), ("Grace", "grace"),
)  # fmt: skip
_CPU_BY_PCIE = {4: "epyc-7742", 5: "xeon-8480c", 6: "xeon-8480c"}  # else Xeon E5-2698 v4

Entry = dict[str, Any]  # of a part, as a file has it


@dataclass(frozen=True)
class PartSettings:
    """What the user says of parts that the sources do not name."""

    gpu: str | None = None
    cpu: str | None = None
    nic: str | None = None
    pcie: int | None = None  # generation


@dataclass
class Chosen:
    """Parts by name; `own`: those of the file's own, by table; `unknown`: what had to be assumed."""

    own: dict[str, dict[str, Entry]] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)  # own part -> the described one that its figures are of
    unknown: list[str] = field(default_factory=list)

    def add(self, table: str, name: str, entry: Entry, base: str = "") -> str:
        self.own.setdefault(table, {})[name] = entry
        self.bases[name] = base
        return name

    def entry(self, table: str, name: str) -> Entry:
        """A part, described or of the file's own."""
        return self.own.get(table, {}).get(name) or entries(table)[name]


@cache
def entries(table: str) -> Mapping[str, Entry]:
    """The shared parts of one kind, with keys and units as their file has them."""
    read: Mapping[str, Entry] = own_yaml(CONFIGS / "system" / "parts" / f"{table}.yaml", dict[str, dict[str, Any]])
    return read


def assumed(table: str, base: str, about: str, why: str) -> Entry:
    """A part with the figures of another one, each marked as assumed."""
    entry: Entry = {"about": about}
    for key, value in entries(table)[base].items():
        if key in ("about", "product_names", "chip", "peer_links", "single_thread"):
            continue
        entry[key] = [value[0], "assumed", f"as {base}: {why}"] if isinstance(value, list) else value
    return entry


def named(table: str, kind: str, name: str) -> str:
    """The shared part that a setting names: exactly, or by the only name that begins so."""
    return the_only(beginning(table, name), entries(table), kind, name)


def beginning(table: str, name: str) -> list[str]:
    """The shared parts of this name, or whose names begin so; of a10, those of an A10 rather than of an A100."""
    known = entries(table)
    whole = [each for each in known if each == name] or [each for each in known if each.startswith(f"{name}-")]
    return whole or [each for each in known if each.startswith(name)]


def the_only(fitting: Sequence[str], known: Iterable[str], kind: str, name: str) -> str:
    if not fitting:
        raise unknown_name(kind, name, known, kind)
    if len(fitting) > 1:
        raise ConfigError(f"{kind}={name}: several names begin with it; expected one of {', '.join(fitting)}")
    return fitting[0]


# ---- CPUs -----------------------------------------------------------------------------------------------------------


def cpu_part(cpu: SeenCpu, generation: int, settings: PartSettings, chosen: Chosen, peers: bool | None) -> str:
    """The part of a CPU. `peers`: whether GPUs are peers through it; None: not said."""
    base, why = _cpu_base(cpu, generation, settings)
    entry = entries("cpus")[base]
    if not why and (peers is None or peers == ("peer_GBps" in entry)):
        return base
    about = f"{cpu.product or 'a CPU that no source names'}, with the figures of {base}" if why else entry["about"]
    own = assumed("cpus", base, about, why) if why else dict(entry)
    if peers is False:
        own.pop("peer_GBps", None)
    elif peers and "peer_GBps" not in own:
        rate = PEERS_THROUGH_CPU_GBps.get(generation, PEERS_THROUGH_CPU_GBps[3 if generation < 3 else 5])
        own["peer_GBps"] = [rate, "assumed", "as other hosts of this generation of PCIe; that it passes is said"]
    if why:
        chosen.unknown.append(f"the CPU: {why}; its figures are assumed, as {base}; cpu=NAME names it")
    name = (slug(cpu.product) or "cpu-not-named") if why else f"{base}-peers-as-said"
    return chosen.add("cpus", name, own, base)


def _cpu_base(cpu: SeenCpu, generation: int, settings: PartSettings) -> tuple[str, str]:
    """(described part, why it is assumed or "")."""
    if settings.cpu is not None:
        return named("cpus", "cpu", settings.cpu), ""
    words = re.sub(r"\((?:R|TM)\)|CPU|Processor|-Core", " ", cpu.product).split()
    plain = [word for word in words if word not in _MAKERS]
    for name, entry in entries("cpus").items():
        model = [word for word in entry["about"].partition("(")[0].split() if word not in _MAKERS]
        if (len(model) > 1 and " ".join(model) in " ".join(plain)) or model == plain:
            return name, ""
    said = f"{cpu.product} is a family of several" if cpu.product else "no source names it"
    for word, base in _CPU_BY_WORD:
        if word in cpu.product:
            return base, said
    if "AMD" in cpu.product:
        return ("epyc-9575f" if generation >= 5 else "epyc-7742"), said
    if "Intel" in cpu.product and generation == 4:  # Ice Lake, of which none is described
        return "xeon-8480c", said
    return _CPU_BY_PCIE.get(generation, "xeon-e5-2698v4"), said


def socket_link(cpu: str) -> tuple[str, int]:
    """(kind, lanes) of the link between two CPUs like a described one."""
    return next((link for stem, link in SOCKETS.items() if cpu.startswith(stem)), SOCKETS["xeon-e5"])


# ---- network cards and PCIe -----------------------------------------------------------------------------------------


def nic_part(speed_Bps: float | None, generation: int, settings: PartSettings, chosen: Chosen) -> str:
    """The part of a network card: by its speed, where that is said."""
    if settings.nic is not None:
        return named("nics", "nic", settings.nic)
    if speed_Bps:
        about = f"a network card of {speed_Bps * 8e-9:g} Gb/s"
        figure = [speed_Bps * 1e-9, "measured", "the speed of its link, as the machine states it"]
        return chosen.add("nics", f"nic-{speed_Bps * 8e-9:g}gbps", {"about": about, "bandwidth_GBps": figure})
    rate = {4: 25.0, 5: 50.0, 6: 50.0}.get(generation, 12.5)
    chosen.unknown.append("the speed of network cards: not said; assumed by PCIe's; nic=NAME names the card")
    figure = [rate, "assumed", "as cards of this generation of PCIe; no source states it"]
    entry = {"about": "a network card of unknown speed", "bandwidth_GBps": figure}
    return chosen.add("nics", "nic-not-named", entry)


def pcie_part(generation: int, chosen: Chosen) -> str:
    """The kind of a PCIe link."""
    name = f"pcie{generation}"
    if name not in entries("links"):
        rate = PCIE_GBps[generation]
        chosen.add("links", name, {
            "about": f"PCI Express {generation}.0", "family": "pcie",
            "bandwidth_GBps": [rate, "datasheet", f"PCI Express Base Specification {generation}.0"],
            "copy_GBps": [round(0.83 * rate, 4), "assumed", "the share that PCIe 3.0 reaches"],
            "latency_us": [2.5, "assumed", "as PCIe 3.0"],
        })  # fmt: skip
    return name


def c2c_part(links: C2c, bus: str, chosen: Chosen) -> str:
    """NVLink-C2C between a GPU and its CPU: at the rate that the source states, else as the GPU has."""
    if links.Bps is None:
        return bus if bus.startswith("c2c") else "c2c"
    several = f", {links.links} links of {links.Bps / links.links / 1e9:.4g} GB/s" if links.links else ""
    return chosen.add("links", f"c2c-{links.Bps / 1e9:.0f}gbps", {
        "about": f"NVLink-C2C{several}", "family": "nvlink",
        "bandwidth_GBps": [links.Bps / 1e9, "measured", "the rate of its links, as the machine states it"],
        "copy_GBps": [round(links.Bps * 16 / 17 / 1e9, 1), "assumed", "16 of every 17 flits carry data"],
        "latency_us": [1, "assumed", "below NVLink's"], "peer": False,
    })  # fmt: skip


def switch_part(generation: int) -> str:
    """A PCIe switch."""
    return {4: "pcie4-switch", 5: "pcie5-switch", 6: "pcie5-switch"}.get(generation, "plx-8764")


def slug(product: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", product.lower()).strip("-.")[:60]


# ---- planned --------------------------------------------------------------------------------------------------------
# A machine that exists on paper: like a described one, with other numbers of GPUs, switches and CPUs.
#
#     planned(system.load("pcie-gen5"), Plan(gpus=16, switches=4))
#
# GPUs hang evenly below switches, these evenly below CPUs. Whatever the plan does not say is as in the machine that it
# is like, and is assumed: the survey's source says so, and each of its guesses is among what is unknown.

_MEETING = {"PIX": "switch", "PXB": "switch", "PHB": "cpu", "NODE": "cpu", "SYS": "sockets"}


@dataclass(frozen=True)
class PaperMachine:
    """What is asked for; None: as the machine that it is like."""

    gpus: int | None = None
    switches: int | None = None
    sockets: int | None = None
    uplink: str | None = None  # gen5x16
    cards: int | None = None  # network cards on each CPU
    generation: int | None = None  # of PCIe
    gpu: str | None = None  # described parts
    cpu: str | None = None


@dataclass(frozen=True)
class _Like:
    """What the new machine takes from the other."""

    system: System
    gpus: int
    switches: int  # that GPUs hang below
    sockets: int  # that GPUs hang below
    bus: Link  # of the first GPU towards its CPU
    uplink: Link | None  # of the first such switch
    cards: int
    cards_on_switches: bool


def planned(like: System, plan: PaperMachine) -> Survey:
    """The survey of a machine on paper."""
    base = _like(like)
    gpus = plan.gpus or base.gpus
    sockets = plan.sockets or _sockets(base, plan, gpus)
    switches = _switches(base, plan, gpus, sockets)
    _check_even(gpus, switches, sockets)
    guesses: list[str] = []
    nodes = [*_gpus(base, plan, gpus, switches, sockets), *_switch_nodes(base, plan, switches, sockets)]
    nodes += _cards(base, plan, switches, sockets)
    if len(nodes) > MAX_COMPONENTS:
        raise ConfigError(f"gpus={gpus}: a machine of {len(nodes):,} components; expected at most {MAX_COMPONENTS:,}")
    direct, switched = _nvlinks(base, plan, gpus, guesses)
    survey = Survey(
        source=f"assumed: on paper, like {like.name}",
        cpus=tuple(SeenCpu(f"cpu{number}", str(number)) for number in range(sockets)),
        nodes=tuple(nodes),
        direct=direct,
        switched=switched,
        host_links=_host_links(base, plan, gpus),
        unknown=(*_guesses(base, plan, gpus, switches, sockets), *guesses),
    )
    return replace(survey, peers=_peers(like, survey) if _peers_as(base, plan) else {})


# ---- what it is like


def _like(like: System) -> _Like:
    if like.nodes > 1:
        raise ConfigError(f"like={like.name}: several nodes; expected a system of one")
    if like.uneven or any(link.through for link in like.links):
        raise ConfigError(
            f"like={like.name}: its GPUs are joined as a photonic switch was set for some traffic; expected a system "
            "whose links are wires, with as many lanes both ways"
        )
    up = {gpu.name: _upward(like, gpu.name) for gpu in like.gpus}
    first = next(iter(up.values()))
    switches = {name for name, _ in up.values() if like.component(name).kind == "switch"}
    cpus = {paths.path_to_host(like, number)[-1] for number in range(len(like.gpus))}
    cards = [component.name for component in like.components if component.kind == "nic"]
    on_switches = any(near in switches for card in cards for _, near in like.neighbours[card])
    uplink = _upward(like, next(iter(sorted(switches))))[1] if switches else None
    return _Like(like, len(like.gpus), len(switches), len(cpus), first[1], uplink, len(cards), on_switches)


def _upward(like: System, name: str) -> tuple[str, Link]:
    """(what is next on the way to a CPU, the link to it)."""
    near = like.neighbours[name]
    by_kind = {kind: (other, link) for link, other in reversed(near) if (kind := like.component(other).kind)
               and not (kind == "switch" and link.wire.family == "nvlink") and kind in ("cpu", "switch")}  # fmt: skip
    from_switch = like.component(name).kind == "switch"
    order = ("cpu", "switch") if from_switch else ("switch", "cpu")
    found = next((by_kind[kind] for kind in order if kind in by_kind), None)
    if found is None:
        raise ConfigError(f"like={like.name}: {name} has no link towards a CPU; expected a machine with CPUs")
    return found


def _shared(base: _Like, gpus: int) -> int:
    """As many switches as of which each has no fewer GPUs than one of the other machine."""
    return max(1, gpus // max(1, base.gpus // base.switches))


def _sockets(base: _Like, plan: PaperMachine, gpus: int) -> int:
    """As many as the other machine, or the most below that of which each has as many GPUs, and as many switches."""
    shared = _shared(base, gpus) if base.switches else 0
    most = (shared if plan.switches is None else plan.switches) or gpus
    even = (gpus, plan.switches or 0)
    return max(each for each in range(1, min(base.sockets, most) + 1) if not any(number % each for number in even))


def _switches(base: _Like, plan: PaperMachine, gpus: int, sockets: int) -> int:
    """As many as asked for, or the most of which each has as many GPUs, and no fewer than one of the other machine."""
    if plan.switches is not None or not base.switches:
        return plan.switches or 0
    most = range(sockets, _shared(base, gpus) + 1, sockets)
    return max((switches for switches in most if gpus % switches == 0), default=sockets)


def _check_even(gpus: int, switches: int, sockets: int) -> None:
    if switches % sockets:
        above = f"{switches} switch{'es' * (switches != 1)}"
        raise ConfigError(f"sockets={sockets}: {above} cannot be shared out evenly over them")
    for what, number in (("sockets", sockets), ("switches", switches or 1)):
        if gpus % number:
            raise ConfigError(f"{what}={number}: {how_many(gpus, 'GPU')} cannot be shared out evenly over them")


# ---- the new machine


def _gpus(base: _Like, plan: PaperMachine, gpus: int, switches: int, sockets: int) -> Iterator[SeenNode]:
    generation, lanes = _bus(base, plan)
    for gpu in range(gpus):
        above = f"pcie{gpu * switches // gpus}" if switches else f"cpu{gpu * sockets // gpus}"
        yield SeenNode("gpu", f"gpu{gpu}", above, generation=generation, lanes=lanes)


def _bus(base: _Like, plan: PaperMachine) -> tuple[int | None, int | None]:
    """(generation, lanes) of a GPU's link: of the plan, of its GPU, or of the other machine; None: no PCIe."""
    bus = entries("gpus")[plan.gpu].get("bus", "") if plan.gpu else base.bus.part_name
    if plan.generation:
        return plan.generation, 16
    if not re.fullmatch(r"pcie\d", bus):
        return None, None
    return int(bus[4:]), 16 if plan.gpu else base.bus.lanes


def _switch_nodes(base: _Like, plan: PaperMachine, switches: int, sockets: int) -> Iterator[SeenNode]:
    generation, lanes = _uplink(base, plan)
    for switch in range(switches):
        cpu = f"cpu{switch * sockets // switches}"
        yield SeenNode("switch", f"pcie{switch}", cpu, generation=generation, lanes=lanes)


def _uplink(base: _Like, plan: PaperMachine) -> tuple[int | None, int]:
    if plan.uplink is not None:
        said = re.fullmatch(r"gen([1-9])x([1-9]\d?)", plan.uplink)
        if said is None or int(said[1]) not in PCIE_GBps or int(said[2]) > 32:
            raise ConfigError(f"uplink={plan.uplink}: expected a generation and lanes, as gen5x16")
        return int(said[1]), int(said[2])
    generation = _bus(base, plan)[0]
    if plan.generation is None and base.uplink is not None and re.fullmatch(r"pcie\d", base.uplink.part_name):
        generation = int(base.uplink.part_name[4:])
    return generation, base.uplink.lanes if base.uplink else 16


def _cards(base: _Like, plan: PaperMachine, switches: int, sockets: int) -> Iterator[SeenNode]:
    """Network cards: as many on each CPU as asked for, else on switches or CPUs as in the other machine."""
    on_switches = plan.cards is None and base.cards_on_switches and switches > 0
    places, before = (switches, base.switches) if on_switches else (sockets, base.sockets)
    each = plan.cards if plan.cards is not None else -(-base.cards // max(1, before)) if base.cards else 0
    generation, lanes = _bus(base, plan)
    for number in range(places * each):
        above = f"{'pcie' if on_switches else 'cpu'}{number // each}"
        yield SeenNode("nic", f"nic{number}", above, generation=generation, lanes=lanes)


def _nvlinks(base: _Like, plan: PaperMachine, gpus: int, guesses: list[str]) -> tuple[dict[Pair, int], dict[int, int]]:
    """(links between GPUs, links into switches): a fabric grows with the GPUs, wires from one to another do not."""
    like = base.system
    if plan.gpu and not entries("gpus")[plan.gpu].get("peer_link"):
        if any(paths.nvlink_flow(like, 0, other).steps for other in range(1, base.gpus)):
            guesses.append(f"NVLinks: {plan.gpu} has none, so there are none")
        return {}, {}
    into = [link.lanes for link, near in like.neighbours["gpu0"]
            if link.wire.family == "nvlink" and like.component(near).kind == "switch"]  # fmt: skip
    if into:
        lanes = entries("gpus")[plan.gpu]["peer_links"] if plan.gpu else sum(into)
        return {}, dict.fromkeys(range(gpus), lanes)
    pairs = {(a, b): paths.nvlink_lanes(like, a, b) for a, b in combinations(range(base.gpus), 2)}
    direct = {pair: lanes for pair, lanes in pairs.items() if lanes}
    if direct and gpus != base.gpus:
        raise ConfigError(
            f"gpus={gpus}: {like.name} links its {base.gpus} GPUs directly to each other, which fixes their number; "
            "choose a like= with switches, or a gpu= without NVLink"
        )
    return direct, {}


def _host_links(base: _Like, plan: PaperMachine, gpus: int) -> dict[int, int]:
    """NVLinks of GPUs to their CPUs, as POWER CPUs have them."""
    own = entries("gpus").get(base.system.gpus[0].part_name, {}).get("peer_link")
    return dict.fromkeys(range(gpus), base.bus.lanes) if base.bus.part_name == own and not plan.gpu else {}


def _peers_as(base: _Like, plan: PaperMachine) -> bool:
    """Whether the other machine tells who are peers: not of other CPUs, nor of GPUs whose driver refuses it."""
    gpu = entries("gpus").get(plan.gpu or base.system.gpus[0].part_name, {})
    return plan.cpu is None and gpu.get("bus_peer", True)


def _peers(like: System, survey: Survey) -> dict[Pair, bool]:
    """Who are peers, by where they meet: as where GPUs of the other machine meet alike."""
    alike: dict[str, bool] = {}
    for gpu in range(1, len(like.gpus)):
        if meeting := _MEETING.get(paths.nearness(like, 0, gpu)):
            alike[meeting] = alike.get(meeting, False) or paths.are_peers(like, 0, gpu)
    found: dict[Pair, bool] = {}
    above = {node.name: node.above for node in survey.nodes}
    for a, b in combinations(range(len(survey.gpus)), 2):
        one, other = above[f"gpu{a}"], above[f"gpu{b}"]
        same_cpu = above.get(one, one) == above.get(other, other)
        where = "switch" if one == other and one in above else "cpu" if same_cpu else "sockets"
        if where in alike:
            found[a, b] = alike[where]
    return found


def _guesses(base: _Like, plan: PaperMachine, gpus: int, switches: int, sockets: int) -> Iterator[str]:
    """What the plan does not say, in words."""
    name = base.system.name
    if plan.gpu is None:
        yield f"the GPU: as {name} (assumed); gpu=NAME names another"
    if plan.cpu is None:
        peers = ", and who are peers through it" * _peers_as(base, plan)
        yield f"the CPU{peers}: as {name} (assumed); cpu=NAME names another"
    if plan.sockets is None:
        yield f"the number of CPUs: {sockets}, as {name} has with GPUs (assumed); sockets=N sets it"
    if plan.switches is None:
        yield f"the number of PCIe switches: {switches}, with GPUs as {name} has them (assumed); switches=N sets it"
    if switches:
        yield f"which GPUs share a switch: {gpus // switches} each, in the order of their ids, in one layer (assumed)"
    if switches and plan.uplink is None:
        generation, lanes = _uplink(base, plan)
        yield f"the links of switches to CPUs: PCIe {generation} x{lanes}, as {name} (assumed); uplink=genNxM sets them"
    if plan.cards is None:
        yield f"network cards: as many on each as {name} has (assumed); nic=NAME:N sets N on each CPU"
