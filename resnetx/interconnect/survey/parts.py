"""Which described parts a surveyed machine is made of, and which figures are assumed where no source names a part.

What a source names is looked up in `configs/system/parts`; what a setting names wins. A part that nobody names gets
the figures of the nearest one by what is known (the generation of PCIe), each marked `assumed` with the reason, under a
name of its own. GPUs are in `gpus`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from resnetx.errors import ConfigError, unknown_name
from resnetx.formats.pci_tree import C2c
from resnetx.interconnect.survey.survey import SeenCpu
from resnetx.loading import own_yaml
from resnetx.settings.files import CONFIGS

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
        if key in ("about", "product_names", "chip"):
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
