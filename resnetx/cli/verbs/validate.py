"""`--validate`: how far off a model is of what was published, and whether each group of figures is within its limit."""

from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.settings.words import written
from resnetx.study import Point


class ShowTable(Protocol):
    """Shows rows, group by group."""

    def __call__(self, rows: Any, summaries: Any, /) -> None: ...


def validate_(options: Namespace, paths: list[Path], asked: Point, validation: ModuleType, table: ShowTable) -> int:
    """Status 1 where a group of `validation`'s rows is missed by more than it may."""
    for word in (*map(str, paths), *written(asked)):
        raise ConfigError(f"{word}: --validate takes no settings")
    rows = validation.validate()
    summaries = validation.summaries(rows)
    if options.json:
        show.json_lines(rows)
    else:
        table(rows, summaries)
    return 0 if all(summary.holds for summary in summaries) else 1
