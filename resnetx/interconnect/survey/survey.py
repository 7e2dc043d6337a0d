"""What is known of a machine before figures are chosen for it: who hangs where, and what was not said.

    Survey
      cpus       NUMA nodes
      nodes      GPUs, network cards and switches, each with what is above it
      direct     NVLinks between pairs of GPUs; `switched`: NVLinks of a GPU into a switch
      peers      which pairs may be peers, where that is said
      ports      which NVLinks of a GPU are up, where that is said
      findings   what the sources say that deserves a look, in sentences
      unknown    what they do not say

Texts, XML and the machine at hand all become one (`matrix`, `reading`), several of one machine are joined
here, and `file` makes a system's file of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from resnetx.errors import ConfigError
from resnetx.formats.nvidia_smi_topo import NvlinkPorts
from resnetx.formats.pci_tree import C2c

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
        product=node.product or same.product,
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
