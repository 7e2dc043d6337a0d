"""One point at a time: `train`, and the ranks that torchrun starts for it, or for a bench."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from resnetx import bounds
from resnetx.choices import Torchvision, Tracker
from resnetx.cli import show
from resnetx.cli.folders import new_folder
from resnetx.cli.tables import show_run
from resnetx.config import RunSettings, check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.host import cores, node_name
from resnetx.loading import is_file
from resnetx.measure.launch.moment import Moment
from resnetx.record import SCHEMA, BenchFile, BenchRecord, BenchRequest, RunFile, RunFolder, Task, TaskRecord, read_task
from resnetx.request import Request
from resnetx.variables import check_file_variables, opening, unlisted


def train_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Runs one point as `sweep` would, under a launcher that records whatever happens to it."""
    from resnetx.measure.launch import launcher
    from resnetx.measure.study import trackers

    show.begin(options)
    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("train: this is a rank of torchrun; write torchrun ... -m resnetx.train key=value ...")
    task, results = _task(paths, overrides)
    if paths:
        _check_asked(task, paths[0])
    announce_variables([task.request])
    if isinstance(task, BenchFile):
        raise ConfigError(f"{paths[0]}: a bench; start it with torchrun ... -m resnetx.train, or use `resnetx bench`")
    if task.request.measure == "equality":
        raise ConfigError("measure=equality: `resnetx verify` measures it, and shows what came of it")
    trackers.check(task.tracker)
    if obstacle := obstacle_to(task.request, task.oversubscribe):
        raise ConfigError(obstacle)
    folder = run_folder(results, "train", task.request.slug)
    with show.waiting(f"{task.request.model.label}, gpus={task.request.gpus}", folder.path):
        record = launcher.execute(task, folder)
        complaint = trackers.track(task.tracker, record, folder)
    if options.json:
        show.json_lines([record])
    else:
        show_run.run(record, folder)
    show_tracked(task.tracker, complaint, folder.path.parent)
    return 0 if record.outcome == "ok" else 1


def serve(words: list[str], started: Moment) -> int:
    """One rank of torchrun: of a launched run, or of one started by hand (which rank 0 then records)."""
    from resnetx.measure import rank_process
    from resnetx.measure.launch import launcher, torchrun

    folder = torchrun.launched_folder()
    paths = [Path(word) for word in words if word.endswith(".json")]
    task, results = _task(paths, [word for word in words if not word.endswith(".json")], torchrun.world_size())
    if folder is None and paths:
        _check_asked(task, paths[0])
    os.environ.update(task.request.env)
    by_hand = folder is None
    if by_hand and (obstacle := _obstacle_to_task(task)):
        raise ConfigError(obstacle)
    if by_hand and torchrun.rank() == 0:
        if torchrun.on_one_node() and torchrun.has_open_store():
            print(_open_store(words), file=sys.stderr, flush=True)
        folder = run_folder(results, "bench" if isinstance(task, BenchFile) else "train", task.request.slug)
        launcher.begin(task, folder, started)
    record = rank_process.serve(task, folder, started)
    if by_hand and record is not None and folder is not None:
        _show(task, record, folder)
    return 0


def _open_store(words: list[str]) -> str:
    """The warning for a rank whose torchrun was started with the default options of torchrun."""
    from resnetx.measure.launch.executor import torchrun as closed
    from resnetx.measure.launch.torchrun import world_size

    instead = closed(world_size(), ["-m", "resnetx.train", *words])
    return (
        "resnetx: warning: this torchrun listens on all network interfaces, and runs the code of whoever reaches its "
        f"ports; this one does not: {instead.line}"
    )


def _obstacle_to_task(task: Task) -> str:
    """Why this node's ranks of a run that was started by hand cannot run, in one sentence; "" where they can."""
    from resnetx.measure.launch import torchrun

    if isinstance(task, BenchFile):
        from resnetx.cli.verbs.bench import obstacle_to_bench

        return obstacle_to_bench(task.request, task.oversubscribe, torchrun.ranks_here())
    return obstacle_to(task.request, task.oversubscribe, torchrun.ranks_here())


def _show(task: Task, record: TaskRecord, folder: RunFolder) -> None:
    """What came of a run that was started by hand."""
    if isinstance(record, BenchRecord):
        from resnetx.cli.tables.show_bench import bench

        bench(record, folder)
        return
    assert isinstance(task, RunFile), f"a {type(task).__name__} left a record of a run"
    from resnetx.measure.study import trackers

    show_run.run(record, folder)
    show_tracked(task.tracker, trackers.track(task.tracker, record, folder), folder.path.parent)


def show_tracked(tracker: Tracker, complaint: str, folder: Path) -> None:
    """What became of the copies for a tracker, of the runs in a folder."""
    from resnetx.measure.study import trackers

    if complaint:
        show.say(complaint, show.err)
    elif command := trackers.upload_command(tracker, folder):
        show.line(f"logged offline; upload with: {command}", show.err)


