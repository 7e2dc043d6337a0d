"""Systems and plans that differ from described ones in one thing, for link sensitivity."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from resnetx.errors import unknown_name
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.systems.parts import ComponentSpec, CpuSpec, SourcedValue, StorageSpec, WireSpec
from resnetx.interconnect.systems.system import Component, Link, System

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
    if system.equal is None:
        links, components = _faster_links(system.links, factors), _faster_components(system.components, factors)
        return replace(system, links=links, components=components)
    nodes = system.equal
    port = _faster(nodes.port, _RATES_OF_LINKS, factors[nodes.network]) if nodes.network in factors else nodes.port
    links, components = _faster_links(nodes.links, factors), _faster_components(nodes.components, factors)
    return system.of_nodes(replace(nodes, links=links, components=components, port=port))


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


def with_latency(plan: CollectivePlan, factor: float) -> CollectivePlan:
    """The plan with that many times the time that no byte costs."""
    slowed = tuple(algorithm.with_latency(factor) for algorithm in plan.algorithms)
    return plan if factor == 1 else dataclasses.replace(plan, algorithms=slowed)


def _faster(part: T, rates: Sequence[str], factor: float) -> T:
    figures = {name: getattr(part, name) for name in rates}
    return replace(part, **{name: _times(figure, factor) for name, figure in figures.items() if figure is not None})


def _times(figure: SourcedValue, factor: float) -> SourcedValue:
    return SourcedValue(figure.value * factor, "assumed", f"what if: {factor:g} times {figure.value:g}")
