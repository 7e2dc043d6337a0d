"""A tree of JPEG files like ImageNet's: makes it, or checks one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

from resnetx import progress
from resnetx.compose import asked, compose
from resnetx.config import Images, images_from
from resnetx.errors import ConfigError
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.table import TABLE

if TYPE_CHECKING:
    from resnetx.inputs.image_tree import MadeImages


@overload
def images(
    root: keywords.Text | None = None, *, verify: Literal[False] = False, **settings: Unpack[keywords.ImagesKeywords]
) -> "MadeImages": ...
@overload
def images(
    root: keywords.Text | None = None, *, verify: Literal[True], **settings: Unpack[keywords.ImagesKeywords]
) -> list[str]: ...
def images(
    root: keywords.Text | None = None, *, verify: bool = False, **settings: Unpack[keywords.ImagesKeywords]
) -> "MadeImages | list[str]":
    """Makes a tree of JPEG files in the folder `root`, and says what is in it; what is there already is kept.

    `verify`: decodes every image of a tree instead, and returns a sentence for each fault.
    """
    from resnetx.inputs import image_tree

    folder, wanted = wanted_images(root, settings)
    if wanted.tokens is not None:
        raise ConfigError(
            f"images.tokens={wanted.tokens}: belongs to the command line; from Python: resnetx.inputs.tokens.make(file)"
        )
    if verify:
        with progress.waiting("decoding every image", folder):
            return image_tree.verify(folder, workers=wanted.workers)
    with progress.counting("images", wanted.classes * wanted.per_class, folder) as advance:
        return image_tree.make(
            folder,
            classes=wanted.classes,
            per_class=wanted.per_class,
            size=wanted.size,
            seed=wanted.seed,
            workers=wanted.workers,
            progress=advance,
        )


def wanted_images(root: keywords.Text | None, settings: Mapping[str, object]) -> tuple[Path, Images]:
    """The folder, and which images are wanted in it; or the file of tokens."""
    tree = compose(asked("images", settings))
    wanted = images_from(tree)
    usual = TABLE["input.file"].default if wanted.tokens else tree["input"].get("root", "data/images")
    return given_path(root) if root else Path(usual), wanted
