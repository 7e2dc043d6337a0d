"""Kinds of machines, by what carries a collective's data: errors of one kind say little of another.

A kind is, inside one node, GPUs' own links (of one generation, directly or through switches), or PCI Express (of one
generation, from peer to peer or staged in host memory); between nodes the network, with or without access to GPU
memory; sockets; each of one maker's GPUs. An error is only ever counted with all machines of its kind left out of the
fit (`fitting`), so that it is one of a machine that the model has not seen.
"""

from resnetx.interconnect.graph import System

SOCKETS = "gloo or NCCL over sockets"


def kind_of(system: System, staged: bool, over_links: bool = True) -> str:
    """What carries data between GPUs. `staged`: some of it in host memory; `over_links`: their own links may."""
    about = system.gpu_part(0).about
    maker = next((maker for maker in ("NVIDIA", "AMD") if maker in about), "unknown")
    if system.nodes > 1:
        port = next(link.wire for link, _ in system.counted_links() if link.wire.family == "network")
        return (
            f"several nodes of {maker} GPUs, network cards {'reading' if port.peer else 'without access to'} GPU memory"
        )
    kinds = {component.name: component.kind for component in system.components}
    found = set()
    for link in system.links:
        ends = {kinds[link.a], kinds[link.b]}
        if over_links and link.wire.family == "nvlink" and ends in ({"gpu"}, {"gpu", "switch"}):
            found.add(f"{link.wire.about} {'through switches' if 'switch' in ends else 'from GPU to GPU'}")
    how = "staged in host memory" if staged else "from peer to peer"
    generation = (system.gpu_part(0).bus or "").removeprefix("pcie")
    return " and ".join(sorted(found)) or f"{maker} GPUs over PCI Express {generation}, {how}"
