"""How NCCL hands data over: what the library expects of each protocol, and what it takes.

Inside a node, of NCCL 2.4 and later:

    LL      a flag beside every 4 bytes: no wait for memory, at a quarter of the rate
    LL128   a flag in every 128 bytes, over NVLink only
    Simple  whole pieces behind a memory fence: the full rate, with long steps

The library takes the protocol that its own estimate (tuning.cc of its source) says is fastest. That estimate is
repeated here, as it puts the change from LL128 to Simple where measured times have a kink: between 4 and 6 MiB on
four V100s and 12 and 16 MiB on eight, 16 and 24 MiB on eight A100s. What a protocol then takes is fitted (`fitted`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

import msgspec

from resnetx.interconnect.collectives.rings import Hop
from resnetx.loading import own_yaml
from resnetx.operations import Operation
from resnetx.settings.files import PUBLISHED

T = TypeVar("T")
Shape = Literal["twice", "once", "chain"]  # all-reduce goes around twice, gathering and scattering once, others along


@dataclass(frozen=True)
class Protocol:
    """One protocol as the library expects it: seconds per operation and per step, and the share of the links' rate."""

    name: str
    base_s: float
    nvlink_s: float
    pcie_s: float
    share: float
    pcie_share: float | None = None  # over PCI Express, where that is another

    def handovers(self, kind: Shape) -> int:
        """In each step: SuperBench's 8 A100s gather and scatter as long as they all-reduce, in half the steps."""
        return 1 if kind == "twice" or (kind == "chain" and self.name == "Simple") else 2

    @property
    def nvlink_only(self) -> bool:
        return self.name == "LL128"


# By compute capability: tuning.cc of 2.10 on, as what is published of A100s changes protocol where it says; and of 2.5
# to 2.7, as what is published of V100s does. Of Volta's 22.5 GB/s a link, topo.h plans with 20; GPUs before it have no
# LL128. Over PCI Express newer GPUs run what 2.21 expects: half of the rate in LL. Until then tuning.cc has a third for
# what does not add up, which would put its change to LL128 past 2 MiB on 8 A100s; SuperBench has it below, as for what
# does.
_VOLTA = 20 / 22.5
PROTOCOLS = (
    (
        8.0,
        (
            Protocol("LL", 6.6e-6, 0.6e-6, 1.0e-6, 1 / 4, pcie_share=1 / 2),
            Protocol("LL128", 14.0e-6, 1.9e-6, 2.5e-6, 0.92),
            Protocol("Simple", 8.4e-6, 3.4e-6, 5.7e-6, 1.0),
        ),
    ),
    (
        7.0,
        (
            Protocol("LL", 3.6e-6, 0.47e-6, 1.0e-6, _VOLTA / 4),
            Protocol("LL128", 10.0e-6, 1.9e-6, 2.5e-6, _VOLTA * 0.92),
            Protocol("Simple", 8.4e-6, 3.4e-6, 5.7e-6, _VOLTA),
        ),
    ),
    (0.0, (Protocol("LL", 3.6e-6, 0.47e-6, 1.0e-6, 1 / 4), Protocol("Simple", 8.4e-6, 3.4e-6, 5.7e-6, 1.0))),
)
# AMD's RCCL, by its own tuning.cc (2.21, table 5, that of MI300X; hops of other chips: table 0), whose bases have the
# launch in them (a step of LL alone would be 2.4 us more on eight MI300X than all of it took); it has no LL128 there.
_RCCL_LL = Protocol("LL", 12e-6, 0.8e-6, 2.2e-6, 1 / 4)
RCCL_MI300 = (_RCCL_LL, Protocol("Simple", 17e-6, 2.1e-6, 5.7e-6, 1.0))
RCCL = (_RCCL_LL, Protocol("Simple", 17e-6, 3.6e-6, 5.7e-6, 1.0))


