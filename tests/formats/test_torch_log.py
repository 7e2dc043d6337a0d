"""What torch logs when ranks are lost, by several of its versions."""

import pytest

from resnetx.errors import FileError
from resnetx.formats.logs import Waiting, says, waited, waiting
from resnetx.interconnect.collectives.bench_reading import import_bench
from resnetx.interconnect.survey.survey_sources import read_survey
from resnetx.traces import trace_files

ELEMENTS = ", NumelIn=9801523, NumelOut=9801523"


def watchdog(rank, number=808, operation="ALLREDUCE", elements=ELEMENTS, before="[rank{0}]:[E626 06:24:44.903881913 "):
    return (
        f"{before.format(rank)}ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType={operation}{elements}, Timeout(ms)=600000) ran for 600020 milliseconds "
        "before timing out.\n"
    )


def status(rank, begun, ended, torch):
    told = {
        "2.4": f"Exception (either an error or timeout) detected by watchdog at work: {ended + 1}, last enqueued NCCL "
        f"work: {begun}, last completed NCCL work: {ended}.\n",
        "2.7": f" failure detected by watchdog at work sequence id: {ended + 1} PG status: last enqueued work: "
        f"{begun}, last completed work: {ended}\n",
    }
    return f"[rank{rank}]:[E1 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {told[torch]}"


SUMMARY = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_16:39:58
  host      : node1.example.org
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 78971)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_16:39:57
  host      : node2.example.org
  rank      : 9 (local_rank: 1)
  exitcode  : -6 (pid: 78970)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 78970
============================================================
"""


def test_each_rank_that_waited_is_told_once_with_its_earliest_collective():
    log = watchdog(2, 810) + watchdog(0) + "what():  " + watchdog(0, before="") + watchdog(2)
    assert waiting(log) == [Waiting(rank, "ALLREDUCE", 808, 9801523, 600.02) for rank in (0, 2)]
    assert waited(waiting(log), range(3)) == (
        "ranks 0, 2 waited 600 s in ALLREDUCE (SeqNum 808, 9,801,523 elements), which rank 1 did not enter or end"
    )


def test_torch_of_2022_says_no_elements_and_terminals_break_lines():
    old = watchdog(1, 469508, elements="", before="[E ")
    assert waiting(old) == [Waiting(1, "ALLREDUCE", 469508, None, 600.02)]
    assert waiting(watchdog(4).replace("NumelOut", "Numel\nOut").replace(" ran", "\nran"))[0].elements == 9801523


def test_ranks_that_wait_in_different_collectives_are_told_apart():
    log = watchdog(0) + watchdog(1, 807, "BROADCAST", ", NumelIn=112, NumelOut=112")
    assert waited(waiting(log)) == (
        "rank 1 waited 600 s in BROADCAST (SeqNum 807, 112 elements) and rank 0 waited 600 s in ALLREDUCE "
        "(SeqNum 808, 9,801,523 elements)"
    )


@pytest.mark.parametrize("torch", ["2.4", "2.7"])
def test_a_rank_that_is_behind_is_named(torch):
    log = watchdog(0) + "".join(status(rank, 811 - 4 * (rank == 1), 807, torch) for rank in range(3))
    assert "; rank 1 had begun fewer collectives than others (807 of 811)" in says(log)


def test_the_first_dump_names_who_timed_out_where_nothing_else_does():
    log = "[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 34 and"
    assert says(log).endswith(": rank 34 was the first whose collective timed out")


def test_torchrun_names_who_failed_first():
    assert says(SUMMARY).endswith(": rank 9 on node2.example.org failed first, by signal 6 (SIGABRT)")
    assert says(SUMMARY.replace(": -6", ": 13")).endswith("failed first, with exit status 13")
    assert says("Root Cause (first observed failure):\n  <NO_OTHER_FAILURES>\n") == says("size count type") == ""


def test_torchrun_without_its_summary_and_a_watchdog_that_stood_still():
    failed = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 (pid: 7) of binary"
    )
    assert says(failed).endswith(": local rank 1 of a node failed, by signal 11 (SIGSEGV)")
    assert "failed first" in says(failed + SUMMARY) and "local rank" not in says(failed + SUMMARY)
    stuck = (
        "[rank1]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated"
    )
    assert says(stuck).endswith(": the watchdog of rank 1 stood still (its heartbeat timed out)")


@pytest.mark.parametrize(
    "read",
    [
        lambda path: import_bench(path, None, None),
        lambda path: trace_files.read(path, batch_size=32, device="CPU"),
        read_survey,
    ],
    ids=["bench", "trace", "topology"],
)
@pytest.mark.parametrize("before", ["", "Epoch 0: 6%\n"])
def test_an_import_says_what_such_a_log_says(read, before, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(before + watchdog(0) + watchdog(3) + SUMMARY)
    with pytest.raises(FileError) as refused:
        read(path)
    assert (
        "a log of torch, not a measurement: by its NCCL watchdog, ranks 0, 3 waited 600 s in ALLREDUCE (SeqNum 808, "
        "9,801,523 elements); rank 9 on node2.example.org failed first, by signal 6 (SIGABRT)"
    ) in str(refused.value)
