"""Estimates, tests and labels against enumeration by hand, published constants, and studies whose truth is known."""

import math
from statistics import fmean

import numpy as np
import pytest

from resnetx.statistics import (
    T_LEVEL,
    Summary,
    TTest,
    _medians,
    _quantiles,
    adjusted_p,
    derived,
    level_of_each,
    outliers,
    ratio,
    shown_differences,
    summarize,
    t_test,
)

RATE = 100.0  # images/s, the true median of every synthetic study


def study(draw, runs, between=0.02, within=0.005, windows=10, rate=RATE):
    """Rates of windows [run][window] that scatter log-normally: by `between` from run to run, by `within` inside."""
    of_runs = rate * np.exp(between * draw.standard_normal((runs, 1)))
    return (of_runs * np.exp(within * draw.standard_normal((runs, windows)))).tolist()


def holds(summary, truth):
    return summary.low <= truth <= summary.high


# ---- estimates ------------------------------------------------------------------------------------------------------


def test_few_runs_have_a_median_and_a_range():
    assert summarize([3.0, 1.0, 2.0, 10.0]) == Summary(median=2.5, low=1.0, high=10.0, n=4, kind="range")
    assert summarize([7.0]) == Summary(median=7.0, low=7.0, high=7.0, n=1, kind="range")


def test_a_runs_rate_is_its_work_over_its_time():
    # 60 images at 30/s and 60 at 60/s take 3 s: 40/s, not 45/s
    assert summarize([[30.0, 60.0]]).median == pytest.approx(40)


def test_there_is_an_interval_from_six_runs_on():
    runs = study(np.random.default_rng(0), 6)
    assert [summarize(runs[:n]).kind for n in (4, 5, 6)] == ["range", "range", "interval"]


def test_an_interval_lies_around_the_median_inside_the_runs_when_windows_agree():
    runs = [90.0, 95.0, 100.0, 102.0, 104.0, 110.0]
    found = summarize(runs)
    assert found.median == 101
    assert 90 <= found.low < found.median < found.high <= 110


def test_windows_widen_the_interval_of_runs_that_agree():
    steady = [[100.0, 100.0]] * 6
    scattered = [[80.0, 400 / 3]] * 6  # the same run rate: 2 / (1/80 + 3/400) = 100
    assert summarize(steady).low == pytest.approx(100) == summarize(steady).high
    assert summarize(scattered).median == pytest.approx(100)
    assert summarize(scattered).low < 99 < 101 < summarize(scattered).high


def test_the_same_numbers_have_the_same_interval_and_the_order_of_runs_hardly_matters():
    runs = study(np.random.default_rng(1), 8)
    assert summarize(runs) == summarize([list(run) for run in runs])
    turned = summarize(runs[::-1])
    assert turned.median == summarize(runs).median
    assert turned.low == pytest.approx(summarize(runs).low, rel=0.005)


def test_runs_may_differ_in_windows():
    runs = study(np.random.default_rng(2), 6)
    runs[3] = runs[3][:4]
    assert holds(summarize(runs), RATE)


@pytest.mark.parametrize("nothing", [[], [[]], [[1.0], []], [[1.0, 0.0]]])
def test_nothing_has_no_summary(nothing):
    with pytest.raises(AssertionError):
        summarize(nothing)


# Measured with these seeds, 300 studies each: 94, 96, 97, 95 % for n = 6, 7, 8, 10; ratios 99, 98, 99, 97 %.
@pytest.mark.slow
@pytest.mark.parametrize("runs", [6, 7, 8, 10])
def test_intervals_hold_the_truth_as_often_as_they_say(runs):
    draw = np.random.default_rng(runs)
    held, held_by_ratio, studies = 0, 0, 300
    for _ in range(studies):
        one, other = study(draw, runs), study(draw, runs)
        held += holds(summarize(one), RATE)
        held_by_ratio += holds(ratio(one, other), 1)
    assert 0.92 < held / studies < 0.985
    assert 0.94 < held_by_ratio / studies < 0.995


def test_a_range_holds_the_truth_less_often_than_it_looks():
    draw = np.random.default_rng(3)
    held = sum(holds(summarize(study(draw, 3)), RATE) for _ in range(400)) / 400
    assert held == pytest.approx(1 - 2 * 0.5**3, abs=0.06)  # all three on one side of the median: 1 in 4


