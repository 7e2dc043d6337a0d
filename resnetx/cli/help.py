"""What the command line offers: the help of a verb, what shells complete, and `--cfg job`, settings with their values.

    eval "$(resnetx -sc install=bash)"      # or zsh, fish

argcomplete queries the parser of `cli`, which calls `completions`; nothing here loads Hydra or torch.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from resnetx.cli.table_layout import beside, width_of, wrapped
from resnetx.errors import ConfigError
from resnetx.settings import setting_types as types
from resnetx.settings.files import CONFIGS, choices, searching, settings
from resnetx.settings.setting_types import value_word, written
from resnetx.settings.table import TABLE, Setting
from resnetx.settings.verbs import VERBS, reads

if TYPE_CHECKING:
    from resnetx.study import Point

COLUMN, SHORT = 30, 20  # where the meaning of a setting begins, of all of them and of common ones


class VerbHelp(argparse.Action):
    """`resnetx VERB --help`: examples, flags, and the settings that most calls use; with `--all` every setting."""

    def __init__(self, option_strings: list[str], dest: str, verb: str, everything: bool) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show this help and exit; --help --all: every setting")
        self._verb, self._everything = verb, everything

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        verb, width = VERBS[self._verb], width_of(sys.stdout)
        with searching(getattr(namespace, "config_dir", None) or []):
            defaults = dict(word.split("=", 1) for word in written(verb.own))
            lines = [
                setting._replace(default=defaults.get(setting.name, setting.default))
                for setting in settings()
                if reads(verb.settings, setting.name)
            ]
        shown = lines if self._everything else _common(lines, verb.common.split())
        print(wrapped(f"{verb.about[0].upper()}{verb.about[1:]}.", width))
        print()
        print("\n".join(_examples([(f"{verb.name} {words}".rstrip(), told) for words, told in verb.examples], width)))
        if self._everything:
            print(f"\n{parser.format_help().rstrip()}")
        if shown:
            print()
            print("\n".join(_lines(self._verb, shown, width, self._everything)))
        if not self._everything:
            more = len({setting.name for setting in lines} - {setting.name for setting in shown})
            flags = " ".join(["-q", *(f"--{flag}" for flag in verb.flags)] if "json" in verb.flags else verb.flags)
            print(f"\nflags: {flags}" if flags else "")
            print(f"{f'{more} more settings' if more else 'flags in full'}: resnetx {self._verb} --help --all")
        parser.exit()


def _examples(examples: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Commands, each with what it does: beside it where there is room, else below."""
    commands = [f"  resnetx {words}" for words, _ in examples]
    longest = max(map(len, commands))
    for command, (_, told) in zip(commands, examples, strict=True):
        if longest + 2 + len(told) <= (width or 80):
            yield f"{command:<{longest}}  {told}"
        else:
            yield command
            yield f"      {told}"


def _common(lines: Sequence[Setting], names: Sequence[str]) -> list[Setting]:
    """Those that most calls use, in their order; all of a verb that has none."""
    if not names:
        return list(lines)
    return [setting for name in names for setting in lines if setting.name == name]


def overview() -> str:
    """What `resnetx --help` says: the question, how it is answered, and the verbs by what they are for."""
    groups: dict[str, list[str]] = defaultdict(list)
    for verb in VERBS.values():
        groups[verb.group].append(verb.name)
    first = [(f"{name} {VERBS[name].examples[0][0]}", VERBS[name].examples[0][1]) for name in FIRST]
    verbs = [f"{title:<9} {'  '.join(groups[title])}" for title in GROUPS_OF_VERBS]
    return "\n".join([ABOUT, "", *_examples(first, 80), "", *verbs, "", *MORE])


FIRST = ("predict", "sweep", "compare")  # whose first examples stand first
GROUPS_OF_VERBS = ("measure", "predict", "look", "set up")
ABOUT = "How does deep-learning training scale on this machine's GPU interconnect, and on\nthat one's?"
MORE = (
    "resnetx VERB --help: examples, settings (key=value). Most verbs: -q --json --all",
    "--version   --shell-completion install=SHELL (-sc): for bash, zsh or fish",
)