@dataclass(frozen=True)
class AllPairs:
    """All-reduce between GPUs that are all joined: each adds up its part of all others', and sends them the sum."""

    protocol: Protocol
    least_bytes: int
    most_bytes: int


# RCCL, tools/msccl-algorithms: what eight MI300X run, by size (ROCm 6.0 to 7.0); an array has to fill all chunks.
ALL_PAIRS_GPUS = 8
ALL_PAIRS = (AllPairs(RCCL_MI300[0], 2**10, 2**19 - 1), AllPairs(RCCL_MI300[1], 2**19, 2**24))


@dataclass(frozen=True)
class BetweenNodes:
    """What a protocol takes between nodes: of each step, and the share of the network's rate. tuning.cc of 2.30."""

    name: str
    ring: Hop
    ring_share: float
    tree: Hop
    tree_share: float  # of what a tree in Simple carries
    tree_by_size: tuple[float, ...]  # of that rate, by powers of two from 64 bytes on ("not perfectly sticking")


# Simple is `Generation.ring` and `.tree`. Every step of a ring has at least what posting to the network takes.
BETWEEN_NODES = (
    BetweenNodes(
        "LL",
        Hop(6.6e-6, 0.6e-6, 1.0e-6, 2.7e-6),
        1 / 2,
        Hop(6.8e-6, 0.6e-6, 1.0e-6, 5.0e-6),
        1 / 3.8,
        (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    ),
    BetweenNodes(
        "LL128",
        Hop(14e-6, 1.9e-6, 2.5e-6, 4.0e-6),
        0.92,
        Hop(14e-6, 1.25e-6, 1.9e-6, 8.5e-6),
        120 / 128,
        (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1),
    ),
)
TREE_BY_SIZE = (  # the same in Simple
    *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
    *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9, 1),
)
POSTING_s = 1e-6
# enqueue.cc takes fewer channels in LL where each would have less than 4 KiB (512 threads, 8 bytes each).
LL_CHANNEL_BYTES = 4096
# What LL carries at most, by the maker of the CPUs: of two nodes, and of more.
LL_MOST_Bps = {"AMD": (22.5e9, 19.0e9), "other": (39.0e9, 20.4e9)}
# What a channel of a tree carries in LL128, by compute capability (tuning.cc of 2.19 to 2.27), and what of the array a
# step hands on at once (enqueue.cc: 32 to 128 KiB, by its size).
LL128_CHANNEL_Bps = ((9.0, 36.7e9), (0.0, 20e9))
LL128_CHUNK_BYTES = 2**16
# The same inside one node, by compute capability (tuning.cc of 2.30: at most half of the rate, and this).
LL_INSIDE_Bps = ((10.0, 282e9), (9.0, 141e9), (8.0, 87.7e9), (0.0, 39e9))


# What NCCL's search tries of a channel inside a node (search.cc of 2.28), by compute capability. Where Blackwell's end
# above what joins the CPUs (topo.h gives any two of AMD 16 GB/s), it expects 0.1, and LL ends at 4 KiB: published of
# eight GPUs on two EPYC 9575F.
SEARCHED_Bps = (
    (10.0, (90e9, 80e9, 70e9, 60e9, 50e9, 40e9, 30e9, 24e9, 20e9, 19e9, 18e9)),
    (9.0, (60e9, 50e9, 40e9, 30e9, 24e9, 20e9, 15e9, 12e9, 11e9, 6e9, 3e9)),
)
SEARCHED_FROM, AMD_Bps, UNFOUND_Bps = 10.0, 16e9, 0.1e9


# NCCL 2.1 and 2.2 take LL to 16 KiB, and one ring to so many bytes of a call, by compute capability (NVIDIA's
# documentation of NCCL_LL_THRESHOLD and NCCL_SINGLE_RING_THRESHOLD). What LL takes: tuning.cc of 2.5.6, the oldest.
BEFORE_TUNING = Protocol("LL", 3.6e-6, 0.47e-6, 1.0e-6, 1 / 4)
BEFORE_TUNING_LL_BYTES, ONE_RING_BYTES = 2**14, ((7.0, 2**18), (0.0, 2**17))


