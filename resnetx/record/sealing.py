"""What all records are made by: files, written whole or not at all, and values that cannot be known."""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from resnetx.errors import FileError, prepared
from resnetx.loading import File, UnboundedError, decode, refuse_unbounded
from resnetx.table import answer_of, line_of, text_of
from resnetx.units import size_text
from resnetx.variables import without_passwords

T = TypeVar("T")

# ---- files ----------------------------------------------------------------------------------------------------------
# The files of a run: their names, written whole or not at all, read with suspicion.


class RecordError(FileError):
    """A file that is no record of resnetx, or a broken one: one sentence naming the file."""


class NewerRecordError(FileError):
    """A record that a newer resnetx can read: nothing is wrong with it, so it is not to be measured again."""


@dataclass(frozen=True)
class RunFolder:
    """The names of a run's files; nothing else in resnetx spells them."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run.json"

    @property
    def record(self) -> Path:
        return self.path / "record.json"

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    @property
    def nccl_topology(self) -> Path:
        """The machine as NCCL sees it, as XML."""
        return self.path / "nccl-topology.xml"

    def nccl_tests(self, collective: str) -> Path:
        """A collective of a bench as nccl-tests would have written it."""
        return self.path / f"nccl-tests-{collective}.json"

    def failure(self, rank: int) -> Path:
        """What a rank says of its own failure; the launcher folds it into the record."""
        return self.path / f"failure-rank{rank}.json"

    def failures(self) -> list[Path]:
        return sorted(self.path.glob("failure-rank*.json"))

    def progress(self, rank: int) -> Path:
        """What a rank has begun last; the launcher reads it while the run lasts."""
        return self.path / f"progress-rank{rank}.json"

    def gpu_errors(self, rank: int) -> Path:
        """What the GPUs of a node report while the run lasts, a line each; `rank`: the first one of the node."""
        return self.path / f"gpu-errors-rank{rank}.log"

    def all_gpu_errors(self) -> list[Path]:
        return sorted(self.path.glob("gpu-errors-rank*.log"))

    def notes(self) -> list[Path]:
        """What ranks have left for the launcher: their failures, their progress, and the errors of their GPUs."""
        return [*self.failures(), *self.path.glob("progress-rank*.json"), *self.all_gpu_errors()]

    def leftovers(self) -> list[Path]:
        """What a run that was killed may have left: notes of ranks that nobody read, and files half written."""
        return [*self.notes(), *self.path.glob(".*.json.*")]


# The file of each kind of record that verbs keep in a folder of its own.
FILES = {
    "check": "check.json",
    "prediction": "prediction.json",
    "system comparison": "systems.json",
    "comparison": "comparison.json",
    "accuracy": "accuracy.json",
    "checked papers": "papers.json",
    "score": "score.json",
    "steering": "steering.json",
    "bench comparison": "bench_comparison.json",
    "trace": "trace.json",
}


def record_file(kind: str, folder: Path) -> Path:
    """Where a folder's record of a kind is; nothing else in resnetx spells the names."""
    return folder / FILES[kind]


