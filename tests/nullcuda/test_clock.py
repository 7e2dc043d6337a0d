"""Runs on null GPUs that are locked at a clock (`clock=`): verified in every window, and put back however they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import resnetx
from resnetx.errors import ConfigError
from resnetx.measure import locked_clock
from resnetx.measure.locked_clock import Lock
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus  # noqa: F401  (a fixture)
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

POINT = {"model": {"kind": "resnetx", "x": 1, "width": 8}, "image_size": 32, "batch_size": 2, "input": "synthetic"}
SHORT = {**POINT, "warmup": 3, "steps": 1, "windows": 2, "threads": 1, "gpus": 1}


@pytest.fixture
def clocks(tmp_path, monkeypatch):
    """The changes of clocks so far: (GPU, MHz), 0 where one was unlocked."""
    file = tmp_path / "clocks.txt"
    monkeypatch.setenv("MOCK_NVML_CLOCKS", str(file))
    monkeypatch.setattr(locked_clock, "PATH", tmp_path / "note.json")
    monkeypatch.chdir(tmp_path)

    def read():
        return [tuple(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []

    return read


def test_a_run_holds_its_clock_in_every_window_and_puts_it_back(clocks):
    ended = resnetx.train(**SHORT, clock="1500MHz")
    assert ended.outcome == "ok", ended.reason
    assert ended.request.clock == 1500
    assert (ended.clock.clock_Hz, ended.clock.why_not) == (1.5e9, "")
    assert ended.clock.lowest_Hz == ended.clock.highest_Hz == [[1.5e9, 1.5e9]]
    assert clocks() == [(0, 1500), (0, 0)]
    assert not locked_clock.PATH.exists()


def test_a_run_whose_gpus_do_not_hold_the_clock_says_so(clocks, monkeypatch):
    monkeypatch.setattr(Lock, "lock", lambda lock, clock_MHz: None)
    ended = resnetx.train(**SHORT, clock=1500)
    assert ended.clock.why_not == "the GPU of rank 0 ran at 1980 MHz"
    assert "GPUs did not hold 1500 MHz: the GPU of rank 0 ran at 1980 MHz" in {each.message for each in ended.warnings}


def test_a_run_that_fails_leaves_no_clock_locked(clocks, monkeypatch):
    monkeypatch.setenv("NULLCUDA_FAULT", "crash:0:4")
    ended = resnetx.train(**SHORT, clock=1500)
    assert (ended.outcome, ended.clock) == ("failed", None)
    assert clocks() == [(0, 1500), (0, 0)]


def test_a_bench_holds_its_clock(clocks):
    (ended,) = resnetx.bench(collective="allreduce", gpus=2, size=["1MiB"], iterations=3, clock="1500MHz")
    assert ended.outcome == "ok", ended.reason
    assert (ended.clock.clock_Hz, ended.clock.why_not) == (1.5e9, "")
    assert sorted(clocks()[-2:]) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("clock", [1507, "fast"])
def test_a_clock_that_gpus_do_not_have_is_refused_before_anything_runs(clocks, clock, tmp_path):
    with pytest.raises(ConfigError, match=r"use clock=1500MHz or clock=1515MHz|expected MHz"):
        resnetx.train(**SHORT, clock=clock)
    assert (clocks(), list(tmp_path.glob("results"))) == ([], [])


TRAIN = """
import sys
from pathlib import Path
from resnetx.cli import main
from resnetx.measure import locked_clock as lock
lock.PATH = Path("note.json")
sys.exit(main(["train", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_is_ended_puts_clocks_back_or_the_next_one_does(clocks, sent):
    words = ["model=resnetx", "model.x=1", "input=synthetic", "batch_size=2", "clock=1500MHz", "windows=10000"]
    python = Path(sys.prefix, "bin/python")  # none that another process forks
    child = subprocess.Popen([python, "-c", TRAIN, *words], stdout=subprocess.DEVNULL)
    until(lambda: clocks() or child.poll() is not None, "a lock")
    assert clocks() == [(0, 1500)]
    time.sleep(0.5)
    os.kill(child.pid, sent)
    child.wait(PATIENCE_S)
    if sent == signal.SIGKILL:
        assert clocks() == [(0, 1500)] and Path("note.json").exists()
        resnetx.train(**SHORT, clock=1485)
        assert clocks()[1:] == [(0, 0), (0, 1485), (0, 0)]
    assert clocks()[-1] == (0, 0) and not Path("note.json").exists()
