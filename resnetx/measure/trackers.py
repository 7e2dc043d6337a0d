"""Experiment trackers: a copy of each finished record for those who look at runs elsewhere.

A run is logged when it is over and its record is on disk, from one process: nothing of a tracker runs beside the
measurement, and a tracker that fails costs no result.
"""

import os
from typing import Any

import msgspec

from resnetx.config import NoTracker, Tracker, Wandb
from resnetx.record import RunFolder, RunRecord


def track(tracker: Tracker, record: RunRecord, folder: RunFolder) -> str:
    """Logs one finished run; returns what the user should be told, "" where there is nothing to tell."""
    if isinstance(tracker, NoTracker):
        return ""
    return _to_wandb(tracker, record, folder)


def _to_wandb(tracker: Wandb, record: RunRecord, folder: RunFolder) -> str:
    """One wandb run per run, grouped by study: its windows as steps, its figures as the summary."""
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        import wandb

        run = wandb.init(
            project=tracker.project,
            name=f"{record.request.slug}_r{record.repeat}",
            group=record.study,
            dir=folder.path,
            mode=_mode(),
            config=msgspec.to_builtins(record.request),
            settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, disable_git=True),
        )
        for rates in _windows(record):
            run.log(rates)
        run.summary.update(_summary(record))
        run.finish(exit_code=0 if record.outcome == "ok" else 1)
    except Exception as error:  # whatever a tracker does, the record is safe
        return f"wandb: not logged ({type(error).__name__}: {error}); the record is in {folder.record}"
    if _mode() == "online":
        return ""
    return f"wandb: logged offline; upload with: wandb sync {folder.path}/wandb/offline-run-*"


def _mode() -> Any:
    """Offline unless the user has set a key or a mode: no login question, no waiting for a network."""
    chosen = os.environ.get("WANDB_MODE")
    return chosen or ("online" if os.environ.get("WANDB_API_KEY") else "offline")


def _windows(record: RunRecord) -> list[dict[str, float | None]]:
    """One row per window: the rate of all ranks, and the loss at its end."""
    if record.windows_s is None or record.loss is None:
        return []
    images = record.request.steps * record.request.batch_size
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
    }
    if record.workload:
        figures |= {
            "intensity": record.workload.intensity,
            "intensity_per_gpu": record.workload.intensity / record.request.gpus,
        }
    return figures
