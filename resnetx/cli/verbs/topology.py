"""`topology`: described machines, the paths through them, and what a collective costs."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from resnetx.api.found_system import NEW, YAML, Found, from_files, new_system, this_system
from resnetx.api.topology import answers
from resnetx.api.topology_answers import Answer, Costed, Described, Listed, Paired, Ranked, Routed
from resnetx.cli import show
from resnetx.cli.tables import show_topology as tables
from resnetx.errors import ConfigError
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.system import System
from resnetx.loading import is_file
from resnetx.record.topology import DeviceLink
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import si


def topology_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Explains systems; without any word, names those that come with resnetx."""
    if options.validate:
        from resnetx.cli.verbs.validate import validate_

        return validate_(options, files, asked, "topology", tables.validation)
    made = _made(options, files, asked)
    for index, answer in enumerate(answers(files, asked) if made is None else [made]):
        if index and not options.json and not options.quiet:
            show.say()
        show.conclude(options, answer.answer(), answer.records, partial(_show, answer))
    return 0


def _made(options: Namespace, files: list[Path], asked: Point) -> Found | None:
    """A system that is read or planned; None where described ones are asked for."""
    if getattr(options, "import"):
        return from_files(files, asked)
    if options.this:
        if files:
            raise ConfigError(f"{files[0]}: --this reads the machine at hand, no files; --import reads files")
        return this_system(asked)
    if files == [Path(NEW)]:
        return new_system(asked)
    if other := next((file for file in files if file.suffix not in YAML and is_file(file)), None):
        raise ConfigError(f"{other}: not the YAML of a system; --import reads nvidia-smi topo, NCCL's XML and the like")
    return None


def _show(answer: Answer | Found) -> None:
    match answer:
        case Found():
            show_found(answer)
        case Listed(about):
            tables.systems(about)
        case Described(machine, transport):
            tables.copies(machine, transport)
            if show.everything():
                show.say()
                tables.parts(machine)
                tables.matrix(machine)
            else:
                show.say("more: who is linked to whom, parts and their sources: --all; which GPUs for a job: pick=4")
        case Paired(machine, transport, _):
            tables.pairs(machine.name, transport, list(answer.records()))
        case Routed(routes):
            for machine, found in routes:
                tables.routes(machine, found)
        case Costed([plan], sizes):
            tables.costs(plan, sizes)
        case Costed(plans, sizes):
            tables.side_by_side(plans, sizes)
        case Ranked(machine, library, name, size_bytes, choices):
            tables.choices(machine, choices, f"{name} with library={library}", size_bytes)


# The screen of a system that was read or made: its matrices, what is not known of it, and how to use it.


def show_found(answer: Found) -> None:
    """What copies reach on a system, and what its sources do not say; --all: its parts, matrices and devices."""
    if answer.system.unit == "GPU" and len(answer.system.gpus) > 1:
        tables.copies(answer.system, "auto")
        show.say()
    if show.everything():
        tables.parts(answer.system)
        tables.matrix(answer.system)
        _peers(answer.system)
        show.say()
    if answer.devices and (show.everything() or any(map(_looks_ill, answer.devices))):
        _devices(answer.devices)
    _listed("What was found", answer.findings)
    _listed("What could not be learned", answer.unknown)
    if not show.everything():
        show.say("more: parts, links, who is linked to whom: --all")
    if answer.file is None:
        show.say("Nothing is written; out=mine.yaml writes its file, which every verb takes as systems=mine.yaml.")
    else:
        show.line(f"resnetx topology {answer.file} collective=allreduce")


def _listed(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        show.say(title, style="bold")
        for sentence in sentences:
            show.say(f"- {sentence}", indent=2)
        show.say()


def _devices(devices: Sequence[DeviceLink]) -> None:
    """PCIe now against what is possible, and errors; a link that is narrower than it could be is pointed out."""
    narrow = [device.device for device in devices if _is_narrow(device)]
    note = "Current of maximum; an idle GPU lowers its PCIe generation."
    if narrow:
        verb = "has" if len(narrow) == 1 else "have"
        note += f" {', '.join(narrow)} {verb} fewer lanes than possible: check the slot, and how the card sits in it."
    show.listing(DEVICES, devices, "Links of devices", note, every=True, constant=True)
    show.say()


def _is_narrow(device: DeviceLink) -> bool:
    return (device.pcie_width or 0) < (device.pcie_width_max or 0)


def _looks_ill(device: DeviceLink) -> bool:
    """Whether it has fewer lanes than it could, or counts errors."""
    links = device.nvlinks or ()
    counts = (count for link in links for count in (link.crc_flit, link.crc_data, link.replays, link.recoveries))
    return _is_narrow(device) or bool(device.pcie_replays) or any(counts)


def _of(now: int | None, possible: int | None, mark: str = "") -> str:
    if possible is None:
        return "" if now is None else f"{mark}{now}"
    return f"{'?' if now is None else f'{mark}{now}'} of {mark}{possible}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _nvlink_errors(device: DeviceLink) -> str:
    """The sum over links; with the links that have any."""
    counted = {
        nvlink.link: sum(filter(None, (nvlink.crc_flit, nvlink.crc_data, nvlink.replays, nvlink.recoveries)))
        for nvlink in device.nvlinks or ()
    }
    bad = [f"{link}" for link, errors in counted.items() if errors]
    return "" if not counted else f"{sum(counted.values()):,}" + f" (link {', '.join(bad[:3])})" * bool(bad)


DEVICES: list[Column[DeviceLink]] = [
    Column("device", lambda device: device.device),
    Column("name", lambda device: device.name, 1),
    Column("PCIe gen", lambda device: _of(device.pcie_generation, device.pcie_generation_max)),
    Column("lanes", lambda device: _of(device.pcie_width, device.pcie_width_max, "x")),
    Column(">replays", lambda device: _count(device.pcie_replays)),
    Column(">NVLink errors", _nvlink_errors),
    Column(">speed", lambda device: "" if device.speed_Bps is None else si(8 * device.speed_Bps, "b/s"), 2),
]


def _peers(system: System) -> None:
    """Which GPU can reach whose memory."""
    if system.unit == "rank" or not 1 < len(system.gpus) <= tables.MATRIX_GPUS:
        return
    rows = {
        f"GPU{gpu}": ["X" if gpu == other else "yes" if may else "-" for other, may in enumerate(row)]
        for gpu, row in enumerate(paths.peers(system))
    }
    show.say()
    note = "yes: one reaches the other's memory, by this description; else copies go through the host."
    show.matrix("Peers", "", rows, list(rows), note)
