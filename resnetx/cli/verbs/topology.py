"""`topology`: described machines, the ways through them, and what a collective costs on them."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx.cli import drawings, show
from resnetx.cli.compose import chosen, settings
from resnetx.cli.tables import show_topology as tables
from resnetx.cli.verbs.validate import validate_
from resnetx.config import sizes_from
from resnetx.errors import ConfigError
from resnetx.interconnect import calibration, collective, paths, subsets, system
from resnetx.interconnect.collective import Plan
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import System

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import AnyChart


DRAWN_NODES = 4  # with more nodes, one of them is drawn
GOES_WITH = {  # settings that only some questions read, and which: one that nothing reads is refused, not dropped
    "size": ("collective", "pick"),
    "library": ("collective", "pick"),
    "devices": ("collective", "devices"),
    "transport": ("collective", "systems"),
    "calibration": ("collective",),
    "free": ("pick",),
    "out": ("collective", "systems"),
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that this verb reads."""

    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    devices: list[int] | None
    transport: Transport
    collective: str | None
    size: list[int | str]
    library: list[str | None]
    calibration: str | None
    pick: int | None
    free: list[int] | None
    results: str  # where drawings go, into a folder `topology`, if it is given and `out` is not
    out: str | None


def topology_(options: Namespace, files: list[Path], overrides: list[str]) -> int:
    """Explains systems; without any word, names those that come with resnetx."""
    show.begin(options)
    if options.validate:
        from resnetx.interconnect import validation

        return validate_(options, [*overrides, *map(str, files)], validation, tables.validation)
    asked = _asked(overrides)
    names = [*asked.systems, *map(str, files)]
    if not (names or overrides):
        return _list(options)
    if not names:
        raise ConfigError("systems=[]: expected names or files of systems; `resnetx topology` lists the names")
    systems = [system.load(name, asked.nodes, asked.network, asked.nics) for name in names]
    _refuse_unread(overrides, asked, systems)
    if asked.pick is not None:
        _pick(options, systems, asked, asked.pick)
    elif asked.collective is not None:
        _collective(options, systems, asked, asked.collective)
    elif asked.devices is not None:
        _routes(options, systems, asked.devices)
    else:
        _describe(options, systems, asked)
    return 0


def _asked(overrides: list[str]) -> Asked:
    given = chosen(overrides)
    asked = settings(given, Asked, listed=("systems", "size", "library"))
    if not asked.library:
        raise ConfigError("library=[]: expected generations, as library=[nccl1,nccl2], or null for the system's own")
    if asked.out is None and "results" in given:
        return msgspec.structs.replace(asked, out=str(Path(asked.results) / "topology"))
    return asked


def _refuse_unread(overrides: list[str], asked: Asked, systems: Sequence[System]) -> None:
    """A setting that the question does not read would be an answer to another question than the one asked."""
    questions = ("pick", "collective", "devices")
    question = next((each for each in questions if getattr(asked, each) is not None), "systems")
    for key, value in chosen(overrides).items():
        if value is not None and question not in GOES_WITH.get(key, (question,)):
            others = " or ".join(f"{each}=" for each in GOES_WITH[key] if each not in (key, "systems"))
            raise ConfigError(f"{key}={value}: nothing that is asked reads it; it goes with {others}")
        if key in ("network", "nics") and asked.nodes is None and all(each.nodes == 1 for each in systems):
            raise ConfigError(f"{key}={value}: one node needs no network; say nodes= as well")
    if question == "pick" and len(asked.size) > 1:
        raise ConfigError(f"size={asked.size}: choices are ranked at one size")


def _sizes(asked: Asked) -> list[int]:
    if not asked.size:
        raise ConfigError("size=[]: expected at least one size")
    return sizes_from(asked.size)


def _list(options: Namespace) -> int:
    if options.json:
        show.json_lines({"system": name, "about": about} for name, about in system.names().items())
    else:
        tables.systems(system.names())
    return 0


# ---- one system: matrix, ways, drawing ------------------------------------------------------------------------------


def _describe(options: Namespace, systems: Sequence[System], asked: Asked) -> None:
    """Who is linked to whom, what copies between them get, and a drawing."""
    transport = asked.transport
    for each in systems:
        if options.json:
            show.json_lines([_system_as_data(each, transport)])
        else:
            if each is not systems[0]:
                show.say()
            tables.parts(each)
            tables.matrix(each)
            tables.copies(each, transport)
        if asked.out:
            _draw(each, Path(asked.out), each.name)
    if asked.out:
        drawings.say_undrawn()


def _system_as_data(each: System, transport: Transport) -> dict[str, Any]:
    pairs = paths.pair_matrix(each, transport)
    return {
        "system": each.name,
        "about": each.about,
        "library": each.library,
        "gpus": [component.part_name for component in each.gpus],
        "connectivity": paths.connectivity(each),
        "peers": paths.peers(each),
        "transport": transport,
        "kind": pairs.kind,
        "bandwidth_Bps": pairs.bandwidth_Bps,
        "duplex_Bps": pairs.duplex_Bps,
        "latency_s": pairs.latency_s,
    }


