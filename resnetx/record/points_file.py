"""The points of a large prediction in a file of their own: `points.parquet`, which pandas reads.

    write_points(folder, made)      # the prediction without its points, which are now in the folder
    read_points(folder, made)       # the same with them

A column for each field of a point, in base units; what is no single value or list of numbers, and `unknown`, is JSON in
text. `prediction.json` states the file's SHA-256, so that its own digest covers the points. pyarrow reads and writes it
(extra `parquet`).

A few bytes of Parquet may stand for any number of values. So the columns' types and what the headers of their pages say
come first, and then rows are built, some at a time, up to a limit (`_Limit`) that grows with the file.
"""

import hashlib
import json
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from resnetx.errors import prepared, shortened
from resnetx.loading import File, UnboundedError, refuse_unbounded
from resnetx.record.prediction import PointsFile, PredictedPoint, Prediction
from resnetx.record.sealing import RecordError, whole
from resnetx.units import size_text

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

MANY_POINTS = 10_000  # from more on, they are in a file of their own
MAX_FILE_BYTES = 2**28
NAME = "points.parquet"
UNKNOWN = "unknown"  # the column that is of no field of a point
BATCH = 1000  # rows that are built at once

# What is built of a file takes at most so many bytes for each of its own, and 256 MiB of a small one: real points take
# some 110 of a file of 1.0 MB (10,752 points of three systems), 240 where most cannot run, and each says why.
MOST_PER_BYTE = 1024
SMALL_BYTES = 2**28
MAX_BUILT_BYTES = 2**31
# What is looked at one by one, which takes time and no memory: a file of 10,752 points has 60 columns of a page or two.
FOOTER_BYTES = 2**21  # at most; pyarrow takes 2 us for each
MOST_COLUMNS = 1000
MOST_PIECES = 100_000  # pages, and columns of row groups
# In memory, about: a struct of a point without its texts; a number or text in a list, a group, or a column.
POINT_BYTES = 1500
VALUE_BYTES = 64


def write_points(folder: Path, made: Prediction) -> Prediction:
    """Writes the points to the folder; the prediction as `prediction.json` has it, without them."""
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    with whole(folder / NAME) as temporary:
        parquet.write_table(_table(made), temporary, compression="zstd")
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
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
        if (footer_bytes := int.from_bytes(content[-8:-4], "little")) > FOOTER_BYTES:
            raise PageError(f"describes itself in {footer_bytes:,} bytes, of at most {FOOTER_BYTES:,}")
        described = parquet.read_metadata(pyarrow.BufferReader(content))
        # Refuses what is of another prediction, by what the file says of itself.
        if described.num_rows != stated.points:
            raise file.error(f"has {described.num_rows:,} rows; prediction.json states {stated.points:,} points")
        columns = _known_columns(described.schema)
        limit = _Limit(file, min(max(SMALL_BYTES, MOST_PER_BYTE * len(content)), MAX_BUILT_BYTES))
        _count_pages(described, content, columns, limit)
        # Texts as a dictionary of those that differ: each is built, and its JSON decoded, once for all rows.
        texts = [name for name, kind in columns.items() if kind in ("string", "json")]
        packed = parquet.ParquetFile(pyarrow.BufferReader(content), metadata=described, read_dictionary=texts)
        points, unknown = _points(packed, columns, stated, limit)
    except (OSError, pyarrow.ArrowException, PageError, UnboundedError, ValueError, msgspec.MsgspecError) as error:
        reason = " ".join(str(error).split())  # pyarrow's may have several lines
        raise RecordError(f"{file.path}: not the points of a prediction: {shortened(reason, 500)}") from None
    return msgspec.structs.replace(stored, points=points, unknown={**stored.unknown, **unknown})


