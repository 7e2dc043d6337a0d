"""Generations of collective libraries: what each tries, and its fixed times, from the source of NCCL.

`tuning.cc` is src/graph/tuning.cc of NVIDIA/nccl, where the figures serve to choose an algorithm; here they are times.
"""

from dataclasses import dataclass

from resnetx.interconnect.rings import MOST_GPUS


@dataclass(frozen=True)
class Hop:
    """Seconds that no byte costs: once per operation, and per step by what the step crosses."""

    base_s: float
    nvlink_s: float
    pcie_s: float  # also through the host
    network_s: float


@dataclass(frozen=True)
class Settling:
    """What is lost on the way to the rate of large sizes, half of it once bytes have moved for `over_s`."""

    lost_s: float
    over_s: float


@dataclass(frozen=True)
class Generation:
    """What one generation of a library tries."""

    ring: Hop
    one_ring: bool = False  # and NVLink only among mutual peers
    half_lanes_up_to: int = 0  # GPUs; rings on half lanes are tried for so many
    peers_cross_cpus: bool = True  # peer traffic through a PCIe root, where the CPU lets it; else staged in its memory
    tree: Hop | None = None  # None: it has no trees
    in_switch_s: float | None = None  # fixed time of reduction inside switches; None: it does not use it
    other_handovers: int = 1  # in a step of any other collective, for each one in a step of allreduce
    fills_chains: bool = False  # broadcast and reduce pay for the pieces that fill the chain
    adding_share: float = 1.0  # of the links' rate, for what adds up on the way
    protocols: bool = False  # chooses among LL, LL128 and Simple (`protocols`)


_RING_OLD = Hop(8.4e-6, 5.7e-6, 5.7e-6, 6.6e-6)  # tuning.cc of 2.5.6, the oldest that states them (protocol Simple)
_RING_NEW = Hop(8.4e-6, 3.4e-6, 5.7e-6, 14e-6)  # tuning.cc of 2.30.7 (Simple), and the next two
TREE = Hop(8.4e-6, 4.0e-6, 4.0e-6, 14e-6)
_IN_SWITCH_S = 18e-6  # fitted, with START_s and a copy's 3 us, to Bekman's 8 H200s: 38 to 40 us up to 512 KiB
SOCKET = Hop(200e-6, 100e-6, 100e-6, 100e-6)  # assumed

GENERATIONS: dict[str, Generation] = {
    "nccl1": Generation(_RING_OLD, one_ring=True, fills_chains=True, adding_share=0.86),  # fitted to Tartan
    # collectives.h of 2.0 to 2.3: a step has two parts in allreduce, each handed over by itself, and four in all others
    "nccl2": Generation(_RING_OLD, half_lanes_up_to=4, other_handovers=2, fills_chains=True),
    "nccl2.4": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, protocols=True),
    "nvls": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, _IN_SWITCH_S, protocols=True),
    "gloo": Generation(SOCKET),
}

TREE_SHARE = 0.92 * 0.5  # tuning.cc: of the rate of the links; up and down share the channels
# From this compute capability on: share of the links' rate. Blackwell: tuning.cc. Hopper: 0.832 in nccl-tests issue 212
# (H100), 0.82 on Bekman's H200s, where tuning.cc has 0.85.
IN_SWITCH_SHARE = ((10.0, 0.74), (9.0, 0.825))
# Broadcast and reduce go down the ring in pieces of one slot of its buffer (4 MiB in 8 slots; collectives.h, comm.h).
PIECE_BYTES = 2**19
SOCKET_Bps = 1.2e9  # measured: gloo's allreduce of 244 MB, two ranks, one host of 2 cores, 0.18 to 0.25 s (torch 2.15)

# NCCL 2.4 and later inside one node, besides what its source expects. "Fitted to" says from whose figures.
START_s = 17e-6  # before the first step: SuperBench's 8 A100s take 35 us for 8 bytes, where LL's steps are 15 us
MESH_HOP_s = 0.8e-6  # a step of Simple over direct NVLinks: fitted to vTrain's V100s on 2, 4 and 8 GPUs
SWITCH_HOP_s = 4.0e-6  # and through NVSwitches: fitted to vTrain's A100s on 2, 4 and 8 GPUs
# The last step of a round sends nothing while it adds up: fitted to vTrain's A100s (205, 224 and 232 GB/s).
LAST_STEP_SHARE = 0.3
# NVSwitches reach the rate of large sizes only over some time. Rings: fitted to vTrain's A100s. In the switches: to
# Bekman's 8 H200s.
RINGS_SETTLING = Settling(120e-6, 0.5e-3)
SWITCHES_SETTLING = Settling(70e-6, 50e-6)
# Of a copy's rate, as every GPU sends and receives at once: between 0.78 (4 GPUs of voipmonitor's PCIe 5 box) and 0.67
# (DeepBench, 8 GPUs of PCIe 3, device not named).
PCIE_RING_SHARE = 0.75
