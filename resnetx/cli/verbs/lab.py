"""`lab`: shows the networks that it would build; with a verb behind `--`, runs that verb in them."""

from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from resnetx.api.lab import networks
from resnetx.cli import show
from resnetx.interconnect.systems.lab import LabNetwork
from resnetx.measure.lab.namespaces import missing
from resnetx.study import Point
from resnetx.units import si


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
    uneven = any(link.back_Bps is not None for link in network.links)
    show.table(
        f"{network.system} / {network.scale:g}: {len(network.ranks)} ranks, {others} namespaces between them",
        ["link", "to", ">B/s", ">B/s back"] if uneven else ["link", "to", ">B/s each way"],
        [
            [link.a, link.b, *(si(link.from_Bps(end), "B/s") for end in ((link.a, link.b) if uneven else (link.a,)))]
            for link in network.links
        ],
    )
    show.say()
