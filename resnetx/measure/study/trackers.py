"""Experiment trackers: copies of results for an experiment-tracking service.

A run is logged when it is over and its record is on disk, and a study once its last run is: from the launching process,
never beside a measurement, and a tracker that fails costs no result. On Weights & Biases a study is a group. Each of
its runs is one there, and one more (`job_type=study`) has what is known only in the end: a table of all points, and the
curves of rate, speed-up and efficiency over GPUs.

All of them are below one folder `wandb`, that of the study unless WANDB_DIR names another one, so that one command
uploads what was logged offline.
"""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from resnetx import packages
from resnetx.choices import NoTracker, Tracker, Wandb
from resnetx.errors import ConfigError
from resnetx.record import Environment, RunFolder, RunRecord

TAG = 64  # characters of a tag, at most
_MACHINE = (
    "node", "system", "container", "cpu", "cpu_sockets", "cpu_cores", "cpus_usable", "cpu_governor", "numa_nodes",
    "host_memory_bytes", "network", "topology_fingerprint",
)  # fmt: skip
_VERSIONS = (
    "resnetx",
    "git_revision",
    "python",
    "torch",
    "torchvision",
    "cuda",
    "hip",
    "cudnn",
    "nccl",
    "driver",
    "dali",
)
_PHASES = (
    "step_s", "input_wait_s", "host_to_device_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s",
)  # of a watched step; what is logged is the mean over the ranks  # fmt: skip
CURVES = ("images_per_s", "iterations_per_s", "speedup", "efficiency")  # columns of a study's table, over GPUs


@dataclass(frozen=True)
class Finished:
    """A study whose last run is over."""

    name: str
    about: str
    node: str
    definition: Mapping[str, Any]  # how its points were run
    points: Sequence[Mapping[str, Any]]  # a row for each, with the columns of `points.csv`
    lines: Sequence[str]  # what each point is called apart from its GPUs: "ResNet/4, batch 16"
    environment: Environment | None  # of any of its runs: machine and software


def check(tracker: Tracker) -> None:
    """Rejects a tracker that is not installed, before anything is measured."""
    if isinstance(tracker, Wandb) and (missing := packages.obstacle("wandb")):
        raise ConfigError(missing)


def track(tracker: Tracker, record: RunRecord, folder: RunFolder, twin: str | None = None) -> str:
    """Logs one finished run; returns why it could not, "" where it could. `twin`: which of its point's twins it is."""
    if isinstance(tracker, NoTracker):
        return ""
    return _logged(lambda wandb: _log_run(wandb, tracker, record, folder, twin), f"the record is in {folder.record}")


def conclude(tracker: Tracker, study: Finished, folder: Path) -> str:
    """Logs what a study says as a whole; `folder`: the study's. Returns why it could not, "" where it could."""
    if isinstance(tracker, NoTracker):
        return ""
    return _logged(lambda wandb: _log_study(wandb, tracker, study, folder), f"the records are in {folder}")


def upload_command(tracker: Tracker, folder: Path) -> str:
    """The command that uploads what was logged offline of the runs in a folder; "" where there is nothing to upload."""
    if isinstance(tracker, NoTracker) or _mode() != "offline":
        return ""
    return f"wandb sync {shlex.quote(str(_directory(folder) / 'wandb'))}/offline-run-*"


# ---- wandb ----------------------------------------------------------------------------------------------------------


def _logged(log: Any, kept: str) -> str:
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        import wandb

        log(wandb)
    except Exception as error:  # the record is safe whatever a tracker does
        return f"wandb: not logged ({type(error).__name__}: {error}); {kept}"
    return ""


def _log_run(wandb: Any, tracker: Wandb, record: RunRecord, folder: RunFolder, twin: str | None) -> None:
    """One run: its windows as steps, its figures as the summary."""
    run = wandb.init(
        project=tracker.project,
        name=f"{record.request.slug}_r{record.repeat}",
        group=record.study,
        job_type="twin" if twin else "run",
        tags=_tags(record, twin),
        config=_config(record, twin),
        **_where(wandb, folder.path.parent),
    )
    for rates in _windows(record):
        run.log(rates)
    run.summary.update(_summary(record))
    run.finish(exit_code=0 if record.outcome == "ok" else 1)


def _log_study(wandb: Any, tracker: Wandb, study: Finished, folder: Path) -> None:
    """One more run in the group of a study: a table of its points, and their curves over GPUs."""
    run = wandb.init(
        project=tracker.project,
        name=study.name,
        group=study.name,
        job_type="study",
        notes=study.about,
        tags=_tag_list(["study", study.name, f"node={study.node}"]),
        config={"study": study.name, **study.definition, **_surroundings(study.environment)},
        **_where(wandb, folder),
    )
    run.define_metric("gpus", hidden=True)
    for name in CURVES:
        run.define_metric(f"{name}/*", step_metric="gpus")
    for gpus, values in _curves(study):
        run.log({"gpus": gpus, **values})
    if study.points:
        columns = list(study.points[0])
        run.log(
            {"points": wandb.Table(columns=columns, data=[[row[name] for name in columns] for row in study.points])}
        )
    run.summary.update(_best(study.points))
    run.finish()


