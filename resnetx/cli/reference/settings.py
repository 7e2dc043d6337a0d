"""`docs/settings.md`: every setting with its default, type, range and meaning, and the verbs that read it."""

import math
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from resnetx.cli.reference.markdown import GENERATED, code, table
from resnetx.settings.files import Line, choices, settings
from resnetx.settings.table import GROUPS, SECTIONS, TABLE, Range
from resnetx.settings.types import members
from resnetx.settings.verbs import VERBS, Verb, reads
from resnetx.settings.words import written

_WORDS = {int: "integer", float: "number", str: "text", type(None): "null"}

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
    lines = [HEAD]
    for section in SECTIONS:
        own = {row.name for row in section.settings}
        rows = [_row(alike) for alike in _alike([line for line in settings() if line.name in own])]
        lines += [f"## {section.title[0].upper()}{section.title[1:]}", ""]
        lines += [*table(("setting", "default", "type", "range", "meaning", "read by"), rows), ""]
    return "\n".join(lines)


def _alike(known: list[Line]) -> list[list[Line]]:
    """Settings of one name, default and meaning together: a setting that several choices of a group have."""
    together: dict[tuple[str, str, str], list[Line]] = {}
    for each in known:
        together.setdefault((each.name, each.default, each.about), []).append(each)
    return list(together.values())


def _row(alike: list[Line]) -> list[str]:
    setting = alike[0]
    having = [each.of for each in alike]
    return [
        code(setting.name),
        code(setting.default),
        " or ".join(_types(setting.name)) or "group",
        _range(TABLE[setting.name].range),
        f"{_only(setting, having)}{setting.about if setting.name not in GROUPS else ''}".strip(),
        ", ".join(_reader(name, verb, setting) for name, verb in VERBS.items() if _reads(verb, setting)),
    ]


def _only(setting: Line, having: list[str]) -> str:
    """The choices that have a setting, where not all choices of its group do."""
    group = setting.name.partition(".")[0]
    if not setting.of or set(having) == set(choices(group)):
        return ""
    return f"({', '.join(code(f'{group}={each}') for each in having)}) "


def _reads(verb: Verb, setting: Line) -> bool:
    inner = [each for each in verb.settings if each.startswith(f"{setting.name}.")]
    return reads(verb.settings, setting.name) or bool(inner)


def _reader(name: str, verb: Verb, setting: Line) -> str:
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
