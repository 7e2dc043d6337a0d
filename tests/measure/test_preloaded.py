"""Runs that are forks of a process which has imported what they need: they are as if they had been started afresh."""

import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import resnetx
from resnetx.host import end_after, exit_status
from resnetx.measure.launch import FOLDER_VARIABLE, launcher, preloaded
from resnetx.measure.launch.preloaded import AFRESH_VARIABLE, Fork
from resnetx.record import RunFolder, RunRecord, read
from tests.measure.test_runs import ENDLESS, SHORT, descendants, nothing_is_left, ranks_of, words
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are Linux's")


@pytest.mark.parametrize("module", preloaded.IMPORTED)
def test_what_a_template_imports_is_there(module):
    assert importlib.util.find_spec(module)


OURS = """
import gc, json, os, random, signal, sys, tempfile, threading
from pathlib import Path

import numpy, torch


def opened():
    for file in Path("/proc/self/fd").iterdir():
        try:
            yield str(file.readlink()).partition(":[")[0]
        except OSError:
            pass


def process():
    status = Path("/proc/self/status").read_text().splitlines()
    kept = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "Cpus_allowed")
    return {
        "status": [line for line in status if line.startswith(kept)],
        "limits": Path("/proc/self/limits").read_text(),
        "words": sys.argv, "path": sys.path, "flags": list(sys.flags), "python": sys.executable,
        "main": sys.modules["__main__"].__spec__.name,
        "variables": dict(os.environ),
        "folder": os.getcwd(), "temporary": tempfile.gettempdir(), "files": sorted(opened()),
        "nice": os.nice(0), "session": os.getsid(0) == os.getppid(),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "python_threads": sorted(thread.name for thread in threading.enumerate()),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
        "seed": torch.initial_seed(), "weights": torch.nn.Linear(2, 2).weight.tolist(),
    }


def build():
    if "RANK" in os.environ:
        place = Path(__file__).parent
        (place / f"rank{os.environ['RANK']}.json").write_text(json.dumps(process()))
        (place / f"random{os.environ['RANK']}.json").write_text(json.dumps([random.random(), numpy.random.rand()]))
    return torch.nn.Linear(4, 2)


def batch(count):
    return torch.ones(count, 4), torch.zeros(count, dtype=torch.int64)
"""


def read_ranks(folder: Path, run: Path) -> list[dict]:
    """What the ranks said of their processes, without the names that each run has of its own."""
    told = []
    for rank in range(2):
        text = (folder / f"rank{rank}.json").read_text()
        text = re.sub(r"\d{8}T\d+|resnetx-run-\w+|torchelastic_\w+|none_\w+", "RUN", text).replace(str(run), "FOLDER")
        found = json.loads(text)
        for name in (
            "MASTER_PORT",
            "RESNETX_RUN_STARTED",
            "TORCHELASTIC_RUN_ID",
            "RESNETX_RUN_LAUNCHER",
            AFRESH_VARIABLE,
        ):
            found["variables"].pop(name, None)
        told.append(found)
    return told


@pytest.fixture(scope="module")
def forked_and_afresh(tmp_path_factory):
    """A run of two ranks both ways: its record, log, what its ranks said of themselves, and their random numbers."""
    folder, runs = tmp_path_factory.mktemp("both"), []
    (folder / "ours.py").write_text(OURS)
    settings = {"model": "python", "model.file": str(folder / "ours.py"), "batch_size": 4, "threads": 2, "gpus": 2}
    settings |= {"oversubscribe": True}
    with pytest.MonkeyPatch.context() as patched:
        for name in ("forked", "afresh"):
            if name == "afresh":
                patched.setenv(AFRESH_VARIABLE, "")
            ended = resnetx.verify(**settings, results=str(folder / name))  # no clock decides how many steps it takes
            assert ended.outcome == "ok", ended.reason
            (run,) = (RunFolder(path.parent) for path in (folder / name).rglob("record.json"))
            drawn = [json.loads((folder / f"random{rank}.json").read_text()) for rank in range(2)]
            runs.append((ended, run.stderr.read_text(), read_ranks(folder, folder / name), drawn))
    return runs


