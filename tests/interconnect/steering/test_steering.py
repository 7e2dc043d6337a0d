"""Steering: the paper's counts and pictures by hand, the searches against each other, and limits on receivers."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.traffic import added_up
from resnetx.interconnect.systems.paths import nvlink_lanes
from resnetx.interconnect.systems.system import load
from resnetx.steering.link_units import (
    PhaseChoice,
    Source,
    SteeringProblem,
    best,
    evaluations,
    exhaustive,
    greedy,
    normalised,
    pair_rtl,
    phase_choice,
    received,
    receivers_added,
    slowest_pair,
    source_rtl,
    steering_problem,
    total_rtl,
    within_receivers,
)


def one_sender(sent, built) -> Source:
    return Source(0, tuple(range(1, len(sent) + 1)), tuple(sent), tuple(built), sum(built))


def dgx1() -> list[list[int]]:
    machine = load("dgx1-v100")
    return [[nvlink_lanes(machine, to, by) for by in range(8)] for to in range(8)]


# ---- RTL ------------------------------------------------------------------------------------------------------------


def test_rtl_is_traffic_over_units_and_a_gpus_is_its_column():
    traffic, units = [[0, 4, 0], [6, 0, 0], [3, 8, 0]], [[0, 1, 0], [2, 0, 0], [1, 4, 0]]
    assert pair_rtl(traffic, units) == ((0, 4, 0), (3, 0, 0), (3, 2, 0))
    assert source_rtl(traffic, units) == (6, 6, 0)  # what GPU 0 sends is in column 0
    assert total_rtl(traffic, units) == 12
    assert slowest_pair(traffic, units) == 4
    assert received(units) == (1, 2, 5)
    assert max(map(max, normalised(traffic))) == 1
    assert normalised([[0, 0], [0, 0]]) == ((0, 0), (0, 0))


# ---- the paper ------------------------------------------------------------------------------------------------------


def test_the_paper_counts_320_rtls_on_a_dgx1():
    """Section 3: 4 required connections and 6 units for each of 8 GPUs, 4 x C(5, 2) = 40 RTLs each."""
    built = dgx1()
    traffic = [[random.Random(8 * to + by).random() if built[to][by] else 0 for by in range(8)] for to in range(8)]
    assert evaluations(4, 6) == 40
    assert best(steering_problem(traffic, built)).evaluations == 320


@pytest.mark.parametrize(("targets", "units"), [(1, 6), (2, 6), (3, 7), (4, 6), (5, 5), (6, 11)])
def test_the_formula_counts_what_the_search_evaluates(targets, units):
    source = one_sender([1.0] * targets, [units - targets + 1] + [1] * (targets - 1))
    assert exhaustive(source).evaluations == evaluations(targets, units)


@pytest.mark.parametrize("search", [exhaustive, greedy])
def test_three_quarters_of_the_units_need_nine_tenths_of_the_traffic(search):
    """Fig. 1: GPU A gives C three times what it gives B. Traffic of 9:1 is what that takes, not 3:1."""
    for units in (40, 400, 4000):
        b, c = search(one_sender([1.0, 9.0], [units // 2, units // 2])).units
        assert (b, c) == (units // 4, 3 * units // 4)
    b, c = search(one_sender([1.0, 3.0], [2000, 2000])).units
    assert c / b == pytest.approx(math.sqrt(3), rel=1e-3)


@pytest.mark.parametrize("search", [exhaustive, greedy])
def test_with_four_units_the_split_of_the_picture_begins_at_traffic_of_3_to_1(search):
    """t / 3 + 1 < t / 2 + 1 / 2 from t = 3 on; at 3 both are alike, and the links stay."""
    assert search(one_sender([1.0, 2.9], [2, 2])).units == (2, 2)
    assert search(one_sender([1.0, 3.0], [2, 2])).units == (2, 2)
    assert search(one_sender([1.0, 3.1], [2, 2])).units == (1, 3)
    assert search(one_sender([1.0, 900.0], [2, 2])).units == (1, 3)  # one unit is kept for every flow


def test_even_traffic_and_traffic_like_the_links_leave_a_dgx1_as_it_is():
    """All 48 directed units equally loaded, as NCCL's rings do: nothing can be gained."""
    built = dgx1()
    for traffic in (built, [[float(count > 0) for count in row] for row in built]):
        found = best(steering_problem(traffic, built)).units
        assert total_rtl(traffic, found) == total_rtl(traffic, built)
        assert [list(row) for row in found] == built


