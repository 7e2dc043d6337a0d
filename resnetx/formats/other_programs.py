"""Programs whose output looks like that of a bench, or is pasted as one, and is of something else: named, not read.

named("RDMA_Write BW Test ...")      # "perftest (ib_write_bw, ...): from one network card to another"
"""

import re

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
    (r"^TransferBench v", "TransferBench"),
    (r"^Function\s+Best Rate MB/s\s+Avg time", "STREAM: the memory of one host"),
    (r"^\s*GPU0\s+(?:GPU1|CPU Affinity|.{0,200}NUMA Affinity)", "nvidia-smi topo -m, which `topology --import` reads"),
    (r"NCCL INFO ", "a log of NCCL (NCCL_DEBUG=INFO) without a table of nccl-tests"),
)  # fmt: skip
_KNOWN = tuple((re.compile(mark, re.MULTILINE), name) for mark, name in _MARKS)


def named(text: str) -> str:
    """The program that a text is of, and what that does; "" for none that is known."""
    return next((name for mark, name in _KNOWN if mark.search(text)), "")
