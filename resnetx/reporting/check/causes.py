"""Why a node may be slow, by what its records have: each cause with its evidence and figures.

What is odd about a node is told by its own maximum (lanes of a link), by counters that should stand at nought, by the
warnings of its runs, or by what most other nodes have.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar, get_args

from resnetx.record import BenchRecord, Environment, Gpu, RunRecord, Warning
from resnetx.record.check import Cause, CauseKind

CLOCK_SPREAD = 0.02  # of the fleet's median clock, below which a node's is no cause
_OF_WARNINGS: dict[str, CauseKind] = {
    "throttled": "clock",
    "uneven-clocks": "clock",
    "link-errors": "link errors",
    "foreign-load": "foreign load",
    "shared-gpus": "foreign load",
}
_SOFTWARE = ("driver", "torch", "cuda", "hip", "nccl", "resnetx", "git_revision")
UNKNOWN = Cause("unknown", "nothing in its records explains it")

T = TypeVar("T")


@dataclass(frozen=True)
class NodeFacts:
    """What the runs of one node tell of it."""

    node: str
    machine: Environment | None  # None: no run got as far as to look
    warnings: tuple[Warning, ...] = ()
    clock_Hz: float | None = None  # of its slowest GPU: the median while it trained

    @property
    def gpus(self) -> list[Gpu]:
        return (self.machine.gpus if self.machine else None) or []


def facts_of(node: str, records: Sequence[BenchRecord | RunRecord]) -> NodeFacts:
    """What the records of a node's own runs tell."""
    machines = [record.environment for record in records if record.environment]
    warnings = {warning.message: warning for record in records for warning in record.warnings}
    return NodeFacts(node, machines[-1] if machines else None, tuple(warnings.values()), _clock_Hz(records))


def _clock_Hz(records: Sequence[BenchRecord | RunRecord]) -> float | None:
    samples = [each for run in records if isinstance(run, RunRecord) for each in run.gpu_samples or []]
    return min((median(each.sm_clock_Hz) for each in samples if each and each.sm_clock_Hz), default=None)


def causes(node: NodeFacts, fleet: Sequence[NodeFacts], wanted_gpus: int | None = None) -> list[Cause]:
    """What is odd about a node, the likeliest first; `wanted_gpus`: that it should have, where that is known."""
    found = [cause for judge in (_memory, _links, _nvlinks, _clock, _software) for cause in judge(node, fleet)]
    found += _missing_gpus(node, fleet, wanted_gpus)
    found += [Cause(_OF_WARNINGS[each.code], each.message) for each in node.warnings if each.code in _OF_WARNINGS]
    order = get_args(CauseKind)
    return sorted(found, key=lambda cause: order.index(cause.kind))


def usual(values: Sequence[T | None]) -> T | None:
    """What more than half of at least three have; None where there is no such value."""
    if len(values) < 3:
        return None
    ((value, count),) = Counter(values).most_common(1)
    return value if 2 * count > len(values) else None


# ---- one kind of cause after the other ------------------------------------------------------------------------------


def _missing_gpus(node: NodeFacts, fleet: Sequence[NodeFacts], wanted: int | None) -> Iterator[Cause]:
    if node.machine is None:
        return
    due = wanted if wanted is not None else usual([len(each.gpus) for each in fleet if each.machine])
    if due is not None and len(node.gpus) < due:
        whose = "the description and the site file name" if wanted is not None else "most nodes have"
        yield Cause("missing GPUs", f"its driver shows {len(node.gpus)} GPUs, {whose} {due}")


def _memory(node: NodeFacts, _: Sequence[NodeFacts]) -> Iterator[Cause]:
    for gpu in node.gpus:
        if (health := gpu.memory_health) is None:
            continue
        said = [
            f"{health.ecc_uncorrected} memory errors that ECC could not correct" * bool(health.ecc_uncorrected),
            f"{health.remapped_rows} remapped rows" * bool(health.remapped_rows),
            "a row that waits for a reset to be remapped" * bool(health.remapping_pending),
            "no spare row left, so that it is to be replaced" * bool(health.remapping_failed),
        ]
        if any(said):
            yield Cause("memory errors", f"GPU {gpu.index}: {', '.join(filter(None, said))}")


def _links(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    """A GPU at rest lowers the generation of its link: only that of others at the same moment tells something."""
    now = _usual_of_gpus(fleet, lambda gpu: gpu.pcie_generation)
    most = _usual_of_gpus(fleet, lambda gpu: gpu.pcie_generation_max)
    for gpu in node.gpus:
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            yield Cause("link width", f"GPU {gpu.index}: {gpu.pcie_width} of {gpu.pcie_width_max} lanes of PCIe are up")
        if most and gpu.pcie_generation_max and gpu.pcie_generation_max < most:
            text = f"GPU {gpu.index}: PCIe generation {gpu.pcie_generation_max} at most, of most GPUs {most}"
            yield Cause("link width", text)
        elif now and gpu.pcie_generation and gpu.pcie_generation < now:
            text = f"GPU {gpu.index}: PCIe generation {gpu.pcie_generation}, while most GPUs had {now}"
            yield Cause("link width", text)


def _nvlinks(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    due = _usual_of_gpus(fleet, lambda gpu: gpu.nvlinks_active)
    for gpu in node.gpus:
        if due and gpu.nvlinks_active is not None and gpu.nvlinks_active < due:
            yield Cause("NVLink", f"GPU {gpu.index}: {gpu.nvlinks_active} NVLinks are up, of most GPUs {due}")


def _usual_of_gpus(fleet: Sequence[NodeFacts], fact: Callable[[Gpu], int | None]) -> int | None:
    return usual([fact(gpu) for each in fleet for gpu in each.gpus])


def _clock(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    clocks_Hz = [each.clock_Hz for each in fleet if each.clock_Hz]
    if node.clock_Hz and len(clocks_Hz) >= 3 and node.clock_Hz < (1 - CLOCK_SPREAD) * median(clocks_Hz):
        text = f"its slowest GPU ran at {node.clock_Hz / 1e6:.0f} MHz, the fleet's median is "
        yield Cause("clock", text + f"{median(clocks_Hz) / 1e6:.0f} MHz")
    governor = usual([each.machine.cpu_governor for each in fleet if each.machine])
    if node.machine and governor and node.machine.cpu_governor not in (None, governor):
        yield Cause("clock", f"its CPU governor is {node.machine.cpu_governor}, of most nodes {governor}")


def _software(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    for name in _SOFTWARE if node.machine else ():
        due, own = usual([getattr(each.machine, name) for each in fleet if each.machine]), getattr(node.machine, name)
        if due is not None and own != due:
            yield Cause("software", f"its {name.replace('_', ' ')} is {own or 'not known'}, of most nodes {due}")
