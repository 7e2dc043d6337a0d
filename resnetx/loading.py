"""Reading files of any origin: within bounds, or rejected in one sentence that names the file.

Everything that resnetx reads comes in here. A file is a regular one within its limit of bytes (`File`); JSON becomes
a typed struct (`read_json`), YAML plain values with their lines (`YamlFile`). Nothing in a file is executed,
interpolated or followed elsewhere, nesting is limited, and every problem is an `errors.FileError`, which names the
file and, if known, the line.

    record = read_json(File(path, "a record of resnetx", 2**26), RunRecord)
    tree = YamlFile(path, "a study").tree

Also here: which words from files may name a file or a folder (`name_fault`).
"""

import gzip
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from resnetx.errors import FileError, prepared, sentence, shortened
from resnetx.units import size_text

T = TypeVar("T")

PIECE_BYTES = 2**20  # uncompressed at a time, whatever size a file claims
# Compressed files unpack to at most so many times their size, and small ones to 16 MiB. Profiles of PyTorch's
# host unpack to 11 to 20 times their size (of 7 and 15 MB); gzip reaches 1,000 times with content made for that.
MOST_UNPACKED = 100
SMALL_UNPACKED_BYTES = 2**24
GZIP = b"\x1f\x8b"
_OF_UTF16 = 4  # of so many bytes more than one is 0, where text is UTF-16: no text of ours has any
FLIGHT_RECORDER = "PyTorch's flight recorder: which collective each rank was in; `torchfrtrace FOLDER` compares ranks"
MEMORY = "PyTorch's snapshot of CUDA memory, without times; `python -m torch.cuda._memory_viz trace_plot FILE` draws it"
_PICKLE = rb"\x80[\2-\5]"
_NO_TEXT = (  # how content begins, and what it is; keys of PyTorch's dumps stand near their beginning
    (_PICKLE + rb"(?s:.{0,65536}?)(?:profiling_name|pg_config|nccl_comm_state)", f"is of {FLIGHT_RECORDER}"),
    (_PICKLE + rb"(?s:.{0,65536}?)(?:device_traces|segment_type)", f"is of {MEMORY}"),
    (_PICKLE, "a pickle of Python, which may run code and is not read"),
    (rb"SQLite format 3\0", "an SQLite database, as Nsight Systems exports"),
    (rb"PK\x03\x04", "a ZIP archive, as torch.save writes weights"),
    (rb"(?s:.{9,64}?)brain\.Event:", "an event file of TensorBoard"),
    (GZIP, "compressed by gzip; unpack it first (gunzip)"),
    (rb"\n[\x80-\xff](?s:.{0,4096}?)/(?:host|device):", "a profile of TensorFlow or JAX (XPlane)"),
)
_REPORTS = {
    ".nsys-rep": "a report of Nsight Systems (nsys stats prints it)",
    ".qdrep": "a report of Nsight Systems (nsys stats prints it)",
    ".ncu-rep": "a report of Nsight Compute (ncu --import prints it)",
}

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


MOST_BLANKS = 1000  # spaces, tabs and line ends in a row
_BLANKS_ALIKE = bytes.maketrans(b"\t\n\v\f\r", b" " * 5)


