r"""The network cards of NCCL's debug log: by which one each connection between nodes leaves, and arrives.

    NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.1.0.1<0>         cards, by their number
    NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB ib0:10.1.0.1<0>  two ports that are used as one
    NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2         likewise, from NCCL 2.23 on
    Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA        of rank 3: card 0 reads GPU memory
    Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IB/1(5)/Shared  of rank 4: card 1, which rank 5 drives (PXN)

Each end is named in the log of its own rank, whose node has the card. The number behind the channel is that of the
connection: 0 of collectives, 1 of single sends. Reference: NCCL, src/transport/net.cc, net_ib.cc and net_socket.cc.
"""

import re
from dataclasses import dataclass
from typing import Literal

_CARDS = re.compile(r"NCCL INFO NET/(?P<network>\w+) : Using(?P<cards> \[0\][^\n;]{0,4000})")
_CARD = re.compile(r"\[(\d{1,3})\](?:=\{(?P<ports>[^}]{0,500})\}|(?P<name>[^\s:]{1,64}))")
_PORT = re.compile(r"\[\d{1,3}\] ?([^\s:,]{1,64})")
_VIRTUAL = re.compile(r"NCCL INFO NET/IB : Made virtual device \[(\d{1,3})\] name=(\S{1,200})")
_END = re.compile(
    r"NCCL INFO Channel (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))? ?: "
    r"(?P<source>\d{1,7})\[\w{1,16}\] -> (?P<target>\d{1,7})\[\w{1,16}\] \[(?P<end>send|receive)\] via "
    r"NET/(?P<network>[^/\n]{1,40})/(?P<card>\d{1,4})(?:\((?P<proxy>\d{1,7})\))?(?P<how>(?:/\w{1,20})*)"
)
_RING = re.compile(r"NCCL INFO Channel (\d{1,4})/\d{1,4} ?:((?: +\d{1,7})+)\s*$", re.MULTILINE)


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
    found = {
        NetworkEnd(
            channel=int(each["channel"]),
            connection=int(each["connection"] or 0),
            source=int(each["source"]),
            target=int(each["target"]),
            end="send" if each["end"] == "send" else "receive",
            network=each["network"],
            card=int(each["card"]),
            name=names.get((each["network"], int(each["card"]))),
            gpudirect="GDRDMA" in each["how"],
            proxy=None if each["proxy"] is None else int(each["proxy"]),
        )
        for each in _END.finditer(log)
    }
    return sorted(found, key=lambda each: (each.channel, each.connection, each.source, each.target, each.end))


def ring_steps(log: str) -> set[tuple[int, int, int]]:
    """(channel, rank, next rank) of every ring that the log names; rank 0's does. Other connections are of trees."""
    rings = [(int(channel), [int(rank) for rank in order.split()]) for channel, order in _RING.findall(log)]
    return {(channel, *step) for channel, order in rings for step in zip(order, order[1:] + order[:1], strict=True)}


def card_names(log: str) -> dict[tuple[str, int], str]:
    """(network, number) -> name of its card."""
    found = {("IB", int(number)): name for number, name in _VIRTUAL.findall(log)}
    for line in _CARDS.finditer(log):
        for card in _CARD.finditer(line["cards"]):
            name = card["name"] or "+".join(_PORT.findall(card["ports"]))
            found.setdefault((line["network"], int(card[1])), name)
    return found
