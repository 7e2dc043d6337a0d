"""`images`: makes a tree of JPEG files like ImageNet's, or checks one."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import show
from resnetx.cli.compose import chosen, compose
from resnetx.config import images_from
from resnetx.units import si


def images_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Makes a tree of JPEG files, or checks one."""
    from resnetx.inputs import images

    tree = compose(chosen(overrides))
    root = paths[0] if paths else Path(tree["input"].get("root", "data/images"))
    wanted = images_from(tree)
    if options.verify:
        return _verify_images(root, wanted.workers)
    total = wanted.classes * wanted.per_class
    with show.progress("images", total, root) as advance:
        made = images.make(
            root,
            classes=wanted.classes,
            per_class=wanted.per_class,
            size=wanted.size,
            seed=wanted.seed,
            workers=wanted.workers,
            progress=advance,
        )
    show.say(
        f"{root}: {made.images} images in {wanted.classes} classes, {made.images - made.kept} of them made now; mean "
        f"{made.width.mean:.0f}x{made.height.mean:.0f} pixels, {si(made.size_bytes.mean, 'B')}"
    )
    return 0


def _verify_images(root: Path, workers: int) -> int:
    from resnetx.inputs import images

    with show.waiting("decoding every image", root):
        complaints = images.verify(root, workers=workers)
    for complaint in complaints:
        show.say(complaint, indent=2)
    found = f"{len(complaints)} fault{'s' * (len(complaints) > 1)}"
    show.say(f"{root}: {found if complaints else 'every image decodes'}")
    return 1 if complaints else 0
