"""One function per verb: read the words, call one thing, show what came of it. Returns the exit status."""

import os
from argparse import Namespace
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from resnetx import study
from resnetx.cli import show
from resnetx.cli.compose import chosen, compose
from resnetx.config import (
    CONFIGS,
    GROUPS,
    ConfigError,
    Request,
    check,
    images_from,
    request_from,
    run_settings_from,
)
from resnetx.host import node_name
from resnetx.record import SCHEMA, RunFile, RunFolder, RunRecord, Workload, read
from resnetx.study import Point, Study
from resnetx.units import si

GPU_COLUMNS = [1, 2, 4, 8]  # of the tables for which no GPU counts were asked


# ---- describe -------------------------------------------------------------------------------------------------------


def describe_(options: Namespace, __: list[Path], overrides: list[str]) -> int:
    """Counts workloads; without any word, those of the paper."""
    from resnetx import workloads

    _, points = _points(overrides or ["study=paper"])
    asked = chosen(overrides).get("gpus", GPU_COLUMNS)
    gpus: list[int] = asked if isinstance(asked, list) else [asked]
    if not all(isinstance(count, int) and count > 0 for count in gpus):
        raise ConfigError(f"gpus={asked}: expected GPU counts of 1 or more")
    found: dict[str, Workload] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request = request_from(tree)
        if request.key not in found:
            check(request)
            convention = run_settings_from(tree).convention
            found[request.key] = workloads.workload(
                request.model, request.image_size, request.batch_size, convention, gpus
            )
    if options.json:
        show.json_lines(found.values())
    elif len(found) == 1:
        show.layers(workloads.table(request.model, request.image_size), found[request.key])
    else:
        show.family(list(found.values()), gpus)
    return 0


def _points(overrides: list[str]) -> tuple[Study | None, list[Point]]:
    """The study that is asked for, if any, and the points that it and the command line describe."""
    asked = chosen(overrides)
    name = asked.pop("study", None)
    named = study.load(str(name)) if name is not None else None
    return named, study.points(named, asked)


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
    with show.progress(f"images into {root}", total) as advance:
        made = images.make(
            root,
            classes=wanted.classes,
            per_class=wanted.per_class,
            size=wanted.size,
            seed=wanted.seed,
            workers=wanted.workers,
            progress=advance,
        )
    print(
        f"{root}: {made.images} images in {wanted.classes} classes, {made.images - made.kept} of them made now; mean "
        f"{made.width.mean:.0f}x{made.height.mean:.0f} pixels, {si(made.size_bytes.mean, 'B')}"
    )
    return 0


def _verify_images(root: Path, workers: int) -> int:
    from resnetx.inputs import images

    with show.waiting(f"decoding every image below {root}"):
        complaints = images.verify(root, workers=workers)
    for complaint in complaints:
        print(complaint)
    print(f"{root}: {len(complaints)} complaints" if complaints else f"{root}: every image decodes")
    return 1 if complaints else 0


# ---- train ----------------------------------------------------------------------------------------------------------


