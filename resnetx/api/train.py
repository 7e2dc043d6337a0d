"""One point, run by a launcher that records whatever happens to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import msgspec

from resnetx import progress
from resnetx.api import measuring
from resnetx.api.doctor import obstacle_to, obstacle_to_launch
from resnetx.api.measuring import (
    KeptRecord,
    announce,
    check_file,
    fed,
    note_copies,
    note_fed,
    page,
    run_file,
    run_folder,
)
from resnetx.choices import NoExchange
from resnetx.compose import asked, compose, one_point
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.loading import is_file
from resnetx.measure.study_runs import check_known_code
from resnetx.record import RunFile, RunRecord, read_task
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.setting_types import written
from resnetx.settings.verbs import VERBS
from resnetx.study import Point


def train(run_file: keywords.Text | None = None, **settings: Unpack[keywords.TrainKeywords]) -> RunRecord:
    """Runs one point, in processes of its own; `run_file` is the `run.json` of an earlier run, to repeat it.

    A run that fails has a record, too: see its `outcome` and `reason`.
    """
    kept = execute(run_file, settings)
    progress.command(f"record: {kept.folder.record}")
    return kept.record


def execute(run_file: keywords.Text | None, settings: Mapping[str, object]) -> KeptRecord[RunRecord]:
    """Runs one point, and keeps its record in the results folder."""
    path = None if run_file is None else given_path(run_file)
    return executed(*asked_run(path, settings), path, settings.get("out"))


def executed(task: RunFile, results: Path, path: Path | None, out: object) -> KeptRecord[RunRecord]:
    """Runs what `asked_run` has made of settings, or of the run file at `path`; with a page in `out`."""
    from resnetx.measure import trackers
    from resnetx.measure.held_clock import held
    from resnetx.measure.launch import launcher

    if path is not None:
        check_file(task, path, lambda: check(task.request))
    announce([task.request], out)
    if task.request.measure == "equality":
        raise ConfigError("measure=equality: use `resnetx verify`")
    trackers.check(task.tracker)
    if obstacle := obstacle_to_launch(task.launch) or obstacle_to(task.request, task.oversubscribe):
        raise ConfigError(obstacle)
    with held(task.request):
        folder = run_folder(results, "train", task.request.slug, measuring.machine_name(task.launch))
        with progress.waiting(f"{task.request.model.label}, gpus={task.request.gpus}", folder.path):
            record = launcher.execute(task, folder)
            copies = trackers.TrackedCopies(task.tracker)
            complaint = copies.track(record, folder)
    note_copies(copies, complaint, folder.path.parent)
    page([folder.path], out)
    return KeptRecord(record, folder)


def asked_run(path: Path | None, settings: Mapping[str, object]) -> tuple[RunFile, Path]:
    """The run that is asked for, and the results folder."""
    given = asked("train", settings)
    task, results = task_of(path, given)
    if path is not None and task.launch is not None:  # which names programs and images, and may be by anybody
        raise ConfigError(
            f"{path}: was started with launcher={task.launch.launcher}, which a run file does not repeat; give its "
            "settings, or start it with torchrun ... -m resnetx.train"
        )
    return task, results


def task_of(path: Path | None, given: Point, gpus: int | None = None) -> tuple[RunFile, Path]:
    """The run that is asked for, and the results folder: of a run file, or composed from settings.

    `gpus`: the ranks that there are, where torchrun was started by hand.
    """
    if path is not None:
        if not is_file(path):
            raise ConfigError(f"{path}: neither a setting (key=value) nor a run file that exists")
        if more := {key: value for key, value in given.items() if key != "out"}:
            raise ConfigError(f"{next(written(more))}: a run file is complete; edit it, or give settings without it")
        return read_task(path, RunFile), Path("results")
    by_torchrun = {} if gpus is None else {"gpus": gpus}
    one = one_point({**VERBS["train"].own, **by_torchrun, **given}, "`resnetx sweep` runs several")
    read = one if gpus is not None else measuring.fed(one)
    tree = compose(read)
    from resnetx.measure.machine.nvidia import gpus_here

    how = None
    if tree["batch_size"] == "max":
        from resnetx.api import largest  # with the model of memory, which no rank needs

        if gpus is not None:
            raise ConfigError(
                "batch_size=max: ranks of a torchrun by hand cannot try; use `resnetx train`, or a number"
            )
        (how,) = largest.found([tree], one)

    # Who share the cores of a node: the ranks that torchrun has started, or else one for each GPU.
    request = request_from(tree, present=gpus_here()) if gpus is None else request_from(tree, _ranks_here())
    if gpus is not None:
        request = msgspec.structs.replace(request, nodes=max(1, gpus // _ranks_here()))
    check(request)
    run_settings = run_settings_from(tree)
    check_known_code(run_settings.dirty)
    measuring.note_fed(one, read)
    task = msgspec.structs.replace(measuring.run_file(request, run_settings, None), largest_batch=how)
    return task, Path(run_settings.results)


def _ranks_here() -> int:
    from resnetx.measure.launch import ranks_here

    return ranks_here()


# Whether several ranks compute what one process would.


def verify(**settings: Unpack[keywords.VerifyKeywords]) -> RunRecord:
    """Compares the ranks of a point with one process, step after step; the record's `equality.equal` is the verdict."""
    kept = execute_verification(settings)
    progress.command(f"record: {kept.folder.record}")
    return kept.record


def execute_verification(settings: Mapping[str, object]) -> KeptRecord[RunRecord]:
    """Compares the ranks of a point with one process, and keeps the record in the results folder."""
    from resnetx.measure.launch import launcher

    task, results = _task(settings)
    announce([task.request], settings.get("out"))
    if obstacle := obstacle_to(task.request, task.oversubscribe):
        raise ConfigError(obstacle)
    folder = run_folder(results, "train", task.request.slug)
    with progress.waiting(what(task.request), folder.path):
        record = launcher.execute(task, folder)
    page([folder.path], settings.get("out"))
    return KeptRecord(record, folder)


def what(request: Request) -> str:
    """What is compared, in a few words."""
    return f"{request.model.label}, batch {request.batch_size} on gpus={request.gpus}, strategy={request.strategy.kind}"


def _task(settings: Mapping[str, object]) -> tuple[RunFile, Path]:
    given = asked("verify", settings)
    point = one_point(given, "`resnetx verify` compares one")
    read = fed(point)
    own = VERBS["verify"].own
    defaults = {key: value for key, value in own.items() if key != "gpus" or "devices" not in point}
    tree = compose({**defaults, **read, "measure": "equality"})
    request = request_from(tree)
    check(request)
    if request.gpus == 1:
        raise ConfigError("gpus=1: several ranks are compared with one; use gpus=2 or more")
    if isinstance(request.strategy, NoExchange):
        raise ConfigError(
            "strategy=none exchanges no gradients, so that ranks cannot equal one process; use bucket, "
            "layerwise, after or server"
        )
    run_settings = run_settings_from(tree)
    check_known_code(run_settings.dirty)
    note_fed(point, read)
    return run_file(request, run_settings, None), Path(run_settings.results)
