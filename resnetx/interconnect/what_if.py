"""Systems and plans that differ from described ones in one thing: which link is worth money?"""

import dataclasses
from collections.abc import Mapping

from msgspec.structs import replace

from resnetx.config import unknown_name
from resnetx.interconnect.collective import Plan
from resnetx.interconnect.parts import Figure, Wire
from resnetx.interconnect.system import System

_RATES = ("bandwidth_Bps", "copy_Bps", "duplex_Bps", "kernel_Bps")


def link_kinds(system: System) -> list[str]:
    """The kinds of links that a system has, each once."""
    return list(dict.fromkeys(link.part_name for link in system.links))


def with_bandwidth(system: System, factors: Mapping[str, float]) -> System:
    """The system with all links of some kinds that many times as fast: {"nvlink1": 2}."""
    for name in factors:
        if name not in link_kinds(system):
            raise unknown_name(f"kind of link of {system.name}", name, link_kinds(system), "what_if.bandwidth")
    links = tuple(
        replace(link, wire=_scaled(link.wire, factors[link.part_name])) if link.part_name in factors else link
        for link in system.links
    )
    return replace(system, links=links)


def with_latency(plan: Plan, factor: float) -> Plan:
    """The plan with that many times the time that no byte costs."""
    ways = tuple(dataclasses.replace(way, fixed_s=way.fixed_s * factor) for way in plan.ways)
    return plan if factor == 1 else dataclasses.replace(plan, ways=ways)


def _scaled(wire: Wire, factor: float) -> Wire:
    figures = {name: getattr(wire, name) for name in _RATES}
    return replace(wire, **{name: _times(figure, factor) for name, figure in figures.items() if figure is not None})


def _times(figure: Figure, factor: float) -> Figure:
    return Figure(figure.value * factor, "assumed", f"what if: {factor:g} times {figure.value:g}")
