"""Whether several ranks compute what one process would."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from resnetx import progress
from resnetx.api.obstacles import obstacle_to
from resnetx.api.runs import Kept, announce, fed, note_fed, run_file, run_folder
from resnetx.choices import NoExchange
from resnetx.compose import asked, compose, one_point
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.measure.study.continuity import check_known_code
from resnetx.record import RunFile, RunRecord
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.verbs import VERBS


def verify(**settings: Unpack[keywords.VerifyKeywords]) -> RunRecord:
    """Compares the ranks of a point with one process, step after step; the record's `equality.equal` is the verdict."""
    kept = execute(settings)
    progress.command(f"record: {kept.folder.record}")
    return kept.record


def execute(settings: Mapping[str, object]) -> Kept[RunRecord]:
    """Compares the ranks of a point with one process, and keeps the record in the results folder."""
    from resnetx.measure.launch import launcher

    task, results = _task(settings)
    announce([task.request])
    if obstacle := obstacle_to(task.request, task.oversubscribe):
        raise ConfigError(obstacle)
    folder = run_folder(results, "train", task.request.slug)
    with progress.waiting(what(task.request), folder.path):
        return Kept(launcher.execute(task, folder), folder)


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