def _lines(verb: str, lines: Sequence[Setting], width: int | None, everything: bool) -> Iterator[str]:
    """A setting with its default and meaning, with `everything` in full, and with its type; of settings of a group
    also the choices that have them."""
    by_name: dict[str, list[Setting]] = defaultdict(list)
    for setting in lines:
        by_name[setting.name].append(setting)
    for name, (first, *others) in by_name.items():
        if not first.default:  # a group without a default; its settings follow
            continue
        group = name.partition(".")[0]
        having = [line.of for line in (first, *others)]
        common = not first.of or set(having) == set(choices(group))
        having_it = "" if common else f"({', '.join(having)})"
        kind = types.words(verb, name) if everything else ""
        if not everything:  # as far as one has to know it to begin
            told, default = first.about.partition("; ")[0], first.default if first.default not in ("null", "[]") else ""
            plain = default.strip("[]") if "[" not in default[1:] else default  # as it is typed: gpus=1,2,4,8
            required = "required: " * (name in VERBS[verb].required.split())
            yield from _entry(f"{name}={plain}", required + told, width, SHORT)
            continue
        about = " ".join(filter(None, [first.about, having_it, f"[{kind.strip()}]" if kind else ""]))
        yield from _entry("  " * (1 + (bool(first.of) and group in by_name)) + f"{name}={first.default}", about, width)


def _entry(name: str, about: str, width: int | None, column: int = COLUMN) -> Iterator[str]:
    if len(name) >= column and about:
        yield name
        name = ""
    yield beside(name, about, column, width)


# ---- completion -----------------------------------------------------------------------------------------------------

SHELLS = ("bash", "zsh", "fish")


def completion_script(asked: str) -> str:
    """The script that a shell evaluates to complete commands of resnetx; `asked`: "install=bash"."""
    from argcomplete.shell_integration import shellcode

    action, _, shell = asked.partition("=")
    if action != "install" or shell not in SHELLS:
        raise ConfigError(f"--shell-completion {asked}: expected install=bash, install=zsh or install=fish")
    return str(shellcode(["resnetx"], shell=shell))


def completions(prefix: str, parsed_args: argparse.Namespace) -> Iterable[str]:
    """The settings of the verb, or the values after "="; argcomplete drops those with another prefix."""
    own = VERBS[parsed_args.verb].settings
    with searching(getattr(parsed_args, "config_dir", None) or []):
        key, equals, value = prefix.partition("=")
        if equals:
            begun = re.match(r"(\[(.*,)?)?", value)  # a list, of which the last value is being written
            assert begun, "an empty beginning always matches"
            return [f"{key}={begun[0]}{value}" for value in _values(parsed_args.verb, key)] if reads(own, key) else []
        found = [setting.name for setting in settings() if reads(own, setting.name) and setting.default]
        return [f"{name}=" for name in dict.fromkeys(found)]


def _values(verb: str, key: str) -> Iterable[str]:
    """The values of a setting, if they can be listed."""
    row = TABLE.get(key)
    if row is None or row.choices:
        return sorted(choices(key)) if row else []
    return [value_word(value) for value in types.values(row.type_for(verb))] or _named(key)


def _named(key: str) -> Iterable[str]:
    """The names that a setting of systems and predictions may have."""
    match key:
        case "systems" | "study":
            return sorted(path.stem for path in (CONFIGS / key.removesuffix("s")).glob("*.yaml"))
        case "pattern":
            from resnetx import patterns

            return patterns.NAMES
        case "collective" | "library":
            from resnetx.interconnect.collectives.plan import LIBRARIES
            from resnetx.operations import OPERATIONS

            return OPERATIONS if key == "collective" else LIBRARIES
    return []


# `--cfg job`: the configuration that a command would use, as YAML, one document for each point.


def show_configuration(kind: str, verb: str, given: "Point") -> int:
    """Prints the settings that the verb reads."""
    import yaml

    from resnetx.cli import show
    from resnetx.compose import asked, compose, points_of

    if kind != "job":
        raise ConfigError(f"--cfg {kind}: expected --cfg job, the configuration that the command would use")
    _, points = points_of(asked(verb, given))
    documents = [_own(compose(point), VERBS[verb].settings) for point in points]
    show.lines(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).removesuffix("\n"))
    return 0


def _own(tree: dict[str, Any], own: Sequence[str], above: str = "") -> dict[str, Any]:
    """The part of a configuration that the verb reads."""
    found = {}
    for name, value in tree.items():
        key = f"{above}{name}"
        if reads(own, key):
            found[name] = value
        elif isinstance(value, dict) and (inside := _own(value, own, f"{key}.")):
            found[name] = inside
    return found
