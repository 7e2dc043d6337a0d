"""Runs that hang: found by what ranks note, over gloo; and runs that are slow, which are left alone."""

import itertools
import os
import signal
import socket
from types import SimpleNamespace

import msgspec
import pytest

from resnetx.measure.launch import hang, launcher
from resnetx.measure.launch.executor import Command, one_node
from resnetx.record import RunFolder
from tests.measure.test_runs import ranks_of
from tests.patience import PATIENCE_S

SHORT = {
    **{"model.x": 2, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 8, "threads": 1},
    **{"warmup": 3, "steps": 2, "windows": 3},
}

# Rank 1 stops in a phase, where it opens its input or computes its loss, or is stopped (SIGSTOP).
STOPPING = """
import os, signal, sys, time
phase, pause_s = sys.argv.pop(1).split(":")
from resnetx import inputs, workloads
from resnetx.cli import worker
from resnetx.measure.launch import hang

def stopping(act):
    def stopped(*given, **more):
        if os.environ["RANK"] == "1" and hang._Own.note.phase == phase:
            time.sleep(float(pause_s)) if pause_s != "inf" else os.kill(os.getpid(), signal.SIGSTOP)
        return act(*given, **more)
    return stopped

inputs.open_for, workloads.loss = stopping(inputs.open_for), stopping(workloads.loss)
os._exit(worker("run"))
"""


@pytest.fixture
def stopping(tmp_path, task_of):
    """Executes a run of which rank 1 stops in a phase for so many seconds."""
    program = tmp_path / "stopping.py"
    program.write_text(STOPPING)

    def execute(phase: str, pause_s: float = 10 * PATIENCE_S):
        def starts(task, folder, scratch=None):
            command = one_node(task, folder, scratch)
            return Command(
                [*command.words[:-3], str(program), f"{phase}:{pause_s}", command.words[-1]], command.variables
            )

        folder = RunFolder(tmp_path / "run")
        task = msgspec.structs.replace(task_of(SHORT, gpus=2), timeout_s=10 * PATIENCE_S)
        ended = launcher.execute(task, folder, starts)
        assert not folder.notes()
        return ended

    return execute


@pytest.mark.dist
@pytest.mark.parametrize("phase", ["opening its input", "step 3 of its warm-up", "window 2 of 3"])
def test_a_rank_that_hangs_is_named_with_its_phase_and_what_others_wait_in(monkeypatch, stopping, preloaded, phase):
    monkeypatch.setattr(hang, "LEAST_S", 3.0)
    ended = stopping(phase)
    assert ended.outcome == "timeout"
    assert ended.reason.startswith(f"rank 1 hangs in {phase}, at stopping.py:11 (stopped); rank 0 waits in ")
    assert ", which rank 1 did not start; no rank has progressed for " in ended.reason
    assert ended.duration_s < PATIENCE_S


@pytest.mark.dist
@pytest.mark.parametrize("phase", ["opening its input", "step 3 of its warm-up", "window 2 of 3"])
def test_a_rank_that_is_stopped_is_named(monkeypatch, stopping, preloaded, phase):
    monkeypatch.setattr(hang, "LEAST_S", 3.0)
    ended = stopping(phase, pause_s=float("inf"))
    assert ended.outcome == "timeout"
    said = f"rank 1 is stopped in {phase} (SIGSTOP): the others wait; no rank has progressed for "
    assert ended.reason.startswith(said)


def test_a_rank_that_is_stopped_before_it_has_begun_is_named_at_the_end_of_its_time(tmp_path, task_of):
    script = "RANK=3 sh -c 'kill -STOP $$' & RANK=0 sleep 99 & wait"
    task = msgspec.structs.replace(task_of(SHORT, gpus=4), timeout_s=1.0)
    ended = launcher.execute(task, RunFolder(tmp_path / "run"), lambda *_: Command(["sh", "-c", script], {}))
    for process in ranks_of(tmp_path / "run").values():  # torchrun would have taken them along
        os.kill(process, signal.SIGKILL)
    assert (ended.outcome, ended.reason) == (
        "timeout",
        "rank 3 is stopped before it had begun (SIGSTOP): the others wait; not finished after timeout=1 seconds",
    )


@pytest.mark.dist
def test_a_step_of_twenty_times_the_usual_time_is_no_hang(monkeypatch, stopping, preloaded):
    monkeypatch.setattr(hang, "LEAST_S", 0.01)
    monkeypatch.setattr(hang, "WORK_S", 0.0)
    monkeypatch.setattr(hang, "OF_A_STEP", 1e6)
    monkeypatch.setattr(hang, "BETWEEN_LOOKS_S", 0.1)
    assert stopping("window 2 of 3", pause_s=4 * hang.BETWEEN_LOOKS_S).outcome == "ok"


