"""`lab`: shows the networks that it would build; with a verb behind `--`, runs that verb in them."""

from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from resnetx.api.lab import networks
from resnetx.cli import show
from resnetx.interconnect.systems.lab import LabLink, LabNetwork
from resnetx.measure.lab.namespaces import missing
from resnetx.study import Point
from resnetx.table import Column


def lab_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Shows networks; status 1 where this machine cannot build them."""
    made = networks(asked)
    obstacle = missing()
    how = "This machine can build them: resnetx lab systems=... scale=... -- bench collective=allreduce"
    show.conclude(options, [obstacle or how], lambda: made, partial(_show, made))
    return 1 if obstacle else 0


def _show(networks: Iterable[LabNetwork]) -> None:
    for network in networks:
        _show_links(network)


def _show_links(network: LabNetwork) -> None:
    others = len(network.spaces) - len(network.ranks)
    title = f"{network.system} / {network.scale:g}: {len(network.ranks)} ranks, {others} namespaces between them"
    show.listing(LINKS, network.links, title, every=True, constant=True)
    show.say()


LINKS: list[Column[LabLink]] = [
    Column("link", lambda link: link.a),
    Column("to", lambda link: link.b),
    Column(">GB/s", lambda link: f"{link.rate_Bps / 1e9:.3g}"),
    Column(">GB/s back", lambda link: f"{link.from_Bps(link.b) / 1e9:.3g}"),
]
