"""The network cards between nodes as a person sees them: by connection, and whether rings keep to rails."""

from collections import defaultdict
from collections.abc import Sequence

from resnetx.cli import show
from resnetx.record import BenchRecord, Device, NicUse
from resnetx.reporting import rails

_ROWS = 16
_LISTED = 4  # cards that a sentence names


def nics(record: BenchRecord) -> None:
    """What NCCL's log said of the cards of several nodes."""
    ends = record.transport.nics if record.transport else None
    if not ends:
        return
    found = rails.crossings(ends)
    rows = _rows(found)
    shown = show.first(rows, _ROWS)
    left = f"; {len(rows) - len(shown)} more with --all" if len(shown) < len(rows) else ""
    show.table(
        "Between nodes, by NCCL's log",
        ["channels", ">from", ">to", "of", "card of sender", "of receiver", "GPUDirect"],
        [list(row) for row in shown],
        f"of: the ring of its channel, or its tree or single sends{left}.",
    )
    for sentence in _sentences(found, record.devices or []):
        show.say(sentence)


_Row = tuple[str, str, str, str, str, str, str]


def _rows(found: Sequence[rails.Crossing]) -> list[_Row]:
    """Connections that are alike but for their channel are one row."""
    channels: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for each in found:
        reached = {end.gpudirect for end in each.ends}
        gpudirect = "one end" if len(reached) > 1 else "yes" if True in reached else "no"
        words = (f"{each.source}", f"{each.target}", "ring" if each.ring else "other")
        channels[*words, _card(each.sent), _card(each.received), gpudirect].append(each.channel)
    return [
        (",".join(map(str, numbers)), source, target, of, sent, received, gpudirect)
        for (source, target, of, sent, received, gpudirect), numbers in channels.items()
    ]


def _card(end: NicUse | None) -> str:
    return "?" if end is None else rails.card_name(end)


def _sentences(found: Sequence[rails.Crossing], devices: Sequence[Device]) -> list[str]:
    """Whether rings keep to rails, and what shares a card."""
    seen = rails.rails(found, devices)
    said = []
    if seen.compared:
        said.append(
            f"Rails: {seen.kept} of {seen.compared} connections of rings leave and arrive by cards of one number; "
            + "; ".join(f"GPU {each.gpu} by {' and '.join(each.cards)}" for each in seen.gpus)
            + "."
        )
    shared = sorted((each for each in seen.cards if len(each.channels) > 1), key=lambda each: -len(each.channels))
    if shared:
        named = [f"{each.card} of {each.node} ({len(each.channels)})" for each in shared[:_LISTED]]
        more = f" and {len(shared) - _LISTED} others" if len(shared) > _LISTED else ""
        said.append(f"Cards that rings of several channels share: {', '.join(named)}{more}.")
    elif seen.cards:
        said.append("No two channels' rings share a card.")
    return said
