"""What is generated: pages of `docs/` from what they describe, and from the table of settings `configs/`.

    python -m resnetx.cli.reference     # writes docs/settings.md, docs/records.md, ..., configs/ and keywords.py anew

A file is one string; `tests/test_docs.py` compares it with what is on disk.
"""

import ast
import inspect
import io
import math
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import is_dataclass
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec

from resnetx.literature import accuracy_page
from resnetx.record import BenchRecord, RunRecord, StudyRecord
from resnetx.record.comparisons import Accuracy, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Check, Steering
from resnetx.record.traces import Observation, Trace
from resnetx.settings import files
from resnetx.settings.files import CONFIGS, choices, settings
from resnetx.settings.setting_types import field_type, members, value_word, written
from resnetx.settings.setting_types import title as title_of_type
from resnetx.settings.table import GROUPS, SECTIONS, TABLE, Range, Setting
from resnetx.settings.verbs import PUBLIC, VERBS, Verb
from resnetx.table import GENERATED, code, table

# ---- records --------------------------------------------------------------------------------------------------------
# `docs/records.md`: every field of every record, with its type by the JSON Schema and the comment beside it.

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
RECORDS_HEAD = f"""# Records

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


def records_page() -> str:
    """The page as Markdown."""
    lines, described = [RECORDS_HEAD], dict[str, type]()
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
        part = waiting.pop(0)
        if isinstance(part, type) and (issubclass(part, msgspec.Struct) or is_dataclass(part)):
            if part not in found:
                found[part] = None
                waiting += [hint for hint in get_type_hints(part).values() if get_origin(hint) is not ClassVar]
        else:
            waiting += get_args(part)
    return list(found)


def _type(of: dict[str, Any]) -> str:
    """The type of a value in a schema, in words."""
    if "$ref" in of:
        heading = of["$ref"].rpartition("/")[2]
        return f"[{heading}](#{heading.lower()})"
    if "anyOf" in of:
        return " or ".join(dict.fromkeys(_type(choice) for choice in of["anyOf"]))
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


# ---- settings -------------------------------------------------------------------------------------------------------
# `docs/settings.md`: every setting with its default, type, range and meaning, and the verbs that read it.

_WORDS = {int: "integer", float: "number", str: "text", type(None): "null"}

SETTINGS_HEAD = f"""# Settings

{GENERATED}

Every setting is written `key=value` on the command line, or stands in a study's YAML file. A verb rejects settings
that it does not read; `resnetx VERB --help` lists those that it reads. How values and lists are written is in
[command-line.md](command-line.md).

- **type**: what the setting accepts. `text` includes quantities with a unit, such as `16GB` or `2h`; `list of ...` is
  written `1,2,4`, of integers also `1..8`. `resnetx sweep` and the verbs that take a study accept a list of values for
  any setting of a point.
