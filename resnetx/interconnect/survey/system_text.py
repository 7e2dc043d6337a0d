"""Systems as the text of their files: any system, and a survey with what had to be assumed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, nextafter
from typing import Any

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.gpus import NOT_NAMED, gpu_parts, link_findings, rate_source
from resnetx.interconnect.survey.survey import (
    FABRICS,
    RACKS,
    Chosen,
    PartSettings,
    SeenCpu,
    SeenNode,
    Survey,
    c2c_part,
    cpu_part,
    entries,
    nic_part,
    pcie_part,
    socket_link,
    switch_part,
)
from resnetx.interconnect.systems.graph import COMPONENTS, TABLES, UNITS, Link, SourcedValue, System, WireSpec
from resnetx.interconnect.systems.system import parts_table, usual_peer
from resnetx.loading import is_bare_text

# ---- text -----------------------------------------------------------------------------------------------------------
# A system as the text of its file, which reads back as the same system.
#
#     system_text(described("dgx1-v100"), ["Made by resnetx steer"])
#
# Parts that are not in the shared tables, or differ from them, are written as well. The file's name is the system's.


def system_text(system: System, comments: Sequence[str] = ()) -> str:
    """The YAML of a system and of what its file says of several nodes; `comments`: the lines at its top."""
    if system.nodes > 1:
        raise ConfigError(f"{system.name}: several nodes; expected one node, of which a file has the description")
    wiring = Counter(link.source for link in system.links).most_common(1)[0][0]
    wires = _wires(system)
    lines = [
        *(f"# {one_line(comment)}" for comment in comments),
        f"about: {quoted(system.about)}",
        f"wiring: {quoted(wiring)}",
        f"library: {system.library}",
        *([f"launch_mode: {system.launch_mode}"] if system.launch_mode else []),
        *([f"cluster: {flow(said)}"] if (said := _changed(system.cluster)) else []),
        "components:",
        *(
            f"  {named(part.name)}: {flow({part.kind: part.part_name, 'at': [part.x, part.y]})}"
            for part in system.components
        ),
        "links:",
        *(
            f"  - {flow(entry)}"
            for link in system.links
            for entry in _link_entries(system, link, wires[link.part_name], wiring)
        ),
        *_own_parts(system, wires),
    ]
    return "\n".join([*lines, ""])


def _link_entries(system: System, link: Link, wire: WireSpec, wiring: str) -> Iterator[dict[str, Any]]:
    """One entry both ways, or one for each direction where they differ."""
    usual = usual_peer(wire, system.component(link.a), system.component(link.b))
    changed: dict[str, Any] = {} if link.wire.peer == usual else {"peer": link.wire.peer}
    if link.wire.copy_Bps != wire.copy_Bps:
        figure = link.wire.copy_Bps
        changed["copy_GBps"] = [_divided(figure.value, 1e9) or figure.value / 1e9, figure.provenance, figure.source]
    changed |= {key: value for key in ("bridge", "through") if (value := getattr(link, key))}
    changed |= {} if link.source == wiring else {"source": link.source}
    ways = [("one_way", link.a, link.b), ("one_way", link.b, link.a)] if link.uneven else [("between", link.a, link.b)]
    for way, first, second in ways:
        if lanes := link.lanes_from(first):
            yield {way: [first, second], "link": link.part_name, **({"lanes": lanes} if lanes > 1 else {}), **changed}


# ---- parts ----------------------------------------------------------------------------------------------------------


def _wires(system: System) -> dict[str, WireSpec]:
    """The wire of each kind of link, from which a link may differ in who crosses it and in what a copy gets."""
    wires: dict[str, WireSpec] = {}
    for name in dict.fromkeys(link.part_name for link in system.links):
        specs = [link.wire for link in system.links if link.part_name == name]
        shared = parts_table("links").get(name)
        first = next((wire for wire in specs if wire.duplex_Bps), specs[0])
        wires[name] = shared if shared and _but_for_a_link(shared) == _but_for_a_link(first) else first
    return wires


def _but_for_a_link(wire: WireSpec) -> WireSpec:
    """A wire without what a link's entry may change."""
    return msgspec.structs.replace(wire, peer=True, copy_Bps=wire.bandwidth_Bps, duplex_Bps=None)