def by_capability(table: Iterable[tuple[float, T]], compute_capability: float) -> T:
    """From a table that has, newest first, from which compute capability on each of its values holds."""
    return next(value for least, value in table if compute_capability >= least)


def of_capability(compute_capability: float) -> tuple[Protocol, ...]:
    """The protocols as the library of this GPU's time expects them."""
    return by_capability(PROTOCOLS, compute_capability)


def shape(operation: Operation) -> Shape:
    """How an operation uses the ring."""
    if operation.along_a_chain:
        return "chain"
    return "twice" if operation.rounds == 2 else "once"


# What NCCL takes beyond what its source says: figures that are fitted to published measurements.
#
# They are in `results/published/collectives-fit.yaml`, which `literature.collectives_fit` writes. `UNFITTED` is what
# the source of NCCL says by itself; it is where a fit begins, and what a figure stays at that no measurement tells.


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of NCCL 2.4 and later inside one node, but for the last six. Shares are of the rate of the links."""

    hop_s: float = 3.4e-6  # a step of Simple over NVLink
    ll128_hop_s: float = 1.9e-6
    last_step_share: float = 0.0  # of the last step of rings, from Ampere on, that sends nothing while it adds up
    rings_lost_s: float = 0.0  # on the way to the rate of large sizes, of the same
    rings_over_s: float = 0.5e-3  # half of it is lost once bytes have moved for so long
    in_switch_s: float = 25e-6  # fixed, of reduction in switches
    in_switch_chunk_s: float = 0.03e-6  # of each chunk, whichever its channel
    in_switch_fill: float = 1.0  # chunks of all channels before the switches are busy
    in_switch_lost: float = 0.0  # of the rate, as a power of how many times eight GPUs have a part of the array
    hopper_in_switch_share: float = 0.85
    ll_twice: float = 1 / 4
    ll_once: float = 1 / 4
    ll_chain: float = 1 / 4
    pcie_ll: float = 1 / 2  # over PCI Express, where flags beside data are all that it costs (tuning.cc of 2.21)
    all_pairs_share: float = 1.0  # of Simple between all pairs at once, by AMD's library
    ll128_twice: float = 0.92
    ll128_once: float = 0.92
    ll128_chain: float = 0.92
    pcie_ring_share: float = 1.0  # of a copy's rate, as GPUs send and receive at once; NCCL 2.0 and later
    one_switch_share: float = 1.0  # the same of GPUs that are all below one PCIe switch
    launch_s: float = 4.5e-6  # of each GPU, where one process starts all of a node; NCCL 2.0 and later
    rccl_launch_s: float = 4.5e-6  # the same of AMD's
    nccl1_adding_share: float = 1.0  # for what adds up on the way, with NCCL 1
    ll_channel_s_per_B: float = 0.0  # of each step of a tree of nodes in LL, for what a channel has of it

    def hop(self, protocol: str) -> float | None:
        """Seconds of a step over NVLink; None: what the library expects, which is what it takes."""
        return {"Simple": self.hop_s, "LL128": self.ll128_hop_s}.get(protocol)

    def share(self, protocol: str, shape: Shape, on_nvlink: bool) -> float:
        """Of the links' rate, by protocol and operation; `on_nvlink`: else over PCI Express."""
        if not on_nvlink and protocol == "LL":
            return self.pcie_ll
        share: float = getattr(self, f"{protocol.lower()}_{shape}") if protocol != "Simple" else 1.0
        return share


UNFITTED = Fitted()
FIT_FILE = PUBLISHED / "collectives-fit.yaml"


@cache
def fitted() -> Fitted:
    """The figures of the file."""
    return own_yaml(FIT_FILE, dict[str, Fitted])["fitted"]
