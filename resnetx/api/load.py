"""Whatever is on disk, read as what it is."""

import re
from collections import defaultdict
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from resnetx import progress, record
from resnetx.api import stored as predictions
from resnetx.api.drawings import kept_answer
from resnetx.api.stored import MeasuredStudy, counted, listed, measured_study, own_records, read_benches
from resnetx.api.stored import stored as read_stored
from resnetx.compose import asked
from resnetx.errors import ConfigError
from resnetx.interconnect.systems import system
from resnetx.loading import is_file, is_folder
from resnetx.record import (
    SCHEMA,
    BenchRecord,
    RunFolder,
    RunRecord,
    RunSummary,
    RunSummaryReader,
    StudyFolder,
    StudyRecord,
)
from resnetx.record.comparisons import Accuracy, BenchComparison, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Check, Steering
from resnetx.record.traces import Observation, Trace, observations
from resnetx.reporting.explain import (
    Explained,
    Side,
    alone,
    explained,
    part_columns,
    part_rows,
    sides_of_prediction,
    sides_of_study,
)
from resnetx.reporting.explain_benches import ExplainedFigure, bench_alone, explained_benches
from resnetx.reporting.slow_rank import (
    JOB_PARTS,
    JobPart,
    ObservedRank,
    job_parts,
    jobs_answer,
    observed_ranks,
)
from resnetx.reporting.study_points import study_points
from resnetx.reporting.study_scaling import Results, points
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.table import Answered, Records, Table, as_shown
from resnetx.traces.trace_files import read_trace

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
    "observation": Observation,
}


def load(path: keywords.Text) -> Any:
    """What is at a path: a record, the study in a folder, the record or the trace of a folder, or a system in YAML.

    Its type is one of `KINDS`, `MeasuredStudy` or `System`.

    >>> import resnetx
    >>> resnetx.load("configs/system/dgx1-p100.yaml").name
    'dgx1-p100'
    """
    found = given_path(path)
    if is_folder(found):
        return _of_folder(found)
    if not is_file(found):
        raise ConfigError(f"{found}: no such file or folder")
    return system.load(str(found)) if found.suffix in (".yaml", ".yml") else read_record(found)


def _of_folder(folder: Path) -> Any:
    own = own_records(folder, [path.name for path in folder.iterdir()])
    derived = [entry for entry in own if entry.kind in _DERIVED]
    first = [entry for entry in own if entry not in derived] or derived
    if len(first) > 1:
        raise ConfigError(f"{folder}: holds {counted(first)}; give the file of one of them")
    if first:
        return read_record(first[0].file)
    below = read_stored(folder)
    if not below and (answer := kept_answer(folder)):
        raise ConfigError(f"{answer}; expected a run, a study, a bench or another record")
    if not below:
        raise ConfigError(
            f"{folder}: contains no record of resnetx; expected the folder of a run, a study, a bench, "
            "a trace, a prediction or the like"
        )
    if all(entry.kind == "trace" for entry in below):
        return read_trace(folder)
    if len(below) > 1:
        paths = list(dict.fromkeys(entry.path.parent if entry.kind == "observation" else entry.path for entry in below))
        raise ConfigError(f"{folder}: contains {counted(below)}; give the folder of one of them: {listed(paths)}")
    return read_record(below[0].file)


# Kept beside the prediction that they are made of, and loaded where they are alone.
_DERIVED = ("system comparison", "comparison", "accuracy", "bench comparison")


def read_record(file: Path) -> Any:
    """The record in a file, as what it says that it is."""
    kind = record.read(file, record.RecordKind, "a record of resnetx").kind
    if kind == "study":
        return measured_study(StudyFolder(file.parent))
    if kind not in KINDS:
        raise ConfigError(f"{file}: not a record of resnetx; expected the record of a {', a '.join(KINDS)}")
    if kind == "prediction":
        return predictions.read(file)
    return record.read(file, KINDS[kind])


# Why one result is not another, or where the time of one goes: runs, studies and predictions part by part, benches
# figure by figure.

Explainable = MeasuredStudy | Prediction | BenchRecord


def explain(
    a: "keywords.Text | Explainable",
    b: "keywords.Text | Explainable | None" = None,
    **settings: Unpack[keywords.ExplainKeywords],
) -> Records[Explained] | Records[ExplainedFigure] | Records[ObservedRank] | Records[JobPart]:
    """The step of each case that both have, part by part; of one alone where its own time goes.

    `a`, `b`: folders of runs, studies, predictions or benches, or what `train`, `sweep`, `predict`, `bench` and `load`
    return. Of two benches each figure that both have; of one, beside what its system is described to allow. Of a folder
    that `observe` wrote, each rank of its job, and which one the others wait for; of two the parts of both steps. With
    `out`: all is kept there, with a page.

    >>> import resnetx
    >>> one, two = resnetx.explain("results/cpu-2core/quickstart")
    >>> [part.name for part in two.parts]
    ['useful', 'input', 'communication', 'waiting', 'the rest']
    """
    given = asked("explain", settings)
    of_a, of_b = (observations(given_path(each)) if isinstance(each, str | PathLike) else [] for each in (a, b))
    found = _jobs(of_a, of_b, b is None) if of_a or of_b else _explained(a, b)
    if given.get("out") is not None:
        _store(found, of_a if b is None else [], Path(str(given["out"])))
    return found


