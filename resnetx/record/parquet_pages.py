"""What the pages of a Parquet column hold, from their headers, before any of them is unpacked.

    for page in pages(content, begin, length): page.values, page.unpacked_bytes, page.encoding

pyarrow allocates and decodes what a page's header says, whatever the footer says of the column: a few bytes may stand
for billions of values. So who reads files of any origin adds up the headers first.

Reference: Apache Parquet, `parquet.thrift` (PageHeader); Apache Thrift, compact protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# `Encoding` of parquet.thrift. A value then takes at least a bit of its page, or is one of a run, and texts are in
# the file as they are; with the encodings by differences, a text may repeat most of the one before it.
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8

# Types of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _WHOLE, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
_MOST_DEPTH = 8  # a page header is two deep, with statistics three
_MOST_ITEMS = 2**10  # of a list in a header, which has none

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
    place, end = begin, begin + length
    if not 0 <= begin <= end <= len(content):
        raise PageError(f"a column of {length} bytes at {begin}, beyond the end of the file")
    while place < end:
        header = _Header(content, place, end)
        fields = header.struct(0)
        packed, unpacked = fields.get(_PACKED), fields.get(_UNPACKED)
        if not isinstance(packed, int) or not isinstance(unpacked, int) or packed < 0 or unpacked < 0:
            raise PageError(f"a page without its size at byte {place}")
        kind = next((field for field in _OF_PAGE if isinstance(fields.get(field), dict)), None)
        of_page = fields[kind] if kind else {}
        values = of_page.get(_VALUES, 0)
        if not isinstance(values, int) or values < 0:
            raise PageError(f"a page of {values} values at byte {place}")
        yield Page(values, unpacked, of_page.get(_ENCODING[kind]) if kind else None)
        place = header.place + packed
    if place != end:
        raise PageError(f"a page that goes on beyond its column, which ends at byte {end}")


class _Header:
    """Reads Thrift's compact protocol, from a place on."""

    def __init__(self, content: bytes | bytearray, place: int, end: int) -> None:
        self._content = content
        self._end = end
        self.place = place

    def struct(self, depth: int) -> dict[int, Any]:
        """The fields of a struct, by their numbers."""
        if depth == _MOST_DEPTH:
            raise PageError(f"a header nested more than {_MOST_DEPTH} deep")
        fields: dict[int, Any] = {}
        number = 0
        while (first := self._byte()) != 0:
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
        if count > _MOST_ITEMS or depth == _MOST_DEPTH:
            raise PageError(f"a header with a list of {count} items before byte {self.place}")
        for _ in range(count):
            self._skip(1) if first & 15 in (_TRUE, _FALSE) else self._value(first & 15, depth + 1)

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
