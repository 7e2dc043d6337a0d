"""`docs/settings.md`: every setting with its default, type, range and meaning, and the verbs that read it.

Defaults and meanings are those of `configs/`, ranges those of `bounds`, types those of the structs that the settings
are converted into.
"""

import math
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from resnetx.api.bench_settings import BenchSettings
from resnetx.api.check_settings import CheckSettings
from resnetx.api.doctor_clock import ClockSettings
from resnetx.api.found_system import FoundSettings
from resnetx.api.lab import LabSettings
from resnetx.api.new_system import NewSettings
from resnetx.api.predict_settings import PredictSettings
from resnetx.api.steer_settings import SteerSettings
from resnetx.api.topology import TopologySettings
from resnetx.api.trace_import import ImportSettings
from resnetx.bounds import BOUNDS, Range
from resnetx.choices import CONVENTIONS
from resnetx.cli.reference.markdown import GENERATED, code, table
from resnetx.config import CONFIGS, GROUPS, Images, RunSettings
from resnetx.launching import Launch
from resnetx.loading import YAML_BYTES, File
from resnetx.request import Request
from resnetx.settings.files import Setting, choices, settings
from resnetx.settings.verbs import READS, Reads, reads
from resnetx.settings.words import written

# What reads settings from the command line, by the group that its settings are in.
STRUCTS: list[tuple[str, type[msgspec.Struct]]] = [
    ("", Request),
    ("", RunSettings),
    ("images.", Images),
    ("", PredictSettings),
    ("", TopologySettings),
    ("", SteerSettings),
    ("", FoundSettings),
    ("", NewSettings),
    ("", BenchSettings),
    ("", ImportSettings),
    ("", ClockSettings),
    ("", LabSettings),
    ("", Launch),
    ("", CheckSettings),
]
# Settings that are read before any struct has them, or that a struct has in another form than the command line.
STATED = {
    "study": ["text", "list of text"],
    "papers": ["text", "list of text"],
    "score": ["text", "list of text"],
    "explain": ["`true`", "`false`"],
    "env": ["map of names to text or numbers"],
    "convention": [code(each) for each in CONVENTIONS],
    "budget": ["number", "text", "null"],
    "timeout": ["number", "text"],
    "memory_limit": ["integer", "text", "null"],
    "site": ["text", "null"],
    "walltime": ["number", "text", "null"],
}
_WORDS = {int: "integer", float: "number", str: "text", types.NoneType: "null"}

HEAD = f"""# Settings

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


def page() -> str:
    """The page as Markdown."""
    known = settings()
    lines = [HEAD]
    for title, names in _sections():
        lines += [f"## {title}", ""]
        rows = [_row(alike) for name in names for alike in _alike([each for each in known if _is_of(each, name)])]
        lines += [*table(("setting", "default", "type", "range", "meaning", "read by"), rows), ""]
    return "\n".join(lines)


def _is_of(setting: Setting, name: str) -> bool:
    return setting.name == name or (name in GROUPS and setting.name.startswith(f"{name}."))


def _sections() -> Iterator[tuple[str, list[str]]]:
    """The headings of the main configuration file, each with the settings below it; first, the groups."""
    yield "Groups: model, input, strategy, tracker", list(GROUPS)
    by_line = {setting.name: setting for setting in settings() if not setting.of and setting.name not in GROUPS}
    title, names, outer = "", list[str](), ""
    for line in File(CONFIGS / "config.yaml", "the settings", YAML_BYTES).text().splitlines():
        if line.startswith("# ----"):
            if names:
                yield title, names
            title, names = line.strip("#- ").strip(), []
            title = title[0].upper() + title[1:]
        key = line.partition(":")[0]
        outer = key if not key.startswith(" ") else outer
        name = key if key == outer else f"{outer}.{key.strip()}"
        if title and name in by_line:
            names.append(name)
    yield title, names


def _alike(known: list[Setting]) -> list[list[Setting]]:
    """Settings of one name, default and meaning together: a setting that several choices of a group have."""
    together: dict[tuple[str, str, str], list[Setting]] = {}
    for each in known:
        together.setdefault((each.name, each.default, each.about), []).append(each)
    return list(together.values())


def _row(alike: list[Setting]) -> list[str]:
    setting = alike[0]
    having = [each.of for each in alike]
    return [
        code(setting.name),
        code(setting.default),
        " or ".join(_types(setting)) or "group",
        _range(BOUNDS.get(setting.name)),
        f"{_only(setting, having)}{setting.about if setting.name not in GROUPS else ''}".strip(),
        ", ".join(_reader(name, verb, setting) for name, verb in READS.items() if _reads(verb, setting)),
    ]


def _only(setting: Setting, having: list[str]) -> str:
    """The choices that have a setting, where not all choices of its group do."""
    group = setting.name.partition(".")[0]
    if not setting.of or set(having) == set(choices(group)):
        return ""
    return f"({', '.join(code(f'{group}={each}') for each in having)}) "


def _reads(verb: Reads, setting: Setting) -> bool:
    inner = [each for each in verb.settings if each.startswith(f"{setting.name}.")]
    return reads(verb.settings, setting.name) or bool(inner)


def _reader(name: str, verb: Reads, setting: Setting) -> str:
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


def _types(setting: Setting) -> list[str]:
    """What a setting accepts, over all structs that have it."""
    if setting.name in GROUPS:
        return [code(choice) for choice in sorted(choices(setting.name))]
    found = [
        word
        for prefix, kind in STRUCTS
        if setting.name.startswith(prefix)
        for word in _in_struct(kind, setting.name.removeprefix(prefix))
    ]
    words = dict.fromkeys(STATED.get(setting.name, found))
    assert words or not setting.default, f"no struct has {setting.name}: state its type in STATED"
    return [*(word for word in words if word != "null"), *["null"] * ("null" in words or setting.default == "null")]


def _in_struct(kind: Any, name: str) -> list[str]:
    """The types that a setting may have, in words, by the annotations of a struct; `name`: with dots."""
    first, _, rest = name.partition(".")
    hints = get_type_hints(kind)
    if first not in hints:
        return []
    if not rest:
        return list(_words(hints[first]))
    inner = [
        member for member in _members(hints[first]) if isinstance(member, type) and issubclass(member, msgspec.Struct)
    ]
    return [word for each in inner for word in _in_struct(each, rest)]


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _words(annotation: Any) -> Iterator[str]:
    for member in _members(annotation):
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