def _jobs(a: list[Observation], b: list[Observation], alone: bool) -> Records[ObservedRank] | Records[JobPart]:
    """The ranks of a job that was observed, or two jobs beside each other."""
    if alone:
        return Records(observed_ranks(a))
    if not (a and b):
        raise ConfigError("explain: one is an observed job, and the other is not; give two, or the job alone")
    parts = job_parts(a, b)
    return Answered(parts, jobs_answer(parts, observed_ranks(a), observed_ranks(b)), JOB_PARTS)


MOST_SHOWN = 8  # cases whose parts a page shows as tables; of more it names the files


def _store(found: Records[Any], job: Sequence[Observation], folder: Path) -> None:
    """What was explained as JSON lines, as a table, and as a page."""
    from resnetx.api import drawings, pages
    from resnetx.reporting.charts.step_parts import compared_times, explained_parts
    from resnetx.reporting.page import PageTable, Part

    answer = found.answer()
    assert answer is not None and answer.table is not None, "what is explained answers"
    drawings.store_rows(folder, "explain", found)
    if job:
        pages.store(pages.of_job(job), folder)
        return
    cases = [each for each in found if isinstance(each, Explained) and each.parts]
    tables = [PageTable("cases", "Case by case", answer.table, found.table())] if len(cases) != 1 else []
    for number, each in enumerate(cases, 1):
        rows = Table(
            ["case", "part", "a_s", "b_s", "evidence"],
            [[each.case, part.name, part.a_s, part.b_s, part.evidence] for part in each.parts],
        )
        *parts, whole = part_rows(each)
        shown = as_shown(part_columns(each), [*parts, whole._replace(name="the step")])
        alone = len(each.parts) == 1 or number > MOST_SHOWN
        tables.append(PageTable(f"parts-{number}", each.case, shown, rows, only_file=alone))
    notes = list(dict.fromkeys(line for each in found for line in getattr(each, "evidence", [])))
    figures = explained_parts(cases) or compared_times(list(found))
    pages.store(Part("Where the time goes", answer.sentences, notes, figures=figures, tables=tables), folder)


def _explained(
    a: "keywords.Text | Explainable", b: "keywords.Text | Explainable | None"
) -> Records[Explained] | Records[ExplainedFigure]:
    results = [_result(each) for each in (a, b) if each is not None]
    benches = [result for result in results if isinstance(result, list)]
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
        if not (own := bench_alone(benches[0])):
            raise ConfigError("explain: the bench has no figure whose results are right; expected one at least")
        return Records(own)
    figures = explained_benches(*benches)
    if not figures:
        raise ConfigError("explain: the two benches have no collective, copy and size in common")
    return Records(figures)


def _result(given: Any) -> Any:
    """What is given, loaded; of a folder of several benches, all of them as a list."""
    if isinstance(given, BenchRecord):
        return [given]
    if not isinstance(given, str | PathLike):
        return given
    path = given_path(given)
    if is_folder(path) and (benches := read_benches(path)):
        return benches
    below = read_stored(path)
    if below and all(each.kind == "run" for each in below):
        return _of_runs(path, [RunFolder(each.file.parent) for each in below])
    found = load(path)
    return [found] if isinstance(found, BenchRecord) else found


def _of_runs(path: Path, folders: Sequence[RunFolder]) -> MeasuredStudy:
    """Runs as a study of as many points as they have requests, without controls."""
    reader, runs = RunSummaryReader(), defaultdict[str, list[RunSummary]](list)
    for folder in folders:
        run = reader(folder)
        runs[run.key].append(run)
    requests = [same[0].request for same in runs.values()]
    made = StudyRecord(
        kind="study", schema=SCHEMA, name=path.name, about="", node="", points=requests, repeats=1,
        twins=0, baseline=min(request.gpus for request in requests), convention="caffe", resnetx="",
    )  # fmt: skip
    results = Results(made, path, list(points(made.points, runs)), [])
    return MeasuredStudy(results, study_points([results]))


def _sides(result: Any) -> list[Side]:
    if isinstance(result, Prediction):
        sides = sides_of_prediction(result)
        if left := len(result.points) - len(sides):
            progress.note(f"{left} of {len(result.points)} cases have no rate, or only its two ends: left out")
    elif isinstance(result, MeasuredStudy):
        sides = sides_of_study(result.points)
    elif isinstance(result, Observation):
        raise ConfigError(
            "explain: what one rank of a job has seen; expected the folder of all of them, which has rank0"
        )
    else:
        what = " ".join(re.findall("[A-Z][a-z]*", type(result).__name__)).lower()
        raise ConfigError(f"explain: a {what} has no parts of a step; expected a run, a study, a prediction or a bench")
    if not sides:
        raise ConfigError("explain: no case in it has a rate")
    return sides