def _where(wandb: Any, folder: Path) -> dict[str, Any]:
    directory = _directory(folder)
    directory.mkdir(parents=True, exist_ok=True)  # else wandb falls back to a temporary folder
    settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, disable_git=True)
    return {"dir": directory, "mode": _mode(), "settings": settings}


def _directory(folder: Path) -> Path:
    return Path(os.environ.get("WANDB_DIR") or folder)


def _mode() -> Any:
    """Offline unless the user has set a key or a mode: no login question, no waiting for a network."""
    chosen = os.environ.get("WANDB_MODE")
    return chosen or ("online" if os.environ.get("WANDB_API_KEY") else "offline")


# ---- a run ----------------------------------------------------------------------------------------------------------


def _tags(record: RunRecord, twin: str | None) -> list[str]:
    """Tags that distinguish runs, to filter by."""
    request = record.request
    node = record.environment.node if record.environment else None
    words = [
        request.model.label, f"batch={request.batch_size}", f"gpus={request.gpus}", request.precision,
        f"strategy={request.strategy.kind}", f"input={request.input.kind}", request.scaling,
        *[f"node={node}"] * bool(node), *[f"twin={twin}"] * bool(twin), *[record.outcome] * (record.outcome != "ok"),
    ]  # fmt: skip
    return _tag_list(words)


def _tag_list(words: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word[:TAG] for word in words))


def _config(record: RunRecord, twin: str | None) -> dict[str, Any]:
    """The request, the machine and the software."""
    counted = msgspec.to_builtins(record.workload) if record.workload else None
    return {
        **msgspec.to_builtins(record.request),
        "request_key": record.request_key,
        "study": record.study,
        "repeat": record.repeat,
        "twin": twin,
        "workload": counted,
        **_surroundings(record.environment),
    }


def _surroundings(environment: Environment | None) -> dict[str, Any]:
    """Machine, GPUs and versions, as far as a record knows them."""
    if environment is None:
        return {}
    known = msgspec.to_builtins(environment)
    models = Counter(gpu["name"] for gpu in known["gpus"] or [])
    return {
        "machine": {name: known[name] for name in _MACHINE},
        "machine_gpus": ", ".join(f"{count} x {name}" for name, count in models.items()) or "none",
        "versions": {name: known[name] for name in _VERSIONS},
        "variables": known["variables"],
    }


def _windows(record: RunRecord) -> list[dict[str, float | None]]:
    """One row per window: the rate of all ranks, and the loss at its end."""
    if record.windows_s is None or record.loss is None:
        return []
    images = record.steps_per_window * record.request.batch_size
    slowest = [max(window) for window in zip(*record.windows_s, strict=True)]
    return [
        {"images_per_s": images / seconds, "loss": loss} for seconds, loss in zip(slowest, record.loss[1:], strict=True)
    ]


def _summary(record: RunRecord) -> dict[str, Any]:
    figures = {
        "outcome": record.outcome,
        "reason": record.reason,
        "images_per_s": record.images_per_s,
        "iterations_per_s": record.iterations_per_s,
        "world_size": record.world_size,
        "repeat": record.repeat,
        "duration_s": record.duration_s,
        "warnings": ", ".join(dict.fromkeys(warning.code for warning in record.warnings)),
    }
    if record.workload:
        figures |= {
            "intensity": record.workload.intensity,
            "intensity_per_gpu": record.workload.intensity / record.request.gpus,
        }
    if record.phases:
        figures |= {f"phases/{name}": fmean(getattr(record.phases, name)) for name in _PHASES}
    if record.peak_memory_bytes:
        figures["peak_memory_bytes"] = max(record.peak_memory_bytes)
    return figures


# ---- a study --------------------------------------------------------------------------------------------------------


def _curves(study: Finished) -> Iterator[tuple[int, dict[str, float]]]:
    """By number of GPUs, what each line of the study has there: "speedup/ResNet/4, batch 16" -> 1.9."""
    for gpus in sorted({point["gpus"] for point in study.points}):
        there = [(line, point) for line, point in zip(study.lines, study.points, strict=True) if point["gpus"] == gpus]
        values = {f"{name}/{line}": point[name] for line, point in there for name in CURVES if point[name] is not None}
        if values:
            yield gpus, values


def _best(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many points a study has, how many of them ran, and between what its figures are."""
    ran = sum(point["outcome"] == "ok" for point in points)
    figures: dict[str, Any] = {"points_asked_for": len(points), "points_ok": ran}
    for name in CURVES:
        known = [point[name] for point in points if point[name] is not None]
        if known:
            figures |= {f"{name}_max": max(known), f"{name}_min": min(known)}
    return figures