# ---- what follows from several sets ---------------------------------------------------------------------------------


def test_a_ratio_of_few_runs_is_the_range_of_its_extremes():
    assert ratio([30.0, 40.0, 50.0], [10.0, 20.0]) == Summary(40 / 15, 30 / 20, 50 / 10, 2, "range")


def test_a_ratio_needs_six_runs_on_both_sides_for_an_interval():
    draw = np.random.default_rng(4)
    many, few = study(draw, 12), study(draw, 5)
    assert (ratio(many, few).kind, ratio(many, few).n) == ("range", 5)
    assert (ratio(many, few + few).kind, ratio(many, few + few).n) == ("interval", 10)


def test_a_ratio_and_its_reciprocal_agree():
    draw = np.random.default_rng(5)
    fast, slow = study(draw, 8, rate=190.0), study(draw, 8)
    up, down = ratio(fast, slow), ratio(slow, fast)
    assert up.median == pytest.approx(1 / down.median)
    assert (up.low, up.high) == pytest.approx((1 / down.high, 1 / down.low), rel=0.005)


def test_a_ratio_is_known_less_well_than_either_side():
    draw = np.random.default_rng(6)
    one, other = study(draw, 10), study(draw, 10)
    assert ratio(one, other).spread > max(summarize(one).spread, summarize(other).spread)


@pytest.mark.parametrize("runs", [3, 10])
def test_two_points_vary_apart_even_if_their_rates_are_proportional(runs):
    rates = np.array(study(np.random.default_rng(7), runs))
    found = ratio((2 * rates).tolist(), rates.tolist())
    assert found.median == pytest.approx(2)
    assert found.low < 1.99 < 2.01 < found.high


@pytest.mark.parametrize("runs", [3, 10])
def test_a_point_is_as_fast_as_itself_beyond_doubt(runs):
    rates = study(np.random.default_rng(7), runs)
    own = ratio(rates, [list(run) for run in rates])
    assert (own.median, own.low, own.high) == (1, 1, 1)


def test_the_share_of_the_time_that_a_part_takes_follows_from_its_twin():
    draw = np.random.default_rng(8)
    clean, alone = study(draw, 8), study(draw, 8, rate=RATE / 0.75)
    exposed = derived(lambda rate, without: 1 - rate / without, clean, alone)
    speed = ratio(clean, alone)
    assert holds(exposed, 0.25)
    assert (exposed.median, exposed.low, exposed.high) == pytest.approx(
        (1 - speed.median, 1 - speed.high, 1 - speed.low)
    )


def test_a_lead_can_be_open_or_clear():
    draw = np.random.default_rng(9)
    clean = study(draw, 6)

    def lead(first_saves, second_saves):
        twins = [study(draw, 6, rate=RATE / (1 - saved)) for saved in (first_saves, second_saves)]
        return derived(lambda rate, one, other: (1 - rate / one) - (1 - rate / other), clean, *twins)

    clear, even = lead(0.4, 0.1), lead(0.2, 0.2)
    assert clear.low > 0.2
    assert holds(even, 0)
    assert (clear.n, clear.kind) == (6, "interval")


def test_efficiency_is_the_speedup_per_gpu():
    assert Summary(6.0, 5.0, 7.0, 6, "interval").scaled(1 / 8) == Summary(0.75, 0.625, 0.875, 6, "interval")
    with pytest.raises(AssertionError):
        Summary(6.0, 5.0, 7.0, 6, "interval").scaled(-1)


# ---- how badly something is known -----------------------------------------------------------------------------------


def test_spread_is_half_the_interval_over_the_median():
    assert Summary(100.0, 95.0, 107.0, 6, "interval").spread == pytest.approx(0.06)
    assert Summary(-0.1, -0.2, 0.2, 6, "interval").spread == pytest.approx(2)


def test_one_run_says_nothing_of_its_spread():
    assert summarize([100.0]).spread == math.inf
    assert Summary(0.0, -0.1, 0.1, 6, "interval").spread == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 4, 5])
