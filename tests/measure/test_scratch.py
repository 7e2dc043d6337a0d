"""Scratch folders are removed: by their launcher, or by the next one where it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.measure.launch import PREFIX, remove_abandoned, scratch, wait_for_ranks
from tests.patience import PATIENCE_S

HOLDER = """
import time
from pathlib import Path
from resnetx.measure.launch import scratch
with scratch() as path:
    (path / "rendezvous").write_text("state")
    print(path, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(temporary):
    """A launcher with a scratch folder."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, text=True
    )
    yield child, Path(child.stdout.readline().strip())
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_scratch_folder_is_private_and_gone_at_the_end(temporary):
    with scratch() as path:
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "file").write_text("something")
    assert not list(temporary.iterdir())


def test_that_of_a_killed_launcher_is_removed_by_the_next_one_and_that_of_a_living_one_is_kept(holder):
    child, path = holder
    remove_abandoned()
    assert path.is_dir()
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert path.is_dir()
    with scratch():
        assert not path.exists()


def test_what_is_not_a_scratch_folder_of_ours_is_left_alone(temporary):
    (temporary / f"{PREFIX}without-a-lock").mkdir()
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / "launcher.lock").touch()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    before = set(temporary.rglob("*"))
    remove_abandoned()
    assert set(temporary.rglob("*")) == before


def test_a_temporary_folder_that_cannot_be_written_is_a_sentence(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/full")
    with (
        pytest.raises(ConfigError, match=r"the temporary folder cannot be written .*/dev/full/resnetx-run-"),
        scratch(),
    ):
        pass


RANK = """
import sys, time
from pathlib import Path
from resnetx.measure.launch import show_life
show_life(Path(sys.argv[1]))
print("!", flush=True)
time.sleep(600)
"""


def test_a_launcher_waits_for_ranks_that_are_still_dying_but_not_for_ever(tmp_path):
    with subprocess.Popen([sys.executable, "-c", RANK, str(tmp_path)], stdout=subprocess.PIPE) as rank:
        rank.stdout.readline()
        wait_for_ranks(tmp_path, limit_s=0.05)
        assert rank.poll() is None
        rank.kill()
        wait_for_ranks(tmp_path, limit_s=PATIENCE_S)
        assert rank.wait(PATIENCE_S) == -signal.SIGKILL  # a process closes its files a moment before it can be reaped
