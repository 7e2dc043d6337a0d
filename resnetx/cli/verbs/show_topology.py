"""`topology` and `steer`: described machines, the paths through them, what a collective costs, and better links."""

from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from resnetx.api.answers import STEERED_GPUS, steer_answer, steering_columns, steerings_answer, time_text
from resnetx.api.found_system import NEW, YAML, Found, from_files, new_system, this_system
from resnetx.api.topology import answer_to
from resnetx.api.topology_answers import (
    ALL_PAIRS_GPUS,
    COPIES,
    REACHES,
    Answer,
    Costed,
    Described,
    Listed,
    Paired,
    Ranked,
    Routed,
    reach_of,
)
from resnetx.cli import show
from resnetx.cli.verbs.show_collectives import (
    RANKINGS,
    _percent,
    both_ends,
    costs,
    show_choices,
    side_by_side,
    validation,
)
from resnetx.errors import ConfigError
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import PhotonicSpec, SourcedValue, WireSpec
from resnetx.interconnect.systems.paths import Path as SystemPath
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import Component, System
from resnetx.loading import is_file
from resnetx.record.topologies import DeviceLink, SteeredPhase, Steering
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import GBps, in_GBps, si, size_text

if TYPE_CHECKING:
    from resnetx.record.topologies import PairAtSize, PairCosts


