"""The targets that read what other programs write: nccl-tests, PyTorch's profiler, the traces of Shi et al."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from resnetx import record
from resnetx.api.found_system import loaded
from resnetx.cli.verbs import show_explain
from resnetx.errors import ConfigError
from resnetx.formats import logs
from resnetx.interconnect.collectives import measured
from resnetx.interconnect.collectives.bench_reading import import_bench, with_readings
from resnetx.interconnect.survey.survey import PartSettings, joined
from resnetx.interconnect.survey.survey_sources import read_survey
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems.system import load
from resnetx.literature.score import read_predictions
from resnetx.record.traces import observations
from resnetx.reporting.slow_rank import observed_answer, observed_ranks
from resnetx.traces import trace_files
from resnetx.traces.job_traces import import_job
from resnetx.units import CPU
from tests.fuzz.harness import Target, seldom
from tests.fuzz.of_yaml import fitted
from tests.record.profiled_job import job

TABLE = b"""# Collective test starting: all_reduce_perf
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304
# Using devices
#   Rank  0 Pid    353 on       node device  0 [0x07] NVIDIA
#   Rank  1 Pid    353 on       node device  1 [0x0a] NVIDIA
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    80.10   13.09   22.91      0    79.90   13.12   22.97      0
     2097152        524288     float     sum      -1    95.10   22.05   38.59      3    94.90   22.10   38.67      0
     4194304       1048576     float     sum      -1    151.0   27.78   48.61    N/A    150.9   27.80   48.64    N/A
# Out of bounds values : 0 OK
"""
OLD_TABLE = b"""\
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
     1048576        262144   float     sum    80.10   13.09   22.91  5e-07    79.90   13.12   22.97  5e-07
     4194304       1048576   float     sum    151.0   27.78   48.61  5e-07    150.9   27.80   48.64  5e-07
