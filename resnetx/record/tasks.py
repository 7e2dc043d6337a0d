"""What a child process is started for: a run or a bench. Both are launched, end and are recorded in the same way."""

from pathlib import Path
from typing import Any, overload

import msgspec

from resnetx.record.bench import BenchFile, BenchRecord, bench_opening
from resnetx.record.files import read
from resnetx.record.run import Outcome, RunFile, RunRecord, opening
from resnetx.record.unknown import Unknown, seal_tree

Task = RunFile | BenchFile
TaskRecord = RunRecord | BenchRecord


def read_task(path: Path) -> Task:
    """What a `run.json` asks for; a `RecordError` where it is neither kind."""
    kind = BenchFile if read(path, RunOrBenchFile).kind == "bench" else RunFile
    task: Task = read(path, kind)
    return task


class RunOrBenchFile(msgspec.Struct):
    """The part of a `run.json` that says which of the two it is."""

    kind: str = "run"  # run files say nothing of it


def record_kind(task: Task) -> type[TaskRecord]:
    """The type of the record that a task leaves."""
    return BenchRecord if isinstance(task, BenchFile) else RunRecord


@overload
def cut_short(task: RunFile, started: float, outcome: Outcome, reason: str, **known: Any) -> RunRecord: ...
@overload
def cut_short(task: BenchFile, started: float, outcome: Outcome, reason: str, **known: Any) -> BenchRecord: ...
def cut_short(task: Task, started: float, outcome: Outcome, reason: str, **known: Any) -> TaskRecord:
    """The record of a task that measured nothing; `known` are the fields that are known all the same.

    `started`: seconds since the epoch. How long it took is 0 unless `duration_s` is among the known.
    """
    kind = record_kind(task)
    gone = Unknown("the run ended before this was measured")
    begun = bench_opening(task, started) if isinstance(task, BenchFile) else opening(task, started)
    told = {"failures": [], "stderr_end": "", "warnings": [], "duration_s": 0.0, **known}
    whole = dict.fromkeys(kind.__struct_fields__, gone) | begun | told
    record: TaskRecord = seal_tree(whole | {"outcome": outcome, "reason": reason, "unknown": {}}, kind)
    return record


def json_schema(kind: Any = RunRecord) -> bytes:
    """The JSON Schema of a kind of record, generated from its structs."""
    schema = msgspec.json.schema(kind)
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"
