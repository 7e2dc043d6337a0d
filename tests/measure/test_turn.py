"""Runs in the lab take turns, by a file that nobody else can write."""

import os
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from resnetx.choices import Lab
from resnetx.errors import ConfigError
from resnetx.measure import launch
from resnetx.measure.launch import launcher, taken, wait_for_turn
from resnetx.measure.launch.executor import Command
from resnetx.record import RunFolder
from tests.patience import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the lab is on Linux"),
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "resnetx"


def test_a_second_run_waits_for_the_end_of_the_first(folder, caplog):
    caplog.set_level("INFO")
    assert not taken(folder)
    first, got = wait_for_turn(folder=folder), []
    assert taken(folder)
    second = threading.Thread(target=lambda: got.append(wait_for_turn(folder=folder)), daemon=True)
    second.start()
    second.join(0.15)
    assert second.is_alive()
    assert not got
    os.close(first)
    second.join(60)
    assert len(got) == 1 and taken(folder)
    os.close(got[0])
    assert not taken(folder)
    assert caplog.messages in ([], ["waiting for another run in the lab of this machine to end"])  # of another thread


HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from resnetx.measure.launch import wait_for_turn
lock = wait_for_turn(folder=Path(sys.argv[1]))
subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], pass_fds=[lock])
time.sleep(600)
"""


def test_the_turn_of_a_run_that_is_killed_ends_with_the_last_process_that_it_has_started(folder):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        (inheriting,) = map(int, open(f"/proc/{holder.pid}/task/{holder.pid}/children").read().split())  # noqa: PTH123, SIM115
        holder.kill()
    assert taken(folder)
    os.kill(inheriting, 9)
    until(lambda: not taken(folder), "the end of the turn")


def test_the_lock_is_its_owners(folder):
    os.close(wait_for_turn(folder=folder))
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "lab.lock")] == [0o700, 0o600]


def _link(folder):
    folder.mkdir(parents=True, mode=0o700)
    (folder / "lab.lock").symlink_to("/etc/hostname")


def _open_folder(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _link_to_folder(folder):
    folder.parent.mkdir(parents=True)
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to("elsewhere")


def _open_file(folder):
    folder.mkdir(parents=True, mode=0o700)
    (folder / "lab.lock").touch()
    (folder / "lab.lock").chmod(0o666)


def _of_another(folder):
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize("prepared", [_link, _open_folder, _link_to_folder, _open_file, _of_another])
def test_what_others_could_have_put_there_is_no_lock(folder, prepared):
    if prepared is _of_another and os.geteuid() != 0:
        pytest.skip("giving a folder to another user needs root")
    prepared(folder)
    with pytest.raises(ConfigError, match="the lab's lock"):
        wait_for_turn(folder=folder)


# ---- what waits has not begun ---------------------------------------------------------------------------------------


@pytest.fixture
def in_the_lab(task_of, monkeypatch, folder):
    """A task in the lab that may take 2 s, and what stands for its ranks."""
    monkeypatch.setattr(launch, "FOLDER", folder)
    task = task_of()
    request = msgspec.structs.replace(task.request, lab=Lab(system="gx8", scale=100, transport="auto"))
    program = "import os; os.fstat(int(os.environ['RESNETX_RUN_TURN']))"  # which it inherits, open
    return msgspec.structs.replace(task, request=request, timeout_s=2.0), lambda *_: Command(
        [sys.executable, "-c", program], {}
    )


def test_waiting_for_a_turn_is_no_time_of_the_run(in_the_lab, folder, tmp_path):
    task, executor = in_the_lab
    other = wait_for_turn(folder=folder)
    threading.Timer(2.5, os.close, [other]).start()
    started = time.monotonic()
    ended = launcher.supervise(task, RunFolder(tmp_path / "results"), executor)
    assert time.monotonic() - started > 2.4
    assert ended.outcome == "failed" and "exited silently" in ended.reason, "it ended, and had time"
    assert ended.duration_s < 2.4


def test_a_run_that_never_had_its_turn_has_no_record(in_the_lab, folder, tmp_path):
    task, executor = in_the_lab
    other = wait_for_turn(folder=folder)

    def interrupted():
        raise KeyboardInterrupt

    results = RunFolder(tmp_path / "results")
    with pytest.raises(KeyboardInterrupt):
        launcher.supervise(task, results, executor, interrupted)
    assert not results.path.exists()
    os.close(other)
