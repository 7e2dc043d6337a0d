"""The channels of NCCL's debug log, and the collectives that it names: who sends to whom, and how much.

    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL python train.py 2> nccl.log

With INIT, rank 0 names the ring of each channel ("Channel 00/04 :    0   3   2   1"), and each rank its connections
("Channel 00/0 : 0[0] -> 3[3] via P2P/CUMEM"). With COLL each operation is a line ("AllReduce: opCount 0 ... count 2048
datatype 7"); the enumeration of types is that of nccl.h. Where the rings are not named, connections stand for them, of
which a tree has some, too.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from resnetx.loading import File

LIMIT_BYTES = 2**28
MOST_RANKS = 2**10

_RING = re.compile(r"NCCL INFO Channel (\d{1,4})/\d{1,4} ?:((?: +\d{1,4})+)\s*$", re.MULTILINE)
_CONNECTION = re.compile(
    r"NCCL INFO (?:Channel|Ring) (\d{1,4})(?:/\d{1,4})? ?: (\d{1,4})\[[^\]\n]{0,40}\] -> (\d{1,4})\[[^\]\n]{0,40}\]"
    r"(?: \[\w{1,10}\])?(?: via (?P<via>[\w/ ]{1,40}))?"
)
_OPERATION = re.compile(
    r"^(?P<who>[^\n]{0,200}?)NCCL INFO (?P<name>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce): opCount "
    r"[^\n]{0,200}? count (?P<count>\d{1,15}) datatype (?P<type>\d{1,2}) ",
    re.MULTILINE,
)
# nccl.h, ncclDataType_t: int8 0, uint8 1, int32 2, uint32 3, int64 4, uint64 5, float16 6, float32 7, float64 8, ...
_TYPE_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}
_COLLECTIVES = {
    "AllReduce": "allreduce",
    "AllGather": "allgather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
}


@dataclass(frozen=True)
class LoggedChannels:
    """What a log says. `rings`: an order of ranks for each channel; [] where only connections are named."""

    rings: list[tuple[int, ...]]
    connections: Counter[tuple[int, int]]  # (from, to) -> channels that connect them
    transports: Counter[str]  # "P2P/CUMEM" -> connections by it
    operations: Counter[tuple[str, int]]  # (collective, bytes as the log counts them) -> how often one rank ran it
    ranks: int


def read_channels(path: Path) -> LoggedChannels:
    """What is in a log of one or all ranks of one communicator."""
    file = File(path, "a log of NCCL", LIMIT_BYTES)
    channels = channels_of(file.text())
    if channels is None:
        raise file.error(
            "names no channels; expected a log of NCCL_DEBUG=INFO, or a CSV whose name ends in .csv, or a record"
        )
    if channels.ranks > MOST_RANKS:
        raise file.error(f"{channels.ranks} ranks; expected at most {MOST_RANKS}")
    return channels


def channels_of(text: str) -> LoggedChannels | None:
    """The same of a text; None where it names no channels."""
    rings = {int(channel): tuple(map(int, order.split())) for channel, order in _RING.findall(text)}
    rings = {channel: order for channel, order in rings.items() if len(order) > 1 and len(set(order)) == len(order)}
    connected = {
        (int(match[1]), int(match[2]), int(match[3])): (match["via"] or "").strip()
        for match in _CONNECTION.finditer(text)
    }
    connections = Counter((by, to) for _, by, to in connected if by != to)
    if not rings and not connections:
        return None
    transports = Counter(via for (_, by, to), via in connected.items() if via and by != to)
    ranks = 1 + max(
        [*(rank for order in rings.values() for rank in order), *(end for pair in connections for end in pair)]
    )
    return LoggedChannels(list(rings.values()), connections, transports, _operations(text), ranks)


def _operations(text: str) -> Counter[tuple[str, int]]:
    """The operations of the first rank that names any."""
    matches = list(_OPERATION.finditer(text))
    first = [match for match in matches if match["who"] == matches[0]["who"]]
    return Counter(
        (_COLLECTIVES[match["name"]], int(match["count"]) * _TYPE_BYTES[int(match["type"])])
        for match in first
        if int(match["type"]) in _TYPE_BYTES
    )


# The network cards of NCCL's debug log: by which one each connection between nodes leaves, and arrives.
#
#     NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.1.0.1<0>         cards, by their number
#     NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB ib0:10.1.0.1<0>  two ports that are used as one
#     NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2         likewise, from NCCL 2.23 on
#     Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA        of rank 3: card 0 reads GPU memory
#     Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IB/1(5)/Shared  of rank 4: card 1, which rank 5 drives (PXN)
#
# Each end is named in the log of its own rank, whose node has the card. The number behind the channel is that of the
# connection: 0 of collectives, 1 of single sends. Reference: NCCL, src/transport/net.cc, net_ib.cc and net_socket.cc.

_CARDS = re.compile(r"NCCL INFO NET/(?P<network>\w+) : Using(?P<cards> \[0\][^\n;]{0,4000})")
_CARD = re.compile(r"\[(\d{1,3})\](?:=\{(?P<ports>[^}]{0,500})\}|(?P<name>[^\s:]{1,64}))")
_PORT = re.compile(r"\[\d{1,3}\] ?([^\s:,]{1,64})")
_VIRTUAL = re.compile(r"NCCL INFO NET/IB : Made virtual device \[(\d{1,3})\] name=(\S{1,200})")
_END = re.compile(
    r"NCCL INFO Channel (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))? ?: "
    r"(?P<source>\d{1,7})\[\w{1,16}\] -> (?P<target>\d{1,7})\[\w{1,16}\] \[(?P<end>send|receive)\] via "
    r"NET/(?P<network>[^/\n]{1,40})/(?P<card>\d{1,4})(?:\((?P<proxy>\d{1,7})\))?(?P<how>(?:/\w{1,20})*)"
)
_NIC_RING = re.compile(r"NCCL INFO Channel (\d{1,4})/\d{1,4} ?:((?: +\d{1,7})+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class NetworkEnd:
    """One end of a connection between nodes."""

    channel: int
    connection: int  # 0: of collectives
    source: int  # rank
    target: int
    end: Literal["send", "receive"]
    network: str  # "IB", "Socket", "AWS Libfabric"
    card: int  # its number on the node of this end
    name: str | None  # "mlx5_0"; None where the log names no cards of this network
    gpudirect: bool
    proxy: int | None  # the rank that drives the card for this one; None: itself


def network_ends(log: str) -> list[NetworkEnd]:
    """The ends that are in the log of one rank, each once, by channel."""
    names = card_names(log)
    ends = {
        NetworkEnd(
            channel=int(match["channel"]),
            connection=int(match["connection"] or 0),
            source=int(match["source"]),
            target=int(match["target"]),
            end="send" if match["end"] == "send" else "receive",
            network=match["network"],
            card=int(match["card"]),
            name=names.get((match["network"], int(match["card"]))),
            gpudirect="GDRDMA" in match["how"],
            proxy=None if match["proxy"] is None else int(match["proxy"]),
        )
        for match in _END.finditer(log)
    }
    return sorted(ends, key=lambda end: (end.channel, end.connection, end.source, end.target, end.end))


def ring_steps(log: str) -> set[tuple[int, int, int]]:
    """(channel, rank, next rank) of every ring that the log names; rank 0's does. Other connections are of trees."""
    rings = [(int(channel), [int(rank) for rank in order.split()]) for channel, order in _NIC_RING.findall(log)]
    return {(channel, *step) for channel, order in rings for step in zip(order, order[1:] + order[:1], strict=True)}


def card_names(log: str) -> dict[tuple[str, int], str]:
    """(network, number) -> name of its card."""
    found = {("IB", int(number)): name for number, name in _VIRTUAL.findall(log)}
    for line in _CARDS.finditer(log):
        for card in _CARD.finditer(line["cards"]):
            name = card["name"] or "+".join(_PORT.findall(card["ports"]))
            found.setdefault((line["network"], int(card[1])), name)
    return found
