"""What a link graph is made of: components and the links that join them. Figures are in base units."""

import msgspec

from resnetx.interconnect.parts import NVLINK_KERNELS, ComponentSpec, SourcedValue, SwitchSpec, WireSpec

FABRIC = "fabric"  # the component that joins several nodes
NO_NODE = -1  # where that is
NO_BLOCKING = SwitchSpec(
    about="A network fabric that blocks nothing", latency_s=SourcedValue(0, "assumed", "in the network's")
)


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
