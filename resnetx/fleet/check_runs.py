"""A check as it is asked for, and its runs within the budget."""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from resnetx import progress
from resnetx.api.bench import benches_of
from resnetx.api.train import task_of
from resnetx.compose import asked, compose, struct_of
from resnetx.config import run_settings_from, sizes_from
from resnetx.errors import ConfigError
from resnetx.fleet.outliers import Tried, fault_of
from resnetx.host import cores, node_name
from resnetx.launching import Launch
from resnetx.measure import probes
from resnetx.measure.launch import launcher, slurm, write
from resnetx.measure.study_runs import check_known_code
from resnetx.record import BenchFile, Ended, RunFile, RunFolder, TaskFile, TaskRecord
from resnetx.record.topologies import CheckFolder, Measure
from resnetx.settings import keywords, setting_types
from resnetx.settings.setting_types import written
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of, reads
from resnetx.study import Point
from resnetx.units import duration

# ---- settings -------------------------------------------------------------------------------------------------------
# The settings of a check: which nodes, how many ranks on each, and the runs that it is made of.

ALL = "ALL"
# Settings of the check itself; others are those of its runs.
OWN = (*tagged("launch"), "gpus", "systems", "network", "nics", "budget", "prometheus", "dirty", "out")
# What two CPU ranks end well within the budget, where nothing else is asked for.
ON_CPUS, WORKLOAD_ON_CPUS = {"size": "16MiB"}, {"model.x": 1, "image_size": 64}
SUFFIX = ".prom"  # of the files that the collector reads


class CheckSettings(keywords.CheckFields, frozen=True, kw_only=True):
    """The settings that this verb reads, apart from those that name its workload."""

    @property
    def prometheus_file(self) -> Path | None:
        return None if self.prometheus is None else Path(self.prometheus)


@dataclass(frozen=True)
class Fleet:
    """The nodes that are checked."""

    names: tuple[str, ...]  # "" each where a job that does not run yet will have them
    launch: Launch | None  # None: this machine alone
    left_out: tuple[str, ...] = ()  # nodes of the partition, in sentences


@dataclass(frozen=True)
class AskedCheck:
    """A check as it is asked for."""

    settings: CheckSettings
    given: Point
    fleet: Fleet
    gpus: int  # on each node
    budget_s: float
    results: Path

    @property
    def words(self) -> str:
        return " ".join(written(self.given))

    @property
    def size_bytes(self) -> int:
        (size_bytes,) = sizes_from([self.settings.size])
        return size_bytes

    @property
    def training(self) -> Point:
        """What decides on the training point."""
        return _of_runs("train", {**VERBS["check"].own, **self.given})

    @cached_property
    def training_point(self) -> RunFile:
        """The training point, on any node."""
        task, _ = task_of(None, asked("train", {**self.training, "gpus": self.gpus, **self._launch_words(1)}))
        return task

    @cached_property
    def _on_one(self) -> BenchFile:
        return self._all_reduce(1)

    @cached_property
    def _on_two(self) -> BenchFile:
        return self._all_reduce(2)

    def _all_reduce(self, nodes: int) -> BenchFile:
        """An all-reduce among the ranks of so many nodes."""
        own = {**_of_runs("bench", self.given), "collective": "allreduce", "gpus": nodes * self.gpus}
        (task,) = benches_of({**own, **self._launch_words(nodes)}).tasks
        return task

    def task(self, measure: Measure, *nodes: str) -> RunFile | BenchFile:
        """A run of the check, on these nodes; settings are composed once for all runs of a measure."""
        task: RunFile | BenchFile
        match measure:
            case "training":
                task = self.training_point
            case "all-reduce":
                task = self._on_one
            case "pair":
                task = self._on_two
        return msgspec.structs.replace(task, launch=_on(task.launch, nodes))

    def _launch_words(self, nodes: int) -> Point:
        if self.fleet.launch is None:
            return {}
        site = {"site": self.given["site"]} if "site" in self.given else {}
        return {"launcher": "slurm", "nodes": nodes, **site}


