"""The help of a verb: its flags, and the settings that it reads with their defaults."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from resnetx.cli.table_layout import beside, width_of, wrapped
from resnetx.settings import setting_types as types
from resnetx.settings.files import Line, choices, searching, settings
from resnetx.settings.setting_types import written
from resnetx.settings.verbs import VERBS, reads

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


def _common(lines: Sequence[Line], names: Sequence[str]) -> list[Line]:
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
    "resnetx VERB --help: examples, settings (key=value). Every verb: -q --json --all",
    "--version   --shell-completion install=SHELL (-sc): for bash, zsh or fish",
)


def _lines(verb: str, lines: Sequence[Line], width: int | None, everything: bool) -> Iterator[str]:
    """A setting with its default and meaning, with `everything` in full, and with its type; of settings of a group
    also the choices that have them."""
    by_name: dict[str, list[Line]] = defaultdict(list)
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
            yield from _entry(f"{name}={default}", told, width, SHORT)
            continue
        about = " ".join(filter(None, [first.about, having_it, f"[{kind.strip()}]" if kind else ""]))
        yield from _entry("  " * (1 + (bool(first.of) and group in by_name)) + f"{name}={first.default}", about, width)


def _entry(name: str, about: str, width: int | None, column: int = COLUMN) -> Iterator[str]:
    if len(name) >= column and about:
        yield name
        name = ""
    yield beside(name, about, column, width)
