import pytest

from resnetx.reporting.compared_studies import agreement
from resnetx.statistics import Summary


@pytest.mark.parametrize(
    ("median", "low", "high", "found"),
    [
        (1.0, 1.0, 1.0, "agree"),
        (1.01, 0.98, 1.025, "agree"),
        (1.01, 1.005, 1.015, "agree"),  # not 1, but within the tolerance
        (1.0, 0.9, 1.1, "open"),
        (1.05, 0.99, 1.11, "open"),
        (1.02, 1.005, 1.04, "open"),
        (1.2, 1.1, 1.3, "differ"),
        (0.9, 0.85, 0.95, "differ"),
    ],
)
def test_agreement_is_shown_open_or_refuted(median, low, high, found):
    assert agreement(Summary(median, low, high, 6, "interval")) == found


@pytest.mark.parametrize(("runs", "found"), [(1, "open"), (2, "open"), (5, "differ")])
def test_the_range_of_few_runs_shows_less_than_an_interval(runs, found):
    low, high = (1.2, 1.2) if runs == 1 else (1.15, 1.25)
    assert agreement(Summary(1.2, low, high, runs, "range")) == found
