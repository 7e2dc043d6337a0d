"""Traffic between GPUs: who owns variables, what goes where, and what links carry."""

from dataclasses import replace

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.collectives.traffic import (
    added_up,
    along_chains,
    around_rings,
    bytes_by_link,
    from_owners,
    least_loaded,
    of_all_reduces,
    on_devices,
    over_links,
    round_robin,
    star,
    through_owners,
    to_owners,
)
from resnetx.interconnect.systems.system import load

SIZES = [100, 1, 1, 50, 2]


def test_replicated_variables_take_turns_and_served_ones_go_where_least_is():
    assert round_robin(SIZES, 3) == (0, 1, 2, 0, 1)
    assert least_loaded(SIZES, 3) == (0, 1, 2, 1, 2)


def test_each_variable_goes_to_its_owner_and_back():
    """GPU 0 owns 150 bytes, 1 owns 3, 2 owns 1: between two GPUs go those of both, in each direction."""
    assert through_owners(SIZES, round_robin(SIZES, 3), 3) == ((0, 153, 151), (153, 0, 4), (151, 4, 0))


@pytest.mark.parametrize("owners", [round_robin, least_loaded, lambda sizes, gpus: [0] * len(sizes)])
def test_the_bytes_in_all_are_those_of_every_other_gpu_twice_whoever_owns(owners):
    found = through_owners(SIZES, owners(SIZES, 4), 4)
    assert sum(map(sum, found)) == 2 * 3 * sum(SIZES)


def test_spreading_by_size_is_more_even_than_taking_turns():
    sizes = [4 * each for each in (64 * 3 * 7 * 7, 64, 512 * 512 * 9, 512, 4096 * 25088, 4096, 4096 * 4096, 4096)]
    largest = [max(map(max, through_owners(sizes, by(sizes, 4), 4))) for by in (round_robin, least_loaded)]
    assert largest[1] < largest[0]


def test_a_server_on_one_gpu_sends_over_links_what_its_star_does():
    system = load("dgx1-v100")
    copies = star(system, range(8), on_host=False)
    matrix = through_owners([1000], [0], 8)
    links = bytes_by_link(system, range(8), matrix)
    both = copies.inward.bytes_by_link(1000)
    for link, size_bytes in copies.outward.bytes_by_link(1000).items():
        both[link] = both.get(link, 0) + size_bytes
    assert links == pytest.approx(both)


def test_an_all_reduce_sends_to_neighbours_in_its_rings_alone():
    made = plan(load("dgx1-v100"), library="nccl2.4")
    found = around_rings([(ring.order, ring.bandwidth_Bps) for ring in made.rings], 800, 8)
    assert sum(map(sum, found)) == pytest.approx(8 * 2 * 7 / 8 * 800)  # each GPU's share, 2 (n - 1) / n
    for to, row in enumerate(found):
        assert sum(row) == pytest.approx(2 * 7 / 8 * 800)
        assert all(sender in {0, 1, 2, 3, 4, 5, 6, 7} - {to} for sender, size in enumerate(row) if size)
    one = around_rings([((0, 2, 1), 1.0)], 300, 3)
    assert one == ((0, 400, 0), (0, 0, 400), (400, 0, 0))


def test_gradients_go_to_owners_in_one_phase_and_come_back_in_the_other():
    owners = round_robin(SIZES, 3)
    there, back = to_owners(SIZES, owners, 3), from_owners(SIZES, owners, 3)
    assert there == ((0, 150, 150), (3, 0, 3), (1, 1, 0))
    assert back == tuple(zip(*there, strict=True))
    assert added_up([there, back]) == through_owners(SIZES, owners, 3)


def test_trees_send_up_and_down_their_chains():
    assert along_chains([((0, 1, 2), 2.0), ((2, 0, 1), 1.0)], 300, 3) == ((0, 300, 100), (300, 0, 200), (100, 200, 0))


def test_each_size_is_sent_by_what_the_library_takes_for_it():
    made = plan(load("dgx1-v100"), library="nccl2.4")
    small, large = 2**10, 2**26
    assert made.fastest(large).name == "ring"
    by_rings = around_rings([(ring.order, ring.bandwidth_Bps) for ring in made.rings], 3 * large, 8)
    for found, row in zip(of_all_reduces(made, [large, large, large]), by_rings, strict=True):
        assert found == pytest.approx(row)
    taken = replace(made, algorithms=tuple(each for each in made.algorithms if each.name == "tree"))
    chains = [(chain.order, chain.bandwidth_Bps) for chain in made.chains]
    assert of_all_reduces(taken, [small]) == along_chains(chains, small, 8)


def test_switches_that_sum_up_leave_no_traffic_between_gpus():
    made = plan(load("dgx-h100"), library="nvls")
    with pytest.raises(ConfigError, match="are summed up in switches"):
        of_all_reduces(made, [2**30])


def test_traffic_of_ranks_is_that_of_their_gpus_and_only_some_of_it_has_a_link():
    moved = on_devices(((0, 5), (7, 0)), [3, 1], 4)
    assert moved[3][1] == 5 and moved[1][3] == 7 and sum(map(sum, moved)) == 12
    linked = [[(to, by) == (3, 1) for by in range(4)] for to in range(4)]
    assert sum(map(sum, over_links(moved, linked))) == 5
