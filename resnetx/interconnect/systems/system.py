"""Systems: machines described as link graphs, one YAML file each.

about: NVIDIA DGX-1 with Tesla P100
wiring: Tallent et al. 2017, Fig. 1a                             # where the graph itself is from
library: nccl1                                                   # the collective library's generation, unless set
launch_mode: one-process                                         # or process-per-gpu: who starts the GPUs, unless set
components:
  gpu0..3: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}       # four of them, one unit apart
  plx0: {switch: pcie3-switch, at: [0, 1]}
links:
  - {between: [gpu0..3, gpu0..3], link: nvlink1}                 # every pair once
  - {between: [gpu0, plx0], link: pcie3, lanes: 16}

Links between GPUs may have more lanes one way than the other, and go through a photonic switch (`system_file`).
Parts (`p100-sxm2-16gb`, `nvlink1`) are in `configs/system/parts`; a file may add its own under `parts:`. Several nodes:
`load(name, nodes=4, ...)`, or as the file's `cluster:` says: `nodes`, `network`, the `nics` used of each node, which of
them the library drives for given GPUs (`rails`), and whether they read GPU memory (`gpu_direct`). An NVSwitch fabric is
one switch, with all the lanes that a GPU has into it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.systems import system_file
from resnetx.interconnect.systems.graph import FABRIC as FABRIC
from resnetx.interconnect.systems.graph import Component as Component
from resnetx.interconnect.systems.graph import EqualNodes
from resnetx.interconnect.systems.graph import LaunchMode as LaunchMode
from resnetx.interconnect.systems.graph import Library as Library
from resnetx.interconnect.systems.graph import Link as Link
from resnetx.interconnect.systems.graph import System as System
from resnetx.interconnect.systems.parts import NetworkSpec, WireSpec
from resnetx.interconnect.systems.system_file import SystemFile
from resnetx.loading import is_file, name_fault
from resnetx.settings import setting_types
from resnetx.settings.files import CONFIGS

_shipped = cache(system_file.read)  # files that come with resnetx; the user's own may change from call to call


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
    file = described(name)
    cluster = file.cluster
    if gpu_direct is not None:
        cluster = msgspec.structs.replace(cluster, gpu_direct=gpu_direct)
        file = msgspec.structs.replace(file, cluster=cluster)
    nodes = cluster.nodes if nodes is None else nodes
    setting_types.check({"nodes": nodes})
    if fault := system_file.nodes_fault(file.system, nodes):
        raise ConfigError(f"{name}: nodes={nodes}: {fault}")
    if nodes == 1:
        return file.system
    try:
        return _compose(file, nodes, network or cluster.network, cluster.nics if nics is None else nics)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def described(name: str) -> SystemFile:
    """The file of a system: its one node, what it says of several, and the networks that it knows."""
    path = _path(name)
    return _shipped(path) if path.parent == CONFIGS / "system" else system_file.read(path)


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
    network, nics = _plugged(file, nodes, network, nics)
    port = _network_wire(file.networks[network], file.cluster.gpu_direct)
    several = system.of_nodes(EqualNodes(system.components, system.links, nodes, network, nics, port))
    about = f"{nodes} nodes of: {system.about}"
    return msgspec.structs.replace(several, name=f"{nodes}x {system.name}", about=about, rails=file.cluster.rails)


def _plugged(file: SystemFile, nodes: int, network: str | None, nics: int | None) -> tuple[str, int]:
    """The network's name, and how many cards of each node are used."""
    system = file.system
    if network is None:
        raise ConfigError(
            f"nodes={nodes} of {system.name}: expected network=, one of {', '.join(sorted(file.networks))}"
        )
    if network not in file.networks:
        raise unknown_name("network", network, file.networks, "network")
    cards = sum(component.kind == "nic" for component in system.components)
    nics = cards if nics is None else nics
    if not 1 <= nics <= cards:
        raise ConfigError(f"nics={nics}: {system.name} has {cards} network cards in each node")
    return network, nics


def _network_wire(network: NetworkSpec, gpu_direct: bool | None) -> WireSpec:
    """A network's port as a wire: half of its latency on either side of the fabric."""
    return WireSpec(
        about=network.about,
        family="network",
        bandwidth_Bps=network.bandwidth_Bps,
        copy_Bps=network.copy_Bps,
        latency_s=msgspec.structs.replace(network.latency_s, stated=network.latency_s.value / 2),
        peer=network.gpu_direct if gpu_direct is None else gpu_direct,
    )
