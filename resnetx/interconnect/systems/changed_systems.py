"""Systems that differ from described ones: in the links between GPUs (`steered`), or in rates (`with_bandwidth`)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, count
from typing import TypeVar

from msgspec.structs import replace

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.systems.graph import (
    Component,
    ComponentSpec,
    CpuSpec,
    Link,
    PhotonicSpec,
    SourcedValue,
    StorageSpec,
    System,
    WireSpec,
)
from resnetx.interconnect.systems.paths import is_peer_nvlink
from resnetx.interconnect.systems.system import parts_table

# ---- rearranged -----------------------------------------------------------------------------------------------------
# Systems whose links between GPUs are others: as a photonic switch joins them for some traffic.
#
#     before = load("dgx1-v100")
#     units = connectivity(before)                   # [i][j]: units that GPU j sends to GPU i with; 6 of each GPU
#     after = steered(with_switch(before, "sip-mems-64"), moved, "AlexNet's gradients")
#
# A unit is one lane in one direction: of a DGX-1 with V100, 25 GB/s of NVLink 2. A GPU sends with as many units as it
# has, to whichever GPUs a circuit leads; it may receive with more, if it has so many receivers. All else of the system
# stays as described: what finds no unit goes over PCIe or through the host.
#
# Reference: Anderson et al. 2018, sections 2.1 and 2.2.

Units = Sequence[Sequence[int]]  # [i][j]: units that GPU j sends to GPU i with


def connectivity(system: System) -> tuple[tuple[int, ...], ...]:
    """[i][j]: the units with which GPU j sends to GPU i."""
    unit(system)  # refuses what has none
    places = {gpu.name: index for index, gpu in enumerate(system.gpus)}
    units = [[0] * len(places) for _ in places]
    for link in direct_links(system):
        a, b = places[link.a], places[link.b]
        units[b][a] += link.lanes_from(link.a)
        units[a][b] += link.lanes_from(link.b)
    return tuple(map(tuple, units))


def unit(system: System) -> Link:
    """A link of one unit, whose rates are the unit's; refuses systems whose GPUs are not joined by one kind of link."""
    if system.nodes > 1:
        raise ConfigError(
            f"{system.name}: several nodes; expected a system of one, whose links between GPUs are steered"
        )
    links = direct_links(system)
    if not links:
        raise ConfigError(
            f"{system.name}: no link joins two of its GPUs directly, so there is nothing to steer; expected a system "
            "with links from GPU to GPU, as dgx1-v100"
        )
    kinds = {link.wire: link for link in links}
    if len(kinds) > 1:
        names = ", ".join(dict.fromkeys(link.part_name for link in links))
        raise ConfigError(f"{system.name}: its GPUs are joined by links of several rates ({names}); expected one kind")
    if len({link.through for link in links}) > 1:
        raise ConfigError(
            f"{system.name}: of the links between its GPUs, some go through a photonic switch and others do not, or "
            "through another one; expected all of them through one switch, or none"
        )
    return replace(links[0], lanes=1, lanes_back=None)


def steered(system: System, units: Units, traffic: str) -> System:
    """The system with these units instead of its own; `traffic`: what they are made for, in a few words."""
    own = unit(system)
    _check(system, units)
    source = f"assumed: steered for {traffic}, from {system.name}"
    links = list(_links(system, units, replace(own, source=source)))
    replaced = set(direct_links(system))
    others = [link for link in system.links if link not in replaced]
    made = replace(
        system,
        name=f"{system.name}-steered",
        about=f"{system.about}, steered for {traffic}",
        links=(*links, *others),
    )
    if (switch := photonic(system)) and sum(map(sum, units)) > switch.ports.value:
        raise ConfigError(
            f"{system.name}: {sum(map(sum, units))} units in all, and its photonic switch has {switch.ports.value:g} "
            "ports; expected at most as many units as ports"
        )
    return made


def photonic(system: System) -> PhotonicSpec | None:
    """The photonic switch between the GPUs; None where wires join them."""
    name = next((link.through for link in direct_links(system) if link.through), None)
    part = system.component(name).part if name else None
    return part if isinstance(part, PhotonicSpec) else None


def with_switch(system: System, part_name: str) -> System:
    """The system with a photonic switch of this kind in all links between its GPUs."""
    parts = parts_table("photonics")
    if part_name not in parts:
        raise unknown_name("photonic switch", part_name, parts, "switch")
    lanes = sum(map(sum, connectivity(system)))
    if lanes > (ports := parts[part_name].ports.value):
        raise ConfigError(
            f"switch={part_name}: {ports:g} ports, and {system.name} has {lanes} units; choose a larger one"
        )
    if photonic(system):
        raise ConfigError(f"switch={part_name}: the GPUs of {system.name} are joined by a photonic switch already")
    across = [gpu.x for gpu in system.gpus]
    below = min(component.y for component in system.components) - 0.7
    taken = {component.name for component in system.components}
    name = next(name for number in count() if (name := f"ocs{number}") not in taken)
    switch = Component(name, part_name, parts[part_name], (min(across) + max(across)) / 2, below)
    direct = set(direct_links(system))
    links = tuple(replace(link, through=name) if link in direct else link for link in system.links)
    return replace(system, components=(*system.components, switch), links=links)