- **range**: the smallest and the largest value that is accepted. Numbers that are not finite are always rejected.
- **read by**: the verbs; a verb's own default stands behind its name where it differs.
"""


def settings_page() -> str:
    """The page as Markdown."""
    lines = [SETTINGS_HEAD, "## The verbs", ""]
    lines += [*table(("verb", "does"), [[code(f"resnetx {name}"), verb.about] for name, verb in VERBS.items()]), ""]
    for section in SECTIONS:
        own = {row.name for row in section.settings}
        rows = [_row(alike) for alike in _alike([line for line in settings() if line.name in own])]
        lines += [f"## {section.title[0].upper()}{section.title[1:]}", ""]
        lines += [*table(("setting", "default", "type", "range", "meaning", "read by"), rows), ""]
    return "\n".join(lines)


def _alike(lines: list[Setting]) -> list[list[Setting]]:
    """Settings of one name, default and meaning together: a setting that several choices of a group have."""
    together: dict[tuple[str, str, str], list[Setting]] = {}
    for line in lines:
        together.setdefault((line.name, line.default, line.about), []).append(line)
    return list(together.values())


def _row(alike: list[Setting]) -> list[str]:
    setting = alike[0]
    having = [line.of for line in alike]
    return [
        code(setting.name),
        code(setting.default),
        " or ".join(_types(setting.name)) or "group",
        _range(TABLE[setting.name].range),
        f"{_only(setting, having)}{setting.about if setting.name not in GROUPS else ''}".strip(),
        ", ".join(_reader(name, verb, setting) for name, verb in VERBS.items() if _reads(verb, setting)),
    ]


def _only(setting: Setting, having: list[str]) -> str:
    """The choices that have a setting, where not all choices of its group do."""
    group = setting.name.partition(".")[0]
    if not setting.of or set(having) == set(choices(group)):
        return ""
    return f"({', '.join(code(f'{group}={verb}') for verb in having)}) "


def _reads(verb: Verb, setting: Setting) -> bool:
    inner = [name for name in verb.settings if name.startswith(f"{setting.name}.")]
    return verb.offers(setting.name) or bool(inner)


def _reader(name: str, verb: Verb, setting: Setting) -> str:
    own = dict(word.split("=", 1) for word in written(verb.own)).get(setting.name)
    return f"{name} (`{own}`)" if own else name


def _range(bounds: Range | None) -> str:
    if bounds is None:
        return ""
    least = f"{'more than' if bounds.above else 'at least'} {_number(bounds.least)}"
    most = (
        "" if math.isinf(bounds.most) else f", at most {_number(bounds.most)}" + f" ({bounds.why})" * bool(bounds.why)
    )
    return least + most


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


# ---- types ----------------------------------------------------------------------------------------------------------


def _types(name: str) -> list[str]:
    """What a setting accepts, as one value or, beside points, as several."""
    row = TABLE[name]
    if row.choices:
        return [code(choice) for choice in sorted(choices(name))]
    kinds = [row.type, *row.types.values()]
    words = list(dict.fromkeys(word for kind in kinds if kind is not None for word in _words(kind)))
    words += [f"list of {_joined(row.type)}"] * bool(row.several)
    return [*(word for word in words if word != "null"), *["null"] * ("null" in words)]


def _words(annotation: Any) -> Iterator[str]:
    for member in members(annotation):
        if member is bool:
            yield from ("`true`", "`false`")
        elif get_origin(member) is Literal:
            yield from (code(str(value)) for value in get_args(member))
        elif get_origin(member) is list:
            yield f"list of {_joined(get_args(member)[0])}"
        elif get_origin(member) is dict:
            yield f"map of names to {_joined(get_args(member)[1])}"
        elif member in _WORDS:
            yield _WORDS[member]


def _joined(annotation: Any) -> str:
    words = list(_words(annotation))
    return f"({' or '.join(words)})" if len(words) > 1 else "".join(words)


# What is written out of the table of settings: the files of `configs/` as Hydra has them, and the types of keywords.
#
# `tests/test_docs.py` compares each text with its file.

# ---- configs/ -------------------------------------------------------------------------------------------------------

_BY = "written by `python -m resnetx.cli.reference` from resnetx/settings/table.py"
_TOP = f"# The defaults of every setting, {_BY}.\n# Each can be changed on the command line: key=value.\n"
_HYDRA = """
hydra:
  run: {dir: .}
  output_subdir: null
  help:
    template: |-
      resnetx VERB [PATH ...] [--flag ...] [key=value ...]

      Groups (group=option):

      $APP_CONFIG_GROUPS

      Settings and their defaults (key=value):

      $CONFIG
  job_logging: {root: {handlers: []}, disable_existing_loggers: false, version: 1}
"""


def configs() -> dict[str, str]:
    """The text of each file, by its path in `configs/`."""
    files = {"config.yaml": "\n".join(_main())}
    for group in GROUPS:
        for choice in TABLE[group].choices:
            files[f"{group}/{choice}.yaml"] = "".join(f"{line}\n" for line in _choice(group, choice))
    return files


def _main() -> Iterator[str]:
    yield f"{_TOP}defaults:"
    yield from (f"  - {group}: {TABLE[group].default}" for group in GROUPS)
    yield "  - _self_"
    for section in SECTIONS[1:]:
        yield f"\n# ---- {section.title}"
        for row in section.settings:
            *above, key = row.name.split(".")
            value = "" if row.type is None else f" {value_word(row.default)}"
            setting = "  " * len(above) + f"{key}:{value}"
            yield f"{setting:<21} # {row.about}" if row.about else setting
    yield _HYDRA


def _choice(group: str, choice: str) -> Iterator[str]:
    yield f"kind: {choice}"
    own = [row for row in TABLE.values() if choice in row.of.split() and row.name.startswith(f"{group}.")]
    defaults = [value_word(row.default_of(choice)) or '""' for row in own]
    words = [f"{row.name.removeprefix(f'{group}.')}: {word}" for row, word in zip(own, defaults, strict=True)]
    for row, word in zip(own, words, strict=True):
        yield f"{word:<{max(map(len, words))}} # {row.about_of(choice)}"


# ---- resnetx.NAME ---------------------------------------------------------------------------------------------------


def public() -> str:
    """The text of `resnetx/__init__.pyi`."""
    imports = [
        f"from {module} import {name} as {name}" for name, module in sorted(PUBLIC.items(), key=itemgetter(1, 0))
    ]
    listed = [f'    "{name}",' for name in sorted(PUBLIC)]
    return "\n".join([*imports, "", "__version__: str", "__all__ = [", *listed, "]", ""])


# ---- keywords -------------------------------------------------------------------------------------------------------

_STUB = """# The types that `keywords` makes of the table, for whoever checks or completes a program; written by
# `python -m resnetx.cli.reference`: edit resnetx/settings/table.py, not this file.

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict, TypeVar

