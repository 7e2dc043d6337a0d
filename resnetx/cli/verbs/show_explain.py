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
    explained_answer,
    explained_case,
    part_columns,
    part_rows,
    same_results,
    weight,
)
from resnetx.reporting.explain_benches import ExplainedFigure, figure_columns, figures_answer, told_figures
from resnetx.reporting.slow_rank import RANKS, ObservedRank, observed_answer
from resnetx.study import Point
from resnetx.table import Column

T = TypeVar("T")


def explain_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(
            "explain: expected one result or two (folders of runs, studies, predictions or benches), or the folder of "
            f"an observed job, got {len(paths)}"
        )
    found = explain(*paths, **asked)
    if observed := [each for each in found if isinstance(each, ObservedRank)]:
        answer, screen = observed_answer(observed), partial(show_ranks, observed)
    elif figures := [each for each in found if isinstance(each, ExplainedFigure)]:
        answer, screen = figures_answer(figures), partial(show_figures, figures)
    else:
        cases = [each for each in found if isinstance(each, Explained)]
        answer, screen = explained_answer(cases), partial(explanations, cases)
    show.conclude(options, answer, lambda: found, screen)
    return 1 if any(each.outside for each in found) else 0


# The screen of `explain`: the largest difference first, part by part, and what else differs.

CASES = 3  # of which each has its table; of more, the one that differs most, and a row for each


def explanations(found: Sequence[Explained]) -> None:
    """Each case, or of many a row for each and the one that differs most, or loses most."""
    ranked = sorted(found, key=weight, reverse=True)
    if same_results(found):
        _most(case_columns(ranked), ranked)
        return
    shown = ranked if len(found) <= CASES or show.everything() else ranked[:1]
    for index, explained in enumerate(shown):
        if index:
            show.say()
            show.say(explained_case(explained))
            show.say()
        _one(explained)
    if len(shown) < len(found):
        show.say()
        _most(case_columns(ranked), ranked)


def _most(columns: Sequence[Column[T]], ranked: Sequence[T]) -> None:
    """The first rows, which differ most."""
    shown = show.first(ranked, show.ROWS)
    more = f"And {len(ranked) - len(shown):,} more: --all" * (len(shown) < len(ranked))
    show.listing(columns, shown, note=more, every=True, constant=True)


def _one(each: Explained) -> None:
    if each.parts:
        show.listing(part_columns(each), part_rows(each), every=True, constant=True)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    _evidence(each.evidence)
    if each.late:
        show.say(f"look: {each.late}")


MOST_EVIDENCE = 6  # lines; of more, a count


def _evidence(lines: Sequence[str]) -> None:
    shown = show.first(lines, MOST_EVIDENCE)
    for index, line in enumerate(shown):
        show.say(f"{'also' if index else 'evidence'}: {line}")
    if len(shown) < len(lines):
        show.say(f"and {len(lines) - len(shown)} more that differ: --all")


# ---- benches --------------------------------------------------------------------------------------------------------


def show_figures(found: Sequence[ExplainedFigure]) -> None:
    """Which figures changed, by collective and by pair, and in what else the two differ; of one, what is slow."""
    two = found[0].b_s is not None
    figures = told_figures(found)
    ranked = sorted(figures, key=lambda figure: -abs(log(figure.longer)))
    if ranked:
        _most(figure_columns(two), ranked)
    _evidence(list(dict.fromkeys(line for figure in figures or found for line in figure.evidence)))


# ---- an observed job ------------------------------------------------------------------------------------------------


def show_ranks(ranks: Sequence[ObservedRank]) -> None:
    """Each rank's phases, in ms."""
    show.listing(RANKS, ranks, every=True, constant=True)
