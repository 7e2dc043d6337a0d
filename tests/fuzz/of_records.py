"""The targets that read records: of runs, benches, studies, traces, predictions, and what is made of them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from resnetx import record
from resnetx.api.load import load as load_
from resnetx.api.predict_settings import sized, traces
from resnetx.api.stored import read as read_prediction
from resnetx.choices import Bucket, MlpXSettings, NoExchange
from resnetx.cli.verbs import show_compare, show_explain, show_predict, show_sweep
from resnetx.compose import compose
from resnetx.config import check, check_ranks, request_from
from resnetx.interconnect.collectives import measured
from resnetx.interconnect.systems.lab_network import lab_network, read_network
from resnetx.interconnect.systems.system import load
from resnetx.literature.papers import check_papers
from resnetx.literature.score import scores
from resnetx.measure import lab_ranks
from resnetx.measure.launch import ending
from resnetx.measure.launch.ending import Ending
from resnetx.measure.launch.executor import one_node
from resnetx.measure.study_runs import definition
from resnetx.prediction.memory import step_bytes
from resnetx.prediction.predict import Curve, predicted_curves
from resnetx.prediction.roofline import work
from resnetx.prediction.scenario import Deployment, TrainingSetup, Workload
from resnetx.record import (
    BenchFile,
    BenchRecord,
    RunFile,
    RunFolder,
    RunRecord,
    RunSummaryReader,
    StudyFolder,
    StudyRecord,
)
from resnetx.record.comparisons import Accuracy, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, FigurePrediction, PredictorScore, PublishedFigure, Score
from resnetx.record.prediction import Prediction
from resnetx.record.traces import Observation, ObservedBucket, Trace, observations, rank_folder
from resnetx.reporting import page, study_scaling
from resnetx.reporting.accuracy import check as checked
from resnetx.reporting.compared_studies import compare
from resnetx.reporting.compared_systems import compare_systems as compared
from resnetx.reporting.csv_tables import messages_table, platform, points_table, windows_table
from resnetx.reporting.slow_rank import observed_answer, observed_ranks
from resnetx.reporting.study_points import study_points
from resnetx.reporting.study_scaling import Results
from resnetx.settings.files import CONFIGS
from resnetx.traces import read_all
from resnetx.traces.trace_files import export
from resnetx.workloads import counts, tables, user_file
from tests.fuzz.harness import Target, of_two, seldom
from tests.fuzz.of_yaml import use_calibration

RESULTS = CONFIGS.parent / "results" / "cpu-2core"
QUICKSTART = RESULTS / "quickstart"
TRUTH = RESULTS / "truth"
RUNS = ("g2_phases_bd5fb7db", "g2_9954a026", "g2_input_880e44b5", "g2_none_390f86b0", "g1_a661be61")


def _json(path: Path, **changed: Callable[[Any], Any]) -> bytes:
    """A JSON file, with some of its fields made shorter."""
    tree = json.loads(path.read_bytes())
    fields = {field: change(tree[field]) for field, change in changed.items() if field in tree}
    return json.dumps(tree | fields).encode()


def _reader(kind: Any) -> Callable[[Path], object]:
    return lambda path: record.read(path, kind)


def _own_layers() -> list[bytes]:
    read = counts.Layer(
        name="data", kind="data", inputs=(), output_shape=(48,), in_place=True, parameters=(), multiply_adds=0
    )
    layers = [read, *tables.mlpx(MlpXSettings(x=1, width=8, classes=3), 4)]
    return [msgspec.json.encode(user_file.Saved(layers, ["it has a part in C++"], {"ours.py": "0" * 64}))]


def _use_own_layers(path: Path) -> object:
    """A table that is damaged is counted anew, so that there is nothing to refuse."""
    found = user_file._saved(path, path.with_name("ours.py"))
    if found is None:
        return None
    of_kept = counts.activations(found.layers, 0, "saved")
    request = request_from(compose({"gpus": 1, "precision": "bf16", "image_size": 0}))
    step_bytes(request, found.layers, 8, NoExchange())
    return (
        of_kept,
        work(found.layers, 0),
        [counts.activations(found.layers, 0, each) for each in ("caffe", "torch", "conv")],
    )


# ---- runs and studies -----------------------------------------------------------------------------------------------


def _of_runs(name: str) -> list[bytes]:
    return [_json(path) for run in RUNS for path in sorted(QUICKSTART.glob(f"*{run}_r1/{name}"))]


@cache
def quickstart() -> StudyRecord:
    found: StudyRecord = record.read(QUICKSTART / "study.json", StudyRecord)
    return found


def _results(folder: Path) -> Results:
    """A study of one point, whose runs, and those of its twins, all have the record in a folder."""
    brief = RunSummaryReader()(RunFolder(folder))
    asked = msgspec.structs.replace(quickstart(), points=[brief.request])
    runs = {twin.key: [brief] for twin in brief.request.twins.values()} | {brief.key: [brief]}
    return Results(asked, folder, list(study_scaling.points([brief.request], runs)), [])


@cache
def _measured() -> Results:
    (folder,) = QUICKSTART.glob("*g2_9954a026_r1")
    return _results(folder)


def _use_run(path: Path) -> None:
    record.read(path, RunRecord)
    study = _results(path.parent)
    _show_study(study, path)
    if seldom(path, 4):
        of_two(lambda: compare(study, study))
        of_two(lambda: compare(study, _measured()))


def _show_study(found: Results, path: Path) -> None:
    points = study_points([found])
    for table in (points_table(points), windows_table([found]), messages_table(points)):
        table.records()
    platform([found])
    if seldom(path):
        show_sweep.show_study("a study", "", points)
        show_sweep.limits(points)
        page._html([found], points, [], [], [])


def _studies() -> list[bytes]:
    return [_json(QUICKSTART / "study.json", points=lambda points, at=at: points[at:]) for at in (0, 1)]


def _use_study(path: Path) -> None:
    _show_study(study_scaling.load(StudyFolder(path.parent)), path)
    of_two(lambda: definition(StudyFolder(path.parent), quickstart()))


def _run_files() -> list[bytes]:
    return [*_of_runs("run.json"), *_bench_files()[:1]]


def _bench_files() -> list[bytes]:
    return [_json(path) for path in TRUTH.glob("bench/*/run.json")]


def _use_failure(path: Path) -> None:
    ending.read(Ending(), RunFolder(path.parent), path.parent)


def _use_run_file(path: Path) -> None:
    task = record.read_task(path, RunFile)
    assert one_node(task, RunFolder(path.parent)).line
    check(task.request)
    assert all(request.slug for request in task.request.twins.values())
    record.write(path.with_name("again.json"), task)


def _use_bench_file(path: Path) -> None:
    task = record.read_task(path, BenchFile)
    assert one_node(task, RunFolder(path.parent)).line
    check_ranks(task.request.gpus, task.request.devices, task.request.env)
    record.write(path.with_name("again.json"), task)


FAILURE = b'{"rank": 1, "kind": "error", "time_s": 1.5, "monotonic_s": 2.5, "message": "it broke", "traceback": "in a"}'


# ---- benches and traces ---------------------------------------------------------------------------------------------


def shorter_bench(path: Path) -> bytes:
    """A bench with some of its sizes and copies, and three times of each."""

    def few(key: str, of: int) -> Callable[[list[Any]], list[Any]]:
        return lambda items: [{**item, key: item[key][:3]} for item in items[::of]]

    return _json(path, points=few("times_s", 8), cells=few("time_s", 29))


def _benches() -> list[bytes]:
    return [shorter_bench(path) for path in TRUTH.glob("bench/*/record.json")]


def _use_bench(path: Path) -> None:
    record.read(path, BenchRecord)
    if seldom(path):
        use_calibration(path)
    else:
        measured.read(str(path), "allreduce")


def _shorter(layers: dict[str, Any]) -> dict[str, Any]:
    """The times of two iterations."""
    layers = {key: value[:2] if isinstance(value, list) and key != "layers" else value for key, value in layers.items()}
    return layers | ({"layers": [_shorter(layer) for layer in layers["layers"][::5]]} if "layers" in layers else {})


def _traced_runs() -> list[bytes]:
    return [_json(path, layers=_shorter) for path in sorted(TRUTH.glob("trace/alexnet*/*/record.json"))]


def _traces() -> list[bytes]:
    (folder,) = TRUTH.glob("trace/alexnet*")
    trace = msgspec.to_builtins(read_all(folder)[0])
    trace["batches"] = [{**batch, "times": _shorter(batch["times"])} for batch in trace["batches"]]
    imported = trace | {"how": "imported", "request": None, "device": "v100-sxm2-16gb"}
    return [json.dumps(each).encode() for each in (trace, imported)]


@cache
def _dgx1() -> Deployment:
    return Deployment(load("dgx1-p100"), "nccl2")


def _use_trace(path: Path) -> None:
    for trace in traces(path.parent if path.name == "record.json" else path):
        _predict_from(trace)
        if seldom(path):
            show_explain.show_trace(trace)
            of_two(lambda trace=trace: export(trace, path.parent))


def _predict_from(trace: Trace) -> None:
    bucket = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)
    trace = sized(trace, None, sends=True)
    workload, batch_size = Workload.of_import(trace, bucket), max(each.batch_size for each in trace.batches)
    placements = [((0, 1), 2 * batch_size)]
    predicted_curves([Curve(workload, _dgx1(), TrainingSetup(), placements, ((0,), batch_size))])


def _observations() -> list[bytes]:
    """One rank of two, with steps enough for a rank to be named."""
    column = [0.01] * 32
    buckets = [ObservedBucket(size_bytes=40, ready_s=column)]
    seen = Observation(
        kind="observation", schema=1, workload="Net", strategy="ddp", rank=0, ranks=2, node="n1", device="CPU",
        sm_clock_Hz=1e9, clock="host", software="torch", started_at="", batch_size=8, micro_batches=1, parameters=10,
        gradient_bytes=40, hooks=5, update_s=column, input_s=column, waiting_s=column, forward_s=column,
        backward_s=column, exposed_s=column, step_s=[0.06] * 32, buckets=buckets, unknown={},
    )  # fmt: skip
    return [msgspec.json.encode(seen)]


def _use_observation(path: Path) -> None:
    """A rank as it is, beside one that is sound."""
    other = msgspec.json.decode(_observations()[0]) | {"rank": 1}
    for rank, data in enumerate((path.read_bytes(), msgspec.json.encode(other))):
        rank_folder(path.parent, rank).path.mkdir(exist_ok=True)
        rank_folder(path.parent, rank).record.write_bytes(data)
    if found := observations(path.parent):
        assert observed_answer(observed_ranks(found))


# ---- what is made of them -------------------------------------------------------------------------------------------


def predictions() -> list[bytes]:
    """A prediction of one system; and one of a measured point on two."""
    few = {"points": lambda points: points[:: len(points) - 1], "domains": lambda domains: domains[:1]}
    one = json.loads(_json(TRUTH / "prediction.json", inputs=lambda inputs: inputs[:1], **few))
    (measured_one,) = _measured().points
    like = {**one["points"][0], "request": msgspec.to_builtins(measured_one.request)}
    two = one | {"points": [like, {**like, "system": "gx8"}]}
    return [json.dumps(each).encode() for each in (one, two)]


def _use_prediction(path: Path) -> None:
    made = read_prediction(path)
    of_two(lambda: compared(made))
    of_two(lambda: checked(made, _measured()))
    if seldom(path):
        show_predict.prediction(made)
        of_two(lambda: show_compare.comparison(compared(made)))
        of_two(lambda: show_compare.accuracy(checked(made, _measured())))


def _comparisons() -> list[bytes]:
    return [msgspec.json.encode(compare(_measured(), _measured()))]


@cache
def made_of_two() -> Prediction:
    made: Prediction = msgspec.json.decode(predictions()[1], type=Prediction)
    return made


def _papers() -> list[bytes]:
    return [msgspec.json.encode(check_papers(["sth2017"]))]


def _scores() -> list[bytes]:
    figure = PublishedFigure(id="a", kind="k", value=58.2, unit="GBps", system="gx8", source="s", seen=True)
    made = PredictorScore(predictor="p", predictions=[FigurePrediction(id="a", predicted=50.0, low=40.0, high=60.0)])
    counted = scores([figure], [made])
    score = Score(kind="score", schema=1, resnetx="0", figures=[figure], predictors=[made], scores=counted)
    return [msgspec.json.encode(score)]


def _use_loaded(path: Path) -> None:
    """What `resnetx.load` makes of a record, as a table."""
    found = load_(path)
    if isinstance(found, CheckedPapers | Score):
        found.table()


# ---- the lab --------------------------------------------------------------------------------------------------------


def _networks() -> list[bytes]:
    machine = load("gx8")
    return [msgspec.json.encode(lab_network(machine, devices, 2, 100)) for devices in ([0, 1], [3, 4])]


def _use_network(path: Path) -> None:
    network = read_network(path)
    network.describe()
    for name in network.spaces:
        lab_ranks.address(network, name)


TARGETS = (
    Target("run", "record.json", lambda: _of_runs("record.json"), _use_run),
    Target("run-file", "run.json", _run_files, _use_run_file, named=False),
    Target("bench-file", "run.json", _bench_files, _use_bench_file, named=False),
    Target("study-record", "study.json", _studies, _use_study),
    Target("own-layers", "ours.layers.json", _own_layers, _use_own_layers),
    Target("network", "network.json", _networks, _use_network),
    Target("failure", "failure-rank1.json", lambda: [FAILURE], _use_failure),
    Target("bench", "record.json", _benches, _use_bench),
    Target("traced-run", "record.json", _traced_runs, _use_trace, named=False),
    Target("trace", "trace.json", _traces, _use_trace, named=False),
    Target("observation", "record.json", _observations, _use_observation, named=False),
    Target("prediction", "prediction.json", predictions, _use_prediction),
    Target("comparison", "comparison.json", _comparisons, _reader(Comparison)),
    Target(
        "systems", "comparison.json", lambda: [msgspec.json.encode(compared(made_of_two()))], _reader(SystemComparison)
    ),
    Target(
        "accuracy",
        "accuracy.json",
        lambda: [msgspec.json.encode(checked(made_of_two(), _measured()))],
        _reader(Accuracy),
    ),
    Target("papers", "papers.json", _papers, _use_loaded),
    Target("score", "score.json", _scores, _use_loaded),
)
