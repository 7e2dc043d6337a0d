"""The targets that read pair copies of other programs: nvbandwidth, p2pBandwidthLatencyTest, Tartan, OSU."""

import json
from pathlib import Path

from resnetx.interconnect.collectives.bench_reading import import_bench, with_readings
from resnetx.interconnect.systems.system import load
from tests.fuzz.harness import Target

NVBANDWIDTH = json.dumps({
    "nvbandwidth": {
        "CUDA Runtime Version": 13000,
        "Driver Version": "580.95.05",
        "GPU Device list": ["0: NVIDIA RTX A6000 (00000000:01:00)", "1: NVIDIA RTX A6000 (00000000:02:00)"],
        "git_version": "v0.8",
        "version": "v0.8",
        "testcases": [
            {
                "name": "host_to_device_memcpy_ce", "status": "Passed", "sum": 110.5,
                "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["55.4", "55.1"]],
            },
            {
                "name": "device_to_device_memcpy_read_ce", "status": "Passed", "sum": 48.29,
                "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["N/A", "26.34"], ["21.95", "N/A"]],
            },
            {
                "name": "device_to_device_memcpy_write_ce", "status": "Passed", "sum": 49,
                "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["N/A", "25"], ["24", "N/A"]],
            },
            {
                "name": "device_to_device_bidirectional_memcpy_write_ce", "status": "Passed", "sum": 99,
                "bandwidth_description": "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
                "bandwidth_matrix": [["N/A", "50"], ["49", "N/A"]],
            },
            {
                "name": "device_local_copy", "status": "Passed", "sum": 2390,
                "bandwidth_description": "memcpy local GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["1200", "1190"]],
            },
            {"name": "device_to_device_latency_sm", "status": "Waived"},
        ],
    }
}).encode()  # fmt: skip
P2P_OLD = b"""$ ./p2pBandwidthLatencyTest
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, Tesla P100-SXM2-16GB, pciBusID: 6, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0
P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     1     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 500.90   9.84
     1   9.80 500.30
Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 502.65  18.41
     1  18.40 500.20
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 509.36  36.82
     1  36.78 510.38
P2P=Enabled Latency Matrix (us)
   D\\D     0      1
     0   3.03   9.88
     1   9.93   2.97
"""
P2P_NEW = b"""$ ./p2pBandwidthLatencyTest
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 1541.93  36.31
     1  36.40 1550.0
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1541.93 376.31
     1 376.40 1550.0
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   2.15   1.53
     1   1.51   2.16

   CPU     0      1
     0   1.90   1.30
     1   1.29   1.91
"""
TARTAN = b"""===== 1024 =====
Uni-PCIe-Bandwidth
   D\\D     0      1
     0   0.60   0.05
     1   0.05   0.60
Bi-NVLink-Bandwidth
   D\\D     0      1
     0   0.00   0.01
     1   0.01   0.00
NVLink-Latency
   D\\D     0      1
     0   2.95   9.84
     1   9.86   2.94
===== 4194304 =====
Bi-NVLink-Bandwidth
   D\\D     0      1
     0 932.40  35.55
     1  35.54 932.40
PCIe-Latency
   D\\D     0      1
     0  10.54 536.62
     1 536.70  10.50
"""
P2P_WITHOUT_PEERS = b"""$ ./p2pBandwidthLatencyTest --p2p_read
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA GeForce RTX 3090, pciBusID: 3d, pciDeviceID: 0, pciDomainID:0
Device=0 CANNOT Access Peer Device=1
P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     0
     1\t     0     1
Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)
   D\\D     0      1
     0 838.25   6.11
     1   6.11 838.25
"""
NVBANDWIDTH_TEXT = b"""nvbandwidth Version: v0.8
Driver Version: 580.95.05

Device 0: NVIDIA RTX A6000 (00000000:01:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.40     55.10

SUM host_to_device_memcpy_ce 110.50

Running device_to_device_bidirectional_memcpy_read_sm.
memcpy SM GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A     50.00
 1     49.00       N/A

SUM device_to_device_bidirectional_memcpy_read_sm_total 99.00

Running all_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     20.00     25.00

SUM all_to_host_memcpy_ce 45.00

Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <-> GPU(column) (ns)
           0         1
 0       N/A    826.42
 1    825.83       N/A

&&&& PERF device_to_device_latency_sm 1652.25 ns
"""
OSU_LATENCY = b"""# OSU MPI-CUDA Latency Test v5.6.2
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size          Latency (us)
0                       1.90
1                       2.31
4096                    5.12
"""
OSU_BIBW = b"""# OSU MPI Bi-Directional Bandwidth Test v5.6.2
# Size      Bandwidth (MB/s)
4194304             22500.00
"""
OSU_ALLGATHER = b"""
# OSU MPI Allgather Latency Test v5.6.2
# Size       Avg Latency(us)
1024                   10.20
1048576               300.50
"""


def _use(path: Path) -> None:
    with_readings(import_bench(path, None, 8), load("dgx1-p100"))


TARGETS = (
    Target("nvbandwidth", "nvbandwidth.json", lambda: [NVBANDWIDTH], _use),
    Target("pair-copies", "copies.txt", lambda: [P2P_OLD, P2P_NEW, P2P_WITHOUT_PEERS, TARTAN], _use),
    Target("nvbandwidth-text", "nvbandwidth.txt", lambda: [NVBANDWIDTH_TEXT], _use),
    Target("osu", "osu.txt", lambda: [OSU_LATENCY, OSU_BIBW, OSU_ALLGATHER], _use),
)
