"""The targets that read packed formats, whose content is changed and packed again, with valid checksums.

A changed byte of a compressed file is found by its checksum, so that what reads the content never sees it.
"""

import gzip
import hashlib
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resnetx import packages, record
from resnetx.record import points_file
from resnetx.record.prediction import PointsFile, Prediction
from tests.fuzz import mutations
from tests.fuzz.harness import Target
from tests.fuzz.of_other_programs import profiles, use_import
from tests.fuzz.of_records import made_of_two, predictions

# ---- gzip -----------------------------------------------------------------------------------------------------------


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _other_profile(random: Random, sample: bytes) -> bytes:
    """A profile with other values, packed in one of the ways in which gzip may be."""
    content = mutations.fields(random, sample)
    match random.choice(("one", "one", "one", "one", "members", "twice", "padded", "many", "bomb")):
        case "members":
            middle = random.randrange(len(content) + 1)
            return _packed(content[:middle]) + _packed(content[middle:])
        case "twice":
            return _packed(_packed(content))
        case "padded":
            return _packed(content) + bytes(random.choice((1, 512)))
        case "many":  # members without content
            return _packed(content) + _packed(b"") * random.choice((1, 100))
        case "bomb" if random.random() < 0.02:  # which takes its time
            begin, _, end = content.partition(b"[")
            return gzip.compress(begin + b"[" + b'{"ph":"X"},' * 3_000_000 + end, 9, mtime=0)
    return _packed(content)


# ---- Parquet --------------------------------------------------------------------------------------------------------


def _tables_of_points() -> list[bytes]:
    """The points of both predictions as `points.parquet`."""
    found = []
    for content in predictions():
        made = msgspec.json.decode(content, type=Prediction)
        unknown = {path: why for path, why in made.unknown.items() if path.startswith(("points.0.", "points.1."))}
        with tempfile.TemporaryDirectory() as folder:
            points_file.write_points(Path(folder), msgspec.structs.replace(made, unknown=unknown))
            found.append((Path(folder) / points_file.NAME).read_bytes())
    return found


@cache
def _table(sample: bytes) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return parquet.read_table(pa.BufferReader(sample))


def _other_points(random: Random, sample: bytes) -> bytes:
    """A table with other values, types, columns or numbers of rows, written by pyarrow in one of its ways."""
    import pyarrow as pa
    from pyarrow import parquet

    table = _table(sample)
    for _ in range(random.choice((1, 1, 2, 4))):
        table = _other_table(random, table)
    if random.random() < 0.01:  # which takes its time
        table = pa.concat_tables([table] * random.choice((10, 10, 100, 2000)))
    out = pa.BufferOutputStream()
    parquet.write_table(
        table,
        out,
        compression=random.choice(("zstd", "zstd", "none", "snappy", "gzip")),
        use_dictionary=random.random() < 0.8,
        data_page_version=random.choice(("1.0", "2.0")),
        row_group_size=random.choice((None, 1, 10)) if table.num_rows < 100 else None,
        store_schema=random.random() < 0.8,
    )
    written: bytes = out.getvalue().to_pybytes()
    return written


def _other_table(random: Random, table: Any) -> Any:
    import pyarrow as pa

    names = table.column_names
    if not names:
        return table
    place = random.randrange(len(names))
    name, column = names[place], table.column(place)
    match random.choice((*["value"] * 12, "type", "drop", "rename", "double", "null", "rows", "swap", "text")):
        case "value":
            return table.set_column(place, name, _array(_other_values(random, column.to_pylist()), column.type))
        case "type":
            return table.set_column(place, name, _of_another_type(random, column.to_pylist()))
        case "drop":
            return table.remove_column(place)
        case "rename":
            return table.rename_columns([*names[:place], random.choice(("x", "", *names)), *names[place + 1 :]])
        case "double":
            return table.append_column(name, column)
        case "null":
            return table.set_column(place, name, pa.nulls(len(column), random.choice((column.type, pa.null()))))
        case "rows":
            drawn = [random.randrange(len(table)) for _ in range(random.choice((0, 1, 3, 5)) if len(table) else 0)]
            return table.take(pa.array(drawn, pa.int64()))
        case "swap":
            return table.set_column(place, name, table.column(random.randrange(len(names))))
    text = random.choice(("", "[]", "{}", "null", "[" * 2000, "{}", "x" * 10_000, "[0]", '"x"', "-1", "1e999"))
    return table.set_column(place, name, pa.array([text] * len(column)))


def _other_values(random: Random, values: Sequence[Any]) -> list[Any]:
    """Some of a column's values changed; JSON in texts as JSON."""
    choice, some = random.random(), random.random() < 0.5
    changed = []
    for value in values:
        if some and random.random() < 0.5:
            changed.append(value)
        elif isinstance(value, str) and _is_json(value) and random.random() < 0.8:
            changed.append(mutations.fields(random, value.encode()).decode())
        else:
            changed.append(mutations.other_value(choice, value))
    return changed


def _is_json(text: str) -> bool:
    """Whether a text holds fields; one that was changed before may be no JSON any more."""
    try:
        return text[:2] in ('{"', "[{") and bool(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _array(values: Sequence[Any], kind: Any) -> Any:
    """A column of these values, of that type where it has them, else of the one that they have."""
    import pyarrow as pa

    for chosen in (kind, None):
        try:
            return pa.array(values, chosen)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            continue
    return pa.array([str(value) for value in values])


def _of_another_type(random: Random, values: Sequence[Any]) -> Any:
    import pyarrow as pa

    kind = random.choice((
        pa.int8(), pa.int32(), pa.uint64(), pa.float32(), pa.bool_(), pa.binary(), pa.large_string(), pa.date32(),
        pa.timestamp("us"), pa.list_(pa.string()), pa.list_(pa.list_(pa.float64())), pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int32(), pa.string()), pa.decimal128(20, 2),
    ))  # fmt: skip
    try:
        return pa.array(values).cast(kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.nulls(len(values), kind)


def _use_points(path: Path) -> None:
    """Reads the points of a prediction whose record states this very file: its digest alone refuses nothing."""
    stated = PointsFile(name=path.name, points=_rows(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    made = points_file.read_points(path.parent, msgspec.structs.replace(made_of_two(), points=[], points_file=stated))
    made.rows()
    record.write(path.with_name("again.json"), made)


def _rows(path: Path) -> int:
    """The rows that the file says it has; 2 if it says nothing."""
    import pyarrow
    from pyarrow import parquet

    try:
        found: int = parquet.read_metadata(path).num_rows
    except (pyarrow.ArrowException, OSError, ValueError):
        return 2
    return found


TARGETS = (
    Target("kineto-gz", "profile.json.gz", profiles, use_import, pack=_packed, content=_other_profile),
    *(
        [Target("points", points_file.NAME, _tables_of_points, _use_points, content=_other_points)]
        if packages.installed("pyarrow")
        else []
    ),
)
