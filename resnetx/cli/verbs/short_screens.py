"""`images`, `lab`, `list` and `report`: verbs whose screens are a few lines. Each imports what it needs when asked."""

import gc
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx import patterns, study
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.setting_types import written
from resnetx.settings.table import GROUPS
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import si

if TYPE_CHECKING:
    from resnetx.config import Images
    from resnetx.interconnect.systems.lab_network import LabLink, LabNetwork

# ---- images ---------------------------------------------------------------------------------------------------------
# `images`: makes a tree of JPEG files like ImageNet's, or checks one.


def images_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Makes a tree of JPEG files, or checks one; status 1 where an image has a fault."""
    from resnetx.api.images import images, wanted_images

    if len(paths) > 1 or (paths and "input.root" in asked):
        other = paths[1] if len(paths) > 1 else f"input.root={asked['input.root']}"
        raise ConfigError(f"{other}: a second folder beside {paths[0]}; `resnetx images` takes one")
    root, wanted = wanted_images(paths[0] if paths else None, asked)
    if wanted.tokens is not None:
        return _tokens(root, wanted, options.verify)
    if options.verify:
        faults = images(root, verify=True, **asked)
        for fault in faults:
            show.say(fault, indent=2)
        count = f"{len(faults)} fault{'s' * (len(faults) > 1)}"
        show.say(f"{root}: {count if faults else 'every image decodes'}")
        return 1 if faults else 0
    made = images(root, **asked)
    show.say(
        f"{root}: {made.images} images in {wanted.classes} classes, {made.images - made.kept} of them made now; mean "
        f"{made.width.mean:.0f}x{made.height.mean:.0f} pixels, {si(made.size_bytes.mean, 'B')}"
    )
    return 0


def _tokens(file: Path, wanted: "Images", verify: bool) -> int:
    from resnetx.inputs import tokens

    if verify:
        raise ConfigError("--verify with images.tokens: checks images; training checks a file of tokens")
    assert wanted.tokens is not None, "asked for"
    tokens.make(file, tokens=wanted.tokens, vocabulary=wanted.vocabulary, seed=wanted.seed)
    show.say(f"{file}: {wanted.tokens:,} tokens below {wanted.vocabulary:,}, {si(2 * wanted.tokens, 'B')}")
    return 0


# ---- lab ------------------------------------------------------------------------------------------------------------
# `lab`: shows the networks that it would build; with a verb behind `--`, runs that verb in them.


def lab_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Shows networks; status 1 where this machine cannot build them."""
    from resnetx.api.answers import network_line
    from resnetx.api.topology import networks
    from resnetx.measure.lab_ranks import missing

    made = networks(asked)
    obstacle = missing()
    words = (
        " ".join(written({key: value for key, value in asked.items() if key != "out"}))
        .replace("[", "")
        .replace("]", "")
    )  # as every shell passes them on
    how = f"resnetx lab {words} -- bench collective=allreduce"
    told = f"{'; '.join(map(network_line, made))}."
    how = (
        f"This machine cannot build {'it' if len(made) == 1 else 'them'}: {obstacle}"
        if obstacle
        else f"Run in it: {how}"
    )
    show.conclude(options, [told, how], lambda: made, partial(_show, made), most=show.LINES_OF_SEVERAL)
    return 1 if obstacle else 0


def _show(networks: Sequence["LabNetwork"]) -> None:
    rows = [(network, link) for network in networks for link in network.links]
    show.listing(LINKS[0 if len(networks) > 1 else 2 :], rows, constant=True)


LINKS: "list[Column[tuple[LabNetwork, LabLink]]]" = [
    Column("system", lambda row: row[0].system),
    Column(">ranks", lambda row: f"{len(row[0].ranks)}", 2),
    Column("link", lambda row: row[1].a),
    Column("to", lambda row: row[1].b),
    Column(">GB/s", lambda row: f"{row[1].rate_Bps / 1e9:.3g}"),
    Column(">GB/s back", lambda row: f"{row[1].from_Bps(row[1].b) / 1e9:.3g}"),
]


# ---- list ------------------------------------------------------------------------------------------------------------
# `list`: what comes with resnetx, by name.

PLURALS = {
    "model": "models",
    "input": "inputs",
    "strategy": "strategies",
    "tracker": "trackers",
    "pattern": "patterns",
    "study": "studies",
}


def list_(_: Namespace, paths: list[Path], __: Point) -> int:
    """Names what comes with resnetx, and the choices in folders of the user's own; `paths`: of what alone."""
    if [str(path) for path in paths] == ["gpus"]:
        from resnetx.interconnect.systems.system import parts_table

        show.say("device=, gpu=", style="bold")
        show.entries([(name, part.about) for name, part in sorted(parts_table("gpus").items())], indent=2)
        return 0
    known = {
        word: name for name in (*GROUPS, "pattern", "study", "systems") for word in (name, PLURALS.get(name, "system"))
    }
    for path in paths:
        if str(path) not in known:
            raise ConfigError(
                f"{path}: nothing that is listed; expected {', '.join(PLURALS.values())}, systems or gpus"
            )
    wanted = {known[str(path)] for path in paths} or set(known.values())
    show.entries((f"{group}=", ", ".join(sorted(choices(group)))) for group in GROUPS if group in wanted)
    if "pattern" in wanted:
        show.entries([("pattern=", ", ".join(sorted(patterns.NAMES)))])
    if "model" in wanted:
        show.say("model=NAME, too, of any classifier of torchvision.models: model=resnet50", indent=2)
    if "study" in wanted and not paths:
        show.entries([("study=", ", ".join(sorted(study.names())))])
        show.say("what each is: resnetx list studies", indent=2)
    elif "study" in wanted:
        show.say("study=", style="bold")
        show.entries(study.names().items(), indent=2)
    if "systems" in wanted:
        if wanted - {"systems"}:
            show.say()
        show.say("systems=  (`resnetx topology` describes them)", style="bold")
        show.say("  " + ", ".join(sorted(path.stem for path in (CONFIGS / "system").glob("*.yaml"))))
    return 0


# ---- report ---------------------------------------------------------------------------------------------------------
# `report`: a page, figures and tables of anything that is stored.


def report_(_: Namespace, paths: list[Path], asked: Point) -> int:
    """Writes the page of what is given."""
    from resnetx.api.report import report

    gc.disable()  # collecting among the records of thousands of runs frees nothing, and takes a twentieth of the time
    try:
        written = report(*paths, **asked)
    finally:
        gc.freeze()  # nor is it looked through once more at the end
        gc.enable()
    show.line(f"page: {written}")
    show.say("Open it in a browser; its figures and tables are files in the same folder.")
    return 0
