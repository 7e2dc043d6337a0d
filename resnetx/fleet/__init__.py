"""Which nodes of a fleet, and pairs of nodes, are slow, and why: short runs on each, beside others and a system."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Unpack

from resnetx import __version__, packages, progress
from resnetx.api.doctor import obstacle_to_launch
from resnetx.api.measuring import announce, machine_name, new_folder, page
from resnetx.api.predict import predicted
from resnetx.api.systems import THIS, load_system
from resnetx.compose import asked
from resnetx.errors import ConfigError
from resnetx.fleet.check_runs import AskedCheck, CheckRuns, asked_check
from resnetx.fleet.outliers import FLOOR, SPREADS, against, checked, facts_of, outliers
from resnetx.interconnect.collectives.bench_reading import with_readings
from resnetx.interconnect.systems.system import System
from resnetx.measure.launch import write
from resnetx.record import SCHEMA, RunRecord, TaskRecord, Unknown, if_known, known, seal, timestamp, whole
from resnetx.record.prediction import PredictedPoint
from resnetx.record.topologies import Check, CheckedRun, CheckFolder, Measure
from resnetx.settings import keywords

NO_SYSTEM = "no system is described that it could stand beside (systems=)"


@dataclass(frozen=True)
class KeptCheck:
    """A check, and the folder that holds it."""

    record: Check
    folder: CheckFolder


def check(**settings: Unpack[keywords.CheckKeywords]) -> Check:
    """Checks this node, or with `launcher="slurm"` those of the job at hand and pairs of them.

    `.healthy` is the verdict, `.outliers` has what stands out, with its likely causes.
    """
    kept = execute(asked_check(settings))
    progress.command(f"record: {kept.folder.check}")
    return kept.record


def execute(made: AskedCheck) -> KeptCheck:
    """Runs a check, judges it, and keeps its record; and its metrics, where they are asked for."""
    if obstacle := packages.not_unix() or packages.obstacle("torch") or obstacle_to_launch(made.fleet.launch):
        raise ConfigError(obstacle)
    described = _described(made)
    announce([made.training_point.request], made.settings.out)
    folder = CheckFolder(new_folder(made.results / machine_name(made.fleet.launch) / "check"))
    started_s, clock_s = time.time(), time.monotonic()
    runs = CheckRuns(made, folder, described.judge)
    if described.gpus is None:
        runs.left_out.append("counting GPUs: nothing says how many a node has (systems=, or gpus_per_node of the site)")
    try:
        runs.run()
    except BaseException as stop:  # Ctrl-C, or Slurm
        name = type(stop).__name__.lstrip("_")
        runs.left_out.append(f"all that had not ended when the check was interrupted ({name})")
        raise
    finally:  # what has ended is judged and kept
        record = _record(made, described, runs, started_s, time.monotonic() - clock_s)
        write(folder.check, record)
    if file := made.settings.prometheus_file:
        store_metrics(file, record)
    page([folder.path], made.settings.out)
    return KeptCheck(record, folder)


def _record(made: AskedCheck, described: "_Described", runs: CheckRuns, started_s: float, duration_s: float) -> Check:
    names, task = list(made.fleet.names), made.training_point
    judged = checked(runs.tried, described.point, described.no_point)
    own = {name: [tried.record for tried in runs.tried if tried.nodes == (name,)] for name in names}
    found, remarks = outliers(judged, [facts_of(name, own[name]) for name in names], described.gpus)
    return seal(
        Check(
            kind="check",
            schema=SCHEMA,
            resnetx=__version__,
            started_at=timestamp(started_s),
            duration_s=duration_s,
            settings={"words": made.words},
            nodes=names,
            gpus=made.gpus,
            size_bytes=made.size_bytes,
            workload=task.request.model.label,
            batch_size=task.request.batch_size,
            system=known(described.name or Unknown(NO_SYSTEM)),
            budget_s=made.budget_s,
            spreads=SPREADS,
            floor=FLOOR,
            runs=judged,
            outliers=found,
            remarks=remarks,
            left_out=runs.left_out,
            pairs=len(names) * (len(names) - 1) // 2,
            pairs_tried=runs.pairs_tried,
            unknown={},
        )
    )


# ---- what the description allows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Described:
    """The system that nodes are judged by, as far as there is one."""

    name: str = ""
    one: System | None = None  # a node
    two: System | None = None  # a pair of nodes
    gpus: int | None = None  # that each node should have; None: not known
    point: PredictedPoint | None = None
    no_point: str = NO_SYSTEM

    def judge(self, record: TaskRecord, nodes: int) -> TaskRecord:
        """A bench of so many nodes beside what is described; a run as it is."""
        if isinstance(record, RunRecord):
            return record
        return with_readings(record, self.two if nodes > 1 else self.one)


def _described(made: AskedCheck) -> _Described:
    """The system of `systems=`; without it the machine as it is found, where it has GPUs."""
    from resnetx.measure.machine.nvidia import gpus_here

    launch, settings = made.fleet.launch, made.settings
    of_site = launch.site.gpus_per_node if launch else None
    if not settings.systems and not gpus_here():
        return _Described(gpus=of_site)
    name = settings.systems[0] if settings.systems else THIS
    try:
        system = load_system(name)
    except ConfigError as error:
        if settings.systems:
            raise
        return _Described(gpus=of_site, no_point=f"no system can be made of this machine: {error}")
    due = None if name == THIS or system.unit == "rank" else len(system.gpus)
    two = _two(name, made) if len(system.gpus) == made.gpus else None
    point, why = _predicted(name, made)
    return _Described(name, system, two, of_site or due, point, why)


def _two(name: str, made: AskedCheck) -> System | None:
    """Two nodes, where the file or the settings name the network between them."""
    try:
        return load_system(name, 2, made.settings.network, made.settings.nics)
    except ConfigError:
        if made.settings.network is not None:
            raise
        return None


def _predicted(name: str, made: AskedCheck) -> tuple[PredictedPoint | None, str]:
    """The training point on one node, or why it is not predicted."""
    workload = {key: value for key, value in made.training.items() if key.partition(".")[0] in _OF_PREDICTION}
    try:
        (point, *_) = predicted([], asked("predict", {**workload, "systems": [name], "gpus": [made.gpus]})).points
    except ConfigError as error:
        return None, f"not predicted: {error}"
    return point, f"not predicted: {point.reason}" if point.outcome != "ok" else ""


_OF_PREDICTION = ("model", "image_size", "precision", "batch_size", "input")


# ---- metrics --------------------------------------------------------------------------------------------------------


def store_metrics(file: Path, record: Check) -> None:
    """Writes the metrics whole or not at all: the collector may read at any moment, and skips what is no *.prom."""
    try:
        with whole(file) as temporary:
            temporary.write_text(metrics_text(record), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"prometheus={file}: cannot be written ({error.strerror}); the check is recorded") from None
    progress.command(f"metrics: {file}")


# A check as metrics for the textfile collector of Prometheus' node exporter.
#
# Every metric is a gauge: it says what the last check found, not what has been since. What was not measured is left out
# (a missing series), as there is no number for it.
#
# Reference: prometheus.io, "Exposition formats", text-based format 0.0.4.

PREFIX = "resnetx_check"
_OF_MEASURES: dict[Measure, tuple[str, str]] = {
    "all-reduce": ("allreduce", "one all-reduce among the ranks of a node"),
    "training": ("iteration", "one training step on a node"),
    "pair": ("pair_allreduce", "one all-reduce among the ranks of two nodes"),
}

Labels = Mapping[str, str]


@dataclass(frozen=True)
class _Metric:
    name: str
    about: str
    samples: list[tuple[Labels, float]]


def metrics_text(check: Check) -> str:
    """All metrics of a check, as the collector reads them."""
    return "".join(line + "\n" for metric in _metrics(check) for line in _lines(metric))


def _lines(metric: _Metric) -> Iterator[str]:
    if metric.samples:
        name = f"{PREFIX}_{metric.name}"
        yield f"# HELP {name} {_escaped(metric.about)}"
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{_labels(labels)} {value!r}" for labels, value in metric.samples)


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, quotes: bool = False) -> str:
    plain = text.replace("\\", r"\\").replace("\n", r"\n")
    return plain.replace('"', r"\"") if quotes else plain


def _metrics(check: Check) -> Iterator[_Metric]:
    named = set(check.outlying_nodes)
    ended = datetime.fromisoformat(check.started_at).timestamp() + check.duration_s
    single: dict[str, tuple[str, float]] = {
        "outliers": ("Nodes, switches and pairs of nodes that stand out in the last check.", len(check.outliers)),
        "nodes": ("Nodes that the last check was of.", len(check.nodes)),
        "pairs_tried": ("Pairs of nodes that were tried.", check.pairs_tried),
        "pairs_left_out": ("Pairs of nodes that were not tried.", check.pairs - check.pairs_tried),
        "timestamp_seconds": ("End of the last check, in seconds since the epoch.", ended),
        "duration_seconds": ("How long the last check took.", check.duration_s),
    }
    for name, (about, value) in single.items():
        yield _Metric(name, about, [({}, float(value))])
    yield _Metric(
        "node_outlier", "1 if a node stands out, else 0.", [({"node": n}, float(n in named)) for n in check.nodes]
    )
    for measure, (name, what) in _OF_MEASURES.items():
        yield from _of_measure(name, what, [run for run in check.runs if run.measure == measure])
    causes = {
        ((outlier.what, outlier.name), cause.kind): {"what": outlier.what, "name": outlier.name, "cause": cause.kind}
        for outlier in check.outliers
        for cause in outlier.causes
    }
    yield _Metric(
        "outlier_cause", "1 for each likely cause of what stands out.", [(labels, 1.0) for labels in causes.values()]
    )


def _of_measure(name: str, what: str, runs: Iterable[CheckedRun]) -> Iterator[_Metric]:
    labelled = [(dict(zip(("node", "peer"), run.nodes, strict=False)), run) for run in runs]
    values: dict[str, tuple[str, list[tuple[Labels, float | None]]]] = {
        "seconds": (f"Time of {what}.", [(labels, if_known(run.time_s)) for labels, run in labelled]),
        "expected_seconds": (
            f"Time of {what} as the description of the system allows it.",
            [(labels, if_known(run.expected_s)) for labels, run in labelled],
        ),
        "limit_seconds": (
            f"Most that the fleet's median allows for the time of {what}.",
            [(labels, if_known(run.limit_s)) for labels, run in labelled],
        ),
        "slow": (
            f"1 if the run for the time of {what} failed or stands out, else 0.",
            [(labels, float(bool(against(run)))) for labels, run in labelled],
        ),
    }
    for unit, (about, samples) in values.items():
        yield _Metric(f"{name}_{unit}", about, [(labels, value) for labels, value in samples if value is not None])
