"""Real runs under torchrun, and every way in which they can end."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import jsonschema
import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.measure.launch import FOLDER_VARIABLE, executor, launcher, preloaded
from resnetx.measure.launch.executor import Command, one_node
from resnetx.record import RunFile, RunFolder, RunRecord
from tests.measure.listening import foreign, listening
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.dist

SMALL = {"model.x": 2, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 8, "threads": 1}
SHORT = {**SMALL, "warmup": 3, "steps": 2, "windows": 3}
ENDLESS = {**SMALL, "steps": 10_000_000}
SCHEMA = json.loads((Path(resnetx.__file__).parent / "schemas" / "run.schema.json").read_text())


def words(settings):
    return [f"{key}={value}" for key, value in {"input": "synthetic", **settings}.items()]


def ranks_of(folder: Path) -> dict[int | None, int]:
    """The living processes of a run: rank -> process id (None: torchrun itself).

    A rank may have started others, as git, that have its variables: it is the child of its session's first process.
    """
    found: dict[int | None, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(word.partition("=")[::2] for word in (entry / "environ").read_text().split("\0"))
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, UnicodeDecodeError):
            continue
        if state != "Z" and Path(variables.get(FOLDER_VARIABLE, "/")) == folder:
            rank = int(variables["RANK"]) if "RANK" in variables else None
            if rank not in found or parent == session:
                found[rank] = int(entry.name)
    return found


def started(tmp_path, settings):
    """`resnetx train` as a child, and its run folder once all ranks run."""
    command = [sys.executable, "-m", "resnetx", "train", *words(settings), f"results={tmp_path}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folder = until(lambda: [path.parent for path in tmp_path.rglob("stderr.log")], "the start of the run")[0]
    until(lambda: len(ranks_of(folder)) == settings["gpus"] + 1, "the start of all ranks")
    return child, RunFolder(folder)


def nothing_is_left(folder: RunFolder):
    until(lambda: not ranks_of(folder.path), "the end of every process of the run")


def watched(command, results: Path, **options) -> tuple[int, str, str, set[str]]:
    """Runs a command that makes one run: its status, what it printed, and the addresses that the run listened on."""
    addresses: set[str] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as child:
        while child.poll() is None:
            addresses |= listening([child.pid, *descendants(child.pid)])
            time.sleep(0.1)  # they listen as long as the run lasts
        out, err = child.communicate()
    return child.returncode, out, err, addresses


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(entry.name))
    found = list(children.get(pid, []))
    for each in found:  # grows while it is read
        found += children.get(each, [])
    return found


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """One good run on two gloo ranks, by the command line: its printed JSON, its folder, and where it listened."""
    results = tmp_path_factory.mktemp("two-ranks")
    started_in = tmp_path_factory.mktemp("of-somebody")
    for module in ("torch", "numpy", "msgspec", "socket", "resnetx"):  # which no rank may take from there
        (started_in / f"{module}.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "resnetx",
        "train",
        *words({**SHORT, "gpus": 2}),
        f"results={results}",
        "--json",
    ]
    status, out, err, addresses = watched(command, results, cwd=started_in)
    assert not (started_in / "ran").exists()
    assert status == 0, out + err
    folder = RunFolder(next(results.rglob("record.json")).parent)
    printed = json.loads(out)
    assert printed.pop("answer").startswith("Measured on")
    return printed, folder, addresses


def test_no_process_of_a_run_listens_on_any_network(two_ranks):
    _, _, addresses = two_ranks
    assert addresses == {"127.0.0.1"}  # gloo's; empty, it would show that nobody looked
    assert foreign({"127.0.0.1", "::1", "0.0.0.0", "::", "10.0.0.1"}) == {"0.0.0.0", "::", "10.0.0.1"}


def test_two_ranks_train_and_leave_a_complete_record(two_ranks):
    printed, folder, _ = two_ranks
    found = record.read(folder.record, RunRecord)
    assert printed == msgspec.to_builtins(found)
    jsonschema.validate(printed, SCHEMA)
    assert (found.outcome, found.world_size, found.backend, found.distributed) == ("ok", 2, "gloo", "DDP")
    assert [device.rank for device in found.devices] == [0, 1]
    assert [len(windows) for windows in found.windows_s] == [3, 3]
    assert all(len(warmup) >= 3 for warmup in found.warmup_s)
    assert found.environment.torch
    assert found.transport.used == ["socket"]


def test_the_rate_is_all_images_over_the_time_of_the_slowest_rank(two_ranks):
    printed, *_ = two_ranks
    slowest = [max(window) for window in zip(*printed["windows_s"], strict=True)]
    steps = printed["window_steps"]
    assert printed["images_per_s"] == pytest.approx(8 * steps * 3 / sum(slowest))
    assert printed["iterations_per_s"] == pytest.approx(steps * 3 / sum(slowest))


def test_windows_that_would_be_too_short_have_more_steps_than_were_asked_for(two_ranks):
    printed, *_ = two_ranks
    typical_s = statistics.median(printed["windows_s"][0])
    assert typical_s > 0.05  # 0.2 s, on a machine that nobody shares
    steps, wanted = printed["window_steps"], printed["request"]["steps"]
    assert steps > wanted or typical_s > 0.1  # on a slow machine, two steps are long enough


def test_the_buckets_of_the_record_hold_every_gradient(two_ranks):
    printed, *_ = two_ranks
    assert sum(bucket["size_bytes"] for bucket in printed["buckets"]) == printed["workload"]["gradient_bytes"]


def test_the_threads_of_a_rank_are_the_requested_ones(two_ranks):
    printed, *_ = two_ranks
    assert printed["environment"]["threads"]["intraop"] == 1
    variables = printed["environment"]["variables"]
    assert variables["OMP_NUM_THREADS"] == "1"
    assert not variables.keys() & executor.torchrun(2, []).variables.keys()  # how ranks are started changes no figure


def beside(python: str) -> dict[str, str]:
    """Variables with which a shell finds the torchrun of a Python."""
    return {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}


def test_the_printed_command_repeats_the_run_by_hand_without_touching_its_record(two_ranks, tmp_path, preloaded):
    _, folder, _ = two_ranks
    before = folder.record.read_bytes()
    command = ["bash", "-c", one_node(record.read_task(folder.run, RunFile), folder).line]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=beside(sys.executable)
    )
    assert done.returncode == 0, done.stderr
    (repeated,) = tmp_path.rglob("record.json")
    assert record.read(repeated, RunRecord).request == record.read(folder.record, RunRecord).request
    assert folder.record.read_bytes() == before
    assert "images/s" in done.stdout
    assert "listens" not in done.stderr  # on other addresses than its own: see below


def test_a_torchrun_that_listens_to_everybody_is_warned_of(tmp_path):
    """By the first rank, which then does its work: one rank is enough here, which trains without a process group."""
    command = ["torchrun", "--standalone", "--local-addr=127.0.0.1", "-m", "resnetx.train", *words(SHORT)]
    status, _, err, addresses = watched(command, tmp_path, cwd=tmp_path, env=beside(sys.executable))
    assert status == 0, err
    assert foreign(addresses)
    assert "warning: this torchrun listens on all network interfaces" in err
    assert "this one does not: env PYTHONSAFEPATH=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun " in err


@pytest.fixture(scope="module")
def template():
    """What several runs are forks of, with a torchrun and ranks of their own, as in a study."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preloaded, "OF_ONE_RUN", (*preloaded.OF_ONE_RUN, "PYTEST_CURRENT_TEST"))
        with preloaded.kept():
            yield