def _task(paths: list[Path], overrides: list[str], gpus: int | None = None) -> tuple[Task, Path]:
    """The run (or bench) that the words ask for, and the results folder: from a run file, or composed from settings."""
    if len(paths) > 1:
        raise ConfigError(f"{paths[1]}: a second run file; `resnetx train` runs one")
    if paths and not is_file(paths[0]):
        raise ConfigError(f"{paths[0]}: neither a setting (key=value) nor a run file that exists")
    if paths:
        if overrides:
            raise ConfigError(f"{overrides[0]}: a run file is complete; edit it, or give settings without it")
        return read_task(paths[0]), Path("results")
    from resnetx.cli.compose import compose, one_point  # Hydra takes 0.15 s to load, and a run file needs none of it
    from resnetx.measure.launch.torchrun import ranks_here

    by_torchrun = [] if gpus is None else [f"gpus={gpus}"]
    tree = compose(one_point([*by_torchrun, *overrides], "`resnetx sweep` runs several"))
    request = request_from(tree, None if gpus is None else ranks_here())  # who share the cores of a node
    check(request)
    return run_file(request, run_settings_from(tree), None), Path(tree["results"])


def run_file(request: Request, settings: RunSettings, name: str | None) -> RunFile:
    """The run file of a request; `name`: of its study, if it has one."""
    return RunFile(
        schema=SCHEMA,
        request=request,
        study=name,
        repeat=1,
        timeout_s=settings.timeout,
        convention=settings.convention,
        tracker=settings.tracker,
        oversubscribe=settings.oversubscribe,
    )


def run_folder(results: Path, verb: str, slug: str, node: str | None = None) -> RunFolder:
    """A new folder for a run that belongs to no study; `node`: where it ran, unless it is this one."""
    return RunFolder(new_folder(results / (node or node_name()) / verb, slug))


def _check_asked(task: Task, path: Path) -> None:
    """Refuses a run file that asks for what the command line would refuse: it may be written by hand, or by others."""
    try:
        bounds.check({"timeout": task.timeout_s})
        if isinstance(task, BenchFile):
            from resnetx.cli.verbs.bench import check_bench

            check_bench(task.request)
        else:
            check(task.request)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    new = {name for name, value in task.request.env.items() if os.environ.get(name) != value}
    check_file_variables(new, str(path))  # which only whoever starts the run may set; the shell's may be repeated


def announce_variables(requests: Iterable[Request | BenchRequest]) -> None:
    """Says which variables may load other code into ranks, as no file could, and which let other hosts reach ranks."""
    asked = dict.fromkeys(pair for request in requests for pair in request.env.items())
    for name in unlisted(dict.fromkeys(name for name, _ in asked)):
        show.say(f"env.{name}: set in every rank; it may load code or write files", show.err)
    for name, value in opening(asked):
        show.say(f"env.{name}={value}: ranks listen there, and trust whoever connects", show.err)


def obstacle_to(request: Request, oversubscribe: bool = False, here: int | None = None) -> str:
    """Why a point cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: all of them.
    """
    from resnetx import inputs, packages, workloads
    from resnetx.measure.machine.visible_gpus import gpus_here, hidden_by_mistake
    from resnetx.measure.rank.features import missing_feature
    from resnetx.measure.rank.record_size import too_large_record

    try:
        check(request)
        needed = ("torch", *["torchvision"] * isinstance(request.model, Torchvision))
        if missing := packages.not_unix() or next(filter(None, map(packages.obstacle, needed)), ""):
            return missing
        inputs.check(
            request.input,
            batch_size=request.batch_size,
            gpus=request.gpus,
            image_size=request.image_size,
            classes=request.model.classes,
        )
        workloads.check(request.model, request.image_size)
    except ConfigError as error:
        return str(error)
    if missing := missing_feature(request.strategy):
        return missing
    if mistake := hidden_by_mistake():
        return mistake
    present = gpus_here()
    if not present and request.precision in ("tf32", "fp16"):
        return (
            f"precision={request.precision}: not on CPUs, which have no TF32 and take minutes for a step in fp16; "
            "use precision=fp32 or bf16"
        )
    if packages.hip_version() and request.precision == "tf32":
        return (
            "precision=tf32: a format of NVIDIA's GPUs, which torch for AMD's does not compute in; use precision=fp32 "
            "or bf16"
        )
    if not present and request.memory_limit is not None:
        return "memory_limit: it limits what PyTorch allocates on GPUs, and this machine shows none; leave it out"
    if not present and request.graph:
        return "graph=true: only GPUs have CUDA graphs, and this machine shows none; leave it out"
    return too_large_record(request) or too_many_ranks(request.gpus, request.devices, oversubscribe, here)


def too_many_ranks(gpus: int, devices: list[int] | None, oversubscribe: bool, here: int | None = None) -> str:
    """Why this machine's GPUs, or without any its cores, are too few, in one sentence; "" where they are not.

    `here`: how many of the `gpus` ranks are on this node; None: all of them.
    """
    from resnetx.measure.machine.visible_gpus import gpus_here

    present, ranks = gpus_here(), gpus if here is None else here
    asked = f"gpus={gpus}" + f" ({ranks} on this node)" * (ranks != gpus)
    if not present and ranks > cores() and not oversubscribe:
        return (
            f"{asked}: more ranks than this machine has cores ({cores()}, and no GPU), which take turns; ask for "
            "fewer, or set oversubscribe=true to run them all the same"
        )
    wanted = max(devices or [ranks - 1]) + 1
    if 0 < present < wanted and devices:
        return f"devices={devices}: this machine shows {present} GPU{'s' * (present > 1)}; ask for fewer"
    if 0 < present < wanted and not oversubscribe:
        return (
            f"{asked}: this machine shows {present} GPU{'s' * (present > 1)}; ask for fewer, or set oversubscribe=true "
            "to have ranks take turns on them, which shows whether they work and says nothing of their speed"
        )
    return ""