def topology_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Explains systems; without any word, names those that come with resnetx."""
    if options.validate:
        from resnetx.cli.verbs.show_predict import validate_

        return validate_(options, files, asked, "topology", validation)
    answer = _made(options, files, asked) or answer_to(files, asked)
    match answer:
        case Described(several) | Paired(several, _) | Routed(several) | Costed(several, _) | Ranked(several):
            pass
        case _:
            several = []
    most = show.LINES_OF_SEVERAL if len(several) > 1 else show.LINES
    show.conclude(options, answer.answer(), answer.records, partial(_show, answer), most=most)
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
            systems(about)
        case Described(described):
            if len(described) > 1:
                show.listing(REACHES, [reach_of(*each) for each in described])
            for machine, transport in described if len(described) == 1 or show.everything() else ():
                copies(machine, transport)
                if show.everything():
                    show.say()
                    parts(machine)
                    matrix(machine)
            if not show.everything():
                show.more("who is linked to whom, parts and their sources: --all; which GPUs for a job: pick=4")
        case Paired(described):
            found = list(answer.records())
            if len(described) > 1:
                show.listing(COPIES, found)
                show.more("each kind of pair: --all")
            for machine, transport in described if len(described) == 1 or show.everything() else ():
                own = [costs for costs in found if (costs.system, costs.transport) == (machine.name, transport)]
                pairs(machine.name, transport, own)
        case Routed(routes):
            show_routes([(machine.name, way) for machine, ways in routes for way in ways])
        case Costed([plan], sizes):
            costs(plan, sizes)
        case Costed(plans, sizes):
            side_by_side(plans, sizes)
        case Ranked(rankings):
            if len(rankings) > 1:
                show.listing(RANKINGS, [(one, choice) for one in rankings for choice in both_ends(one.choices)])
                show.more("each choice, and the line that takes the best: --all")
            for one in rankings if len(rankings) == 1 or show.everything() else ():
                if len(rankings) > 1:
                    show.say()
                    show.say(f"{one.machine.name}, {one.collective} with {one.library}", style="bold")
                show_choices(one.choices, one.size_bytes)


# The screen of a system that was read or made: its matrices, what is not known of it, and how to use it.


def show_found(answer: Found) -> None:
    """What copies reach on a system, and what its sources do not say; --all: its parts, matrices and devices."""
    if answer.system.unit == "GPU" and len(answer.system.gpus) > 1:
        copies(answer.system, "auto")
        show.say()
    if show.everything():
        parts(answer.system)
        matrix(answer.system)
        _peers(answer.system)
        show.say()
    if answer.devices and (show.everything() or any(map(_looks_ill, answer.devices))):
        _devices(answer.devices)
    _listed("What was found", answer.findings)
    _listed("What could not be learned", answer.unknown)
    if not show.everything():
        show.more("parts, links, who is linked to whom: --all")
    if answer.file is None:
        show.say("Nothing is written; out=mine.yaml writes its file, which every verb takes as systems=mine.yaml.")
    else:
        show.line(f"resnetx topology {answer.file} collective=allreduce")


LISTED = 3  # of what was found, or could not be learned


def _listed(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        show.say(title, style="bold")
        shown = show.first(sentences, LISTED)
        for sentence in shown:
            show.say(f"- {sentence}", indent=2)
        if len(shown) < len(sentences):
            show.say(f"- {len(sentences) - len(shown)} more: --all")
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
    Column(">replays", lambda device: "" if device.pcie_replays is None else f"{device.pcie_replays:,}"),
    Column(">NVLink errors", _nvlink_errors),
    Column(">speed", lambda device: "" if device.speed_Bps is None else si(8 * device.speed_Bps, "b/s"), 2),
]


def _peers(system: System) -> None:
    """Which GPU can reach whose memory."""
    if system.unit == "rank" or not 1 < len(system.gpus) <= MATRIX_GPUS:
        return
    rows = {
        f"GPU{gpu}": ["X" if gpu == other else "yes" if may else "-" for other, may in enumerate(row)]
        for gpu, row in enumerate(paths.peers(system))
    }
    show.say()
    note = "yes: one reaches the other's memory, by this description; else copies go through the host."
    show.matrix("Peers", "", rows, list(rows), note)


# ---- show topology --------------------------------------------------------------------------------------------------
# The screen of systems: matrices, ways, costs and choices, as tables.

MATRIX_GPUS = 16  # the widest matrix that is printed


def systems(about_by_name: Mapping[str, str]) -> None:
    """The systems that come with resnetx."""
    columns: list[Column[tuple[str, str]]] = [
        Column("systems=", lambda row: row[0]),
        Column("~what it is", lambda row: row[1] if show.everything() else shorten(row[1], SHORT, placeholder=" ...")),
    ]
    show.listing(columns, list(about_by_name.items()), every=True)
    if not show.everything():
        show.more("each in full: --all")


SHORT = 58  # columns of a description beside a name, on a screen of 80


# ---- one system -----------------------------------------------------------------------------------------------------


def parts(system: System, title: str = "Parts") -> None:
    """What a system is built of, and what its links are said to give."""
    counted = Counter[str]()
    for component, count in system.counted_components():
        counted[component.part.about] += count
    show.listing(PARTS, list(counted.items()), title, every=True, constant=True)
    show.say()
    counts = Counter[tuple[str, int, str]]()
    for link, count in system.counted_links():
        for lanes in (link.lanes_from(link.a), link.lanes_from(link.b)) if link.uneven else (link.lanes,):
            counts[link.part_name, lanes, ", one way" if link.uneven else ""] += count
    wires = {link.part_name: link.wire for link, _ in system.counted_links()}
    rows = [LinkRow(count, wires[name], way, lanes) for (name, lanes, way), count in counts.items() if lanes]
    note = "Every figure's source is in the system's file and in configs/system/parts."
    show.listing(LINKS, rows, "Links", note, every=True, constant=True)
    for component, _ in system.counted_components():
        if isinstance(component.part, PhotonicSpec):
            show.say(_circuits(system, component, component.part))


class LinkRow(NamedTuple):
    """Links that are alike."""

    links: int
    wire: WireSpec
    way: str  # ", one way" of those that differ by direction
    lanes: int


PARTS: list[Column[tuple[str, int]]] = [
    Column(">count", lambda row: f"{row[1]}"),
    Column("~part", lambda row: row[0]),
]
LINKS: list[Column[LinkRow]] = [
    Column(">links", lambda row: f"{row.links}"),
    Column("kind", lambda row: row.wire.about + row.way),
    Column(">lanes", lambda row: f"{row.lanes}", 1),
    Column(">GB/s each way", lambda row: f"{row.lanes * row.wire.bandwidth_Bps.value / 1e9:.4g}"),
    Column(">of a large copy", lambda row: f"{row.lanes * row.wire.copy_Bps.value / 1e9:.4g}"),
    Column("which is", lambda row: _origin(row.wire.copy_Bps), 2),
]


def _circuits(system: System, switch: Component, part: PhotonicSpec) -> str:
    """What goes through a photonic switch, in a sentence."""
    through = (link for link, _ in system.counted_links() if link.through == switch.name)
    taken = sum(link.lanes_from(end) for link in through for end in (link.a, link.b))
    return (
        f"{switch.name}: {part.ports.value:g} ports, {taken} taken by lanes between GPUs, counted one way; other "
        f"circuits after {part.reconfiguration_s.value * 1e6:,g} us ({part.reconfiguration_s.provenance})."
    )


def _origin(figure: SourcedValue) -> str:
    """Where a figure is from; one that was measured, by whom: hardly ever on the machine that is looked at."""
    by = figure.source.partition(":")[0]
    return f"measured: {by[:_SHORT]}" if figure.provenance == "measured" else figure.provenance


_SHORT = 30  # characters of a source, in a table


def matrix(system: System) -> None:
    """Who is linked to whom; nothing for a system too wide for a terminal."""
    if len(system.gpus) > MATRIX_GPUS:
        return
    rows = {f"{system.unit}{gpu}": cells for gpu, cells in enumerate(paths.connectivity(system))}
    note = (
        "NV#: number of NVLinks (AMD: XGMI#); PIX: one PCIe switch; PXB: several; PHB: through a CPU; NODE: between "
        "host bridges of one; SYS: from CPU to CPU; NET: over the network."
    )
    if system.uneven:
        note += " Lanes are those from the GPU of the row to that of the column."
    show.say()
    title = "GPU topology" if system.unit == "GPU" else "How ranks on CPU cores are joined"
    show.matrix(f"{title}, as nvidia-smi topo -m names it", "", rows, list(rows), note)


def copies(system: System, transport: Transport) -> None:
    """What copies get; pairs of GPUs that are alike share a row."""
    count = len(system.gpus)
    all_pairs = count <= ALL_PAIRS_GPUS
    both = permutations(range(count), 2) if system.uneven else combinations(range(count), 2)
    pairs = both if all_pairs else ((0, other) for other in range(1, count))
    alike: dict[tuple[str, ...], list[SystemPath]] = defaultdict(list)
    for a, b in pairs:
        path = paths.copy_path(system, a, b, "auto" if transport == "peer" else transport)
        cells = [column.cell(path) for column in WAYS[:4]]
        alike[(*cells, *(system.component(name).kind for name in path.names))].append(path)
    ways = sorted(alike.values(), key=lambda ways: (-ways[0].bandwidth_Bps, ways[0].latency_s))
    columns: list[Column[list[SystemPath]]] = [
        Column(">pairs", lambda same: f"{len(same)}"),
        *(column.of(lambda same: same[0]) for column in WAYS),
    ]
    title = f"Copies between {'' if all_pairs else f'{system.unit} 0 and the other '}{system.unit}s"
    title += f", transport={transport}" * (transport != "auto")
    show.listing(columns, ways, title, "Large copies, alone or with one in the opposite direction; of one such pair.")


def show_routes(ways: Sequence[tuple[str, SystemPath]]) -> None:
    """The ways between two GPUs that an application can choose from, of one system or several."""
    columns: list[Column[tuple[str, SystemPath]]] = [
        Column("system", lambda row: row[0]),
        Column("GPUs", lambda row: f"{row[1].source} to {row[1].target}"),
        *(column.of(lambda row: row[1]) for column in WAYS),
    ]
    show.listing(columns, ways)


_KINDS = {"host": "through the host", "relay": "relayed by a program"}
WAYS: list[Column[SystemPath]] = [
    Column("kind", lambda way: _KINDS.get(way.kind, way.kind)),
    Column(">GB/s one way", lambda way: GBps(way.bandwidth_Bps)),
    Column(">both ways", lambda way: GBps(way.duplex_Bps), 3),
    Column(">latency us", lambda way: f"{way.latency_s * 1e6:.1f}", 2),
    Column("by way of", lambda way: " ".join(way.names), 1),
    Column("limited by", lambda way: way.limit),
]


def pairs(name: str, transport: Transport, costs: "Sequence[PairCosts]") -> None:
    """What copies of some sizes cost; pairs of GPUs that are alike share a row."""
    rows = []
    for cost in costs:
        alike: dict[tuple[str, ...], list[PairAtSize]] = defaultdict(list)
        for pair in cost.pairs:
            told = (column.cell((cost.size_bytes, [pair])) for column in PAIRS if column.heading not in _OF_ONE_PAIR)
            alike[tuple(told)].append(pair)
        rows += [(cost.size_bytes, same) for same in sorted(alike.values(), key=lambda same: same[0].time_s)]
    title = f"{name}: copies from GPU to GPU, predicted, transport={transport}"
    show.listing(PAIRS, rows, title, every=True, constant=True)


_OF_ONE_PAIR = (">pairs", "limited by")  # columns of which pairs that are alike may have another
PAIRS: "list[Column[tuple[int, Sequence[PairAtSize]]]]" = [
    Column(">size", lambda row: size_text(row[0])),
    Column("pairs that are", lambda row: row[1][0].pair_class),
    Column(">pairs", lambda row: f"{len(row[1])}", 3),
    Column("over", lambda row: {"host": "the host"}.get(row[1][0].transport, row[1][0].transport), 2),
    Column(">time us", lambda row: f"{row[1][0].time_s * 1e6:,.1f}"),
    Column(">GB/s", lambda row: GBps(row[1][0].bandwidth_Bps)),
    Column(">both ways", lambda row: GBps(row[1][0].bidirectional_Bps), help="with as large a copy back."),
    Column(">off by", lambda row: _percent(row[1][0].error_q90), help="nine of ten published copies, at most."),
    Column("limited by", lambda row: row[1][0].limiting_link, 1),
]

# ---- steer ----------------------------------------------------------------------------------------------------------
# `steer`: which links a reconfigurable node should have for a traffic: what they save, what training gains, matrices.


def steer_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Steers and shows what that changes."""
    from resnetx.steering import steer

    made = steer(*files, **asked)
    if isinstance(made, Steering):
        show.conclude(options, steer_answer(made), lambda: [made], partial(steering, made))
    else:
        show.conclude(options, steerings_answer(made), lambda: made, partial(_several, made))
    return 0


