"""One function per verb: read the words, call one thing, show what came of it. Returns the exit status.

Here: what measures no training. `runs` and `studies` have the others.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from resnetx import bounds
from resnetx.cli import show, show_workloads
from resnetx.cli.compose import chosen, compose, points_of
from resnetx.config import check, images_from, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import Workload
from resnetx.units import si

if TYPE_CHECKING:
    from resnetx.measure.finding import Finding

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


# ---- doctor ---------------------------------------------------------------------------------------------------


def doctor_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Examines this machine; status 1 where something that every run needs is missing."""
    from resnetx.measure.doctor import examine

    tree = compose(chosen(overrides))
    findings = examine(Path(run_settings_from(tree).results), Path(tree["input"].get("root", "data/images")))
    if options.json:
        show.json_lines(findings)
    else:
        _show_findings(findings)
    return 1 if any(finding.state == "missing" and finding.needed for finding in findings) else 0


def _show_findings(found: "Sequence[Finding]") -> None:
    """What runs need and lack, then every finding, then the commands that change something."""
    lacking = [each.topic for each in found if each.state == "missing" and each.needed]
    show.say(
        f"No run can work here: {', '.join(lacking)} is missing."
        if lacking
        else "Runs work here: nothing that every run needs is missing."
    )
    show.say()
    show.table("", ["state", "topic", "~finding"], [[each.state, each.topic, each.what] for each in found])
    commands = [each for each in found if each.mend]
    width = max((len(each.topic) for each in commands), default=0)
    if commands:
        show.say()
        show.say("What would change them", style="bold")
    for each in commands:
        show.line(f"{each.topic:{width}}  {each.mend}")
