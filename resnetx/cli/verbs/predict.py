"""`predict`: what a workload would do on systems that you do not have."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.grid import PredictedGrid
from resnetx.api.predict import predict
from resnetx.cli import show
from resnetx.cli.tables import show_predict
from resnetx.cli.verbs.validate import validate_
from resnetx.study import Point


def predict_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts and shows what is predicted."""
    if options.validate:
        return validate_(options, paths, asked, "predict", show_predict.validation)
    made = predict(*paths, **asked)
    if isinstance(made, PredictedGrid):
        show.json_lines([made]) if options.json else show_predict.grid(made)
        return 0
    if options.json:
        show.json_lines(made.points)
        return 0
    show_predict.prediction(made, stored=bool(asked.get("out")) or "results" in asked)
    return 0
