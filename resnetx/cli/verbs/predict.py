"""`predict`: what a workload would do on systems that you do not have."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.predict import predict
from resnetx.cli import show
from resnetx.cli.tables import show_predict
from resnetx.record.prediction import Prediction
from resnetx.reporting.predicted_answer import prediction_answer
from resnetx.study import Point


def predict_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts and shows what is predicted."""
    if options.validate:
        from resnetx.cli.verbs.validate import validate_

        return validate_(options, paths, asked, "predict", show_predict.validation)
    made = predict(*paths, **asked)
    if not isinstance(made, Prediction):
        show.conclude(options, [made.conclusion], lambda: [made], partial(show_predict.grid, made))
        return 0
    stored = bool(asked.get("out")) or "results" in asked
    screen = partial(show_predict.prediction, made, stored)
    show.conclude(options, prediction_answer(made), lambda: made.points, screen)
    return 0
