"""JSON into typed structs, within bounds of values, digits and depth.

msgspec rejects numbers that are not finite, invalid surrogates and text that is not UTF-8, and skips values that have
no field in a struct. It does not limit the number of values or the length of a whole number: both are checked before
anything is built.
"""

import re
from typing import Any

import msgspec

from resnetx.errors import prepared, shortened
from resnetx.loading.content import File

Data = bytes | bytearray

# A value follows a comma or an opening bracket. Records are written with one value on a line
# of at least 4 bytes, so this is as much as the largest record (2**26 bytes) can hold. In memory, a value takes up to
# some hundred bytes.
MAX_VALUES = 2**24

# As many digits as 2**63 has. Python would compute with any number of them, but numpy and floats would not.
_LONG_NUMBER = rb"-?[0-9]{19,}"
_MAYBE_LONG = re.compile(rb"(?:^|[:,\[\s])" + _LONG_NUMBER)  # also within a text, where that is rare
_TEXT_OR_LONG = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?<![0-9.eE+-])' + _LONG_NUMBER + rb"(?![0-9.eE])", re.DOTALL)


class UnboundedError(ValueError):
    """Which limit JSON exceeds, in words."""


def read_json(file: File, kind: Any) -> Any:
    """The struct (or other type) in a JSON file."""
    return decode(file, file.content(), kind)


def decode(file: File, data: Data, kind: Any) -> Any:
    """The same from the content of a file."""
    try:
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
    if _MAYBE_LONG.search(data):
        for match in _TEXT_OR_LONG.finditer(data):
            if not match[0].startswith(b'"') and not -(2**63) <= int(match[0][:30]) < 2**63:
                digits = len(match[0].lstrip(b"-"))
                raise UnboundedError(f"line {_line(data, match.start())}: a whole number of {digits} digits")


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


def _line(data: Data, place: int) -> int:
    """The line of a byte, from 1."""
    return data.count(b"\n", 0, place) + 1
