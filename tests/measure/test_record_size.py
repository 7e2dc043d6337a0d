"""Runs whose records would be too large are refused before they are measured."""

import pytest

from resnetx.api.doctor import too_large_record


@pytest.mark.parametrize(
    ("settings", "times"),
    [
        ({"measure": "phases", "gpus": 2, "batch_size": 32, "steps": 10**6}, "14,000,000"),  # 2 messages of 3 times
        ({"measure": "layers", "model": "googlenet", "steps": 1000, "windows": 100}, ""),
    ],
)
def test_too_many_times_are_refused_with_their_number(request_of, settings, times):
    assert f"a record of {times}" in (said := too_large_record(request_of(settings)))
    assert said.startswith(f"measure={settings['measure']}: ")
    assert "set fewer windows=, or fewer steps=" in said


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 10**9},
        {"measure": "phases", "gpus": 8, "batch_size": 32},
        {"measure": "layers", "steps": 100, "windows": 100},
    ],
)
def test_what_can_be_read_again_is_measured(request_of, settings):
    assert too_large_record(request_of(settings)) == ""
