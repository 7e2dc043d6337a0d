"""How ranks exchanged data, as a record has it: what was asked for, what was used, and what shows it.

gloo sends over TCP only. NCCL names each connection in its log (`nccl_log`); one that is not what was asked for is a
warning, and so is a log that names none. Between nodes it also names the network card at each end.
"""

import os
from collections.abc import Sequence

from resnetx.formats.nccl_nics import network_ends, ring_steps
from resnetx.measure.launch import nccl_log
from resnetx.measure.launch.torchrun import lab_network, on_one_node
from resnetx.measure.rank import distributed
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import NicUse, Transport, Unknown, Warning, if_known, known
from resnetx.transports import AUTO, Way


def none(why: str, way: Way = AUTO) -> Transport:
    """The transport of a run that sends no gradients."""
    return Transport(requested=way.transport, used=known(Unknown(why)), evidence=[], nics=known(Unknown(why)))


def over_sockets(way: Way = AUTO) -> Transport:
    """The transport of gloo."""
    no_nics = known(Unknown("gloo does not say by which network card it sends"))
    if network := lab_network():
        return Transport(requested=network.system, used=["socket"], evidence=network.describe(), nics=no_nics)
    loopback = distributed.loopback() if on_one_node() else None
    interface = way.interface or os.environ.get("GLOO_SOCKET_IFNAME") or loopback or "the interface of the host name"
    evidence = [f"gloo sends over TCP only; {interface}"]
    return Transport(requested=way.transport, used=["socket"], evidence=evidence, nics=no_nics)


def used(ranks: Ranks, logs: list[str]) -> Transport:
    """How several ranks exchange gradients, with the evidence for it; `logs` are the NCCL logs of all ranks."""
    if distributed.backend(ranks.device) == "gloo":
        return over_sockets(ranks.way)
    lines = nccl_log.channel_lines("\n".join(logs))
    if not lines:
        return none(f"{distributed.backend(ranks.device).upper()}'s log names no connections", ranks.way)
    used = sorted({via for via, _ in lines})
    evidence = [line for _, line in lines]
    return Transport(requested=ranks.way.transport, used=used, evidence=evidence, nics=known(nics(logs)))


def nics(logs: Sequence[str]) -> list[NicUse] | Unknown:
    """The card at each end of every connection between nodes; `logs`: NCCL's, by rank."""
    if on_one_node():
        return Unknown("all ranks are on one node")
    rings = {step for log in logs for step in ring_steps(log)}
    found = [
        NicUse(
            channel=each.channel,
            connection=each.connection,
            ring=each.connection == 0 and (each.channel, each.source, each.target) in rings,
            source=each.source,
            target=each.target,
            end=each.end,
            network=each.network,
            nic=each.card,
            name=known(each.name or Unknown(f"NCCL's log does not name the cards of {each.network}")),
            gpudirect=each.gpudirect,
            driver=rank if each.proxy is None else each.proxy,
        )
        for rank, log in enumerate(logs)
        for each in network_ends(log)
    ]
    return found or Unknown("NCCL's log names no connection between nodes")


def unlike_gpudirect(found: Transport, way: Way) -> list[Warning]:
    """A warning where network cards reach GPU memory and were not to, or the other way round."""
    ends = if_known(found.nics)
    if way.gpudirect is None or ends is None:
        return []
    other = sum(end.gpudirect != way.gpudirect for end in ends)
    if not other:
        return []
    word = way.words[-1]
    message = f"{word} was asked for, and {other} of {len(ends)} ends of connections between nodes are otherwise"
    remedy = "see `transport.nics` in the record" + "; nvidia-peermem or DMA-BUF lets cards in" * way.gpudirect
    return [Warning(code="gpudirect", message=message, remedy=remedy)]


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
