"""Which part each GPU of a surveyed machine is: by its name, its PCI id, its architecture, and only else by its links.

    named by a source       the described part of this name or PCI id (`configs/pci/gpus.yaml`)
    named, not described    its name and architecture, without figures of another GPU: they are null, with the reason
    not named at all        the figures of the described GPU that is nearest by its links, each marked `assumed`

No GPU of one vendor gets figures of another's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from resnetx.interconnect.survey.survey import (
    DISTANCES,
    Chosen,
    Entry,
    PartSettings,
    SeenNode,
    Survey,
    assumed,
    beginning,
    entries,
    slug,
    the_only,
)
from resnetx.interconnect.systems.system import parts_of, system_yaml
from resnetx.loading import own_yaml
from resnetx.settings.files import CONFIGS

NOT_NAMED = "gpu-not-named"  # the part of a GPU that no source names
AMD, NVIDIA, HYGON = "1002", "10de", "1d94"  # vendors on PCI
PART_FILES = (".yaml", ".yml")  # gpu=mine.yaml names a file with a part

_BY_NVLINKS = ((4, "p100-sxm2-16gb"), (6, "v100-sxm2-16gb"), (12, "a100-sxm4-80gb"), (10**6, "h100-sxm5-80gb"))
_BY_PCIE = {4: "a100-pcie-40gb", 5: "h100-pcie-80gb", 6: "h100-pcie-80gb"}  # else P100
# Links of the bridges of cards, and a described card with such: an RTX 2080 has one link, other Turing cards two, GA102
# cards four, A100 and H100 PCIe three bridges of four, two H200 NVL 18 (data sheets of these).
_BRIDGES = ((1, "rtx2080"), (2, "rtx2080"), (4, "rtx-3090"), (12, "a100-pcie-80gb"), (18, "h100-nvl-94gb"))
_MOST_OF_A_HIVE = 4  # cards that bridges join, each to all: two or four MI210 (its data sheet)
_COPY = [3.0, "assumed", "as P100-SXM2"]
_NO_NVIDIA = [1.1, "assumed", "no GPU of NVIDIA, whose numbers tell of what NCCL does: below any of them"]
_FIGURES = {
    "fp32_TFLOPps": "the rate of fp32", "memory_GB": "the memory", "memory_GBps": "the rate of memory",
    "clock_MHz": "the clock",
}  # fmt: skip


class PciGpu(msgspec.Struct, frozen=True):
    """A PCI device that is a GPU."""

    name: str
    arch: str  # "sm_89", "gfx90a"
    part: str = ""  # described; "": none is
    also: str = ""  # what else has this id


class Architecture(msgspec.Struct, frozen=True):
    """What the GPUs of an architecture have at most."""

    bus: str
    peer_link: str = ""
    part: str = ""  # where it is that of one GPU alone


class PciTable(msgspec.Struct, frozen=True):
    """Which devices are which GPUs: "10de:2684", and their architectures."""

    devices: dict[str, PciGpu]
    architectures: dict[str, Architecture]


@cache
def pci_table() -> PciTable:
    return own_yaml(CONFIGS / "pci" / "gpus.yaml", PciTable)


# ---- the setting ----------------------------------------------------------------------------------------------------


def gpu_parts(survey: Survey, settings: PartSettings, chosen: Chosen) -> list[str]:
    """The part of each GPU."""
    if settings.gpu is not None:
        name = settings.gpu
        part = _of_file(Path(name), chosen) if name.endswith(PART_FILES) else _gpu_setting(name, survey)
        return [part] * len(survey.gpus)
    gpus = _named_alike(survey, chosen)
    kinds = {_kind(gpu): gpu for gpu in reversed(gpus)}
    found = {kind: _gpu(survey, gpu, chosen) for kind, gpu in reversed(kinds.items())}
    return [found[_kind(gpu)] for gpu in gpus]


def nvlinks_of(name: str | None) -> int:
    """How many NVLinks the GPUs of a setting have; 0: not known."""
    begin = beginning("gpus", name) if name else []
    found = {entries("gpus")[each].get("peer_links", 0) for each in begin} - {0}
    return found.pop() if len(found) == 1 else 0


def _gpu_setting(name: str, survey: Survey) -> str:
    """`gpu=p100` is the P100 that has NVLinks where the machine has them, else the one that has not.

    Where no source tells of NVLink, both are meant, and the setting has to say more.
    """
    begin = beginning("gpus", name)
    links = max((links_of(survey, gpu) for gpu in range(len(survey.gpus))), default=0)
    if links:
        begin = [each for each in begin if entries("gpus")[each].get("peer_links", 0) >= links] or begin
    elif survey.words:  # a module (SXM) is never without its links
        begin = [each for each in begin if "-sxm" not in each] or begin
    return the_only(begin, entries("gpus"), "gpu", name)


def _of_file(path: Path, chosen: Chosen) -> str:
    """The one GPU of a file of parts, as gpus.yaml has them; figures that it leaves out are null."""
    text = system_yaml(path)
    if len(text.tree) != 1:
        raise text.error(f"{len(text.tree)} parts; expected one GPU by its name, as in configs/system/parts/gpus.yaml")
    ((name, given),) = text.tree.items()
    if isinstance(given, dict):
        missing = {key: [None, "assumed", f"{what} of {name}: {path.name} does not state it"]
                   for key, what in _FIGURES.items()}  # fmt: skip
        text.tree[name] = {"about": str(name), **missing, "copy_us": _COPY, **given}
    parts_of(text, {"gpus": text.tree}, [])
    return chosen.add("gpus", str(name), text.tree[name])


# ---- what the sources say -------------------------------------------------------------------------------------------


def _kind(gpu: SeenNode) -> tuple[str, str, str]:
    return gpu.product, gpu.device, gpu.arch


def _named_alike(survey: Survey, chosen: Chosen) -> list[SeenNode]:
    """The GPUs; where a source names one kind of them, and of others nothing is said, these are taken for the same."""
    unsaid = [gpu for gpu in survey.gpus if not any(_kind(gpu))]
    products = {gpu.product for gpu in survey.gpus if gpu.product}
    if not unsaid or len(unsaid) == len(survey.gpus) or len(products) != 1:
        return survey.gpus
    (product,) = products
    chosen.unknown.append(f"the names of {len(unsaid)} GPUs: not said; {product} is assumed, as the others are")
    return [gpu if any(_kind(gpu)) else replace(gpu, product=product) for gpu in survey.gpus]


def _gpu(survey: Survey, gpu: SeenNode, chosen: Chosen) -> str:
    # The names that a product may go by: rocm-smi has the chip in front, as Arcturus GL-XL [Instinct MI100].
    wanted = {_plain(name) for name in (gpu.product, *re.findall(r"\[([^\]]+)\]", gpu.product))} - {""}
    if exact := next((part for name, part in _described() if name in wanted), ""):
        return exact
    known = pci_table().devices.get(gpu.device) or next((gpu for name, gpu in _listed() if name in wanted), None)
    if known and known.part and known.also:
        said = f"the PCI id {gpu.device} is also that of {known.also}"
        return _one_of_several(known.name, known.part, said, chosen)
    if not known and (begun := _begun(gpu.product)):
        return (
            begun[0]
            if len(begun) == 1
            else _one_of_several(gpu.product, begun[0], f"the name is cut off, as of {' and '.join(begun)}", chosen)
        )
    if known and known.part:
        return known.part
    vendor = gpu.device.partition(":")[0]
    arch = gpu.arch if not (vendor == AMD and gpu.arch.startswith("sm_")) else ""
    arch = arch or (known.arch if known else "")
    if not gpu.product and not known and (only := pci_table().architectures.get(arch, Architecture("")).part):
        return only
    name = gpu.product or (known.name if known else _unnamed(gpu.device, arch))
    if name:
        return _not_described(survey, name, arch, chosen)
    base, why = _gpu_alike(survey)
    said = "no source names the GPU"
    chosen.unknown.append(f"the GPU: {said}; its figures are assumed, as {base} ({why}); gpu=NAME names it")
    about = f"a GPU that no source names, with the figures of {base}"
    return chosen.add("gpus", NOT_NAMED, assumed("gpus", base, about, f"{said}; {why}"), base)


def _one_of_several(name: str, part: str, said: str, chosen: Chosen) -> str:
    """A part of its own with the figures of one of those that a GPU may be; `said`: why it may be others."""
    chosen.unknown.append(f"which of {name} the GPU is: {said}; its figures are assumed, as {part}")
    entry = assumed("gpus", part, f"{name}, with the figures of {part}", said)
    return chosen.add("gpus", slug(name), entry, part)


def _begun(product: str) -> list[str]:
    """The described GPUs whose names begin as one that nvidia-smi has cut off (...)."""
    if not product.endswith("..."):
        return []
    return list(dict.fromkeys(part for name, part in _described() if name.startswith(_plain(product))))


def _plain(product: str) -> str:
    """A name as drivers and lists have it in common: Tesla V100-SXM2-16GB and V100 SXM2 16GB are one."""
    return "".join(re.findall(r"[a-z0-9]+", re.sub(r"\b(?:nvidia|tesla|amd)\b", " ", product.lower())))


@cache
def _described() -> list[tuple[str, str]]:
    """Each name of a described GPU, with its part."""
    return [
        (_plain(product), part) for part, entry in entries("gpus").items() for product in entry.get("product_names", [])
    ]


@cache
def _listed() -> list[tuple[str, PciGpu]]:
    """The name of each PCI device that is a GPU, with the device."""
    return [(_plain(gpu.name), gpu) for gpu in pci_table().devices.values()]


def _unnamed(device: str, arch: str) -> str:
    """What is known of a GPU without a name; "" where that is nothing."""
    if not device and not arch:
        return ""
    vendor = {AMD: "AMD", NVIDIA: "NVIDIA", HYGON: "Hygon"}.get(
        device.partition(":")[0], "AMD" if arch.startswith("gfx") else "NVIDIA"
    )
    return f"{vendor} GPU of PCI id {device}" if device else f"{vendor} GPU"


def _not_described(survey: Survey, name: str, arch: str, chosen: Chosen) -> str:
    """A part without the figures that no source states."""
    shown = f"{name} ({arch})" if arch else name
    architecture = pci_table().architectures.get(arch.partition(" or ")[0])  # which have one kind of link in common
    links = max((links_of(survey, gpu) for gpu in range(len(survey.gpus))), default=0)
    amd = arch.startswith("gfx") or survey.link == "xgmi" or name.startswith("AMD ")
    base = entries("gpus")[_gpu_alike(survey)[0]]
    peer_link = (architecture.peer_link if architecture else base.get("peer_link", "")) if links else ""
    bus = architecture.bus if architecture else ""
    entry: Entry = {"about": f"{shown}, not described"} | ({"bus": bus} if bus else {})
    entry |= {"peer_link": peer_link, "peer_links": links} if peer_link else {}
    entry |= {"bus_peer": False} if "GeForce RTX" in name else {}
    entry["compute_capability"] = _NO_NVIDIA if amd else _capability(arch, base)
    advice = "not described; state it under parts of the system's file, or import with gpu=FILE.yaml"
    entry |= {key: [None, "assumed", f"{what} of {shown}: {advice}"] for key, what in _FIGURES.items()}
    entry["copy_us"] = _COPY
    chosen.unknown.append(
        f"the GPU: {shown} is not described: its rates and its memory are null; gpu=FILE.yaml states them"
    )
    return chosen.add("gpus", slug(shown), entry)


def _capability(arch: str, base: Entry) -> list[Any]:
    number = arch.removeprefix("sm_")
    if number != arch and number.isdecimal():
        return [int(number) / 10, "datasheet", f"{arch}, its architecture"]
    return [base["compute_capability"][0], "assumed", "no source states it"]


# ---- by links -------------------------------------------------------------------------------------------------------


def _gpu_alike(survey: Survey) -> tuple[str, str]:
    """The described GPU that is nearest by its links, and why."""
    gpus = range(len(survey.gpus))
    links = max((links_of(survey, gpu) for gpu in gpus), default=0)
    if survey.link == "xgmi":
        near = [{one, *(gpu for pair in survey.direct if one in pair for gpu in pair)} for one in gpus]  # with itself
        neighbours = max((len(each) - 1 for each in near), default=0)
        if not neighbours:
            return "mi210-64gb", "no XGMI: a card on PCIe"
        hive = neighbours < _MOST_OF_A_HIVE and all(near[other] == each for each in near for other in each)
        base = "mi300x-192gb" if neighbours == 7 else "mi210-64gb" if hive else "mi250x-gcd"
        return base, f"XGMI to {neighbours} other{'s' * (neighbours > 1)}"
    if links and all(gpu.c2c for gpu in survey.gpus):
        shared = len(survey.gpus) > len({_cpu_above(survey, gpu.name) for gpu in survey.gpus})
        return ("gb200-186gb", "NVLink-C2C, several to a CPU") if shared else ("gh200-96gb", "NVLink-C2C")
    lanes = bridge_lanes(survey)
    if lanes and (lanes <= _BRIDGES[2][0] or len(survey.gpus) > 2):  # two GPUs with more may be any
        full, base = next(bridge for bridge in _BRIDGES if lanes <= bridge[0])
        return base, f"NV{lanes} to one other and PCIe to the rest: a card with a bridge of {full} links"
    if links:
        return next(base for most, base in _BY_NVLINKS if links <= most), f"{links} NVLinks"
    generation = max((gpu.generation or 0 for gpu in survey.gpus), default=0)
    return _BY_PCIE.get(generation, "p100-pcie-16gb"), f"no NVLink, PCIe {generation or 'of unknown generation'}"


def _cpu_above(survey: Survey, name: str) -> str:
    """The CPU that a component hangs below; network cards may hang below CPUs of their own."""
    above = {node.name: node.above for node in survey.nodes}
    while name in above:
        name = above[name]
    return name


def links_of(survey: Survey, gpu: int) -> int:
    """NVLinks of a GPU to others or into switches."""
    return survey.switched.get(gpu, 0) + sum(lanes for pair, lanes in survey.direct.items() if gpu in pair)


def bridge_lanes(survey: Survey) -> int:
    """The most links of a pair where NVLinks lead each GPU to one other at most, as bridges do; 0: other wiring."""
    ends = [gpu for pair in survey.direct for gpu in pair]
    if survey.switched or survey.host_links or survey.link or len(set(ends)) < len(ends):
        return 0
    lanes = max(survey.direct.values(), default=0)
    return lanes if lanes <= _BRIDGES[-1][0] else 0


def link_findings(survey: Survey, parts: Sequence[str], chosen: Chosen) -> Iterator[str]:
    """NVLinks of bridges that are down, and links slower than their kind is."""
    assumed_part = bool(chosen.bases.get(parts[0]))
    if bridge_lanes(survey):
        for (a, b), lanes in sorted(survey.direct.items()):
            named = chosen.entry("gpus", parts[a]).get("peer_links", 0) if not assumed_part else 0
            full = named if "-sxm" not in parts[a] else 0
            if assumed_part and chosen.bases[parts[a]] in {base for _, base in _BRIDGES}:
                full = next(full for full, _ in _BRIDGES if lanes <= full)
            if 0 < lanes < full:
                down = f"{full - lanes} {'is' if full - lanes == 1 else 'are'} down"
                down += " or without a bridge: these cards take three, of four links each" * (full == 12)
                down += ", unless these are V100 of a POWER9 host" * (assumed_part and lanes == 3)
                yield f"GPU{a} to GPU{b}: {lanes} of the {full} links of their NVLink bridge are up, {down}"
    yield from _below_full(survey, parts, chosen)
    yield from _unlinked(survey, parts)
    for gpu, ports in survey.ports.items():
        links = links_of(survey, gpu)
        if ports.up and not links and survey.worth >= DISTANCES:
            yield f"GPU{gpu}: {len(ports.up)} NVLinks are up, by nvidia-smi nvlink -s; the wiring shows none"
        if links and links != len(ports.up):
            yield f"GPU{gpu}: {len(ports.up)} of its NVLinks are up, by nvidia-smi nvlink -s; the wiring has {links}"
        kind = chosen.entry("gpus", parts[gpu]).get("peer_link", "")
        full_GBps = entries("links")[kind]["bandwidth_GBps"][0] if kind else 0.0
        if ports.Bps and ports.Bps / 1e9 < 0.9 * full_GBps:
            yield f"GPU{gpu}: an NVLink runs at {ports.Bps / 1e9:.4g} GB/s, of {full_GBps:g}"


def _below_full(survey: Survey, parts: Sequence[str], chosen: Chosen) -> Iterator[str]:
    """GPUs with fewer links into switches than their part has, or else than others have."""
    for gpu, links in sorted(survey.switched.items()):
        named = 0 if chosen.bases.get(parts[gpu]) else chosen.entry("gpus", parts[gpu]).get("peer_links", 0)
        full = max(named, *survey.switched.values())
        if links < full and gpu not in survey.ports:  # which say it themselves
            yield f"GPU{gpu}: {links} of {full} NVLinks into the switches are up"


def _unlinked(survey: Survey, parts: Sequence[str]) -> Iterator[str]:
    """GPUs without any NVLink, where most GPUs, and some like them, have some; of cards in pairs one may be left."""
    links = {gpu: links_of(survey, gpu) for gpu in range(len(survey.gpus))}
    alike = {parts[gpu] for gpu in links if links[gpu]}
    without = [gpu for gpu in links if not links[gpu] and parts[gpu] in alike and gpu not in survey.ports]
    if 2 * len(without) < len(links) and not (len(without) == 1 and bridge_lanes(survey)):
        for gpu in without:
            other = ", unless it is of another kind" if parts[gpu] == NOT_NAMED else ""
            yield f"GPU{gpu}: no NVLink is up, and others have {max(links.values())}{other}"


def rate_source(survey: Survey, gpu: int) -> str | None:
    """What states the rate of a GPU's NVLinks."""
    ports = survey.ports.get(gpu)
    return f"nvidia-smi nvlink -s: {ports.Bps / 1e9:.5g} GB/s a link" if ports and ports.Bps else None
