"""Runs at the same time: each has its record, whatever becomes of the others."""

import os
import signal
import threading
import time

import msgspec
import pytest

from resnetx import record
from resnetx.fleet.check_runs import Placed, together
from resnetx.launching import Launch, Site
from resnetx.record import RunFolder, RunRecord


@pytest.fixture
def placed(task_of, tmp_path):
    """A run whose ranks are this script, which a shell runs in the place of mpirun."""

    def make(name, script):
        launch = Launch(launcher="mpi", nodes=1, site=Site(mpirun=("sh", "-c", f"cd {tmp_path}; {script}", "sh")))
        return Placed(msgspec.structs.replace(task_of(), launch=launch, timeout_s=600.0), RunFolder(tmp_path / name))

    return make


def test_they_run_at_the_same_time_and_one_that_fails_leaves_the_others(placed):
    waits = "while [ ! -e made ]; do sleep 0.01; done; echo it waited >&2; exit 3"  # for ever, if it ran alone
    found = together([placed("waits", waits), placed("makes", "touch made; echo it made it >&2; exit 4")])
    assert [each.outcome for each in found] == ["failed", "failed"]
    assert "it waited" in found[0].reason and "it made it" in found[1].reason


def test_nothing_runs_where_nothing_is_asked():
    assert together([]) == []


def test_an_interrupt_ends_all_and_is_recorded(placed, tmp_path):
    runs = [placed(name, f"touch {name}.begun; exec sleep 600") for name in ("one", "other")]

    def interrupt():
        while len(list(tmp_path.glob("*.begun"))) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        together(runs)
    kept = [record.read(each.folder.record, RunRecord) for each in runs]
    assert [each.reason for each in kept] == ["interrupted (KeyboardInterrupt)"] * 2
