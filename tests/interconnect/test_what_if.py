"""Links that are faster than described, and which of them a collective gains from."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.internode import from_host, from_storage
from resnetx.interconnect.collectives.plan import plan, with_latency
from resnetx.interconnect.systems.changed_systems import link_kinds, with_bandwidth
from resnetx.interconnect.systems.system import load

DGX1, GX8 = load("dgx1-p100"), load("gx8")
SIZE = 2**30


def busbw(system, library="nccl2"):
    return plan(system, "allreduce", library=library).cost(SIZE).busbw_Bps


def test_the_limiting_kind_counts_and_another_one_does_not():
    assert busbw(with_bandwidth(DGX1, {"nvlink1": 2})) == pytest.approx(2 * busbw(DGX1), rel=0.01)
    assert busbw(with_bandwidth(DGX1, {"pcie3": 2})) == busbw(DGX1)


def test_a_cpu_that_passes_traffic_on_is_a_limit_too():
    assert link_kinds(GX8) == ["pcie3", "qpi-9.6", "xeon-e5-2697v4", "ssd-sata"]
    assert busbw(with_bandwidth(GX8, {"pcie3": 2}), "nccl1") == busbw(GX8, "nccl1")
    faster = with_bandwidth(GX8, {"xeon-e5-2697v4": 1.1})
    assert busbw(faster, "nccl1") == pytest.approx(1.1 * busbw(GX8, "nccl1"), rel=0.01)


def test_kernels_of_nccl_2_get_less_of_a_link_than_the_cpu_passes_on():
    cost = plan(GX8, library="nccl2").cost(SIZE)
    assert cost.limiting_link == "cpu0 to riser0"
    assert busbw(with_bandwidth(GX8, {"xeon-e5-2697v4": 2})) == busbw(GX8)
    limited = plan(with_bandwidth(GX8, {"pcie3": 2}), library="nccl2").cost(SIZE)
    assert limited.limiting_link == "cpu0 to riser0, through cpu0"
    assert limited.busbw_Bps > cost.busbw_Bps


def test_faster_storage_feeds_more():
    assert (
        from_storage(with_bandwidth(GX8, {"ssd-sata": 3}), range(8)).rate_Bps
        == 3 * from_storage(GX8, range(8)).rate_Bps
    )
    assert from_host(with_bandwidth(GX8, {"pcie3": 2}), range(8)).rate_Bps == 2 * from_host(GX8, range(8)).rate_Bps


def test_what_is_changed_is_no_longer_measured():
    (wire,) = {link.wire for link in with_bandwidth(DGX1, {"nvlink1": 2}).links if link.part_name == "nvlink1"}
    assert (wire.copy_Bps.provenance, wire.latency_s.provenance) == ("assumed", "measured")


def test_latency_is_the_time_that_no_byte_costs():
    made = plan(DGX1, "allreduce").launched_by("process-per-gpu")
    halved = with_latency(made, 0.5)
    for size_bytes in (8, SIZE):
        saved_s = made.cost(size_bytes).time_s - halved.cost(size_bytes).time_s
        assert saved_s == pytest.approx(made.fastest(size_bytes).fixed_s / 2)


def test_between_nodes_latency_has_the_plateau_of_rings_in_it():
    made = plan(load("summitdev", 4, "edr100", 2), "allreduce", library="nccl2")
    ring = made.fastest(SIZE)
    saved_s = made.cost(SIZE).time_s - with_latency(made, 0.5).cost(SIZE).time_s
    assert saved_s == pytest.approx((ring.fixed_s + ring.plateau.extra_s) / 2)


def test_an_unknown_kind_is_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"Known: nvlink1, pcie3, qpi-9\.6, ssd-raid4, xeon-e5-2698v4"):
        with_bandwidth(DGX1, {"nvlink9": 2})
