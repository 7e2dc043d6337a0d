"""The targets that hand records to verbs, as users do, by their paths: what the library answers, and its screens.

A refusal by a verb may name a setting instead of the file; that readers name files, `of_records` looks at.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import resnetx
from resnetx.api import compare as comparing
from resnetx.api.bench import export_bench
from resnetx.cli.verbs import show_compare, show_predict, show_reproduce, show_sweep, show_topology
from resnetx.cli.verbs import show_compare as show_bench_comparison
from resnetx.record import (
    SCHEMA,
    BenchRecord,
    RunFolder,
    RunSummaryReader,
    StudyFolder,
    read,
    seal,
    write,
)
from resnetx.record.comparisons import Accuracy, BenchComparison, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Cause, Check, CheckedRun, Outlier, Remark, Steering
from resnetx.reporting.compared_benches import PAYLOADS_BYTES, compare_benches
from resnetx.reporting.compared_studies import compare as compare_studies
from resnetx.table import Tabular
from tests.fuzz import of_records
from tests.fuzz.harness import Target, of_two, seldom
from tests.fuzz.of_steering import steerings

SHOWN: dict[type, Callable[[Any], None]] = {
    Accuracy: show_compare.accuracy,
    BenchComparison: show_bench_comparison.bench_comparison,
    Comparison: show_compare.show_studies,
    Prediction: show_predict.prediction,
    CheckedPapers: show_reproduce.papers_screen,
    Score: show_reproduce.score,
    Steering: show_topology.steering,
    SystemComparison: show_compare.comparison,
}


def _shown(path: Path) -> Any:
    """What `resnetx.load` makes of a record or a folder: as rows, and of one in four on the screen."""
    found = resnetx.load(path)
    if isinstance(found, Tabular):
        found.table()
    if (show := SHOWN.get(type(found))) and seldom(path, 4):
        show(found)
    return found


def _reported(folder: Path) -> None:
    """The page of what is in a folder, which takes a while to draw."""
    out = folder / "page"
    resnetx.report(folder, out=str(out))
    shutil.rmtree(out)


# ---- studies --------------------------------------------------------------------------------------------------------


def _use_study_of_runs(path: Path) -> None:
    """A study with one point, whose runs and twins have the record; compared with one that nothing is wrong with."""
    folder = StudyFolder(path.parent.parent)
    brief = RunSummaryReader()(RunFolder(path.parent))
    write(folder.study, msgspec.structs.replace(of_records.quickstart(), points=[brief.request]))
    study = _shown(folder.path)
    show_sweep.show_study("a study", "", study.points)
    show_sweep.limits(study.points)
    if seldom(path, 4):
        of_two(lambda: resnetx.steer(path, systems="dgx1-v100"))
    if seldom(path):
        of_two(lambda: resnetx.compare(folder.path, of_records.QUICKSTART))
    if seldom(path, 512):
        _reported(folder.path)


def _use_study(path: Path) -> None:
    """The definition of a study whose runs are there."""
    study = _shown(path.parent)
    show_sweep.show_study("a study", "", study.points)
    if seldom(path):
        of_two(lambda: resnetx.compare(path.parent, of_records.QUICKSTART))
    if seldom(path, 512):
        _reported(path.parent)


# ---- benches and traces ---------------------------------------------------------------------------------------------


def _of_all_kinds() -> list[bytes]:
    """Benches of collectives, and of copies between cores, links and nodes."""
    paths = [
        of_records.RESULTS / "bench" / "collectives_g2" / "record.json",
        of_records.RESULTS / "bench" / "copies_g4" / "record.json",
        *sorted((of_records.RESULTS.parent / "two-nodes" / "bench").glob("*/record.json"))[:1],
        of_records.RESULTS.parent / "lab" / "degraded" / "record.json",
    ]
    return [of_records.shorter_bench(path) for path in paths]


def _use_bench(path: Path) -> None:
    _shown(path)
    of_two(lambda: export_bench(path))
    of_two(lambda: resnetx.topology("dgx1-p100", collective="allreduce", devices=[0, 1], calibration=str(path)))
    of_two(lambda: resnetx.steer(path, systems="dgx1-v100"))
    if seldom(path, 4):
        of_two(lambda: show_bench_comparison.bench_comparison(resnetx.compare(path, path)))
    if seldom(path, 512):
        _reported(path.parent)


def _use_trace(path: Path) -> None:
    """An imported one, of the GPU of that system."""
    made = resnetx.predict(path, systems=["dgx1-v100"], gpus=[1, 2])
    made.table()
    if seldom(path):
        show_predict.prediction(made)


# ---- what is made of them -------------------------------------------------------------------------------------------


def _use_prediction(path: Path) -> None:
    _shown(path)
    if seldom(path, 4):
        of_two(lambda: show_compare.comparison(resnetx.compare(path)))
    if seldom(path):
        of_two(lambda: show_compare.accuracy(resnetx.compare(path, of_records.QUICKSTART)))


def _use_steering(path: Path) -> None:
    _shown(path)
    if seldom(path, 512):
        _reported(path.parent)


@cache
def _checks() -> list[bytes]:
    """A node and a pair that stand out, with all that may be known of them, and one that ended badly."""
    run = CheckedRun(
        measure="all-reduce", nodes=["a"], round=0, kind="x", outcome="ok", reason="", time_s=2e-3, expected_s=1e-3,
        most_s=1.1e-3, verdict="low", median_s=1e-3, limit_s=1.1e-3, folder="f",
    )  # fmt: skip
    runs = [
        run,
        msgspec.structs.replace(run, measure="training", nodes=["b"], verdict="as expected"),
        msgspec.structs.replace(run, measure="pair", nodes=["a", "b"], round=1),
    ]
    found = Outlier(
        what="node", name="a", nodes=["a"], measure="all-reduce", against=["fleet", "description"], found="2 ms",
        causes=[Cause("clock", "1 GHz")],
    )  # fmt: skip
    made = Check(
        kind="check", schema=SCHEMA, resnetx="0", started_at="2026-01-01T00:00:00.000+00:00", duration_s=20.0,
        settings={"words": ""}, nodes=["a", "b"], gpus=2, size_bytes=2**20, workload="ResNet/1", batch_size=8,
        system="dgx-h100", budget_s=120.0, spreads=5.0, floor=0.1, runs=runs,
        outliers=[found, msgspec.structs.replace(found, what="pair", nodes=["a", "b"], measure="pair")],
        remarks=[Remark("b", Cause("software", "another driver"))], left_out=["a pair"], pairs=1, pairs_tried=1,
        unknown={},
    )  # fmt: skip
    return [msgspec.json.encode(seal(made))]


def _use_check(path: Path) -> None:
    made = _shown(path)
    assert made.healthy or made.outlying_nodes is not None


@cache
def _bench_comparisons() -> list[bytes]:
    path = of_records.RESULTS / "bench" / "collectives_g2" / "record.json"
    side = (path, [read(path, BenchRecord)])
    return [msgspec.json.encode(compare_benches(side, side, PAYLOADS_BYTES))]


@cache
def _comparisons() -> list[bytes]:
    whole = comparing.loaded_study(StudyFolder(of_records.QUICKSTART))
    return [msgspec.json.encode(compare_studies(whole, whole))]


def _samples(target: str) -> Callable[[], Sequence[bytes]]:
    """Those of another target."""
    return next(each.samples for each in of_records.TARGETS if each.name == target)


def _verb(name: str, file: str, samples: Callable[[], Any], use: Callable[[Path], object]) -> Target:
    return Target(f"verbs-{name}", file, samples, use, named=False)


TARGETS = (
    _verb("run", "study/run_r1/record.json", _samples("run"), _use_study_of_runs),
    _verb("study", "study.json", _samples("study-record"), _use_study),
    _verb("bench", "record.json", _of_all_kinds, _use_bench),
    _verb("trace", "trace.json", lambda: _samples("trace")()[1:], _use_trace),
    _verb("prediction", "prediction.json", _samples("prediction"), _use_prediction),
    _verb("steering", "steering.json", steerings, _use_steering),
    _verb("check", "check.json", _checks, _use_check),
    _verb("comparison", "comparison.json", _comparisons, _shown),
    _verb("bench-comparison", "comparison.json", _bench_comparisons, _shown),
    _verb("systems", "comparison.json", _samples("systems"), _shown),
    _verb("accuracy", "accuracy.json", _samples("accuracy"), _shown),
    _verb("papers", "papers.json", _samples("papers"), _shown),
    _verb("score", "score.json", _samples("score"), _shown),
)
