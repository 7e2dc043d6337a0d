"""`explain`: why one result is not another, part by part, or where the time of one goes."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import TypeVar

from resnetx.api.load import explain
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.reporting.explain import (
    Explained,
    case_columns,
    certainty,
    explained_answer,
    explained_case,
    part_columns,
    part_rows,
    same_results,
    weight,
)
from resnetx.reporting.explain_benches import (
    FIGURES_CERTAINTY,
    ExplainedFigure,
    figure_columns,
    figures_answer,
    told_figures,
)
from resnetx.reporting.slow_rank import JOB_PARTS, RANKS, JobPart, ObservedRank, observed_answer
from resnetx.study import Point
from resnetx.table import Column

T = TypeVar("T")


def explain_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(
            "explain: expected one result or two: folders of runs, studies, predictions, benches or observed jobs, "
            f"got {len(paths)}"
        )
    found = explain(*paths, **asked)
    if observed := [each for each in found if isinstance(each, ObservedRank)]:
        answer, screen = observed_answer(observed), partial(show_ranks, observed)
    elif parts := [each for each in found if isinstance(each, JobPart)]:
        answered = found.answer()
        answer, screen = list(answered.sentences if answered else []), partial(show_jobs, parts)
    elif figures := [each for each in found if isinstance(each, ExplainedFigure)]:
        answer, screen = figures_answer(figures), partial(show_figures, figures)
    else:
        cases = [each for each in found if isinstance(each, Explained)]
        answer, screen = explained_answer(cases), partial(explanations, cases)
    show.conclude(options, answer, lambda: found, screen)
    return 1 if any(not isinstance(each, JobPart) and each.outside for each in found) else 0


# The screen of `explain`: the parts of the case that differs most, what else differs in it, and how sure that is.

CASES, EVIDENCE = 6, 3  # rows and lines; --all has all


def explanations(found: Sequence[Explained]) -> None:
    """The case that differs most, or loses most, part by part; a row for each where parts are not known. --all: all."""
    ranked = sorted(found, key=weight, reverse=True)
    hidden = []
    if show.everything():
        for each in ranked:
            if each is not ranked[0] or same_results(found):  # else the answer says it
                show.say(explained_case(each))
                show.say()
            _one(each)
            show.say()
    elif not same_results(found):
        hidden = _one(ranked[0])
    if len(found) > 1 and (show.everything() or not ranked[0].parts or same_results(found)):
        hidden += _most(case_columns(ranked), ranked)
    elif len(found) > 1:
        hidden.append(f"{len(found) - 1:,} more case{'s' * (len(found) > 2)}")
    show.say(f"sure: {certainty(ranked[0])}.")
    show.rest(hidden)


def _most(columns: Sequence[Column[T]], ranked: Sequence[T]) -> list[str]:
    """The first rows, which differ most; how many are left out."""
    shown = show.first(ranked, CASES)
    show.listing(columns, shown, every=True, constant=True)
    return [f"{len(ranked) - len(shown):,} more rows"] * (len(shown) < len(ranked))


def _one(each: Explained) -> list[str]:
    """Parts, settings and evidence of a case; what is left out of them."""
    if each.parts:
        show.listing(part_columns(each), part_rows(each), every=True, constant=True)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    if each.late:
        show.say(f"look: {each.late}")
    return _evidence(each.evidence)


def _evidence(lines: Sequence[str]) -> list[str]:
    shown = show.first(lines, EVIDENCE)
    for index, line in enumerate(shown):
        show.say(f"{'also' if index else 'evidence'}: {line}")
    return [f"{len(lines) - len(shown)} more that differ"] * (len(shown) < len(lines))


# ---- benches --------------------------------------------------------------------------------------------------------


def show_figures(found: Sequence[ExplainedFigure]) -> None:
    """Which figures changed, by collective and by pair, and in what else the two differ; of one, what is slow."""
    two = found[0].b_s is not None
    figures = told_figures(found)
    ranked = sorted(figures, key=lambda figure: -abs(log(figure.longer)))
    hidden = _most(figure_columns(two), ranked) if ranked else []
    if two:
        show.say(f"sure: {FIGURES_CERTAINTY}.")
    hidden += _evidence(list(dict.fromkeys(line for figure in figures or found for line in figure.evidence)))
    show.rest(hidden)


# ---- an observed job ------------------------------------------------------------------------------------------------


def show_ranks(ranks: Sequence[ObservedRank]) -> None:
    """Each rank's phases, in ms."""
    show.listing(RANKS, ranks, every=True, constant=True)


def show_jobs(parts: Sequence[JobPart]) -> None:
    """A part of both steps in each row."""
    show.listing(JOB_PARTS, parts, every=True, constant=True)
    show.say("sure: one job each, so how much jobs differ by chance is not known.")