"""
# As srun --label prints it, a rank and a host of each group listed; what was pasted from Open MPI, with a command.
LABELLED_TABLE = b"""0: mpirun -np 4 ./all_gather_perf -b 8 -e 8M -g 2
0: #  Rank  0 Group  0 Pid   6287 on     node-a device  0 [0000:18:00] NVIDIA H200
0: #  Rank  1 Group  0 Pid   6288 on     node-b device  0 [0000:18:00] NVIDIA H200
0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
0:      1048576        131072     float    none      -1    80.10   13.09    6.55      0    79.90   13.12    6.56      2
0:      4194304        524288     float    none      -1    151.0   27.78   13.89      0    150.9   27.80   13.90    N/A
0: # Out of bounds values : 1 FAILED
"""
TAGGED_TABLE = b"""\x1b[32m[1,0]<stdout>:\x1b[0m#   bytes   N   type   op   time  algbw  busbw   res
[1,0]<stdout>:     1048576        262144   float     sum    0.080  13.09  22.91    5e-07
2026-01-31T03:04:05.6Z stdout F     4194304        1048576   float     sum    0.151  27.78  48.61    5e-02
[1,0]<stdout>: Out of bounds values : 1 FAILED
"""
HEADLESS_TABLE = b"""$ mpiexec -l -n 8 all_reduce_perf
[0]  1048576   262144   float   sum   80.10  13.09  22.91  5e-07 [0]  79.90  13.12  22.97  5e-07
"""
NCCL_JSON = json.dumps({
    "version": 3,
    "args": ["./build/all_reduce_perf", "-J", "out.json"],
    "config": {"devices": [{"rank": 0, "hostname": "a", "device": 0}, {"rank": 1, "hostname": "b", "device": 0}]},
    "out_of_bounds": {"count": 0, "okay": "true"},
    "results": [
        {
            "size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1",
            "out_of_place": {"time": 80.1, "alg_bw": 13.090836, "bus_bw": 13.090836, "nwrong": 0},
            "in_place": {"time": 79.9},
        },
        {"size": 2097152, "out_of_place": {"time": 95.1, "nwrong": "N/A"}},
        {"size": 4194304, "out_of_place": {"time": 151.0, "nwrong": None}},
    ],
}).encode()  # fmt: skip
COLUMNS = [
    b"id name forward backward comm size\n"
    b"0 data 1.20e+06 0 0 0\n1 conv1 3.27e+06 288202 123.424 139776\n2 loss 10 5 0 0\n",
    b"# two\n0\tdata\t100\t0\t0\t0\n1\tconv 1\t200\t300\t50\t1024\n\n"
    b"0\tdata\t90\t0\t0\t0\n1\tconv 1\t210\t310\t51\t1024\n",
]


PREDICTIONS = [
    b"id,predicted,low,high\nallreduce/a/1,58.2,50,66.9\nrate/b/2,195,,\n",
    b'"predicted",note,id\n1.5e3,"more, and ""more""",rate/b/2\n',
]


def _use_predictions(path: Path) -> None:
    read_predictions(path, ["allreduce/a/1", "rate/b/2"])


def _use_nccl_tests(path: Path) -> None:
    """Imports it, and calibrates with it."""
    with_readings(import_bench(path, None, None), load("dgx-h200"))
    fitted(measured.read(str(path), "allreduce"))


TORCH_LOG = b"""Epoch 0
[rank1]:[E6 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020 \
milliseconds before timing out.
[rank1]:[E6 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1] failure detected by watchdog \
at work sequence id: 808 PG status: last enqueued work: 811, last completed work: 807
[PG ID 0 PG GUID 0 Rank 0] Received a dump signal due to a collective timeout from  rank 1: last enqueued work: 2, \
last completed work: 2
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_16:39:57
  host      : node2
  rank      : 1 (local_rank: 1)
  exitcode  : -6 (pid: 78970)
"""


def _use_torch_log(path: Path) -> None:
    assert logs.says(path.read_bytes().decode(errors="replace")).count("\n") == 0
    with suppress(ConfigError):  # which says it
        import_bench(path, None, None)


def _events() -> list[dict[str, Any]]:
    """Two steps of two layers on a GPU, as Kineto writes them."""
    node = "autograd::engine::evaluate_function: "
    shapes = {"Input Dims": [[10, 4], []], "Input type": ["float", ""]}
    step = [
        ("user_annotation", "ProfilerStep#1", 0, 100, {}),
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 5, {}),
        ("python_function", "nn.Module: Linear_0", 9, 22, {"Python id": 1}),
        ("cpu_op", "aten::linear", 10, 20, {"External id": 3, "Sequence number": 5}),
        ("cuda_runtime", "cudaLaunchKernel", 12, 1, {"correlation": 1, "External id": 3}),
        ("cpu_op", "aten::relu", 33, 2, {"External id": 4, "Sequence number": 6}),
        ("cpu_op", node + "AddmmBackward0", 40, 10, {"Sequence number": 5}),
        ("cpu_op", node + "torch::autograd::AccumulateGrad", 50, 5, {}),
        ("cpu_op", "torch::autograd::AccumulateGrad", 51, 3, shapes),
        ("user_annotation", "gloo:barrier", 56, 3, {}),
        ("user_annotation", "Optimizer.step#SGD.step", 60, 9, {}),
        ("kernel", "gemm", 70, 7, {"correlation": 1}),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 80, 4, {}),
        ("kernel", "ncclDevKernel_Broadcast", 85, 4, {}),
    ]
    return [
        {"ph": "X", "cat": cat, "name": name.replace("#1", f"#{index + 1}"), "ts": ts + 100 * index, "dur": dur,
         "pid": 1, "tid": 7 if cat in ("kernel", "gpu_memcpy") else 1,
         "args": args | ({"correlation": index} if "correlation" in args else {})}
        for index in range(2) for cat, name, ts, dur, args in step
    ]  # fmt: skip


def profiles() -> list[bytes]:
    """Of a GPU, and of the host alone; without step marks, without an optimizer, and of inference."""
    host = [event for event in _events() if event["cat"] not in ("kernel", "gpu_memcpy", "cuda_runtime")]
    unmarked = _without(_events(), "ProfilerStep#")
    inference = _without(unmarked, "autograd::", "Optimizer", "torch::autograd")
    kinds = [
        *(_events(), host, unmarked, _without(unmarked, "Optimizer"), inference),
        _without(inference, "nn.Module"),
        _without([event for event in inference if event["cat"] == "cpu_op"] * 3, "gloo"),
    ]
    top = {"schemaVersion": 1, "baseTimeNanoseconds": 1_500_000_000_000_000_000}
    devices = [{"id": 0, "name": "Tesla V100-SXM2-16GB"}]
    return [
        json.dumps({**top, "deviceProperties": devices, "traceEvents": kind}, separators=(",\n", ": ")).encode()
        for kind in kinds
    ]