# ---- the searches against each other --------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.integers(1, 4)), min_size=1, max_size=5))
def test_greedy_is_as_good_as_trying_everything(flows):
    source = one_sender(*zip(*flows, strict=True))
    tried, quick = exhaustive(source), greedy(source)
    rtl = [sum(sent / count for sent, count in zip(source.sent, found.units, strict=True)) for found in (tried, quick)]
    assert rtl[1] == pytest.approx(rtl[0], rel=1e-9)
    assert sum(quick.units) == sum(tried.units) == source.units
    assert min(quick.units) >= 1


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=2, max_size=4))
def test_both_move_as_few_links_as_any_best_division(flows):
    source = one_sender(*zip(*flows, strict=True))
    moved = [
        sum(abs(count - built) for count, built in zip(found.units, source.built, strict=True))
        for found in (exhaustive(source), greedy(source))
    ]
    assert moved[0] == moved[1]


@st.composite
def nodes(draw, most):
    """Random nodes of up to `most` GPUs, with random traffic between whoever is linked."""
    count = draw(st.integers(2, most))
    pairs = list(itertools.permutations(range(count), 2))
    units = {pair: draw(st.integers(0, 2)) for pair in pairs}
    sent = {pair: draw(st.integers(0, 9)) if units[pair] else 0 for pair in pairs}
    if not any(sent.values()):
        units[0, 1] = sent[0, 1] = 1
    matrices = [[[of.get((to, by), 0) for by in range(count)] for to in range(count)] for of in (sent, units)]
    return steering_problem(*matrices)


def sent_by(units) -> list[int]:
    return list(map(sum, zip(*units, strict=True)))


def by_brute_force(problem: SteeringProblem, receivers) -> float:
    """The least total RTL over every choice of a column for each source."""
    columns = []
    for source in problem.sources:
        ranges = [range(1, source.units + 1)] * len(source.targets)
        columns.append([
            (source, units) for units in itertools.product(*ranges) if sum(units) <= source.units
        ])  # fmt: skip
    least = math.inf
    for chosen in itertools.product(*columns):
        load, rtl = [0] * problem.gpus, 0.0
        for source, units in chosen:
            for to, sent, count in zip(source.targets, source.sent, units, strict=True):
                load[to] += count
                rtl += sent / count
        if all(has <= limit for has, limit in zip(load, receivers, strict=True)):
            least = min(least, rtl)
    return least


@pytest.mark.slow
@given(nodes(3), st.lists(st.integers(1, 6), min_size=3, max_size=3))
@settings(max_examples=20)
def test_limits_on_receivers_are_kept_at_the_least_rtl_that_brute_force_finds(problem, more):
    flows = [sum(sent > 0 for sent in row) for row in problem.traffic]
    receivers = [max(least, limit) for least, limit in zip(flows, more[: problem.gpus], strict=True)]
    found = within_receivers(problem, receivers)
    assert all(count <= limit for count, limit in zip(received(found), receivers, strict=True))
    assert all(after <= before for after, before in zip(sent_by(found), sent_by(problem.built), strict=True))
    assert total_rtl(problem.traffic, found) == pytest.approx(by_brute_force(problem, receivers))


@pytest.mark.slow
@given(nodes(5))
@settings(max_examples=20)
def test_limits_that_nobody_reaches_change_nothing(problem):
    free = best(problem)
    enough = [sum(map(sum, problem.built))] * problem.gpus
    assert total_rtl(problem.traffic, best(problem, enough).units) == pytest.approx(
        total_rtl(problem.traffic, free.units)
    )