def direct_links(system: System) -> list[Link]:
    """The links from GPU to GPU that copies between them take."""
    gpus = {gpu.name for gpu in system.gpus}
    return [link for link in system.links if {link.a, link.b} <= gpus and is_peer_nvlink(link)]


def _links(system: System, units: Units, link: Link) -> Iterator[Link]:
    """One link for each two GPUs that have a unit in either direction."""
    for a, b in combinations(range(len(units)), 2):
        out, back = units[b][a], units[a][b]
        if out or back:
            ends = {"a": system.gpus[a].name, "b": system.gpus[b].name}
            yield replace(link, **ends, lanes=out, lanes_back=None if out == back else back)


def _check(system: System, units: Units) -> None:
    """Refuses what no switch can join: GPUs send with the units that they have."""
    size = len(system.gpus)
    if len(units) != size or any(len(row) != size for row in units):
        raise ConfigError(f"units: expected {size} rows of {size}, one for each GPU of {system.name}")
    if any(units[gpu][gpu] for gpu in range(size)) or any(cell < 0 for row in units for cell in row):
        raise ConfigError("units: expected none from a GPU to itself, and no negative number")
    if not any(map(any, units)):
        raise ConfigError(f"units: none at all; expected at least one between two GPUs of {system.name}")
    for gpu, (sends, has) in enumerate(zip(_sent(units), _sent(connectivity(system)), strict=True)):
        if sends > has:
            raise ConfigError(
                f"units: GPU {gpu} sends with {sends}; expected at most {has}, as {system.name} has there"
            )


def _sent(units: Units) -> list[int]:
    """The units that each GPU sends with."""
    return [sum(column) for column in zip(*units, strict=True)]


# ---- what if --------------------------------------------------------------------------------------------------------
# Systems and plans that differ from described ones in one thing, for link sensitivity.

T = TypeVar("T", bound=WireSpec | ComponentSpec)

_RATES_OF_LINKS = ("bandwidth_Bps", "copy_Bps", "duplex_Bps", "kernel_Bps")
# Of parts that carry something for GPUs: a CPU passes their traffic on, storage holds their input.
_RATES_OF_PARTS: dict[type[ComponentSpec], tuple[str, ...]] = {
    CpuSpec: ("staging_Bps", "staging_duplex_Bps", "peer_Bps"),
    StorageSpec: ("bandwidth_Bps",),
}


def link_kinds(system: System) -> list[str]:
    """The kinds of links that a system has, and of CPUs and storage, each once."""
    components = (component for component, _ in system.counted_components())
    parts = (component.part_name for component in components if type(component.part) in _RATES_OF_PARTS)
    return list(dict.fromkeys([*(link.part_name for link, _ in system.counted_links()), *parts]))


def with_bandwidth(system: System, factors: Mapping[str, float]) -> System:
    """The system with all links (or CPU ports, or storage) of some kinds that many times as fast: {"nvlink1": 2}."""
    for name in factors:
        if name not in link_kinds(system):
            raise unknown_name(f"kind of link of {system.name}", name, link_kinds(system), "what_if.bandwidth")
    links, components = _faster_links(system.links, factors), _faster_components(system.components, factors)
    port, factor = system.port, factors.get(system.network or "")
    if port is not None and factor is not None:
        port = _faster(port, _RATES_OF_LINKS, factor)
    return replace(system, links=links, components=components, port=port)


def _faster_links(links: Sequence[Link], factors: Mapping[str, float]) -> tuple[Link, ...]:
    return tuple(
        replace(link, wire=_faster(link.wire, _RATES_OF_LINKS, factors[link.part_name]))
        if link.part_name in factors
        else link
        for link in links
    )


def _faster_components(components: Sequence[Component], factors: Mapping[str, float]) -> tuple[Component, ...]:
    return tuple(
        replace(
            component, part=_faster(component.part, _RATES_OF_PARTS[type(component.part)], factors[component.part_name])
        )
        if component.part_name in factors and type(component.part) in _RATES_OF_PARTS
        else component
        for component in components
    )


def _faster(part: T, rates: Sequence[str], factor: float) -> T:
    figures = {name: getattr(part, name) for name in rates}
    return replace(part, **{name: _times(figure, factor) for name, figure in figures.items() if figure is not None})


def _times(figure: SourcedValue, factor: float) -> SourcedValue:
    return SourcedValue(figure.value * factor, "assumed", f"what if: {factor:g} times {figure.value:g}")
