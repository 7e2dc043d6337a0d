"""What becomes of the record, whatever the child does. Here it is one small process in place of torchrun."""

import re
import signal
import sys
import time

import msgspec
import pytest

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.launching import Launch, Site
from resnetx.measure.launch import Moment, ending, launcher, refuse_half_started, write_measured
from resnetx.measure.launch.ending import Ending
from resnetx.measure.launch.executor import Command
from resnetx.record import RunFolder, RunRecord

pytestmark = pytest.mark.slow

MEASURED = """
import os, signal
from pathlib import Path
from resnetx import record
from resnetx.measure.launch import Moment
from resnetx.measure.launch import launched_folder, run_started
from resnetx.measure.launch import write_measured
folder = launched_folder()
task = record.read_task(folder.run, record.RunFile)
measured = record.cut_short(task, run_started(Moment.now()).epoch_s, "ok", "", duration_s=0.25)
"""
WRITTEN = MEASURED + "write_measured(folder.record, measured)\n"


def running(program):
    """An executor that starts a program of Python."""
    return lambda task, folder, scratch=None: Command([sys.executable, "-c", program], {})


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def on_disk(folder):
    return record.read(folder.record, RunRecord)


def test_a_run_that_ends_well_is_kept_with_the_time_that_its_launcher_saw(task_of, folder):
    ended = launcher.execute(task_of(), folder, running(WRITTEN))
    assert (ended.outcome, ended.warnings) == ("ok", [])
    assert ended.duration_s != 0.25
    assert on_disk(folder) == ended