def _without_blocking(path: str, flags: int) -> int:
    """Opens a path without blocking, as it may have become a pipe; Windows has none."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@dataclass(frozen=True)
class File:
    """A file to be read, and what it is expected to be."""

    path: Path
    what: str  # "a study"
    limit_bytes: int  # uncompressed
    where: str = ""  # the beginning of messages about it, as "study=mine.yaml"; "": its path

    def error(self, sentence: str, line: int | None = None) -> FileError:
        """The error about this file, or a line of it."""
        place = f"{shortened(self.where or self.path, 1000)}{'' if line is None else f', line {line}'}"
        return FileError(f"{place}: {shortened(sentence, 1000)}")

    def content(self) -> bytearray:
        """All that is in it."""
        with self._opened() as stream:
            return self._all_of(stream, os.fstat(stream.fileno()).st_size + 1)

    def unpacked(self) -> bytearray:
        """The content, uncompressed if it is gzip, which has a limit by its own size, too (`MOST_UNPACKED`)."""
        with self._opened() as stream:
            packed = stream.read(len(GZIP)) == GZIP
            stream.seek(0)
            if not packed:
                return self._all_of(stream, PIECE_BYTES)
            try:
                with gzip.open(stream) as unpacking:
                    return self._all_unpacked(cast(BinaryIO, unpacking), os.fstat(stream.fileno()).st_size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self.error(f"truncated or not gzip ({error})") from None

    def text(self) -> str:
        """The same as text; a byte-order mark is left out."""
        return self.decoded(self.content())

    def decoded(self, data: bytes | bytearray) -> str:
        """Bytes of this file as text."""
        self.refuse_binary(data)
        self.refuse_blanks(data)
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data.count(0) > max(1, len(data) // _OF_UTF16):
            raise self.error("is UTF-16, as the > of PowerShell writes it, or no text; save it as UTF-8")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.error(f"byte 0x{data[error.start]:02x} is not UTF-8; expected {self.what}", line) from None

    def refuse_binary(self, data: bytes | bytearray) -> None:
        """Refuses what is no text, as far as its beginning or its name says what it is."""
        report = _REPORTS.get(self.path.suffix, "")
        if other := report or next((what for begin, what in _NO_TEXT if re.match(begin, data)), ""):
            raise self.error(f"{other}; expected {self.what}")

    def refuse_blanks(self, data: bytes | bytearray) -> None:
        """Refuses blanks without end, over which the patterns of other programs' texts would take hours."""
        index = data.translate(_BLANKS_ALIKE).find(b" " * (MOST_BLANKS + 1))
        if index >= 0:
            raise self.error(f"more than {MOST_BLANKS:,} blanks in a row; expected {self.what}", _line(data, index))

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The open file; an error of the system becomes a sentence."""
        try:
            self._check_kind(self.path.stat().st_mode)  # before it is opened, as opening moves some devices
            with open(self.path, "rb", opener=_without_blocking) as stream:
                self._check_kind(os.fstat(stream.fileno()).st_mode)
                yield stream
        except FileNotFoundError:
            raise self.error(f"no such file; expected {self.what}") from None
        except OSError as error:
            raise self.error(error.strerror or str(error)) from None
        except ValueError as error:
            if "null byte" not in str(error):
                raise
            raise self.error("not a file name: it contains a NUL character") from None

    def _check_kind(self, mode: int) -> None:
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
            raise self.error(f"{kind}; expected {self.what}, which is a regular file")

    def _all_of(self, stream: BinaryIO, piece_bytes: int) -> bytearray:
        data = _up_to(stream, self.limit_bytes, piece_bytes)
        if len(data) > self.limit_bytes:
            raise self.error(f"larger than {size_text(self.limit_bytes)}; expected {self.what}")
        return data

    def _all_unpacked(self, stream: BinaryIO, packed_bytes: int) -> bytearray:
        limit_bytes = max(SMALL_UNPACKED_BYTES, MOST_UNPACKED * packed_bytes)
        if limit_bytes >= self.limit_bytes:
            return self._all_of(stream, PIECE_BYTES)
        data = _up_to(stream, limit_bytes, PIECE_BYTES)
        if len(data) > limit_bytes:
            raise self.error(
                f"{packed_bytes:,} compressed bytes that unpack to more than {size_text(limit_bytes)}; at most "
                f"{MOST_UNPACKED} times as many are unpacked, or {size_text(SMALL_UNPACKED_BYTES)}: unpack the file "
                f"yourself if it is {self.what}"
            )
        return data


def _up_to(stream: BinaryIO, limit_bytes: int, piece_bytes: int) -> bytearray:
    """What a stream has, or of more than the limit the beginning, which is longer than the limit."""
    data = bytearray()
    while len(data) <= limit_bytes and (piece := stream.read(min(piece_bytes, limit_bytes + 1))):
        data += piece
    return data


def is_file(path: Path) -> bool:
    """Whether it is a regular file; False for impossible names, for which pathlib raises an error."""
    return _mode_is(path, stat.S_ISREG)


def is_folder(path: Path) -> bool:
    """The same for a folder."""
    return _mode_is(path, stat.S_ISDIR)


def _mode_is(path: Path, test: Callable[[int], bool]) -> bool:
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):
        return False


# JSON into typed structs, within bounds of values, digits and depth; msgspec itself limits neither the number of values
# nor the length of a whole number, which are checked before anything is built.

Data = bytes | bytearray

# A value follows a comma or an opening bracket. Records are written with one value on a line
# of at least 4 bytes, so this is as much as the largest record (2**26 bytes) can hold. In memory, a value takes up to
# some hundred bytes.
MAX_VALUES = 2**24

# As many digits as 2**63 has. Python would compute with any number of them, but numpy and floats would not.
_LONG_NUMBER = rb"-?[0-9]{19,}"
_MAYBE_LONG = re.compile(rb"[0-9]{19,}")
_DIGITS_ALIKE, _MANY_DIGITS = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 19
_TEXT_OR_LONG = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?<![0-9.eE+-])' + _LONG_NUMBER + rb"(?![0-9.eE])", re.DOTALL)


class UnboundedError(ValueError):
    """Which limit JSON exceeds, in words."""


def read_json(file: File, kind: type[T]) -> T:
    """The struct (or other type) in a JSON file."""
    return decode(file, file.content(), kind)


def decode(file: File, data: Data, kind: type[T], bounded: bool = False) -> T:
    """The same from the content of a file. `bounded`: it is known to be, as it was decoded before."""
    try:
        if not bounded:
            refuse_unbounded(data)
        return msgspec.json.decode(data, type=prepared(kind))
    except UnboundedError as error:
        raise file.error(f"{error}; expected {file.what}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise file.error(fault(error, data, file.what)) from None


def refuse_unbounded(data: Data, max_values: int = MAX_VALUES) -> None:
    """Raises `UnboundedError` where JSON holds more values than a program should build, or numbers that are too long.

    Commas and brackets within texts are counted as values, too.
    """
    if (values := data.count(b",") + data.count(b"[") + data.count(b"{")) > max_values:
        raise UnboundedError(f"about {values:,} values, of at most {max_values:,}")
    # Within a text or behind a point so many digits are rare: else no text needs to be told apart.
    if _may_have_long(data) and any(_is_long(match[0]) for match in _MAYBE_LONG.finditer(data)):
        for match in _TEXT_OR_LONG.finditer(data):
            if not match[0].startswith(b'"') and _is_long(match[0]):
                digits = len(match[0].lstrip(b"-"))
                raise UnboundedError(f"line {_line(data, match.start())}: a whole number of {digits} digits")


def _is_long(digits: bytes) -> bool:
    return not -(2**63) <= int(digits[:30]) < 2**63


def _may_have_long(data: Data) -> bool:
    """Whether so many digits follow each other, but for decimals: nearly no file has them, and this is fast."""
    alike = data.translate(_DIGITS_ALIKE)
    index = alike.find(_MANY_DIGITS)
    while index > 0 and alike[index - 1 : index] == b".":
        index = alike.find(_MANY_DIGITS, index + len(_MANY_DIGITS))
    return index >= 0


def fault(error: Exception, data: Data, what: str) -> str:
    """Why msgspec rejects JSON, in words."""
    if isinstance(error, msgspec.ValidationError):
        return f"not {what} ({shortened(str(error))})"
    if isinstance(error, RecursionError):
        return "truncated or not JSON (nested too deeply)"
    if isinstance(error, UnicodeDecodeError):
        return f"truncated or not JSON ({_not_utf8(data)})"
    said = str(error)
    if at := re.search(r" \(byte (\d+)\)\Z", said):
        said = f"line {_line(data, int(at[1]))}: {said[: at.start()]}"
    return f"truncated or not JSON ({shortened(said)})"


def _not_utf8(data: Data) -> str:
    """The line and byte that are not UTF-8; msgspec only reports the position within a text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"line {_line(data, error.start)}: byte 0x{data[error.start]:02x} is not UTF-8"
    return "not UTF-8"


