import pytest

from resnetx.record import Warning
from resnetx.reporting.study_scaling import point_results


@pytest.fixture
def on(request_of):
    """Makes a request on a number of GPUs."""
    return lambda gpus, **more: request_of(gpus=gpus, threads=1, **more)


def test_a_row_has_the_median_and_range_of_its_runs_and_the_speed_up_over_one_gpu(on, brief_of, results_of):
    briefs = [brief_of(on(2), 30.0), *(brief_of(on(1), rate) for rate in (10.0, 20.0, 12.0))]
    one, two = point_results(results_of([on(1), on(2)], briefs))
    assert (one.images_per_s.median, one.images_per_s.low, one.images_per_s.high) == (12.0, 10.0, 20.0)
    assert (one.images_per_s.n, one.images_per_s.kind, one.speedup.median) == (3, "range", 1.0)
    assert one.iterations_per_s.median == pytest.approx(12 / 32)
    assert two.speedup.median == pytest.approx(30 / 12)
    assert (two.speedup.low, two.speedup.high) == (pytest.approx(30 / 20), pytest.approx(30 / 10))
    assert two.efficiency.median == pytest.approx(30 / 12 / 2)
    assert two.baseline == "1 GPU"


def test_from_six_runs_on_there_is_an_interval(on, brief_of, results_of):
    briefs = [brief_of(on(gpus), 10.0 * gpus + 0.1 * run) for gpus in (1, 2) for run in range(6)]
    one, two = point_results(results_of([on(1), on(2)], briefs))
    assert (one.images_per_s.kind, two.speedup.kind) == ("interval", "interval")
    assert 1.9 < two.speedup.low < two.speedup.median < two.speedup.high < 2.1


def test_another_batch_size_is_no_baseline(on, brief_of, results_of):
    small, large = on(1, batch_size=16), on(2, batch_size=32)
    (first, second) = point_results(results_of([small, large], [brief_of(small, 10.0), brief_of(large, 30.0)]))
    assert first.speedup.median == 1.0
    assert (second.speedup.median, second.baseline) == (1.0, "2 GPUs (1 GPU: not measured)")


def test_a_baseline_that_does_not_fit_is_replaced_visibly_by_the_smallest_that_does(on, brief_of, results_of):
    briefs = [brief_of(on(1), outcome="oom", reason="no memory"), brief_of(on(2), 20.0), brief_of(on(4), 30.0)]
    one, two, four = point_results(results_of([on(1), on(2), on(4)], briefs))
    assert (one.outcome, one.reason, one.speedup) == ("oom", "no memory", None)
    assert {row.baseline for row in (one, two, four)} == {"2 GPUs (1 GPU: oom)"}
    assert (four.speedup.median, four.efficiency.median) == (1.5, 0.75)


def test_the_baseline_is_chosen(on, brief_of, results_of):
    results = results_of([on(1), on(2), on(4)], [brief_of(on(gpus), 10.0 * gpus) for gpus in (1, 2, 4)])
    assert [row.speedup.median for row in point_results(results, baseline=2)] == [0.5, 1.0, 2.0]
    assert [row.efficiency.median for row in point_results(results, baseline=2)] == [1.0, 1.0, 1.0]


def test_weak_scaling_is_over_the_same_batch_of_each_gpu(on, brief_of, results_of):
    requests = [on(gpus, scaling="weak", batch_size=8) for gpus in (1, 2)]
    assert [request.batch_size for request in requests] == [8, 16]
    briefs = [brief_of(request, 10.0 * request.gpus) for request in requests]
    assert [row.speedup.median for row in point_results(results_of(requests, briefs))] == [1.0, 2.0]


def test_other_devices_and_an_uneven_split_are_of_the_same_series(on, brief_of, results_of):
    requests = [on(1), on(3, split="uneven"), on(2, devices=[0, 1]), on(2, devices=[0, 4])]
    briefs = [brief_of(request, 10.0 * request.gpus) for request in requests]
    assert [row.speedup.median for row in point_results(results_of(requests, briefs))] == [1.0, 3.0, 2.0, 2.0]


