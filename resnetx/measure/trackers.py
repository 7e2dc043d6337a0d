"""Experiment trackers: copies of results for an experiment-tracking service.

A run is logged when it is over and its record is on disk, and a study once its last run is: from the launching process,
never beside a measurement. A tracker that fails costs no result, and some seconds once: it is then offline for the rest
of the study. On Weights & Biases a study is a group. Each of its runs is one there, and one more (`job_type=study`) has
what is known only in the end: a table of all points, and the curves of rate, speed-up and efficiency over GPUs.

All are below one folder `wandb`, that of the study unless WANDB_DIR names another, for one command to upload.
"""

import os
import shlex
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from resnetx import packages
from resnetx.choices import NoTracker, Tracker, Wandb
from resnetx.errors import ConfigError
from resnetx.record import Environment, RunFolder, RunRecord
from resnetx.variables import plain, without_passwords

TAG = 64  # characters of a tag, at most
ANSWER_S = 5  # for a server's first answer
INIT_S = 10  # for wandb to begin a run online, which by itself has 90
FINISH_S = 30  # to upload the rest of it, which by itself has no limit
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
    "gather_s",
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


class TrackedCopies:
    """What one command logs with a tracker: online, until that fails once, and offline from then on."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._mode = _mode()
        self._given_up = False  # it fails offline, too: nothing more is tried

    def track(self, record: RunRecord, folder: RunFolder, twin: str | None = None) -> str:
        """Logs one finished run; returns what the user is to know, once. `twin`: which of its point's twins it is."""
        return self._log(
            lambda wandb, project, mode: _log_run(wandb, project, mode, record, folder, twin),
            f"the record is in {folder.record}",
        )

    def conclude(self, study: Finished, folder: Path) -> str:
        """Logs what a study says as a whole; `folder`: the study's. Returns what the user is to know, once."""
        return self._log(
            lambda wandb, project, mode: _log_study(wandb, project, mode, study, folder), f"the records are in {folder}"
        )

    def upload_command(self, folder: Path) -> str:
        """The command that uploads what was logged offline of the runs in a folder; "" where there is nothing."""
        if isinstance(self._tracker, NoTracker) or self._mode != "offline" or self._given_up:
            return ""
        return f"wandb sync {shlex.quote(str(_directory(folder) / 'wandb'))}/offline-run-*"

    def _log(self, log: Callable[[Any, str, str], None], kept: str) -> str:
        """Logs online or offline; `kept`: where the results are, whatever a tracker does."""
        if isinstance(self._tracker, NoTracker) or self._given_up:
            return ""
        os.environ.setdefault("WANDB_SILENT", "true")
        told = ""
        try:
            import wandb

            if self._mode == "online":
                try:
                    _refuse_silent(wandb.setup().settings.base_url)
                    log(wandb, self._tracker.project, self._mode)
                    return ""
                except Exception as error:
                    self._mode = "offline"
                    told = f"wandb: {_brief(error)}; this and what follows is logged offline"
            log(wandb, self._tracker.project, self._mode)
        except Exception as error:
            self._given_up = True
            return f"wandb: not logged, nor what follows ({_brief(error)}); {kept}"
        return told


# ---- wandb ----------------------------------------------------------------------------------------------------------


def _refuse_silent(address: str) -> None:
    """Raises an error where no server answers in time. What it answers does not matter, nor whether it is trusted here.

    wandb itself waits 90 seconds, and goes on trying behind its caller's back.
    """
    answers: list[str] = []  # why there is none, or ""
    threading.Thread(target=lambda: answers.append(_no_answer(address)), daemon=True).start()
    end = time.monotonic() + ANSWER_S
    while not answers and time.monotonic() < end:  # a server may take for ever over its answer, byte by byte
        time.sleep(0.05)
    if why := answers[0] if answers else "timed out":
        raise ConnectionError(f"{address} does not answer ({why})")


def _no_answer(address: str) -> str:
    """Why a server does not answer; "" where it does."""
    try:
        urllib.request.urlopen(address, timeout=ANSWER_S).close()
    except urllib.error.HTTPError:
        return ""
    except Exception as error:
        why = getattr(error, "reason", error)
        return "" if isinstance(why, ssl.SSLError) else str(why)
    return ""


def _brief(error: Exception) -> str:
    """The first line of an error, which may have an address with a password in it."""
    first = str(error).strip().partition("\n")[0]
    said = without_passwords(first.encode(errors="replace")).decode()
    return said if isinstance(error, ConnectionError) else f"{type(error).__name__}: {said}"