def _line(data: Data, index: int) -> int:
    """The line of a byte, from 1."""
    return data.count(b"\n", 0, index) + 1


# Which words from files may name a file or a folder.

MAX_NAME_BYTES = 100  # file systems allow 255, and resnetx appends to names


def name_fault(name: str) -> str:
    """Why a word may not name a file, a folder or a part of a system, as the end of a sentence; "" if it may.

    A name from a file must not lead to another folder, and must be displayed as it is.
    """
    if not name or name != name.strip():
        return "expected a name without spaces around it"
    if not name.isprintable():  # nor are surrogates, direction controls and line breaks
        return "expected a name of printable characters"
    if "/" in name or "\\" in name:
        return "expected a name, not a path"
    if name.startswith((".", "-", "~")):
        return "expected a name that does not begin with . - or ~"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"expected a name of at most {MAX_NAME_BYTES} bytes"
    return ""


# ---- yaml file ------------------------------------------------------------------------------------------------------
# YAML as plain values with their lines: the types of JSON, with the syntax of the command line. Other YAML types of a
# bare word (dates, yes and no, octal and sexagesimal numbers) are strings, and tags are rejected. The parser's events
# do not recurse, so that a small file can neither overflow the stack nor, by aliases, fill the memory.

YAML_BYTES = 2**20  # limit for files written by hand: studies, systems, settings
MAX_DEPTH = 32  # of nested lists and groups; our own files have 5
MAX_YAML_VALUES = 100_000  # with aliases expanded: a few lines of them can exceed any memory
MAX_DIGITS = 40  # of a number; a float has 17 significant ones

