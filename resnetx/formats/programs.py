"""Programs whose output is given to a verb that does not read it: named, with what reads it.

refused("RDMA_Write BW Test ...")            # "is of perftest (ib_write_bw, ...): copies from one network card ..."
of_json(b'{"traceEvents": ...', "bench")     # _PROFILE
"""

import re

from resnetx.formats import logs
from resnetx.loading import FLIGHT_RECORDER, MEMORY

_PAIRS = "copies between pairs of GPUs, which `bench --import` reads"
_RCCL_LINES = "rccl-tests -Z; run it without -Z, and `bench --import` reads what it prints"
_MARKS = (
    (
        r"^\s*(?:RDMA_Write|RDMA_Read|Send|Write_imm|Atomic\w*)\s+(?:Bidirectional )?(?:BW|Latency)\b.{0,40}Test"
        r"|^\s*#?bytes\s+(?:#\w{1,9}\s+)?#?iterations\s+(?:BW peak|t_min|t_avg)",
        "perftest (ib_write_bw, ib_send_bw, ib_read_lat, ...): copies from one network card to another",
    ),
    (
        r"^\[ *ID\]\s+Interval\s+Transfer\s+(?:Bandwidth|Bitrate)|^iperf \d",
        "iperf: one or more sockets between two hosts",
    ),
    (r"^MIGRATED \w+ STREAM TEST|^MIGRATED \w+ REQUEST/RESPONSE TEST", "netperf: sockets between two hosts"),
    (r"^(?:tcp|rc|uc|ud|rds|sdp)_\w{1,30}:\s*$", "qperf: sockets or network cards of two hosts"),
    (r"^\|.{0,80}overhead \(usec\)", "ucx_perftest: messages of UCX between two processes"),
    (r"^#\s*Intel(?:\(R\))? MPI Benchmark|^\s*#bytes\s+#repetitions\s+t", "the Intel MPI Benchmarks"),
    (r"^\[CUDA Bandwidth Test\]", "bandwidthTest of the CUDA samples: copies between one GPU and the host"),
    (r"RocmBandwidthTest Version|^\s*Inter-Device Access\s*$", "rocm-bandwidth-test"),
    (r"^[= ]{0,80}TransferBench v", "TransferBench"),
    (
        r"^\s*nvbandwidth Version:|^\s*SUM (?:device|host|all)_\w+_(?:ce|sm) |^\s*memcpy (?:CE|SM) [CG]PU\(row\) ",
        f"nvbandwidth: {_PAIRS}",
    ),
    (r"Host/Device Bandwidth Matrix|^Test Description: Bus bandwidth", "busGrind of the CUDA samples"),
    (r"^numCycle,name,", _RCCL_LINES),
    (r"P2P.{0,40}Bandwidth Latency Test|directional P2P=", f"p2pBandwidthLatencyTest: {_PAIRS}"),
    (r"^(?:Uni|Bi)-(?:PCIe|NVLink)-Bandwidth\s*$", f"Tartan: {_PAIRS}"),
    (r"^\s*#?\s*OSU \w", "the OSU micro-benchmarks, which `bench --import` reads"),
    (
        r"^[ \t]{0,80}#?[ \t]{0,80}size[ \t]{1,80}count[ \t]{1,80}type\b",
        "nccl-tests: collectives, which `bench --import` reads",
    ),
    (r"^Function\s+Best Rate MB/s\s+Avg time", "STREAM: the memory of one host"),
    (r"^\s*GPU0\s+(?:GPU1|CPU Affinity|.{0,200}NUMA Affinity)", "nvidia-smi topo -m, which `topology --import` reads"),
    (r"^\s*Link \d{1,3}: (?:[\d.]+ GB/s|<inactive>)", "nvidia-smi nvlink -s, which `topology --import` reads"),
    (r"^\| NVIDIA-SMI \d", "nvidia-smi: names of GPUs, not their wiring"),
    (r"\(Topology\) |between two GPUs", "rocm-smi --showtopo, which `topology --import` reads"),
    (r"^\s*<(?:system|graphs|topology)\b", "a topology in XML, of NCCL or lstopo, which `topology --import` reads"),
    (
        r"^\s*Machine\b.{0,80}\n\s*(?:Package|NUMANode|Group|HostBridge)|^\s*Package L#\d",
        "lstopo's text, of whose forms `topology --import` reads XML (lstopo --of xml)",
    ),
    (r"^available: \d+ nodes? \(", "numactl: the nodes of one host"),
    (r"^CA '\w+'\s*$|^hca_id:", "ibstat or ibv_devinfo: network cards alone"),
    (r"^\s*-\+?-?\[[0-9a-f]{4}:[0-9a-f]{2}\]-|^[0-9a-f:]{2,10}\.\d [\w ]{1,40}: ", "lspci: devices of a host"),
    (r"^Collective:\s+\w+\s*\nMemory type:", "ucc_perftest: collectives of UCC"),
    (r"^\s*COMMS-RES-", "PARAM's benchmark of communication"),
    (r"^\s*Time ?\(%\)\s+Total Time\b", "Nsight Systems (nsys stats): how long kernels took in all"),
    (r"^\s*Name\s+Self CPU %\s+Self CPU\b",
     "the table of a PyTorch profile (key_averages), which has no steps; export_chrome_trace writes one that "
     "`trace --import` reads"),
    (r"^[^;\n]{1,300}\(\d{1,7}\): [^;\n]{1,200};.{0,9999} \d{1,18}$",
     "PyTorch's stacks (export_stacks), which have no steps; export_chrome_trace writes what `trace --import` reads"),
    (r"^==\d+== (?:NVPROF|Profiling) ", "nvprof: how long kernels took in all"),
    (r"DeepSpeed Flops Profiler", "DeepSpeed's flops profiler, which has no steps"),
    (
        r'^"?(?:Step|Wall Time|Relative Time \(.{1,20})"?,.{0,300} - \S',
        "wandb: a metric by step; give images/s as rate=BATCH:RATE",
    ),
    (r"^#SBATCH ", "Slurm: the script of a job, which measures nothing"),
    (r"^Architecture:\s.{0,80}\n(?:.{0,200}\n){0,12}?\s*CPU\(s\):\s", "lscpu: the CPUs of one host"),
    (r"NCCL INFO ", "a log of NCCL (NCCL_DEBUG=INFO) without a table of nccl-tests"),
    (r"<!DOCTYPE html|^\s*<html\b", "a web page; paste what the program printed as text"),
)  # fmt: skip
_KNOWN = tuple((re.compile(mark, re.MULTILINE), name) for mark, name in _MARKS)

