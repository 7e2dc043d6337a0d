"""One function per verb: read the words, call one thing, show what came of it. Returns the exit status.

Here: what measures no training. `runs` and `studies` have the others.
"""

from argparse import Namespace
from pathlib import Path

from msgspec import to_builtins

from resnetx import bounds
from resnetx.cli import show, show_workloads
from resnetx.cli.compose import chosen, compose, points_of
from resnetx.config import check, images_from, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import Workload
from resnetx.units import si

GPU_COLUMNS = [1, 2, 4, 8]  # of the tables for which no GPU counts were asked


# ---- describe -------------------------------------------------------------------------------------------------------


def describe_(options: Namespace, __: list[Path], overrides: list[str]) -> int:
    """Counts workloads."""
    from resnetx import workloads
    from resnetx.workloads.buckets import messages

    show.begin(options)
    _, points = points_of(overrides)
    asked = chosen(overrides).get("gpus", GPU_COLUMNS)
    gpus: list[int] = asked if isinstance(asked, list) else [asked]
    if not all(isinstance(count, int) and not isinstance(count, bool) for count in gpus):
        raise ConfigError(f"gpus={asked}: expected numbers of GPUs")
    bounds.check({"gpus": gpus})
    found: dict[tuple[str, str], Workload] = {}
    sent: dict[tuple[str, str], list[int]] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request, convention = request_from(tree), run_settings_from(tree).convention
        key = request.key, convention
        if key not in found:
            check(request)
            found[key] = workloads.workload(request.model, request.image_size, request.batch_size, convention, gpus)
            table = workloads.table(request.model, request.image_size)
            sent[key] = [each.size_bytes for each in messages(table, request.strategy, request.precision)]
    if options.json:
        show.json_lines({**to_builtins(found[key]), "messages_bytes": sent[key]} for key in found)
    elif len(found) == 1:
        show_workloads.layers(table, found[key])
        show_workloads.messages(request.strategy.kind, sent[key])
    else:
        show_workloads.family(list(found.values()), gpus)
    return 0


# ---- images ---------------------------------------------------------------------------------------------------------


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