@pytest.mark.dist
def test_a_forked_rank_is_what_one_is_that_was_started_afresh(forked_and_afresh):
    (_, forked_log, forked, drawn), (_, afresh_log, afresh, drawn_afresh) = forked_and_afresh
    assert forked_log == afresh_log == ""
    for one, other in zip(forked, afresh, strict=True):
        assert one == other
    assert len({number for numbers in drawn + drawn_afresh for number in numbers}) == 8


OF_TIME = {"started_at", "duration_s", "start_up", "host_load", "warnings", "peak_memory_bytes"}


@pytest.mark.dist
def test_a_forked_run_records_what_one_does_that_was_started_afresh(forked_and_afresh):
    forked, afresh = (run[0] for run in forked_and_afresh)
    one, other = ({**msgspec.to_builtins(ended), **dict.fromkeys(OF_TIME)} for ended in (forked, afresh))
    assert one == other
    assert forked.peak_memory_bytes == pytest.approx(afresh.peak_memory_bytes, rel=0.1)


def template_of(process: int) -> int:
    """The template of a launcher."""
    (found,) = [
        each for each in descendants(process) if b"measure.launch.preloaded" in _words(each) and not _of_run(each)
    ]
    return found


def _words(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _of_run(process: int) -> bool:
    with suppress(OSError):
        return FOLDER_VARIABLE.encode() in Path(f"/proc/{process}/environ").read_bytes()
    return True


@pytest.fixture
def more_files_than_select_takes():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for file in opened:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


COUNTED = "from pathlib import Path; Path(__file__ + '.imports').open('a').write('.')\n"
KILLED_ONCE = f"{COUNTED}import os\nif Path(__file__ + '.imports').read_text() == '.':\n    os.kill(os.getpid(), 9)\n"


@pytest.mark.dist
@pytest.mark.usefixtures("more_files_than_select_takes")
def test_runs_of_a_study_share_a_template_as_long_as_it_lives_and_their_variables_are_the_same(
    tmp_path, task_of, monkeypatch, preloaded_python
):
    """Where a signal ended the imports of one, the next run tries them again."""
    templates, threads = [], []
    (tmp_path / "torchvision.py").write_text(KILLED_ONCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with preloaded.kept():
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", preloaded_python)  # which imports the rest in no time
            said = said_of(task_of(SHORT), RunFolder(tmp_path / "first"))
        assert said.endswith("a signal ended the imports")
        for number, settings in enumerate([{}, {"seed": 2}, {"threads": 2, "env.MKL_CBWR": "AUTO"}]):
            folder = RunFolder(tmp_path / str(number))
            ended = launcher.execute(task_of({**SHORT, **settings}), folder)
            assert (ended.outcome, folder.stderr.read_text()) == ("ok", ""), ended.reason
            templates.append(template_of(os.getpid()))
            threads.append(ended.environment.threads["intraop"])
            if number == 1:  # the next one has another, whatever its variables
                os.kill(templates[-1], signal.SIGKILL)
        assert ended.environment.variables["MKL_CBWR"] == "AUTO"
    assert threads == [1, 1, 2]
    assert templates[0] == templates[1] != templates[2]
    assert not [each for each in descendants(os.getpid()) if each in templates]


@pytest.mark.dist
def test_no_run_ends_with_its_template_but_with_its_launcher(tmp_path):
    """However that dies: by SIGKILL here, by other signals in tests/measure/test_runs.py."""
    command = [sys.executable, "-m", "resnetx", "sweep", *words({**ENDLESS, "gpus": 2, "repeats": 1, "twins": 0})]
    with subprocess.Popen([*command, f"results={tmp_path}", "dirty=true"], stderr=subprocess.PIPE, text=True) as sweep:
        folder = until(lambda: [path.parent for path in tmp_path.rglob("progress-rank0*")], "the start of a rank")[0]
        template = template_of(sweep.pid)
        os.kill(template, signal.SIGKILL)
        until(lambda: template not in descendants(sweep.pid) or not _words(template), "the end of the template")
        assert set(ranks_of(folder)) == {None, 0, 1}
        sweep.kill()
        _, err = sweep.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    nothing_is_left(RunFolder(folder))
    found = read(RunFolder(folder).record, RunRecord)
    assert (found.outcome, "it was killed" in found.reason) == ("failed", True), found.reason


HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler"


@pytest.fixture
def only_torchvision(preloaded_python, monkeypatch):
    """Templates only import a torchvision of PYTHONPATH, and no run is forked: its torchrun has no such parent."""
    monkeypatch.setattr(sys, "executable", preloaded_python)


@pytest.mark.dist
@pytest.mark.parametrize(
    ("obstacle", "told"),
    [
        ("import threading, time; threading.Thread(target=time.sleep, args=[999], daemon=True).start()", "1 threads"),
        ("kept = open('/dev/zero')", "has opened /dev/zero"),
        ("kept = open(__file__)", "torchvision.py"),
        (f"from {HANDLER} import SubprocessHandler as S; S._popen = lambda self, words: None", "in another way"),
        ("raise ImportError('this one is broken')", "ImportError: this one is broken"),
    ],
)
@pytest.mark.usefixtures("only_torchvision")
def test_where_no_fork_is_possible_a_run_is_started_afresh_and_says_why(
    tmp_path, task_of, monkeypatch, caplog, obstacle, told
):
    """What ranks import does it: a torchvision in front of the real one, which no rank of this run needs."""
    (tmp_path / "torchvision.py").write_text(obstacle)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = said_of(task_of(SHORT), RunFolder(tmp_path / "run"))
    assert said.startswith("resnetx: started afresh, as no preloaded process could be forked: ")
    assert said.endswith(told)
    assert [told in note for note in caplog.messages] == [True]


def said_of(task, folder: RunFolder) -> str:
    """The last line of a run's stderr."""
    ended = launcher.execute(task, folder)
    assert ended.outcome == "ok", ended.reason
    return next(reversed(folder.stderr.read_text().splitlines()), "")


RANKS_END = """import os
forks = 0
def after():
    global forks
    forks += 1
    if forks == 3:
        os._exit(1)
os.register_at_fork(after_in_child=after)
"""


@pytest.mark.dist
@pytest.mark.usefixtures("only_torchvision")
def test_after_two_failures_in_a_row_no_fork_is_tried_and_nothing_is_left_of_them(
    tmp_path, task_of, monkeypatch, caplog
):
    (tmp_path / "torchvision.py").write_text(COUNTED + RANKS_END)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = descendants(os.getpid())
    with preloaded.kept():
        for name in "abc":
            assert "started afresh" in said_of(task_of(SHORT), RunFolder(tmp_path / name))
    assert (tmp_path / "torchvision.py.imports").read_text() == ".."
    assert len(caplog.messages) == 1  # however often it happens
    assert set(descendants(os.getpid())) <= set(before)


@pytest.mark.parametrize(
    ("program", "status"), [("None", 0), ("sys.exit()", 0), ("sys.exit(3)", 3), ("sys.exit('no')", 1), ("1 / 0", 1)]
)
def test_a_fork_ends_with_the_status_that_a_process_of_python_has(program, status):
    process = os.fork()
    if not process:
        os.close(2)
        end_after(exec, program, {"sys": sys})
    fork = Fork(process, [])
    assert fork.wait(PATIENCE_S) == exit_status(fork) == fork.poll() == status
    fork.kill()  # of what has ended: nothing else has its number
