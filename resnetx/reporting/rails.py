"""Rails: by which network card the rings of NCCL leave each GPU and reach the next node.

Where GPU i of every node sends and receives by card i, all traffic of a card stays on the switch that joins the cards
of this number: its rail. Two channels that share a card share its bandwidth.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.record import Device, NicUse


@dataclass(frozen=True)
class Crossing:
    """A connection between nodes: what its sender and its receiver logged of it."""

    channel: int
    ring: bool  # a step of its channel's ring
    source: int  # rank
    target: int
    sent: NicUse | None  # None: the log of this end says nothing
    received: NicUse | None

    @property
    def ends(self) -> list[NicUse]:
        return [end for end in (self.sent, self.received) if end is not None]

    @property
    def on_one_rail(self) -> bool | None:
        """Whether it leaves and arrives by cards of one number; None: an end is not known."""
        if self.sent is None or self.received is None:
            return None
        return self.sent.nic == self.received.nic


@dataclass(frozen=True)
class GpuCards:
    """The cards that the rings of one GPU use, of the GPU of this number on every node."""

    gpu: int
    cards: tuple[str, ...]


@dataclass(frozen=True)
class CardChannels:
    """The channels whose rings go by one card of one node."""

    node: str
    card: str
    channels: tuple[int, ...]


@dataclass(frozen=True)
class Rails:
    """The rings of a record."""

    kept: int  # connections of rings that leave and arrive by cards of one number
    compared: int  # of so many
    gpus: list[GpuCards]
    cards: list[CardChannels]


def crossings(ends: Sequence[NicUse]) -> list[Crossing]:
    """The connections, by channel; rings before others of a channel."""
    found: dict[tuple[int, int, int, int], dict[str, NicUse]] = defaultdict(dict)
    for end in ends:
        found[end.channel, end.connection, end.source, end.target][end.end] = end
    made = [
        Crossing(
            channel,
            next(iter(both.values())).ring,
            source,
            target,
            both.get("send"),
            both.get("receive"),
        )
        for (channel, _, source, target), both in found.items()
    ]
    return sorted(made, key=lambda each: (each.channel, not each.ring, each.source, each.target))


def rails(found: Sequence[Crossing], devices: Sequence[Device]) -> Rails:
    """Whether rings keep to rails; `devices`: one for each rank."""
    rings = [each for each in found if each.ring]
    known = [each.on_one_rail for each in rings if each.on_one_rail is not None]
    by_gpu: dict[int, set[str]] = defaultdict(set)
    by_card: dict[tuple[str, str], set[int]] = defaultdict(set)
    for crossing in rings:
        for end in crossing.ends:
            here = devices[end.source if end.end == "send" else end.target]
            by_gpu[here.index].add(card_name(end))
            by_card[here.node, card_name(end)].add(crossing.channel)
    return Rails(
        kept=sum(known),
        compared=len(known),
        gpus=[GpuCards(gpu, tuple(sorted(cards))) for gpu, cards in sorted(by_gpu.items())],
        cards=[CardChannels(*where, tuple(sorted(channels))) for where, channels in sorted(by_card.items())],
    )


def card_name(end: NicUse) -> str:
    """ "mlx5_0", or "IB 0" where NCCL does not say what it is called."""
    return end.name or f"{end.network} {end.nic}"
