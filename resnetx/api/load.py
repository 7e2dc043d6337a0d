"""Whatever is on disk, read as what it is."""

from pathlib import Path
from typing import Any

import msgspec

from resnetx import progress, record
from resnetx.api import stored as predictions
from resnetx.api.stored import MeasuredStudy, counted, listed, measured_study, own_records
from resnetx.api.stored import stored as read_stored
from resnetx.errors import ConfigError
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.system import System
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, RunRecord, StudyFolder
from resnetx.record.check import Check
from resnetx.record.comparison import Accuracy, BenchComparison, Comparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.steering import Steering
from resnetx.record.system_comparison import SystemComparison
from resnetx.record.trace import Trace
from resnetx.reporting.explain import Explained, Side, alone, explained, sides_of_prediction, sides_of_study
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.table import Records
from resnetx.traces.files import read_trace

KINDS: dict[str, Any] = {
    "run": RunRecord,
    "bench": BenchRecord,
    "trace": Trace,
    "prediction": Prediction,  # read by `predictions`
    "accuracy": Accuracy,
    "comparison": Comparison,
    "bench comparison": BenchComparison,
    "system comparison": SystemComparison,
    "checked papers": CheckedPapers,
    "score": Score,
    "steering": Steering,
    "check": Check,
}

Loaded = (
    RunRecord
    | BenchRecord
    | Trace
    | Prediction
    | Accuracy
    | BenchComparison
    | Comparison
    | SystemComparison
    | CheckedPapers
    | Score
    | Steering
    | Check
    | MeasuredStudy
    | System
)


def load(path: keywords.Text) -> Any:
    """What is at a path: a record, the study in a folder, the record or the trace of a folder, or a system in YAML.

    Its type is one of `Loaded`.

    >>> import resnetx
    >>> resnetx.load("configs/system/dgx1-p100.yaml").name
    'dgx1-p100'
    """
    found = given_path(path)
    if is_folder(found):
        return _of_folder(found)
    if not is_file(found):
        raise ConfigError(f"{found}: no such file or folder")
    return system.load(str(found)) if found.suffix in (".yaml", ".yml") else _record(found)


def _of_folder(folder: Path) -> Loaded:
    own = own_records(folder, [each.name for each in folder.iterdir()])
    derived = [each for each in own if each.kind in _DERIVED]
    first = [each for each in own if each not in derived] or derived
    if len(first) > 1:
        raise ConfigError(f"{folder}: holds {counted(first)}; give the file of one of them")
    if first:
        return _record(first[0].file)
    below = read_stored(folder)
    if all(each.kind == "trace" for each in below):
        return read_trace(folder)
    if len(below) > 1:
        paths = [each.path for each in below]
        raise ConfigError(f"{folder}: contains {counted(below)}; give the folder of one of them: {listed(paths)}")
    return _record(below[0].file)


# Kept beside the prediction that they are made of, and loaded where they are alone.
_DERIVED = ("system comparison", "comparison", "accuracy", "bench comparison")


class _Kind(msgspec.Struct):
    kind: str = ""


def _record(file: Path) -> Loaded:
    kind = record.read(file, _Kind, "a record of resnetx").kind
    if kind == "study":
        return measured_study(StudyFolder(file.parent))
    if kind not in KINDS:
        raise ConfigError(f"{file}: not a record of resnetx; expected the record of a {', a '.join(KINDS)}")
    if kind == "prediction":
        return predictions.read(file)
    found: Loaded = record.read(file, KINDS[kind])
    return found


# Why one result is not another, or where the time of one goes: runs, studies and predictions, part by part.


def explain(
    a: "keywords.Text | MeasuredStudy | Prediction",
    b: "keywords.Text | MeasuredStudy | Prediction | None" = None,
) -> Records[Explained]:
    """The step of each case that both have, part by part; of one alone where its own time goes.

    `a`, `b`: folders of a study or a prediction, or what `sweep`, `load` and `predict` return.

    >>> import resnetx
    >>> one, two = resnetx.explain("results/cpu-2core/quickstart")
    >>> [part.name for part in two.parts]
    ['useful', 'input', 'communication', 'waiting', 'the rest']
    """
    of_a = _sides(a)
    if b is None:
        return Records([alone(side) for side in of_a])
    found = explained(of_a, _sides(b))
    if not found:
        raise ConfigError(
            "explain: the two have no case in common; expected a workload, batch, precision, strategy and number of "
            "GPUs that are alike in both"
        )
    return Records(found)


def _sides(given: Any) -> list[Side]:
    result = given if isinstance(given, MeasuredStudy | Prediction) else load(given)
    if isinstance(result, Prediction):
        sides = sides_of_prediction(result)
        if left := len(result.points) - len(sides):
            progress.note(f"{left} of {len(result.points)} points are open or cannot run: left out")
    elif isinstance(result, MeasuredStudy):
        sides = sides_of_study(result.points)
    else:
        what = type(result).__name__
        raise ConfigError(f"{given_path(given)}: a {what}; expected the folder of a study or of a prediction")
    if not sides:
        raise ConfigError(f"{given if isinstance(given, str) else 'the result'}: no case in it has a rate")
    return sides
