"""Profiles of the ranks of a data-parallel job on GPUs, as Kineto writes them, with times that are known exactly.

A network of two layers under DDP: all ranks begin a step together, each computes for its own time, a bucket of each
layer's gradients is sent as the last rank has it, and takes TRANSFERS. Each rank has a clock of its own. Microseconds.
"""

import random
from dataclasses import dataclass, field
from typing import Any

PARTS = {"update": 1_000, "input": 2_000, "forward": 10_000, "backward": 20_000}
TRANSFERS, SIZES = (4_000, 3_000), (8_000_000, 4_000_000)  # of both buckets; bytes
LAUNCH = 500  # from the launch of a kernel until it runs
APART = 3_600e6  # of the clocks of two ranks
NODE = "autograd::engine::evaluate_function: "


@dataclass
class RankFile:
    """The profile of one rank as it is made."""

    rank: int
    ranks: int
    events: list[dict[str, Any]] = field(default_factory=list)
    launched: int = 0

    def host(self, cat: str, name: str, ts: float, end: float, tid: int = 1, **args: Any) -> None:
        ts, dur = ts - LAUNCH, max(1.0, end - ts)
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def kernel(self, name: str, issued: float, ts: float, end: float, tid: int = 1, **args: Any) -> None:
        self.launched += 1
        self.host("cuda_runtime", "cudaLaunchKernel", issued, issued, tid, correlation=self.launched)
        args = {"correlation": self.launched, "stream": 7, **args}
        cat = "gpu_memcpy" if "Memcpy" in name else "kernel"
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": end - ts, "args": args}
        )

    def computed(self, name: str, ts: float, end: float, number: int, tid: int = 1) -> None:
        """An operation, or a node that undoes the one of this number, with its kernel."""
        self.host("cpu_op", name, ts, ts + 10, tid, **{"Sequence number": number})
        self.kernel(name, ts + 1, ts, end, tid)

    def sent(self, place: int, step: int, issued: float, ts: float, end: float, **args: Any) -> None:
        """An all-reduce of one bucket, launched as the gradients of its layer are accumulated."""
        elements = SIZES[place] // 4
        shape = {"Input Dims": [[elements]], "Input type": ["float"]}
        self.host("cpu_op", NODE + "torch::autograd::AccumulateGrad", issued - 8, issued + 12, 2)
        self.host("cpu_op", "torch::autograd::AccumulateGrad", issued - 7, issued - 5, 2, **shape)
        self.host("cpu_op", "c10d::allreduce_", issued - 2, issued + 10, 2)
        described = {
            "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
            "Group size": self.ranks, "Process Group Name": "0", "Process Group Ranks": str([*range(self.ranks)]),
            "Seq": 2 * step + place, **args,
        }  # fmt: skip
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        self.kernel(name, issued, ts, end, 2, **described)

    def content(self, **more: Any) -> dict[str, Any]:
        shift = self.rank * APART
        return {
            "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-16GB"}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.ranks, "pg_count": 1},
            "host_name": f"node{self.rank // 2}", "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": [{**event, "ts": round(event["ts"] + shift, 3)} for event in self.events], **more,
        }  # fmt: skip


def job(
    ranks: int = 4, steps: int = 12, late: int = -1, phase: str = "", by: float = 0.0, noise: float = 0.0, seed: int = 0
) -> list[RankFile]:
    """The profiles of its ranks; `late` is so much longer in one phase; `noise`: of each phase, relative."""
    drawn = random.Random(seed)
    files = [RankFile(rank, ranks) for rank in range(ranks)]
    begin = 10_000.0
    for step in range(steps):
        own = [
            {name: time * drawn.gauss(1, noise) + by * ((rank, name) == (late, phase)) for name, time in PARTS.items()}
            for rank in range(ranks)
        ]
        half = [begin + sum(each.values()) - each["backward"] / 2 for each in own]
        full = [begin + sum(each.values()) for each in own]
        first = max(half) + TRANSFERS[0]
        end = max(max(full), first) + TRANSFERS[1]
        for file, parts, first_issued, last_issued in zip(files, own, half, full, strict=True):
            _step(file, step, begin, parts, (first_issued, first, last_issued, end))
        begin = end
    return files


