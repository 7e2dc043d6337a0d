"""Rounds of pairs."""

from itertools import combinations

import pytest

from resnetx.fleet.check_runs import rounds


@pytest.mark.parametrize("count", range(12))
def test_everyone_meets_everyone_once_and_nobody_two_at_a_time(count):
    nodes = [f"node{place}" for place in range(count)]
    found = rounds(nodes)
    assert sorted(pair for each in found for pair in each) == sorted(combinations(nodes, 2))
    for pairs in found:
        met = [node for pair in pairs for node in pair]
        assert len(met) == len(set(met)) >= count - 1
    assert len(found) == (0 if count < 2 else count - 1 + count % 2)
