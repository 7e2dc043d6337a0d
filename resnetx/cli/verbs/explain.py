"""`explain`: why one result is not another, part by part, or where the time of one goes."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from math import log
from pathlib import Path

from resnetx.api.load import explain
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.reporting.explain import (
    Explained,
    ExplainedPart,
    explained_answer,
    explained_case,
    ms_text,
    signed_ms,
    useful_share,
    weight,
)
from resnetx.reporting.explain_benches import ExplainedFigure, figures_answer, told_figures
from resnetx.reporting.slow_rank import ObservedRank, observed_answer
from resnetx.study import Point
from resnetx.units import percents, size_text


def explain_(options: Namespace, paths: list[Path], _: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(
            "explain: expected one result or two (folders of runs, studies, predictions or benches), or the folder of "
            f"an observed job, got {len(paths)}"
        )
    found = explain(*paths)
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
    shown = ranked if len(found) <= CASES or show.everything() else ranked[:1]
    for index, each in enumerate(shown):
        if index:
            show.say()
            show.say(explained_case(each))
            show.say()
        _one(each)
    if len(shown) < len(found):
        show.say()
        _cases(ranked)


def _one(each: Explained) -> None:
    if each.parts:
        two = each.b_step_s is not None
        columns = ["part", f">{each.a if two else 'ms'}{' A, ms' * two}"]
        columns += [f">{each.b} B, ms", ">difference"] if two else [">% of the step"]
        columns += ["evidence"]
        whole = percents({part.name: (part.a_s or 0.0) / each.a_step_s for part in each.parts})
        rows = [_row(part, each, whole[part.name]) for part in each.parts]
        rows.append(["", ms_text(each.a_step_s), *([ms_text(each.b_step_s), signed_ms(each.b_step_s - each.a_step_s)]
                     if each.b_step_s is not None else ["100"]), ""])  # fmt: skip
        show.table("", columns, rows)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    _evidence(each.evidence)
    if each.late:
        show.say(f"look: {each.late}")


def _row(part: ExplainedPart, each: Explained, percent: int) -> list[str]:
    if each.b_step_s is None:
        return [part.name, ms_text(part.a_s), f"{percent}", part.evidence]
    more = "" if part.more_s is None else signed_ms(part.more_s)
    return [part.name, ms_text(part.a_s), ms_text(part.b_s), more, part.evidence]


def _cases(found: Sequence[Explained]) -> None:
    two = found[0].b_step_s is not None
    columns = ["case", ">A, ms", *([">B, ms", ">B / A", "outside"] if two else [">useful %"])]
    rows = []
    for each in found:
        row = [each.case, ms_text(each.a_step_s)]
        if each.b_step_s is not None:
            row += [
                ms_text(each.b_step_s),
                f"{each.b_step_s / each.a_step_s:.2f}",
                "yes" if each.outside else "no",
            ]
        else:
            useful = useful_share(each)
            row.append("?" if useful is None else f"{100 * useful:.0f}")
        rows.append(row)
    shown = show.first(rows, 12)
    show.table("", columns, shown, f"And {len(rows) - len(shown)} more: --all" if len(shown) < len(rows) else "")


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
    if shown := show.first(ranked, 12):
        columns = ["what", ">size", ">A, us", ">B, us" if two else ">described, us", ">times as long"]
        rows = [
            [_figure(figure), size_text(figure.size_bytes), _us(figure.a_s),
             _us(figure.b_s if two else figure.expected_s), f"{figure.longer:.2f}"]
            for figure in shown
        ]  # fmt: skip
        show.table(
            "", columns, rows, f"And {len(figures) - len(shown)} more: --all" if len(shown) < len(figures) else ""
        )
    _evidence(list(dict.fromkeys(line for figure in figures or found for line in figure.evidence)))


def _figure(figure: ExplainedFigure) -> str:
    if figure.source is not None:
        return f"{figure.what}, {figure.source} to {figure.target}"
    return figure.what + (f", {figure.gpus} GPUs" if figure.gpus else "")


def _us(time_s: float | None) -> str:
    return "?" if time_s is None else f"{time_s * 1e6:,.1f}"


# ---- an observed job ------------------------------------------------------------------------------------------------


def show_ranks(ranks: Sequence[ObservedRank]) -> None:
    """Each rank's phases, in ms."""
    columns = ["rank", "node", ">update, ms", ">input", ">forward", ">backward", ">exposed", ">step", ">behind"]
    waited = any(rank.for_last_s is not None for rank in ranks)
    if waited:
        columns.insert(-2, ">waiting")
    rows = [
        [str(rank.rank), rank.node, *(ms_text(value) for value in (
            rank.update_s, rank.input_s, rank.forward_s, rank.backward_s, rank.exposed_s, *[rank.for_last_s] * waited,
            rank.step_s)),
         "" if rank.later_s is None else signed_ms(rank.later_s)]
        for rank in ranks
    ]  # fmt: skip
    show.table("", columns, rows)