@dataclass
class _Limit:
    """How many more bytes may be built of a file."""

    file: File
    left_bytes: int

    def __post_init__(self) -> None:
        self.of_bytes = self.left_bytes

    def take(self, size_bytes: int) -> None:
        """Counts what will be built, before it is."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise self.file.error(
                f"its points would take more than {size_text(self.of_bytes)} in memory, which is not read of a file of "
                "its size"
            )


# ---- before anything is unpacked ------------------------------------------------------------------------------------


def _known_columns(schema: "parquet.ParquetSchema") -> dict[str, str]:
    """The columns to be read, and how each is kept; others, of a later resnetx, are left out. Types are checked."""
    if len(schema) > MOST_COLUMNS:
        raise PageError(f"has {len(schema):,} columns, of at most {MOST_COLUMNS:,}")
    kinds, expected = {**_kinds(), UNKNOWN: "json"}, _types()
    physical = {column.path: column.physical_type for column in map(schema.column, range(len(schema)))}
    found = schema.to_arrow_schema()
    for name in found.names:
        if name not in kinds:
            continue
        path, stored = _STORED[kind := kinds[name]]
        if found.names.count(name) > 1:
            raise PageError(f"column {name} is there twice")
        if found.field(name).type != expected[kind] or physical.get(name + path) != stored:
            raise PageError(f"column {name} has values of type {found.field(name).type}; expected {expected[kind]}")
    if UNKNOWN not in found.names:
        raise PageError(f"has no column {UNKNOWN}")
    return {name: kind for name, kind in kinds.items() if name in found.names}


def _count_pages(
    described: "parquet.FileMetaData", content: bytes | bytearray, columns: Mapping[str, str], limit: _Limit
) -> None:
    """Refuses pages that would take too much, by their headers, and encodings that resnetx does not write."""
    paths = {name + _STORED[kind][0] for name, kind in columns.items()}
    if (pieces := described.num_row_groups * len(described.schema)) > MOST_PIECES:
        raise PageError(f"has {pieces:,} columns of row groups, of at most {MOST_PIECES:,}")
    for index in range(described.num_row_groups):
        group = described.row_group(index)
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema not in paths:
                continue
            begin = column.data_page_offset
            if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < begin:
                begin = column.dictionary_page_offset
            for page in pages(content, begin, column.total_compressed_size):
                if page.encoding not in (None, PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY):
                    raise PageError(f"column {column.path_in_schema} has encoding {page.encoding}, which is not read")
                if (pieces := pieces + 1) > MOST_PIECES:
                    raise PageError(f"has more than {MOST_PIECES:,} pages")
                limit.take(page.unpacked_bytes + 8 * page.values)


# ---- columns --------------------------------------------------------------------------------------------------------


@cache
def _kinds() -> dict[str, str]:
    """How each field of a point is kept: "string", "int64", "double", "list<int64>", "list<double>" or "json"."""
    hints = get_type_hints(PredictedPoint)
    return {name: _kind(hints[name]) for name in PredictedPoint.__struct_fields__}


def _kind(hint: Any) -> str:
    options = [argument for argument in get_args(hint) if argument is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        return _kind(options[0]) if len(options) == 1 else "json"
    if get_origin(hint) is list:
        inner = _kind(options[0])
        return f"list<{inner}>" if inner in ("int64", "double") else "json"
    if options and all(isinstance(option, str) for option in options):  # a Literal
        return "string"
    return {str: "string", int: "int64", float: "double"}.get(hint, "json")


# How Parquet keeps each: what follows the column's name in the path of its values, and their physical type.
_STORED = {
    "string": ("", "BYTE_ARRAY"),
    "json": ("", "BYTE_ARRAY"),
    "int64": ("", "INT64"),
    "double": ("", "DOUBLE"),
    "list<int64>": (".list.element", "INT64"),
    "list<double>": (".list.element", "DOUBLE"),
}


def _types() -> dict[str, "pyarrow.DataType"]:
    """The type of a column of each kind."""
    import pyarrow as pa

    plain = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "json": pa.string()}
    return plain | {f"list<{name}>": pa.list_(plain[name]) for name in ("int64", "double")}


def _table(prediction: Prediction) -> "pyarrow.Table":
    import pyarrow as pa

    kinds = _types()
    columns = {
        name: pa.array(_column(prediction.points, name, kind == "json"), kinds[kind]) for name, kind in _kinds().items()
    }
    reasons: list[dict[str, str]] = [{} for _ in prediction.points]
    for path, why in prediction.unknown.items():
        where, _, below = path.partition(".")
        if where == "points":
            place, _, field = below.partition(".")
            reasons[int(place)][field] = why
    return pa.table({**columns, UNKNOWN: pa.array([json.dumps(reason) for reason in reasons], pa.string())})


def _column(points: Sequence[PredictedPoint], name: str, as_json: bool) -> list[Any]:
    values = [getattr(point, name) for point in points]
    if not as_json:
        return values
    return [None if value is None else msgspec.json.encode(value).decode() for value in values]


# ---- rows -----------------------------------------------------------------------------------------------------------


def _points(
    packed: "parquet.ParquetFile", columns: Mapping[str, str], stated: PointsFile, limit: _Limit
) -> tuple[list[PredictedPoint], dict[str, str]]:
    """The points, and why their null fields are not known."""
    hints = {**get_type_hints(PredictedPoint), UNKNOWN: dict[str, str]}
    decoders = {name: _Decoder(hints[name], limit) for name, kind in columns.items() if kind == "json"}
    points: list[PredictedPoint] = []
    unknown: dict[str, str] = {}
    for batch in packed.iter_batches(batch_size=BATCH, columns=list(columns), use_threads=False):
        if len(points) + batch.num_rows > stated.points:
            raise PageError(f"has more rows than the {stated.points:,} that it states")
        limit.take(batch.num_rows * POINT_BYTES)
        values = {
            name: _texts(batch[name], limit, decoders.get(name))
            if kind in ("string", "json")
            else _numbers(name, batch[name], limit)
            for name, kind in columns.items()
        }
        reasons = values.pop(UNKNOWN)
        for index in range(batch.num_rows):
            row = {name: column[index] for name, column in values.items()}
            for field, why in (reasons[index] or {}).items():
                limit.take(4 * VALUE_BYTES)
                unknown[f"points.{len(points)}.{field}"] = why
            points.append(msgspec.convert(row, prepared(PredictedPoint)))
    if len(points) != stated.points:
        raise PageError(f"has {len(points):,} rows of the {stated.points:,} that it states")
    return points, unknown


class _Decoder:
    """Decodes the JSON in texts, of those that are equal once."""

    def __init__(self, kind: Any, limit: _Limit) -> None:
        self._decoder = msgspec.json.Decoder(prepared(kind))
        self._limit = limit
        self._known: dict[str | None, Any] = {None: None}

    def __call__(self, text: str | None) -> Any:
        if text not in self._known:
            assert text is not None
            data = text.encode()
            self._limit.take(len(data) + VALUE_BYTES * sum(map(data.count, (b",", b"[", b"{"))))
            refuse_unbounded(data)
            self._known[text] = self._decoder.decode(data)
        return self._known[text]


def _texts(column: "pyarrow.DictionaryArray", limit: _Limit, decode: _Decoder | None) -> list[Any]:
    """The values of a column of texts, of which those that are equal are one; `decode`: the JSON in them."""
    import pyarrow.compute

    lengths = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
    limit.take(pyarrow.compute.sum(lengths).as_py() or 0)  # each time that they are there, as they are written again
    values = column.dictionary.to_pylist()
    places = column.indices.to_pylist()
    if decode:
        values = {place: decode(values[place]) for place in set(places) - {None}}
    return [None if place is None else values[place] for place in places]


def _numbers(name: str, column: "pyarrow.Array", limit: _Limit) -> list[Any]:
    """The values of a column of numbers, or of lists of them."""
    import pyarrow.compute

    flat = column.flatten() if pyarrow.types.is_list(column.type) else column
    limit.take(VALUE_BYTES * len(flat))
    finite = pyarrow.compute.is_finite(flat) if pyarrow.types.is_floating(flat.type) else None
    if finite is not None and pyarrow.compute.all(finite).as_py() is False:  # null where all are null
        raise PageError(f"column {name} has a number that is not finite")
    found: list[Any] = column.to_pylist()
    return found


# What the pages of a Parquet column hold, from their headers, before any of them is unpacked.
#
#     for page in pages(content, begin, length): page.values, page.unpacked_bytes, page.encoding
#
# pyarrow allocates and decodes what a page's header says, whatever the footer says of the column: a few bytes may stand
# for billions of values. So who reads files of any origin adds up the headers first.
#
# Reference: Apache Parquet, `parquet.thrift` (PageHeader); Apache Thrift, compact protocol.

# `Encoding` of parquet.thrift. A value then takes at least a bit of its page, or is one of a run, and texts are in
# the file as they are; with the encodings by differences, a text may repeat most of the one before it.
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8

# Types of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _WHOLE, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
_MOST_DEPTH = 8  # a page header is two deep, with statistics three
_MOST_ITEMS = 2**10  # fields of a header, and items of its lists

# Fields of PageHeader, and of the header of each type of page: DataPageHeader, DictionaryPageHeader, DataPageHeaderV2.
_UNPACKED, _PACKED, _OF_PAGE = 2, 3, (5, 7, 8)
_VALUES, _ENCODING = 1, {5: 2, 7: 2, 8: 4}


class PageError(ValueError):
    """Why the headers of pages cannot be read."""


@dataclass(frozen=True)
class Page:
    """What the header of one page says."""

    values: int  # nulls, and what shows empty lists, included
    unpacked_bytes: int
    encoding: int | None  # None: of no kind of page that has values


def pages(content: bytes | bytearray, begin: int, length: int) -> Iterator[Page]:
    """The pages of a column of one row group, which are so many bytes."""
    index, end = begin, begin + length
    if not 0 <= begin <= end <= len(content):
        raise PageError(f"a column of {length} bytes at {begin}, beyond the end of the file")
    while index < end:
        header = _Header(content, index, end)
        fields = header.struct(0)
        packed, unpacked = fields.get(_PACKED), fields.get(_UNPACKED)
        if not isinstance(packed, int) or not isinstance(unpacked, int) or packed < 0 or unpacked < 0:
            raise PageError(f"a page without its size at byte {index}")
        kind = next((field for field in _OF_PAGE if isinstance(fields.get(field), dict)), None)
        of_page = fields[kind] if kind else {}
        values = of_page.get(_VALUES, 0)
        if not isinstance(values, int) or values < 0:
            raise PageError(f"a page of {values} values at byte {index}")
        yield Page(values, unpacked, of_page.get(_ENCODING[kind]) if kind else None)
        index = header.place + packed
    if index != end:
        raise PageError(f"a page that goes on beyond its column, which ends at byte {end}")


class _Header:
    """Reads Thrift's compact protocol, from a place on."""

    def __init__(self, content: bytes | bytearray, index: int, end: int) -> None:
        self._content = content
        self._end = end
        self._items = 0
        self.place = index

    def struct(self, depth: int) -> dict[int, Any]:
        """The fields of a struct, by their numbers."""
        if depth == _MOST_DEPTH:
            raise PageError(f"a header nested more than {_MOST_DEPTH} deep")
        fields: dict[int, Any] = {}
        number = 0
        while (first := self._byte()) != 0:
            self._count(1)
            number = number + (first >> 4) if first >> 4 else self._whole()
            fields[number] = self._value(first & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _WHOLE:
            return self._whole()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind in _LISTS:
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise PageError(f"a header with a field of type {kind} before byte {self.place}")

    def _list(self, depth: int) -> None:
        first = self._byte()
        count = self._unsigned() if first >> 4 == 15 else first >> 4
        if depth == _MOST_DEPTH:
            raise PageError(f"a header nested more than {_MOST_DEPTH} deep")
        self._count(count)
        for _ in range(count):
            self._skip(1) if first & 15 in (_TRUE, _FALSE) else self._value(first & 15, depth + 1)

    def _count(self, items: int) -> None:
        self._items += items
        if self._items > _MOST_ITEMS:
            raise PageError(f"a header of {self._items:,} values before byte {self.place}")

    def _skip(self, count: int) -> None:
        if count > self._end - self.place:
            raise PageError("a header that goes on beyond its column")
        self.place += count

    def _byte(self) -> int:
        self._skip(1)
        return self._content[self.place - 1]

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise PageError(f"a header with a number without end before byte {self.place}")

    def _whole(self) -> int:
        value = self._unsigned()  # zigzag: the sign is in the lowest bit
        return (value >> 1) ^ -(value & 1)