def _own_parts(system: System, wires: Mapping[str, WireSpec]) -> Iterator[str]:
    """The parts that the shared tables do not have, or have otherwise."""
    tables = {kind: next(table for table, part in TABLES.items() if part is spec) for kind, spec in COMPONENTS.items()}
    own: dict[str, dict[str, dict[str, Any]]] = {}

    def add(table: str, name: str, part: Any) -> None:
        if parts_table(table).get(name) != part:
            own.setdefault(table, {})[name] = _entry(part)

    for component in system.components:
        add(tables[component.kind], component.part_name, component.part)
    for name, wire in wires.items():
        add("links", name, wire)
    for name, network in system.networks.items():
        add("networks", name, network)
    if own:
        yield "parts:"
        yield from (line for table, parts in own.items() for line in part_lines(table, parts))


def _entry(part: Any) -> dict[str, Any]:
    """A part as its file has it, in the file's units where these give the same number back."""
    return dict(_in_file_units(name, value) for name, value in _changed(part).items())


def _in_file_units(name: str, value: Any) -> tuple[str, Any]:
    if not isinstance(value, SourcedValue):
        return name, value
    for suffix, (base, factor) in UNITS.items():
        if name.endswith(base) and (divided := _divided(value.stated, factor)) is not None:
            return name.removesuffix(base) + suffix, [divided, value.provenance, value.source]
    return name, [value.stated, value.provenance, value.source]


def _divided(value: float | None, factor: float) -> float | None:
    """The number that times `factor` gives exactly this value; None where there is none."""
    if value is None:
        return None
    quotient = value / factor
    near = (round(quotient, 6), quotient, nextafter(quotient, inf), nextafter(quotient, -inf))
    return next((whole for whole in near if whole * factor == value), None)


def _changed(struct: Any) -> dict[str, Any]:
    """The fields of a struct that are not as they would be without being said."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    return {name: value for name in defaults if (value := getattr(struct, name)) != defaults[name]}


# Values as one line of YAML each, as the files of systems have them.


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{named(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quoted(value) if isinstance(value, str) else _number(value) if isinstance(value, float) else str(value)


def quoted(text: str) -> str:
    """A text as it is where YAML takes it so, else in quotes, in one line."""
    if is_bare_text(text) and not text[0].isdigit():
        return text
    letters = text if text.isprintable() and not set('\\"') & set(text) else map(_letter, text)
    return f'"{"".join(letters)}"'


def named(key: str) -> str:
    """The same of a key."""
    return key if is_bare_text(key) else quoted(key)


def _letter(letter: str) -> str:
    """A character within double quotes (YAML 1.2.2, section 5.7), where some may not stand as they are."""
    if letter in '\\"':
        return f"\\{letter}"
    code = ord(letter)
    return letter if letter.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(value: float) -> str:
    """As short as can be, but never another number."""
    return short if float(short := f"{value:g}") == value else repr(value)


def one_line(text: str) -> str:
    """A text as the end of a comment."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def part_lines(table: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"  {table}:"
    for name, entry in parts.items():
        yield f"    {named(name)}:"
        yield from (f"      {key}: {flow(value)}" for key, value in entry.items())


# ---- file -----------------------------------------------------------------------------------------------------------
# A survey as the YAML of a system, which every verb takes: parts, links and what had to be assumed.
#
#     survey = joined([of_nvidia_smi(...), of_tree(...)])
#     written = written_system(survey, "mine", PartSettings(gpu="p100"), None)
#     written.text, written.findings, written.unknown
#
# What was found, and what no source says, stand at the top of the file as comments; the latter also beside what is
# assumed for it.

CPU_RANK = "cpu-rank"  # the part of a rank without a GPU


@dataclass(frozen=True)
class WrittenSystem:
    """The file of a system, what its sources said that deserves a look, and what they did not say."""

    text: str
    findings: tuple[str, ...]
    unknown: tuple[str, ...]