def _of_runs(verb: str, given: Mapping[str, object]) -> Point:
    """What is passed on to the runs that a verb makes: a bench has no workload."""
    own = {*OWN, *tagged("workload")} if verb == "bench" else {*OWN}
    return {key: value for key, value in given.items() if reads(VERBS[verb].settings, key) and group_of(key) not in own}


def _on(launch: Launch | None, nodes: tuple[str, ...]) -> Launch | None:
    """The launch on these nodes; where they have no names yet, on any."""
    return launch if launch is None or not all(nodes) else msgspec.structs.replace(launch, on=nodes)


def asked_check(given_settings: Mapping[str, object]) -> AskedCheck:
    """What is asked for; refuses what no machine could run."""
    from resnetx.measure.machine.nvidia import gpus_here

    given = asked("check", given_settings)
    if "launcher" not in given and not gpus_here():
        given = {**ON_CPUS, **({} if "model" in given else WORKLOAD_ON_CPUS), **given}
    tree = compose({**VERBS["check"].own, **given})
    settings = struct_of({**VERBS["check"].own, **given}, CheckSettings)
    check_known_code(settings.dirty)
    if len(settings.systems) > 1:
        raise ConfigError(
            f"systems={settings.systems}: the nodes of a check are of one kind; expected one name or file"
        )
    for key, value in {"network": settings.network, "nics": settings.nics}.items():
        if value is not None and not settings.systems:
            raise ConfigError(f"{key}={value}: joins nodes of a described system; add systems=NAME")
    budget = VERBS["check"].own["budget"] if settings.budget is None else settings.budget
    fleet, results = _fleet(settings, tree)
    check = AskedCheck(
        settings=settings,
        given=given,
        fleet=fleet,
        gpus=_gpus(settings, fleet.launch),
        budget_s=setting_types.seconds_of("budget", budget),
        results=results,
    )
    _refuse_impossible(check)
    return check


def _refuse_impossible(check: AskedCheck) -> None:
    """Refuses runs that no machine could do, and a file that could not be written in the end."""
    check.task("training", check.fleet.names[0])
    if check.gpus > 1:
        check.task("all-reduce", check.fleet.names[0])
    launch = check.fleet.launch
    if launch and launch.walltime is not None and check.budget_s > launch.walltime - slurm.WARNED_S:
        raise ConfigError(
            f"budget={check.budget_s:g}s: the job is ended {slurm.WARNED_S} s before its walltime of "
            f"{launch.walltime:g} s; lower budget, or raise walltime"
        )
    file = check.settings.prometheus_file
    if file is None:
        return
    if file.suffix != SUFFIX:
        raise ConfigError(
            f"prometheus={file}: the textfile collector reads files named *{SUFFIX}; expected such a name"
        )
    here = check.fleet.launch is None or slurm.inside()
    if here and not file.parent.is_dir():
        raise ConfigError(f"prometheus={file}: there is no folder {file.parent}; make it, or choose another")


# ---- nodes ----------------------------------------------------------------------------------------------------------


def _fleet(settings: CheckSettings, tree: Mapping[str, object]) -> tuple[Fleet, Path]:
    """The nodes, and the results folder."""
    nodes = ALL if settings.nodes is None or str(settings.nodes).upper() == ALL else settings.nodes
    if isinstance(nodes, str) and nodes != ALL:
        raise ConfigError(f"nodes={nodes}: expected a number of nodes, or {ALL}")
    if settings.launcher is None:
        run = run_settings_from(tree)  # refuses what only a launcher reads
        return Fleet((node_name(),), None), Path(run.results)
    left_out: list[str] = []
    if isinstance(nodes, int):
        count = nodes
    elif slurm.inside():
        count = len(slurm.node_names())
    else:
        count, left_out = _of_partition(tree)
    run = run_settings_from({**tree, "nodes": max(1, count)})
    if slurm.inside() and (obstacle := slurm.obstacle_to_job(count)):
        raise ConfigError(obstacle)
    names = tuple(slurm.node_names()[:count]) if slurm.inside() else ("",) * count
    return Fleet(names, run.launch, tuple(left_out)), Path(run.results)