def _without(events: list[dict[str, Any]], *beginnings: str) -> list[dict[str, Any]]:
    return [event for event in events if not event["name"].startswith(beginnings)]


def _event_lists() -> list[bytes]:
    other = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
    return [json.dumps([other, *json.loads(profile)["traceEvents"]]).encode() for profile in profiles()]


def use_import(path: Path) -> None:
    """Imports it for the device that it is of, writes the record, and reads that again."""
    try:
        named = {"v100-sxm2-16gb": ("Tesla V100-SXM2-16GB",)}
        trace = trace_files.read(path, batch_size=8, device="v100-sxm2-16gb", workload="x", parts=named)
    except ConfigError as error:
        if "has no kernels of a GPU" not in str(error):
            raise
        trace = trace_files.read(path, batch_size=8, device=CPU)
    if seldom(path):
        show_explain.show_trace(trace)
    record.write(path.with_name("imported.json"), trace)
    assert trace_files.read_trace(path.with_name("imported.json")) == trace


@cache
def ranks_of_a_job() -> list[bytes]:
    """The second of two ranks: of GPUs, and of CPUs over gloo, under DDP and under FSDP."""
    content = job(ranks=2, steps=4)[1].content()
    on_cpus = _on_cpus(content["traceEvents"])
    kinds = (content["traceEvents"], on_cpus, _sharded(on_cpus))
    return [json.dumps({**content, "traceEvents": kind}, separators=(",\n", ": ")).encode() for kind in kinds]