def written_system(survey: Survey, settings: PartSettings, library: str | None, made_from: str) -> WrittenSystem:
    """`library`: a generation, or None for that of the GPUs; `made_from`: ends the file's first line."""
    chosen = Chosen()
    gpus = gpu_parts(survey, settings, chosen)
    plan = _Plan(survey, settings, gpus, chosen)
    components, links = list(plan.components()), list(plan.links())
    findings = tuple(dict.fromkeys([*survey.findings, *link_findings(survey, gpus, chosen)]))
    unknown = tuple(dict.fromkeys([*_of_links(survey, gpus, chosen), *chosen.unknown, *plan.unknown]))
    kinds = ", ".join(dict.fromkeys(str(chosen.entry("gpus", gpu)["about"]) for gpu in gpus))
    if gpus[0] == CPU_RANK:
        about = f"a machine with {len(gpus)} CPU cores and no GPU: {survey.cpus[0].product or 'unnamed CPUs'}"
    else:
        about = f"a machine with {len(gpus)} GPU{'s' * (len(gpus) > 1)}: {kinds}"
    lines = [
        f"# Made by resnetx topology {made_from}".rstrip(),
        *(f"# found: {each}" for each in map(one_line, findings)),
        *(f"# not known: {each}" for each in map(one_line, unknown)),
        f"about: {quoted(about)}",
        f"wiring: {quoted(survey.source)}",
        f"library: {library or plan.library()}",
        "components:",
        *(f"  {name}: {flow(entry)}" for name, entry in components),
        "links:",
        *(f"  - {flow(entry)}" for entry in links),
    ]
    if chosen.own:
        lines.append("parts:")
        lines += [line for table, parts in chosen.own.items() for line in part_lines(table, parts)]
    return WrittenSystem("\n".join([*lines, ""]), findings, unknown)


def _of_links(survey: Survey, gpus: Sequence[str], chosen: Chosen) -> list[str]:
    """What a survey does not say; that of NVLink is left out where the GPUs are known to have none."""
    without = not any(chosen.bases.get(gpu) or chosen.entry("gpus", gpu).get("peer_link") for gpu in gpus)
    return [said for said in survey.unknown if not (without and said.startswith(("NVLink: ", "XGMI: ")))]


# ---- components and links -------------------------------------------------------------------------------------------


