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
    found = channels_of(file.text())
    if found is None:
        raise file.error(
            "names no channels; expected a log of NCCL_DEBUG=INFO, or a CSV whose name ends in .csv, or a record"
        )
    if found.ranks > MOST_RANKS:
        raise file.error(f"{found.ranks} ranks; expected at most {MOST_RANKS}")
    return found


def channels_of(text: str) -> LoggedChannels | None:
    """The same of a text; None where it names no channels."""
    rings = {int(channel): tuple(map(int, order.split())) for channel, order in _RING.findall(text)}
    rings = {channel: order for channel, order in rings.items() if len(order) > 1 and len(set(order)) == len(order)}
    connected = {
        (int(found[1]), int(found[2]), int(found[3])): (found["via"] or "").strip()
        for found in _CONNECTION.finditer(text)
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
    found = list(_OPERATION.finditer(text))
    first = [each for each in found if each["who"] == found[0]["who"]]
    return Counter(
        (_COLLECTIVES[each["name"]], int(each["count"]) * _TYPE_BYTES[int(each["type"])])
        for each in first
        if int(each["type"]) in _TYPE_BYTES
    )