def _several(made: Sequence[Steering]) -> None:
    show.listing(steering_columns(made), made, by="the first and the last")
    show.more("each alone: GPUs, traffic, links before and after; out=FOLDER")


def steering(made: Steering) -> None:
    """What the answer is made of: by phase, where the links may change between phases, else by GPU."""
    changed = made.connectivity_after != made.connectivity_before
    if show.everything() or (changed and not made.phases):
        _gpus(made)
    if show.everything():
        show.say()
        _matrices(made)
        show.say()
    if made.phases:
        _phases(made)
    _sources(made)


def _gpus(made: Steering) -> None:
    note = "RTL is of all that a GPU sends; traffic is over the largest of any pair."
    note = f"{note} A link is {in_GBps(made.unit_Bps)} one way." * show.everything()
    show.listing(STEERED_GPUS, made.gpus, "", note, lambda gpu: gpu.rtl_before or 0.0, "least and most RTL")


def _matrices(made: Steering) -> None:
    _matrix("Traffic, to (rows) from (columns)", made.traffic, "{:.2f}")
    show.say()
    _matrix("Units as built", made.connectivity_before, "{}")
    show.say()
    _matrix("Units steered", made.connectivity_after, "{}")


def _matrix(title: str, matrix: Sequence[Sequence[float]], form: str) -> None:
    rows = {f"{to}": [form.format(value) if value else "." for value in row] for to, row in enumerate(matrix)}
    show.matrix(title, "to", rows, [f">{by}" for by in rows])