import msgspec

from resnetx.choices import Input, Model, Optimizer, Strategy, Tracker

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = V | Sequence[V]  # one value, or several
"""


def keywords() -> str:
    """The text of `resnetx/settings/keywords.pyi`."""
    classes = [_STUB]
    for group in TABLE.values():
        inner = [row for row in TABLE.values() if row.name.startswith(f"{group.name}.")]
        kind = ["kind: str"] if group.choices else []
        if inner:
            classes.append(
                _typed(f"{title_of_type(group.name)}Settings", [*kind, *(_keyword(row, "") for row in inner)])
            )
        if inner and not kind:
            classes.append(
                _struct(f"{title_of_type(group.name)}Group", [f"{_key(row)}: {_field(row)}" for row in inner], True)
            )
    classes += [
        _typed(title_of_type(row.name), [_keyword(row, "")]) for row in TABLE.values() if row.verbs and "." in row.name
    ]
    for verb in VERBS.values():
        own = [_keyword(row, verb.name) for row in TABLE.values() if row.name in verb.settings]
        classes += [_typed(f"{title_of_type(verb.name)}Keywords", own)] * bool(own)
        for question in ("", *verb.questions):
            fields = [f"{key}: {_field(TABLE[key], verb.name, question)}" for key in verb.fields(question)]
            classes += [_struct(f"{title_of_type(verb.name)}{title_of_type(question)}Fields", fields)] * bool(fields)
    return "\n".join(classes)


def _typed(name: str, fields: list[str]) -> str:
    return "\n    ".join([f"class {name}(TypedDict, total=False):", *fields]) + "\n"


def _struct(name: str, fields: list[str], strict: bool = False) -> str:
    known = ", forbid_unknown_fields=True" * strict
    return "\n    ".join([f"class {name}(msgspec.Struct, frozen=True, kw_only=True{known}):", *fields]) + "\n"


def _key(row: Setting) -> str:
    return row.name.rpartition(".")[2]


def _field(row: Setting, verb: str = "", question: str = "") -> str:
    return f"{title_of_type(row.name)}Group" if row.type is None else _text(field_type(row, verb, question), path=False)


def _keyword(row: Setting, verb: str) -> str:
    """`verb`: "": in a group, which several verbs have."""
    group, _, key = row.name.partition(".")
    if key and verb:
        return f"{group}: {title_of_type(row.name)}"
    text = _text(row.type_for(verb), row.path, several="Sequence", mapped="Mapping")
    several = row.takes_list(verb) if verb else bool(row.axis)
    if row.choices:
        text = f"Axis[{text}]" if several else text
        text = f"{text} | {title_of_type(row.name)}Settings | {title_of_type(row.name)}"
    elif row.type is None:
        text = f"{title_of_type(row.name)}Settings"
    elif several and get_origin(row.type) is dict:
        text = f"Mapping[str, Axis[{_text(get_args(row.type)[1], row.path)}]]"
    elif several:
        text = f"Axis[{text}]"
    return f"{key or group}: {text}"


def _text(kind: Any, path: bool, several: str = "list", mapped: str = "dict") -> str:
    """A type as it is written; `path`: a text may be a `Path`."""
    if len(kinds := members(kind)) > 1:
        return " | ".join(_text(each, path, several, mapped) for each in kinds)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        words = ", ".join(f'"{value}"' for value in arguments)
        return f"Literal[{words}]"
    if origin is None:
        return "None" if kind in (None, NoneType) else "Text" if kind is str and path else str(kind.__name__)
    values = members(arguments[-1]) if mapped == "Mapping" else ()
    if any(get_origin(each) is dict for each in values):  # by number, by name, or by number under names
        value = " | ".join(_text(each, path) for each in values if get_origin(each) is not dict)
        return f"Mapping[int, {value}] | Mapping[str, {value} | Mapping[int, {value}]]"
    inner = ", ".join(_text(argument, path and origin is list, several, mapped) for argument in arguments)
    return f"{several if origin is list else mapped}[{inner}]"


# ---- the program ----------------------------------------------------------------------------------------------------
# Writes what is generated: pages of `docs/`, the files of settings in `configs/`, and types of keywords.

DOCS = CONFIGS.parent / "docs"
PAGES = {"settings.md": settings_page, "records.md": records_page, "accuracy.md": accuracy_page.page}


def write(folder: Path) -> None:
    """Writes every generated page into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page())


def sources() -> dict[Path, str]:
    """The files that are written out from the table of settings, each with its text."""
    found = {CONFIGS / name: text for name, text in configs().items()}
    package = Path(files.__file__).parents[1]
    return found | {
        package / "settings" / "keywords.pyi": keywords(),
        package / "__init__.pyi": public(),
    }


if __name__ == "__main__":
    for path, text in sources().items():
        path.write_text(text)
    write(DOCS)
