"""What a bench of collectives answers, in sentences: how fast, from which size on, and whether results are right."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from resnetx.interconnect.collectives.measured import telling_times
from resnetx.interconnect.collectives.sizes import knees
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord, Device, NicUse
from resnetx.units import size_text

MOST = 3  # collectives, by name


def bench_answer(record: BenchRecord) -> str:
    """Of each collective its highest bus bandwidth, where half of it is reached, and its time at the smallest size."""
    names = list(dict.fromkeys(point.collective for point in record.points))
    if record.outcome != "ok" or not names:
        return ""
    where = "Measured" if record.source == "measured" else "Imported"
    ranks = f"{record.world_size} ranks" if record.world_size else "an unknown number of ranks"
    told = "; ".join(_speed(record, name) for name in names[:MOST])
    more = f"; {len(names) - MOST} more below" * (len(names) > MOST)
    return f"{where}, {ranks}, {record.library or 'library unknown'}: {told}{more}. " + " ".join(_right(record.points))


def _speed(record: BenchRecord, name: str) -> str:
    points = sorted((point for point in record.points if point.collective == name), key=lambda each: each.size_bytes)
    times_s = {point.size_bytes: median(telling) for point, telling in zip(points, telling_times(points), strict=True)}
    smallest, rates = points[0].size_bytes, {size: size / time_s for size, time_s in times_s.items()}
    best = max(rates, key=lambda size: rates[size])
    factor = OPERATIONS[name].bus_factor(record.world_size) if record.world_size else 1.0
    found = knees(times_s)
    half = f", half of it from {size_text(round(found.half_bytes))} on" if found and found.half_bytes else ""
    kind = "GB/s bus bandwidth" if record.world_size else "GB/s (size / time)"
    fast = f"{name} reaches {rates[best] * factor / 1e9:.3g} {kind} at {size_text(best)}{half}"
    return fast + f"; {size_text(smallest)} take {_time(times_s[smallest])}" * (smallest != best)


def _right(points: list[BenchPoint]) -> Iterator[str]:
    """Whether results are right, and how many sizes are slower than described."""
    checked = [point for point in points if point.wrong is not None]
    if wrong := [point for point in checked if point.wrong]:
        yield f"WRONG results at {len(wrong)} of {len(checked)} sizes."
    elif len(checked) == len(points):
        yield "All results are right."
    if slow := [point for point in points if point.verdict == "low"]:
        yield f"Slower than described at {len(slow)} of {len(points)} sizes."


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


# Rails: by which network card the rings of NCCL leave each GPU and reach the next node.
#
# Where GPU i of every node sends and receives by card i, all traffic of a card stays on the switch that joins the cards
# of this number: its rail. Two channels that share a card share its bandwidth.


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
