"""`images` and `lab`: verbs whose screens are a few lines."""

from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from resnetx.api.images import images, wanted_images
from resnetx.api.lab import networks
from resnetx.cli import show
from resnetx.config import Images
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.lab_network import LabLink, LabNetwork
from resnetx.measure.lab_ranks import missing
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import si

# ---- images ---------------------------------------------------------------------------------------------------------
# `images`: makes a tree of JPEG files like ImageNet's, or checks one.


def images_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Makes a tree of JPEG files, or checks one; status 1 where an image has a fault."""
    if len(paths) > 1 or (paths and "input.root" in asked):
        other = paths[1] if len(paths) > 1 else f"input.root={asked['input.root']}"
        raise ConfigError(f"{other}: a second folder beside {paths[0]}; `resnetx images` takes one")
    root, wanted = wanted_images(paths[0] if paths else None, asked)
    if wanted.tokens is not None:
        return _tokens(root, wanted, options.verify)
    if options.verify:
        return _verified(root, images(root, verify=True, **asked))
    made = images(root, **asked)
    show.say(
        f"{root}: {made.images} images in {wanted.classes} classes, {made.images - made.kept} of them made now; mean "
        f"{made.width.mean:.0f}x{made.height.mean:.0f} pixels, {si(made.size_bytes.mean, 'B')}"
    )
    return 0


def _tokens(file: Path, wanted: Images, verify: bool) -> int:
    from resnetx.inputs import tokens

    if verify:
        raise ConfigError("--verify with images.tokens: checks images; training checks a file of tokens")
    assert wanted.tokens is not None, "asked for"
    tokens.make(file, tokens=wanted.tokens, vocabulary=wanted.vocabulary, seed=wanted.seed)
    show.say(f"{file}: {wanted.tokens:,} tokens below {wanted.vocabulary:,}, {si(2 * wanted.tokens, 'B')}")
    return 0


def _verified(root: Path, faults: list[str]) -> int:
    for fault in faults:
        show.say(fault, indent=2)
    count = f"{len(faults)} fault{'s' * (len(faults) > 1)}"
    show.say(f"{root}: {count if faults else 'every image decodes'}")
    return 1 if faults else 0


# ---- lab ------------------------------------------------------------------------------------------------------------
# `lab`: shows the networks that it would build; with a verb behind `--`, runs that verb in them.


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
