import pytest

from resnetx.statistics import Summary, summarize


def test_a_summary_is_the_median_and_the_range():
    assert summarize([3.0, 1.0, 2.0, 10.0]) == Summary(median=2.5, low=1.0, high=10.0, n=4)


def test_nothing_has_no_summary():
    with pytest.raises(AssertionError):
        summarize([])
