"""How far off predictions of published figures are: anybody's, from a CSV, or those of resnetx, beside two baselines.

    resnetx compare score=mine.csv
    resnetx compare score=[mine.csv,resnetx] out=scored

The baselines are read over the figures that somebody here predicts: `linear`, the rate of one GPU times their number,
and `alpha-beta`, one ring over the described links (`interconnect.alpha_beta`).
"""

import csv
import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from resnetx import __version__, progress
from resnetx.errors import ConfigError, shortened
from resnetx.literature.dataset import KnownFigure, known_figures
from resnetx.loading import File
from resnetx.record import SCHEMA
from resnetx.record.literature import FigurePrediction, KindScore, PredictorScore, PublishedFigure, Score
from resnetx.reporting.csv_tables import table_of, write_csv

OWN, LINEAR, ALPHA_BETA = "resnetx", "linear", "alpha-beta"


def score(names: Sequence[str]) -> Score:
    """The score of each CSV of predictions, or of resnetx itself (`resnetx`), and of the baselines."""
    known = known_figures()
    asked = [_predictor(name, known) for name in dict.fromkeys(names)]
    predicted = {prediction.id for predictor in asked for prediction in predictor.predictions}
    predictors = [*asked, *_baselines([figure for figure in known if figure.figure.id in predicted])]
    figures = [figure.figure for figure in known]
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
    for predictor in found.predictors:
        if predictor.predictor in (OWN, LINEAR, ALPHA_BETA):  # the others came as files
            write_csv(folder / f"{predictor.predictor}.csv", table_of(predictor.predictions))


def _predictor(name: str, figures: Sequence[KnownFigure]) -> PredictorScore:
    if name != OWN:
        if not Path(name).exists():
            raise ConfigError(f"score={name}: no such file; expected a CSV of predictions, or resnetx for its own")
        ids = [figure.figure.id for figure in figures]
        return PredictorScore(predictor=name, predictions=read_predictions(Path(name), ids))
    with progress.counting("figures", len(figures)) as advance:
        predictions = []
        for figure in figures:
            predictions.append(figure.own())
            advance(1)
    return PredictorScore(
        predictor=OWN, predictions=[prediction for prediction in predictions if prediction is not None]
    )


# ---- baselines ------------------------------------------------------------------------------------------------------


def _baselines(figures: Sequence[KnownFigure]) -> Iterator[PredictorScore]:
    linear = [_linear(figure.figure) for figure in figures]
    yield PredictorScore(predictor=LINEAR, predictions=[prediction for prediction in linear if prediction is not None])
    alpha_beta = [(figure.figure.id, figure.alpha_beta()) for figure in figures]
    yield PredictorScore(
        predictor=ALPHA_BETA,
        predictions=[FigurePrediction(id=name, predicted=value) for name, value in alpha_beta if value is not None],
    )


def _linear(figure: PublishedFigure) -> FigurePrediction | None:
    if figure.one_gpu is None or figure.gpus is None:
        return None
    return FigurePrediction(id=figure.id, predicted=figure.gpus * figure.one_gpu)


# How far off predictors are of published figures, kind by kind: mean, worst and bias of the error, and coverage.
#
# An error is predicted / value - 1, of a rate or of a time as the figure is one; a bias above 0 says that predictions
# are too fast, so that of a time counts the other way. Predictors are told apart by nothing but what they predict:
# resnetx is one of them.

ALL = "all"
TIMES = ("s", "us")  # units in which less is faster


def scores(figures: Sequence[PublishedFigure], predictors: Iterable[PredictorScore]) -> list[KindScore]:
    """A score for each kind and each predictor that predicts any of it, then those of all kinds; kinds in order."""
    predictors = list(predictors)
    by_id = [
        (predictor.predictor, {prediction.id: prediction for prediction in predictor.predictions})
        for predictor in predictors
    ]
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
    errors = [prediction.predicted / figure.value - 1 for figure, prediction in pairs]
    holding = [
        prediction.low <= figure.value <= prediction.high
        for figure, prediction in pairs
        if prediction.low is not None and prediction.high is not None
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


# Predictions of published figures as CSV, by whomever: `id,predicted`, and `low,high` for who states an interval.
#
#     id,predicted,low,high
#     allreduce/dgx1-p100/nccl2/8/64MiB/1c0ffe,58.2,50.1,66.9
#
# The units are those of the figures. Other columns are left unread; a figure without a row is not predicted.

NEEDED, INTERVAL = ("id", "predicted"), ("low", "high")
LIMIT_BYTES = 2**24  # a hundred thousand lines


def read_predictions(path: Path, known: Collection[str]) -> list[FigurePrediction]:
    """The predictions of a file, in its order. `known`: the ids that there are."""
    file = File(path, "a CSV of predictions", LIMIT_BYTES, f"score={path}")
    ids, predictions = set(known), dict[str, FigurePrediction]()
    for line, cells in _rows(file):
        prediction = _prediction(file, line, cells)
        if prediction.id not in ids:
            near = difflib.get_close_matches(prediction.id[:100], known, n=1)
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else "; figures.csv of `resnetx compare score=resnetx out=` has them"
            )
            raise file.error(f"id {shortened(prediction.id, 100)}: no figure has it{hint}", line)
        if prediction.id in predictions:
            raise file.error(f"id {prediction.id}: given twice; expected one prediction of each figure", line)
        predictions[prediction.id] = prediction
    if not predictions:
        raise file.error("no predictions; expected a line for each figure that is predicted")
    return list(predictions.values())


def _rows(file: File) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row by its columns, with its line."""
    reader = csv.reader(file.text().splitlines(), strict=True)
    try:
        columns = [name.strip() for name in next(reader, [])]
        if missing := [name for name in NEEDED if name not in columns]:
            expected = ",".join((*NEEDED, *INTERVAL))
            raise file.error(
                f"no column {' and no column '.join(missing)}; expected {expected} (low, high may lack)", 1
            )
        if twice := [name for name in (*NEEDED, *INTERVAL) if columns.count(name) > 1]:
            raise file.error(f"column {twice[0]} is there twice; expected it once", 1)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) != len(columns):
                    raise file.error(
                        f"{len(cells)} cells; expected {len(columns)}, as many as columns", reader.line_num
                    )
                yield reader.line_num, dict(zip(columns, map(str.strip, cells), strict=True))
    except csv.Error as error:
        raise file.error(f"not CSV ({error})", reader.line_num) from None


def _prediction(file: File, line: int, cells: Mapping[str, str]) -> FigurePrediction:
    predicted = _number(file, line, "predicted", cells["predicted"])
    assert predicted is not None, "an empty cell is refused"
    low, high = (_number(file, line, name, cells.get(name, "")) for name in INTERVAL)
    if (low is None) != (high is None):
        raise file.error(
            f"{'low' if low is None else 'high'} is empty; expected both ends of an interval, or none", line
        )
    if low is not None and high is not None and not low <= predicted <= high:
        raise file.error(f"predicted {predicted:g} is not within its interval, {low:g} to {high:g}", line)
    return FigurePrediction(id=cells["id"], predicted=predicted, low=low, high=high)


def _number(file: File, line: int, column: str, cell: str) -> float | None:
    """A positive figure, or one end of an interval, which may be empty, and low 0."""
    if not cell and column in INTERVAL:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (value == 0 and column != "low"):
        raise file.error(f"{column} {shortened(cell, 100) or '(empty)'}: expected a positive number", line)
    return value