def _on_cpus(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What runs on the device, on threads of gloo; without what computes there."""
    host = [event for event in events if event["cat"] not in ("kernel", "gpu_memcpy", "cuda_runtime")]
    own = {"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 9}
    own["args"] = {"Input Dims": [[100]], "Input type": ["float"]}
    return host + [{**event, **own} for event in events if event["name"].startswith("nccl")]


def _sharded(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {"c10d::allreduce_": "c10d::_reduce_scatter_base_", "DistributedDataParallel.forward": "FSDP::pre_forward"}
    return [{**event, "name": names.get(event["name"], event["name"])} for event in events]


def use_rank(path: Path) -> None:
    """Imports it beside the first rank, as it should be or changed in the same way, and says who is late; and alone."""
    content, first = path.read_bytes(), path.with_name("rank0.json")
    like = next((each for each in reversed(ranks_of_a_job()) if seldom(path) and each[:99] == content[:99]), content)
    first.write_bytes(like.replace(b'"rank": 1', b'"rank": 0', 1))
    parts = {"v100-sxm2-16gb": ("Tesla V100-SXM2-16GB",)}
    device = CPU if b"gloo:" in content else "v100-sxm2-16gb"
    if seldom(path, 4):
        with suppress(ConfigError):
            trace_files.read(path, batch_size=8, device=device, parts=parts)
    folder = import_job([first, path], batch_size=8, device=device, results=path.parent / "kept", parts=parts)
    ranks = observed_ranks(observations(folder))
    observed_answer(ranks)
    if seldom(path):
        show_explain.show_job(ranks, trace_files.read_trace(folder), folder)


TOPO = b"""$ nvidia-smi topo -m
\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV2\tSYS\tPIX\t0-19\t0
GPU1\tNV2\t X \tSYS\tNODE\t0-19\t0
GPU2\tSYS\tSYS\t X \tSYS\t20-39\t1
mlx5_0\tPIX\tNODE\tSYS\t X
"""
P2P = b"$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tGNS\tX\n\nGPU 0: Tesla K80 (UUID: GPU-0)\n"
SHOWTOPO = b"""=== Weight between two GPUs ===
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
=== Link Type between two GPUs ===
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
GPU[0]\t: (Topology) Numa Node: 0
GPU[1]\t: (Topology) Numa Node: 1
"""
NVLINKS = b"""\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tPIXNODE    0-19\t0
GPU1\tNV12\t X \tNODEPIX    0-19\t0
GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-0)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA A100 80GB PCIe (UUID: GPU-1)
\t Link 0: 25 GB/s
|   0  NVIDIA A40              Off |   00000000:01:00.0 Off |
"""
NCCL_LOG = b"""n:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
n:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB e:1<0>
n:1:2 [0] NCCL INFO === System : maxBw 48.0 totalBw 48.0 ===
n:1:2 [0] NCCL INFO CPU/0-0 (1/2/-1)
n:1:2 [0] NCCL INFO + SYS[16.0] - CPU/0-1
n:1:2 [0] NCCL INFO + PCI[0.2] - PCI/0-65000 (104c823200000000)
n:1:2 [0] NCCL INFO              + PCI[48.0] - NIC/0-67000
n:1:2 [0] NCCL INFO                            + NET[50.0] - NET/0-0 (0/0/1/50.000000)
n:1:2 [0] NCCL INFO              + PCI[48.0] - GPU/0-68000 (0)
n:1:2 [0] NCCL INFO                            + NVL[370.8] - NVS/0-0
n:1:2 [0] NCCL INFO                            + C2C[345.0] - CPU/0-0
n:1:2 [0] NCCL INFO CPU/0-1 (1/1/2)
n:1:2 [0] NCCL INFO + PCI[24.0] - GPU/0-a8000 (1)
n:1:2 [0] NCCL INFO               + NVL[41.2] - GPU/0-68000
n:1:2 [0] NCCL INFO ==========================================
n:1:2 [0] NCCL INFO Channel 00/01 :    0   1
n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
NCCL_XML = b"""<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79">
<pci busid="0000:03:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
<pci busid="0000:06:00.0" class="0x030200" vendor="0x10de" device="0x15f9"><gpu dev="0" sm="60">
<c2c bw="43125" count="8"/><nvlink target="0000:07:00.0" count="1"/></gpu></pci>
<pci busid="0000:07:00.0" class="0x030200"><gpu dev="1"><nvlink target="ffff:ff:ff.f" count="6"
tclass="0x068000"/></gpu></pci>
<pci busid="0000:05:00.0" class="0x020700"><nic><net name="mlx5_0" speed="100000"/></nic></pci></pci></cpu>
<cpu numaid="1"><pci busid="0000:0a:00.0"/></cpu></system>
"""
HWLOC_XML = b"""<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine"><object type="Package"><info name="CPUModel" value="AMD EPYC 7742"/>
<object type="NUMANode" os_index="0"/><object type="Bridge" bridge_type="0-1">
<object type="PCIDev" pci_busid="0000:06:00.0" pci_type="0302 [10de:15f9]" pci_link_speed="15.75">
<object type="OSDev" name="nvml0"><info name="GPUModel" value="Tesla P100-SXM2-16GB"/></object></object>
<object type="PCIDev" pci_busid="0000:0a:00.0" pci_type="0207 [15b3:1013]" pci_link_speed="7.88"/>
</object></object></object></topology>
"""


def _use_survey(path: Path) -> None:
    """Makes a system of what is read, and reads that again."""
    survey = joined([read_survey(path)])
    loaded(written_system(survey, PartSettings(), None, path.name).text, "made", survey.source)


TARGETS = (
    Target("smi-topo", "topo.txt", lambda: [TOPO, P2P, SHOWTOPO, NVLINKS], _use_survey),
    Target("nccl-tree", "nccl.log", lambda: [NCCL_LOG], _use_survey),
    Target("topo-xml", "topo.xml", lambda: [NCCL_XML, HWLOC_XML], _use_survey),
    Target("torch-log", "log.txt", lambda: [TORCH_LOG], _use_torch_log),
    Target(
        "nccl-text",
        "all_reduce.txt",
        lambda: [TABLE, OLD_TABLE, LABELLED_TABLE, TAGGED_TABLE, HEADLESS_TABLE],
        _use_nccl_tests,
    ),
    Target("nccl-json", "all_reduce.json", lambda: [NCCL_JSON], _use_nccl_tests),
    Target("kineto", "profile.json", profiles, use_import),
    Target("job", "rank1.json", ranks_of_a_job, use_rank, named=False),  # the sentence may be of the other rank
    Target("chrome", "events.json", _event_lists, use_import),
    Target("predictions", "predictions.csv", lambda: PREDICTIONS, _use_predictions),
    Target("six-columns", "alexnet.tsv", lambda: COLUMNS, use_import),
)
