"""What copies and collectives get of the lab's links, beside what these are described to carry.

python -m tests.bench.lab_links results/lab/links          # a quarter of an hour, as root, on an idle machine
python -m tests.bench.lab_links results/lab/links --table  # of the records of an earlier start

A copy between two ranks has the rate of its slowest link. Of a collective, the least time is that in which the busiest
link carries what has to cross it. A `ring` is in the order of ranks, as gloo makes it; a `tree` has to take the array
over the slowest link that it cannot avoid; `direct` sends all parts straight to where they belong. A link lends a
bucket of 128 KiB at the start, 1 % of the arrays here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import median

from resnetx.host import node_name
from resnetx.interconnect.collectives.rings import directions
from resnetx.interconnect.collectives.traffic import together
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import LabNetwork, lab_network
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord, read
from tests.bench.started import arguments
from tests.bench.truth_gloo import listed, run

SYSTEMS = ("dgx1-p100", "gx8")
RANKS = (2, 4, 8)
SCALE = 100
# Copies have no real-time priority (resnetx/measure/lab_ranks.py): slower links give a shared machine more time.
PAIR_SCALE = 400
SIZE_bytes = 16 * 2**20
DIRECT = {  # from and to whom, of so many ranks
    "alltoall": lambda ranks: list(permutations(range(ranks), 2)),
    "gather": lambda ranks: [(rank, 0) for rank in range(1, ranks)],
    "scatter": lambda ranks: [(0, rank) for rank in range(1, ranks)],
}


def main(folder: Path, words: list[str]) -> None:
    if "--table" not in words:
        for name in SYSTEMS:
            measure(
                folder / f"{name}-collectives", name, SCALE, f"collective={listed(OPERATIONS)}", f"gpus={listed(RANKS)}"
            )
            measure(folder / f"{name}-copies", name, PAIR_SCALE, "copy=device", "gpus=8")
    print("\n".join([*copies(folder), "", *collectives(folder)]))


def measure(kept: Path, name: str, scale: int, *words: str) -> None:
    if not kept.is_dir():
        made = kept.parent / "made"
        size = f"size={SIZE_bytes // 2**20}MiB"
        run("bench", *words, size, "iterations=5", f"lab.system={name}", f"lab.scale={scale}", f"results={made}")
        (made / node_name() / "bench").rename(kept)


def records(folder: Path) -> Iterator[BenchRecord]:
    for path in sorted(folder.glob("*/record.json")):
        yield read(path, BenchRecord)


def network_of(found: BenchRecord) -> LabNetwork:
    asked = found.request
    assert asked is not None
    assert asked.lab is not None, "a bench in the lab"
    return lab_network(system.load(asked.lab.system), asked.devices, asked.gpus, asked.lab.scale, asked.lab.transport)


def load_of(found: BenchRecord) -> str:
    return "" if found.host_load is None else f"{found.host_load.foreign:.0%}"


# ---- copies ---------------------------------------------------------------------------------------------------------


def copies(folder: Path) -> Iterator[str]:
    yield "| links of | rate of the path, GB/s | pairs | measured / described: median | least | most | foreign load |"
    yield "|---|---|---|---|---|---|---|"
    for name in SYSTEMS:
        for found in records(folder / f"{name}-copies"):
            network = network_of(found)
            described = {
                (route.source, route.target): 1 / s_per_byte(network, [(route.source, route.target)])
                for route in network.routes
            }
            by_rate: dict[float, list[float]] = {}
            for cell in found.cells:
                rate_Bps = described[cell.source, cell.target]
                by_rate.setdefault(rate_Bps, []).append(cell.size_bytes / median(cell.time_s) / rate_Bps)
            for rate_Bps, own in sorted(by_rate.items()):
                shares = f"{median(own):.3f} | {min(own):.3f} | {max(own):.3f}"
                links = f"{name} / {network.scale:g} | {rate_Bps / 1e9:.4f}"
                yield f"| {links} | {len(own)} | {shares} | {load_of(found)} |"


# ---- collectives ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Least:
    """The least time that the described links allow, and by which way of sending."""

    way: str
    time_s: float


def least(network: LabNetwork, name: str, size_bytes: int) -> Least:
    ranks, operation = len(network.ranks), OPERATIONS[name]
    part_bytes = size_bytes / ranks
    if name in DIRECT:
        return Least("direct", part_bytes * s_per_byte(network, DIRECT[name](ranks)))
    if name in ("broadcast", "reduce"):
        every = (s_per_byte(network, [pair]) for pair in permutations(range(ranks), 2) if 0 in pair)
        return Least("tree", size_bytes * min(every))
    places = directions(tuple(range(ranks)))
    step_s_per_byte = max(s_per_byte(network, way) for way in (places, [(b, a) for a, b in places]))
    return Least("ring", operation.bus_factor(ranks) * operation.gloo_moves * size_bytes * step_s_per_byte)


def s_per_byte(network: LabNetwork, pairs: Iterable[tuple[int, int]]) -> float:
    """What the slowest of these copies takes for each of its bytes, where all run at once."""
    return together(network, ((source, target, 1.0) for source, target in pairs))[0]


def collectives(folder: Path) -> Iterator[str]:
    columns = ["links of", "collective", "ranks", "sent as a", "least time, ms", "measured, ms"]
    columns += ["rate / that of the links", "foreign load"]
    yield f"| {' | '.join(columns)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in SYSTEMS:
        rows = []
        for found in records(folder / f"{name}-collectives"):
            network = network_of(found)
            for point in found.points:
                bound, time_s = least(network, point.collective, point.size_bytes), median(point.times_s)
                times = (
                    f"{bound.time_s * 1e3:.0f} | {time_s * 1e3:.0f} | {bound.time_s / time_s:.3f} | {load_of(found)}"
                )
                ranks = len(network.ranks)
                rows.append(
                    (
                        point.collective,
                        ranks,
                        f"| {name} / {network.scale:g} | {point.collective} | {ranks} | {bound.way} | {times} |",
                    )
                )
        yield from (row for *_, row in sorted(rows))


if __name__ == "__main__":
    results, *options = arguments(__doc__)
    main(Path(results), options)
