"""Whatever is on disk, read as what it is."""

from pathlib import Path
from typing import Any

import msgspec

from resnetx import record
from resnetx.api import predictions
from resnetx.api.stored import counted, listed, own_records, stored
from resnetx.api.studies import MeasuredStudy, measured_study
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, RunRecord, StudyFolder
from resnetx.record.accuracy import Accuracy
from resnetx.record.bench_comparison import BenchComparison
from resnetx.record.check import Check
from resnetx.record.checked_papers import CheckedPapers
from resnetx.record.comparison import Comparison
from resnetx.record.prediction import Prediction
from resnetx.record.score import Score
from resnetx.record.steering import Steering
from resnetx.record.system_comparison import SystemComparison
from resnetx.record.trace import Trace
from resnetx.settings import keywords
from resnetx.settings.files import given_path
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
    below = stored(folder)
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
