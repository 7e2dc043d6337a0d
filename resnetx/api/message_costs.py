"""What messages cost by themselves on the systems of a comparison: collectives over sizes, copies to single GPUs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from resnetx.errors import ConfigError
from resnetx.interconnect import collective, paths
from resnetx.interconnect.host_io import from_host
from resnetx.interconnect.system import System
from resnetx.prediction.messages import error_of
from resnetx.record.prediction import PredictedPoint
from resnetx.record.system_comparison import CollectivePoint, CopyPoint

COLLECTIVES = ("allreduce", "broadcast")
GPUS = (4, 8)  # of the curves of collectives, as in Tallent et al. 2017, Fig. 10 and 11, where these were predicted
# Over five decades, and closely where ResNet/x's payloads are (Fig. 10b).
SIZES_BYTES = sorted({2**power for power in range(12, 30)} | {half * 500_000 for half in range(1, 13)})
# Of copies: from 4 bytes to where only bandwidth counts, by way of those of Tallent et al. 2017, Fig. 9.
COPIED_BYTES = (4, 100_000, 10**6, 10**7, 2**28)


def collectives(points: Iterable[PredictedPoint], machines: Mapping[str, System]) -> Iterator[CollectivePoint]:
    """What collectives of any size cost by the description of the systems, on the GPUs of the predictions."""
    able = [point for point in points if point.gpus > 1 and point.outcome != "refused"]
    asked = {(point.system, point.library, point.gpus): point.devices for point in able}
    several = {gpus for _, _, gpus in asked}
    drawn = several & set(GPUS) or several
    for (name, library, gpus), devices in asked.items():
        if name in machines and gpus in drawn:
            for each in COLLECTIVES:
                yield from _curve(machines[name], library, each, devices)


def _curve(machine: System, library: str, name: str, devices: Sequence[int]) -> Iterator[CollectivePoint]:
    plan = collective.plan(machine, name, devices, library)
    for size_bytes in SIZES_BYTES:
        cost = plan.cost(size_bytes)
        yield CollectivePoint(
            system=machine.name,
            library=library,
            collective=name,
            gpus=len(devices),
            size_bytes=size_bytes,
            time_s=cost.time_s,
            algbw_Bps=cost.algbw_Bps,
            error=error_of(plan, [size_bytes]),
        )


def copies(machines: Mapping[str, System]) -> Iterator[CopyPoint]:
    """Copies from GPU 0 to each other GPU of its node, and from the host's memory to GPU 0."""
    for name, machine in machines.items():
        for target in range(1, len(machine.gpus) // machine.nodes):
            with suppress(ConfigError):  # of GPUs that are no peers, without a CPU to stage copies in
                yield from _copied(name, machine, target)
        if bus := from_host(machine, [0]):
            for size_bytes in COPIED_BYTES:
                time_s = machine.gpu_part(0).copy_s.value + size_bytes / bus.rate_Bps
                yield CopyPoint(system=name, source=None, target=0, size_bytes=size_bytes, time_s=time_s, peers=False)


def _copied(name: str, machine: System, target: int) -> Iterator[CopyPoint]:
    path, peers = paths.copy_path(machine, 0, target), paths.are_peers(machine, 0, target)
    for size_bytes in COPIED_BYTES:
        time_s = path.latency_s + size_bytes / path.bandwidth_Bps
        yield CopyPoint(system=name, source=0, target=target, size_bytes=size_bytes, time_s=time_s, peers=peers)
