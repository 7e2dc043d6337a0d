"""Which kinds of machines collectives were ever measured on, beside what the model says of them.

A kind is what carries the data: inside one node GPUs' own links (of one generation, directly or through switches), or
PCI Express; between nodes the network, with or without access to GPU memory; sockets. Rings and messages are apart.
The model's error on one kind says nothing of another, which it was never held against.
"""

from functools import cache
from typing import TYPE_CHECKING

from resnetx.interconnect.graph import System
from resnetx.interconnect.published import load_published, published
from resnetx.operations import OPERATIONS

if TYPE_CHECKING:
    from resnetx.interconnect.collective import CollectivePlan

SOCKETS = "gloo or NCCL over sockets"


def never_compared(plan: "CollectivePlan") -> str:
    """Why the error of a plan is not known, in words; "" where times of such machines are published."""
    sends = OPERATIONS[plan.collective].sends is not None
    if plan.library == "gloo" or plan.transport == "socket":
        kind = SOCKETS
    else:
        kind = _kind(plan.system, over_links=plan.transport in ("auto", "peer"))
    if kind in _published_kinds(sends):
        return ""
    what = "messages (all-to-all, send-receive, gather, scatter)" if sends else "rings or trees"
    return f"no times of {what} are published for {kind}"


@cache
def _published_kinds(sends: bool) -> frozenset[str]:
    """The kinds of all systems that published times are of."""
    entries = [each for each in published().entries if (OPERATIONS[each.collective].sends is not None) == sends]
    places = {(each.system, each.cluster) for each in entries}
    return frozenset(_kind(load_published(*place), over_links=True) for place in places)


def _kind(system: System, over_links: bool) -> str:
    """What carries data between GPUs; `over_links`: their own links may."""
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
    return " and ".join(sorted(found)) or f"{maker} GPUs over PCI Express"