def _log_run(wandb: Any, project: str, mode: str, record: RunRecord, folder: RunFolder, twin: str | None) -> None:
    """One run: its windows as steps, its figures as the summary."""
    run = wandb.init(
        project=project,
        name=f"{record.request.slug}_r{record.repeat}",
        group=record.study,
        job_type="twin" if twin else "run",
        tags=_tags(record, twin),
        config=_config(record, twin),
        **_where(wandb, mode, folder.path.parent),
    )
    for rates in _windows(record):
        run.log(rates)
    run.summary.update(_summary(record))
    run.finish(exit_code=0 if record.outcome == "ok" else 1)


def _log_study(wandb: Any, project: str, mode: str, study: Finished, folder: Path) -> None:
    """One more run in the group of a study: a table of its points, and their curves over GPUs."""
    run = wandb.init(
        project=project,
        name=study.name,
        group=study.name,
        job_type="study",
        notes=study.about,
        tags=_tag_list(["study", study.name, f"node={study.node}"]),
        config={"study": study.name, **study.definition, **_surroundings(study.environment)},
        **_where(wandb, mode, folder),
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


def _where(wandb: Any, mode: str, folder: Path) -> dict[str, Any]:
    directory = _directory(folder)
    directory.mkdir(parents=True, exist_ok=True)  # else wandb falls back to a temporary folder
    settings = wandb.Settings(
        x_disable_stats=True,
        x_disable_meta=True,
        disable_git=True,
        init_timeout=INIT_S,
        finish_timeout=FINISH_S,
        finish_timeout_raises=True,
    )
    return {"dir": directory, "mode": mode, "settings": settings}


def _directory(folder: Path) -> Path:
    return Path(os.environ.get("WANDB_DIR") or folder)


def _mode() -> str:
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
    counted = plain(record.workload) if record.workload else None
    return {
        **plain(record.request),
        "request_key": record.request_key,
        "study": record.study,
        "repeat": record.repeat,
        "twin": twin,
        "workload": counted,
        **_intensity(record),
        **_surroundings(record.environment),
    }


def _surroundings(environment: Environment | None) -> dict[str, Any]:
    """Machine, GPUs and versions, as far as a record knows them."""
    if environment is None:
        return {}
    known = plain(environment)
    models = Counter(gpu["name"] for gpu in known["gpus"] or [])
    return {
        "machine": {name: known[name] for name in _MACHINE},
        "machine_gpus": ", ".join(f"{count} x {name}" for name, count in models.items()) or "none",
        "versions": {name: known[name] for name in _VERSIONS},
        "variables": known["variables"],
    }


def _windows(record: RunRecord) -> list[dict[str, float | None]]:
    """One row per window: the rate of all ranks, and the loss at its end, of runs that have one."""
    if record.windows_s is None:
        return []
    images = record.steps_per_window * record.request.batch_size
    slowest = [max(window) for window in zip(*record.windows_s, strict=True)]
    rates: list[dict[str, float | None]] = [{"images_per_s": images / seconds} for seconds in slowest]
    if record.loss is None:
        return rates
    return [rate | {"loss": loss} for rate, loss in zip(rates, record.loss[1:], strict=True)]


def _summary(record: RunRecord) -> dict[str, Any]:
    figures = {
        "outcome": record.outcome,
        "reason": without_passwords(record.reason.encode()).decode(),
        "images_per_s": record.images_per_s,
        "iterations_per_s": record.iterations_per_s,
        "world_size": record.world_size,
        "repeat": record.repeat,
        "duration_s": record.duration_s,
        "warnings": ", ".join(dict.fromkeys(warning.code for warning in record.warnings)),
    }
    figures |= _intensity(record)
    if record.phases:
        figures |= {f"phases/{name}": fmean(getattr(record.phases, name)) for name in _PHASES}
    if record.peak_memory_bytes:
        figures["peak_memory_bytes"] = max(record.peak_memory_bytes)
    return figures


def _intensity(record: RunRecord) -> dict[str, float | None]:
    """Activations per parameter, of the whole batch and of one GPU's part; None where a run did not get to counting.

    They are named as in records and, for whoever looks for them on a dashboard, written out.
    """
    intensity = record.workload.intensity if record.workload else None
    return {
        "intensity": intensity,
        "intensity_per_gpu": None if intensity is None else intensity / record.request.gpus,
        "activations_per_parameter": intensity,
    }


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
