"""Tasks: what torchrun is started for, a run or a bench. Both are launched, end and are recorded in the same way.

The file of a task (`RunFile`, `BenchFile`) names the module that its ranks are started with and the record that it
leaves; nothing that launches, supervises or records a task asks of which kind it is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, get_origin

import msgspec

from resnetx.choices import Lab
from resnetx.launching import Launch
from resnetx.record.bench import BenchFile, BenchRecord
from resnetx.record.files import RecordError, read
from resnetx.record.outcome import Outcome
from resnetx.record.run import RunFile, RunRecord
from resnetx.record.unknown import Unknown, seal

TaskRecord = RunRecord | BenchRecord
Ended = TypeVar("Ended", bound=TaskRecord)
Ended_co = TypeVar("Ended_co", bound=TaskRecord, covariant=True)
File = TypeVar("File", RunFile, BenchFile)


class TaskRequest(Protocol):
    """What any task is asked for."""

    @property
    def gpus(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def env(self) -> dict[str, str]: ...
    @property
    def slug(self) -> str: ...
    @property
    def devices(self) -> list[int] | None: ...
    @property
    def lab(self) -> Lab | None: ...
    @property
    def clock(self) -> int | None: ...
    @property
    def nodes(self) -> int: ...


class TaskFile(Protocol[Ended_co]):
    """The file of a task (`run.json`), which leaves a record of type `Ended_co`."""

    verb: ClassVar[str]
    entry_module: ClassVar[str]

    @property
    def request(self) -> TaskRequest: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def launch(self) -> Launch | None: ...
    @property
    def record_type(self) -> type[Ended_co]: ...
    def opening(self, started: float) -> Mapping[str, Any]: ...


class RunOrBenchFile(msgspec.Struct):
    """The part of a `run.json` that says which of the two it is."""

    kind: str = "run"  # run files do not state it


def read_task(path: Path, wanted: type[File]) -> File:
    """The `run.json` of a run or of a bench; a `RecordError` where it is not what is wanted."""
    kind, other = read(path, RunOrBenchFile).kind, BenchFile if wanted is RunFile else RunFile
    if kind == ("run" if other is RunFile else "bench"):
        raise RecordError(
            f"{path}: a {kind}; start it with torchrun ... -m {other.entry_module}, or use `resnetx {other.verb}`"
        )
    task: File = read(path, wanted)
    return task


def cut_short(task: TaskFile[Ended], started: float, outcome: Outcome, reason: str, **known: Any) -> Ended:
    """The record of a task that measured nothing; `known` are the fields that are known all the same.

    `started`: seconds since the epoch. How long it took is 0 unless `duration_s` is among the known.
    """
    kind = task.record_type
    missing = Unknown("the run ended before this was measured")
    nothing = {field.name: [] if get_origin(field.type) is list else missing for field in msgspec.structs.fields(kind)}
    ended = {"outcome": outcome, "reason": reason, "stderr_end": "", "duration_s": 0.0, "unknown": {}}
    return seal(kind(**{**nothing, **ended, **task.opening(started), **known}))


def json_schema(kind: Any = RunRecord) -> bytes:
    """The JSON Schema of a kind of record, generated from its structs."""
    schema = msgspec.json.schema(kind)
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"
