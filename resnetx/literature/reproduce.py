"""A paper reproduced: its statements beside what is predicted for the described machines, and its figures.

    resnetx reproduce tallent2017 out=FOLDER
    resnetx reproduce tallent2017 figure=12
    resnetx.reproduce("li2019").to_pandas()

Figures are those of the same form (`resnetx.reporting.charts`), each of which says which of the paper's it is after.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from resnetx import progress
from resnetx.api import drawings
from resnetx.compose import asked
from resnetx.errors import ConfigError, unknown_name
from resnetx.literature.claims import PAPERS
from resnetx.literature.papers import Beside, predicted_beside, record_of
from resnetx.record.literature import CheckedPapers, checked_papers_file
from resnetx.record.system_comparison import CheckedClaim
from resnetx.settings import keywords

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import Figure


def reproduce(*papers: keywords.Text, **settings: Unpack[keywords.ReproduceKeywords]) -> CheckedPapers:
    """What papers state beside what is predicted for the machines as described; with `out` a page with their figures.

    `figure=12` is that figure alone, and the statements on the workloads or collectives in it.
    """
    given = asked("reproduce", settings)
    names = list(dict.fromkeys(map(str, papers)))
    if not names:
        raise ConfigError(f"reproduce: no paper given; expected one of {', '.join(PAPERS)}")
    for name in names:
        if name not in PAPERS:
            raise unknown_name("paper", name, PAPERS, "reproduce")
    number, out = given.get("figure"), given.get("out")
    with progress.waiting("predicting"):
        beside = {name: predicted_beside(name) for name in names}
    figures = {name: _figures(found) for name, found in beside.items()} if out or number is not None else {}
    claims = [claim for found in beside.values() for claim in found.claims]
    if number is not None:
        of_number = _numbered(figures, number)
        claims = [claim for claim in claims if _is_on(claim, of_number.get(claim.paper, []))]
        figures = of_number
    made = record_of(names, claims)
    if out:
        _store(made, [figure for of_paper in figures.values() for figure in of_paper], Path(str(out)))
    return made


def _store(made: CheckedPapers, figures: "Sequence[Figure]", folder: Path) -> None:
    from resnetx.api import pages

    drawings.store_record(folder, checked_papers_file(folder), made)
    pages.store(replace(pages.of_papers(made), figures=figures), folder)


def _figures(found: Beside) -> "list[Figure]":
    """In the order of the papers: collectives, then training."""
    from resnetx.reporting.charts.predicted_figures import prediction_figures
    from resnetx.reporting.charts.systems import collective_bandwidth, system_figures

    if found.comparison:
        return [figure for figure in system_figures(found.comparison) if figure.name != "lead"]
    names = dict.fromkeys(point.collective for point in found.collectives)
    curves = {name: [point for point in found.collectives if point.collective == name] for name in names}
    return [
        *(collective_bandwidth(points, name) for name, points in curves.items()),
        *(prediction_figures(found.points) if found.points else []),
    ]


def _numbered(figures: "Mapping[str, Sequence[Figure]]", number: object) -> "dict[str, list[Figure]]":
    """Those that are after the paper's figure of this number."""
    found = {name: [each for each in of if number in _numbers(name, each.caption)] for name, of in figures.items()}
    if not any(found.values()):
        drawn = sorted(
            {each for name, of in figures.items() for figure in of for each in _numbers(name, figure.caption)}
        )
        known = f"expected {', '.join(map(str, drawn))}" if drawn else "none of theirs is drawn"
        raise ConfigError(f"figure={number}: not drawn of {', '.join(figures)}; {known}")
    return found


def _numbers(paper: str, caption: str) -> set[int]:
    """Of the paper's figures, as a caption names them: "Tallent et al. 2017, Fig. 10, 11 and 19 to 27"."""
    author, year = paper.partition("-")[0][:-4], paper.partition("-")[0][-4:]
    after = rf"{author}\s+et al\.\s+{year},\s+Fig\.\s+((?:\d+(?:, | and | to )?)+)"
    found: set[int] = set()
    for words in re.findall(after, caption, re.IGNORECASE):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", words):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _is_on(claim: CheckedClaim, figures: "Sequence[Figure]") -> bool:
    """Whether a statement is on something that is in the figures."""
    shown = {
        str(cells[column])
        for figure in figures
        for cells in figure.table.records()
        for column in ("workload", "collective")
        if cells.get(column)
    }
    return any(word in claim.where or word == claim.quantity for word in shown)
