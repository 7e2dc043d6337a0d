"""Why one result is not another, or where the time of one goes: runs, studies and predictions part by part, benches
figure by figure.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from resnetx import progress
from resnetx.api.benches import read_benches
from resnetx.api.load import load
from resnetx.api.studies import MeasuredStudy
from resnetx.errors import ConfigError
from resnetx.loading import is_folder
from resnetx.record import SCHEMA, BenchRecord, RunFolder, RunRecord, RunSummaryReader, StudyRecord
from resnetx.record.prediction import Prediction
from resnetx.reporting.explain import Explained, Side, alone, explained, sides_of_prediction, sides_of_study
from resnetx.reporting.explain_benches import ExplainedFigure, bench_alone, explained_benches
from resnetx.reporting.study.points import study_points
from resnetx.reporting.study.results import Results, points
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.table import Records

Explainable = MeasuredStudy | Prediction | BenchRecord


def explain(
    a: "keywords.Text | Explainable",
    b: "keywords.Text | Explainable | None" = None,
) -> Records[Explained] | Records[ExplainedFigure]:
    """The step of each case that both have, part by part; of one alone where its own time goes.

    `a`, `b`: folders of runs, studies, predictions or benches, or what `train`, `sweep`, `predict`, `bench` and `load`
    return. Of two benches each figure that both have; of one, beside what its system is described to allow.

    >>> import resnetx
    >>> one, two = resnetx.explain("results/cpu-2core/quickstart")
    >>> [part.name for part in two.parts]
    ['useful', 'input', 'communication', 'waiting', 'the rest']
    """
    results = [_result(each) for each in (a, b) if each is not None]
    benches = [each for each in results if isinstance(each, list)]
    if benches:
        return _of_benches(results, benches)
    of_a = _sides(results[0])
    if b is None:
        return Records([alone(side) for side in of_a])
    found = explained(of_a, _sides(results[1]))
    if not found:
        raise ConfigError(
            "explain: the two have no case in common; expected a workload, batch, precision, strategy and number of "
            "GPUs that are alike in both"
        )
    return Records(found)


def _of_benches(results: Sequence[Any], benches: Sequence[list[BenchRecord]]) -> Records[ExplainedFigure]:
    if len(benches) < len(results):
        raise ConfigError(
            "explain: one is a bench, and the other is not; a bench is explained beside a bench, and calibrates a "
            "prediction (calibration=)"
        )
    if len(benches) == 1:
        return Records(bench_alone(benches[0]))
    found = explained_benches(*benches)
    if not found:
        raise ConfigError("explain: the two benches have no collective, copy and size in common")
    return Records(found)


def _result(given: Any) -> Any:
    """What is given, loaded; of a folder of several benches, all of them as a list."""
    if isinstance(given, BenchRecord):
        return [given]
    if not isinstance(given, str | PathLike):
        return given
    path = given_path(given)
    if is_folder(path) and (benches := read_benches(path)):
        return benches
    found = load(path)
    if isinstance(found, RunRecord):
        return _one_run(path)
    return [found] if isinstance(found, BenchRecord) else found


def _one_run(path: Path) -> MeasuredStudy:
    """A run as a study of one point, without controls."""
    folder = RunFolder(path if is_folder(path) else path.parent)
    run = RunSummaryReader()(folder)
    made = StudyRecord(
        kind="study", schema=SCHEMA, name=folder.path.name, about="", node="", points=[run.request], repeats=1,
        twins=0, baseline=run.request.gpus, convention="caffe", resnetx="",
    )  # fmt: skip
    results = Results(made, folder.path, list(points(made.points, {run.key: [run]})), [])
    return MeasuredStudy(results, study_points([results]))


def _sides(result: Any) -> list[Side]:
    if isinstance(result, Prediction):
        sides = sides_of_prediction(result)
        if left := len(result.points) - len(sides):
            progress.note(f"{left} of {len(result.points)} points are open or cannot run: left out")
    elif isinstance(result, MeasuredStudy):
        sides = sides_of_study(result.points)
    else:
        raise ConfigError(
            f"explain: a {type(result).__name__}; expected a run, a study, a prediction or a bench (or its folder)"
        )
    if not sides:
        raise ConfigError("explain: no case in it has a rate")
    return sides
