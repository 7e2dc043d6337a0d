"""What ended a run, from what its processes leave behind. Each text is what torch 2.15 really printed."""

import json

import msgspec
import pytest

from resnetx import record
from resnetx.measure.launch import ending
from resnetx.measure.launch.ending import Ending, cause, late
from resnetx.record import Failure, RunFolder

BEFORE = "rank 1's own last line\n"
FAILED_NCCL = """\
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: \
NCCL error: remote process exited, NCCL version 2.30.7
"""
REPORT = """\
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 10, in <module>
    sys.exit(main())
             ^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 386, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
resnetx.train FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_01:11:47
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 25856)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 25856
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_01:11:47
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 25855) 
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
WATCHDOG = (
    "[rank0]:[E1 ProcessGroupNCCL.cpp:616] [Rank %d] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)
ASKED = "SignalException: Process 4242 got signal: 15"


def failure(rank, kind="peer", message="a complaint", at=0.0):
    return Failure(rank=rank, kind=kind, time_s=-at, monotonic_s=at, message=message, traceback="")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def test_torchruns_report_gives_the_ranks_statuses_and_leaves_their_own_words_in_stderr(folder, tmp_path):
    folder.stderr.write_text(BEFORE + REPORT)
    end = ending.read(Ending(), folder, tmp_path)
    assert end.rank_statuses == {0: 1, 1: -9}
    assert end.stderr_end == BEFORE


def test_torchruns_report_is_found_before_what_another_nodes_torchrun_says_of_its_end(folder, tmp_path):
    other = f"Traceback (most recent call last):\n  File ...\ntorch.distributed...SignalException: {ASKED}\n"
    folder.stderr.write_text(BEFORE + REPORT + "srun: Terminating StepId=12.0\n" + other)
    end = ending.read(Ending(), folder, tmp_path)
    assert end.rank_statuses == {0: 1, 1: -9}
    assert end.stderr_end == BEFORE + other


def test_an_exception_of_torchrun_is_read_from_the_file_that_it_was_given(folder, tmp_path):
    ending.error_file(tmp_path).write_text(json.dumps({"message": {"message": ASKED, "extraInfo": {}}}))
    assert ending.read(Ending(), folder, tmp_path).torchrun_error == ASKED
    ending.error_file(tmp_path).write_text('{"message": "cut')
    assert ending.read(Ending(), folder, tmp_path).torchrun_error == ""


def test_failures_come_in_the_order_in_which_they_happened_even_if_the_wall_clock_went_back(folder, tmp_path):
    for rank, at in ((0, 7.0), (1, 5.0), (2, 6.0)):
        record.write(folder.failure(rank), failure(rank, at=at))
    folder.failure(3).write_text('{"rank":')  # it died while it wrote
    assert [each.rank for each in ending.read(Ending(), folder, tmp_path).failures] == [1, 2, 0]


CASES = {
    "a time limit": (
        {"stopped": "timeout", "reason": "not finished after timeout=6 seconds", "rank_statuses": {0: -9}},
        ("timeout", "not finished after timeout=6 seconds"),
    ),
    "rank 0 killed, rank 1 lost its peer": (
        {"rank_statuses": {0: -9, 1: 1}, "failures": [failure(1)]},
        ("failed", "rank 0 was killed (SIGKILL)"),
    ),
    "rank 0 killed before rank 1 could report": (
        {"rank_statuses": {0: -9, 1: -15}},
        ("failed", "rank 0 was killed (SIGKILL)"),
    ),
    "a crash in native code": (
        {"rank_statuses": {1: -11}, "failures": [failure(0)]},
        ("failed", "rank 1 crashed (SIGSEGV)"),
    ),
    "NCCL's watchdog, of ranks that waited for another": (
        {"rank_statuses": {0: -6, 2: -15}, "stderr": WATCHDOG % 0},
        ("failed", "NCCL timed out: rank 0 waited 600 s in ALLREDUCE (SeqNum 808), which rank 1 did not enter or end"),
    ),
    "NCCL's watchdog, of a rank whose NCCL failed": (
        {"rank_statuses": {0: -15, 1: -6}, "stderr": FAILED_NCCL},
        ("failed", "rank 1 crashed (SIGABRT): NCCL error: remote process exited, NCCL version 2.30.7"),
    ),
    "the same, after the other was killed": (
        {"rank_statuses": {0: -6, 1: -9}, "stderr": WATCHDOG % 0},
        ("failed", "rank 0 crashed (SIGABRT), rank 1 was killed (SIGKILL)"),
    ),
    "the same, of ranks that could report it": (
        {"rank_statuses": {0: 1, 1: 1}, "failures": [failure(0), failure(1)], "stderr": WATCHDOG % 0 + WATCHDOG % 1},
        ("failed", "NCCL timed out: ranks 0, 1 waited 600 s in ALLREDUCE (SeqNum 808)"),
    ),
    "torchrun killed": ({"status": -9}, ("failed", "torchrun was killed (SIGKILL)")),
    "torchrun asked to end": (
        {"torchrun_error": ASKED, "failures": [failure(0), failure(1)]},
        ("failed", "torchrun was ended (SIGTERM)"),
    ),
    "torchrun interrupted": (
        {"torchrun_error": "SignalException: Process 1 got signal: 2", "rank_statuses": {0: 130, 1: 130}},
        ("failed", "torchrun was ended (SIGINT)"),
    ),
    "a rank interrupted": (
        {"rank_statuses": {1: 130, 0: 1}, "failures": [failure(0)]},
        ("failed", "rank 1 exited silently with status 130"),
    ),
    "a rank that exits before it can report, and one that torchrun ends": (
        {"rank_statuses": {0: -15, 1: 2}, "stderr": "resnetx: a mistake\n"},
        ("failed", "rank 1 exited silently with status 2; the last line of stderr: resnetx: a mistake"),
    ),
    "all ranks asked to end before they can report": (
        {"rank_statuses": {0: -15, 1: -15}},
        ("failed", "rank 0 was ended (SIGTERM), rank 1 was ended (SIGTERM)"),
    ),
    "the kernel's killer of a rank": (
        {"rank_statuses": {1: -9}, "failures": [failure(0)], "oom_kill": True},
        ("oom", "the kernel's out-of-memory killer ended rank 1"),
    ),
    "the kernel's killer of torchrun": (
        {"status": -9, "oom_kill": True},
        ("oom", "the kernel's out-of-memory killer ended torchrun"),
    ),
    "a rank that said why, and others that followed": (
        {"failures": [failure(1), failure(0, "error", "ValueError: 3")], "rank_statuses": {0: 1, 1: 1}},
        ("failed", "rank 0: ValueError: 3"),
    ),
    "no memory, said by the rank": (
        {"failures": [failure(0, "oom", "MemoryError")], "rank_statuses": {0: 1}},
        ("oom", "rank 0: MemoryError"),
    ),
    "no memory, said on stderr": (
        {"rank_statuses": {0: -6}, "stderr": "terminate called\n  what():  std::bad_alloc\n"},
        ("oom", "rank 0 crashed: what():  std::bad_alloc"),
    ),
    "no memory, said by OpenBLAS, which exits": (
        {"rank_statuses": {0: 1}, "stderr": "OpenBLAS error: Memory allocation still failed after 10 retries"},
        ("oom", "rank 0 exited: OpenBLAS error: Memory allocation still failed after 10 retries"),
    ),
    "a torchrun that cannot be loaded": (
        {"stderr": "Traceback ...\nImportError: libtorch_cpu.so: failed to map segment from shared object\n"},
        (
            "oom",
            "torchrun exited with status 1: ImportError: libtorch_cpu.so: failed to map segment from shared object",
        ),
    ),
    "a torchrun that gives up": (
        {"torchrun_error": "RendezvousTimeoutError: "},
        ("failed", "torchrun exited with status 1: RendezvousTimeoutError: "),
    ),
    "a rank of another node without memory, after which srun ends torchrun on this one": (
        {"torchrun_error": ASKED, "failures": [failure(0), failure(3, "oom", "no memory")]},
        ("oom", "rank 3: no memory"),
    ),
    "a rank of another node killed, likewise": (
        {"torchrun_error": ASKED, "failures": [failure(0)], "rank_statuses": {3: -9}},
        ("failed", "rank 3 was killed (SIGKILL)"),
    ),
    "only ranks that lost each other": (
        {"failures": [failure(1, message="connection closed")], "rank_statuses": {1: 1}},
        ("failed", "rank 1: connection closed"),
    ),
    "a report that cannot be read": (
        {"stderr": "ChildFailedError in other words"},
        ("failed", "ranks 0, 1 exited silently; the last line of stderr: ChildFailedError in other words"),
    ),
}


@pytest.mark.parametrize(("end", "expected"), CASES.values(), ids=CASES)
def test_the_cause_is_named_and_not_its_consequences(end, expected):
    assert cause(Ending(**end), ranks=2) == expected


def test_what_happens_after_the_measurement_is_a_warning_and_nothing_is_none():
    assert late(Ending(status=0), 2) == []
    (warning,) = late(Ending(rank_statuses={1: -11}), 2)
    assert warning.code == "shutdown"
    assert warning.message.endswith("shutting down: rank 1 crashed (SIGSEGV)")
    assert msgspec.to_builtins(warning)["remedy"]


def test_a_message_of_others_is_one_line_of_bounded_length():
    assert ending.sentence(ValueError("x" * 100_000)) == "ValueError: " + "x" * 488 + "..."
    assert ending.sentence(RuntimeError("first\nsecond")) == "RuntimeError: first"
    assert ending.sentence(MemoryError()) == "MemoryError"
