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
    network_s: float  # by the library, without the network's own latency


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
    protocols: bool = False  # chooses among LL, LL128 and Simple (`protocols`)
    sends: bool = False  # has messages between GPUs (ncclSend and ncclRecv, 2.7 and later)
    relays: bool = False  # sends them through a GPU that has NVLinks to both (NCCL_NVB_DISABLE, 2.11 and later)


_RING_OLD = Hop(8.4e-6, 5.7e-6, 5.7e-6, 6.6e-6)  # tuning.cc of 2.5.6, the oldest that states them (protocol Simple)
_RING_NEW = Hop(8.4e-6, 3.4e-6, 5.7e-6, 14e-6)  # tuning.cc of 2.30.7 (Simple), and the next two
TREE = Hop(8.4e-6, 4.0e-6, 4.0e-6, 14e-6)
_IN_SWITCH_S = 25e-6
SOCKET = Hop(200e-6, 100e-6, 100e-6, 100e-6)  # assumed

GENERATIONS: dict[str, Generation] = {
    "nccl1": Generation(_RING_OLD, one_ring=True, fills_chains=True),
    # collectives.h of 2.0 to 2.3: a step has two parts in allreduce, each handed over by itself, and four in all others
    "nccl2": Generation(_RING_OLD, half_lanes_up_to=4, other_handovers=2, fills_chains=True),
    "nccl2.4": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, protocols=True, sends=True),
    "nvls": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, _IN_SWITCH_S, protocols=True, sends=True, relays=True),
    "gloo": Generation(SOCKET),
}

TREE_SHARE = 0.92 * 0.5  # tuning.cc: of the rate of the links; up and down share the channels
IN_SWITCH_SHARE = ((10.0, 0.74), (9.0, 0.85))  # tuning.cc: (from this compute capability, share of the links' rate)
# Broadcast and reduce go down the ring in pieces of one slot of its buffer (4 MiB in 8 slots; collectives.h, comm.h).
PIECE_BYTES = 2**19
SOCKET_Bps = 1.2e9  # measured: gloo's allreduce of 244 MB, two ranks, one host of 2 cores, 0.18 to 0.25 s (torch 2.15)
