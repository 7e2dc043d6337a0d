"""Comparisons of studies that were never run: their rates are given, or come from the model in `conftest`."""

import msgspec
import pytest

from resnetx import record
from resnetx.record import LockedClock, record_file
from resnetx.record.comparisons import Comparison
from resnetx.reporting.charts.studies import compared_rates
from resnetx.reporting.compared_studies import compare, conclusion
from resnetx.reporting.explain import explained, sides_of_study
from resnetx.reporting.study_points import study_points

SIX = (0.99, 0.995, 1.0, 1.001, 1.005, 1.01)


@pytest.fixture
def study_of(request_of, brief_of, results_of):
    """Makes a study on 1, 2 ... GPUs from the rates there; each has a run at every one of `spread` times the rate."""

    def make(rates, spread=SIX, brief=None, **settings):
        plain = {"model.x": 1, "batch_size": 32, "threads": 1}
        requests = [request_of(plain | settings, gpus=gpus) for gpus in rates]
        runs = [
            brief_of(request, *([rate * factor] if rate else []), repeat=repeat, **(brief or {}))
            for request, rate in zip(requests, rates.values(), strict=True)
            for repeat, factor in enumerate(spread, 1)
        ]
        return results_of(requests, runs)

    return make


def test_the_ratio_is_b_over_a_with_its_interval_and_the_speed_up_ratio_leaves_one_gpu_out(study_of):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 20.0, 2: 39.0}))
    one, two = found.points
    assert (one.ratio.median, two.ratio.median) == (pytest.approx(2), pytest.approx(2.6))
    assert two.ratio.kind == "interval"
    assert 2.55 < two.ratio.low < 2.6 < two.ratio.high < 2.65
    assert (one.speedup_ratio, one.baseline) == (None, "itself")
    assert (two.speedup_ratio.median, two.baseline) == (pytest.approx(1.3), "1 GPU")
    assert (one.verdict, two.verdict) == ("different", "different")
    assert two.adjusted_p < 1e-6


@pytest.mark.slow
def test_a_study_against_itself_has_ratios_of_one_without_doubt_and_no_differences(invented, grid):
    study = invented(grid("paper-alexnet-googlenet", input="synthetic"))
    found = compare(study, study)
    ratios = [point.ratio for point in found.points if point.ratio] + [mean.ratio for mean in found.means]
    ratios += [point.speedup_ratio for point in found.points if point.speedup_ratio]
    assert len(ratios) > 20
    for ratio in ratios:
        assert (ratio.median, ratio.low, ratio.high) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert {point.verdict for point in found.points} == {"no difference shown", "not measured"}
    assert (found.settings, found.machines, found.only_in_one) == ([], [], [])
    assert conclusion(found)[0] == "A and B are one study: every ratio is 1."


def test_the_mean_is_geometric_and_of_each_number_of_gpus(study_of, results_of):
    def study(*rates):
        parts = [study_of({1: 10.0, 2: rate}, **{"model.x": x}) for x, rate in zip((1, 4), rates, strict=True)]
        return results_of(
            [point.request for part in parts for point in part.points], [run for part in parts for run in part.runs]
        )

    one, two = compare(study(10.0, 10.0), study(20.0, 80.0)).means
    assert (one.gpus, one.points, one.ratio.median, one.speedup_ratio) == (1, 2, pytest.approx(1), None)
    assert (two.gpus, two.points, two.ratio.median) == (2, 2, pytest.approx(4))  # of 2 and 8
    assert (two.speedup_points, two.speedup_ratio.median) == (2, pytest.approx(4))
    assert two.ratio.kind == "interval"
    assert 3.9 < two.ratio.low < 4 < two.ratio.high < 4.1


