"""How far off predictors are of published figures, kind by kind: mean, worst and bias of the error, and coverage.

An error is predicted / value - 1, of a rate or of a time as the figure is one; a bias above 0 says that predictions are
too fast, so that of a time counts the other way. Predictors are told apart by nothing but what they predict: resnetx is
one of them.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

from resnetx.record.score import FigurePrediction, KindScore, PredictorScore, PublishedFigure

ALL = "all"
TIMES = ("s", "us")  # units in which less is faster


def scores(figures: Sequence[PublishedFigure], predictors: Iterable[PredictorScore]) -> list[KindScore]:
    """A score for each kind and each predictor that predicts any of it, then those of all kinds; kinds in order."""
    predictors = list(predictors)
    by_id = [(each.predictor, {found.id: found for found in each.predictions}) for each in predictors]
    kinds = [*dict.fromkeys(figure.kind for figure in figures), ALL]
    found = [
        _score(kind, name, [figure for figure in figures if kind in (figure.kind, ALL)], predictions)
        for kind in kinds
        for name, predictions in by_id
    ]
    return [each for each in found if each is not None]


def _score(
    kind: str, predictor: str, figures: Sequence[PublishedFigure], predictions: dict[str, FigurePrediction]
) -> KindScore | None:
    pairs = [(figure, predictions[figure.id]) for figure in figures if figure.id in predictions]
    if not pairs:
        return None
    errors = [each.predicted / figure.value - 1 for figure, each in pairs]
    holding = [
        each.low <= figure.value <= each.high
        for figure, each in pairs
        if each.low is not None and each.high is not None
    ]
    unseen = [abs(error) for error, (figure, _) in zip(errors, pairs, strict=True) if not figure.seen]
    return KindScore(
        kind=kind,
        predictor=predictor,
        figures=len(figures),
        predicted=len(pairs),
        mean_error=fmean(map(abs, errors)),
        worst_error=max(map(abs, errors)),
        bias=fmean(-error if figure.unit in TIMES else error for error, (figure, _) in zip(errors, pairs, strict=True)),
        intervals=len(holding),
        covered=fmean(holding) if holding else None,
        unseen=len(unseen),
        unseen_error=fmean(unseen) if unseen else None,
    )
