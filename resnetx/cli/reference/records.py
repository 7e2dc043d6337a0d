"""`docs/records.md`: every field of every record, with its type by the JSON Schema and the comment beside it."""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

from resnetx.record import BenchRecord, RunRecord, StudyRecord
from resnetx.record.check import Check
from resnetx.record.comparison import Accuracy, Comparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.observation import Observation
from resnetx.record.prediction import Prediction
from resnetx.record.steering import Steering
from resnetx.record.system_comparison import SystemComparison
from resnetx.record.trace import Trace
from resnetx.table import GENERATED, code, table

RECORDS: dict[type, str] = {  # with what writes it, and where
    RunRecord: "Run: `record.json` in the folder of each run (`train`, `sweep`, `verify`, `trace`)",
    StudyRecord: "Study: `study.json` in the folder of a study (`sweep`)",
    BenchRecord: "Bench: `record.json` in the folder of a bench (`bench`)",
    Trace: "Trace: `trace.json` of an imported trace, and what `predict` makes of the runs of a trace (`trace`)",
    Prediction: "Prediction: `prediction.json` (`predict out=`)",
    Steering: "Steering: `steering.json` (`steer out=`)",
    Check: "Check of nodes: `check.json` in the folder of a check (`check`)",
    Observation: "Observation: `rank<n>/record.json` of each rank of a training loop (`resnetx.observe`)",
    Comparison: "Comparison of studies: `comparison.json` (`compare STUDY_A STUDY_B out=`)",
    Accuracy: "Prediction and measurement: `accuracy.json` (`compare PREDICTION STUDY out=`)",
    SystemComparison: "Comparison of systems: `systems.json` (`compare systems=... out=`)",
    Score: "Score: `score.json` (`compare score=... out=`)",
    CheckedPapers: "Statements of papers: `papers.json` (`compare papers=... out=`)",
}
HEAD = f"""# Records

{GENERATED}

A record is one JSON file that is complete on its own: what was asked, on which machine and software, how it ended, and
the raw times. Medians and speed-ups are derived when a record is read. Units are in the names of fields: `_s` seconds,
`_bytes` bytes, `_Bps` bytes per second, `_Hz` hertz, `_W` watts, `_J` joules, `_C` degrees Celsius.

A field that cannot be known is null, and `unknown` has the reason under the field's path (`devices.0.uuid`). A field
with a default was added later: older records lack it and are read with the default.

The JSON Schemas of run, bench, trace, prediction, steering and check are in `resnetx/schemas/`;
`python -m resnetx.record run` prints one. `rank` counts from 0; `[rank][window]` is a list for each rank with an entry
for each window.
"""


def page() -> str:
    """The page as Markdown."""
    lines, described = [HEAD], dict[str, type]()
    for kind, title in RECORDS.items():
        lines += [f"## {title.partition(':')[0]}", "", f"{title.partition(': ')[2]}.", ""]
        lines += _record(kind, described)
    return "\n".join(lines)


def _record(kind: type, described: dict[str, type]) -> Iterator[str]:
    """The record's own fields, then those of each part that no record before it has."""
    schema = msgspec.json.schema(kind)["$defs"]
    parts = {struct.__name__: struct for struct in _structs(kind)}
    for name, part in parts.items():
        assert described.get(name, part) is part, f"two parts of records are called {name}: give one another name"
        if name in described:
            continue
        described[name] = part
        if part is not kind:
            yield from (f"### {name}", "")
        yield from (" ".join(schema[name].get("description", "").split()), "")
        comments = _comments(part)
        rows = [
            [code(field), _type(of), _default(of), comments.get(field, "")]
            for field, of in schema[name]["properties"].items()
        ]
        yield from (*table(("field", "type", "default", "meaning"), rows), "")


def _comments(part: type) -> dict[str, str]:
    """The comment of each field, by its name in JSON."""
    comments = field_comments(part)
    if not issubclass(part, msgspec.Struct):
        return comments
    return {field.encode_name: comments.get(field.name, "") for field in msgspec.structs.fields(part)}


def _structs(annotation: Any) -> list[type]:
    """The classes of records in an annotation, and in the fields of these: each once, from the outside in."""
    found: dict[type, None] = {}
    waiting = [annotation]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, type) and (issubclass(each, msgspec.Struct) or is_dataclass(each)):
            if each not in found:
                found[each] = None
                waiting += [hint for hint in get_type_hints(each).values() if get_origin(hint) is not ClassVar]
        else:
            waiting += get_args(each)
    return list(found)


def _type(of: dict[str, Any]) -> str:
    """The type of a value in a schema, in words."""
    if "$ref" in of:
        heading = of["$ref"].rpartition("/")[2]
        return f"[{heading}](#{heading.lower()})"
    if "anyOf" in of:
        return " or ".join(dict.fromkeys(_type(each) for each in of["anyOf"]))
    if "enum" in of:
        return " or ".join(code(f'"{value}"') for value in of["enum"] if value is not None) + " or null" * (
            None in of["enum"]
        )
    if of.get("type") == "array":
        return f"list of {_inner(of.get('items', {}))}"
    if of.get("type") == "object":
        return f"map to {_inner(of.get('additionalProperties', {}))}"
    kind: str = of.get("type", "any")
    return "text" if kind == "string" else kind


def _inner(of: dict[str, Any]) -> str:
    """The type of the entries of a list or map."""
    text = _type(of)
    return f"({text})" if " or " in text else text


def _default(of: dict[str, Any]) -> str:
    return code(msgspec.json.encode(of["default"]).decode()) if "default" in of else ""


# What the comments beside the fields of a struct say: on the field's own line, and on the lines directly above it.


def field_comments(kind: type) -> dict[str, str]:
    """The comment of each field that has one, in one line; fields of base classes included."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "resnetx":
            comments |= _own(base)
    return comments


def _own(kind: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(kind))
    beside, alone = _by_line(source)
    (class_,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    comments = {}
    for node in class_.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = [*_above(alone, node.lineno), beside.get(node.end_lineno or node.lineno, "")]
            if text := " ".join(filter(None, words)):
                comments[node.target.id] = text
    return comments


def _by_line(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Comments by line: those behind code, and those on lines of their own."""
    beside: dict[int, str] = {}
    alone: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            where = beside if token.line[: token.start[1]].strip() else alone
            where[token.start[0]] = token.string.lstrip("#").strip()
    return beside, alone


def _above(alone: dict[int, str], line: int) -> list[str]:
    """The comment lines directly above a line."""
    first = line
    while first - 1 in alone:
        first -= 1
    return [alone[number] for number in range(first, line)]
