import pytest

from resnetx.measure.study_runs import ASSUMED_IMPORTS_S, ASSUMED_START_UP_S, PlannedRun, estimator
from resnetx.record import RunFolder


@pytest.fixture
def ran(brief_of):
    """Makes the brief of a run that trained at a rate and took its time to start."""

    def make(request, rate, start_up_s=5.0):
        steps = request.warmup + request.steps * request.windows
        return brief_of(request, rate, rate, duration_s=start_up_s + steps * request.batch_size / rate)

    return make


def test_a_request_that_has_run_takes_as_long_again(ran, request_of):
    request = request_of(threads=1)
    assert estimator([ran(request, 20.0)], on_gpus=False)(request) == ran(request, 20.0).duration_s


def test_another_batch_size_takes_its_share_of_the_measured_rate(ran, request_of):
    small, large = request_of(batch_size=16, threads=1), request_of(batch_size=64, threads=1)
    estimate = estimator([ran(small, 20.0)], on_gpus=False)
    assert estimate(large) == pytest.approx(ran(large, 20.0).duration_s)
    assert "1 runs on this machine" in estimate.basis


def test_where_nothing_has_run_the_estimate_says_that_it_is_an_assumption(request_of):
    estimate = estimator([], on_gpus=False)
    assert "assumed" in estimate.basis
    assert estimate(request_of(threads=1)) > ASSUMED_START_UP_S


def test_only_the_first_run_is_assumed_to_wait_for_imports(task_of, tmp_path):
    task = task_of(threads=1)
    run = PlannedRun(task, RunFolder(tmp_path), "", frozenset({task.request.key}), None)
    estimate = estimator([], on_gpus=False)
    assert estimate.of_runs([]) == 0
    assert estimate.of_runs([run] * 3) == pytest.approx(3 * estimate.of_run(run) + ASSUMED_IMPORTS_S)
