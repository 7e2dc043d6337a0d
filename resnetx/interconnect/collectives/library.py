"""How the rings of NCCL 2.4 and later hand data over: what the library expects of each protocol, and what it takes.

    LL      a flag beside every 4 bytes: no wait for memory, at a quarter of the rate
    LL128   a flag in every 128 bytes, over NVLink only
    Simple  whole pieces behind a memory fence: the full rate, with long steps

The library takes the protocol that its own estimate (tuning.cc of its source) says is fastest. That estimate is
repeated here, as it puts the change from LL128 to Simple where measured times have a kink: between 4 and 6 MiB on four
V100s and 12 and 16 MiB on eight, 16 and 24 MiB on eight A100s. What a protocol then takes is fitted (`fitted`).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from resnetx.loading import own_yaml
from resnetx.operations import Operation
from resnetx.settings.files import PUBLISHED

Shape = Literal["twice", "once", "chain"]  # all-reduce goes around twice, gathering and scattering once, others along


@dataclass(frozen=True)
class Expectation:
    """What tuning.cc says: seconds per operation and per step, and the share of the links' rate."""

    base_s: float
    nvlink_s: float
    pcie_s: float
    share: dict[Shape, float]


@dataclass(frozen=True)
class Protocol:
    """One protocol, and what the library expects of it."""

    name: str
    expected: Expectation
    handovers: dict[Shape, int]  # in each step
    nvlink_only: bool = False


# tuning.cc has a third for what does not add up, which would put its change to LL128 past 2 MiB on 8 A100s; SuperBench
# has it below, as for what does.
_QUARTER: dict[Shape, float] = {"twice": 1 / 4, "once": 1 / 4, "chain": 1 / 4}
_LL128: dict[Shape, float] = {"twice": 0.92, "once": 0.92, "chain": 0.92}
_FULL: dict[Shape, float] = {"twice": 1.0, "once": 1.0, "chain": 1.0}

# From SuperBench's log of 8 A100s: gathering and scattering take as long as all-reduce, in half the steps.
_TWICE_IN_ONE: dict[Shape, int] = {"twice": 1, "once": 2, "chain": 2}
_TWICE_IN_SIMPLE: dict[Shape, int] = {"twice": 1, "once": 2, "chain": 1}


def _scaled(share: dict[Shape, float], planned: float) -> dict[Shape, float]:
    return {kind: planned * each for kind, each in share.items()}


def _protocols(ll_base_s: float, ll128_base_s: float, ll_hop_s: float, planned: float) -> tuple[Protocol, ...]:
    """`planned`: the rate that the library plans with, as a share of what its kernels get."""
    ll = Expectation(ll_base_s, ll_hop_s, 1.0e-6, _scaled(_QUARTER, planned))
    ll128 = Expectation(ll128_base_s, 1.9e-6, 2.5e-6, _scaled(_LL128, planned))
    simple = Expectation(8.4e-6, 3.4e-6, 5.7e-6, _scaled(_FULL, planned))
    return (
        Protocol("LL", ll, _TWICE_IN_ONE),
        Protocol("LL128", ll128, _TWICE_IN_ONE, nvlink_only=True),
        Protocol("Simple", simple, _TWICE_IN_SIMPLE),
    )


# By compute capability: tuning.cc of 2.10 on, as what is published of A100s changes protocol where it says; and of 2.5
# to 2.7, as what is published of V100s does. Of Volta's 22.5 GB/s a link, topo.h plans with 20.
PROTOCOLS = (
    (8.0, _protocols(6.6e-6, 14.0e-6, 0.6e-6, 1.0)),
    (0.0, _protocols(3.6e-6, 10.0e-6, 0.47e-6, 20 / 22.5)),
)


# LL of NCCL 2.0 to 2.3, which do not say when they take it: tuning.cc of 2.5.6 is the oldest that does.
BEFORE_TUNING = Expectation(3.6e-6, 0.47e-6, 1.0e-6, _QUARTER)


def of_capability(compute_capability: float) -> tuple[Protocol, ...]:
    """The protocols as the library of this GPU's time expects them."""
    return next(protocols for least, protocols in PROTOCOLS if compute_capability >= least)


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
    """Of NCCL 2.4 and later inside one node, but for the last four. Shares are of the rate of the links."""

    start_s: float = 0.0  # before the first step
    mesh_hop_s: float = 3.4e-6  # a step of Simple over direct NVLinks
    switch_hop_s: float = 3.4e-6  # and through NVSwitches
    last_step_share: float = 0.0  # of the last step of rings through NVSwitches that sends nothing while it adds up
    rings_lost_s: float = 0.0  # on the way to the rate of large sizes, of rings through NVSwitches
    rings_over_s: float = 0.5e-3  # half of it is lost once bytes have moved for so long
    in_switch_s: float = 25e-6  # fixed, of reduction in switches
    in_switch_lost_s: float = 0.0
    in_switch_over_s: float = 0.1e-3
    hopper_in_switch_share: float = 0.85
    ll_twice: float = 1 / 4
    ll_once: float = 1 / 4
    ll_chain: float = 1 / 4
    pcie_ll_twice: float = 1 / 4  # over PCI Express
    rccl_ll_twice: float = 1 / 4  # by AMD's library
    ll128_twice: float = 0.92
    ll128_once: float = 0.92
    ll128_chain: float = 0.92
    pcie_ring_share: float = 1.0  # of a copy's rate, as GPUs send and receive at once; NCCL 2.0 and later
    one_switch_share: float = 1.0  # the same of GPUs that are all below one PCIe switch
    launch_s: float = 4.5e-6  # of each GPU, where one process starts all of a node; NCCL 2.0 and later
    nccl1_adding_share: float = 1.0  # for what adds up on the way, with NCCL 1

    def share(self, protocol: str, shape: Shape, where: Literal["nvlink", "pcie", "rccl"]) -> float:
        """Of the links' rate, by protocol and operation; `where`: over which links, or by AMD's library."""
        if where != "nvlink" and (protocol, shape) == ("LL", "twice"):
            return self.pcie_ll_twice if where == "pcie" else self.rccl_ll_twice
        share: float = getattr(self, f"{protocol.lower()}_{shape}") if protocol != "Simple" else 1.0
        return share


UNFITTED = Fitted()
FIT_FILE = PUBLISHED / "collectives-fit.yaml"


class _FitFile(msgspec.Struct, frozen=True):
    fitted: Fitted


@cache
def fitted() -> Fitted:
    """The figures of the file."""
    return _read(FIT_FILE)


def _read(path: Path) -> Fitted:
    return own_yaml(path, _FitFile).fitted
