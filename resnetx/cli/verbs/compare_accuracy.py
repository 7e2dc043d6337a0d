"""`compare PREDICTION STUDY`: how far off a prediction was, by the study that checks it."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import drawings, show
from resnetx.cli.compose import out_and_baseline
from resnetx.cli.one_study import only_study
from resnetx.cli.tables import show_accuracy, show_predict
from resnetx.cli.verbs.compare_systems import read_prediction
from resnetx.errors import ConfigError
from resnetx.record.accuracy import Accuracy, accuracy_file
from resnetx.reporting.compare.accuracy import check


def compare_accuracy_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Compares the prediction at the first path with the study at the second one."""
    out, baseline = out_and_baseline(overrides)
    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: goes with two studies; iterations are compared here, not speed-ups")
    prediction, study = paths
    made = read_prediction(prediction)
    found = check(made, only_study(study))
    if options.json:
        show.json_lines([found])
    else:
        show_accuracy.accuracy(found)
        show_predict.sources(made)
    if out:
        show.store(out, accuracy_file(out), found)
        _write_figure(out, found)
    return 0


def _write_figure(folder: Path, found: Accuracy) -> None:
    from resnetx.reporting.charts.accuracy import accuracy_figure

    if any(point.error is not None for point in found.points):
        drawings.store([accuracy_figure(found)], folder)