class _Plan:
    """The components and links of one survey."""

    def __init__(self, survey: Survey, settings: PartSettings, gpus: Sequence[str], chosen: Chosen) -> None:
        self.survey, self.settings, self.chosen = survey, settings, chosen
        self.gpus = gpus
        self.unknown: list[str] = []
        self.like = [chosen.entry("gpus", gpu) for gpu in gpus]
        self.above = {node.name: node.above for node in survey.nodes}
        self.bus, self.pcie = self._bus()
        self.peer_link = self._peer_link()
        self.places = _places(survey)
        self.cpus = {
            cpu.name: "host-cpu"
            if gpus[0] == CPU_RANK
            else cpu_part(self._named(cpu), self.pcie, settings, chosen, self._peers("cpu"))
            for cpu in survey.cpus
        }

    def _named(self, cpu: SeenCpu) -> SeenCpu:
        """A CPU that no source names: GPUs whose bus is NVLink-C2C are beside Arm CPUs."""
        return replace(cpu, product="Arm CPU") if self.bus.startswith("c2c") and not cpu.product else cpu

    def _peer_link(self) -> str:
        """The kind of links between GPUs: by the GPU's description."""
        found = next((entry["peer_link"] for entry in self.like if "peer_link" in entry), "")
        if not found and self.survey.has_nvlinks:
            if self.settings.gpu is not None:
                raise ConfigError(f"gpu={self.settings.gpu}: it has no NVLink, but {self.survey.source} shows NVLinks")
            self.unknown.append(f"the generation of NVLink: {self.gpus[0]} is described without; nvlink4 is assumed")
        return found or "nvlink4"

    def _bus(self) -> tuple[str, int]:
        """(kind of the GPUs' link to the host where the source does not say it, generation of PCIe)."""
        stated = [generation for gpu in range(len(self.gpus)) if (generation := self._generation(gpu))]
        if stated:
            return f"pcie{max(stated)}", max(stated)
        bus = self.like[0].get("bus", "pcie3")
        if self.settings.pcie is not None:
            bus = f"pcie{self.settings.pcie}"
        elif self.gpus[0] != CPU_RANK and not all(gpu.c2c for gpu in self.survey.gpus):
            self.unknown.append(f"the generation of PCIe: not said; {bus} is assumed, as the GPU has; pcie=N sets it")
        return bus, int(bus[4:]) if bus.startswith("pcie") else 5

    def _generation(self, gpu: int) -> int | None:
        """Of a GPU's link: as stated, but not above what the GPU has, as switches within its package show."""
        stated, bus = self.survey.gpus[gpu].generation, self.like[gpu].get("bus", "")
        known = bus.startswith("pcie") and not self.chosen.bases.get(self.gpus[gpu])
        most = int(bus[4:]) if known else stated
        if stated and most and stated > most:
            self.unknown.append(f"why {self.gpus[gpu]} shows PCIe {stated}.0: it has {most}.0, which is taken")
            return most
        return stated

    def library(self) -> str:
        if self.gpus[0] == CPU_RANK:
            return "gloo"
        known = self.peer_link in FABRICS and bool(self.survey.switched)
        reduces = known and entries("switches")[self._nvswitch()].get("reduces", False)
        return "nvls" if reduces else "nccl2.4"

    def _nvswitch(self) -> str:
        """The switch of the GPUs' NVLinks: beside Grace CPUs that of a rack."""
        switch = FABRICS.get(self.peer_link, FABRICS["nvlink4"])[1]
        c2c = all(gpu.c2c for gpu in self.survey.gpus) or all(
            each.get("bus", "").startswith("c2c") for each in self.like
        )
        return RACKS.get(switch, switch) if c2c else switch

    def components(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for gpu, part in zip(self.survey.gpus, self.gpus, strict=True):
            yield gpu.name, self._placed(gpu.name, gpu=part)
        for number, members in enumerate(self._fabrics()):
            middle = sum(self.places[f"gpu{gpu}"][0] for gpu in members) / len(members)
            yield f"nvswitch{number}", {"switch": self._nvswitch(), "at": [round(middle, 2), -1.2]}
        for node in self.survey.nodes:
            if node.kind == "switch":
                yield node.name, self._placed(node.name, switch=switch_part(node.generation or self.pcie))
            elif node.kind == "nic":
                generation = node.generation or self.pcie
                yield (
                    node.name,
                    self._placed(node.name, nic=nic_part(node.speed_Bps, generation, self.settings, self.chosen)),
                )
        for name, part in self.cpus.items():
            yield name, self._placed(name, cpu=part)

    def _placed(self, name: str, **part: str) -> dict[str, Any]:
        return {**part, "at": [round(place, 2) for place in self.places[name]]}

    def links(self) -> Iterator[dict[str, Any]]:
        for (a, b), lanes in sorted(self.survey.direct.items()):
            source = self._assumed_link() or rate_source(self.survey, a) or rate_source(self.survey, b)
            yield _link(f"gpu{a}", f"gpu{b}", self.peer_link, lanes, source=source)
        for number, members in enumerate(self._fabrics()):
            wire = FABRICS.get(self.peer_link, FABRICS["nvlink4"])[0]
            for gpu in members:
                lanes = self.survey.switched[gpu]
                source = self._assumed_link() or rate_source(self.survey, gpu)
                yield _link(f"gpu{gpu}", f"nvswitch{number}", wire, lanes, source=source)
        for node in self.survey.nodes:
            yield self._upward(node)
        yield from self._between_cpus()
        if not self.survey.peers and len(self.gpus) > 1 and self.gpus[0] != CPU_RANK:
            refused = any(map(self._refuse, range(len(self.gpus))))
            taken = "none, as drivers of GeForces refuse it" if refused else "as the CPU's part has"
            self.unknown.append(f"who are peers over PCIe: not said (nvidia-smi topo -p2p r says it); {taken}")
        if len(self.survey.cpus) > 1:
            self.unknown.append("the links between CPUs: not said; as such CPUs have (assumed)")

    def _between_cpus(self) -> Iterator[dict[str, Any]]:
        across = True if self._peers("sockets") else None
        for cpu, other in combinations(self.survey.cpus, 2):
            if cpu.host == other.host:
                wire, lanes = socket_link(self.chosen.bases.get(self.cpus[cpu.name], self.cpus[cpu.name]))
                source = "assumed: as such CPUs have, all joined to each other"
                yield _link(cpu.name, other.name, wire, lanes, peer=across, source=source)

    def _assumed_link(self) -> str | None:
        """Why the generation of NVLink is assumed, where the GPU is."""
        return f"assumed: {self.peer_link}, as no source names the GPU" if self.gpus[0] == NOT_NAMED else None

    def _fabrics(self) -> list[list[int]]:
        """The GPUs of each switched fabric: those that the matrix joins, or all."""
        members = sorted(self.survey.switched)
        words = self.survey.words
        groups: list[list[int]] = []
        for gpu in members:
            own = next((g for g in groups if not words or words.get((g[0], gpu), "").startswith("NV")), None)
            if own is None:
                groups.append([gpu])
            else:
                own.append(gpu)
        return groups

    def _upward(self, node: SeenNode) -> dict[str, Any]:
        """The link of a component towards its CPU."""
        if node.kind == "gpu" and self.gpus[0] == CPU_RANK:
            return _link(node.name, node.above, "host-memory", 1)
        number = int(node.name[3:]) if node.kind == "gpu" else -1
        if number in self.survey.host_links:  # POWER CPUs
            return _link(node.name, node.above, self.peer_link, self.survey.host_links[number])
        if node.c2c is not None:
            wire = c2c_part(node.c2c, self.bus, self.chosen)
            return _link(node.name, self._upwards(node.name)[-1], wire, 1)
        generation = self._generation(number) if node.kind == "gpu" else node.generation
        wire = pcie_part(generation or self.pcie, self.chosen)
        if node.kind == "gpu" and not generation and not self.bus.startswith("pcie"):
            return _link(node.name, node.above, self.bus, 1, source="assumed: as the GPU has")
        unsaid = ["the generation"] * (not generation) + ["16 lanes"] * (node.lanes is None)
        against = node.kind == "gpu" and self._refuse(number) and self._some_over_pcie()
        return _link(
            node.name, node.above, wire, node.lanes or 16,
            peer=False if self._peers("switch") is False else True if against else None, bridge=node.bridge,
            source=f"assumed: {' and '.join(unsaid)}" if unsaid else None,
        )  # fmt: skip

    def _refuse(self, gpu: int) -> bool:
        """Whether the driver of a GPU refuses peers over PCIe."""
        return not self.like[gpu].get("bus_peer", True)

    def _some_over_pcie(self) -> bool:
        """Whether some GPUs are said to be peers that no NVLink joins."""
        return any(may and self._met(*pair) != "nvlink" for pair, may in self.survey.peers.items())

    def _peers(self, through: str) -> bool | None:
        """Whether GPUs that meet in a switch, in a CPU or beyond it are peers, as half of them are; None: not said."""
        said = [may for pair, may in self.survey.peers.items() if self._met(*pair) == through]
        if through == "switch" and not said and self.survey.peers and not self.survey.has_nvlinks:
            said = [False] * (not any(self.survey.peers.values()))
        half = sum(said) * 2 >= len(said)
        if len(set(said)) > 1:
            what = {"switch": "of one switch", "cpu": "of one CPU", "sockets": "of several CPUs"}[through]
            taken = f"for {'peers' if half else 'none'}, as {'half' if sum(said) * 2 == len(said) else 'most'} are"
            self.unknown.append(f"why some pairs {what} are peers and others not: all are taken {taken} (assumed)")
        return half if said else None

    def _met(self, a: int, b: int) -> str:
        """Where two GPUs meet: over NVLink, in a switch, in a CPU, or beyond."""
        pair = (min(a, b), max(a, b))
        if pair in self.survey.direct or (a in self.survey.switched and b in self.survey.switched):
            return "nvlink"
        one, other = self._upwards(f"gpu{a}"), self._upwards(f"gpu{b}")
        shared = next((name for name in one if name in other), None)
        if shared is None:
            return "sockets"
        return "cpu" if shared.startswith("cpu") else "switch"

    def _upwards(self, name: str) -> list[str]:
        found = []
        while name in self.above:
            name = self.above[name]
            found.append(name)
        return found


def _link(
    a: str, b: str, wire: str, lanes: int, peer: bool | None = None, bridge: str = "", source: str | None = None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"between": [a, b], "link": wire}
    entry |= {"lanes": lanes} if lanes != 1 else {}
    entry |= {} if peer is None else {"peer": peer}
    entry |= {"bridge": f"b{bridge}" if bridge.isdigit() else bridge} if bridge else {}
    return entry | ({"source": source} if source else {})


def _places(survey: Survey) -> dict[str, tuple[float, float]]:
    """Where components are drawn: devices side by side in the order of the tree, each switch above what it joins.

    GPUs that NVLinks join directly alternate between two heights, so that lines between them stay apart.
    """
    below: dict[str, list[SeenNode]] = {}
    for node in survey.nodes:
        below.setdefault(node.above, []).append(node)
    places: dict[str, tuple[float, float]] = {}
    right = 0.0

    def place(name: str, kind: str) -> float:
        """Places it with all below it; returns its height."""
        nonlocal right
        children = below.get(name, [])
        if not children:
            dropped = kind == "gpu" and survey.direct and int(name[3:]) % 2
            places[name] = (right, -1.4 if dropped else 0.3 if kind == "nic" else 0.0)
            right += 1.0
            return 0.0
        height = 1.0 + max(place(child.name, child.kind) for child in children)
        places[name] = (sum(places[child.name][0] for child in children) / len(children), height)
        return height

    for cpu in survey.cpus:
        place(cpu.name, "cpu")
    top = max((places[cpu.name][1] for cpu in survey.cpus), default=1.0)
    return places | {cpu.name: (places[cpu.name][0], max(top, 1.0)) for cpu in survey.cpus}
