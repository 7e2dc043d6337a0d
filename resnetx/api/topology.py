"""Questions about described systems: their links and paths, what a collective costs on them; and their lab."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from resnetx import progress, table
from resnetx.api import drawings
from resnetx.api.calibrations import refuse_other_machine
from resnetx.api.systems import (
    load_systems,
    named_systems,
    refuse_no_launch,
    refuse_no_library,
    refuse_one_node,
    refuse_unjoined,
)
from resnetx.api.topology_answers import (
    COSTS,
    Answer,
    Costed,
    Described,
    Listed,
    Paired,
    Ranked,
    Ranking,
    Routed,
    joined,
    told,
)
from resnetx.compose import asked, each_of, struct_of
from resnetx.config import LAB, lab_from, sizes_from
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import measured, subsets
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives.measured import UNCALIBRATED
from resnetx.interconnect.collectives.published import with_published
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.lab_network import MOST_RANKS, LabNetwork, lab_network
from resnetx.interconnect.systems.system import System
from resnetx.prediction.scenario import STAGED, Deployment, StagedClass, on_bus
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.table import TABLE
from resnetx.study import Point
from resnetx.table import ANSWERS, Answered, Records, Table, row, table_of_records

GOES_WITH = {  # settings that only some questions read, and which: one that nothing reads is refused, not dropped
    "size": ("collective", "pick", "size"),
    "library": ("collective", "pick"),
    "launch_mode": ("collective", "pick"),
    "devices": ("collective", "devices"),
    "transport": ("collective", "size", "systems"),
    "calibration": ("collective",),
    "staged": ("collective",),
    "free": ("pick",),
    "out": ("collective", "pick", "devices", "systems", "size"),
    "results": ("collective", "pick", "devices", "systems"),
    "gpus": ("collective", "new", "--import"),
    **dict.fromkeys(("gpu", "cpu", "nic", "pcie"), ("new", "--import")),
    **dict.fromkeys(("like", "switches", "sockets", "uplink"), ("new",)),
}


def topology(*names: keywords.Text, **settings: Unpack[keywords.TopologyKeywords]) -> Records[Any]:
    """Explains systems, by name or YAML file; without any, names those that come with resnetx.

    Which of `resnetx.record.topologies` its records are, depends on what is asked.
    With `size` it says what copies between each two GPUs cost, with `collective` what that costs, with two `devices`
    which paths join them, with `pick` which GPUs to use.

    >>> import resnetx
    >>> (cost,) = resnetx.topology("dgx1-v100", collective="allreduce", size="64MiB", library="nccl2")
    >>> cost.algorithm, len(cost.rings)
    ('ring', 6)
    """
    if list(map(str, names)) == ["new"]:
        from resnetx.api.found_system import new_system

        made = new_system(settings)
        return Answered(list(made.records()), made.answer())
    answer = answer_to(names, settings)
    return Answered(list(answer.records()), answer.answer(), COSTS if isinstance(answer, Costed) else ())


def answer_to(files: Sequence[keywords.Text], settings: Mapping[str, object]) -> Answer:
    """What is asked of systems; drawings are written where `out` or `results` says."""
    given = asked("topology", settings)
    refuse_unjoined(given, [*named_systems(given), *map(str, map(given_path, files))])
    found = joined([_answer(files, own) for own, _ in each_of("topology", _of_several(given))])
    if isinstance(found, Costed) and not found.plans:
        raise ConfigError(f"gpus={given['gpus']}: more than any of these systems has; nodes= joins several")
    if isinstance(found, Costed):
        refuse_one_node(given, ((plan.system, plan.devices) for plan in found.plans))
    if out := _out(given):
        store(found, Path(out))
    return found


def _of_several(given: Point) -> Point:
    """The same without one GPU among several numbers of them: alone it sends nothing, as in gpus=1..8."""
    counts = given.get("gpus")
    if not (isinstance(counts, list) and 1 in counts and len(counts) > 1 and given.get("collective")):
        return given
    progress.note("gpus=1: one GPU sends nothing; left out")
    return {**given, "gpus": [count for count in counts if count != 1]}


def _answer(files: Sequence[keywords.Text], given: Point) -> Answer:
    """What is asked of systems by settings that have one value each."""
    fields = _asked(given)
    names = [*fields.systems, *(str(given_path(file)) for file in files)]
    if not (names or given):
        return Listed(system.names())
    if not names:
        raise ConfigError(
            "systems: none is given; expected names or files of systems; `resnetx topology` lists the names"
        )
    machines = load_systems(fields, names)
    _refuse_unread(given, fields, machines)
    if fields.pick is not None:
        return Ranked(list(_ranked(machines, fields, fields.pick)))
    if fields.collective is not None:
        return _costed(machines, fields, fields.collective)
    if fields.devices is not None:
        return _routed(machines, fields.devices)
    if "size" in given:
        return Paired([(machine, fields.transport) for machine in machines], _sizes(fields))
    return Described([(machine, fields.transport) for machine in machines])


def _asked(given: Point) -> keywords.TopologyFields:
    fields = struct_of(given, keywords.TopologyFields)
    refuse_no_library(fields.library)
    return fields


def _out(given: Point) -> str | None:
    """The folder for the record, tables and figures, if they are to be kept."""
    if given.get("out"):
        return str(given["out"])
    return str(Path(str(given["results"])) / "topology") if "results" in given else None


def _refuse_unread(given: Point, wanted: keywords.TopologyFields, systems: Sequence[System]) -> None:
    """A setting that the question does not read would be an answer to another question than the one asked."""
    questions = ("pick", "collective", "devices")
    question = next((each for each in questions if getattr(wanted, each) is not None), "systems")
    if question == "systems" and "size" in given:
        question = "size"  # of copies
    for key, value in given.items():
        if value is not None and question not in GOES_WITH.get(key, (question,)):
            others = " or ".join(
                partner if partner in ("new", "--import") else f"{partner}="
                for partner in GOES_WITH[key]
                if partner not in (key, "systems", "size")
            )
            raise ConfigError(f"{key}={value}: has no effect here; it is used with {others}")
    if question == "size" and wanted.transport == "socket":
        raise ConfigError("transport=socket: copies between GPUs take no sockets; expected auto, peer, pcie or host")
    refuse_no_launch(wanted.launch_mode, [own or machine.library for machine in systems for own in wanted.library])
    if question == "pick" and len(wanted.size) > 1:
        raise ConfigError(f"size={wanted.size}: choices are ranked at one size")


def _sizes(wanted: keywords.TopologyFields) -> list[int]:
    if not wanted.size:
        raise ConfigError("size=[]: expected at least one size")
    return sizes_from(wanted.size)


def _routed(machines: Sequence[System], devices: list[int]) -> Routed:
    if len(devices) != 2:
        raise ConfigError(
            f"devices={devices}: two GPUs show the paths between them; for more, add collective=allreduce"
        )
    source, target = devices
    for machine in machines:
        last = len(machine.gpus) - 1
        if source == target or not (0 <= source <= last and 0 <= target <= last):
            raise ConfigError(f"devices={devices}: expected two GPU ids from 0 to {last} of {machine.name}")
    return Routed([(machine, paths.routes(machine, source, target)) for machine in machines])


def _costed(machines: Sequence[System], wanted: keywords.TopologyFields, name: str) -> Costed:
    sizes, devices = _sizes(wanted), wanted.devices
    if wanted.gpus is not None:
        if devices is not None:
            raise ConfigError(
                f"gpus={wanted.gpus} devices={devices}: name GPUs, or say how many; leave one of them out"
            )
        if wanted.gpus < 2:
            raise ConfigError(f"gpus={wanted.gpus}: a collective needs at least two GPUs, as gpus=2..8")
        devices = list(range(wanted.gpus))
        machines = [machine for machine in machines if len(machine.gpus) >= wanted.gpus]
    plans = [
        collective.plan(machine, name, devices, library, wanted.transport)
        for library in wanted.library
        for machine in machines
    ]
    if wanted.staged is not None:
        plans = [_told(each, wanted.staged, wanted.calibration) for each in plans]
    elif wanted.calibration is None:
        plans = [with_published(each) for each in plans] if wanted.transport == "auto" else plans
    elif wanted.calibration != UNCALIBRATED:
        if len(plans) > 1:
            raise ConfigError(
                f"calibration={wanted.calibration}: valid for one system and one library; give one of each"
            )
        (plan,) = plans
        measured_collective = measured.read(wanted.calibration, plan.collective)
        refuse_other_machine(measured_collective, plan.system, plan.library, plan.devices)
        plans = [collective.calibrate(plan, measured_collective)]
    return Costed(plans, sizes)


def store(found: Answer, folder: Path) -> None:
    """Writes what is answered: records as JSON lines and as a table, curves, matrices, and drawings of the links."""
    from resnetx.api import pages

    records: list[Any] = list(found.records())
    drawings.store_rows(folder, "topology", records)
    pages.store(pages.of_topology(found, records), folder)


def _told(plan: collective.CollectivePlan, box: StagedClass, calibration: str | None) -> collective.CollectivePlan:
    """An all-reduce through the host of a box whose class is told: what such a box measured, for what is described."""
    deployment = Deployment(plan.system, plan.library, plan.transport)
    if plan.collective != "allreduce" or calibration is not None or not deployment.no_peers:
        raise ConfigError(
            f"staged={box}: says how GPUs of one node that are no peers share the host in an all-reduce; expected "
            "collective=allreduce without calibration=, on such GPUs (transport=host makes them so); leave it out"
        )
    return told(plan, on_bus(STAGED[box], deployment.bus_Bps), f" with staged={box}")


def _ranked(machines: Sequence[System], wanted: keywords.TopologyFields, count: int) -> Iterator[Ranking]:
    size_bytes = _sizes(wanted)[-1]
    name = wanted.collective or "allreduce"
    for machine in machines:
        for library in wanted.library:
            found = subsets.pick(machine, count, wanted.free, name, size_bytes, library)
            yield Ranking(machine, library or machine.library, name, size_bytes, found)


# ---- the lab: networks of namespaces that stand for systems, in which `train`, `sweep` and `bench` run --------------


INSIDE = tuple(TABLE["lab"].readers)  # the verbs that run in the lab, or predict what would come of it


def lab(**settings: Unpack[keywords.LabKeywords]) -> Records[LabNetwork]:
    """The networks that the lab would build: namespaces, links with their rates, and the ways between ranks.

    To run in one, give `train`, `sweep` or `bench` the group `lab`, e.g. `lab={"system": "gx8", "scale": 100}`.

    >>> import resnetx
    >>> (network,) = resnetx.lab(systems=["gx8"], scale=100, gpus=2)
    >>> network.ranks, round(network.links[0].rate_Bps / 1e6)
    (['gpu0', 'gpu1'], 131)
    """
    return Records(networks(asked("lab", settings)))


def networks(given: Point) -> list[LabNetwork]:
    """The network of each system and number of GPUs; stored where `out=` says."""
    fields = _lab_settings(given)
    made = list(_lab_networks(fields))
    if fields.out is not None:
        _store_lab(made, Path(fields.out))
    return made


def _store_lab(made: Sequence[LabNetwork], folder: Path) -> None:
    """The links of each network, as JSON lines, as a table, and as a page."""
    from resnetx.api import pages
    from resnetx.reporting.page import PageTable, Part

    drawings.store_rows(folder, "lab", made)
    tables = [PageTable("links", "Links, as they are shaped", _lab_links(made))]
    names = ", ".join(dict.fromkeys(f"{network.system} / {network.scale:g}" for network in made))
    drawn = [drawings.of_system(system.load(name)) for name in dict.fromkeys(network.system for network in made)]
    pages.store(Part(f"The lab: {names}", [_said_of_lab(made)], figures=drawn, tables=tables), folder)


def _lab_links(made: Sequence[LabNetwork]) -> Table:
    links = [
        {"system": network.system, "ranks": len(network.ranks), **row(link)}
        for network in made
        for link in network.links
    ]
    return table_of_records(links)


def _said_of_lab(made: Sequence[LabNetwork]) -> str:
    names = ", ".join(dict.fromkeys(f"{network.system} / {network.scale:g}" for network in made))
    return f"The lab builds {names} of {sum(len(network.spaces) for network in made)} namespaces."


ANSWERS["Records[LabNetwork]"] = lambda made: table.Answer([_said_of_lab(made)], _lab_links(made))


def _lab_settings(given: Point) -> keywords.LabFields:
    fields = struct_of(given, keywords.LabFields)
    if not fields.systems:
        raise ConfigError(
            "systems: none is given; expected the systems that the lab builds, e.g. systems=gx8 scale=100"
        )
    return fields


def _lab_networks(wanted: keywords.LabFields) -> Iterator[LabNetwork]:
    for name in wanted.systems:
        lab = lab_from({"system": name, "scale": wanted.scale, "transport": wanted.transport})
        assert lab is not None, "a system is named"
        machine = system.load(lab.system)
        for gpus in wanted.gpus:
            own = len(wanted.devices) if wanted.devices else min(MOST_RANKS, len(machine.gpus))
            yield lab_network(machine, wanted.devices, gpus or own, lab.scale, lab.transport)


def settings_inside(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of this verb as those of a verb that runs in the lab."""
    unknown = [key for key in given if key not in ("systems", "scale", "transport")]
    if unknown:
        raise ConfigError(f"{unknown[0]}: belongs behind --, to the verb that runs in the lab")
    fields = _lab_settings({"scale": LAB.scale, **given})
    names = fields.systems
    return {
        "lab.system": names[0] if len(names) == 1 else names,
        "lab.scale": fields.scale,
        "lab.transport": fields.transport,
    }
