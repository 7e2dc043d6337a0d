"""The targets that read traffic, logs of NCCL, and records of steering."""

from functools import cache
from pathlib import Path

import msgspec

import resnetx
from resnetx.api.load import load
from resnetx.cli.verbs import show_topology
from resnetx.formats.logs import network_ends, read_channels, ring_steps
from resnetx.record.topologies import Steering
from resnetx.reporting.charts.topology import matrices
from resnetx.steering.link_units import best, steering_problem
from resnetx.steering.steered_traffic import read_traffic
from tests.fuzz.harness import Target, seldom

TRAFFIC = [
    b"to,gpu0,gpu1,gpu2\ngpu0,0,120e6,40e6\ngpu1,120e6,0,0\ngpu2,40e6,,0\n",
    b"0,1\n2,0\n",
]
LOG = b"""\
n:1:2 [0] NCCL INFO Channel 00/02 : 0 3 2 1
n:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 3[3] via P2P/CUMEM
n:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm 0x5
"""
NICS = b"""\
n:1:2 [3] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/RoCE [RO]; OOB ib0:10.1.0.1<0>
n:1:2 [3] NCCL INFO NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2
n:1:2 [3] NCCL INFO Channel 00/02 :    0   3   2   1
n:1:2 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA
n:1:2 [3] NCCL INFO Channel 01/0 : 4[0] -> 3[3] [receive] via NET/IB/1(5)/Shared
"""


def _use_traffic(path: Path) -> None:
    traffic = read_traffic(path)
    if len(traffic) <= 8:
        best(steering_problem(traffic, [[2 * (to != by) for by in range(len(traffic))] for to in range(len(traffic))]))


def _use_nics(path: Path) -> None:
    log = path.read_text(encoding="utf-8", errors="replace")  # as a rank reads that of its own
    network_ends(log)
    ring_steps(log)


@cache
def steerings() -> list[bytes]:
    made = resnetx.steer(systems="dgx1-v100", model="alexnet", pattern="server", phases=True, switch="sip-mems-64")
    return [msgspec.json.encode(made)]


def _use_steering(path: Path) -> None:
    found = load(path)
    if isinstance(found, Steering):
        show_topology.steering(found)
        if seldom(path):
            matrices(found)


TARGETS = [
    Target("traffic", "traffic.csv", lambda: TRAFFIC, _use_traffic),
    Target("nccl-log", "nccl.log", lambda: [LOG], read_channels),
    Target("nccl-nics", "nccl.log", lambda: [NICS], _use_nics),
    Target("steering", "steering.json", steerings, _use_steering),
]
