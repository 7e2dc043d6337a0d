"""How far off predictions of published figures are: anybody's, from a CSV, or those of resnetx, beside two baselines.

    resnetx compare score=mine.csv
    resnetx compare score=[mine.csv,resnetx] out=scored

The baselines are read over the figures that somebody here predicts: `linear`, the rate of one GPU times their number,
and `alpha-beta`, one ring over the described links (`interconnect.alpha_beta`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from resnetx import __version__, progress
from resnetx.api.dataset.known import KnownFigure
from resnetx.api.dataset.sources import known_figures
from resnetx.formats.predictions_csv import read_predictions
from resnetx.record import SCHEMA
from resnetx.record.score import FigurePrediction, PredictorScore, PublishedFigure, Score
from resnetx.reporting.scoring import scores
from resnetx.reporting.table import table_of, write_csv

OWN, LINEAR, ALPHA_BETA = "resnetx", "linear", "alpha-beta"


def score(names: Sequence[str]) -> Score:
    """The score of each CSV of predictions, or of resnetx itself (`resnetx`), and of the baselines."""
    known = known_figures()
    asked = [_predictor(name, known) for name in dict.fromkeys(names)]
    predicted = {each.id for predictor in asked for each in predictor.predictions}
    predictors = [*asked, *_baselines([each for each in known if each.figure.id in predicted])]
    figures = [each.figure for each in known]
    return Score(
        kind="score",
        schema=SCHEMA,
        resnetx=__version__,
        figures=figures,
        predictors=predictors,
        scores=scores(figures, predictors),
    )


def write_tables(found: Score, folder: Path) -> None:
    """The figures, the scores, and resnetx's own predictions in the form that is read here."""
    write_csv(folder / "figures.csv", table_of(found.figures))
    write_csv(folder / "scores.csv", table_of(found.scores))
    for each in found.predictors:
        if each.predictor in (OWN, LINEAR, ALPHA_BETA):  # the others came as files
            write_csv(folder / f"{each.predictor}.csv", table_of(each.predictions))


def _predictor(name: str, known: Sequence[KnownFigure]) -> PredictorScore:
    if name != OWN:
        ids = [each.figure.id for each in known]
        return PredictorScore(predictor=name, predictions=read_predictions(Path(name), ids))
    with progress.counting("figures", len(known)) as advance:
        made = []
        for each in known:
            made.append(each.own())
            advance(1)
    return PredictorScore(predictor=OWN, predictions=[each for each in made if each is not None])


# ---- baselines ------------------------------------------------------------------------------------------------------


def _baselines(known: Sequence[KnownFigure]) -> Iterator[PredictorScore]:
    linear = [_linear(each.figure) for each in known]
    yield PredictorScore(predictor=LINEAR, predictions=[each for each in linear if each is not None])
    alpha_beta = [(each.figure.id, each.alpha_beta()) for each in known]
    yield PredictorScore(
        predictor=ALPHA_BETA,
        predictions=[FigurePrediction(id=name, predicted=value) for name, value in alpha_beta if value is not None],
    )


def _linear(figure: PublishedFigure) -> FigurePrediction | None:
    if figure.one_gpu is None or figure.gpus is None:
        return None
    return FigurePrediction(id=figure.id, predicted=figure.gpus * figure.one_gpu)