NAMING = ("exclude", "nodelist", "nodefile", "reservation")  # options of sbatch that choose nodes by name
# Of constraints, those by which nodes are counted: h100, h100&ib, a|b.
FEATURES = re.compile(r"[\w.]+(?:&[\w.]+)*|[\w.]+(?:\|[\w.]+)*")


def _of_partition(tree: Mapping[str, object]) -> tuple[int, list[str]]:
    """How many nodes of the site's partition a job can have, and sentences on the others."""
    launch = run_settings_from({**tree, "nodes": 1}).launch
    assert launch is not None, "a launcher is asked for"
    site = launch.site
    if option := next((option for option in site.options if option.partition("=")[0] in NAMING), None):
        raise ConfigError(f"nodes={ALL}: the site file's options have {option}, which chooses nodes; name their number")
    if site.constraint and not FEATURES.fullmatch(site.constraint):
        raise ConfigError(f"nodes={ALL}: expected a constraint as a&b or a|b, not {site.constraint}; name a number")
    partition = site.partition or slurm.default_partition()
    nodes = slurm.partition_nodes(partition)
    alike = [node for node in nodes if _has_features(node, site.constraint)]
    usable = [node for node in alike if node.usable and node.gpus >= (site.gpus_per_node or 0)]
    if not usable:
        what = (
            f"partition {partition} has no usable node" if nodes else f"Slurm shows no nodes of partition {partition}"
        )
        raise ConfigError(f"nodes={ALL}: {what} here; see `resnetx doctor launcher=slurm`, or name a number of nodes")
    fewer = [node for node in alike if node.usable and node.gpus < (site.gpus_per_node or 0)]
    said = [f"{node}: not usable" for node in alike if not node.usable]
    said += [f"{node.name}: it has {node.gpus} GPUs, gpus_per_node={site.gpus_per_node}" for node in fewer]
    if other := len(nodes) - len(alike):
        said.append(f"{other} node{'s' * (other > 1)} of the partition without constraint={site.constraint}")
    return len(usable), said


def _has_features(node: slurm.PartitionNode, constraint: str | None) -> bool:
    """Whether a node has all of a&b, or one of a|b."""
    if constraint is None:
        return True
    several = all if "&" in constraint else any
    return several(name in node.features for name in re.split(r"[&|]", constraint))


def _gpus(settings: CheckSettings, launch: Launch | None) -> int:
    """Ranks on each node: as asked for, as the site file has it, or all GPUs; without any, two CPU processes."""
    from resnetx.measure.machine.nvidia import gpus_here

    site = launch.site.gpus_per_node if launch else None
    return settings.gpus or site or gpus_here() or min(2, cores())


# ---- runs -----------------------------------------------------------------------------------------------------------
# The runs of a check, within its budget: all nodes at once, an all-reduce and a training point; then pairs of nodes.
#
# A run that fails, hangs or takes too long is kept with its reason, and its node is in no pair.

# Runs at the same time, each on nodes of its own: one thread supervises each of them.
#
# Signals reach the main thread alone. What it raises then interrupts all runs, which record that, before it goes on.


@dataclass(frozen=True)
class Placed(Generic[Ended]):
    """A task, and the folder that its record goes to."""

    task: TaskFile[Ended]
    folder: RunFolder


def together(placed: Sequence[Placed[Ended]]) -> list[Ended]:
    """The records of tasks that run at the same time, in their order; each is on disk."""
    stopped = threading.Event()

    def look_up() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(max_workers=max(1, len(placed)), thread_name_prefix="resnetx-run") as pool:
        runs = [pool.submit(launcher.supervise, run.task, run.folder, look_up=look_up) for run in placed]
        try:
            wait(runs)
        except BaseException:
            stopped.set()
            raise
    return [run.result() for run in runs]


# Of the time that is left, what the runs of single nodes may take: one that hangs leaves some for the others.
SHARES: dict[Measure, float] = {"all-reduce": 0.4, "training": 0.6, "pair": 1.0}

