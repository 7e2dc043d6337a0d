"""`--validate`: how far off a model is of what was published, and whether each group of figures is within its limit."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Literal, Protocol

from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.literature.validate import validate
from resnetx.settings.words import written
from resnetx.study import Point


class ShowTable(Protocol):
    """Shows rows, group by group."""

    def __call__(self, rows: Any, summaries: Any, /) -> None: ...


def validate_(
    options: Namespace, paths: list[Path], asked: Point, verb: Literal["predict", "topology"], table: ShowTable
) -> int:
    """Status 1 where a group of published figures is missed by more than it may."""
    for word in (*map(str, paths), *written(asked)):
        raise ConfigError(f"{word}: --validate takes no settings")
    found = validate(verb)
    show.conclude(options, [found.conclusion], lambda: [found.record], lambda: table(found, found.groups))
    return 0 if found.holds else 1
