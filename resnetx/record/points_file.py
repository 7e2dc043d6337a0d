"""The points of a large prediction in a file of their own: `points.parquet`, which pandas reads.

    write_points(folder, made)      # the prediction without its points, which are now in the folder
    read_points(folder, made)       # the same with them

A column for each field of a point, in base units. What is no single value, and no list of numbers, is JSON in text
(`request`, `gpu`, `sensitivity`, `timeline`), as is `unknown`: field -> why it is null. `prediction.json` states the
file's SHA-256, so that its own digest covers the points. Apache Parquet is read and written by pyarrow, which the extra
`parquet` installs.
"""

import hashlib
import json
import os
import secrets
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from resnetx.loading import File
from resnetx.record.files import RecordError
from resnetx.record.prediction import PointsFile, PredictedPoint, Prediction
from resnetx.units import size_text

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

MANY_POINTS = 10_000  # from more on, they are in a file of their own
MAX_FILE_BYTES = 2**28
MAX_UNPACKED_BYTES = 2**32
NAME = "points.parquet"


def write_points(folder: Path, made: Prediction) -> Prediction:
    """Writes the points to the folder; the prediction as `prediction.json` has it, without them."""
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    path, temporary = folder / NAME, folder / f".{NAME}.{secrets.token_hex(8)}"
    try:
        parquet.write_table(_table(made), temporary, compression="zstd")
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    stated = PointsFile(name=NAME, points=len(made.points), sha256=sha256)
    others = {path: why for path, why in made.unknown.items() if not path.startswith("points.")}
    return msgspec.structs.replace(made, points=[], unknown=others, points_file=stated)


def read_points(folder: Path, stored: Prediction) -> Prediction:
    """The prediction with the points of its file, which must be the one that it states."""
    stated = stored.points_file
    if isinstance(stated, msgspec.UnsetType):
        return stored
    import pyarrow
    from pyarrow import parquet

    file = File(folder / NAME, "the points of a prediction", MAX_FILE_BYTES)
    content = file.content()
    if hashlib.sha256(content).hexdigest() != stated.sha256:
        raise RecordError(f"{file.path}: not the points that prediction.json states: its SHA-256 is another one")
    try:
        packed = parquet.ParquetFile(pyarrow.BufferReader(content))
        _refuse_others(file, packed.metadata, stated)
        points, unknown = _points(packed.read())
    except (OSError, pyarrow.ArrowException, KeyError, ValueError, msgspec.MsgspecError) as error:
        reason = " ".join(str(error).split())  # pyarrow's may have several lines
        raise RecordError(f"{file.path}: not the points of a prediction: {reason}") from None
    return msgspec.structs.replace(stored, points=points, unknown={**stored.unknown, **unknown})


def _refuse_others(file: File, described: "parquet.FileMetaData", stated: PointsFile) -> None:
    """Refuses what would fill the memory, or is of another prediction, by what the file says of itself."""
    if described.num_rows != stated.points:
        raise file.error(f"has {described.num_rows:,} rows; prediction.json states {stated.points:,} points")
    size_bytes = sum(described.row_group(place).total_byte_size for place in range(described.num_row_groups))
    if size_bytes > MAX_UNPACKED_BYTES:
        raise file.error(f"larger than {size_text(MAX_UNPACKED_BYTES)} uncompressed, more than is read")


# ---- columns --------------------------------------------------------------------------------------------------------


def _kinds() -> dict[str, str]:
    """How each field of a point is kept: "string", "int64", "double", "list<int64>", "list<double>" or "json"."""
    hints = get_type_hints(PredictedPoint)
    return {name: _kind(hints[name]) for name in PredictedPoint.__struct_fields__}


def _kind(hint: Any) -> str:
    options = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        return _kind(options[0]) if len(options) == 1 else "json"
    if get_origin(hint) is list:
        inner = _kind(options[0])
        return f"list<{inner}>" if inner in ("int64", "double") else "json"
    if options and all(isinstance(each, str) for each in options):  # a Literal
        return "string"
    return {str: "string", int: "int64", float: "double"}.get(hint, "json")


def _table(made: Prediction) -> "pyarrow.Table":
    import pyarrow as pa

    plain = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "json": pa.string()}
    of_list = {f"list<{name}>": pa.list_(plain[name]) for name in ("int64", "double")}
    columns = {
        name: pa.array(_column(made.points, name, kind == "json"), (plain | of_list)[kind])
        for name, kind in _kinds().items()
    }
    reasons: list[dict[str, str]] = [{} for _ in made.points]
    for path, why in made.unknown.items():
        where, _, below = path.partition(".")
        if where == "points":
            place, _, field = below.partition(".")
            reasons[int(place)][field] = why
    return pa.table({**columns, "unknown": pa.array([json.dumps(each) for each in reasons], pa.string())})


def _column(points: Sequence[PredictedPoint], name: str, as_json: bool) -> list[Any]:
    values = [getattr(point, name) for point in points]
    if not as_json:
        return values
    return [None if value is None else msgspec.json.encode(value).decode() for value in values]


def _points(table: "pyarrow.Table") -> tuple[list[PredictedPoint], dict[str, str]]:
    """The points, and why their null fields are not known. Columns of a later resnetx are left out."""
    kinds = _kinds()
    points: list[PredictedPoint] = []
    unknown: dict[str, str] = {}
    for batch in table.to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            for field, why in msgspec.json.decode(row["unknown"], type=dict[str, str]).items():
                unknown[f"points.{len(points)}.{field}"] = why
            points.append(_point(row, kinds))
    return points, unknown


def _point(row: Mapping[str, Any], kinds: Mapping[str, str]) -> PredictedPoint:
    fields = {name: row[name] for name in kinds if name in row}
    decoded = {
        name: msgspec.json.decode(value)
        for name, value in fields.items()
        if kinds[name] == "json" and value is not None
    }
    return msgspec.convert(fields | decoded, PredictedPoint)
