"""Copies between GPUs and the place that serves them, on small machines whose answers can be said by hand."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.traffic import star
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.system import load

TENSORS = (4_000, 8_000, 2_000)  # bytes
TO_HOST_S = 3e-6 + 2 * 1e-6 + 1e-7  # a copy, two links and the switch between them


def test_two_gpus_are_one_copy_each_way(machine):
    copies = star(machine({(0, 1): 1}), (0, 1), on_host=False)
    for way in (copies.inward, copies.outward):
        assert way.time_s(2e9) == pytest.approx(3e-6 + 1e-6 + 2e9 / 20e9)
    assert (copies.inward.limit, copies.outward.limit) == ("gpu1 to gpu0", "gpu0 to gpu1")


def test_every_gpu_copies_to_the_memory_of_the_host_and_two_below_one_switch_share_its_link(machine):
    copies = star(machine({}, names=range(4)), range(4), on_host=True).inward
    assert copies.time_s(1.3e9) == pytest.approx(TO_HOST_S + 2 * 1.3e9 / 13e9)
    alone = star(machine({}, names=range(4)), (0, 2), on_host=True).inward  # one below each switch
    assert alone.time_s(1.3e9) == pytest.approx(TO_HOST_S + 1.3e9 / 13e9)


def test_a_link_carries_what_each_gpu_behind_it_sends(machine):
    copies = star(machine({}, names=range(4)), range(4), on_host=True)
    whole = sum(TENSORS)
    up = copies.inward.bytes_by_link(whole)
    assert up["gpu0", "plx0"] == 14_000 and up["plx0", "cpu0"] == 28_000
    assert sum(up.values()) == 4 * 2 * 14_000  # four GPUs, two links each
    down = copies.outward.bytes_by_link(whole)
    assert {(after, before): carried for (before, after), carried in down.items()} == up
    to_a_gpu = star(machine({(0, 1): 1, (0, 2): 1, (0, 3): 1}), range(4), on_host=False)
    assert to_a_gpu.inward.bytes_by_link(whole) == {(f"gpu{n}", "gpu0"): 14_000 for n in (1, 2, 3)}


def test_all_copies_to_a_gpu_meet_in_its_port(switched):
    system = switched(4)  # 120 GB/s a port
    copies = star(system, range(4), on_host=False).inward
    assert copies.bandwidth_Bps == pytest.approx(120e9 / 3)


def test_what_no_peer_can_reach_is_staged_in_the_host(machine):
    system = machine({(0, 1): 1}, names=range(4))
    copies = star(system, range(4), on_host=False)
    slowest = paths.copy_path(system, 2, 0)
    assert slowest.kind == "host" and copies.inward.fixed_s == slowest.latency_s
    assert copies.inward.bandwidth_Bps == pytest.approx(10e9 / 2)  # gpu2 and gpu3 through one CPU
    with pytest.raises(ConfigError, match="are not peers"):
        star(system, range(4), on_host=False, transport="peer")


def test_between_nodes_all_copies_cross_the_network_into_the_host_that_serves():
    cluster = load("k80-10gbe", nodes=3)
    within, between = (star(cluster, devices, on_host=True).inward for devices in (range(4), range(12)))
    assert within.limit == "node0.plx0 to node0.cpu0" and between.limit == "fabric to node0.nic0"
    card = 8 * between.bandwidth_Bps  # eight GPUs are elsewhere
    assert card == pytest.approx(star(cluster, (0, 4), on_host=True).inward.bandwidth_Bps)
    assert between.bytes_by_link(10)["fabric", "node0.nic0"] == 80


def test_over_sockets_one_process_receives_from_all_others(machine):
    system = machine({(0, 1): 1}, names=range(4))
    two, four = (star(system, range(count), on_host=False, library="gloo") for count in (2, 4))
    assert two.inward.bandwidth_Bps == pytest.approx(3 * four.inward.bandwidth_Bps)
    assert two == star(system, range(2), on_host=False, transport="socket")
    host = star(system, range(2), on_host=True, library="gloo").inward  # and each rank copies to its host before
    assert host.time_s(1e9) == pytest.approx(two.inward.time_s(1e9) + TO_HOST_S + 1e9 / 13e9)


@pytest.mark.parametrize("transport", ["peer", "pcie"])
def test_memory_of_a_host_is_no_peer(machine, transport):
    with pytest.raises(ConfigError, match=rf"transport={transport} with strategy.device=cpu"):
        star(machine({(0, 1): 1}), (0, 1), on_host=True, transport=transport)
