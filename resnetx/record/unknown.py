"""Values that cannot be known: null in a record, with the reason beside it.

What measures or predicts returns `T | Unknown`. A record is made by its constructor, its fields of such values wrapped
in `known`, and then sealed:

    seal(BenchPoint(time_s=known(timed()), ..., unknown={}))
"""

from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec

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
    tree = _fields(record)
    unknown: dict[str, str] = dict(tree["unknown"])
    plain = {**_plain(tree, "", unknown), "unknown": unknown}
    sealed = msgspec.convert(plain, type(record))
    missing = [path for path in nulls(msgspec.to_builtins(sealed)) if path not in unknown]
    assert not missing, f"no reason is given for the null fields {missing}"
    return sealed


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


def _fields(part: msgspec.Struct) -> dict[str, Any]:
    """The fields of a part of a record, whose values may be `Unknown`; with the tag that says of which kind it is."""
    config = part.__struct_config__
    tag = {str(config.tag_field): config.tag} if config.tag_field else {}
    return {**tag, **msgspec.structs.asdict(part)}


def _plain(value: Any, path: str, unknown: dict[str, str]) -> Any:
    """A value in builtins, each `Unknown` made None and its reason put into `unknown` under its path."""
    if isinstance(value, Unknown):
        unknown[path] = str(value)
        return None
    if isinstance(value, msgspec.Struct):
        value = _fields(value)
    if isinstance(value, dict):
        return {key: _plain(item, f"{path}.{key}".lstrip("."), unknown) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}.{index}", unknown) for index, item in enumerate(value)]
    return value