@pytest.mark.parametrize(("program", "outcome"), [("raise SystemExit(1)", "failed"), (WRITTEN, "ok")])
def test_an_interruption_behind_the_end_of_the_child_is_recorded(task_of, folder, monkeypatch, program, outcome):
    """As Slurm ends srun and this process at once, where a node is lost."""
    read, calls = ending.read, []

    def interrupted_once(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return read(*given)

    monkeypatch.setattr(ending, "read", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        launcher.execute(task_of(), folder, running(program))
    found = on_disk(folder)
    assert found.outcome == outcome
    told = found.reason if outcome == "failed" else found.warnings[-1].message
    assert "interrupted (KeyboardInterrupt)" in told


@pytest.mark.parametrize(
    ("last_words", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "torchrun crashed (SIGSEGV)"),
        ("os._exit(3)", "torchrun exited with status 3: the end"),
    ],
)
def test_a_crash_after_the_measurement_is_a_warning_in_its_record(task_of, folder, last_words, told):
    ended = launcher.execute(task_of(), folder, running(f"{WRITTEN}os.write(2, b'the end')\n{last_words}"))
    assert ended.outcome == "ok"
    assert [warning.code for warning in ended.warnings] == ["shutdown"]
    assert told in ended.warnings[0].message
    assert ended.stderr_end == "the end"
    assert on_disk(folder) == ended


@pytest.mark.parametrize("reason", ["not finished after timeout=9 seconds", "interrupted (KeyboardInterrupt)"])
def test_what_its_launcher_stops_after_the_measurement_stays_measured(task_of, folder, tmp_path, reason):
    task, started = task_of(), Moment.now()
    launcher.begin(task, folder, started)
    record.write(folder.record, record.cut_short(task, started.epoch_s, "ok", ""))
    settled = launcher._settle(task, folder, tmp_path, started, Ending(stopped="timeout", reason=reason))
    assert settled.outcome == on_disk(folder).outcome == "ok"
    assert reason in on_disk(folder).warnings[0].message


def test_the_run_file_has_of_a_site_only_what_tunes(task_of, folder):
    site = Site(environment={"NCCL_IB_HCA": "mlx5_0", "LICENSE_SERVER": "hunter2"})
    launch = Launch(launcher="slurm", nodes=1, site=site)
    launcher.begin(msgspec.structs.replace(task_of(), launch=launch), folder, Moment.now())
    kept = record.read(folder.run, record.RunFile).launch.site.environment
    assert kept == {"NCCL_IB_HCA": "mlx5_0", "LICENSE_SERVER": "(set)"}
    assert "hunter2" not in folder.record.read_text()


def test_the_logs_of_a_run_have_no_passwords(task_of, folder):
    program = "import sys\nprint('http://me:hunter2@proxy')\nsys.exit('https://me:hunter2@host')"
    ended = launcher.execute(task_of(), folder, running(program))
    assert ended.outcome == "failed"
    assert ended.stderr_end == "https://***@host\n"
    assert "hunter2" not in "".join(file.read_text() for file in folder.path.iterdir())


def test_the_record_of_another_run_is_not_taken_for_this_ones(task_of, folder):
    late = "record.write(folder.record, msgspec.structs.replace(measured, started_at='2020-01-01T00:00:00.000+00:00'))"
    ended = launcher.execute(task_of(), folder, running(f"{MEASURED}import msgspec\n{late}\nos._exit(1)"))
    assert ended.outcome == on_disk(folder).outcome == "failed"


def test_a_rank_that_fails_before_the_measurement_ends_leaves_no_measured_record(task_of, folder):
    said = "record.Failure(rank=0, kind='error', time_s=0.0, message='ValueError: 3', traceback='')"
    ended = launcher.execute(
        task_of(), folder, running(f"{MEASURED}record.write(folder.failure(0), {said})\nos._exit(1)")
    )
    assert (ended.outcome, ended.reason) == ("failed", "rank 0: ValueError: 3")
    assert ended.workload is not None
    assert on_disk(folder) == ended
    assert not folder.failures()


def test_a_measured_record_that_finds_no_place_is_kept_elsewhere(task_of, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measured = record.cut_short(task_of(), 0.0, "ok", "")
    with pytest.raises(
        ConfigError, match=r"cannot write /dev/full/.*; the run is finished, and its record is "
    ) as said:
        write_measured(type(tmp_path)("/dev/full/record.json"), measured)
    (kept,) = tmp_path.iterdir()
    assert str(said.value).endswith(str(kept))
    assert record.read(kept, RunRecord) == measured


def test_a_record_for_which_rank_0_found_no_place_is_fetched_by_the_launcher(task_of, folder):
    ended = launcher.execute(
        task_of(), folder, running(MEASURED + "write_measured(Path('/dev/full/record.json'), measured)")
    )
    assert ended.outcome == on_disk(folder).outcome == "ok"


def test_a_clock_that_is_set_back_makes_no_duration_negative(task_of, folder, monkeypatch):
    clock = iter(range(1_800_000_000, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    assert launcher.execute(task_of(), folder, running("")).duration_s >= 0
    assert launcher.execute(task_of(), folder, running(WRITTEN)).duration_s >= 0


def test_a_program_that_is_not_there_is_a_failed_run(task_of, folder):
    ended = launcher.execute(task_of(), folder, lambda *_: Command(["no-such-program"], {}))
    assert (ended.outcome, on_disk(folder).outcome) == ("failed", "failed")
    assert "could not be started: [Errno 2]" in ended.reason


def test_options_of_torchrun_in_the_environment_do_not_reach_it(task_of, folder, monkeypatch):
    monkeypatch.setenv("PET_STANDALONE", "1")
    launcher.execute(task_of(), folder, running("import os; print([name for name in os.environ if 'PET_' in name])"))
    assert folder.stdout.read_text() == "[]\n"


def test_what_an_earlier_run_left_when_it_was_killed_is_removed(task_of, folder):
    folder.path.mkdir()
    (folder.path / ".record.json.0123").write_text('{"half')
    record.write(folder.failure(1), record.Failure(rank=1, kind="error", time_s=0, message="", traceback=""))
    ended = launcher.execute(task_of(), folder, running(WRITTEN))
    assert (ended.outcome, ended.warnings) == ("ok", [])
    assert {path.name for path in folder.path.iterdir()} == {"record.json", "run.json", "stderr.log", "stdout.log"}


def test_a_killed_child_takes_its_status_into_the_reason(task_of, folder):
    ended = launcher.execute(task_of(), folder, running(f"import os; os.kill(os.getpid(), {signal.SIGKILL})"))
    assert on_disk(folder).reason == ended.reason == "torchrun was killed (SIGKILL)"


BY_TORCHRUN = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2: set, but not RANK, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR"),
        (BY_TORCHRUN, "WORLD_SIZE=2: set, but not MASTER_ADDR, MASTER_PORT; start ranks with torchrun"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two: expected a whole number, as torchrun sets it"),
        ({"RANK": ""}, "RANK=: expected a whole number"),
        ({**BY_TORCHRUN, **MEETING, "MASTER_PORT": "x"}, "MASTER_PORT=x: expected a whole number"),
        ({**BY_TORCHRUN, **MEETING, "RANK": "2"}, "RANK=2: expected less than WORLD_SIZE=2"),
        ({"RANK": "1"}, "RANK=1: expected less than WORLD_SIZE=1"),
    ],
)
def test_a_rank_that_nobody_started_whole_is_refused(monkeypatch, variables, sentence):
    for name in {**BY_TORCHRUN, **MEETING, "TORCHELASTIC_ERROR_FILE": ""}:
        monkeypatch.delenv(name, raising=False)
    refuse_half_started()  # alone
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        refuse_half_started()


@pytest.mark.parametrize("meeting", [MEETING, {"TORCHELASTIC_ERROR_FILE": "logs/run/attempt_0/1/error.json"}])
def test_a_rank_of_torchrun_or_of_the_lab_is_none_of_these(monkeypatch, meeting):
    for name, value in {**BY_TORCHRUN, **meeting}.items():
        monkeypatch.setenv(name, value)
    refuse_half_started()
