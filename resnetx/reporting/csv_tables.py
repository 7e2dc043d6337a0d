"""Tables of studies, and what they are written as: CSV, with cells that are empty where nothing was measured."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import msgspec

from resnetx.errors import on_one_line
from resnetx.record import Environment, GradientBucket, RunSummary
from resnetx.record.comparisons import Estimate
from resnetx.record.machine import Gpu
from resnetx.reporting.study_points import StudyPoint
from resnetx.reporting.study_results import Results
from resnetx.reporting.study_scaling import Limits, StepPart
from resnetx.request import TwinName
from resnetx.statistics import Summary
from resnetx.table import Cell, Table
from resnetx.units import si

# ---- table ----------------------------------------------------------------------------------------------------------
# Tables: rows of one struct as columns and cells, for CSV files, charts and whatever else takes rows and columns.
#
# A row is a struct whose fields are the columns, in their order. An estimate takes several columns: a `Summary` NAME,
# NAME_low, NAME_high and NAME_ends (`interval` or `range`), an `Estimate` the first three. A list is one cell, its
# elements separated by blanks; null is an empty cell.
#
#     table = table_of([WindowRow(...), ...])
#     write_csv(folder / "windows.csv", table)

_ENDS: dict[type, tuple[str, ...]] = {Summary: ("_low", "_high", "_ends"), Estimate: ("_low", "_high")}


def table_of(rows: Iterable[msgspec.Struct], kind: type[msgspec.Struct] | None = None, **names: str) -> Table:
    """The table of rows; without rows it has no columns. `kind`: a base of theirs, whose fields alone are columns.

    `names`: of fields whose columns have another name.
    """
    rows = list(rows)
    if not rows:
        return Table([], [])
    fields = _fields(kind or type(rows[0]))
    columns = [f"{names.get(name, name)}{end}" for name, ends in fields for end in ("", *ends)]
    if len(fields) > 1 and not any(ends for _, ends in fields):
        values = attrgetter(*(name for name, _ in fields))
        return Table(columns, [[_cell(value) for value in values(row)] for row in rows])
    cells = [[cell for name, ends in fields for cell in _cells(getattr(row, name), ends)] for row in rows]
    return Table(columns, cells)


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, tuple[str, ...]]]:
    """The fields of a struct, each with the ends that its columns have."""
    return [(field.name, _ends_of(field.type)) for field in msgspec.structs.fields(kind)]


def _ends_of(annotation: Any) -> tuple[str, ...]:
    kinds = {annotation, *get_args(annotation)}
    return next((ends for kind, ends in _ENDS.items() if kind in kinds), ())


def _cell(value: Any) -> Cell:
    return " ".join(map(str, value)) if type(value) is list else value


def _cells(value: Any, ends: Sequence[str]) -> Sequence[Cell]:
    if not ends:
        return (_cell(value),)
    if isinstance(value, Summary):
        return value.median, value.low, value.high, value.kind
    if isinstance(value, Estimate):
        return value.value, value.low, value.high
    return [value, *[None] * len(ends)]


# ---- files ----------------------------------------------------------------------------------------------------------


def write_csv(path: Path, table: Table) -> None:
    """Writes a table. Numbers are written in full, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows([_safe(cell) if type(cell) is str else cell for cell in row] for row in table.rows)


_FORMULA = ("=", "+", "-", "@", "\t")  # begins one in a spreadsheet


