"""Which process runs which tests, where pytest-xdist has several: a file is in one of them, as its fixtures are shared.

So are tests of several files that need one long calculation. Files that take long start first, so that no process ends
long after the others.

A machine may be so slow that not all tests end in the time that there is. With TESTS_BEGIN_BEFORE (seconds since 1970)
the quick ones are first, and those that have not begun by then are skipped and counted.
"""

import os
import time
from collections import defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from resnetx.host import cores

# The first predict all that was published, which takes seconds once in a process; the others start `light_python`.
GROUPS = {
    "published": (
        "tests/prediction/test_validation.py",
        "tests/prediction/test_domains.py",
        "tests/interconnect/test_validation.py",
        "tests/api/test_score.py",
        "tests/api/test_papers.py",
        "tests/cli/test_predict.py::test_validation_holds",
        "tests/cli/test_show.py::test_a_screen_is_no_wider",
        "tests/cli/test_topology.py::test_the_model_stands_beside_what_was_published",
        "tests/test_docs.py",
        "tests/test_readme.py::test_a_topology_command_runs",
        "tests/test_readme.py::test_a_predicting_command_runs",
    ),
    "lab": ("tests/measure/test_lab.py", "tests/measure/test_lab_links.py"),  # which take turns
    "light": ("tests/test_house.py", "tests/test_packages.py"),
}
# About what a test with such a mark takes; one without: nothing.
SECONDS = {"slurm": 20.0, "dist": 8.0, "dali": 2.0, "slow": 1.0}
LIMITED = os.environ.get("TESTS_BEGIN_BEFORE")


class InFilesAndGroups(LoadScopeScheduling):
    """Gives a process a file, or a group."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (name for name, starts in GROUPS.items() if nodeid.startswith(starts))
        return next(groups, nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config, log):
    return InFilesAndGroups(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """For all tests, or a folder of them: one process more than cores, as many tests wait. Else, and on GPUs: none."""
    several = all(Path(each).is_dir() for each in config.args)
    on_gpus = "gpu" in config.option.markexpr and "not gpu" not in config.option.markexpr
    return cores() + 1 if several and not on_gpus else 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if LIMITED and time.time() > float(LIMITED):
        pytest.skip("no time was left for it (TESTS_BEGIN_BEFORE)")


def pytest_collection_modifyitems(items):
    """The longest files first; last, where they may be left out."""
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += max((SECONDS.get(mark.name, 0.0) for mark in item.iter_markers()), default=0.0)
    items.sort(key=lambda item: seconds[item.path], reverse=not LIMITED)
