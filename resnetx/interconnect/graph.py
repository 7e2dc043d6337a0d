"""The link graph of a system: components joined by links. Figures are in base units."""

from functools import cached_property
from typing import Literal

import msgspec

from resnetx.interconnect.parts import NVLINK_KERNELS, ComponentSpec, GpuSpec, WireSpec

Library = Literal["nccl1", "nccl2", "nccl2.4", "nvls", "gloo"]
Rails = Literal["nearest", "all", "one"]  # the network cards of a node that a library drives; nearest: to each GPU
NO_NODE = -1  # where the fabric is that joins nodes


class Component(msgspec.Struct, frozen=True):
    """A vertex of the link graph. `node` is the number of the machine it is in."""

    name: str
    part_name: str
    part: ComponentSpec
    x: float  # where it is drawn; y grows upward, like the hierarchy: GPUs low, CPUs high
    y: float
    node: int = 0

    @property
    def kind(self) -> str:
        return self.part.kind


class Link(msgspec.Struct, frozen=True):
    """An edge of the link graph: `lanes` lanes that carry traffic in both directions."""

    a: str
    b: str
    part_name: str
    wire: WireSpec
    lanes: int
    source: str  # of the wiring, not of the wire's figures

    @property
    def name(self) -> str:
        return f"{self.a}-{self.b}"

    @property
    def bandwidth_Bps(self) -> float:
        """Per direction, by the datasheet."""
        return self.lanes * self.wire.bandwidth_Bps.value

    @property
    def copy_Bps(self) -> float:
        """Per direction, as large copies see it."""
        return self.lanes * self.wire.copy_Bps.value

    @property
    def duplex_Bps(self) -> float:
        """Both directions together, when both are busy."""
        return self.lanes * self.wire.duplex_Bps.value if self.wire.duplex_Bps else 2 * self.copy_Bps

    @property
    def kernel_Bps(self) -> float:
        """Per direction, as the kernels of collectives see it."""
        if self.wire.kernel_Bps is not None:
            return self.lanes * self.wire.kernel_Bps.value
        return self.copy_Bps * (NVLINK_KERNELS if self.wire.family == "nvlink" else 1)


class System(msgspec.Struct, frozen=True, dict=True):
    """A machine, or several joined by a network."""

    name: str
    about: str
    library: Library
    components: tuple[Component, ...]  # GPUs in the order of their ids
    links: tuple[Link, ...]
    nodes: int = 1
    network: str | None = None  # the name of what joins the nodes
    nics: int | None = None  # used of each node
    rails: Rails = "nearest"  # what NCCL drives of them

    @cached_property
    def gpus(self) -> list[Component]:
        """A GPU's id is its place here; ids go on from node to node."""
        return [component for component in self.components if component.kind == "gpu"]

    @cached_property
    def cpus(self) -> dict[int, tuple[str, ...]]:
        """The names of each node's CPUs, by its number."""
        found: dict[int, tuple[str, ...]] = {}
        for component in self.components:
            if component.kind == "cpu":
                found[component.node] = (*found.get(component.node, ()), component.name)
        return found

    @cached_property
    def neighbours(self) -> dict[str, list[tuple[Link, str]]]:
        """The links of every component, each with what is at its other end."""
        found: dict[str, list[tuple[Link, str]]] = {component.name: [] for component in self.components}
        for link in self.links:
            found[link.a].append((link, link.b))
            found[link.b].append((link, link.a))
        return found

    @cached_property
    def _by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components}

    def component(self, name: str) -> Component:
        return self._by_name[name]

    def gpu_part(self, device: int) -> GpuSpec:
        part = self.gpus[device].part
        assert isinstance(part, GpuSpec)
        return part