def train_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Runs one point as `sweep` would, under a launcher that records whatever happens to it."""
    from resnetx.measure import launch
    from resnetx.measure.trackers import track

    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("train: this is a rank of torchrun; write torchrun ... -m resnetx.train key=value ...")
    task, results = _task(paths, overrides)
    if obstacle := obstacle_to(task.request):
        raise ConfigError(obstacle)
    folder = _train_folder(task.request, results)
    with show.waiting(f"{task.request.model.label}, gpus={task.request.gpus}, recorded in {folder.path}"):
        record = launch.execute(task, folder)
        told = track(task.tracker, record, folder)
    if options.json:
        show.json_lines([record])
    else:
        show.run(record, folder)
    if told:
        show.err.print(told, soft_wrap=True)
    return 0 if record.outcome == "ok" else 1


def serve(words: list[str], started: float) -> int:
    """One rank of torchrun: of a launched run, or of one started by hand (which rank 0 then records)."""
    from resnetx.measure import launch, torchrun, worker
    from resnetx.measure.trackers import track

    folder = torchrun.launched_folder()
    paths = [Path(word) for word in words if word.endswith(".json")]
    task, results = _task(paths, [word for word in words if not word.endswith(".json")], torchrun.world_size())
    by_hand = folder is None
    if by_hand and (obstacle := obstacle_to(task.request)):
        raise ConfigError(obstacle)
    if by_hand and torchrun.rank() == 0:
        folder = _train_folder(task.request, results)
        launch.begin(task, folder, started)
    record = worker.serve(task, folder, started)
    if by_hand and record is not None and folder is not None:
        show.run(record, folder)
        if told := track(task.tracker, record, folder):
            print(told)
    return 0


def _task(paths: list[Path], overrides: list[str], gpus: int | None = None) -> tuple[RunFile, Path]:
    """The run that the words ask for, and the results folder: from a run file, or composed from settings."""
    if len(paths) > 1:
        raise ConfigError(f"{paths[1]}: a second run file; `resnetx train` runs one")
    if paths and not paths[0].is_file():
        raise ConfigError(f"{paths[0]}: neither a setting (key=value) nor a run file that exists")
    if paths:
        if overrides:
            raise ConfigError(f"{overrides[0]}: a run file is complete; edit it, or give settings without it")
        return read(paths[0], RunFile), Path("results")
    by_torchrun = [] if gpus is None else [f"gpus={gpus}"]
    named, points = _points([*by_torchrun, *overrides])
    if len(points) != 1 or named:
        raise ConfigError(f"{' '.join(overrides)}: more than one point; `resnetx sweep` runs several")
    tree = compose(points[0])
    request = request_from(tree)
    check(request)
    return _run_file(request, tree, None), Path(tree["results"])


def _run_file(request: Request, tree: dict[str, Any], name: str | None) -> RunFile:
    settings = run_settings_from(tree)
    return RunFile(
        schema=SCHEMA,
        request=request,
        study=name,
        repeat=1,
        timeout_s=settings.timeout,
        convention=settings.convention,
        tracker=settings.tracker,
    )


def _train_folder(request: Request, results: Path) -> RunFolder:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return RunFolder(results / node_name() / "train" / f"{now[:-3]}_{request.slug}")


# ---- sweep ----------------------------------------------------------------------------------------------------------


def sweep_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Runs a study, or shows how it would."""
    from resnetx.measure import launch
    from resnetx.measure.sweep import PlannedRun, locked, plan, sweep
    from resnetx.measure.trackers import track
    from resnetx.report.scaling import rows

    named, points = _points(overrides or ["study=quickstart"])
    name, about = (named.name, named.about) if named else ("sweep", "")
    trees = [compose(point) for point in points]
    settings, *others = {run_settings_from(tree) for tree in trees}
    if others:
        raise ConfigError(
            "repeats, timeout, results, convention and tracker are one for a whole sweep: give each one value"
        )
    most = max((tree["gpus"] for tree in trees if isinstance(tree["gpus"], int)), default=1)
    tasks = [_run_file(request_from(tree, most), tree, name) for tree in trees]
    obstacles = [obstacle_to(task.request) for task in tasks]
    if all(obstacles) and not options.dry_run:
        raise ConfigError(obstacles[0])
    folder = Path(settings.results) / node_name() / name
    runs = plan(list(zip(tasks, obstacles, strict=True)), settings.repeats, folder, tasks[0].request.seed)
    if options.dry_run:
        for run in runs:
            print("# " * bool(run.obstacle) + launch.command_line(run.task, run.folder))
        for obstacle, count in Counter(filter(None, obstacles)).items():
            print(f"# {count} of {len(tasks)} points cannot run here: {obstacle}")
        return 0
    with locked(folder), show.progress(f"{name}: {len(runs)} runs into {folder}", len(runs)) as advance:

        def done(run: PlannedRun, ended: RunRecord, kept: bool) -> None:
            told = "" if kept else track(settings.tracker, ended, run.folder)
            warnings = [] if kept else [f"  warning: {each.message}; {each.remedy}" for each in ended.warnings]
            advance(1, "\n".join(filter(None, ["kept: " * kept + show.run_line(ended), *warnings, told])))

        records = sweep(runs, done)
    order = {task.request.key: place for place, task in enumerate(tasks)}
    scaling = rows(sorted(records, key=lambda record: order[record.request_key]))
    if options.json:
        show.json_lines(scaling)
    else:
        show.scaling(f"Study {name} on {node_name()}. {about}", scaling)
    return 0 if all(record.outcome in ("ok", "skipped") for record in records) else 1


def obstacle_to(request: Request) -> str:
    """Why a point cannot run on this machine, in one sentence; "" where it can. No process is started for it."""
    from resnetx import inputs
    from resnetx.measure.nvml import gpus_here

    try:
        check(request)
        inputs.check(
            request.input,
            batch_size=request.batch_size,
            gpus=request.gpus,
            image_size=request.image_size,
            classes=request.model.classes,
        )
    except ConfigError as error:
        return str(error)
    present = gpus_here()
    if not present and request.precision in ("tf32", "fp16"):
        return (
            f"precision={request.precision}: not on CPUs, which have no TF32 and take minutes for a step in fp16; "
            "use precision=fp32 or bf16"
        )
    wanted = max(request.devices or [request.gpus - 1]) + 1
    if 0 < present < wanted:
        setting = f"devices={request.devices}" if request.devices else f"gpus={request.gpus}"
        return f"{setting}: this machine shows {present} GPUs; ask for fewer"
    return ""


# ---- doctor, list ---------------------------------------------------------------------------------------------------


def doctor_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Examines this machine; status 1 where something that every run needs is missing."""
    from resnetx.measure.doctor import examine

    tree = compose(chosen(overrides))
    findings = examine(Path(run_settings_from(tree).results), Path(tree["input"].get("root", "data/images")))
    if options.json:
        show.json_lines(findings)
    else:
        show.findings(findings)
    return 1 if any(finding.state == "missing" and finding.needed for finding in findings) else 0


def list_(_: Namespace, __: list[Path], overrides: list[str]) -> int:
    """Names what comes with resnetx."""
    if overrides:
        raise ConfigError(f"{overrides[0]}: `resnetx list` takes no settings")
    for group in GROUPS:
        options = sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))
        print(f"{group}: {', '.join(options)}")
    print("  (model=torchvision model.name=NAME: any classifier of torchvision.models)")
    print("studies:")
    for name, about in study.names().items():
        print(f"  {name:12} {about}")
    return 0