def _routes(options: Namespace, systems: Sequence[System], devices: list[int]) -> None:
    """Every way that an application could choose between two GPUs."""
    if len(devices) != 2:
        raise ConfigError(f"devices={devices}: two GPUs show the ways between them; for more, say collective=allreduce")
    source, target = devices
    for each in systems:
        last = len(each.gpus) - 1
        if source == target or not (0 <= source <= last and 0 <= target <= last):
            raise ConfigError(f"devices={devices}: expected two GPU ids from 0 to {last} of {each.name}")
        found = paths.routes(each, source, target)
        if options.json:
            show.json_lines({"system": each.name, **_way_as_data(way)} for way in found)
        else:
            tables.routes(each, found)


def _way_as_data(way: paths.Path) -> dict[str, Any]:
    return {
        "source": way.source,
        "target": way.target,
        "kind": way.kind,
        "names": way.names,
        "bandwidth_Bps": way.bandwidth_Bps,
        "duplex_Bps": way.duplex_Bps,
        "latency_s": way.latency_s,
        "limiting_link": way.limit,
    }


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collective(options: Namespace, systems: Sequence[System], asked: Asked, name: str) -> None:
    """What a collective costs, on every system asked for and with every generation of the library."""
    sizes = _sizes(asked)
    transport = asked.transport
    plans = [
        collective.plan(each, name, asked.devices, library, transport) for library in asked.library for each in systems
    ]
    if asked.calibration is not None:
        if len(plans) > 1:
            raise ConfigError(
                f"calibration={asked.calibration}: measured on one system and library; ask for one of each"
            )
        plans = [collective.calibrate(plans[0], calibration.read(asked.calibration, plans[0].collective))]
    if options.json:
        show.json_lines(_cost_as_data(plan, transport, size_bytes) for plan in plans for size_bytes in sizes)
    elif len(plans) == 1:
        tables.costs(plans[0], sizes)
    else:
        tables.side_by_side(plans, sizes)
        for plan in plans:
            tables.explanation(plan, sizes[-1])
    if asked.out:
        for plan in plans:
            _draw(plan.system, Path(asked.out), _file_name(plan), plan, sizes[-1])
        drawings.say_undrawn()


def _cost_as_data(plan: Plan, transport: Transport, size_bytes: int) -> dict[str, Any]:
    cost = plan.cost(size_bytes)
    rings = tables.rings_of(plan, cost)
    return {
        "system": plan.system.name,
        "collective": plan.collective,
        "devices": plan.devices,
        "library": plan.library,
        "transport": transport,
        "size_bytes": size_bytes,
        "time_s": cost.time_s,
        "algbw_Bps": cost.algbw_Bps,
        "busbw_Bps": cost.busbw_Bps,
        "algorithm": cost.algorithm,
        "rings": [ring.order for ring in rings],
        "ring_Bps": [ring.bandwidth_Bps for ring in rings],
        "limiting_link": cost.limiting_link,
        "calibration": None if plan.calibration is None else plan.calibration.source,
        "explanation": plan.explain(size_bytes),
    }


def _pick(options: Namespace, systems: Sequence[System], asked: Asked, count: int) -> None:
    """The best and the worst choices of some of the free GPUs."""
    size_bytes = _sizes(asked)[-1]
    name = asked.collective or "allreduce"
    for each in systems:
        for library in asked.library:
            found = subsets.pick(each, count, asked.free, name, size_bytes, library)
            if options.json:
                show.json_lines(
                    {
                        "system": each.name,
                        "collective": name,
                        "library": choice.plan.library,
                        "size_bytes": size_bytes,
                        "devices": choice.devices,
                        "busbw_Bps": choice.busbw_Bps,
                        "limiting_link": choice.plan.cost(size_bytes).limiting_link,
                        "command": choice.command,
                    }
                    for choice in found
                )
            else:
                tables.choices(each, found, f"{name} with library={library or each.library}", size_bytes)


# ---- drawings -------------------------------------------------------------------------------------------------------


def _draw(each: System, folder: Path, name: str, plan: Plan | None = None, size_bytes: int = 0) -> None:
    """Writes the drawing of a system, with the rings of a plan over it, and says where it is."""
    from resnetx.reporting.charts import files

    stem = folder / name.replace(" ", "-")
    chart = _drawing(each, plan, size_bytes)
    svg = files.drawn(chart)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = files.write_drawing(chart, svg, stem)
    except OSError as error:
        raise ConfigError(f"out={folder}: no drawing can be written there: {error.strerror}") from None
    show.line(f"drawing: {written}", show.err)


def _drawing(each: System, plan: Plan | None, size_bytes: int) -> "AnyChart":
    """The system, with the rings of a plan."""
    from resnetx.reporting.charts import topology

    subtitle, walks = [], []
    if plan is not None:
        cost = plan.cost(size_bytes)
        subtitle = [tables.headline(plan, cost, size_bytes)]
        walks = [
            topology.Walk(name, ring.walk, ring.closed)
            for name, ring, _ in tables.distinct(tables.rings_of(plan, cost))
        ]
    if each.nodes > (DRAWN_NODES if plan is None else 1):  # a plan's rings are those of its first node
        subtitle.append(f"The first of {each.nodes} nodes, which are alike")
        each = topology.first_node(each)
    return topology.graph(each, walks, subtitle)


def _file_name(plan: Plan) -> str:
    """dgx1-v100_allreduce_nccl2, with the GPU ids where not all take part."""
    words = [plan.system.name, plan.collective, plan.library]
    if len(plan.devices) < len(plan.system.gpus):
        words.append("-".join(map(str, plan.devices)))
    return "_".join(words)
