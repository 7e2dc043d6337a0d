"""Which tests are left out, and which process runs which, where pytest-xdist has several.

`pytest` runs the fast tests, of folders too; `pytest --all`, and files or tests by name, all but those marked `long` or
`gpu`; `pytest -m ...` what it says.

A file is in one of them, as its fixtures are shared (but for `SPREAD`). So are tests of several files that need one
long calculation. Files that take long start first, so that no process ends long after the others.

Tests on GPUs (`-m gpu`) are spread over them, test by test: a process for every two, of which it sees no others.

A machine may be so slow that not all tests end in the time that there is. With TESTS_BEGIN_BEFORE (seconds since 1970)
the quick ones are first, and those that have not begun by then are skipped and counted.
"""

import gc
import os
import re
import time
from collections import defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from resnetx.host import cores
from resnetx.measure.machine.nvidia import gpus_here
from tests import nullcuda

# The first predict all that was published, which takes seconds once in a process; the last start a Python of theirs.
GROUPS = {
    "published": (
        "tests/prediction/test_validation.py",
        "tests/prediction/test_domains.py",
        "tests/interconnect/test_validation.py",
        "tests/api/test_score.py",
        "tests/api/test_papers.py",
        "tests/api/test_reproduce.py",
        "tests/cli/test_answers.py::test_screen_quiet_and_json_answer_alike",
        "tests/cli/test_predict.py::test_validation_holds",
        "tests/cli/test_show.py::test_a_screen_is_no_wider",
        "tests/cli/test_topology.py::test_the_model_stands_beside_what_was_published",
        "tests/test_docs.py",
        "tests/test_readme.py::test_a_topology_command_runs",
        "tests/test_readme.py::test_a_predicting_command_runs",
    ),
    "lab": ("tests/measure/test_lab.py", "tests/measure/test_lab_links.py"),  # which take turns
    "nvml": ("tests/nvml/",),
}
# About what a test with such a mark takes; one without: nothing.
SECONDS = {"slurm": 20.0, "dist": 8.0, "dali": 2.0, "slow": 1.0}
SECONDS_OF_FILES = {"test_tutorials.py": 60.0}  # beyond that
FIRST = "test_gpu_tests.py"  # which alone takes minutes, and mostly waits
SPREAD = ("tests/test_tutorials.py",)  # whose tests share nothing, and are long
LIMITED = os.environ.get("TESTS_BEGIN_BEFORE")
ALL = "not long and not gpu"
FAST = f"{ALL} and not dist and not dali and not slurm and not slow"  # a minute on two cores
GPUS_EACH = 2  # that a process sees: as many as the ranks of a test


def on_gpus(config) -> bool:
    """Whether tests with the mark `gpu` are asked for."""
    return bool(re.search(r"(?<!not )\bgpu\b", config.option.markexpr))


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="all tests but long and gpu, not only the fast ones")


def pytest_configure(config):
    """Selects tests; hides GPUs, from child processes too, unless those marked `gpu` are asked for (`pytest -m gpu`).

    All other tests then mean the same on every machine. A process of pytest-xdist sees its own GPUs, but for null ones.
    """
    if not config.option.markexpr:
        config.option.markexpr = ALL if config.option.all or not _of_folders(config) else FAST
    if not on_gpus(config):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    elif (name := os.environ.get("PYTEST_XDIST_WORKER")) and not nullcuda.is_preloaded():
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = given.split(",") if given else [str(number) for number in range(gpus_here())]
        first = int(name.removeprefix("gw")) * GPUS_EACH % max(len(names), 1)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names[first : first + GPUS_EACH])


def pytest_ignore_collect(collection_path, config):
    """Spares the imports of modules, and of the folder `gpu`, of which `-m` leaves out every test."""
    left_out = _left_out(config)
    if collection_path.is_dir():
        return collection_path.name in left_out or None
    if collection_path.suffix != ".py":
        return None
    of_all = "".join(re.findall(r"^pytestmark = (.*)", collection_path.read_text(), re.MULTILINE))
    return not left_out.isdisjoint(re.findall(r"\bmark\.(\w+)", of_all)) or None


def _of_folders(config) -> bool:
    """Whether no file or test is named."""
    return all(Path(each).is_dir() for each in config.args)


def _left_out(config) -> set[str]:
    """The marks of which no test is selected: all that `-m` has after `not`, if it joins them by `and` only."""
    selected = config.option.markexpr
    named = set() if re.search(r"\bor\b|\(", selected) else set(re.findall(r"\bnot (\w+)", selected))
    return named if on_gpus(config) else named | {"gpu"}


class InFilesAndGroups(LoadScopeScheduling):
    """Gives a process a file, or a group; of some files, and on GPUs, a test."""

    def _split_scope(self, nodeid: str) -> str:
        if on_gpus(self.config) or nodeid.startswith(SPREAD):
            return nodeid
        groups = (name for name, starts in GROUPS.items() if nodeid.startswith(starts))
        return next(groups, nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config, log):
    return InFilesAndGroups(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """For all tests, or a folder of them: one process more than cores, as many tests wait; on GPUs one for every two.

    0: all tests run in one process, which sees all GPUs. On null GPUs, of which each process has its own: one for each
    core, as tests hold the time that they need against what is described.
    """
    if not _of_folders(config):
        return 0
    if on_gpus(config) and nullcuda.is_preloaded():
        return cores() if gpus_here() == GPUS_EACH else 0
    if on_gpus(config):
        return gpus_here() // GPUS_EACH if gpus_here() > GPUS_EACH else 0
    return cores() + 1


class FromElsewhere(pytest.Dir):
    """Each process of pytest-xdist begins to collect at another folder: what one has compiled, the others then read."""

    def collect(self):
        nodes = [*super().collect()]
        first = len(nodes) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        first //= int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        return nodes[first:] + nodes[:first]


def pytest_collect_directory(path, parent):
    several = path == Path(__file__).parent and "PYTEST_XDIST_WORKER" in os.environ
    return FromElsewhere.from_parent(parent, path=path) if several else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and tests stay: to search them for garbage while they come takes a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if LIMITED and time.time() > float(LIMITED):
        pytest.skip("no time was left for it (TESTS_BEGIN_BEFORE)")


def pytest_collection_modifyitems(items):
    """The longest files first; last, where they may be left out, but for `FIRST`."""
    seconds: dict[Path, float] = defaultdict(float)
    for item in items:
        seconds.setdefault(item.path, SECONDS_OF_FILES.get(item.path.name, 0.0))
        seconds[item.path] += max((SECONDS.get(mark.name, 0.0) for mark in item.iter_markers()), default=0.0)
    items.sort(key=lambda item: item.path)  # wherever this process began to collect
    sign = 1 if LIMITED else -1
    items.sort(key=lambda item: (item.path.name != FIRST, sign * seconds[item.path]))
