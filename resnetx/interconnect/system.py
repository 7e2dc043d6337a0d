"""Systems: machines described as link graphs, one YAML file each.

about: NVIDIA DGX-1 with Tesla P100
wiring: Tallent et al. 2017, Fig. 1a                             # where the graph itself is from
library: nccl1                                                   # the collective library's generation, unless set
components:
  gpu0..3: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}       # four of them, one unit apart
  plx0: {switch: pcie3-switch, at: [0, 1]}
links:
  - {between: [gpu0..3, gpu0..3], link: nvlink1}                 # every pair once
  - {between: [gpu0, plx0], link: pcie3, lanes: 16}

Parts (`p100-sxm2-16gb`, `nvlink1`) are in `configs/system/parts`; a file may add its own under `parts:`. Several nodes:
`load(name, nodes=4, ...)`, or as the file's `cluster:` says: `nodes`, `network`, the `nics` used of each node, which of
them the library drives for given GPUs (`rails`), and whether they read GPU memory (`gpu_direct`). An NVSwitch fabric is
one switch, with all the lanes that a GPU has into it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from resnetx import bounds
from resnetx.config import CONFIGS
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import system_file
from resnetx.interconnect.graph import NO_NODE
from resnetx.interconnect.graph import Component as Component
from resnetx.interconnect.graph import Library as Library
from resnetx.interconnect.graph import Link as Link
from resnetx.interconnect.graph import System as System
from resnetx.interconnect.parts import NetworkSpec, SourcedValue, SwitchSpec, WireSpec
from resnetx.interconnect.system_file import SystemFile
from resnetx.loading import is_file, name_fault

FABRIC = "fabric"  # the component that joins the nodes of a composed system


def names() -> dict[str, str]:
    """The systems that come with resnetx, each with what it is."""
    return {path.stem: load(path.stem).about for path in sorted((CONFIGS / "system").glob("*.yaml"))}


def load(
    name: str,
    nodes: int | None = None,
    network: str | None = None,
    nics: int | None = None,
    gpu_direct: bool | None = None,
) -> System:
    """A system by its name or the path of the user's own file; of several nodes if `nodes` or its file says so.

    `nodes`, `network`, `nics` (network ports used of each node) and `gpu_direct` win over the file's `cluster`.
    """
    file = system_file.read(_path(name))
    cluster = file.cluster
    if gpu_direct is not None:
        cluster = msgspec.structs.replace(cluster, gpu_direct=gpu_direct)
        file = msgspec.structs.replace(file, cluster=cluster)
    nodes = cluster.nodes if nodes is None else nodes
    bounds.check({"nodes": nodes})
    if fault := system_file.nodes_fault(file.system, nodes):
        raise ConfigError(f"{name}: nodes={nodes}: {fault}")
    if nodes == 1:
        return file.system
    try:
        return _compose(file, nodes, network or cluster.network, cluster.nics if nics is None else nics)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def parts_table(table: str) -> dict[str, Any]:
    """The shared parts of one kind: `parts_table("gpus")["p100-sxm2-16gb"]`."""
    return system_file.shared_parts()[table]


def _path(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    path = CONFIGS / "system" / f"{name}.yaml"
    if name_fault(name) or not is_file(path):
        raise unknown_name("system", name, (own.stem for own in (CONFIGS / "system").glob("*.yaml")), "systems")
    return path


# ---- several nodes


def _compose(file: SystemFile, nodes: int, network: str | None, nics: int | None) -> System:
    """`nodes` copies of a system whose first `nics` network cards are each plugged into one non-blocking fabric."""
    system = file.system
    network, cards = _plugged(file, nodes, network, nics)
    gpus: list[Component] = []
    others: list[Component] = []
    links: list[Link] = []
    for node in range(nodes):
        for component in _components_of(system, node):
            (gpus if component.kind == "gpu" else others).append(component)
        for link in system.links:
            links.append(msgspec.structs.replace(link, a=_in_node(node, link.a), b=_in_node(node, link.b)))
    wire = _network_wire(file.networks[network], file.cluster.gpu_direct)
    for node, card in product(range(nodes), cards):
        links.append(Link(_in_node(node, card), FABRIC, network, wire, 1, "composed: nodes, network and nics"))
    return System(
        name=f"{nodes}x {system.name}",
        about=f"{nodes} nodes of: {system.about}",
        library=system.library,
        components=(*gpus, *others, _fabric(system, nodes, network)),
        links=tuple(links),
        nodes=nodes,
        network=network,
        nics=len(cards),
        rails=file.cluster.rails,
    )


def _plugged(file: SystemFile, nodes: int, network: str | None, nics: int | None) -> tuple[str, list[str]]:
    """The network's name, and the cards of each node that are used."""
    system = file.system
    if network is None:
        raise ConfigError(
            f"nodes={nodes} of {system.name}: expected network=, one of {', '.join(sorted(file.networks))}"
        )
    if network not in file.networks:
        raise unknown_name("network", network, file.networks, "network")
    cards = [component.name for component in system.components if component.kind == "nic"]
    nics = len(cards) if nics is None else nics
    if not 1 <= nics <= len(cards):
        raise ConfigError(f"nics={nics}: {system.name} has {len(cards)} network cards in each node")
    return network, cards[:nics]


def _components_of(system: System, node: int) -> Iterator[Component]:
    """The components of one node, placed to the right of the node before."""
    for component in system.components:
        x = component.x + node * _width(system)
        yield Component(_in_node(node, component.name), component.part_name, component.part, x, component.y, node)


def _width(system: System) -> float:
    """From one node to the next, in a drawing."""
    return 2 + max(component.x for component in system.components) - min(component.x for component in system.components)


def _fabric(system: System, nodes: int, network: str) -> Component:
    """The switch that joins all nodes, drawn above their middle."""
    fabric = SwitchSpec(
        about="A network fabric that blocks nothing", latency_s=SourcedValue(0, "assumed", "in the network's")
    )
    top = 1 + max(component.y for component in system.components)
    return Component(FABRIC, network, fabric, (nodes - 1) * _width(system) / 2, top, NO_NODE)


def _in_node(node: int, name: str) -> str:
    return f"node{node}.{name}"


def _network_wire(network: NetworkSpec, gpu_direct: bool | None) -> WireSpec:
    """A network's port as a wire: half of its latency on either side of the fabric."""
    return WireSpec(
        about=network.about,
        family="network",
        bandwidth_Bps=network.bandwidth_Bps,
        copy_Bps=network.copy_Bps,
        latency_s=msgspec.structs.replace(network.latency_s, value=network.latency_s.value / 2),
        peer=network.gpu_direct if gpu_direct is None else gpu_direct,
    )