@pytest.mark.parametrize(
    ("victim", "number", "told"),
    [
        (0, signal.SIGKILL, "rank 0 was killed (SIGKILL)"),
        (None, signal.SIGTERM, "torchrun was ended (SIGTERM)"),
        (1, signal.SIGTERM, "rank 1: ended (SIGTERM) by process "),
    ],
)
def test_what_was_killed_is_named_and_the_rest_goes_with_it(tmp_path, task_of, template, victim, number, told):
    folder = RunFolder(tmp_path / "run")

    def kill():
        until(lambda: ready(folder, 2), "the readiness of torchrun and all ranks")
        os.kill(ranks_of(folder.path)[victim], number)

    with ThreadPoolExecutor() as beside:
        killed = beside.submit(kill)
        ended = launcher.execute(task_of(ENDLESS, gpus=2), folder)
        killed.result()
    assert (ended.outcome, ended.reason[: len(told)]) == ("failed", told)
    assert record.read(folder.record, RunRecord) == ended
    assert ended.workload.workload == "ResNet/2 width 16"
    nothing_is_left(folder)


def ready(folder: RunFolder, ranks: int) -> bool:
    """Whether all ranks answer signals (they block SIGTERM, for which a thread of theirs waits)."""
    found = ranks_of(folder.path)
    return sum(rank is not None and blocks_termination(pid) for rank, pid in found.items()) == ranks