MERGE = "<<"  # the key whose value is merged

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*)")
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")


def is_bare_text(word: str) -> bool:
    """Whether a word of letters, digits, `-`, `.` and `_` is that text in YAML, without quotes around it."""
    plain = word.isascii() and all(letter.isalnum() or letter in "-._" for letter in word)
    other = word in _WORDS or any(kind.fullmatch(word) for kind in (_WHOLE, _NUMBER, _NOT_FINITE))
    return plain and not other and word[0] not in "-."


Path_ = Sequence[str | int]  # to a value: the keys, and the places in lists


class YamlFile(File):
    """A file with the tree of its values, and the line of each.

    `whole_keys`: keys may be whole numbers. `mistake`: says what msgspec refuses in words of its own, given the file,
    the error, where it is, what is said of it otherwise, and the type.
    """

    def __init__(
        self, path: Path, what: str, where: str = "", whole_keys: bool = False, mistake: "Mistake | None" = None
    ) -> None:
        import yaml

        super().__init__(path, what, YAML_BYTES, where)
        text, self._mistake = self.text(), mistake
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, if available
        keys = (str, int) if whole_keys else (str,)
        try:
            self.tree, self._lines = _built(self, keys, yaml.parse(text, Loader=loader))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = f"not YAML: {shortened(error.problem or error.context or 'broken')}"
            raise self.error(message, mark.line + 1 if mark else None) from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: from escapes
            raise self.error(f"not YAML: {shortened(' '.join(str(error).split()))}") from None

    def fault(self, where: Path_, what: str) -> FileError:
        """The error `what` about the value at `where`, with its line."""
        return self.error(what, self.line(where))

    def line(self, where: Path_) -> int:
        """The line of a value, or of its nearest parent if it is missing."""
        value, line = self.tree, 1
        for step in where:
            try:
                line, value = self._lines[id(value)][step], value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def convert(self, kind: Any, where: Path_ = (), given: Any = None) -> Any:
        """The value at `where` as `kind`, or an error with its line. `given`: use this value instead."""
        value = self._at(where) if given is None else given
        try:
            return msgspec.convert(value, prepared(kind))
        except msgspec.ValidationError as error:
            said, path = sentence(str(error), value, kind, ".".join(map(str, where))), [*where, *_steps(error)]
            raise (self._mistake(self, error, path, said, kind) if self._mistake else self.fault(path, said)) from None

    def _at(self, where: Path_) -> Any:
        value = self.tree
        for step in where:
            value = value[step]
        return value


Mistake = Callable[[YamlFile, msgspec.ValidationError, Path_, str, Any], FileError]


def own_yaml(path: Path, kind: type[T]) -> T:
    """A YAML file that comes with resnetx as `kind`; keys of it may be whole numbers."""
    read: T = YamlFile(path, "a file of resnetx", whole_keys=True).convert(kind)
    return read


def _steps(error: msgspec.ValidationError) -> list[str | int]:
    """The path at the end of msgspec's message: "... - at `$.points[3].size`"."""
    found = re.findall(r"[^.\[\]$`]+", str(error).rpartition(" - at `$")[2])
    return [int(step) if step.isdigit() else step for step in found]