_PROFILE = "PyTorch's profiler, which `trace --import` reads"
# What only such a file has, what it is, and the verb that reads it. Keys of torch's dumps: FlightRecorder.hpp and
# torch/cuda/_memory_viz.py of torch 2.15; lines and planes of XLA's: tsl/profiler/utils/xplane_schema.cc.
_JSON = (
    (r'"schemaVersion"\s*:\s*\d', _PROFILE, "trace"),
    (r'"(?:profiling_name|time_discovered_\w{1,20}_ns)"\s*:', FLIGHT_RECORDER, ""),
    (r'"(?:device_traces|segment_type)"\s*:', MEMORY, ""),
    (
        r'"(?:XLA (?:Ops|Modules)|TensorFlow (?:Ops|Name Scope)|Framework Ops|hlo_(?:op|module)|/host:CPU)"'
        r'|"/(?:device|job):[^"\n]{0,80}(?:GPU|TPU)',
        "the profiler of TensorFlow and JAX, without PyTorch's layers; give images/s as rate=BATCH:RATE, or times of "
        "layers in six columns",
        "",
    ),
    (
        r'"pid"\s*:\s*"(?:CPU|CUDA) functions"',
        "PyTorch's profiler before 1.8, which names no kinds of events; profile with torch.profiler",
        "",
    ),
    (r'"NEGOTIATE_(?:ALL|BROAD)', "Horovod's timeline: when ranks met, and no layers", ""),
    (r'"schema"\s*:\s*"[\d.]{1,12}(?:-chakra|")',
     "PyTorch's execution trace (Chakra), without times of kernels; export_chrome_trace writes them", ""),
    (r'"numCycle"\s*:', _RCCL_LINES, ""),
    (r'"num_hops"\s*:', "amd-smi topology --json; without --json, `topology --import` reads it", ""),
    (r'"\(Topology\) ', "rocm-smi --showtopo --json; without --json, `topology --import` reads it", ""),
    (r'"viztracer_metadata"\s*:', "VizTracer: functions of Python", ""),
    (r'"nvbandwidth"\s*:', f"nvbandwidth: {_PAIRS}", "bench"),
    (r'"(?:out_of_place|in_place)"\s*:', "nccl-tests: collectives, which `bench --import` reads", "bench"),
    (r'"traceEvents"\s*:', _PROFILE, "trace"),
)  # fmt: skip
_JSON_KNOWN = tuple((re.compile(mark.encode()), name, verb) for mark, name, verb in _JSON)
_JSON_BYTES = 2**20  # of a file's beginning, which tell what it is


def of_json(content: bytes | bytearray, verb: str = "") -> str:
    """What JSON is of; "" for what is not known, or what `verb` reads."""
    if content[:4096].lstrip()[:1] not in (b"{", b"["):
        return ""
    begin = bytes(content[:_JSON_BYTES])
    name, reads = next(((name, reads) for mark, name, reads in _JSON_KNOWN if mark.search(begin)), ("", ""))
    return "" if verb and verb == reads else name


def named(text: str) -> str:
    """The program that a text is of, and what that does; "" for none that is known."""
    return next((name for mark, name in _KNOWN if mark.search(text)), "")


def refused(text: str) -> str:
    """What a pasted text is instead, in words that go on after the name of its file; "" for none that is known."""
    if said := logs.says(text):
        return said
    program = of_json(text[:_JSON_BYTES].encode()) or named(logs.plain(text))
    return f"is of {program}" if program else ""
