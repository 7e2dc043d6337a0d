"""The screen of a system that was read or made: its matrices, what is not known of it, and how to use it."""

from collections.abc import Sequence

from resnetx.api.found_system import Found
from resnetx.cli import show
from resnetx.cli.tables import show_topology as tables
from resnetx.interconnect import paths
from resnetx.interconnect.system import System
from resnetx.record.topology import DeviceLink
from resnetx.units import si


def found(answer: Found) -> None:
    """A system, and what its sources do not say."""
    tables.parts(answer.system, f"{answer.system.name}: {answer.system.about}")
    tables.matrix(answer.system)
    _peers(answer.system)
    if answer.devices:
        _devices(answer.devices)
    _listed("What was found", answer.findings)
    _listed("What could not be learned", answer.unknown)
    show.say()
    if answer.file is None:
        show.say("Nothing is written; out=mine.yaml writes its file, which every verb takes as systems=mine.yaml.")
    else:
        show.line(f"resnetx topology {answer.file} collective=allreduce")


def _listed(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        show.say()
        show.say(title, style="bold")
        for each in sentences:
            show.say(f"- {each}", indent=2)


def _devices(devices: Sequence[DeviceLink]) -> None:
    """PCIe now against what is possible, and errors; a link that is narrower than it could be is pointed out."""
    rows = [
        [
            each.device,
            each.name,
            _of(each.pcie_generation, each.pcie_generation_max),
            _of(each.pcie_width, each.pcie_width_max, "x"),
            _count(each.pcie_replays),
            _nvlink_errors(each),
            "" if each.speed_Bps is None else si(8 * each.speed_Bps, "b/s"),
        ]
        for each in devices
    ]
    columns = ["device", "name", "PCIe gen", "lanes", ">replays", ">NVLink errors", ">speed"]
    narrow = [each.device for each in devices if (each.pcie_width or 0) < (each.pcie_width_max or 0)]
    note = "Current of maximum; an idle GPU lowers its PCIe generation."
    if narrow:
        verb = "has" if len(narrow) == 1 else "have"
        note += f" {', '.join(narrow)} {verb} fewer lanes than possible: check the slot, and how the card sits in it."
    show.say()
    show.table("Links of devices", columns, rows, note, ["name", "speed"])


def _of(now: int | None, possible: int | None, mark: str = "") -> str:
    if possible is None:
        return "" if now is None else f"{mark}{now}"
    return f"{'?' if now is None else f'{mark}{now}'} of {mark}{possible}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _nvlink_errors(device: DeviceLink) -> str:
    """The sum over links; with the links that have any."""
    counted = {
        each.link: sum(filter(None, (each.crc_flit, each.crc_data, each.replays, each.recoveries)))
        for each in device.nvlinks or ()
    }
    bad = [f"{link}" for link, errors in counted.items() if errors]
    return "" if not counted else f"{sum(counted.values()):,}" + f" (link {', '.join(bad[:3])})" * bool(bad)


def _peers(system: System) -> None:
    """Which GPU can reach whose memory."""
    if system.unit == "rank" or not 1 < len(system.gpus) <= tables.MATRIX_GPUS:
        return
    rows = [
        [f"GPU{gpu}", *("X" if gpu == other else "yes" if may else "-" for other, may in enumerate(row))]
        for gpu, row in enumerate(paths.peers(system))
    ]
    show.say()
    note = "yes: one reaches the other's memory, by this description; else copies go through the host."
    show.table("Peers", ["", *(row[0] for row in rows)], rows, note)
