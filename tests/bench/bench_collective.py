"""How long systems, ring searches and costs take, and how that grows with the machine.

python -m tests.bench.bench_collective
"""

import time
from collections.abc import Callable
from itertools import combinations

from resnetx.interconnect.collectives import rings
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.system import load
from tests.bench.started import arguments

LIMITS_S = {"rings of 8 GPUs": 0.05, "all 247 subsets of a DGX-1": 5.0, "a cost": 50e-6}


def seconds(work: Callable[[], object], times: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def say(what: str, taken_s: float, limit_s: float | None = None) -> None:
    limit = f"   at most {limit_s * 1e3:g} ms: {'holds' if taken_s <= limit_s else 'MISSED'}" if limit_s else ""
    print(f"{taken_s * 1e3:10.3f} ms  {what}{limit}")


def mesh(count: int, lanes: int) -> list[list[int]]:
    return [[lanes * (a != b) for b in range(count)] for a in range(count)]


def main() -> None:
    say("load dgx1-v100 (cold, with all parts)", seconds(lambda: load("dgx1-v100")))
    v100, p100 = load("dgx1-v100"), load("dgx1-p100")
    lanes = [[paths.nvlink_lanes(v100, a, b) for b in range(8)] for a in range(8)]
    say("rings of 8 GPUs of dgx1-v100", seconds(lambda: rings.pack_rings(lanes)), LIMITS_S["rings of 8 GPUs"])
    for library in ("nccl1", "nccl2", "nccl2.4"):
        taken_s = seconds(lambda library=library: plan(v100, library=library))
        say(f"plan of 8 GPUs of dgx1-v100, {library}", taken_s, LIMITS_S["rings of 8 GPUs"])
    for system in (p100, v100):
        subsets = [chosen for count in range(2, 9) for chosen in combinations(range(8), count)]
        assert len(subsets) == 247
        taken_s = seconds(lambda system=system, subsets=subsets: [plan(system, devices=chosen) for chosen in subsets])
        say(f"all 247 subsets of {system.name}", taken_s, LIMITS_S["all 247 subsets of a DGX-1"])
    made = plan(v100, library="nccl2.4")
    say("a cost", seconds(lambda: made.cost(2**26), 10_000), LIMITS_S["a cost"])
    say("the fractional bound of 8 GPUs (linear program)", seconds(lambda: made.bound_lanes))
    print("meshes without switches, one lane between every two GPUs:")
    for count in (4, 6, 8, 10, 12):
        found = rings.pack_rings(full := mesh(count, 1))
        taken_s = seconds(lambda full=full: rings.pack_rings(full))
        say(f"{count} GPUs: {len(found)} rings of at most {count - 1}", taken_s)
    print("nodes of dgx-h100 with 8 cards each, load and plan:")
    for nodes in (1, 2, 8, 32, 128):
        taken_s = seconds(lambda nodes=nodes: load("dgx-h100", nodes, "ndr400", 8))
        system = load("dgx-h100", nodes, "ndr400", 8)
        say(f"{8 * nodes:5d} GPUs: load", taken_s)
        say(f"{8 * nodes:5d} GPUs: plan", seconds(lambda system=system: plan(system)))


if __name__ == "__main__":
    arguments(__doc__)
    main()
