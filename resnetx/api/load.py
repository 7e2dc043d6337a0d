"""Whatever is on disk, read as what it is."""

from pathlib import Path
from typing import Any

import msgspec

from resnetx import record
from resnetx.api import predictions
from resnetx.api.studies import MeasuredStudy, measured_study, only_study
from resnetx.config import given_path
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, RunFolder, RunRecord, StudyFolder
from resnetx.record.accuracy import Accuracy, accuracy_file
from resnetx.record.bench_comparison import BenchComparison, bench_comparison_file
from resnetx.record.check import Check, check_file
from resnetx.record.checked_papers import CheckedPapers, checked_papers_file
from resnetx.record.comparison import Comparison, comparison_file
from resnetx.record.prediction import Prediction, prediction_file
from resnetx.record.score import Score, score_file
from resnetx.record.steering import Steering, steering_file
from resnetx.record.system_comparison import SystemComparison, system_comparison_file
from resnetx.record.trace import Trace
from resnetx.settings import keywords
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
    if is_file(StudyFolder(folder).study):
        return measured_study(StudyFolder(folder))
    files = (
        RunFolder(folder).record,
        prediction_file(folder),
        system_comparison_file(folder),
        comparison_file(folder),
        accuracy_file(folder),
        checked_papers_file(folder),
        score_file(folder),
        steering_file(folder),
        check_file(folder),
        bench_comparison_file(folder),
    )  # a prediction goes before what is derived of it
    for file in files:
        if is_file(file):
            return _record(file)
    return (
        measured_study(only_study(folder)) if any(folder.rglob(StudyFolder(folder).study.name)) else read_trace(folder)
    )


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
