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
    """An edge of the link graph: `lanes` lanes that carry traffic in both directions.

    Between two GPUs, more lanes may go one way than the other. Rates are those from `a` to `b`, unless `leaving` turns
    it round.
    """

    a: str
    b: str
    part_name: str
    wire: WireSpec
    lanes: int
    source: str  # of the wiring, not of the wire's figures
    bridge: str = ""  # the PCIe host bridge of a CPU that it goes into; "": not stated
    lanes_back: int | None = None  # from b to a; None: as many as from a to b
    through: str = ""  # the photonic switch that joins its two ends; "": a wire does

    @property
    def name(self) -> str:
        return f"{self.a}-{self.b}"

    def leaving(self, end: str) -> "Link":
        """The same link with `end` as its first end."""
        if end == self.a or self.lanes_back is None:
            return self
        return msgspec.structs.replace(self, a=self.b, b=self.a, lanes=self.lanes_back, lanes_back=self.lanes)

    def lanes_from(self, end: str) -> int:
        """The lanes that carry what `end` sends."""
        return self.lanes if end == self.a or self.lanes_back is None else self.lanes_back

    @property
    def uneven(self) -> bool:
        """Whether it has more lanes in one direction than in the other."""
        return self.lanes_back is not None

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
        back = self.lanes if self.lanes_back is None else self.lanes_back
        if self.wire.duplex_Bps is None:
            return (self.lanes + back) * self.wire.copy_Bps.value
        alone = abs(self.lanes - back)  # lanes without one in the other direction
        return min(self.lanes, back) * self.wire.duplex_Bps.value + alone * self.wire.copy_Bps.value

    @property
    def kernel_Bps(self) -> float:
        """Per direction, as the kernels of collectives see it."""
        if self.wire.kernel_Bps is not None:
            return self.lanes * self.wire.kernel_Bps.value
        return self.copy_Bps * (NVLINK_KERNELS if self.wire.family == "nvlink" else 1)
