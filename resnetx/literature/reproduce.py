"""A paper reproduced: its statements beside what is predicted for the described machines, and its figures; and both
beside what was measured on machines, where such are given.

    resnetx reproduce tallent2017 out=FOLDER
    resnetx reproduce tallent2017 figure=12
    resnetx reproduce tallent2017 results/node-a/machine results/node-b/machine
    resnetx.reproduce("li2019").to_pandas()

Which figures of a paper are drawn, and which statements speak of what is in them, its file of statements says.
"""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from resnetx import progress
from resnetx.api import drawings
from resnetx.compose import asked
from resnetx.errors import ConfigError, unknown_name
from resnetx.literature import measured
from resnetx.literature.claims import PAPERS, published
from resnetx.literature.explanations import advantages
from resnetx.literature.measured import Measured
from resnetx.literature.papers import Beside, predicted_beside, record_of
from resnetx.record import record_file
from resnetx.record.comparisons import CollectivePoint
from resnetx.record.literature import CheckedPapers
from resnetx.record.prediction import PredictedPoint
from resnetx.request import Request
from resnetx.settings import keywords

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import Figure


def reproduce(*papers: keywords.Text, **settings: Unpack[keywords.ReproduceKeywords]) -> CheckedPapers:
    """What papers state beside what is predicted for the machines as described; with `out` a page with their figures.

    `figure=12` is that figure alone, and the statements on what is in it. Behind one paper, folders of what was
    measured on machines (`sweep study=machine`), in the order of its systems, stand beside the predictions.
    """
    given = asked("reproduce", settings)
    words = list(dict.fromkeys(map(str, papers)))
    names = [word for word in words if word in PAPERS or not measured.is_machine(word)]
    machines = [word for word in words if word not in names]
    if not names:
        raise ConfigError(f"reproduce: no paper given; expected one of {', '.join(PAPERS)}")
    for name in names:
        if name not in PAPERS:
            paper = unknown_name("paper", name, PAPERS, "reproduce")
            raise ConfigError(f"{paper}; nor is it a folder in which a machine was measured")
    if machines and len(names) > 1:
        raise ConfigError(f"reproduce: {machines[0]} beside {len(names)} papers; machines stand for the systems of one")
    number, out = given.get("figure"), given.get("out")
    if number is not None:
        _refuse_undrawn(names, int(number))
    there = measured.measured(names[0], machines) if machines else None
    with progress.waiting("predicting"):
        beside = {name: predicted_beside(name) for name in names}
    claims = [claim for found in beside.values() for claim in found.claims]
    made = record_of(names, claims)
    if there:
        made = msgspec.structs.replace(made, machines=there.machines, measured=measured.checked_on(names[0], there))
    if number is not None:
        on_it = {claim for name in names for claim in _claims_on(name, int(number))}
        claims, told = ([each for each in of if each.claim in on_it] for of in (made.claims, made.measured))
        made = msgspec.structs.replace(made, claims=claims, measured=told)
    if out:
        figures = [figure for name, found in beside.items() for figure in _figures(name, found, there, number)]
        _store(made, figures, otherwise(beside[names[0]].points, there) if there else "", Path(str(out)))
    return made


def _store(papers: CheckedPapers, figures: "Sequence[Figure]", note: str, folder: Path) -> None:
    from resnetx.api import pages

    drawings.store_record(folder, record_file("checked papers", folder), papers)
    part = pages.of_papers(papers)
    part = replace(part, answer=[*part.answer, *advantages(papers.claims)])
    pages.store(replace(part, notes=[*part.notes, *[note] * bool(note)], figures=figures), folder)


def otherwise(predicted: Sequence[PredictedPoint], there: Measured) -> str:
    """In which settings training was measured otherwise than predicted, which a rate outside its interval may be due
    to; "" where in none."""
    measured_in = _settings([rate.point.request for rate in there.rates if rate.iterations_per_s])
    predicted_in = _settings([point.request for point in predicted if point.request])
    apart = [name for name in measured_in if measured_in[name] != predicted_in.get(name)]
    if not apart or not predicted_in:
        return ""
    both = ", ".join(f"{name}={measured_in[name]} ({predicted_in[name]} predicted)" for name in apart)
    waited = (
        " Computing was replaced by idle time, as long as a GPU's kernels are fitted to take: no host, nothing read."
    )
    waited *= "replay" in apart
    return f"Training was measured with {both}.{waited} Rates may lie outside their intervals for that."


def _settings(requests: Sequence[Request]) -> dict[str, str]:
    """What decides the rate of one GPU."""
    found: dict[str, str] = {}
    for name in ("input", "clock", "precision", "replay"):
        values = {getattr(request, name) for request in requests}
        found[name] = "|".join(sorted({str(getattr(value, "kind", value) or "unset") for value in values}))
    return found if requests else {}


def _figures(name: str, found: Beside, there: Measured | None, number: object) -> "list[Figure]":
    """In the order of the papers: collectives, then training; or those of one number."""
    from resnetx.reporting.charts.predictions import prediction_figures, stated_beside
    from resnetx.reporting.charts.systems import collective_bandwidth, copies_over_size, system_figures

    rates, messages = (there.drawn, (there.collectives, there.copies)) if there else ([], ([], []))
    if found.comparison:
        drawn = [
            system_figure
            for system_figure in system_figures(found.comparison, rates, messages)
            if system_figure.name != "lead"
        ]
    else:
        curves: dict[str, list[CollectivePoint]] = {collective.collective: [] for collective in found.collectives}
        for point in found.collectives:
            curves[point.collective].append(point)
        beside = {name: [point for point in messages[0] if point.collective == name] for name in curves}
        drawn = prediction_figures(found.points) if found.points else []
        drawn += [collective_bandwidth(points, name, beside[name]) for name, points in curves.items()]
        drawn += copies_over_size(found.copies, of="Copies that statements ask for", after="By the descriptions.")
    drawn = [*stated_beside(found.claims), *_workloads(found, name), *drawn]
    if number is None:
        return drawn
    names = published(name).figures[int(str(number))].drawn if int(str(number)) in published(name).figures else []
    return [figure for figure in drawn if figure.name in names]


def _workloads(found: Beside, paper: str) -> "list[Figure]":
    """What the workloads of a comparison amount to, which no machine changes."""
    from resnetx.api.describe import Workloads, describe
    from resnetx.reporting.charts.records import counted_figures

    if not found.comparison:
        return []
    counted = describe(study=published(paper).study)
    assert isinstance(counted, Workloads), "no intensity is asked for"
    return counted_figures(counted, counted.gpus)


def _claims_on(paper: str, number: int) -> list[str]:
    """The statements on what is in a figure."""
    figure = published(paper).figures.get(number)
    return [
        claim.id
        for claim in published(paper).claims
        if figure and any(fnmatchcase(claim.id, each) for each in figure.claims)
    ]


def _refuse_undrawn(papers: Sequence[str], number: int) -> None:
    drawn = sorted({figure for paper in papers for figure in published(paper).figures})
    if number not in drawn:
        known = f"expected {', '.join(map(str, drawn))}" if drawn else "none of theirs is drawn"
        raise ConfigError(f"figure={number}: not drawn of {', '.join(papers)}; {known}")
