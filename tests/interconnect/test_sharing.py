"""Shares of flows that run at once: small scenarios with their literal answers."""

import pytest

from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.paths import fair_shares
from resnetx.interconnect.systems.system import load


def shares(system, flows, transport="auto", kernels=False):
    flows = [paths.flow(system, a, b, transport) for a, b in flows]
    return [round(rate / 1e9, 3) for rate, _ in fair_shares(system, flows, kernels)]


def test_a_flow_alone_gets_the_narrowest_link(machine):
    system = machine({(0, 1): 2, (1, 2): 1}, names=range(4))
    assert shares(system, [(0, 1)]) == [40.0]
    assert shares(system, [(1, 2)]) == [20.0]


def test_kernels_get_less_of_nvlink(machine):
    assert shares(machine({(0, 1): 1}), [(0, 1)], kernels=True) == [round(20 * 17 / 18, 3)]


def test_two_flows_share_a_direction_and_the_third_takes_the_rest(switched):
    system = switched(4)  # 120 GB/s a port
    assert shares(system, [(0, 1), (0, 2), (3, 2)]) == [60.0, 60.0, 60.0]
    assert shares(system, [(0, 1), (0, 2), (0, 3), (1, 2)]) == [40.0, 40.0, 40.0, 80.0]


def test_opposite_flows_do_not_slow_each_other_on_a_full_duplex_link(machine):
    assert shares(machine({(0, 1): 1}), [(0, 1), (1, 0)]) == [20.0, 20.0]


def test_staged_flows_meet_in_the_port_of_the_cpu(machine):
    system = machine({}, names=range(4))  # 10 GB/s one way, 17 both ways
    assert shares(system, [(0, 2)]) == [10.0]
    assert shares(system, [(0, 2), (1, 3)]) == [5.0, 5.0]
    assert shares(system, [(0, 2), (2, 0)]) == [8.5, 8.5]


def test_two_gpus_under_one_switch_are_slower_through_the_host_than_two_apart():
    """The anti-locality of Li et al. 2019: both directions of the one port carry every byte."""
    system = load("dgx1-p100")
    near, far = (paths.copy_path(system, 0, other, "host") for other in (1, 2))
    assert near.bandwidth_Bps < far.bandwidth_Bps
    assert near.duplex_Bps == pytest.approx(0.5 * far.duplex_Bps)
    assert "staged in cpu0" in near.limit


def test_the_limit_names_what_is_full(switched):
    (_, limit), _, (_, other) = fair_shares(
        system := switched(4), [paths.flow(system, a, b) for a, b in ((0, 1), (0, 2), (3, 2))]
    )
    assert limit == "gpu0 to nvswitch0"
    assert other == "nvswitch0 to gpu2"