def _step(file: RankFile, step: int, begin: float, parts: dict[str, float], sent: tuple[float, ...]) -> None:
    first_issued, first, last_issued, end = sent
    forward = begin + parts["update"] + parts["input"]
    half = forward + parts["forward"] / 2
    backward = forward + parts["forward"]
    file.host("user_annotation", "Optimizer.step#SGD.step", begin, begin + 20)
    file.kernel("multi_tensor", begin + 1, begin, begin + parts["update"])
    file.host("user_annotation", f"ProfilerStep#{step}", begin + 30, end + 30)
    file.host("cpu_op", "aten::to", forward - 100, forward - 90)
    file.kernel("Memcpy HtoD (Pinned -> Device)", forward - 99, forward - 100, forward)
    file.host("user_annotation", "DistributedDataParallel.forward", forward, backward)
    file.computed("aten::conv2d", forward, half, 10 * step)
    file.computed("aten::linear", half, backward, 10 * step + 1)
    file.computed(NODE + "AddmmBackward0", backward, first_issued, 10 * step + 1, tid=2)
    file.sent(0, step, first_issued, first_issued, first)
    file.computed(NODE + "ConvolutionBackward0", first_issued + 20, last_issued, 10 * step, tid=2)
    file.sent(1, step, last_issued, max(last_issued, first), end)


# ---- FSDP -----------------------------------------------------------------------------------------------------------

GATHER, SCATTER = "_allgather_base", "_reduce_scatter_base"
SHARDED = 1_000  # microseconds of each transfer, for which all ranks wait


def sharded_job(
    ranks: int = 4, steps: int = 12, late: int = -1, phase: str = "", by: float = 0.0, noise: float = 0.0, seed: int = 0
) -> list[RankFile]:
    """The same under FSDP: parameters are gathered before each layer's pass, and awaited; gradients behind it."""
    drawn = random.Random(seed)
    files = [RankFile(rank, ranks) for rank in range(ranks)]
    now = [10_000.0] * ranks

    def computed(name: str, part: str, share: float, number: int = -1) -> None:
        for rank, file in enumerate(files):
            begin, more = now[rank], by * ((rank, part) == (late, phase))
            now[rank] += share * (PARTS[part] * drawn.gauss(1, noise) + more)
            if part == "update":
                file.host("user_annotation", "Optimizer.step#SGD.step", begin, begin + 20)
                file.kernel("multi_tensor", begin + 1, begin, now[rank])
            elif part != "input":
                file.computed(name, begin, now[rank], number, tid=1 + (part == "backward"))

    def exchanged(name: str, size: int, tid: int) -> None:
        end = max(now) + SHARDED
        for rank, file in enumerate(files):
            issued = now[rank]
            file.host("user_annotation", f"FSDP::{'all_gather' if name == GATHER else 'post_backward_reduce'}",
                      issued, issued + 15, tid)  # fmt: skip
            file.host("cpu_op", f"c10d::{name}_", issued + 1, issued + 12, tid)
            elements = {"In msg nelems": size // 4, "Out msg nelems": size // 4 // ranks, "dtype": "Float"}
            kernel = (
                "ncclDevKernel_AllGather_RING_LL" if name == GATHER else "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"
            )
            file.kernel(
                kernel, issued + 2, issued, end, tid, **{"Collective name": name, "Group size": ranks, **elements}
            )
            if name == SCATTER:
                shape = {"Input Dims": [[size // 4]], "Input type": ["float"]}
                file.host("cpu_op", NODE + "torch::autograd::AccumulateGrad", issued - 8, issued - 2, tid)
                file.host("cpu_op", "torch::autograd::AccumulateGrad", issued - 7, issued - 5, tid, **shape)
            now[rank] = end

    for step in range(steps):
        begins = list(now)
        computed("", "update", 1)
        computed("", "input", 1)
        for layer, size in enumerate(SIZES):
            exchanged(GATHER, size, 1)
            computed(("aten::conv2d", "aten::linear")[layer], "forward", 0.5, 10 * step + layer)
        for layer, size in reversed(list(enumerate(SIZES))):
            exchanged(GATHER, size, 2)
            computed(NODE + "XBackward0", "backward", 0.5, 10 * step + layer)
            exchanged(SCATTER, size, 2)
        for file, begin, end in zip(files, begins, now, strict=True):
            file.host("user_annotation", f"ProfilerStep#{step}", begin + 30, end + 29)
    return files
