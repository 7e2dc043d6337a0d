"""The help of a verb: its flags, and the settings that it reads with their defaults."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resnetx.cli.prose import beside, width_of
from resnetx.settings import types
from resnetx.settings.files import Line, choices, searching, settings
from resnetx.settings.verbs import VERBS, reads
from resnetx.settings.words import written

COLUMN = 30  # where the meaning of a setting begins


class VerbHelp(argparse.Action):
    """`resnetx VERB --help`."""

    def __init__(self, option_strings: list[str], dest: str, verb: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show this help and exit")
        self._verb = verb

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        parser.print_help()
        folders: list[Path] = getattr(namespace, "config_dir", None) or []
        with searching(folders):
            verb = VERBS[self._verb]
            defaults = dict(word.split("=", 1) for word in written(verb.own))
            own = [
                setting._replace(default=defaults.get(setting.name, setting.default))
                for setting in settings()
                if reads(verb.settings, setting.name)
            ]
        if own:
            print("\nsettings, their defaults, meanings and [types]:\n")
            print("\n".join(_lines(self._verb, own, width_of(sys.stdout))))
        parser.exit()


def _lines(verb: str, own: Sequence[Line], width: int | None) -> Iterator[str]:
    """A setting with its default, meaning and type; of settings of a group also the choices that have them."""
    by_name: dict[str, list[Line]] = defaultdict(list)
    for setting in own:
        by_name[setting.name].append(setting)
    for name, (first, *others) in by_name.items():
        if not first.default:  # a group without a default; its settings follow
            continue
        group = name.partition(".")[0]
        having = [each.of for each in (first, *others)]
        common = not first.of or set(having) == set(choices(group))
        having_it = "" if common else f"({', '.join(having)})"
        kind = types.words(verb, name)
        about = " ".join(filter(None, [first.about, having_it, f"[{kind.strip()}]" if kind else ""]))
        yield from _entry("  " * (1 + (bool(first.of) and group in by_name)) + f"{name}={first.default}", about, width)


def _entry(name: str, about: str, width: int | None) -> Iterator[str]:
    if len(name) >= COLUMN and about:
        yield name
        name = ""
    yield beside(name, about, COLUMN, width)
