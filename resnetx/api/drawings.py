"""Files beside a record: where each is, and once why no figure is drawn where nothing can draw."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx import progress, record
from resnetx.errors import ConfigError
from resnetx.record.topologies import CollectiveCost, GpuChoice, PairCosts, TopologyRecord
from resnetx.table import Records
from resnetx.units import size_text

if TYPE_CHECKING:  # `report` of a study needs none of them
    from resnetx.interconnect.collectives.plan import CollectivePlan, Cost
    from resnetx.interconnect.collectives.rings import Ring
    from resnetx.interconnect.systems.system import System
    from resnetx.reporting.charts.figure import Figure

# Drawings of systems, with the rings of a collective over them.

DRAWN_NODES = 4  # with more nodes, one of them is drawn


def of_system(machine: "System") -> "Figure":
    """Its links."""
    return _graph(machine, machine.name, None, 0)


def of_plan(plan: "CollectivePlan", size_bytes: int) -> "Figure":
    """The rings of a collective of this size: dgx1-v100_allreduce_nccl2, with the GPU ids where some are left out."""
    words = [plan.system.name, plan.collective, plan.library]
    if len(plan.devices) < len(plan.system.gpus):
        words.append("-".join(map(str, plan.devices)))
    return _graph(plan.system, "_".join(words).replace(" ", "-"), plan, size_bytes)


def figures(records: Sequence[TopologyRecord]) -> "Iterator[Figure]":
    """Curves of collectives over size and over GPUs, and matrices and curves of pairs, as Li et al. 2019 draw them."""
    from resnetx.reporting.charts.benches import described_choices, described_collectives, described_pairs

    costs = [each for each in records if isinstance(each, CollectiveCost)]
    for name in dict.fromkeys(cost.collective for cost in costs):
        yield from described_collectives([cost for cost in costs if cost.collective == name])
    pairs = [each for each in records if isinstance(each, PairCosts)]
    for system, transport in dict.fromkeys((pair.system, pair.transport) for pair in pairs):
        same = [pair for pair in pairs if (pair.system, pair.transport) == (system, transport)]
        yield from described_pairs(same)
    yield from described_choices([each for each in records if isinstance(each, GpuChoice)])


def _graph(machine: "System", name: str, plan: "CollectivePlan | None", size_bytes: int) -> "Figure":
    from resnetx.reporting.charts import topology

    told, walks = "", []
    if plan is not None:
        cost = plan.cost(size_bytes)
        told = f"{plan.collective} of {size_text(size_bytes)}, {gpu_ids(plan.devices)}, {plan.library}: "
        told += f"{cost.algorithm}, {cost.busbw_Bps / 1e9:.1f} GB/s bus bandwidth. "
        walks = [topology.Walk(name, ring.walk, ring.closed) for name, ring, _ in distinct(rings_of(plan, cost))]
    if machine.nodes > (DRAWN_NODES if plan is None else 1):  # a plan's rings are those of its first node
        told += f"The first of {machine.nodes} nodes, which are alike."
        machine = topology.first_node(machine)
    return topology.graph(machine, walks, told.strip(), name)


# ---- what is said of a collective -----------------------------------------------------------------------------------


def rings_of(plan: "CollectivePlan", cost: "Cost") -> "Sequence[Ring]":
    """The rings, or the chains of a tree, that the data takes; none where switches reduce."""
    return {"ring": plan.rings, "tree": plan.chains}.get(cost.algorithm, ())


def distinct(rings: "Sequence[Ring]") -> "list[tuple[str, Ring, float]]":
    """(name, one of them, B/s of all) of rings, those of the same order together."""
    alike: dict[tuple[tuple[int, ...], bool], list[Ring]] = defaultdict(list)
    for ring in rings:
        alike[ring.order, ring.closed].append(ring)
    found: list[tuple[str, Ring, float]] = []
    for same in alike.values():
        name = f"{'ring' if same[0].closed else 'chain'} {len(found) + 1}"
        count = f" ({len(same)} of them)" if len(same) > 1 else ""
        found.append((name + count, same[0], sum(ring.bandwidth_Bps for ring in same)))
    return found


def gpu_ids(devices: Sequence[int]) -> str:
    if len(devices) > 8 and list(devices) == list(range(devices[0], devices[-1] + 1)):
        return f"GPUs {devices[0]} to {devices[-1]}"
    return f"GPUs {' '.join(map(str, devices))}"


def store(figures: Iterable["Figure"], folder: Path) -> None:
    """Writes the files of figures, and says which one of each to look at."""
    from resnetx.reporting.charts import figure as files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [files.write_figure(figure, files.draw_figure(figure), folder) for figure in figures]
    except OSError as error:
        raise ConfigError(f"out={folder}: figures cannot be written there: {error.strerror}") from None
    for path in written:
        progress.command(f"figure: {path}")
    if written:
        note_undrawn()


def note_undrawn() -> None:
    """Says what is left out without the extra that draws, and the command that brings it."""
    from resnetx.reporting.charts import figure

    if why := figure.undrawn():
        progress.note(f"Left out: drawings (SVG, PDF) of these Vega-Lite files. {why}")


@contextmanager
def writing(folder: Path, then: str = "") -> Iterator[None]:
    """Refuses a folder of `out=` that turns out not to be writable while something is written into it."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"out={folder}: cannot be written ({error.strerror}){then}") from None


def store_record(folder: Path, file: Path, content: Any) -> None:
    """Writes a record to the folder that `out=` names, and says where it is."""
    with writing(folder):
        record.write(file, content)
    progress.command(f"record: {file}")


def store_rows(folder: Path, name: str, rows: Sequence[Any]) -> None:
    """Writes records to the folder that `out=` names: NAME.jsonl, one a line as --json prints them, and NAME.csv."""
    from resnetx.reporting.csv_tables import write_csv

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        write_csv(folder / f"{name}.csv", Records(rows).table())
    progress.command(f"answer: {folder / name}.jsonl")


_ANSWERED_BY = {**{verb: verb for verb in ("explain", "doctor", "topology", "lab")}, "workloads": "describe"}


def kept_answer(folder: Path) -> str:
    """Says that `store_rows` filled a folder, which holds no record that another verb would take; "" of others."""
    verb = next((verb for name, verb in _ANSWERED_BY.items() if (folder / f"{name}.jsonl").is_file()), "")
    return f"{folder}: an answer of {verb}, which has its own page, {folder / 'index.html'}" if verb else ""