def _safe(text: str) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = text if text.isprintable() else on_one_line(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


# ---- export ---------------------------------------------------------------------------------------------------------
# The results of studies as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing was measured.
#
# `points.csv` has one row per point (`PointRow`), `windows.csv` one per window of each run (`WindowRow`),
# `messages.csv` one per message of gradients, rank and step (`MessageRow`), `inside.csv` one per rank of an
# instrumented run (`InsideRow`). The names of the columns stay.


class PointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One point. Estimates are medians over its runs, each with `_low`, `_high` and `_ends`."""

    # What ran; request_key differs wherever any setting does.
    study: str
    node: str
    workload: str
    batch_size: int  # images per step, over all GPUs
    image_size_px: int
    gpus: int
    devices: list[int] | None
    precision: str
    input: str
    strategy: str
    scaling: str
    env: list[str]  # NAME=VALUE
    request_key: str
    outcome: str  # ok, oom, failed, timeout, skipped, missing
    reason: str
    runs: int  # good ones
    images_per_s: Summary | None
    iterations_per_s: Summary | None
    speedup: Summary | None
    efficiency: Summary | None
    baseline: str  # what speed-ups are over
    step_s: Summary | None
    # Of the step, 0 to 1; empty where it is not known, for the reason in `limited_why`.
    share_compute: float | None
    share_communication: float | None
    share_input: float | None
    share_host: float | None
    limited_by: str | None
    limited_why: str | None
    # The workload's counts.
    convention: str | None
    activations_per_image: int | None
    parameters: int | None
    activations_per_batch: int | None
    activations_per_parameter: float | None
    activations_per_parameter_per_gpu: float | None
    payload_bytes: int | None
    gradient_bytes: int | None
    flops_per_image: int | None
    notes: str  # outlying runs and warnings


class WindowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One window of one run, those of twins included."""

    study: str
    node: str
    workload: str
    batch_size: int
    gpus: int
    request_key: str
    twin: TwinName | None  # of the point with that key; empty: the point itself
    repeat: int
    window: int
    window_s: float  # of the slowest rank
    images_per_s: float
    started_at: str  # UTC
    run: str  # folder


class _RowOfPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What tells the rows of one point of a study from those of others."""

    study: str
    node: str
    workload: str
    batch_size: int
    gpus: int
    strategy: str
    request_key: str


class MessageRow(_RowOfPoint, frozen=True, kw_only=True):
    """One message of gradients on one rank in one step, of the latest instrumented run of a point."""

    message: int
    size_bytes: int
    rank: int
    step: int
    # Since that rank's step began.
    ready_s: float
    start_s: float
    end_s: float


class InsideRow(_RowOfPoint, frozen=True, kw_only=True):
    """The phases of a step on one rank, means over the windows of the latest instrumented run of a point."""

    rank: int
    step_s: float
    input_wait_s: float
    host_to_device_s: float
    forward_s: float
    backward_s: float
    exposed_communication_s: float
    optimizer_s: float
    gather_s: float | None  # of parameters


# ---- points ---------------------------------------------------------------------------------------------------------


def points_table(points: Iterable[StudyPoint]) -> Table:
    """`points.csv`."""
    return table_of(map(_point, points))


def _point(point: StudyPoint) -> PointRow:
    result, request, limits, counts = point.result, point.request, point.result.limits, point.counts
    return PointRow(
        study=result.study,
        node=result.node,
        workload=point.workload,
        batch_size=request.batch_size,
        image_size_px=request.image_size,
        gpus=request.gpus,
        devices=request.devices or None,
        precision=request.precision,
        input=request.input.kind,
        strategy=request.strategy.kind,
        scaling=request.scaling,
        env=[f"{name}={value}" for name, value in request.env.items()],
        request_key=request.key,
        outcome=result.outcome,
        reason=result.reason,
        runs=result.images_per_s.n if result.images_per_s else 0,
        images_per_s=result.images_per_s,
        iterations_per_s=result.iterations_per_s,
        speedup=result.speedup,
        efficiency=result.efficiency,
        baseline=result.baseline,
        step_s=limits.step_s if limits else None,
        share_compute=_share(limits, "compute"),
        share_communication=_share(limits, "communication"),
        share_input=_share(limits, "input"),
        share_host=_share(limits, "host"),
        limited_by=limits.verdict if limits else None,
        limited_why=limits.why if limits else None,
        convention=counts.convention if counts else None,
        activations_per_image=counts.activations_per_image if counts else None,
        parameters=counts.parameters if counts else None,
        activations_per_batch=counts.activations_per_batch if counts else None,
        activations_per_parameter=counts.intensity if counts else None,
        activations_per_parameter_per_gpu=counts.intensity / request.gpus if counts else None,
        payload_bytes=counts.payload_bytes if counts else None,
        gradient_bytes=counts.gradient_bytes if counts else None,
        flops_per_image=counts.flops_per_image if counts else None,
        notes="; ".join(result.notes),
    )


def _share(limits: Limits | None, part: StepPart) -> float | None:
    return limits.shares[part].median if limits and part in limits.shares else None


# ---- windows --------------------------------------------------------------------------------------------------------


def windows_table(studies: Iterable[Results]) -> Table:
    """`windows.csv`."""
    return table_of(_windows(studies))


def _windows(studies: Iterable[Results]) -> Iterator[WindowRow]:
    for results in studies:
        for point in results.points:
            for run in point.runs:
                yield from _windows_of(results, point.request.key, None, run)
            for twin, runs in point.twins.items():
                for run in runs:
                    yield from _windows_of(results, point.request.key, twin, run)


def _windows_of(results: Results, key: str, twin: TwinName | None, run: RunSummary) -> Iterator[WindowRow]:
    for window, rate in enumerate(run.rates, 1):
        yield WindowRow(
            study=results.study.name,
            node=results.study.node,
            workload=run.request.model.label,
            batch_size=run.request.batch_size,
            gpus=run.request.gpus,
            request_key=key,
            twin=twin,
            repeat=run.repeat,
            window=window,
            window_s=run.steps_per_window * run.request.batch_size / rate,
            images_per_s=rate,
            started_at=run.started_at,
            run=run.folder.name,
        )


# ---- messages -------------------------------------------------------------------------------------------------------


def messages_table(points: Iterable[StudyPoint]) -> Table:
    """`messages.csv`."""
    return table_of(row for point in points for row in _messages(point))


def _own(point: StudyPoint) -> dict[str, Any]:
    """The fields of `_RowOfPoint`."""
    result, request = point.result, point.request
    return {
        "study": result.study,
        "node": result.node,
        "workload": point.workload,
        "batch_size": request.batch_size,
        "gpus": request.gpus,
        "strategy": request.strategy.kind,
        "request_key": request.key,
    }


def _messages(point: StudyPoint) -> Iterator[MessageRow]:
    limits, own = point.result.limits, _own(point)
    for message in limits.messages if limits else []:
        for rank, times in enumerate(zip(*_times(message), strict=True)):
            for step, (ready_s, start_s, end_s) in enumerate(zip(*times, strict=True)):
                yield MessageRow(
                    **own,
                    message=message.index,
                    size_bytes=message.size_bytes,
                    rank=rank,
                    step=step,
                    ready_s=ready_s,
                    start_s=start_s,
                    end_s=end_s,
                )


def _times(message: GradientBucket) -> list[list[list[float]]]:
    return [message.ready_s or [], message.start_s or [], message.end_s or []]


# ---- inside a step --------------------------------------------------------------------------------------------------


def inside_table(points: Iterable[StudyPoint]) -> Table:
    """`inside.csv`."""
    return table_of(row for point in points for row in _inside(point))


def _inside(point: StudyPoint) -> Iterator[InsideRow]:
    limits, own = point.result.limits, _own(point)
    phases = limits.phases if limits else None
    for rank in range(len(phases.step_s)) if phases else ():
        assert phases, "ranks only of phases"
        yield InsideRow(
            **own,
            rank=rank,
            step_s=phases.step_s[rank],
            input_wait_s=phases.input_wait_s[rank],
            host_to_device_s=phases.host_to_device_s[rank],
            forward_s=phases.forward_s[rank],
            backward_s=phases.backward_s[rank],
            exposed_communication_s=phases.exposed_communication_s[rank],
            optimizer_s=phases.optimizer_s[rank],
            gather_s=phases.gather_s[rank] if phases.gather_s else None,
        )


# ---- platform -------------------------------------------------------------------------------------------------------
# The table of what was measured on: the first table of every paper about interconnects.

NOT_KNOWN = "not known"

_Fact = Callable[[RunSummary, Environment], str | None]


@dataclass(frozen=True)
class FactValues:
    """The values of one fact in the runs of one study."""

    values: dict[str, int]  # value -> runs that had it

    @property
    def differs(self) -> bool:
        """Whether runs of one study, which are compared with each other, differ in it."""
        return len(self.values) > 1

    def __str__(self) -> str:
        if not self.differs:
            return next(iter(self.values), NOT_KNOWN)
        return "; ".join(f"{value} ({runs} runs)" for value, runs in self.values.items())


@dataclass(frozen=True)
class Platform:
    """One column for each study; studies on like machines share one."""

    columns: list[str]
    rows: list[tuple[str, list[FactValues]]]
    topologies: list[str]  # each different `nvidia-smi topo -m`


def platform(studies: Sequence[Results]) -> Platform:
    """What the runs of the studies ran on, as their records say it. Left out is what no study has."""
    columns: list[tuple[list[str], list[FactValues]]] = []
    for results in studies:
        runs = [run for point in results.points for run in point.runs]
        name = f"{results.study.name} on {results.study.node}"
        of_machines = _alike(runs, lambda _: ())
        cells = [
            _fact_values(_alike(runs, _OF_RUNS[fact]) if fact in _OF_RUNS else of_machines, fact)
            for fact in _FACTS.values()
        ]
        alike = next(
            (names for names, values in columns if list(map(_distinct, values)) == list(map(_distinct, cells))), None
        )
        if alike is None:
            columns.append(([name], cells))
        else:
            alike.append(name)
    rows = [(name, [cells[index] for _, cells in columns]) for index, name in enumerate(_FACTS)]
    environments = [run.environment for results in studies for run in results.runs if run.environment]
    return Platform(
        columns=[", ".join(names) for names, _ in columns],
        rows=[(name, cells) for name, cells in rows if any(cell.values for cell in cells)],
        topologies=list(dict.fromkeys(here.topology for here in environments if here.topology)),
    )


def _distinct(values: FactValues) -> set[str]:
    return set(values.values)


def _alike(
    runs: Sequence[RunSummary], of_run: Callable[[RunSummary], tuple[object, ...]]
) -> list[tuple[RunSummary, int]]:
    """The first of the runs that share an environment, and what a fact depends on besides; with how many they are."""
    counts: dict[tuple[object, ...], int] = Counter()
    first: dict[tuple[object, ...], RunSummary] = {}
    for run in runs:
        if run.environment:
            key = (id(run.environment), *of_run(run))
            counts[key] += 1
            first.setdefault(key, run)
    return [(first[key], count) for key, count in counts.items()]


def _fact_values(runs: Iterable[tuple[RunSummary, int]], fact: _Fact) -> FactValues:
    counts: Counter[str] = Counter()
    for run, count in runs:
        assert run.environment, "only runs that have one"
        if (value := fact(run, run.environment)) != "":
            counts[NOT_KNOWN if value is None else value] += count
    return FactValues(dict(counts.most_common()))


# ---- the things -----------------------------------------------------------------------------------------------------


def _gpus(_: RunSummary, here: Environment) -> str | None:
    if here.gpus is None:
        return None
    return _counted(gpu.name for gpu in here.gpus) or "none: ranks are CPU processes"


def _of_gpus(fact: Callable[[Gpu], str | None]) -> _Fact:
    """A fact of each GPU of the host."""
    return lambda _, here: _counted(fact(gpu) or NOT_KNOWN for gpu in here.gpus or [])


def _in_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else si(value, unit)


def _pcie(gpu: Gpu) -> str | None:
    if gpu.pcie_generation is None:
        return None
    return f"generation {gpu.pcie_generation} of {gpu.pcie_generation_max}, x{gpu.pcie_width} of x{gpu.pcie_width_max}"


def _clock(run: RunSummary, here: Environment) -> str | None:
    return _in_unit(run.sm_clock_Hz and round(run.sm_clock_Hz, -7), "Hz") if here.gpus else ""


def _transport(run: RunSummary, _: Environment) -> str | None:
    if run.request.gpus == 1:
        return ""
    if run.transport is None or run.transport.used is None:
        return None
    return ", ".join(run.transport.used) or "none"


def _cores(_: RunSummary, here: Environment) -> str | None:
    parts = [
        f"{here.cpu_sockets} socket{'s' * (here.cpu_sockets != 1)}" * bool(here.cpu_sockets),
        f"{here.cpu_cores} cores" * bool(here.cpu_cores),
    ]
    return ", ".join(filter(None, [*parts, f"{here.cpus_usable} CPUs usable"]))


def _storage(_: RunSummary, here: Environment) -> str | None:
    if here.storage is None:
        return None
    turning = {True: ", rotating", False: ", not rotating", None: ""}[here.storage.rotational]
    return f"{here.storage.filesystem} on {here.storage.device}{turning}"


def _resnetx(_: RunSummary, here: Environment) -> str | None:
    return " ".join(filter(None, [here.resnetx, here.git_revision]))


def _pairs(pairs: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(pairs.items())) or "none"


def _counted(values: Iterable[str]) -> str:
    """ "8 x Tesla P100", or "" where there are none."""
    return ", ".join(f"{count} x {value}" if count > 1 else value for value, count in Counter(values).items())


# The value of a run; None: not known; "": not applicable here.
# Most facts are those of a machine, which many runs share; what these depend on besides:
_OF_RUNS: dict[_Fact, Callable[[RunSummary], tuple[object, ...]]] = {
    _clock: lambda run: (run.sm_clock_Hz,),
    _transport: lambda run: (run.request.gpus == 1, id(run.transport)),
}
_FACTS: dict[str, _Fact] = {
    "GPUs": _gpus,
    "GPU memory": _of_gpus(lambda gpu: _in_unit(gpu.memory_bytes, "B")),
    "GPU power limit": _of_gpus(lambda gpu: _in_unit(gpu.power_limit_W, "W")),
    "GPU clock (SM), highest": _of_gpus(lambda gpu: _in_unit(gpu.sm_clock_max_Hz, "Hz")),
    "GPU clock (SM), median of a run": _clock,
    "PCIe link of the GPUs, now of best": _of_gpus(_pcie),
    "NVLinks active": _of_gpus(lambda gpu: None if gpu.nvlinks_active is None else f"{gpu.nvlinks_active}"),
    "GPU topology (fingerprint)": lambda _, here: here.topology_fingerprint if here.gpus else "",
    "gradients travel by": _transport,
    "CPU": lambda _, here: here.cpu,
    "CPU sockets, cores": _cores,
    "CPU governor": lambda _, here: here.cpu_governor,
    "NUMA nodes": lambda _, here: f"{here.numa_nodes}" if here.numa_nodes else None,
    "host memory": lambda _, here: si(here.host_memory_bytes, "B"),
    "storage of the images": _storage,
    "network": lambda _, here: ", ".join(here.network),
    "operating system": lambda _, here: here.system,
    "container": lambda _, here: here.container,
    "GPU driver": lambda _, here: here.driver if here.gpus else "",
    "CUDA": lambda _, here: "" if here.hip else here.cuda,
    "HIP": lambda _, here: here.hip or "",
    "cuDNN": lambda _, here: "" if here.hip else here.cudnn,
    "NCCL": lambda _, here: "" if here.hip else here.nccl,
    "RCCL": lambda _, here: here.nccl if here.hip else "",
    "PyTorch": lambda _, here: here.torch,
    "torchvision": lambda _, here: here.torchvision,
    "DALI": lambda _, here: here.dali,
    "Python": lambda _, here: here.python,
    "resnetx": _resnetx,
    "threads of a rank": lambda _, here: _pairs(here.threads),
    "environment variables": lambda _, here: _pairs(here.variables),
}
