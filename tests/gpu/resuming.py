"""Tests that go on where they were: what has passed is noted in a file, and skipped the next time.

RESNETX_PASSED=results/passed.txt pytest -m gpu tests/gpu        as launch/gpu_day.sh does
"""

import os
from pathlib import Path

import pytest

VARIABLE = "RESNETX_PASSED"


def pytest_collection_modifyitems(items):
    """Skips what has passed before."""
    file = Path(os.environ.get(VARIABLE, os.devnull))
    passed = set(file.read_text().splitlines()) if file.exists() else set()
    for item in items:
        if item.nodeid in passed:
            item.add_marker(pytest.mark.skip(reason="it has passed before"))


def pytest_runtest_logreport(report):
    """Notes what has passed, test by test: whatever ends the others, it counts."""
    first = "PYTEST_XDIST_WORKER" not in os.environ  # to which the others report
    if first and VARIABLE in os.environ and report.when == "call" and report.passed:
        with Path(os.environ[VARIABLE]).open("a") as file:
            file.write(f"{report.nodeid}\n")