def test_the_spread_of_a_range_is_that_of_a_95_percent_interval(runs):
    draw = np.random.default_rng(runs)
    held = 0
    for _ in range(2000):
        rates = (RATE + draw.standard_normal(runs)).tolist()
        found = summarize(rates)
        held += abs(fmean(rates) - RATE) <= found.spread * found.median
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


@pytest.mark.slow
def test_runs_that_were_added_make_a_point_better_known():
    draw = np.random.default_rng(10)
    spreads = [np.mean([summarize(study(draw, runs)).spread for _ in range(100)]) for runs in (2, 3, 5, 6, 12, 24)]
    assert spreads == sorted(spreads, reverse=True)


# ---- differences ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_false_discoveries_are_few_among_many_cells_and_real_differences_are_found():
    draw = np.random.default_rng(13)
    false_shares, found, real = [], 0, 0
    for _ in range(8):
        differs = [cell % 3 == 0 for cell in range(18)]
        pairs = [(study(draw, 6, rate=RATE * (1.08 if d else 1)), study(draw, 6)) for d in differs]
        tests = [t_test(*([fmean(run) for run in side] for side in pair)) for pair in pairs]
        called = shown_differences(tests)
        false_shares.append(sum(c and not d for c, d in zip(called, differs, strict=True)) / max(1, sum(called)))
        found += sum(c and d for c, d in zip(called, differs, strict=True))
        real += sum(differs)
        assert called == [p <= T_LEVEL for p in adjusted_p(tests)]
    assert np.mean(false_shares) < 0.05
    assert found / real > 0.9


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg():
    p = [0.01, 0.04, 0.03, 0.005]
    # ranks 2 4 3 1 of 4: p x 4 / rank is 0.02 0.04 0.04 0.02, and no larger p may have a smaller one
    tests = [TTest(0.9, 1.1, each, 0.1, T_LEVEL) for each in p]
    assert adjusted_p([*tests, None]) == [*map(pytest.approx, [0.02, 0.04, 0.04, 0.02]), None]
    assert adjusted_p([tests[1]] * 3) == [0.04] * 3 and adjusted_p([]) == []


# ---- runs that stand out --------------------------------------------------------------------------------------------


def test_runs_far_from_the_others_are_named_with_their_direction():
    found = outliers([100.0, 101.0, 99.0, 100.5, 70.0, 99.5, 130.0])
    # median 100, deviations 0 1 1 0.5 30 0.5 30: their median is 1
    assert [(each.run, each.deviation, each.score) for each in found] == [
        (4, pytest.approx(-0.30), pytest.approx(-30 * 0.6745)),
        (6, pytest.approx(0.30), pytest.approx(30 * 0.6745)),
    ]


def test_a_run_just_inside_the_bound_does_not_stand_out():
    # median 100, median absolute deviation 1: the bound is 3.5 / 0.6745 = 5.189 away
    others = [98.0, 99.0, 99.0, 100.0, 101.0, 101.0]
    assert outliers([*others, 105.1]) == []
    assert [each.run for each in outliers([*others, 105.3])] == [6]


def test_below_five_runs_nothing_stands_out():
    assert outliers([100.0, 100.0, 101.0, 10.0]) == []


def test_runs_that_are_equal_have_outliers_only_if_one_is_not():
    assert outliers([100.0] * 6) == []
    assert [(each.run, each.deviation) for each in outliers([100.0] * 5 + [90.0])] == [(5, pytest.approx(-0.1))]


def test_a_run_is_judged_as_a_whole():
    steady = [[100.0, 101.0], [101.0, 100.0], [99.0, 100.0], [100.0, 99.5], [99.5, 101.0]]
    assert outliers([*steady, [80.0, 400 / 3]]) == []  # two odd windows, and yet 100 images/s


def test_some_quiet_sets_have_an_outlier_too():
    draw = np.random.default_rng(14)
    flagged = np.mean([bool(outliers(study(draw, 6))) for _ in range(1000)])
    assert flagged == pytest.approx(0.15, abs=0.04)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 4000])
def test_quantiles_and_medians_are_numpys_to_the_bit(count):
    values = np.random.default_rng(count).normal(size=(4, count))
    for shares in ([0.025, 0.975], [0, 1]):
        assert _quantiles(values[0], shares) == tuple(np.quantile(values[0], shares).tolist())
    assert (_medians(values) == np.median(values, axis=0)).all()


