"""Values that cannot be known: null in a record, with the reason beside it.

What measures or predicts returns `T | Unknown`. A record is made by its constructor, its fields of such values wrapped
in `known`, and then sealed:

    seal(BenchPoint(time_s=known(timed()), ..., unknown={}))
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar, cast

import msgspec

from resnetx.errors import prepared
from resnetx.record.files import RecordPart

T = TypeVar("T")
Record = TypeVar("Record", bound=msgspec.Struct)


class Unknown(str):
    """Stands for a value that cannot be known while a record is put together; the string is the reason."""


def known(value: T | Unknown) -> T | None:
    """The value of a field that is null where it cannot be known. `seal` makes the null, and keeps the reason."""
    return cast("T | None", value)


def if_known(field: T | None) -> T | None:
    """A field of a record that may not be sealed yet; None where it cannot be known."""
    return None if isinstance(field, Unknown) else field


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
