"""What feeds the GPUs: storage, and copies from host memory, of all GPUs that train at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resnetx.interconnect import paths
from resnetx.interconnect.graph import System
from resnetx.interconnect.max_min import fair_shares
from resnetx.interconnect.parts import Provenance, SourcedValue, StorageSpec
from resnetx.units import si


@dataclass(frozen=True)
class Supply:
    """The rate that each GPU gets while all of them read, and the weakest of its sources."""

    rate_Bps: float
    provenance: Provenance
    source: str
    through: str  # "ssd-raid4 at 2.00 GB/s"


_WEAKEST: tuple[Provenance, ...] = ("assumed", "datasheet", "measured")


def from_host(system: System, devices: Sequence[int]) -> Supply | None:
    """The slowest of copies from host memory to each of `devices` at once; None: no CPU is described."""
    flows = [paths.host_flow(system, device) for device in devices]
    known = [flow for flow in flows if flow is not None]
    if len(known) < len(devices):
        return None
    wires = {
        f"{link.part_name} at {si(link.copy_Bps, 'B/s')}": link.wire.copy_Bps
        for flow in known
        for _, _, link in flow.steps
    }
    return _supply(min(share_Bps for share_Bps, _ in fair_shares(system, known)), wires)


def from_storage(system: System, devices: Sequence[int]) -> Supply | None:
    """What each of `devices` gets of its node's storage when all of them read; None: no storage is described.

    A server that all nodes share serves those that read alike.
    """
    readers = Counter(system.gpus[device].node for device in devices)
    rates_Bps = dict.fromkeys(readers, 0.0)
    figures: dict[str, SourcedValue] = {}
    for component in system.components:
        if isinstance(component.part, StorageSpec) and component.node in rates_Bps:
            figure = component.part.bandwidth_Bps
            rates_Bps[component.node] += figure.value / (len(readers) if component.part.shared else 1)
            figures[f"{component.part_name} at {si(figure.value, 'B/s')}"] = figure
    rate_Bps = min(rates_Bps[node] / count for node, count in readers.items())
    return _supply(rate_Bps, figures) if rate_Bps else None


def _supply(rate_Bps: float, figures: Mapping[str, SourcedValue]) -> Supply:
    through, weakest = min(figures.items(), key=lambda named: _WEAKEST.index(named[1].provenance))
    return Supply(rate_Bps, weakest.provenance, weakest.source, through)