def test_a_failure_among_good_runs_is_told_and_not_counted(on, brief_of, results_of):
    (row,) = point_results(results_of([on(1)], [brief_of(on(1), 10.0), brief_of(on(1))]))
    assert (row.outcome, row.images_per_s.n, row.reason) == ("ok", 1, "made by a test")


def test_a_point_that_has_not_run_is_missing(on, results_of):
    (row,) = point_results(results_of([on(1)], []))
    assert (row.outcome, row.reason, row.images_per_s, row.limits) == ("missing", "it has not run", None, None)


def test_outlying_runs_are_named_with_the_cause_that_their_record_knows(on, brief_of, results_of):
    busy = Warning(code="foreign-load", message="", remedy="")
    rates = [10.0, 10.1, 9.9, 10.05, 9.95]
    briefs = [brief_of(on(1), rate, repeat=run, started_at=f"{run}") for run, rate in enumerate(rates, start=1)]
    briefs.append(brief_of(on(1), 5.0, repeat=6, started_at="6", warnings=[busy]))
    (row,) = point_results(results_of([on(1)], briefs))
    assert row.notes == ["run 6 is an outlier by -50% (foreign-load)", "foreign-load (1 of 6 runs)"]
    assert row.images_per_s.n == 6  # named, not dropped


def test_two_placements_without_a_smaller_point_are_each_their_own_baseline(on, brief_of, results_of):
    requests = [on(2, devices=[0, 4]), on(2, devices=[0, 1])]
    briefs = [brief_of(request, rate) for request, rate in zip(requests, (60.0, 100.0), strict=True)]
    found = point_results(results_of(requests, briefs))
    assert [row.speedup.median for row in found] == [1.0, 1.0]
    assert [row.baseline for row in found] == [
        "2 GPUs [0, 4] (1 GPU: not measured)",
        "2 GPUs [0, 1] (1 GPU: not measured)",
    ]


def outlying(on, brief_of, results_of, rate, usual=(), own=(), started_at="7"):
    """What is noted of a run at such a rate beside five at about 10 images/s, which have the usual warnings."""
    given = {code: Warning(code=code, message="", remedy="") for code in (*usual, *own)}
    rates = [10.0, 10.1, 9.9, 10.05, 9.95]
    briefs = [
        brief_of(on(1), each, repeat=run, started_at=f"{run}", warnings=[given[code] for code in usual])
        for run, each in enumerate(rates, start=1)
    ]
    warnings = [given[code] for code in (*usual, *own)]
    briefs.append(brief_of(on(1), rate, repeat=6, started_at=started_at, warnings=warnings))
    (row,) = point_results(results_of([on(1)], briefs))
    return row.notes[0]


def test_a_warning_that_other_runs_have_too_is_no_cause(on, brief_of, results_of):
    note = outlying(on, brief_of, results_of, 5.0, usual=["throttled"], own=["foreign-load"])
    assert note == "run 6 is an outlier by -50% (foreign-load)"
    assert outlying(on, brief_of, results_of, 5.0, usual=["throttled"]).endswith("(cause unknown)")


def test_what_slows_a_run_does_not_explain_a_fast_one(on, brief_of, results_of):
    note = outlying(on, brief_of, results_of, 15.0, own=["foreign-load", "short-windows"], started_at="0")
    assert note == "run 6 is an outlier by +50% (short-windows)"
    assert outlying(on, brief_of, results_of, 15.0, started_at="0").endswith("(cause unknown)")


def test_the_first_run_of_a_point_may_be_slow_for_that(on, brief_of, results_of):
    assert outlying(on, brief_of, results_of, 5.0, started_at="0").endswith("(the first run of this case)")
    assert outlying(on, brief_of, results_of, 5.0).endswith("(cause unknown)")
