"""The settings of a check: which nodes, how many ranks on each, and the runs that it is made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from resnetx.api.bench import benches_of
from resnetx.api.train import task_of
from resnetx.compose import asked, compose, struct_of
from resnetx.config import run_settings_from, sizes_from
from resnetx.errors import ConfigError
from resnetx.host import cores, node_name
from resnetx.launching import Launch
from resnetx.measure.launch import slurm
from resnetx.measure.study.plan import check_known_code
from resnetx.record import BenchFile, RunFile
from resnetx.record.check import Measure
from resnetx.settings import bounds, keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of, reads
from resnetx.settings.words import written
from resnetx.study import Point

ALL = "ALL"
# Settings of the check itself; others are those of its runs.
OWN = (*tagged("launch"), "gpus", "systems", "network", "nics", "budget", "prometheus", "dirty", "out")
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
    given = asked("check", given_settings)
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
        budget_s=bounds.seconds_of("budget", budget),
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
    from resnetx.measure.machine.visible_gpus import gpus_here

    site = launch.site.gpus_per_node if launch else None
    return settings.gpus or site or gpus_here() or min(2, cores())
