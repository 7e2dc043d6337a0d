"""The link graph of a system: components joined by links. Figures are in base units."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from resnetx.interconnect.component import FABRIC as FABRIC
from resnetx.interconnect.component import NO_NODE as NO_NODE
from resnetx.interconnect.component import Component as Component
from resnetx.interconnect.component import Link as Link
from resnetx.interconnect.nodes import EqualNodes, Neighbours, neighbours
from resnetx.interconnect.parts import GpuSpec
from resnetx.record.machine import CPU, Unit

Library = Literal["nccl1", "nccl2", "nccl2.4", "nvls", "gloo"]
LaunchMode = Literal["process-per-gpu", "one-process"]  # who starts the GPUs of a node: each its process, or one all
MOST_OF_A_HOST = 16  # GPUs (DGX-2): a system of more in one node is a rack, whose hosts share one NVLink domain
Rails = Literal["nearest", "all", "one"]  # the network cards of a node that a library drives; nearest: to each GPU


class System(msgspec.Struct, frozen=True, dict=True):
    """A machine, or several equal ones joined by a network."""

    name: str
    about: str
    library: Library
    components: Sequence[Component]  # GPUs in the order of their ids
    links: Sequence[Link]
    nodes: int = 1
    network: str | None = None  # the name of what joins the nodes
    nics: int | None = None  # used of each node
    rails: Rails = "nearest"  # what NCCL drives of them
    launch_mode: LaunchMode | None = None  # None: not told
    equal: EqualNodes | None = None  # of several nodes: what both sequences above, and all below, are made from

    def of_nodes(self, equal: EqualNodes) -> "System":
        """So many of this machine."""
        return msgspec.structs.replace(
            self,
            components=equal.all_components,
            links=equal.all_links,
            nodes=equal.nodes,
            network=equal.network,
            nics=equal.nics,
            equal=equal,
        )

    @cached_property
    def gpus(self) -> Sequence[Component]:
        """A GPU's id is its place here; ids go on from node to node."""
        if self.equal:
            return self.equal.gpus
        return [component for component in self.components if component.kind == "gpu"]

    @cached_property
    def neighbours(self) -> Mapping[str, Neighbours]:
        """The links of every component, each with what is at its other end."""
        return self.equal.neighbours if self.equal else neighbours(self.components, self.links)

    @cached_property
    def plans(self) -> dict[tuple[Any, ...], Any]:
        """The plans of collectives that were made for it (`collective.plan`), as rings take time to find."""
        return {}

    @cached_property
    def found_paths(self) -> dict[tuple[Any, ...], Any]:
        """The paths that were searched for (`link_search`), as every choice of GPUs needs them."""
        return {}

    @cached_property
    def _by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components}

    def component(self, name: str) -> Component:
        return self.equal.component(name) if self.equal else self._by_name[name]

    def gpu_part(self, device: int) -> GpuSpec:
        part = self.gpu_of_node(device).part
        assert isinstance(part, GpuSpec)
        return part

    @property
    def unit(self) -> Unit:
        """What computes in it: GPUs, or where a host has none, ranks on its cores."""
        return "rank" if self.gpus and CPU in self.gpu_part(0).product_names else "GPU"

    def gpu_of_node(self, device: int) -> Component:
        """A GPU as its node alone names it."""
        return self.equal.node_gpus[device % len(self.equal.node_gpus)] if self.equal else self.gpus[device]

    def node_of(self, device: int) -> int:
        """The number of the node that a GPU is in."""
        return device // len(self.equal.node_gpus) if self.equal else self.gpus[device].node

    def in_node(self, node: int) -> Iterable[Component]:
        """The components of one node."""
        if self.equal:
            return self.equal.in_node(node)
        return [component for component in self.components if component.node == node]

    @cached_property
    def uneven(self) -> bool:
        """Whether a link between GPUs has more lanes one way than the other."""
        return any(link.uneven for link, _ in self.counted_links())

    def near(self, name: str, nodes: Collection[int]) -> Neighbours:
        """The links of a component to those in some nodes, each with what is at its other end."""
        if self.equal and name == FABRIC:
            return [pair for node in sorted(set(nodes) - {NO_NODE}) for pair in self.equal.ports(node)]
        return [(link, near) for link, near in self.neighbours[name] if self.component(near).node in nodes]

    def cards(self, node: int) -> list[str]:
        """The network cards of a node that are plugged in."""
        return [card for _, card in self.near(FABRIC, {node})]

    def counted_components(self) -> Iterable[tuple[Component, int]]:
        """Each component with how many of it there are: of equal nodes once, as a node alone names it."""
        return self.equal.counted_components() if self.equal else ((component, 1) for component in self.components)

    def counted_links(self) -> Iterable[tuple[Link, int]]:
        """Each link with how many of it there are: of equal nodes once."""
        return self.equal.counted_links() if self.equal else ((link, 1) for link in self.links)
