"""torchvision's classifiers by name, as data: to know one takes no torch, whose import takes seconds.

python -m resnetx.workloads.tables      # regenerates the file beside this one
"""

from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

from resnetx.errors import prepared, unknown_name

USUAL_SIZE = 224  # pixels of what is not set otherwise (`choices.Torchvision`)
FILE = Path(__file__).with_name("classifiers.json")


class Classifiers(msgspec.Struct, frozen=True):
    """The classifiers of one version of torchvision."""

    torchvision: str  # "0.29": without what changes with each build
    image_size: dict[str, int]  # name -> pixels, as the published weights of that name take them


@cache
def kept() -> Classifiers:
    """Those that resnetx comes with."""
    return msgspec.json.decode(FILE.read_bytes(), type=prepared(Classifiers))


def check(name: str) -> None:
    """Refuses a name that no classifier has; of another torchvision than the kept one, that one is asked."""
    known = kept().image_size
    if name not in known and _is_kept_version():
        raise unknown_name("torchvision classifier", name, known, "model.name")


def image_size(name: str) -> int | None:
    """The size of images that a classifier is made for, in pixels; None where that is not known."""
    return kept().image_size.get(name)


def _is_kept_version() -> bool:
    return installed_version() in (kept().torchvision, "")


def installed_version() -> str:
    """The first two numbers of the version of torchvision, or "" where there is none."""
    try:
        return ".".join(metadata.version("torchvision").split(".")[:2])
    except metadata.PackageNotFoundError:
        return ""


def write(found: Classifiers) -> None:
    """Keeps the classifiers of a torchvision."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