def write(path: Path, content: msgspec.Struct) -> None:
    """Writes a struct as JSON: whole or not at all, also when the disk is full or the process is killed.

    What could not be read again is not written: a `RecordError` says what makes it small enough.
    """
    data = _encoded(path, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary, temporary.open("xb") as file:  # readable by whom the user's umask lets
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def whole(path: Path, name: str = "") -> Iterator[Path]:
    """Where a file is written before it takes its place, which it does if the block ends well; else nothing is left.

    `name`: always the same there, so that what a kill left is written over. Hidden, it is taken for nothing else.
    """
    temporary = path.with_name(name or f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _encoded(path: Path, content: msgspec.Struct) -> bytes:
    """What is written, if it can be read back: NaN could not, which JSON does not have."""
    try:
        packed = without_passwords(msgspec.json.encode(content))
        if len(packed) <= MAX_BYTES:  # else laying it out would take several times as much memory for nothing
            data = msgspec.json.format(packed, indent=1) + b"\n"
            if len(data) <= MAX_BYTES:
                refuse_unbounded(data)
                msgspec.json.decode(data, type=prepared(type(content)))
                return data
    except (UnboundedError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise RecordError(f"{path}: not written, as it could not be read again: {error}") from None
    kind = getattr(content, "kind", "run")  # which run files have none of
    raise RecordError(f"{path}: not written, as it is {too_large(kind)}")


def _in_words(kind: type) -> str:
    """ "bench record" of BenchRecord."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


def read(path: Path, kind: type[T], what: str = "") -> T:
    """The struct of type `kind` in a JSON file; a `RecordError` or `NewerRecordError` says why it cannot be read.

    `what`: it should be, for the sentence; unless given, the name of the type.
    """
    file = File(path, what or f"a {_in_words(kind)} of resnetx", MAX_BYTES)
    try:
        data = file.content()
        schema = decode(file, data, _Versioned).schema
        if schema <= SCHEMA:
            return decode(file, data, kind, bounded=True)
    except FileError as error:
        raise RecordError(str(error)) from None
    raise NewerRecordError(f"{path}: has schema {schema}, this resnetx reads up to {SCHEMA}: update resnetx")


class _Versioned(msgspec.Struct):
    schema: int


class RecordKind(msgspec.Struct):
    """What a file says that it is; "": nothing."""

    kind: str = ""


# What all records share: the version of their schema, their kind of struct, and how they state a moment.

SCHEMA = 1


class RecordPart(msgspec.Struct, frozen=True, kw_only=True):
    """A record, or a part of one; shows itself by what it answers, else by its first values."""

    def __repr__(self) -> str:
        answer = answer_of(self)
        return text_of(answer) if answer else line_of(self)


def timestamp(epoch_s: float) -> str:
    """A moment as records have it: UTC, ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")


# How large a record may be: one limit for what is written and what is read, so that what is written can be read.

MAX_BYTES = 64 * 2**20

MOST_BYTES = 2**53  # of an array
SHORTEST_s, LONGEST_s = 1e-12, 1e9  # what is shorter, or takes longer than thirty years, was not measured

# In the record of a trace, laid out: the least that a layer takes without its times, and each time ("       0.0,").
LAYER_BYTES, TIME_BYTES = 150, 12
MEASURED_BYTES = 26  # what a time that was measured takes, at most

# What makes a record smaller, by its kind.
_SMALLER = {
    "run": "set fewer windows=, or fewer steps= if layers or phases are timed",
    "bench": "set fewer iterations=, or fewer sizes with size=",
    "trace": "trace or profile fewer iterations",
    "study": "give the study fewer cases",
    "prediction": "predict fewer cases, or leave timeline= and sensitivity= out",
}


def too_large(kind: str) -> str:
    """The end of a sentence about a record that is not written."""
    smaller = _SMALLER.get(kind, "ask for less")
    return f"larger than {size_text(MAX_BYTES)}, more than is read again; {smaller}"


def refuse_large_trace(layers: int, iterations: int, path: Path) -> None:
    """Refuses an import whose record would be too large before it is built: a file of 100 kB can hold one."""
    if layers * (LAYER_BYTES + 2 * iterations * TIME_BYTES) > MAX_BYTES:  # forward and backward times, at least
        raise FileError(
            f"{path}: a record of {iterations:,} iterations of {layers:,} layers would be {too_large('trace')}"
        )


# ---- unknown --------------------------------------------------------------------------------------------------------
# Values that cannot be known: null in a record, with the reason beside it.
#
# What measures or predicts returns `T | Unknown`. A record is made by its constructor, its fields of such values
# wrapped in `known`, and then sealed:
#
#     seal(BenchPoint(time_s=known(timed()), ..., unknown={}))

Record = TypeVar("Record", bound=msgspec.Struct)


class Unknown(str):
    """Stands for a value that cannot be known while a record is put together; the string is the reason."""


def known(value: T | Unknown) -> T | None:
    """The value of a field that is null where it cannot be known. `seal` makes the null, and keeps the reason."""
    return cast("T | None", value)


def if_known(field: T | None) -> T | None:
    """A field of a record that may not be sealed yet; None where it cannot be known."""
    return None if isinstance(field, Unknown) else field


def of_known(function: Callable[..., T], *values: Any) -> T | Unknown:
    """What a function makes of values; where one of them cannot be known, why not."""
    unknown = next((value for value in values if isinstance(value, Unknown)), None)
    return function(*values) if unknown is None else unknown


def seal(record: Record) -> Record:
    """The record with every `Unknown` in it made null, and each reason in `unknown` under the path of its field.

    Checks the types of all fields. A null whose path, or the path of a part that holds it, has no reason is a mistake
    of ours.
    """
    reasons: dict[str, str] = {}
    plain: Any
    plain, nulls_at = _without_unknown(record, "", reasons)
    reasons = {**plain.unknown, **reasons}
    missing = [path for path in nulls_at if path not in reasons]
    assert not missing, f"no reason is given for the null fields {missing}"
    sealed: Record = msgspec.structs.replace(plain, unknown=reasons)
    return _checked(sealed)


def _checked(part: Record) -> Record:
    """The part with the types of its fields checked; those of long lists item by item, which takes less memory."""
    lists = {
        name: [_checked(item) for item in items]
        for name in part.__struct_fields__
        if isinstance(items := getattr(part, name), list) and items and isinstance(items[0], msgspec.Struct)
    }
    rest = msgspec.structs.replace(part, **dict.fromkeys(lists, ())) if lists else part
    checked: Record = msgspec.convert(msgspec.to_builtins(rest), prepared(type(part)))
    return msgspec.structs.replace(checked, **lists) if lists else checked


def nulls(tree: Any, path: str = "") -> Iterator[str]:
    """Paths of the null fields of a record, apart from those of requests, in which null is an answer."""
    if tree is None:
        yield path
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key != "request" or value is None:
                yield from nulls(value, f"{path}.{key}".lstrip("."))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from nulls(value, f"{path}.{index}")


_PLAIN = (str, int, float, bool)


def _without_unknown(value: Any, path: str, reasons: dict[str, str]) -> tuple[Any, list[str]]:
    """A part of a record with its `Unknown` made None, their reasons put into `reasons`; and the paths of its nulls.

    What holds none stays the same object: of a hundred thousand points, most parts do.
    """
    if isinstance(value, Unknown):
        reasons[path] = str(value)
        return None, [path]
    if value is None:
        return None, [path]
    if isinstance(value, msgspec.Struct):
        fields = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))  # by names in JSON
        changed, nulls_at = _items_without_unknown(
            ((name, getattr(value, field)) for name, field in fields.items()), path, reasons
        )
        plain = {fields[name]: item for name, item in changed.items()}
        return msgspec.structs.replace(value, **plain) if plain else value, nulls_at
    if isinstance(value, dict):
        changed, nulls_at = _items_without_unknown(value.items(), path, reasons)
        return {**value, **changed} if changed else value, nulls_at
    if isinstance(value, list | tuple):
        changed, nulls_at = _items_without_unknown(enumerate(value), path, reasons)
        return [changed.get(index, item) for index, item in enumerate(value)] if changed else value, nulls_at
    return value, []


def _items_without_unknown(
    items: Iterable[tuple[Any, Any]], path: str, reasons: dict[str, str]
) -> tuple[dict[Any, Any], list[str]]:
    """Those items of a part that change, and the paths of its nulls; in a request, null is an answer."""
    changed, nulls_at = {}, []
    for key, item in items:
        if type(item) in _PLAIN or (key == "request" and item is not None and not isinstance(item, Unknown)):
            continue
        plain, inside = _without_unknown(item, f"{path}.{key}" if path else str(key), reasons)
        nulls_at += inside
        if plain is not item:
            changed[key] = plain
    return changed, nulls_at


# How a run ended, and what makes its figures less trustworthy.

Outcome = Literal["ok", "oom", "failed", "timeout", "skipped"]


class Failure(RecordPart, frozen=True):
    """How one rank failed."""

    rank: int
    # oom: no memory left; config: a mistake of the user's; peer: another rank was lost; error: anything else.
    kind: Literal["oom", "config", "peer", "error"]
    time_s: float  # since the epoch
    message: str
    traceback: str
    # Since the host was booted, by a clock that nobody sets: the first failure is the cause, others are consequences.
    monotonic_s: float = 0.0
    node: str = ""  # of the rank; records from before it was asked lack it


class Warning(RecordPart, frozen=True):
    """Something that makes the figures less trustworthy, and what to do about it."""

    code: str
    message: str
    remedy: str