# ---- what notes mean ------------------------------------------------------------------------------------------------


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """A watch of two ranks whose clock and whose processes' work the test sets."""
    made = SimpleNamespace(now=0.0, used={0: (0.0, 0), 1: (0.0, 0)}, folder=RunFolder(tmp_path))
    monkeypatch.setattr(hang.time, "monotonic", lambda: made.now)
    monkeypatch.setattr(hang, "_used", lambda process: made.used[process])
    watching = hang.HangWatch(made.folder, 2)

    def note(rank: int, begun: int, **more):
        written = hang.Note(rank=rank, host=socket.gethostname(), process=rank, begun=begun, **{"phase": "it", **more})
        made.folder.progress(rank).write_bytes(msgspec.json.encode(written))

    def hangs_after(each_s=lambda: None, limit_s: float = 5000.0) -> float:
        """Seconds until the watch says so; -1: not within the limit."""
        begin = made.now
        while made.now < begin + limit_s:
            made.now += hang.BETWEEN_LOOKS_S
            each_s()
            try:
                watching.look()
            except hang.HangError:
                return made.now - begin
        return -1

    made.note, made.hangs_after = note, hangs_after
    return made


def works(watch, *ranks: int):
    """Gives ranks a second of CPU time for each second."""

    def each_s():
        for rank in ranks:
            watch.used[rank] = (watch.used[rank][0] + 1, 0)

    return each_s


@pytest.mark.parametrize(
    ("more", "limit_s"),
    [
        ({}, 60),
        ({"is_step": True}, 60),
        ({"is_step": True, "slowest_step_s": 5.0}, 100),
        ({"is_step": True, "slowest_step_s": 5.0, "expected_s": 1000.0}, 3000),
    ],
)
def test_ranks_that_stand_still_hang_after_a_minute_or_twenty_steps(watch, more, limit_s):
    watch.note(0, 7, **more)
    watch.note(1, 7, **more)
    assert watch.hangs_after() == pytest.approx(limit_s, abs=2)


def test_a_rank_that_waits_in_a_step_by_computing_hides_no_hang(watch):
    for rank in (0, 1):
        watch.note(rank, 7, is_step=True)
    assert watch.hangs_after(works(watch, 0)) == pytest.approx(60, abs=2)


@pytest.mark.parametrize(
    ("more", "at_work", "limit_s"),
    [
        ({}, (1,), -1),  # on CPUs whoever waits is idle
        ({"believed_s": 600.0}, (1,), 600),
        ({"all_work": True, "believed_s": 600.0}, (0,), 60),  # a GPU's rank that waits spins: the other one hangs
        ({"all_work": True, "believed_s": 600.0}, (0, 1), 600),
    ],
)
def test_before_the_first_step_work_is_progress(watch, more, at_work, limit_s):
    for rank in (0, 1):
        watch.note(rank, 3, **more)
    assert watch.hangs_after(works(watch, *at_work)) == pytest.approx(limit_s, abs=4)


def test_of_ranks_that_are_not_equally_far_the_one_behind_has_to_work(watch):
    watch.note(0, 4)
    watch.note(1, 3)
    assert watch.hangs_after(works(watch, 0)) == pytest.approx(60, abs=2)
    watch.note(1, 2)
    assert watch.hangs_after(works(watch, 1)) == -1


def test_nothing_is_concluded_of_ranks_that_have_not_begun_or_cannot_write(watch):
    watch.note(0, 7, is_step=True)
    assert watch.hangs_after() == -1


def test_progress_begins_the_count_anew(watch):
    steps = itertools.count(1)

    def each_s():
        if watch.now % 59 == 0:
            watch.note(0, next(steps), is_step=True)

    watch.note(0, 0, is_step=True)
    watch.note(1, 7, is_step=True)
    assert watch.hangs_after(each_s) == -1


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [{"answered": True, "at": "a.py:1 (wait)", "collectives": 9, "collective": "all_reduce"}, {}],
            "rank 1 hangs in it, and cannot say where: in native code, or stopped; rank 0 waits in all_reduce "
            "(number 9), which rank 1 did not start; no rank has progressed for 60 s",
        ),
        (
            [{"answered": True, "at": "a.py:1 (wait)", "collectives": 9, "collective": "all_reduce"}] * 2,
            "ranks 0, 1 hang in it, at a.py:1 (wait); the latest collective is all_reduce (number 9); "
            "no rank has progressed for 60 s",
        ),
    ],
)
def test_a_hang_in_a_sentence(answers, said):
    notes = [
        hang.Note(rank=rank, host="a", process=1, begun=7, phase="it", **answer) for rank, answer in enumerate(answers)
    ]
    assert hang._sentence(notes, 60.2) == said
