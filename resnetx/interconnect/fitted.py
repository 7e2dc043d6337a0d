"""What NCCL takes beyond what its source says: figures that are fitted to published measurements.

They are in `results/published/collectives-fit.yaml`, which `resnetx.interconnect.fitting` writes. `UNFITTED` is what
the source of NCCL says by itself; it is where a fit begins, and what a figure stays at that no measurement tells.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from resnetx.interconnect.protocols import Shape
from resnetx.loading import own_yaml
from resnetx.settings.files import CONFIGS

FOLDER = CONFIGS.parent / "results" / "published"  # a wheel has it next to `configs`


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
FIT_FILE = FOLDER / "collectives-fit.yaml"


class _FitFile(msgspec.Struct, frozen=True):
    fitted: Fitted


@cache
def fitted() -> Fitted:
    """The figures of the file."""
    return _read(FIT_FILE)


def _read(path: Path) -> Fitted:
    return own_yaml(path, _FitFile).fitted