@pytest.mark.slow
@given(nodes(5))
@settings(max_examples=20)
def test_steering_never_makes_it_worse_and_receivers_cost_rtl(problem):
    before, free = total_rtl(problem.traffic, problem.built), total_rtl(problem.traffic, best(problem).units)
    kept = best(problem, received(problem.built)).units
    assert free <= before * (1 + 1e-9)
    assert free <= total_rtl(problem.traffic, kept) * (1 + 1e-9)
    assert total_rtl(problem.traffic, kept) <= before * (1 + 1e-9)
    assert max(receivers_added(problem, kept)) == 0


def test_hundreds_of_gpus_are_steered_greedily_to_the_same_as_within_free_receivers():
    rng = random.Random(17)
    gpus = 64
    built = [[int(0 < (to - by) % gpus <= 8) for by in range(gpus)] for to in range(gpus)]
    traffic = [[rng.random() * count for count in row] for row in built]
    built = [[3 * count for count in row] for row in built]
    problem = steering_problem(traffic, built)
    found = best(problem)
    assert found.method == "greedy"
    assert total_rtl(traffic, found.units) == pytest.approx(
        total_rtl(traffic, within_receivers(problem, [gpus * 24] * gpus))
    )


# ---- phases ---------------------------------------------------------------------------------------------------------


def test_a_phase_is_worth_its_own_configuration_from_the_break_even_on():
    built = [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
    phases = [[[0, 0, 0], [9, 0, 0], [1, 0, 0]], [[0, 0, 0], [1, 0, 0], [9, 0, 0]]]
    shared = best(steering_problem(added_up(phases), built)).units
    own = best(steering_problem(phases[0], built)).units
    choice = phase_choice(phases[0], shared, own)
    assert (choice.rtl_shared, choice.rtl_own) == (5.0, 4.0)  # 9/2 + 1/2; 9/3 + 1/1
    assert choice.break_even_s(0.01) == pytest.approx(0.05)
    assert choice.gain_s(0.05, 0.01) == pytest.approx(0)
    assert choice.gain_s(0.1, 0.01) > 0 > choice.gain_s(0.02, 0.01)
    assert PhaseChoice(4.0, 4.0).break_even_s(0.01) == math.inf


# ---- what has no answer ---------------------------------------------------------------------------------------------

PAIR = [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("traffic", "built", "sentence"),
    [
        ([[0, -1], [1, 0]], PAIR, r"traffic\[0\]\[1\]=-1: expected a number of bytes, 0 or more"),
        ([[0, math.nan], [1, 0]], PAIR, r"traffic\[0\]\[1\]=nan: expected a number of bytes"),
        ([[0, math.inf], [1, 0]], PAIR, r"traffic\[0\]\[1\]=inf: expected a number of bytes"),
        ([[0, 1], [1]], PAIR, "2 rows, one of them of 1 columns"),
        ([[0, 1]], PAIR, "1 rows, one of them of 2 columns"),
        ([[0]], PAIR, "of 1 GPUs, and the system has 2"),
        ([[1, 1], [1, 0]], PAIR, "GPU 0 needs no link to itself"),
        ([[0, 1], [0, 0]], [[0, 0], [1, 0]], "GPU 1 sends to GPU 0, and no link can join them"),
        ([[0, 0], [0, 0]], PAIR, "all of it is 0"),
    ],
)
def test_traffic_without_an_answer_is_refused_in_a_sentence(traffic, built, sentence):
    with pytest.raises(ConfigError, match=sentence):
        steering_problem(traffic, built)


def test_fewer_units_than_flows_are_refused():
    everywhere = [[True] * 3 for _ in range(3)]
    with pytest.raises(ConfigError, match="GPU 0 sends to 2 GPUs and has 1 bandwidth units"):
        steering_problem([[0, 0, 0], [1, 0, 0], [1, 0, 0]], [[0, 0, 0], [1, 0, 0], [0, 0, 0]], everywhere)


def test_limits_below_the_flows_are_refused():
    problem = steering_problem([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0, 2, 2], [2, 0, 2], [2, 2, 0]])
    with pytest.raises(
        ConfigError, match="GPU 0 is sent to by 2 GPUs, each of which needs a unit; expected at least 2"
    ):
        within_receivers(problem, [1, 4, 4])
    with pytest.raises(ConfigError, match="expected one limit for all GPUs, or one for each of 3"):
        within_receivers(problem, [4])