T = TypeVar("T")
Pairs = list[tuple[str, str]]
Judge = Callable[[TaskRecord, int], TaskRecord]  # a record of so many nodes, beside what the description allows


class CheckRuns:
    """Runs what the budget leaves room for; `tried` and `left_out` say what that was."""

    def __init__(self, check: AskedCheck, folder: CheckFolder, judge: Judge) -> None:
        self.tried: list[Tried] = []
        self.left_out: list[str] = []
        self.pairs_tried = 0
        self._made, self._folder, self._judge = check, folder, judge
        self._end = time.monotonic() + check.budget_s

    def run(self) -> None:
        """All of it, one phase after the other."""
        nodes = self._made.fleet.names
        self.left_out += self._made.fleet.left_out
        if self._made.gpus > 1:
            self._phase("all-reduce", [(node,) for node in nodes])
        else:
            self.left_out.append("all-reduce on each node: one rank has no peer (gpus=1)")
        self._phase("training", [(node,) for node in nodes])
        self._pairs()

    def _pairs(self) -> None:
        faulty = {tried.nodes[0]: fault for tried in self.tried if (fault := fault_of(tried.record))}
        able = [node for node in self._made.fleet.names if node not in faulty]
        if faulty and len(self._made.fleet.names) > 1:
            self.left_out.append(f"pairs with {', '.join(faulty)}: its own runs failed")
        every: list[Pairs] = rounds(able)
        for index, pairs in enumerate(every, 1):
            if not self._phase("pair", pairs, index):
                left = sum(map(len, every[index - 1 :]))
                self.left_out[-1] = f"{left} of {sum(map(len, every))} pairs, {self.left_out[-1]}"
                return
            self.pairs_tried += len(pairs)

    def _phase(self, measure: Measure, of_nodes: Sequence[tuple[str, ...]], index: int = 0) -> bool:
        """Runs one measure at the same time on each of these; whether the budget had room for it."""
        left_s, usual_s = self._end - time.monotonic(), self._usual_s(measure)
        if left_s < max(usual_s, 1.0):
            what = "" if measure == "pair" else f"{measure} on each node, "
            self.left_out.append(
                f"{what}as {duration(max(0.0, left_s))} of budget={duration(self._made.budget_s)} were left"
            )
            return False
        limit_s = SHARES[measure] * left_s
        placed = [self._placed(measure, nodes, limit_s) for nodes in of_nodes]
        label = f"round {index}" if measure == "pair" else measure
        with progress.waiting(f"{label}: {len(placed)} at the same time", self._folder.path):
            records = together(placed)
        for nodes, each, record in zip(of_nodes, placed, records, strict=True):
            judged = self._judge(record, len(nodes))
            if judged != record:
                write(each.folder.record, judged)
            self.tried.append(Tried(measure, tuple(nodes), judged, each.folder.path, index))
        failed = sum(bool(fault_of(record)) for record in records)
        progress.note(f"{label}: {len(records)} ended" + f", {failed} of them not well" * bool(failed))
        return True

    def _placed(self, measure: Measure, nodes: tuple[str, ...], limit_s: float) -> Placed[TaskRecord]:
        task = self._made.task(measure, *nodes)
        limited = msgspec.structs.replace(task, timeout_s=max(1.0, min(task.timeout_s, limit_s)))
        return Placed(limited, self._folder.run(measure, nodes))

    def _usual_s(self, measure: Measure) -> float:
        """What runs of this check took, starting included: for pairs other all-reduces; 0 before any has ended well."""
        ended = [(tried.measure, tried.record.duration_s or 0.0) for tried in self.tried if not fault_of(tried.record)]
        alike = [seconds for kind, seconds in ended if (kind == "training") == (measure == "training")]
        return max(alike or (seconds for _, seconds in ended), default=0.0)


def rounds(nodes: Sequence[T]) -> list[list[tuple[T, T]]]:
    """All pairs, each in the order of `nodes`, in rounds of disjoint ones; none of fewer than two nodes."""
    found = [[(nodes[a], nodes[b]) for a, b in sorted(pairs)] for pairs in probes.rounds(len(nodes))]
    return [pairs for pairs in found if pairs]