def test_the_mean_over_points_with_few_runs_reaches_as_far_as_all_of_them_together(study_of):
    found = compare(study_of({1: 10.0}, spread=(0.5, 1.0)), study_of({1: 10.0}, spread=(1.0, 1.0)))
    assert (found.means[0].ratio.kind, found.means[0].ratio.n) == ("range", 2)
    assert (found.means[0].ratio.low, found.means[0].ratio.high) == (pytest.approx(1), pytest.approx(2))


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_decide_nothing_however_far_apart_they_are(study_of, runs):
    spread = [1 + 0.001 * run for run in range(runs)]
    found = compare(study_of({1: 10.0, 2: 20.0}, spread), study_of({1: 20.0, 2: 40.0}, spread))
    assert {(point.verdict, point.adjusted_p) for point in found.points} == {("too few runs to decide", None)}
    (answer,) = [sentence for sentence in conclusion(found) if sentence.startswith("Not decided: B trains 2.00")]
    assert answer.endswith("from too few runs; repeats=3 could decide all 2 common cases.")


def test_enough_runs_are_enough_and_explain_decides_alike(study_of):
    spread = [1 + 0.001 * run for run in range(3)]
    a, b = study_of({1: 10.0, 2: 20.0}, spread), study_of({1: 20.0, 2: 20.0}, spread)
    found = compare(a, b)
    assert [point.verdict for point in found.points] == ["different", "no difference shown"]
    sides = [sides_of_study(study_points([results])) for results in (a, b)]
    assert [each.outside for each in explained(*sides)] == [True, False]


def test_cases_are_drawn_by_how_far_apart_they_are_with_ticks_on_both_sides(study_of):
    found = compare(study_of({1: 10.0, 2: 20.0, 4: 30.0}), study_of({1: 10.0, 2: 22.0, 4: 39.0}))
    (drawn,) = compared_rates(found)
    rows = drawn.table.records()
    assert [row["case"] for row in rows] == ["4 GPUs", "2 GPUs", "1 GPU"]
    assert [row["verdict"] for row in rows] == ["different", "different", "no difference shown"]
    assert "In all: ResNet/1, batch 32." in drawn.caption and compared_rates(compare(*[study_of({1: 10.0})] * 2)) == []


# ---- what a difference may be due to --------------------------------------------------------------------------------


def controls(found):
    return {control.name: control.agreement for control in found.controls}


def test_where_one_gpu_differs_a_difference_is_not_attributed_to_the_interconnect(study_of):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 11.0, 2: 18.0}))
    assert controls(found) == {"one-GPU rate": "differ", "SM clock": "unknown"}
    last = conclusion(found)[-1]
    assert last.startswith(
        "One-GPU rates differ by more than 3% (largest difference at ResNet/1, batch 32, 1 GPU: B / A 1.100 ("
    )
    assert "not due to the interconnect alone; read the ratio of speed-ups" in last


def test_where_clocks_differ_neither(study_of):
    slow, fast = {"sm_clock_Hz": 1.227e9}, {"sm_clock_Hz": 1.48e9}
    found = compare(study_of({1: 10.0, 2: 15.0}, brief=slow), study_of({1: 10.0, 2: 18.0}, brief=fast))
    assert controls(found) == {"one-GPU rate": "agree", "SM clock": "differ"}
    assert "1.23 GHz in A, 1.48 GHz in B): a difference on several GPUs is not due to the" in conclusion(found)[-1]


def test_a_comparison_says_whether_both_held_the_clock_that_they_were_locked_at(study_of):
    def at(MHz, why_not=""):
        seen = [[1e6 * MHz]]
        held = LockedClock(clock_Hz=1.227e9, lowest_Hz=seen, highest_Hz=seen, why_not=why_not)
        return study_of({1: 10.0, 2: 15.0}, brief={"sm_clock_Hz": 1e6 * MHz, "clock": held}, clock=1227)

    both = compare(at(1227), at(1227)).controls[1]
    assert both.agreement == "agree"
    assert both.why.endswith("; A held 1227 MHz in every window, B held 1227 MHz in every window")
    one = compare(at(1227), at(1200, "the GPU of rank 0 ran at 1200 MHz")).controls[1]
    assert one.agreement == "open"  # though its median is near enough
    assert "B was locked at 1227 MHz and did not keep to it in 12 of 12 runs (the GPU of rank 0 ran at 1200" in one.why
    free = study_of({1: 10.0, 2: 15.0}, brief={"sm_clock_Hz": 1.227e9})
    assert compare(at(1227), free).controls[1].why.endswith("A held 1227 MHz in every window, B was not locked")


