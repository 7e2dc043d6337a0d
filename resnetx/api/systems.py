"""The settings that name described systems, and say how messages travel on them."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives.internode import from_host
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.system import System
from resnetx.prediction.messages import error_of
from resnetx.record.comparisons import CollectivePoint, CopyPoint
from resnetx.record.prediction import PredictedPoint
from resnetx.settings import keywords
from resnetx.settings.setting_types import written
from resnetx.study import Point
from resnetx.units import how_many

THIS = "this"  # the machine at hand, among names of systems


def load_system(name: str, nodes: int | None = None, network: str | None = None, nics: int | None = None) -> System:
    """A system by its name, its file, or `this`: the machine at hand, which is read anew."""
    if name != THIS:
        return system.load(name, nodes, network, nics)
    from resnetx.api.found_system import this_text

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{THIS}.yaml"
        path.write_text(this_text(), encoding="utf-8")
        return system.load(str(path), nodes, network, nics)


def load_systems(wanted: keywords.TopologyFields | keywords.PredictFields, names: Iterable[str]) -> list[System]:
    """The systems of these names or files, each once, and as large as the settings want it."""
    names = dict.fromkeys(names)
    size = (wanted.nodes, wanted.network, wanted.nics)
    systems = [load_system(name, *size) if name == THIS else system.load(name, *size) for name in names]
    if wanted.launch_mode is None:
        return systems
    return [msgspec.structs.replace(described, launch_mode=wanted.launch_mode) for described in systems]


def named_systems(given: Point) -> list[str]:
    """The names and files of systems in settings as they are given, one or several."""
    named = given.get("systems", [])
    return list(map(str, named if isinstance(named, list) else [named]))


def refuse_unjoined(given: Point, names: Iterable[str]) -> None:
    """Rejects a network, or how many of its ports, where all that is asked for is of one node."""
    asked = given.get("nodes")
    counts = asked if isinstance(asked, list) else [asked]
    if any(count not in (None, 1) for count in counts):
        return
    if None in counts and any(name != THIS and system.described(name).cluster.nodes > 1 for name in names):
        return
    for key in ("network", "nics"):
        if (value := given.get(key)) is not None:
            word = next(written({key: value}))
            raise ConfigError(f"{word}: one node needs no network; set nodes=2 or more, or leave {key} out")


def refuse_one_node(given: Point, placed: Iterable[tuple[System, Sequence[int]]]) -> None:
    """Rejects several nodes, and their network, where no GPUs are on more than one; `placed`: the GPUs of each point.

    These are the first ones: 8 of two nodes of 8 are those of the first. Which they are, `devices` may say.
    """
    key = next((key for key in ("nodes", "network", "nics") if given.get(key) is not None), None)
    if key is None or given.get("nodes") == 1 or given.get("devices"):
        return
    most: tuple[System, Sequence[int]] | None = None
    for machine, devices in placed:
        if max(devices) >= len(machine.gpus) or len({machine.node_of(device) for device in devices}) > 1:
            return
        most = (machine, devices) if most is None or len(devices) > len(most[1]) else most
    if most is not None:
        (machine, devices), word = most, next(written({key: given[key]}))
        raise ConfigError(
            f"{word}: {how_many(len(devices), 'GPU')} fit on one node of {machine.name}, so that nothing goes between "
            f"nodes; give more gpus= (it has {len(machine.gpus)}), name some of several nodes (devices=), or leave "
            f"{key} out"
        )


def refuse_no_launch(launch_mode: str | None, libraries: Sequence[str]) -> None:
    """Rejects what nothing reads: gloo has a process for each rank."""
    if launch_mode is not None and set(libraries) == {"gloo"}:
        raise ConfigError(
            f"launch_mode={launch_mode}: says who starts the GPUs of a node, and library=gloo has a process for each "
            "rank; leave it out"
        )


def refuse_no_library(library: Sequence[str | None]) -> None:
    """Rejects an empty list of generations."""
    if not library:
        raise ConfigError("library=[]: expected generations, as library=nccl1,nccl2, or null for the system's own")


# ---- message costs --------------------------------------------------------------------------------------------------
# What messages cost by themselves on the systems of a comparison: collectives over sizes, copies to single GPUs.

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
                plan = collective.plan(machines[name], each, devices, library)
                yield from curve(plan, SIZES_BYTES, machines[name].name, library)


def curve(
    plan: collective.CollectivePlan, sizes_bytes: Iterable[int], system: str, library: str
) -> Iterator[CollectivePoint]:
    """What a collective costs at each size, under the names that the points are to have."""
    for size_bytes in sizes_bytes:
        cost = plan.cost(size_bytes)
        yield CollectivePoint(
            system=system,
            library=library,
            collective=plan.collective,
            gpus=len(plan.devices),
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
                yield from copied(paths.copy_path(machine, 0, target), COPIED_BYTES, name)
        yield from copied_from_host(machine, COPIED_BYTES, name)


def copied_from_host(machine: System, sizes_bytes: Iterable[int], system: str) -> Iterator[CopyPoint]:
    """Copies from the host's memory to GPU 0; none where no CPU is described."""
    if bus := from_host(machine, [0]):
        for size_bytes in sizes_bytes:
            time_s = machine.gpu_part(0).copy_s.value + size_bytes / bus.rate_Bps
            yield CopyPoint(system=system, source=None, target=0, size_bytes=size_bytes, time_s=time_s, peers=False)


def copied(
    path: paths.Path, sizes_bytes: Iterable[int], system: str, through: int | None = None
) -> Iterator[CopyPoint]:
    """Copies of each size on a path, under the name that the points are to have."""
    for size_bytes in sizes_bytes:
        yield CopyPoint(
            system=system,
            source=path.source,
            target=path.target,
            size_bytes=size_bytes,
            time_s=path.latency_s + size_bytes / path.bandwidth_Bps,
            peers=path.kind != "host",
            duplex_Bps=path.duplex_Bps,
            through=through,
        )
