"""Broadcasts of ranks in the lab: when a message starts, and what holds it up."""

from itertools import permutations

import msgspec
import pytest

from resnetx.interconnect.systems.lab_network import LabLink, LabNetwork, LabRoute, broadcasts_s, tree

RATE_Bps = 1e6
SECOND = 1_000_000  # bytes of one second of a link


def switched(ranks):
    """Ranks each with a link of its own to one switch."""
    names = [f"gpu{rank}" for rank in range(ranks)]
    links = [LabLink(a=name, b="switch", rate_Bps=RATE_Bps) for name in names]
    routes = [
        LabRoute(source=a, target=b, passes=[names[a], "switch", names[b]], links=[a, b])
        for a, b in permutations(range(ranks), 2)
    ]
    return LabNetwork(system="made for a test", scale=1.0, ranks=names, links=links, routes=routes)


def test_a_broadcast_goes_along_a_binomial_tree_of_its_root():
    assert tree(4) == [[1, 2], [3], [], []]
    assert tree(4, root=3) == [[2], [], [], [0, 1]]
    assert tree(8)[0] == [1, 2, 4] and tree(8)[3] == [7] and tree(6)[1] == [3, 5]


def test_a_rank_passes_on_what_it_has_while_its_sender_goes_on_to_the_next():
    assert broadcasts_s(switched(2), [SECOND, 0], [0.0, 0.0]) == pytest.approx(1.0, rel=0.1)
    assert broadcasts_s(switched(4), [SECOND, 0, 0, 0], [0.0] * 4) == pytest.approx(2.0, rel=0.1)


def test_a_receiver_that_sends_already_says_late_that_it_is_ready():
    """What rank 0 has to say to rank 1 goes behind what it sends to it, if rank 1 was ready before it began."""
    both = [SECOND, SECOND]
    assert broadcasts_s(switched(2), both, [0.0, 0.0]) == pytest.approx(1.0, rel=0.1)
    assert broadcasts_s(switched(2), both, [0.01, 0.0]) == pytest.approx(2.0, rel=0.1)


def test_a_rank_takes_two_broadcasts_at_a_time_in_the_order_of_their_roots():
    """Rank 1 has nothing of the third until it is done with one of the first two, though its root has been ready."""
    four = switched(4)
    two, three = ([SECOND * (root < count) for root in range(4)] for count in (2, 3))
    assert broadcasts_s(four, three, [0.0] * 4) > broadcasts_s(four, two, [0.0] * 4) + 0.9


def test_messages_begin_in_the_order_in_which_receivers_are_ready():
    """A root that comes last finds all ready, and begins with the child that has to pass on."""
    last = [0, 0, SECOND, 0]
    assert broadcasts_s(switched(4), last, [0.0, 0.0, 0.01, 0.0]) == pytest.approx(2.0, rel=0.1)
    assert broadcasts_s(switched(4), last, [0.0, 0.01, 0.01, 0.01]) == pytest.approx(3.0, rel=0.1)


def test_large_parts_take_in_proportion_as_long():
    sizes = [SECOND, 2 * SECOND, SECOND, 3 * SECOND]
    begin_s = [0.0, 0.1, 0.0, 0.2]
    small = broadcasts_s(switched(4), sizes, begin_s)
    large = broadcasts_s(switched(4), [100 * size for size in sizes], [100 * time_s for time_s in begin_s])
    assert large == pytest.approx(100 * small, rel=0.25)  # the kernel's buffers hold less of it


def test_a_route_that_lacks_a_link_is_not_walked():
    two = switched(2)
    short = [msgspec.structs.replace(route, links=route.links[:1]) for route in two.routes]
    with pytest.raises(ValueError):
        broadcasts_s(msgspec.structs.replace(two, routes=short), [SECOND, 0], [0.0, 0.0])