def test_where_one_gpu_agrees_it_is_of_the_exchange_or_of_what_else_differs(study_of):
    clock = {"sm_clock_Hz": 1.227e9}
    found = compare(study_of({1: 10.0, 2: 15.0}, brief=clock), study_of({1: 10.0, 2: 18.0}, brief=clock))
    assert controls(found) == {"one-GPU rate": "agree", "SM clock": "agree"}
    assert "so do SM clocks: a difference on several GPUs is due to how they exchange" in conclusion(found)[-1]


def test_where_one_gpu_is_not_known_well_nothing_is_attributed(study_of):
    wide = (0.9, 0.95, 1.0, 1.001, 1.05, 1.1)
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 10.0, 2: 18.0}, wide))
    assert controls(found)["one-GPU rate"] == "open"
    assert "cannot be attributed to the interconnect yet; raise repeats" in conclusion(found)[-1]


def test_without_a_common_one_gpu_point_that_is_said_and_the_smallest_is_the_baseline(study_of):
    found = compare(study_of({1: None, 2: 10.0, 4: 15.0}), study_of({1: 6.0, 2: 10.0, 4: 18.0}))
    assert controls(found)["one-GPU rate"] == "unknown"
    assert "measure gpus=1 in both" in conclusion(found)[-1]
    one, _, four = found.points
    assert (one.ratio, one.verdict, one.a.outcome, one.a.reason) == (None, "not measured", "failed", "made by a test")
    assert (four.baseline, four.speedup_ratio.median) == ("2 GPUs (1 GPU: not in both)", pytest.approx(1.2))


def test_the_baseline_is_chosen(study_of):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 10.0, 2: 30.0}), baseline=2)
    assert [point.baseline for point in found.points] == ["2 GPUs", "itself"]
    assert found.points[0].speedup_ratio.median == pytest.approx(0.5)


def test_faster_links_show_in_the_ratio_of_speed_ups_of_what_sends_much(invented, grid):
    requests = [
        *grid(model="alexnet", batch_size=256, gpus=[1, 8], input="synthetic"),
        *grid(model__x=32, batch_size=32, gpus=[1, 8], input="synthetic"),
    ]
    slow, fast = (invented(requests, node=f"{link}", link_Bps=link) for link in (2e9, 20e9))
    found = compare(slow, fast)
    assert controls(found)["one-GPU rate"] == "agree"
    on_eight = {point.workload: point for point in found.points if point.request.gpus == 8}
    assert on_eight["AlexNet"].speedup_ratio.low > 1.5
    assert on_eight["AlexNet"].verdict == "different"
    assert on_eight["ResNet/32"].ratio.median < 1.05
    assert on_eight["AlexNet"].a.limited_by.startswith("open: communication by ")  # from one run of each twin


# ---- all the rest ---------------------------------------------------------------------------------------------------


def test_a_setting_of_the_whole_study_stands_first_in_the_conclusion(study_of):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 20.0, 2: 25.0}, precision="bf16"))
    assert "precision (fp32 in A, bf16 in B)" in next(each for each in conclusion(found) if "settings" in each)
    assert len(found.points) == 2


def test_points_of_one_study_are_listed_with_what_became_of_them(study_of):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 10.0, 4: None}))
    assert [(each.study, each.point, each.outcome) for each in found.only_in_one] == [
        ("A", "ResNet/1, batch 32, 2 GPUs", "ok"),
        ("B", "ResNet/1, batch 32, 4 GPUs", "failed"),
    ]
    assert conclusion(found)[-1].startswith("Only one-GPU cases ran well in both")


def test_studies_of_which_nothing_ran_well_in_both_say_so(study_of):
    found = compare(study_of({1: None}), study_of({1: 10.0}))
    assert conclusion(found)[-1] == "No case ran well in both studies: there is nothing to compare."
    assert found.means == []


def test_a_comparison_is_a_record_that_reads_as_it_was_written(study_of, tmp_path):
    found = compare(study_of({1: 10.0, 2: 15.0}), study_of({1: 20.0, 2: None}))
    record.write(record_file("comparison", tmp_path), found)
    assert record.read(record_file("comparison", tmp_path), Comparison) == found
    assert msgspec.json.decode(record_file("comparison", tmp_path).read_bytes())["kind"] == "comparison"