def _phases(made: Steering) -> None:
    note = "own: with links divided for this phase alone."
    if made.reconfiguration_s is not None:
        note += f" Setting the switch takes {time_text(made.reconfiguration_s)}: it pays off in a longer phase"
        note += " than break-even."
    show.listing(PHASES, made.phases, "", note, constant=True)


def _worth(phase: SteeredPhase) -> str:
    if phase.gain_s is None:
        return ""
    return f"yes, saves {time_text(phase.gain_s)}" if phase.gain_s > 0 else f"no, costs {time_text(-phase.gain_s)}"


PHASES: list[Column[SteeredPhase]] = [
    Column("phase", lambda phase: phase.name),
    Column(">RTL shared", lambda phase: f"{phase.rtl_shared:.4g}"),
    Column(">own", lambda phase: f"{phase.rtl_own:.4g}"),
    # Where nothing is sent over links, nothing is saved.
    Column(">saved", lambda phase: f"{1 - phase.rtl_own / phase.rtl_shared:.1%}" if phase.rtl_shared else "-"),
    Column(">break-even", lambda phase: "never" if phase.break_even_s is None else time_text(phase.break_even_s)),
    Column("switch?", _worth),
]


def _sources(made: Steering) -> None:
    left = f" {made.left_out:.0%} is staged in the host, where no link can be moved." * (made.left_out > 0)
    show.say(f"traffic: {'; '.join(dict.fromkeys(made.traffic_of.split('; ')))}.{left}")
    if show.everything():
        counted = f", {made.rtl_evaluations:,} RTLs calculated" if made.rtl_evaluations is not None else ""
        show.say(f"Search: {made.method}{counted}.")
    if made.exchange_s_before is not None and made.exchange_s_after is not None and show.everything():
        times = f"{time_text(made.exchange_s_before)} -> {time_text(made.exchange_s_after)}"
        show.say(f"Moving it over the links, all pairs at once: {times}.")
    if made.iteration_s_after is not None:
        show.say("sure: RTL is exact for this traffic; no interval of iterations is known.")
    behind = [] if show.everything() else ["GPUs, traffic, links: --all"]
    show.more("; ".join([*behind, "the steered system: out=FOLDER"]))
