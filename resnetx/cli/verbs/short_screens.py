"""`images`, `lab`, `list` and `report`: verbs whose screens are a few lines. Each imports what it needs when asked."""

import gc
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resnetx import patterns, study
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.setting_types import written
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
    faults: list[str] = []
    if wanted.tokens is not None:
        told = _tokens(root, wanted, options.verify)
        found: dict[str, Any] = {"file": str(root), "tokens": wanted.tokens, "vocabulary": wanted.vocabulary}
    elif options.verify:
        faults = images(root, verify=True, **asked)
        told = f"{len(faults)} fault{'s' * (len(faults) > 1)}" if faults else "every image decodes"
        found = {"folder": str(root), "faults": faults}
    else:
        made = images(root, **asked)
        told = (
            f"{made.images} images in {wanted.classes} classes, {made.images - made.kept} of them made now; mean "
            f"{made.width.mean:.0f}x{made.height.mean:.0f} pixels, {si(made.size_bytes.mean, 'B')}"
        )
        found = {"folder": str(root), **asdict(made)}
    screen = partial(show.entries, [(fault, "") for fault in faults])
    show.conclude(options, [f"{root}: {told}."], lambda: [found], screen, most=sys.maxsize)
    return 1 if faults else 0


def _tokens(file: Path, wanted: "Images", verify: bool) -> str:
    from resnetx.inputs import tokens

    if verify:
        raise ConfigError("--verify with images.tokens: checks images; training checks a file of tokens")
    assert wanted.tokens is not None, "asked for"
    tokens.make(file, tokens=wanted.tokens, vocabulary=wanted.vocabulary, seed=wanted.seed)
    return f"{wanted.tokens:,} tokens below {wanted.vocabulary:,}, {si(2 * wanted.tokens, 'B')}"


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


def _of_group(name: str) -> dict[str, str]:
    return dict.fromkeys(sorted(choices(name)), "")


def _systems() -> dict[str, str]:
    return dict.fromkeys(sorted(path.stem for path in (CONFIGS / "system").glob("*.yaml")), "")


def _gpus() -> dict[str, str]:
    from resnetx.interconnect.systems.system import parts_table

    return {name: part.about for name, part in sorted(parts_table("gpus").items())}


# What is listed: by the word for one and for several, the setting, names with what each is, and where there is more.
LISTED: dict[str, tuple[str, str, Callable[[], dict[str, str]], str]] = {
    "model": ("models", "model=", partial(_of_group, "model"), "any classifier of torchvision: model=NAME"),
    "input": ("inputs", "input=", partial(_of_group, "input"), ""),
    "strategy": ("strategies", "strategy=", partial(_of_group, "strategy"), ""),
    "optimizer": ("optimizers", "optimizer=", partial(_of_group, "optimizer"), ""),
    "tracker": ("trackers", "tracker=", partial(_of_group, "tracker"), ""),
    "pattern": ("patterns", "pattern=", lambda: dict.fromkeys(sorted(patterns.NAMES), ""), ""),
    "study": ("studies", "study=", study.names, "each study: resnetx list studies"),
    "system": ("systems", "systems=", _systems, "each system: resnetx topology"),
    "gpu": ("gpus", "device=, gpu=", _gpus, "each GPU: resnetx list gpus"),
}


def list_(options: Namespace, paths: list[Path], _: Point) -> int:
    """Names what comes with resnetx, and the choices in folders of the user's own; `paths`: of what alone."""
    known = {word: one for one, (several, *_) in LISTED.items() for word in (one, several)}
    for path in paths:
        if str(path) not in known:
            raise ConfigError(
                f"{path}: nothing that is listed; expected {', '.join(several for several, *_ in LISTED.values())}"
            )
    wanted = [one for one in LISTED if one in {known[str(path)] for path in paths}] or [*LISTED]
    found = {one: LISTED[one][2]() for one in wanted}
    counted = [f"{len(found[one])} {LISTED[one][0].replace('gpus', 'GPUs')}" for one in wanted]
    told = f"{' and '.join(filter(None, [', '.join(counted[:-1]), counted[-1]]))} are known by name."
    records = [{"kind": LISTED[one][0], "setting": LISTED[one][1], "names": found[one]} for one in wanted]
    show.conclude(options, [told], lambda: records, partial(_named, found), most=sys.maxsize)
    return 0


def _named(found: Mapping[str, Mapping[str, str]]) -> None:
    """Names alone where several kinds are listed; of one each with what it is, where that is told here."""
    (one, names), *others = found.items()
    if not others and any(names.values()):
        show.say(LISTED[one][1], style="bold")
        show.entries(names.items(), indent=2)
    else:
        show.entries((LISTED[each][1], ", ".join(names)) for each, names in found.items())
        show.more("; ".join(told for each in found if (told := LISTED[each][3])))


# ---- report ---------------------------------------------------------------------------------------------------------
# `report`: a page, figures and tables of anything that is stored.


def report_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Writes the page of what is given."""
    from resnetx.api.report import written_report

    gc.disable()  # collecting among the records of thousands of runs frees nothing, and takes a twentieth of the time
    try:
        written, of = written_report(paths, asked)
    finally:
        gc.freeze()  # nor is it looked through once more at the end
        gc.enable()
    page = f"page: {written}"  # a line that is copied, however long it is
    if options.json:
        show.json_lines([{"page": str(written), "of": of}], page)
        return 0
    show.line(page)
    if not options.quiet:
        show.say()
        show.say(f"It shows {of}. Its figures and tables are files in the same folder.")
    return 0
