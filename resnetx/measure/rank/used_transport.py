"""How ranks exchanged data, as a record has it: what was asked for, what was used, and what shows it.

gloo sends over TCP only. NCCL names each connection in its log (`nccl_log`); one that is not what was asked for is a
warning, and so is a log that names none.
"""

import os

from resnetx.measure.launch import nccl_log
from resnetx.measure.launch.torchrun import lab_network, on_one_node
from resnetx.measure.rank import distributed
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import Transport, Unknown, Warning, if_known, known
from resnetx.transports import AUTO, Way


def none(why: str, way: Way = AUTO) -> Transport:
    """The transport of a run that sends no gradients."""
    return Transport(requested=way.transport, used=known(Unknown(why)), evidence=[])


def over_sockets(way: Way = AUTO) -> Transport:
    """The transport of gloo."""
    if network := lab_network():
        return Transport(requested=network.system, used=["socket"], evidence=network.describe())
    loopback = distributed.loopback() if on_one_node() else None
    interface = way.interface or os.environ.get("GLOO_SOCKET_IFNAME") or loopback or "the interface of the host name"
    return Transport(requested=way.transport, used=["socket"], evidence=[f"gloo sends over TCP only; {interface}"])


def used(ranks: Ranks, logs: list[str]) -> Transport:
    """How several ranks exchange gradients, with the evidence for it; `logs` are the NCCL logs of all ranks."""
    if distributed.backend(ranks.device) == "gloo":
        return over_sockets(ranks.way)
    lines = nccl_log.channel_lines("\n".join(logs))
    if not lines:
        return none(f"{distributed.backend(ranks.device).upper()}'s log names no connections", ranks.way)
    used = sorted({via for via, _ in lines})
    return Transport(requested=ranks.way.transport, used=used, evidence=[line for _, line in lines])


def warnings(found: Transport, way: Way) -> list[Warning]:
    """What data travelled by that was not asked for, or that nobody knows what it travelled by."""
    used = if_known(found.used)
    if way.transport == "auto" or found.requested != way.transport:
        return []
    if used is None:
        message = f"transport={way.transport} was asked for, and nothing says what was used: {found.used}"
        return [Warning(code="transport", message=message, remedy="unset NCCL_DEBUG, so that NCCL's log can be read")]
    if other := [] if used == ["socket"] else way.contradicted(used, on_one_node()):
        message = f"transport={way.transport} was asked for, and {', '.join(other)} was used"
        return [Warning(code="transport", message=message, remedy="see `transport.evidence` in the record")]
    return []
