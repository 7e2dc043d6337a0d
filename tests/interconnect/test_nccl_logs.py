"""What NCCL itself logged (NCCL_DEBUG=INFO) in public issues, beside what a plan assumes."""

import pytest

from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.collectives.rings import pack_rings
from resnetx.interconnect.systems.system import load

KiB = 2**10


def _rings(system, gpus):
    return plan(load(system), "allreduce", list(range(gpus)), "nccl2.4").rings


@pytest.mark.parametrize(
    ("system", "gpus", "channels"),
    [
        ("dgx2", 8, 12),  # NVIDIA/nccl issue 506 (2021): Trees [0] to [11]
        ("dgx-a100", 8, 24),  # NVIDIA/nccl-tests issue 100: Channel 19/24 to 23/24
        ("dgx-a100", 4, 24),  # NVIDIA/nccl issue 578 (2021): Channel 00/24
        ("pcie-gen5", 8, 2),  # voipmonitor/rtx6kpro (2026), two EPYC Turin, NCCL 2.28: without a graph of one's own
        ("pcie-l40s", 8, 2),  # NVIDIA/nccl-tests issue 307: 8 RTX 4090 on PCIe 4.0, Ring 00 and 01
    ],
)
def test_up_to_ampere_and_over_the_bus_nccl_has_two_channels_for_each_ring(system, gpus, channels):
    assert 2 * len(_rings(system, gpus)) == channels


@pytest.mark.parametrize("gpus", [4, 8])
def test_through_nvswitches_every_channel_visits_gpus_in_order(gpus):
    """The same logs: Channel 23/24 : 0 1 2 3 4 5 6 7; so do four GPUs."""
    assert {ring.order for ring in _rings("dgx-a100", gpus)} == {tuple(range(gpus))}


def test_rings_are_those_that_nccl_finds_among_four_gpus_with_two_links_to_each():
    """NVIDIA/nccl issue 713 (2022), graph A: six channels on four V100, each order once."""
    lanes = [[0 if one == other else 2 for other in range(4)] for one in range(4)]
    first = {(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 3, 1), (0, 2, 1, 3)}
    found = pack_rings(lanes)
    assert len(found) == len(set(found)) == 6 and first < set(found)


def test_hopper_has_channels_of_its_own_number_at_the_rate_of_the_rings():
    """24 of collectives on eight GPUs with 18 links each (NVIDIA/nccl issue 1259), NVL[370.8] (issue 1189)."""
    rings = _rings("dgx-h100", 8)
    assert len(rings) == 18 != 24 / 2  # a plan counts lanes
    assert sum(ring.bandwidth_Bps for ring in rings) == pytest.approx(370.8e9)


@pytest.mark.parametrize("size_bytes", [8, 256, 512])
def test_over_nodes_small_sizes_go_by_trees_in_ll(size_bytes):
    """NVIDIA/nccl issue 1453 (2024), 24 H100 in three nodes: Algo 0 (tree) proto 0 (LL)."""
    cluster = load("dgx-h100", 3, "ndr400", 8)
    assert plan(cluster, "allreduce", list(range(24)), "nvls").fastest(size_bytes).label == "tree (LL)"


@pytest.mark.parametrize(
    ("gpus", "size_bytes", "label"),
    [
        (4, 32 * KiB, "ring (LL)"),  # on one socket 15 us
        (8, 256, "ring (LL)"),  # 27 us, at 8 KiB 58
        (8, 8 * KiB, "ring (Simple)"),
        (8, 32 * KiB, "ring (Simple)"),  # "SIMPLE instead of LL", as NCCL expects 0.1 GB/s
        (8, 256 * KiB, "ring (Simple)"),
    ],
)
def test_across_two_epyc_blackwell_leaves_ll_at_some_kib(gpus, size_bytes, label):
    """voipmonitor/rtx6kpro (2026): the graph search of NCCL 2.28 finds no ring there, and expects 0.1 GB/s."""
    assert plan(load("pcie-gen5"), "allreduce", list(range(gpus)), "nccl2.4").fastest(size_bytes).label == label
