"""All sources of published figures."""

from collections.abc import Callable, Iterator
from functools import cache

from resnetx.api.dataset.known import KnownFigure
from resnetx.api.dataset.messages import collectives
from resnetx.api.dataset.statements import statements
from resnetx.api.dataset.training import layerwise, one_gpu, scaling
from resnetx.prediction.published import FOLDER
from resnetx.reporting.table import table_of
from resnetx.table import Table

FILE = FOLDER / "figures.csv"
SOURCES: tuple[Callable[[], Iterator[KnownFigure]], ...] = (one_gpu, scaling, layerwise, collectives, statements)


@cache
def known_figures() -> tuple[KnownFigure, ...]:
    """All figures, source after source; what stands in several groups of a file, once."""
    found: dict[str, KnownFigure] = {}
    for source in SOURCES:
        for each in source():
            same = found.setdefault(each.figure.id, each)
            assert same.figure == each.figure, f"{each.figure.id}: two figures of one id"
    return tuple(found.values())


def dataset() -> Table:
    """The figures as the table that ships."""
    return table_of(each.figure for each in known_figures())
