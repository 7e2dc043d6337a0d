"""What tests share: composed requests, run files, and records of runs that never ran."""

import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resnetx.compose import compose
from resnetx.config import request_from, run_settings_from
from resnetx.measure.launch.preloaded import AFRESH_VARIABLE
from resnetx.measure.machine import environment
from resnetx.record import SCHEMA, Environment, RunFile, RunRecord, RunSummary, StudyRecord, cut_short
from resnetx.record.prediction import PredictedPoint, Prediction, digest
from resnetx.reporting.study_scaling import Results, points
from resnetx.request import Request
from resnetx.workloads import workload
from tests import nullcuda
from tests.preloaded.start import SHARED, python_of, serving, started
from tests.scheduling import on_gpus
from tests.sealed_part import sealed_part

pytest_plugins = ["tests.scheduling", "tests.leftovers"]
SERVERS = pytest.StashKey[dict[str, str]]()  # the folders of those that processes share


def pytest_configure(config):
    """Tests with the mark `gpu` run on GPUs that tests/nullcuda plays where there are none."""
    if on_gpus(config) and not nullcuda.is_preloaded() and not hasattr(config, "workerinput"):
        _start_on_null_gpus(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """All tests need both servers: they import while the processes of pytest-xdist collect."""
    if node.config.option.all:
        if SERVERS not in node.config.stash:
            servers = ExitStack()
            node.config.add_cleanup(servers.close)
            folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
            node.config.stash[SERVERS] = {name: str(folder / name) for name in SHARED}
            for name, modules in SHARED.items():
                (folder / name).mkdir()
                servers.enter_context(started(folder / name, modules))
        node.workerinput |= node.config.stash[SERVERS]


def _start_on_null_gpus(config) -> None:
    """Where there is no driver: starts pytest once more, on GPUs that tests/nullcuda plays, if it can be built."""
    from tests.nullcuda import build

    if nullcuda.has_driver() or build.missing():
        return
    folder = build.kept(config.cache.mkdir("nullcuda"))
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    command = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    os.execve(sys.executable, command, build.playing(folder, int(os.environ.get(nullcuda.VARIABLE, nullcuda.GPUS))))


@pytest.fixture(autouse=True, scope="session")
def _interruptible():
    """A shell lets what it runs in the background ignore Ctrl-C (nohup: SIGHUP), and all that is started there, too."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Processes of tests share the cores: torch's threads would spin while they wait for one that another keeps out."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def _unbroken_lines(monkeypatch):
    """Sentences and rows are one line each; what they are in 80 columns has tests of its own."""
    monkeypatch.setenv("COLUMNS", "0")


@pytest.fixture(autouse=True)
def _committed_code(monkeypatch):
    """Tests start studies from checkouts in any state; what becomes of uncommitted changes has a test of its own."""
    monkeypatch.setattr("resnetx.measure.study_runs.has_changes", lambda _: False)


@pytest.fixture
def kernel_files(tmp_path, monkeypatch):
    """Writes the kernel's files of a machine (path -> text), which are then read instead of this one's."""
    monkeypatch.setattr("resnetx.host._ROOT", tmp_path)

    def write(files: dict[str, str]) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text + "\n")

    return write


@pytest.fixture
def undrawn(monkeypatch):
    """Leaves the drawings of figures empty, which take most of the time of a page: for tests of its words and files."""
    empty = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'
    monkeypatch.setattr("resnetx.reporting.charts.figure._svg", lambda _: empty)


@pytest.fixture(scope="session")
def preloaded_python(request, tmp_path_factory):
    """A Python that starts ranks without importing torch in each of them; torchrun is beside it."""
    with _served(request.config, tmp_path_factory, "preloaded") as python:
        yield python


@pytest.fixture(scope="session")
def light_python(request, tmp_path_factory):
    """A Python that has no torch and nothing of resnetx, but has imported what verbs need without them."""
    with _served(request.config, tmp_path_factory, "light") as python:
        yield python


@contextmanager
def _served(config, folders, name: str):
    """The Python of the server that all processes of pytest-xdist share, or of one that this process starts."""
    if shared := getattr(config, "workerinput", {}).get(name):
        yield python_of(Path(shared))
    else:
        with serving(folders.mktemp(name), SHARED[name]) as python:
            yield python


@pytest.fixture
def preloaded(preloaded_python, monkeypatch):
    """Runs that the test starts have their torchrun and their ranks from `preloaded_python`."""
    monkeypatch.setattr(sys, "executable", preloaded_python)
    monkeypatch.setattr("multiprocessing.spawn._python_exe", os.fsencode(preloaded_python))  # of servers of workers
    monkeypatch.setenv(AFRESH_VARIABLE, "")


@pytest.fixture(scope="session")
def request_of():
    """Makes a request from settings, as the command line would."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> Request:
        return request_from(compose({"input": "synthetic", **(settings or {}), **more}))

    return make


@pytest.fixture(scope="session")
def task_of(request_of):
    """Makes a run file from settings."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> RunFile:
        run = run_settings_from(compose(settings or {}))
        return RunFile(
            schema=SCHEMA,
            request=request_of(settings, **more),
            study=None,
            repeat=1,
            timeout_s=run.timeout,
            convention=run.convention,
            tracker=run.tracker,
        )

    return make


@pytest.fixture(scope="session")
def record_of(task_of):
    """Makes the record of a run that measured nothing; the test fills in what it needs."""

    def make(settings: dict[str, Any] | None = None, **more: Any) -> RunRecord:
        return cut_short(task_of(settings, **more), time.time(), "failed", "made by a test")

    return make


@pytest.fixture(scope="session")
def brief_of():
    """Makes the brief of a run of a request, as if it had measured these rates (images/s of each window)."""

    def make(request: Request, *rates: float, **more: Any) -> RunSummary:
        counted = workload(request.model, request.image_size, request.batch_size, "caffe")
        plain = dict.fromkeys(RunSummary.__struct_fields__) | {
            "folder": Path("runs") / f"{request.slug}_r{more.get('repeat', 1)}",
            "request": request,
            "key": request.key,
            "repeat": 1,
            "workload": counted,
            "outcome": "ok" if rates else "failed",
            "reason": "" if rates else "made by a test",
            "started_at": "2026-01-01T00:00:00.000+00:00",
            "duration_s": 10.0,
            "rates": list(rates),
            "warnings": [],
        }
        return RunSummary(**(plain | more))

    return make


@pytest.fixture(scope="session")
def results_of():
    """Makes the results of a study from its requests and the briefs of its runs."""

    def make(requests: Sequence[Request], briefs: Iterable[RunSummary], **more: Any) -> Results:
        runs: dict[str, list[RunSummary]] = defaultdict(list)
        for brief in briefs:
            runs[brief.key].append(brief)
        plain = {"kind": "study", "schema": SCHEMA, "name": "mine", "about": "A test's.", "node": "node1"}
        plain |= {"points": list(requests), "repeats": 6, "twins": 1, "baseline": 1, "convention": "caffe"}
        plain |= {"resnetx": "0"}
        return Results(StudyRecord(**(plain | more)), Path("results"), list(points(requests, runs)), [])

    return make


@pytest.fixture(scope="session")
def record_environment():
    """Makes an environment as this machine's, with fields changed."""

    def make(**changed: Any) -> Environment:
        return sealed_part(msgspec.structs.replace(environment(None), **changed))

    return make


@pytest.fixture(scope="session")
def predicted_of():
    """Makes a predicted point that takes `iteration_s`, known to a tenth; None: it runs out of memory."""

    def make(iteration_s: float | None, request: Request | None = None, **more: Any) -> PredictedPoint:
        required = (field.name for field in msgspec.structs.fields(PredictedPoint) if field.required)
        plain = dict.fromkeys(required) | {
            "workload": request.model.label if request else "ResNet/1",
            "batch_size": request.batch_size if request else 16,
            "strategy": request.strategy.kind if request else "bucket",
            "precision": request.precision if request else "fp32",
            "request": request,
            "system": "one",
            "library": "nccl1",
            "gpus": request.gpus if request else 8,
            "gradient_bytes": 1_000_000,
            "intensity_per_gpu": 10.0,
            "outcome": "ok" if iteration_s else "oom",
            "reason": "" if iteration_s else "needs 20 GB of 16 GB",
            "iteration_s": iteration_s,
            "interval_s": [0.9 * iteration_s, 1.1 * iteration_s] if iteration_s else None,
            "compute_note": "made by a test",
            "sensitivity": [],
            "timeline": [],
        }
        given = plain | more
        return PredictedPoint(**{**given, "devices": more.get("devices", list(range(given["gpus"])))})

    return make


@pytest.fixture(scope="session")
def prediction_of():
    """Makes a prediction of points, sealed by its digest."""

    def make(*predicted: PredictedPoint, **more: Any) -> Prediction:
        plain = {"kind": "prediction", "schema": SCHEMA, "resnetx": "0", "made_at": "2026-01-01T00:00:00+00:00"}
        plain |= {"digest": "", "settings": {}, "inputs": [], "domains": [], "unknown": {}}
        made = Prediction(**{**plain, "points": list(predicted), **more})
        return msgspec.structs.replace(made, digest=digest(made))

    return make
