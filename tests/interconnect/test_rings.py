"""Rings and chains in meshes: against what is published of the cube meshes, and for any mesh."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import rings
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.system import load


def lanes_among(name, devices):
    system = load(name)
    return [[paths.nvlink_lanes(system, a, b) for b in devices] for a in devices]


def doubled(lanes):
    return [[2 * count for count in row] for row in lanes]


@st.composite
def meshes(draw):
    size = draw(st.integers(2, 6))
    lanes = [[0] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        lanes[a][b] = lanes[b][a] = draw(st.integers(0, 2))
    return lanes


# Whole rings of the first n GPUs, and the bound by fractions of lanes.
WHOLE = {"dgx1-p100": [1, 2, 2, 0, 2, 2, 4], "dgx1-v100": [1, 2, 4, 0, 2, 4, 6]}
FRACTIONAL = {"dgx1-p100": [1, 2, 3, 0, 2, 3, 4], "dgx1-v100": [1, 2, 4, 0, 2, 4, 6]}


@pytest.mark.parametrize("name", WHOLE)
def test_rings_of_the_cube_meshes(name):
    subsets = [lanes_among(name, range(count)) for count in range(2, 9)]
    assert [len(rings.pack_rings(lanes)) for lanes in subsets] == WHOLE[name]
    assert [rings.fractional(lanes) for lanes in subsets] == pytest.approx(FRACTIONAL[name])


def test_four_gpus_of_the_p100_mesh_need_half_lanes_for_three_lanes_worth():
    assert len(rings.pack_rings(doubled(lanes_among("dgx1-p100", range(4))))) == 6


@pytest.mark.parametrize(("count", "without", "all_of_them"), [(5, 32, 56), (4, 62, 70)])
def test_how_many_subsets_of_a_dgx1_have_no_ring(count, without, all_of_them):
    found = [rings.pack_rings(lanes_among("dgx1-p100", chosen)) for chosen in combinations(range(8), count)]
    assert (sum(not ring for ring in found), len(found)) == (without, all_of_them)


def test_one_ring_takes_the_widest_way_around():
    lanes = [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]]
    order, width = rings.widest(lanes)
    assert width == 2
    assert {frozenset(step) for step in rings.directions(order)} == {
        frozenset(step) for step in ((0, 2), (2, 1), (1, 3), (3, 0))
    }


@pytest.mark.parametrize(("count", "least"), [(8, 7), (9, 8), (10, 8), (16, 14)])
def test_dense_meshes_are_packed_well(count, least):
    lanes = [[int(a != b) for b in range(count)] for a in range(count)]
    assert least <= len(rings.pack_rings(lanes)) <= count - 1


def test_too_large_a_mesh_is_refused():
    with pytest.raises(ConfigError, match="17 GPUs in a mesh without switches"):
        rings.pack_rings([[int(a != b) for b in range(17)] for a in range(17)])


@given(meshes())
@settings(max_examples=60)
def test_packings_fit_and_stay_below_the_bound(lanes):
    left = [list(row) for row in lanes]
    found = rings.pack_rings(lanes)
    for order in found:
        assert sorted(order) == list(range(len(lanes)))
        for a, b in rings.directions(order):
            left[a][b] -= 1
    assert min(map(min, left)) >= 0
    assert len(found) <= rings.fractional(lanes) + 1e-9 <= min(map(sum, lanes)) + 2e-9


@given(meshes())
@settings(max_examples=60)
def test_chains_fit(lanes):
    left = [list(row) for row in lanes]
    for order in rings.pack_chains(lanes):
        assert sorted(order) == list(range(len(lanes)))
        for a, b in pairwise(order):
            left[a][b] -= 1
            left[b][a] -= 1
    assert min(map(min, left)) >= 0


@given(meshes(), st.data())
@settings(max_examples=60)
def test_names_of_gpus_change_nothing(lanes, data):
    names = data.draw(st.permutations(range(len(lanes))))
    renamed = [[lanes[a][b] for b in names] for a in names]
    assert len(rings.pack_rings(renamed)) == len(rings.pack_rings(lanes))
    assert len(rings.pack_chains(renamed)) == len(rings.pack_chains(lanes))


@pytest.mark.slow
@given(meshes(), st.data())
@settings(max_examples=60)
def test_another_lane_never_costs_a_ring(lanes, data):
    a, b = data.draw(st.sampled_from(list(combinations(range(len(lanes)), 2))))
    more = [list(row) for row in lanes]
    more[a][b] += 1
    more[b][a] += 1
    assert len(rings.pack_rings(more)) >= len(rings.pack_rings(lanes))
