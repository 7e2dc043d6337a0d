"""The messages of an operation that is nothing but messages, by sender and receiver: all-to-all, gather and others.

    messages(OPERATIONS["alltoall"], [(0, 1, 2, 3)])    # twelve, each of a quarter of the array

Of many ranks on several nodes, which are alike, two nodes stand for all: the first, where rank 0 is, and the fullest
other one. What the first exchanges with all others is then between these two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from resnetx.interconnect.internode import Groups
from resnetx.operations import Operation

ALL_RANKS = 16  # of up to so many every message is looked at


@dataclass(frozen=True)
class Message:
    """What one GPU sends another."""

    sender: int  # GPU ids
    receiver: int
    share: float  # of the array; of two nodes that stand for more, of all such messages
    between_nodes: bool


def messages(operation: Operation, groups: Groups) -> list[Message]:
    """Those that run at once."""
    ranks = sum(map(len, groups))
    if len(groups) < 2 or ranks <= ALL_RANKS:
        return list(_sent(operation, groups, 1.0, 1.0))
    pair = (groups[0], max(groups[1:], key=len))
    if not operation.in_parts:
        return list(_sent(operation, pair, 1.0, 1.0))
    smaller = sum(map(len, pair)) / ranks  # a part is that of one rank among all
    return list(_sent(operation, pair, smaller, smaller * (ranks - len(pair[0])) / len(pair[1])))


def _sent(operation: Operation, groups: Groups, inside: float, between: float) -> Iterator[Message]:
    """The messages of these nodes alone; `inside` and `between` nodes, each counts so many times."""
    assert operation.sends is not None, f"{operation.name} goes around rings"
    node_of = {device: node for node, group in enumerate(groups) for device in group}
    devices: Sequence[int] = list(node_of)
    for sender, receiver in permutations(range(len(devices)), 2):
        if share := operation.sends(sender, receiver, len(devices)):
            apart = node_of[devices[sender]] != node_of[devices[receiver]]
            yield Message(devices[sender], devices[receiver], share * (between if apart else inside), apart)


def leaving(operation: Operation, groups: Groups) -> float:
    """The largest share of the array that leaves, or enters, one node."""
    node_of = {device: node for node, group in enumerate(groups) for device in group}
    out, into = ([0.0] * len(groups) for _ in range(2))
    for message in messages(operation, groups):
        if message.between_nodes:
            out[node_of[message.sender]] += message.share
            into[node_of[message.receiver]] += message.share
    return max(*out, *into)