def blocks_termination(pid: int) -> bool:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        mask = next(line for line in status.splitlines() if line.startswith("SigBlk:")).split()[1]
        return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)
    return False


# ---- after the measurement ------------------------------------------------------------------------------------------


def test_ctrl_c_while_the_ranks_shut_down_leaves_the_measurement_in_its_record(tmp_path, preloaded):
    command = [sys.executable, "-m", "resnetx", "train", *words({**SHORT, "gpus": 2}), f"results={tmp_path}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: [outcome(path) for path in tmp_path.rglob("record.json")] == ["ok"], "the record of rank 0")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, err) == (130, "resnetx: interrupted; finished runs are on disk\n")
    (path,) = tmp_path.rglob("record.json")
    found = record.read(path, RunRecord)
    assert found.outcome == "ok"
    assert found.images_per_s
    assert "while its processes were shutting down: interrupted (KeyboardInterrupt)" in found.warnings[-1].message
    nothing_is_left(RunFolder(path.parent))


def outcome(path: Path) -> str:
    return json.loads(path.read_text())["outcome"]


CRASHING = """
import os, signal, time
from resnetx.cli import worker
from resnetx.measure import rank_process

write = rank_process.write_measured

def slowly(*parts):
    time.sleep(1)
    write(*parts)

rank_process.write_measured = slowly
status = worker("run")
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSEGV)
os._exit(status)
"""


def test_a_rank_that_crashes_at_its_exit_leaves_the_measurement_in_its_record(tmp_path, task_of, preloaded):
    """As drivers and libraries of GPUs do now and then, also while rank 0 has yet to write it."""
    program = tmp_path / "crashing.py"
    program.write_text(CRASHING)

    def crashing(task, folder, scratch=None):
        command = one_node(task, folder, scratch)
        return Command([*command.words[:-3], str(program), command.words[-1]], command.variables)

    folder = RunFolder(tmp_path / "run")
    ended = launcher.execute(task_of(SHORT, gpus=2), folder, crashing)
    assert ended.outcome == "ok"
    assert ended.images_per_s
    assert "rank 1 crashed (SIGSEGV)" in ended.warnings[-1].message
    assert record.read(folder.record, RunRecord) == ended


# ---- with status 0 ---------------------------------------------------------------------------------------------------

LEAVING = """
import os, sys
place, leave = sys.argv.pop(1), sys.argv.pop(1)

def leaving(act):
    def left(*given, **more):
        if os.environ["RANK"] == "1":
            eval(leave)
        return act(*given, **more)
    return left

if place == "before it begins":
    leaving(lambda: None)()
from resnetx.cli import worker
if place != "before it begins":
    from resnetx.measure.rank import main, training as train
    if place == "before the ranks meet":
        main.prepare = leaving(main.prepare)
    else:
        train.measure_windows = leaving(train.measure_windows)
os._exit(worker("run"))
"""
LEFT = "left with exit status 0 before it had finished, as by exit() in the code that it runs"


@pytest.mark.parametrize(
    ("place", "leave", "told"),
    [
        ("before the ranks meet", "os._exit(0)", LEFT),
        ("before the ranks meet", "sys.exit(0)", "left by exit(0) before it had finished"),
        ("while others wait for it", "os._exit(0)", LEFT),
        ("before it begins", "os._exit(0)", "left with exit status 0 before it had begun"),
    ],
)
def test_a_rank_that_leaves_with_status_0_ends_the_run_at_once_and_is_named(
    tmp_path, task_of, request, place, leave, told
):
    if place != "before it begins":  # which is seen by the parent of ranks: it has to be torchrun itself
        request.getfixturevalue("preloaded")
    program = tmp_path / "leaving.py"
    program.write_text(LEAVING)

    def starts(task, folder, scratch=None):
        command = one_node(task, folder, scratch)
        return Command([*command.words[:-3], str(program), place, leave, command.words[-1]], command.variables)

    folder = RunFolder(tmp_path / "run")
    task = msgspec.structs.replace(task_of(SHORT, gpus=2), timeout_s=10 * PATIENCE_S)
    ended = launcher.execute(task, folder, starts)
    assert (ended.outcome, ended.reason) == ("failed", f"rank 1: {told}")
    assert ended.duration_s < PATIENCE_S
    nothing_is_left(folder)


# ---- before it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ending_the_launcher_ends_every_rank_and_leaves_a_record(tmp_path, number, status, preloaded):
    """SIGKILL, which the preloaded Python passes on, does so in tests/measure/test_preloaded.py."""
    child, folder = started(tmp_path, {**ENDLESS, "gpus": 2})
    child.send_signal(number)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == status
    assert "Traceback" not in err
    nothing_is_left(folder)
    found = record.read(folder.record, RunRecord)
    assert found.outcome == "failed"
    assert "interrupted" in found.reason


def test_a_run_that_does_not_end_in_time_is_ended(tmp_path, task_of, preloaded):
    folder = RunFolder(tmp_path / "run")
    ended = launcher.execute(msgspec.structs.replace(task_of(ENDLESS, gpus=2), timeout_s=3), folder)
    assert (ended.outcome, ended.reason) == ("timeout", "not finished after timeout=3 seconds")
    assert record.read(folder.record, RunRecord) == ended
    nothing_is_left(folder)


def test_a_point_that_finds_no_memory_is_recorded_as_such_with_its_place_in_intensity_space(
    tmp_path, task_of, preloaded
):
    folder = RunFolder(tmp_path / "run")
    ended = launcher.execute(task_of({**SHORT, "batch_size": 200_000_000}, gpus=2), folder)
    assert ended.outcome == "oom"
    assert "can't allocate memory" in ended.reason
    assert ended.workload.intensity > 10**8
    assert ended.failures[0].traceback
    assert not folder.failures()


def test_a_limited_address_space_is_lack_of_memory_even_where_torchrun_cannot_be_loaded_in_it(tmp_path):
    command = [sys.executable, "-m", "resnetx", "train", *words({**SHORT, "gpus": 2}), f"results={tmp_path}"]
    limited = ["bash", "-c", 'ulimit -v 1000000; exec "$@"', "-", *command]
    done = subprocess.run(limited, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    (path,) = tmp_path.rglob("record.json")
    found = record.read(path, RunRecord)
    assert (done.returncode, found.outcome) == (1, "oom"), done.stderr
    assert found.reason.startswith("torchrun exited with status 1: ImportError: ")
    assert found.reason in done.stderr


def test_a_full_disk_is_a_sentence_and_what_was_measured_stays_also_what_finds_no_place_any_more(tmp_path, preloaded):
    small, temporary = tmp_path / "small", tmp_path / "temporary"
    small.mkdir()
    temporary.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", small], check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        (small / "measured").write_bytes(b"x" * 1000)
        (small / "filler").write_bytes(b"x" * (256 * 1024 - 4096 * 4))
        command = [sys.executable, "-m", "resnetx", "train", *words(SHORT), f"results={small}"]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 2
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert (small / "measured").read_bytes() == b"x" * 1000
        assert all(json.loads(path.read_text()) for path in small.rglob("*.json"))
        (kept,) = temporary.iterdir()
        assert f"its record is {kept}\n" in done.stderr
        assert record.read(kept, RunRecord).images_per_s
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_sweep_keeps_its_finished_runs_and_a_second_one_beside_it_is_refused(tmp_path, preloaded):
    grid = [*words({**SHORT, "repeats": 2, "twins": 0}), "gpus=[1,3]", f"results={tmp_path}"]
    command = [sys.executable, "-m", "resnetx", "sweep", *grid, "dirty=true"]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert "does not divide over gpus=3" in first.stdout
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")}
    assert len(kept) == 3  # two runs, and one record of the point that cannot run
    lost = next(path for path in kept if "_g1_" in str(path))
    lost.write_text(lost.read_text()[:1000])
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "reused: 1 of 3 runs" in again.stderr
    found = [record.read(path, RunRecord) for path in tmp_path.rglob("record.json")]
    assert sorted(each.outcome for each in found) == ["ok", "ok", "skipped"]


def test_a_run_whose_loss_is_no_number_has_a_record_that_can_be_read(tmp_path, task_of, preloaded):
    ended = launcher.execute(task_of({**SHORT, "optimizer.learning_rate": 1e30}), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert ended == record.read(tmp_path / "run" / "record.json", RunRecord)
    assert ended.loss[-1] is None
    assert ended.unknown[f"loss.{len(ended.loss) - 1}"] == "not a finite number"
    assert "loss" in {warning.code for warning in ended.warnings}
