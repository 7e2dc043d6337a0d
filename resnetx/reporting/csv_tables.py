"""Tables of studies, and what they are written as: CSV, with cells that are empty where nothing was measured."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from resnetx.errors import on_one_line
from resnetx.record import Environment, RunSummary
from resnetx.record.comparisons import Estimate
from resnetx.record.machine import Gpu
from resnetx.reporting.study_points import StudyPoint
from resnetx.reporting.study_scaling import PARTS, Results
from resnetx.statistics import Summary
from resnetx.table import Cell, Record, Table, fields, table_of_records
from resnetx.units import si

# ---- rows -----------------------------------------------------------------------------------------------------------
# A row is an object of cells by column, all of one table with the same columns. An estimate NAME takes several: NAME,
# NAME_low and NAME_high; that of a measurement NAME_ends (`interval` or `range`), too. A list is one cell, its elements
# separated by blanks; null is an empty cell.


def table_of(rows: Iterable[msgspec.Struct]) -> Table:
    """The table of rows of one struct, whose fields are its columns."""
    return table_of_records([{name: _cell(value) for name, value in structs.asdict(row).items()} for row in rows])


def _cell(value: Any) -> Cell:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def summary_cells(name: str, summary: Summary | None) -> Record:
    """The columns of what was measured in several runs."""
    if summary is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high", f"{name}_ends"))
    return {
        name: summary.median,
        f"{name}_low": summary.low,
        f"{name}_high": summary.high,
        f"{name}_ends": summary.kind,
    }


def estimate_cells(name: str, estimate: Estimate | None) -> Record:
    """The columns of what is estimated."""
    if estimate is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


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
# The results of studies as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing was measured. The
# names of the columns stay.


def points_table(points: Iterable[StudyPoint]) -> Table:
    """`points.csv`: one row for each point. Estimates are medians over its runs."""
    return table_of_records(list(map(point_row, points)))


def point_row(point: StudyPoint) -> Record:
    """What ran, how it ended and how fast it was, what limits it, and what its workload counts."""
    result, request, limits, counts = point.result, point.request, point.result.limits, point.counts
    return {
        "study": result.study,
        "node": result.node,
        "workload": point.workload,
        "batch_size": request.batch_size,  # images per step, over all GPUs
        "image_size_px": request.image_size,
        "gpus": request.gpus,
        "devices": _cell(request.devices or None),
        "precision": request.precision,
        "input": request.input.kind,
        "strategy": request.strategy.kind,
        "scaling": request.scaling,
        "env": " ".join(f"{name}={value}" for name, value in request.env.items()),
        "request_key": request.key,  # another one wherever any setting differs
        "outcome": result.outcome,  # ok, oom, failed, timeout, skipped, missing
        "reason": result.reason,
        "runs": result.images_per_s.n if result.images_per_s else 0,  # good ones
        **summary_cells("images_per_s", result.images_per_s),
        **summary_cells("iterations_per_s", result.iterations_per_s),
        **summary_cells("speedup", result.speedup),
        **summary_cells("efficiency", result.efficiency),
        "baseline": result.baseline,  # what speed-ups are over
        **summary_cells("step_s", limits.step_s if limits else None),
        # Of the step, 0 to 1; empty where it is not known, for the reason in `limited_why`.
        **{f"share_{part}": limits.shares[part].median if limits and part in limits.shares else None for part in PARTS},
        "limited_by": limits.verdict if limits else None,
        "limited_why": limits.why if limits else None,
        **_known(counts, "convention", "activations_per_image", "parameters", "activations_per_batch"),
        "activations_per_parameter": counts.intensity if counts else None,
        "activations_per_parameter_per_gpu": counts.intensity / request.gpus if counts else None,
        **_known(counts, "payload_bytes", "gradient_bytes", "flops_per_image"),
        "notes": "; ".join(result.notes),  # outlying runs and warnings
    }


def _known(record: object | None, *names: str) -> Record:
    """Fields of what may not be known."""
    return fields(record, *names) if record else dict.fromkeys(names)


def windows_table(studies: Iterable[Results]) -> Table:
    """`windows.csv`: one row for each window of each run, those of twins included."""
    return table_of_records(list(_windows(studies)))


def _windows(studies: Iterable[Results]) -> Iterator[Record]:
    for results in studies:
        for point in results.points:
            runs = [(None, run) for run in point.runs]
            of_twins = [(twin, run) for twin, runs_of in point.twins.items() for run in runs_of]
            for twin, run in (*runs, *of_twins):
                for window, rate in enumerate(run.rates, 1):
                    yield {
                        "study": results.study.name,
                        "node": results.study.node,
                        "workload": run.request.model.label,
                        "batch_size": run.request.batch_size,
                        "gpus": run.request.gpus,
                        "request_key": point.request.key,
                        "twin": twin,  # of the point with that key; empty: the point itself
                        "repeat": run.repeat,
                        "window": window,
                        "window_s": run.steps_per_window * run.request.batch_size / rate,  # of the slowest rank
                        "images_per_s": rate,
                        "started_at": run.started_at,  # UTC
                        "run": run.folder.name,
                    }


def _own(point: StudyPoint) -> Record:
    """What tells the rows of one point of a study from those of others."""
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


def messages_table(points: Iterable[StudyPoint]) -> Table:
    """`messages.csv`: one row for each message of gradients, rank and step of the latest instrumented run of a point.

    Times are since that rank's step began.
    """
    return table_of_records([row for point in points for row in _messages(point)])


def _messages(point: StudyPoint) -> Iterator[Record]:
    limits, own = point.result.limits, _own(point)
    for message in limits.messages if limits else []:
        of_message = {**own, "message": message.index, "size_bytes": message.size_bytes}
        times = (message.ready_s or [], message.start_s or [], message.end_s or [])
        for rank, of_rank in enumerate(zip(*times, strict=True)):
            for step, (ready_s, start_s, end_s) in enumerate(zip(*of_rank, strict=True)):
                yield {
                    **of_message, "rank": rank, "step": step, "ready_s": ready_s, "start_s": start_s, "end_s": end_s
                }  # fmt: skip


def inside_table(points: Iterable[StudyPoint]) -> Table:
    """`inside.csv`: the phases of a step, means over the windows of the latest instrumented run of a point; one row for
    each of its ranks."""
    return table_of_records([row for point in points for row in _inside(point)])


_PHASES = (
    "step_s", "input_wait_s", "host_to_device_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s",
    "gather_s",  # of parameters; null in older records
)  # fmt: skip


def _inside(point: StudyPoint) -> Iterator[Record]:
    if (limits := point.result.limits) and (phases := limits.phases):
        own = _own(point)
        for rank in range(len(phases.step_s)):
            times_s = {name: by_rank[rank] if (by_rank := getattr(phases, name)) else None for name in _PHASES}
            yield {**own, "rank": rank, **times_s}


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
    "resnetx": lambda _, here: " ".join(filter(None, [here.resnetx, here.git_revision])),
    "threads of a rank": lambda _, here: _pairs(here.threads),
    "environment variables": lambda _, here: _pairs(here.variables),
}