# ---- building -------------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """A list or group that is not complete yet."""

    value: Any
    lines: Any  # of the same shape: the line of each item, or of each key
    anchor: str | None
    before: int  # number of values in the file when it began
    key: Any = None  # the key whose value comes next
    key_line: int = 0


def _built(file: File, keys: tuple[type, ...], events: Iterator[Any]) -> tuple[Any, dict[int, Any]]:
    """The tree of a file, and by the id of each list and group in it the lines of its items."""
    import yaml

    root: Any = None
    opened: list[_Open] = []
    values, documents = 0, 0
    anchors: dict[str, tuple[Any, int]] = {}  # the value of an alias, and the number of values in it
    lines: dict[int, Any] = {}
    for event in events:
        form, line = type(event), event.start_mark.line + 1 if event.start_mark else 1
        if form is yaml.DocumentStartEvent:
            documents += 1
            if documents > 1:
                raise file.error("a second document begins here; expected a single one", line)
            continue
        if form is yaml.SequenceEndEvent or form is yaml.MappingEndEvent:
            ended = opened.pop()
            if form is yaml.MappingEndEvent and MERGE in ended.value:
                _merge(file, ended.value, ended.lines, line)
            if ended.anchor is not None:
                anchors[ended.anchor] = (ended.value, values - ended.before)
            continue
        if form is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise file.error(f"*{shortened(event.anchor)}: no earlier value has this anchor", line)
            value, count = anchors[event.anchor]
        elif form in (yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent):
            if event.tag is not None:
                raise file.error(f"{shortened(event.tag)}: YAML tags are not supported; expected plain values", line)
            count = 1
            if form is not yaml.ScalarEvent:
                value = [] if form is yaml.SequenceStartEvent else {}
            elif event.implicit[0] and (event.value in _WORDS or event.value[0] in "+-.0123456789"):
                try:
                    value = _resolved(event.value)
                except ValueError as error:
                    raise file.error(f"{shortened(event.value)}: {error}", line) from None
            else:
                value = event.value
            if form is yaml.ScalarEvent and event.anchor is not None:
                anchors[event.anchor] = (value, 1)
        else:
            continue  # the ends of the stream and of the document
        before, values = values, values + count
        if values > MAX_YAML_VALUES:
            raise file.error(f"more than {MAX_YAML_VALUES} values; expected {file.what}", line)
        if not opened:
            root = value
        elif isinstance((inside := opened[-1]).value, list):
            inside.value.append(value)
            inside.lines.append(line)
        elif inside.key is None:
            if type(value) not in keys:
                raise file.error("expected a word as the key, in quotes if need be", line)
            if value in inside.value:
                raise file.error(f"{shortened(value)} appears twice", line)
            inside.key, inside.key_line = value, line
        else:
            inside.value[inside.key] = value
            inside.lines[inside.key] = inside.key_line
            inside.key = None
        if form in (yaml.SequenceStartEvent, yaml.MappingStartEvent):
            if len(opened) == MAX_DEPTH:
                raise file.error(f"nested more than {MAX_DEPTH} deep; expected {file.what}", line)
            lines[id(value)] = type(value)()
            opened.append(_Open(value, lines[id(value)], event.anchor, before))
    return root, lines


@lru_cache(maxsize=4096)  # the same figures stand again and again in a file
def _resolved(text: str) -> Any:
    """The value of a bare word; a `ValueError` says what is wrong with a number."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        if len(text) > MAX_DIGITS or not -(2**63) <= int(text) < 2**63:
            raise ValueError("a whole number of more than 64 bits")
        return int(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("expected a finite number")
    if _NUMBER.fullmatch(text):
        if len(text) > MAX_DIGITS or not math.isfinite(float(text)):
            raise ValueError(f"expected a finite number of at most {MAX_DIGITS} digits")
        return float(text)
    return text


def _merge(file: File, value: dict[Any, Any], lines: dict[Any, int], line: int) -> None:
    """Merges the value of `<<` into its group, whose own keys win."""
    merged, line = value.pop(MERGE), lines.pop(MERGE, line)
    if not isinstance(merged, dict):
        raise file.error(f"{MERGE}: expected one group of settings, to be merged into the one around it", line)
    own, own_lines = dict(value), dict(lines)
    value.clear()
    value.update({**merged, **own})
    lines.update({**dict.fromkeys(merged, line), **own_lines})
