"""The settings of each verb as types, made from the table when one is asked for; `keywords.pyi` shows them to checkers.

`BenchKeywords` is what the function of a verb takes: a keyword is a setting of the command line, and a group of
settings a dictionary: `model={"kind": "resnetx", "x": 4}` is `model=resnetx model.x=4`. What is not given has its
default. `BenchFields` is what is read as one struct: all but the axes of points, and a list for a setting that several
values are taken of. `TopologyNewFields` has those of another question, and `OverlapGroup` those of a group.
"""

from os import PathLike
from typing import Any, TypedDict

import msgspec

from resnetx.settings.setting_types import field_type, title
from resnetx.settings.table import TABLE
from resnetx.settings.verbs import VERBS

Text = str | PathLike[str]  # a name, or a path


def __getattr__(name: str) -> Any:
    kind = _made(name)
    if kind is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = kind
    return kind


def _made(name: str) -> Any:
    for verb in VERBS.values():
        if name == f"{title(verb.name)}Keywords":
            return TypedDict(name, {key.partition(".")[0]: Any for key in verb.settings}, total=False)
        for question in ("", *verb.questions):
            if name == f"{title(verb.name)}{title(question)}Fields" and (own := verb.fields(question)):
                fields = [(key, _field(key, verb.name, question)) for key in own]
                return msgspec.defstruct(name, fields, frozen=True, kw_only=True)
    for group in TABLE.values():
        if name == f"{title(group.name)}Group":
            inner = [row for row in TABLE.values() if row.name.startswith(f"{group.name}.")]
            fields = [(row.name.partition(".")[2], field_type(row)) for row in inner]
            return msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)
    return None


def _field(key: str, verb: str, question: str) -> Any:
    row = TABLE[key]
    return __getattr__(f"{title(key)}Group") if row.type is None else field_type(row, verb, question)
