"""Records of a made fleet, as the runs of a check leave them, without a rank that ran."""

from pathlib import Path

import msgspec

from resnetx.choices import NoTracker
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.fleet.outliers import Tried
from resnetx.record import (
    SCHEMA,
    BenchFile,
    BenchPoint,
    BenchRequest,
    Environment,
    Gpu,
    MemoryHealth,
    RunFile,
    Warning,
    cut_short,
)

H100 = Gpu(
    index=0, name="NVIDIA H100", uuid="", pci_bus_id="", compute_capability="9.0", memory_bytes=80 * 2**30,
    power_limit_W=700.0, sm_clock_max_Hz=1.98e9, ecc=True, mig=False, pcie_generation=5, pcie_generation_max=5,
    pcie_width=16, pcie_width_max=16, nvlinks_active=18,
    memory_health=MemoryHealth(ecc_corrected=3, ecc_uncorrected=0, remapped_rows=0, remapping_pending=False,
                               remapping_failed=False),
)  # fmt: skip


def gpu(index: int = 0, **changed) -> Gpu:
    return msgspec.structs.replace(H100, index=index, **changed)


def machine(node: str, **changed) -> Environment:
    """A node with two GPUs in good order."""
    plain = dict.fromkeys((field.name for field in msgspec.structs.fields(Environment) if field.required), None)
    words = dict.fromkeys(("system", "python", "resnetx", "torch"), "1")
    whole = {"cpus_usable": 8, "host_memory_bytes": 2**30, "network": [], "threads": {}, "variables": {}}
    known = {"node": node, "cpu": "EPYC", "driver": "570", "nccl": "2.30", "cpu_governor": "performance"}
    gpus = {"gpus": [gpu(0), gpu(1)]}
    return Environment(**{**plain, **words, **whole, **known, **gpus, **changed})


BENCH = BenchFile(
    kind="bench",
    schema=SCHEMA,
    timeout_s=60.0,
    request=BenchRequest(
        collectives=["allreduce"], sizes_bytes=[2**20], gpus=2, devices=None, env={}, threads=1, warmup=1, iterations=3,
        seed=0,
    ),
)  # fmt: skip


def point(time_s: float, **changed) -> BenchPoint:
    made = BenchPoint(
        collective="allreduce", size_bytes=2**20, times_s=[time_s] * 3, wrong=0, cpu_share=None, computing_lost=None
    )
    return msgspec.structs.replace(made, **changed)


def all_reduce(
    nodes: str, time_s: float | None, reason: str = "", *, environment: Environment | None = None, **changed
) -> Tried:
    """An all-reduce of a node, or of a pair as "a b"; `time_s` None: it failed."""
    blank = cut_short(BENCH, 0.0, "failed" if time_s is None else "ok", reason)
    points = [] if time_s is None else [point(time_s, **changed)]
    found = msgspec.structs.replace(blank, points=points, environment=environment)
    names = tuple(nodes.split())
    return Tried("pair" if len(names) > 1 else "all-reduce", names, found, Path(nodes.replace(" ", "_")))


def training(node: str, iteration_s: float | None, reason: str = "", *, warnings: tuple[Warning, ...] = (), **known):
    task = RunFile(
        schema=SCHEMA, request=request_from(compose({"input": "synthetic"})), study=None, repeat=1, timeout_s=60.0,
        convention="caffe", tracker=NoTracker(),
    )  # fmt: skip
    blank = cut_short(task, 0.0, "failed" if iteration_s is None else "ok", reason)
    rate = None if iteration_s is None else 1 / iteration_s
    found = msgspec.structs.replace(blank, iterations_per_s=rate, warnings=list(warnings), **known)
    return Tried("training", (node,), found, Path(node))
