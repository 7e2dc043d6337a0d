"""What is known of a machine before figures are chosen for it: who hangs where, and what was not said.

    Survey
      cpus       NUMA nodes
      nodes      GPUs, network cards and switches, each with what is above it
      direct     NVLinks between pairs of GPUs; `switched`: NVLinks of a GPU into a switch
      peers      which pairs may be peers, where that is said
      unknown    what the sources do not say, in sentences

Texts, XML and the machine at hand all become one (`survey_matrix`, `survey_tree`), several of one machine are joined
here, and `survey_file` makes a system's file of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from resnetx.errors import ConfigError

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
    whole, *others = sorted(surveys, key=lambda each: -each.worth)
    if not whole.gpus:
        raise ConfigError(f"{whole.source}: it has no GPU; expected a machine with GPUs")
    if whole.worth == NAMES:
        raise ConfigError(f"{whole.source}: names of GPUs alone; expected nvidia-smi topo -m or NCCL's XML, too")
    for other in others:
        if len(other.gpus) != len(whole.gpus):
            raise ConfigError(
                f"{other.source} has {len(other.gpus)} GPUs, {whole.source} {len(whole.gpus)}: expected files of one "
                "machine"
            )
        whole = _with(whole, other)
    return whole


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
        peers={**whole.peers, **other.peers},
        words=whole.words or other.words,
        unknown=tuple(dict.fromkeys([*_still_unknown(whole, linked), *_still_unknown(other, linked)])),
        host_links=whole.host_links or other.host_links,
    )


def _named(node: SeenNode, other: Survey) -> SeenNode:
    """A GPU with the name and the PCIe link that the other survey knows of it."""
    if node.kind != "gpu":
        return node
    same = other.gpus[int(node.name[3:])]
    return replace(
        node,
        label=node.label or same.label,
        bus=node.bus or same.bus,
        product=node.product or same.product,
        generation=node.generation or same.generation,
        lanes=node.lanes or same.lanes,
    )


def _still_unknown(survey: Survey, linked: Survey) -> list[str]:
    """What a survey did not say, but for NVLinks where another one has them."""
    if survey.worth < DISTANCES:  # what it does not say of wiring, the others do
        return []
    return [said for said in survey.unknown if not (linked.has_nvlinks and said.startswith("NVLink: "))]
