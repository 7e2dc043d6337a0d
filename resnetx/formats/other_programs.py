"""Programs whose output is given to a verb that does not read it: named, with the verb that does.

refused("RDMA_Write BW Test ...")      # "is of perftest (ib_write_bw, ...): copies from one network card to another"
"""

import re

from resnetx.formats import pasted, torch_log

_PAIRS = "copies between pairs of GPUs, which `bench --import` reads"
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
    (r"^\s*nvbandwidth Version:|^\s*SUM (?:device|host|all)_\w+_(?:ce|sm) ", f"nvbandwidth: {_PAIRS}"),
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
    (r"^\s*\[?\{?\s*\"?(?:schemaVersion|traceEvents)\"", "a profile of PyTorch, which `trace --import` reads"),
    (r"NCCL INFO ", "a log of NCCL (NCCL_DEBUG=INFO) without a table of nccl-tests"),
)  # fmt: skip
_KNOWN = tuple((re.compile(mark, re.MULTILINE), name) for mark, name in _MARKS)


def named(text: str) -> str:
    """The program that a text is of, and what that does; "" for none that is known."""
    return next((name for mark, name in _KNOWN if mark.search(text)), "")


def refused(text: str) -> str:
    """What a pasted text is instead, in words that go on after the name of its file; "" for none that is known."""
    return torch_log.says(text) or (f"is of {program}" if (program := named(pasted.plain(text))) else "")
