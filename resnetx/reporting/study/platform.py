"""The table of what was measured on: the first table of every paper about interconnects."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from resnetx.record import Environment, RunSummary
from resnetx.record.machine import Gpu
from resnetx.reporting.study.results import Results
from resnetx.units import si

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
        name, cells = f"{results.study.name} on {results.study.node}", [_cell(runs, fact) for fact in _FACTS.values()]
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


def _cell(runs: Iterable[RunSummary], fact: _Fact) -> FactValues:
    values = [fact(run, run.environment) for run in runs if run.environment]
    return FactValues(
        dict(Counter(NOT_KNOWN if value is None else value for value in values if value != "").most_common())
    )


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
    parts = [f"{here.cpu_sockets} sockets" * bool(here.cpu_sockets), f"{here.cpu_cores} cores" * bool(here.cpu_cores)]
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
