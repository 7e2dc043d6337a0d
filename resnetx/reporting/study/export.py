"""The results of studies as tidy tables, for spreadsheets, R and pandas.

`points.csv` has one row per point; a cell is empty where nothing was measured. Its columns, whose names stay:

- `study`, `node`, `workload`, `batch_size` (images per step, over all GPUs), `image_size_px`, `gpus`, `devices`,
  `precision`, `input`, `strategy`, `scaling`, `env`, `request_key`: what ran; `request_key` differs wherever any
  setting does.
- `outcome` (ok, oom, failed, timeout, skipped, missing), `reason`, `runs` (good ones).
- `images_per_s`, `iterations_per_s`, `speedup`, `efficiency`, `step_s`: the median over the runs, with `_low`, `_high`
  and `_ends`: `interval` (95 %) or `range` (of fewer runs than an interval takes). `baseline`: what speed-ups are over.
- `share_compute`, `share_communication`, `share_input`, `share_host`: of the step, 0 to 1 (below 0: the twin was
  slower); `limited_by`, `limited_why`.
- `convention`, `activations_per_image`, `parameters`, `activations_per_batch`, `activations_per_parameter`,
  `activations_per_parameter_per_gpu`, `payload_bytes`, `gradient_bytes`, `flops_per_image`: the workload's counts.
- `notes`: outlying runs and warnings.

`windows.csv` has one row per window of each run, twins included: `study`, `node`, `workload`, `batch_size`, `gpus`,
`request_key`, `twin` (of the point with that key; empty: the point itself), `repeat`, `window`, `window_s` (of the
slowest rank), `images_per_s`, `started_at` (UTC), `run` (folder).

`messages.csv` has one row per message of gradients, rank and step of the latest watched run of each point: `study`,
`node`, `workload`, `batch_size`, `gpus`, `strategy`, `request_key`, `message`, `size_bytes`, `rank`, `step`, and
`ready_s`, `start_s`, `end_s` since that rank's step began.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from resnetx.loading import visible
from resnetx.record import Brief, GradientBucket
from resnetx.reporting.study.results import Results
from resnetx.reporting.study.series import Named
from resnetx.statistics import Summary

Table = Sequence[dict[str, Any]]

PARTS = ("compute", "communication", "input", "host")
_COUNTS = ("convention", "activations_per_image", "parameters", "activations_per_batch")
_SIZES = ("payload_bytes", "gradient_bytes", "flops_per_image")


def points(named: Iterable[Named]) -> list[dict[str, Any]]:
    """One row per point, with the columns of this module's docstring."""
    return [_point(each) for each in named]


def _point(point: Named) -> dict[str, Any]:
    row, request, limits, counts = point.row, point.row.request, point.row.limits, point.counts
    return {
        "study": row.study,
        "node": row.node,
        "workload": point.workload,
        "batch_size": request.batch_size,
        "image_size_px": request.image_size,
        "gpus": request.gpus,
        "devices": " ".join(map(str, request.devices)) if request.devices else None,
        "precision": request.precision,
        "input": request.input.kind,
        "strategy": request.strategy.kind,
        "scaling": request.scaling,
        "env": " ".join(f"{name}={value}" for name, value in request.env.items()),
        "request_key": request.key,
        "outcome": row.outcome,
        "reason": row.reason,
        "runs": row.images_per_s.n if row.images_per_s else 0,
        **estimate("images_per_s", row.images_per_s),
        **estimate("iterations_per_s", row.iterations_per_s),
        **estimate("speedup", row.speedup),
        **estimate("efficiency", row.efficiency),
        "baseline": row.baseline,
        **estimate("step_s", limits.step_s if limits else None),
        **{f"share_{part}": limits.shares[part].median if limits and part in limits.shares else None for part in PARTS},
        "limited_by": limits.verdict if limits else None,
        "limited_why": limits.why if limits else None,
        **{name: getattr(counts, name, None) for name in _COUNTS},
        "activations_per_parameter": counts.intensity if counts else None,
        "activations_per_parameter_per_gpu": counts.intensity / request.gpus if counts else None,
        **{name: getattr(counts, name, None) for name in _SIZES},
        "notes": "; ".join(row.notes),
    }


def estimate(name: str, summary: Summary | None) -> dict[str, Any]:
    """An estimate as four columns."""
    if summary is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None, f"{name}_ends": None}
    ends = {f"{name}_low": summary.low, f"{name}_high": summary.high, f"{name}_ends": summary.kind}
    return {name: summary.median, **ends}


def windows(studies: Iterable[Results]) -> Iterator[dict[str, Any]]:
    """One row per window of every run, with the columns of this module's docstring."""
    for results in studies:
        for point in results.points:
            for twin, runs in [(None, point.runs), *point.twins.items()]:
                for run in runs:
                    yield from _windows(results, point.request.key, twin, run)


def _windows(results: Results, key: str, twin: str | None, run: Brief) -> Iterator[dict[str, Any]]:
    for window, rate in enumerate(run.rates, 1):
        yield {
            "study": results.study.name,
            "node": results.study.node,
            "workload": run.request.model.label,
            "batch_size": run.request.batch_size,
            "gpus": run.request.gpus,
            "request_key": key,
            "twin": twin,
            "repeat": run.repeat,
            "window": window,
            "window_s": run.steps_per_window * run.request.batch_size / rate,
            "images_per_s": rate,
            "started_at": run.started_at,
            "run": run.folder.name,
        }


def messages(named: Iterable[Named]) -> Iterator[dict[str, Any]]:
    """One row per message, rank and step, with the columns of this module's docstring."""
    for point in named:
        row, request = point.row, point.row.request
        for message in row.limits.messages if row.limits else []:
            for rank, times in enumerate(zip(*_times(message), strict=True)):
                for step, (ready_s, start_s, end_s) in enumerate(zip(*times, strict=True)):
                    yield {
                        "study": row.study,
                        "node": row.node,
                        "workload": point.workload,
                        "batch_size": request.batch_size,
                        "gpus": request.gpus,
                        "strategy": request.strategy.kind,
                        "request_key": request.key,
                        "message": message.index,
                        "size_bytes": message.size_bytes,
                        "rank": rank,
                        "step": step,
                        "ready_s": ready_s,
                        "start_s": start_s,
                        "end_s": end_s,
                    }


def _times(message: GradientBucket) -> list[list[list[float]]]:
    return [message.ready_s or [], message.start_s or [], message.end_s or []]


def write_csv(path: Path, table: Table) -> None:
    """Writes rows that have the same columns. Numbers are written in full, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]) if table else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: _cell(value) for column, value in row.items()} for row in table)


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it; a number stays a number."""
    text = visible(value) if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text or value
