import msgspec
import pytest

from resnetx import record
from resnetx.measure.study_runs import Budget, planned_runs
from resnetx.record import StudyFolder


@pytest.fixture
def runs(task_of, tmp_path):
    points = [(task_of(gpus=gpus, threads=1), "") for gpus in (1, 2)]
    return planned_runs(points, repeats=4, twins=2, folder=StudyFolder(tmp_path), seed=0)


def ended(run, rate, seconds=10.0):
    bad = record.cut_short(run.task, 0.0, "failed", "a test")
    return msgspec.structs.replace(bad, outcome="ok", images_per_s=rate, duration_s=seconds)


def spend(budget_s, runs, rate_of, seconds=10.0):
    """What a budget chooses, each run taking `seconds`."""
    now = [0.0]
    choose = Budget(budget_s, lambda run: seconds, clock=lambda: now[0])
    left, records, chosen = list(runs), [], []
    while run := choose(left, records):
        left.remove(run)
        chosen.append(run)
        records.append(ended(run, rate_of(run)))
        now[0] += seconds
    return chosen, left


def test_every_point_comes_first_then_every_twin_then_the_widest(runs):
    noisy = 2

    def rate(run):
        wide = run.twin is None and run.task.request.gpus == noisy
        return 100.0 + (20.0 * run.task.repeat if wide else 0.01 * run.task.repeat)

    chosen, left = spend(1_000.0, runs, rate)
    assert left == []
    assert [run.twin for run in chosen[:2]] == [None, None]
    assert [run.task.repeat for run in chosen[:5]] == [1] * 5
    assert all(run.twin for run in chosen[2:5])
    # Of those with two runs or more, the noisy point has all of its repeats before any other gets its third.
    third = [run.task.request.gpus for run in chosen if run.twin is None and run.task.repeat >= 3]
    assert third[:2] == [noisy, noisy]


def test_nothing_starts_that_would_not_end_in_time(runs):
    chosen, left = spend(35.0, runs, lambda run: 100.0)
    assert len(chosen) == 3
    assert len(left) == len(runs) - 3


def test_what_has_run_is_a_better_witness_than_the_estimate(runs):
    choose = Budget(60.0, lambda run: 50.0, clock=lambda: 0.0)
    seen = [ended(run, 100.0, seconds=100.0) for run in runs if run.task.repeat == 1 and run.task.request.gpus == 1]
    assert choose([run for run in runs if run.task.request.gpus == 1], seen) is None