# ---- differences of few runs ----------------------------------------------------------------------------------------


def nights(kind, runs, cases, pairs, longer=1.0, scatter=0.02):
    """Seconds of a step [pair][night][case][run]; `longer`: how many times as long the second night takes."""
    draw = np.random.default_rng(2017)
    shape = (pairs, 2, cases, runs)
    kinds = {
        "normal": lambda: draw.standard_normal(shape),
        "skewed": lambda: draw.exponential(size=shape) - 1,
        "stragglers": lambda: draw.standard_normal(shape) + 7 * (draw.random(shape) < 0.1),
    }
    logs = scatter * kinds[kind]()
    logs[:, 1] += math.log(longer)
    return np.exp(logs)


def differing(simulated):
    """By pair of nights, in how many cases it is said that they differ."""
    return [
        sum(shown_differences([t_test(*case) for case in zip(first, second, strict=True)]))
        for first, second in simulated
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "skewed", "stragglers"])
@pytest.mark.parametrize(("runs", "cases"), [(3, 1), (3, 2), (3, 20), (6, 2)])
def test_two_equal_nights_differ_in_one_of_twenty_answers_at_most(kind, runs, cases):
    told = differing(nights(kind, runs, cases, pairs=2000 // (1 + cases // 5)))
    assert fmean(map(bool, told)) <= 0.05


@pytest.mark.slow
def test_what_few_runs_resolve_is_said_and_a_night_slower_by_5_percent_is_found():
    # scatter of 1 %: 3 runs show 3.6 % in 4 of 5 nights, 6 runs 2 %, as `t_test` says
    for runs, longer in ((3, 1.036), (6, 1.02)):
        assert 0.72 <= fmean(differing(nights("normal", runs, 1, 2000, longer, scatter=0.01))) <= 0.84
    assert fmean(differing(nights("normal", 3, 1, 2000, 1.05, scatter=0.01))) > 0.95
    assert fmean(differing(nights("normal", 3, 20, 200, 1.05, scatter=0.01))) > 0.95 * 20  # all of a slow night
    assert fmean(map(bool, differing(nights("normal", 2, 1, 200, 1.5)))) == 0  # two runs do not tell their scatter


@pytest.mark.parametrize(("runs", "times"), [(3, 3.557), (6, 1.979)])
def test_what_is_called_resolved_is_what_four_of_five_sets_of_runs_show(runs, times):
    first, second = nights("normal", runs, 1, 1, scatter=0.001)[0, :, 0]
    pooled = math.sqrt((np.var(np.log(first), ddof=1) + np.var(np.log(second), ddof=1)) / 2)
    assert math.log1p(t_test(first, second).resolved) == pytest.approx(times * pooled, rel=0.002)


def test_ends_at_the_level_of_the_verdicts_leave_one_out_where_a_difference_is_shown_and_only_there():
    seen = set()
    for first, second in nights("normal", 3, 5, 300, longer=1.06):
        pairs = list(zip(first, second, strict=True))
        tests = [t_test(*pair) for pair in pairs]
        level = level_of_each(tests)
        for pair, single, shown in zip(pairs, tests, shown_differences(tests), strict=True):
            ends = t_test(*pair, level)
            assert shown == (not ends.low <= 1 <= ends.high)
            seen.add((shown, not single.low <= 1 <= single.high))
    assert seen == {(True, True), (False, False), (False, True)}  # a test by itself says more


def test_a_t_test_is_that_of_students_and_its_ends_hold_the_ratio():
    import scipy.stats

    first, second = [1.0, 1.1, 1.3, 0.9], [1.4, 1.5, 1.2]
    found = t_test(first, second)
    assert found.p == pytest.approx(scipy.stats.ttest_ind(np.log(first), np.log(second)).pvalue)
    ends = scipy.stats.ttest_ind(np.log(second), np.log(first)).confidence_interval(0.97)
    assert [found.low, found.high] == pytest.approx([math.exp(ends.low), math.exp(ends.high)])
    assert found.level == 0.03
    assert t_test([1.0] * 3, [1.0] * 3).p == 1 and t_test([1.0] * 3, [2.0] * 3).p == 0
