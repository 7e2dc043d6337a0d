import msgspec
import pytest

from resnetx.report.scaling import rows


@pytest.fixture
def ran(record_of):
    """Makes the record of a run that went well at a rate."""

    def make(rate, repeat=1, **settings):
        record = record_of({"threads": 1, **settings})
        return msgspec.structs.replace(record, outcome="ok", reason="", images_per_s=rate, repeat=repeat)

    return make


def test_a_row_has_the_median_and_range_of_its_runs_and_the_speed_up_over_one_gpu(ran):
    one, two = rows([ran(30.0, gpus=2), ran(10.0, gpus=1), ran(20.0, 2, gpus=1), ran(12.0, 3, gpus=1)])
    assert (one.gpus, one.repeats, one.speedup) == (1, 3, 1.0)
    assert (one.images_per_s.median, one.images_per_s.low, one.images_per_s.high) == (12.0, 10.0, 20.0)
    assert two.speedup == pytest.approx(30 / 12)


def test_another_batch_size_is_no_baseline(ran):
    small, large = rows([ran(10.0, gpus=1, batch_size=16), ran(30.0, gpus=2, batch_size=32)])
    assert small.speedup == 1.0
    assert large.speedup is None


def test_a_point_whose_runs_all_failed_is_a_row_with_the_reason(ran, record_of):
    good, bad = rows([ran(10.0, gpus=1), record_of({"threads": 1, "gpus": 2})])
    assert (good.outcome, good.reason) == ("ok", "")
    assert (bad.outcome, bad.reason, bad.images_per_s, bad.speedup) == ("failed", "made by a test", None, None)


def test_a_failure_among_good_runs_is_told_and_not_counted(ran, record_of):
    (row,) = rows([ran(10.0), record_of({"threads": 1})])
    assert (row.outcome, row.repeats, row.reason) == ("ok", 1, "made by a test")
