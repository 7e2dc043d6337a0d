"""`resnetx bench`: real ranks, workloads' payloads, files of nccl-tests, and how it refuses and fails."""

import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import jsonschema
import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.api import bench, bench_settings
from resnetx.api.measuring import announce
from resnetx.choices import Lab
from resnetx.cli import ranks, show
from resnetx.cli.verbs import show_bench
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.plan import COLLECTIVES, plan
from resnetx.interconnect.systems.system import load, names
from resnetx.measure.launch import Moment, launcher
from resnetx.measure.launch.executor import Command, one_node
from resnetx.operations import OPERATIONS
from resnetx.record import BenchFile, BenchPoint, BenchRecord, RunFolder, SkippedArray
from resnetx.record.bench_record import NOT_DESCRIBED, counts
from tests.cli.run import run
from tests.nccl_tables import HEADING, rank_list, row, table

SCHEMA = json.loads((Path(resnetx.__file__).parent / "schemas" / "bench.schema.json").read_text())
SMALL = ["warmup=1", "iterations=4", "threads=1"]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory, preloaded_python):
    """One good bench on two gloo ranks, by the command line: its printed JSON, and its file."""
    results = tmp_path_factory.mktemp("bench")
    asked = ["collective=[allreduce,broadcast,allgather]", "copy=[device,to-host,local]", "size=[8,100kB,1MiB]"]
    words = [*SMALL, "gpus=2", *asked, "direction=[one-way,both-ways]", "transport=socket", "interface=lo"]
    command = [preloaded_python, "-m", "resnetx", "bench", *words, f"results={results}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), next(results.rglob("record.json"))


@pytest.mark.dist
def test_two_ranks_leave_a_complete_record(two_ranks):
    printed, path = two_ranks
    found = record.read(path, BenchRecord)
    assert printed.pop("answer").startswith("Measured on ")
    assert printed == msgspec.to_builtins(found)
    jsonschema.validate(printed, SCHEMA)
    assert (found.outcome, found.world_size, found.source) == ("ok", 2, "measured")
    assert found.library.startswith("gloo (torch ")
    assert (found.transport.requested, found.transport.used) == ("socket", ["socket"])
    assert found.transport.evidence == ["gloo sends over TCP only; lo"]
    assert [device.rank for device in found.devices] == [0, 1]
    assert path.parent.parent.name == "bench"
    assert {(point.collective, point.size_bytes) for point in found.points} == {
        (name, size) for name in ("allreduce", "broadcast", "allgather") for size in (8, 100_000, 2**20)
    } - {("allgather", 8)} | {("allgather", 32)}
    assert {point.wrong for point in found.points} == {0}
    assert all(len(point.times_s) == 4 and min(point.times_s) > 0 for point in found.points)
    assert all(point.cpu_share > 0 for point in found.points)


@pytest.mark.dist
def test_copies_of_two_ranks_are_cells_with_their_path(two_ranks):
    printed, path = two_ranks
    found = record.read(path, BenchRecord)
    sizes = (8, 100_000, 2**20)
    places = {"device": {(0, 1), (1, 0)}, "to-host": {(0, "host"), (1, "host")}, "local": {(0, 0), (1, 1)}}
    assert {(cell.copy, cell.source, cell.target, cell.size_bytes) for cell in found.cells} == {
        (copy, *pair, size) for copy, pairs in places.items() for pair in pairs for size in sizes
    }
    assert {cell.direction for cell in found.cells if cell.copy == "device"} == {"one-way", "both-ways"}
    assert {cell.wrong for cell in found.cells} == {0}
    assert all(min(cell.time_s) > 0 and len(cell.time_s) == 4 for cell in found.cells)
    assert {(cell.copy, cell.path) for cell in found.cells} == {
        ("device", "socket"), ("to-host", "shared memory"), ("local", "shared memory")
    }  # fmt: skip
    assert {"from", "to", "class", "expected_s", "verdict"} <= set(printed["cells"][0])
    assert found.unknown["cells.0.expected_s"] == NOT_DESCRIBED
    assert set(record.nulls(printed)) == set(found.unknown)


CORRUPTING = """
import os, runpy
from resnetx.measure.bench import arrays
if os.environ["RANK"] == "1":
    write = arrays.write
    def flipped(array, period):
        write(array, period)
        array[5] += 1
    arrays.write = flipped
runpy.run_module("resnetx.collectives", run_name="__main__")
"""


@pytest.mark.dist
def test_a_rank_whose_data_is_corrupted_is_told_of_in_the_record_and_on_the_screen(
    capsys, tmp_path, preloaded, monkeypatch
):
    """One element of what rank 1 gives to the all-reduce, and sends as a copy, is not what ranks are known to have."""
    program = tmp_path / "corrupting.py"
    program.write_text(CORRUPTING)

    def corrupting(task, folder, scratch=None):
        command = one_node(task, folder, scratch)
        return Command([*command.words[:-3], str(program), command.words[-1]], command.variables)

    monkeypatch.setattr(launcher, "executor_of", lambda _: corrupting)
    asked = ["collective=allreduce", "copy=device", "size=4KiB", "gpus=2", f"results={tmp_path}"]
    status, out, _ = run(capsys, "bench", *SMALL, *asked)
    assert status == 1
    (path,) = tmp_path.rglob("record.json")
    found = record.read(path, BenchRecord)
    assert found.outcome == "ok"
    assert [point.wrong for point in found.points] == [2]  # the sum has it on both ranks
    assert {(cell.source, cell.target): cell.wrong for cell in found.cells} == {(0, 1): 0, (1, 0): 1}
    assert "1 to 0, 4 KiB: 1 byte is wrong" in out
    lines = out.splitlines()
    heading = next(place for place, line in enumerate(lines) if "#wrong" in line)
    column_end = lines[heading].index("#wrong") + len("#wrong")
    assert lines[heading + 1][:column_end].split()[-1] == "2"


@pytest.mark.dist
def test_a_bench_refines_a_plan_of_as_many_ranks_and_no_other(two_ranks, capsys, tmp_path):
    _, path = two_ranks
    words = ["systems=sli-rtx2080", "library=gloo", "size=1MiB", f"results={tmp_path}", "--json"]
    status, out, _ = run(capsys, "topology", *words, "collective=allreduce", f"calibration={path.parent}")
    assert status == 0
    assert any("Calibrated from 3 points" in sentence for sentence in json.loads(out)["explanation"])
    status, _, err = run(capsys, "topology", *words, "collective=reduce", f"calibration={path}")
    assert status == 2
    assert "holds allgather, allreduce, broadcast; expected reduce" in err
    words[0] = "systems=gx8"
    status, _, err = run(capsys, "topology", *words, "collective=allreduce", f"calibration={path}")
    assert status == 2
    assert "measured on 2 GPUs; expected 8" in err


@pytest.mark.dist
def test_a_bench_is_repeated_by_hand_from_its_run_file(tmp_path, capsys, preloaded):
    status, *_ = run(capsys, "bench", *SMALL, "size=8", "gpus=2", f"results={tmp_path / 'first'}")
    assert status == 0
    (path,) = tmp_path.rglob("record.json")
    before = path.read_bytes()
    line = one_node(record.read_task(path.parent / "run.json", BenchFile), RunFolder(path.parent)).line
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (repeated,) = {*tmp_path.rglob("record.json")} - {path}
    assert record.read(repeated, BenchRecord).request == record.read(path, BenchRecord).request
    assert path.read_bytes() == before
    assert "2 ranks on CPU cores, gloo" in done.stdout


@pytest.mark.parametrize("words", [[], ["size=8"], ["nowhere.json"], ["a.json", "b.json"]])
def test_ranks_of_a_bench_are_started_with_one_run_file(words):
    with pytest.raises(ConfigError, match="expected the run file of one bench; for settings use `resnetx bench`"):
        ranks.serve_bench(words, Moment.now())


@pytest.mark.dist
def test_train_does_not_take_a_bench_for_a_run(two_ranks, capsys):
    _, path = two_ranks
    status, _, err = run(capsys, "train", str(path.parent / "run.json"))
    assert status == 2
    assert "run.json: a bench" in err
    assert err.count("\n") == 1


@pytest.mark.dist
@pytest.mark.parametrize(
    ("words", "outcome", "reason"),
    [
        (["size=1TiB"], "oom", "allreduce of 1024 GiB takes 2048 GiB of memory in each rank"),
        (["size=8", "env.GLOO_SOCKET_IFNAME=none0"], "failed", "Unable to find address for: none0"),
    ],
)
def test_a_bench_that_dies_leaves_a_record(capsys, tmp_path, preloaded, words, outcome, reason):
    leaves_a_record_of_its_end(capsys, tmp_path, words, outcome, reason)


@pytest.mark.dist
def test_a_bench_that_does_not_end_in_time_leaves_a_record(capsys, tmp_path):
    """Not preloaded: its imports alone take longer."""
    words = ["size=8", "timeout=1"]
    leaves_a_record_of_its_end(capsys, tmp_path, words, "timeout", "not finished after timeout=1 seconds")


def leaves_a_record_of_its_end(capsys, tmp_path, words, outcome, reason):
    status, _, err = run(capsys, "bench", *SMALL, *words, f"results={tmp_path}")
    found = record.read(next(tmp_path.rglob("record.json")), BenchRecord)
    assert status == 1
    assert (found.outcome, found.points) == (outcome, [])
    assert reason in found.reason
    assert reason in err


# ---- what is asked, with a launcher that starts nothing


@pytest.fixture
def launched(monkeypatch):
    """The tasks that would have run; their records have two points, of which `wrong` elements are wrong."""
    tasks = []

    def execute(task, folder, **_):
        tasks.append(task)
        ended = record.cut_short(task, 0.0, "ok", "")
        points = [
            BenchPoint(
                collective="allreduce",
                size_bytes=size,
                times_s=[time_s] * execute.times,
                wrong=execute.wrong,
                cpu_share=None if execute.queued_s else 1.0,
                queued_s=execute.queued_s,
            )
            for size, time_s in ((2**10, 1e-4), (2**20, 1e-3))
        ]
        record.write(folder.record, ended)
        return msgspec.structs.replace(ended, points=points, library="gloo", queue_length=20, skipped=execute.skipped)

    execute.wrong, execute.queued_s, execute.skipped, execute.times = 0, None, [], 3
    monkeypatch.setattr(launcher, "supervise", execute)
    tasks.append(execute)
    return tasks


def asked(launched):
    return [task.request for task in launched[1:]]


def test_without_words_an_allreduce_on_two_ranks_from_8_bytes_to_256_mib(capsys, tmp_path, launched):
    assert run(capsys, "bench", f"results={tmp_path}")[0] == 0
    (request,) = asked(launched)
    assert (request.collectives, request.gpus, request.devices) == (["allreduce"], 2, None)
    assert (request.sizes_bytes[0], request.sizes_bytes[-1]) == (8, 256 * 2**20)
    assert (request.warmup, request.iterations) == (5, 20)


def test_one_process_group_for_each_number_of_ranks_with_the_same_threads(capsys, tmp_path, launched, monkeypatch):
    for module in ("resnetx.config", "resnetx.api.doctor"):
        monkeypatch.setattr(f"{module}.cores", lambda: 8)
    assert run(capsys, "bench", "gpus=[2,4]", "env.NCCL_PROTO=Simple", "size=8", f"results={tmp_path}")[0] == 0
    assert [(request.gpus, request.threads) for request in asked(launched)] == [(2, 2), (4, 2)]
    assert {request.env["NCCL_PROTO"] for request in asked(launched)} == {"Simple"}
    assert len(list(tmp_path.rglob("record.json"))) == 2


def test_payloads_of_workloads_are_sizes_too(capsys, tmp_path, launched):
    words = ["size=[8]", "model=resnetx", "model.x=[4,8]", "strategy=[bucket,after]", f"results={tmp_path}"]
    assert run(capsys, "bench", *words)[0] == 0
    _, last, four, first, eight = asked(launched)[0].sizes_bytes
    assert four == 1_025_440  # ResNet/4 is one message by either strategy
    assert last + first == eight  # ResNet/8 is two buckets, or one message behind the backward pass


def test_size_empty_leaves_the_payloads_alone(capsys, tmp_path, launched):
    assert run(capsys, "bench", "size=[]", "model.x=4", f"results={tmp_path}")[0] == 0
    assert asked(launched)[0].sizes_bytes == [1_025_440]


def test_a_studys_messages_are_sizes_whatever_its_gpus(capsys, tmp_path, launched):
    words = ["size=[]", "study=paper-alexnet-googlenet", "gpus=3", "oversubscribe=true", f"results={tmp_path}"]
    assert run(capsys, "bench", *words)[0] == 0
    (request,) = asked(launched)
    assert request.gpus == 3
    assert len(request.sizes_bytes) > 2


def test_the_table_has_nccl_tests_columns_and_the_fit(capsys, tmp_path, launched):
    _, out, _ = run(capsys, "bench", f"results={tmp_path}", "--all")
    assert [line.split()[:2] + line.split()[3:8] for line in out.splitlines() if line.lstrip().startswith("1 MiB")] == [
        ["1", "MiB", "1,000", "1,000", "to", "1,000", "1.05"]
    ]
    assert "from 0 B: 99.1 us + size / 1.16 GB/s" in out
    assert "too few sizes to leave any out" in out


def test_where_operations_were_queued_the_table_shows_them_and_bandwidths_are_of_them(capsys, tmp_path, launched):
    launched[0].queued_s = [0.5e-3, 0.4e-3, 0.8e-3]
    _, out, _ = run(capsys, "bench", f"results={tmp_path}")
    lines = out.splitlines()
    assert [line.split() for line in lines if line.lstrip().startswith("1 MiB")] == [
        ["1", "MiB", "1,000", "1,000", "to", "1,000", "2.10", "2.10"]
    ]
    assert "In all rows: queued us 500" in out
    assert "Queued: one of 20 that follow each other on the GPU; bandwidths and the fit are of these." in out


def test_one_operation_is_not_taken_for_an_imported_mean(capsys, tmp_path, launched):
    launched[0].times = 1
    assert "Medians of 1 operations, each the slowest rank's" in run(capsys, "bench", f"results={tmp_path}")[1]


def test_wrong_elements_are_a_failure(capsys, tmp_path, launched):
    launched[0].wrong = 7
    status, out, _ = run(capsys, "bench", f"results={tmp_path}")
    assert status == 1
    assert "WRONG results in 2 of 2 measurements." in out.splitlines()[0]
    assert "In all rows: #wrong 7" in out
    status, out, _ = run(capsys, "bench", f"results={tmp_path}", "-q")
    assert status == 1 and "WRONG results in 2 of 2 measurements." in out


def test_many_sizes_fit_a_screen_and_a_wrong_result_among_them_is_shown(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(show, "width_of", lambda stream: 80)
    heading = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    lines = []
    for power in range(3, 31):
        time_us = 20 + 2**power / 1e4
        half = f"{time_us:.1f} {2**power / time_us / 1e3:.5f} {1.5 * 2**power / time_us / 1e3:.5f}"
        lines.append(f"{2**power} {2**power // 4} float sum -1 {half} {7 * (power == 16)} {half} 0\n")
    ranks = "".join(f"#  Rank {rank} Group 0 Pid 1 on node device {rank} [0x0{rank}] A\n" for rank in range(4))
    (tmp_path / "all_reduce.txt").write_text(f"# nThread 1 nGpus 4\n{ranks}{heading}{''.join(lines)}")
    words = ["--import", str(tmp_path / "all_reduce.txt"), "collective=allreduce", f"results={tmp_path}"]
    status, out, _ = run(capsys, "bench", *words)
    assert status == 1 and "WRONG results in 1 of " in out
    assert "In all rows: #wrong 0" not in out and "#wrong 0," not in out
    (wrong,) = [line for line in out.splitlines() if line.lstrip().startswith("64 KiB")]
    assert wrong.split()[-1] == "7"
    assert len(out.splitlines()) <= 15


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gpus=1"], "gpus=1: one rank has no peer; use gpus=2 or more"),
        (["gpus=[2,0]"], "gpus=0: expected at least 1"),
        (["collective=alltoal"], "collective=alltoal: no collective has that name; did you mean alltoall?"),
        (["place=out"], "place=out with collective=allreduce: torch runs it in place only; use place=in"),
        (["collective=alltoall", "place=in"], "torch runs it out of place only; use place=out"),
        (["algorithm=rings"], "algorithm=rings: expected one of auto, ring, tree, "),
        (
            ["collective=[alltoall,sendrecv]", "algorithm=ring"],
            "NCCL has no such choice for alltoall, sendrecv, which are",
        ),
        (["algorithm=ring", "env.NCCL_ALGO=Tree"], "env.NCCL_ALGO: set by algorithm=ring; leave one of them out"),
        (["copy=local", "model=alexnet"], "model=alexnet: copy= has messages of its own; leave model out"),
        (["node_rank=1"], "node_rank=1: without a launcher, ranks run on this node alone"),
        (["copy=local", "dtype=bf16"], "dtype=bf16: only for collectives, and none is requested; leave it out"),
        (["copy=device", "collective=allreduce"], "copy with collective: NCCL changes how GPUs reach each other"),
        (["copy=device", "transport=socket"], "transport=socket: copies between GPUs of one node use no sockets"),
        (["copy=device", "endpoint=pinned"], "endpoint=pinned with copy=device: between GPUs of one node"),
        (["copy=to-host", "endpoint=device"], "endpoint=device with copy=to-host: memory of the host is pinned or"),
        (["copy=local", "transport=host"], "transport=host: read by copy=device and copy=relay and copy=together only"),
        (["size=64Mb"], "size=64Mb: not a size in"),
        (["size=[]"], "size=[]: expected at least one size"),
        (["size=0"], "size=0: expected at least 1"),
        (["batch_size=3"], "batch_size: not a setting of `resnetx bench`"),
        (["devices=[0,1]", "gpus=3"], "devices=[0, 1]: expected 3 different GPU ids"),
        (["devices=[0,9]"], "devices=[0, 9]: this machine shows 2 GPUs; ask for fewer"),
        (["gpus=[2,4]"], "gpus=4: this machine shows 2 GPUs; ask for fewer"),
        (["iterations=0"], "iterations=0: expected at least 1"),
        # 2,580,000 times of single operations would just fit.
        (
            [f"size={[8 * place for place in range(1, 259)]}", "iterations=10000"],
            "a record of 2,581,290 times would be",
        ),
        (["copy=devcie"], "copy=devcie: no kind of copy has that name; did you mean device?"),
        (["copy=[]"], "copy=[]: expected at least one value"),
        (
            ["copy=device", "direction=sideways"],
            "direction[0]=sideways: not one of the known values (one-way, both-ways)",
        ),
        (["direction=both-ways"], "direction=both-ways: read by copy=device only"),
        (["copy=local", "endpoint=pinned"], "endpoint=pinned: read by copy=device and copy=to-host and copy=from-host"),
        (["copy=together"], "copy=together with gpus=2: copies between each pair of GPUs alone"),
        (
            ["copy=relay", "gpus=3"],
            "copy=relay with through=null: expected the GPU that relays, through=0 to through=2",
        ),
        (["copy=to-host", "numa=999"], "numa=999: this host has memory on NUMA node"),
        (["copy=device", "size=[]"], "size=[]: expected at least one size"),
        (["registered=maybe"], "registered=maybe: expected true or false"),
        (["env.LD_PRELOAD=x.so"], "env.LD_PRELOAD: could load other code into a run"),
        (["model=alexne"], "model=alexne: no such model (did you mean alexnet or alexnet32?)"),
        (["study=papr"], "study=papr: no study has that name; did you mean paper?"),
        (["timeout=soon"], "timeout=soon: expected a duration"),
        (
            ["all_reduce.txt"],
            "all_reduce.txt: `resnetx bench` measures; to import a file of another program, add --import",
        ),
        (["--import"], "--import: expected one file, got 0"),
        (["--import", "nowhere.txt"], "--import nowhere.txt: no such file; expected "),
        (["--import", "x.txt", "gpus=[2,4]"], "gpus=[2, 4]: an imported file has one number of GPUs"),
        (["--import", "x.txt", "iterations=3"], "iterations: nothing is measured with --import"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_one_sentence_and_nothing_starts(
    capsys, tmp_path, launched, monkeypatch, words, sentence
):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 2)
    status, _, err = run(capsys, "bench", f"results={tmp_path}", *words)
    assert status == 2
    assert sentence in err
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1
    assert not asked(launched)
    assert not list(tmp_path.iterdir())


def test_what_was_not_measured_is_said_below_the_table(capsys, tmp_path, launched):
    launched[0].skipped = [SkippedArray("allreduce", 2**33, "allreduce of 8 GiB takes too much")]
    _, out, _ = run(capsys, "bench", f"results={tmp_path}")
    assert "not measured: allreduce of 8 GiB takes too much\n" in out


def test_registered_buffers_are_asked_for_named_and_shown(capsys, tmp_path, launched, monkeypatch):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 2)
    _, out, _ = run(capsys, "bench", "registered=true", f"results={tmp_path}")
    (request,) = asked(launched)
    assert request.registered
    assert request.slug == "allreduce_g2_registered"
    assert out.splitlines()[2] == "registered buffers"


def test_gloo_has_no_memory_to_register(capsys, tmp_path, launched):
    status, _, err = run(capsys, "bench", "registered=true", f"results={tmp_path}")
    assert status == 2
    assert err.startswith("resnetx: registered=true: registers GPU memory with NCCL, but this machine has no GPU")
    assert not asked(launched)


# ---- files of nccl-tests

TEXT = """\
# nccl-tests version 2.17.6 nccl-headers=22602 nccl-library=22602
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304
#  Rank  0 Group  0 Pid    353 on       node device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    353 on       node device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        131072     float    none      -1    80.10   13.09    6.55      0    79.90   13.12    6.56      0
     4194304        524288     float    none      -1    151.0   27.78   13.89      3    150.9   27.80   13.90    N/A
"""
JSON = json.dumps({
    "version": 2,
    "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "8"],
    "config": {"devices": [{"rank": 0}, {"rank": 1}, {"rank": 2}, {"rank": 3}]},
    "results": [
        {"size": 1048576, "out_of_place": {"time": 80.1, "nwrong": 0.0}, "in_place": {"time": 79.9}},
        {"size": 4194304, "out_of_place": {"time": 151.0, "nwrong": None}, "in_place": {"time": 150.9}},
    ],
})  # fmt: skip
OLD = "\n".join(line for line in TEXT.splitlines() if "Collective test" not in line and "Rank" not in line)


def imported(capsys, tmp_path, name, text, *words):
    (tmp_path / name).write_text(text)
    results = tmp_path / "results"
    status, out, err = run(capsys, "bench", "--import", str(tmp_path / name), *words, f"results={results}")
    return status, out, err, list(results.rglob("record.json"))


def test_text_of_nccl_tests_becomes_a_record_with_its_wrong_elements(capsys, tmp_path):
    status, out, _, (path,) = imported(capsys, tmp_path, "gathered.txt", TEXT)
    found = record.read(path, BenchRecord)
    jsonschema.validate(msgspec.to_builtins(found), SCHEMA)
    assert status == 1  # elements were wrong
    assert (found.source, found.library, found.world_size) == ("gathered.txt (nccl-tests)", "nccl-tests", 2)
    assert [(point.collective, point.size_bytes, point.wrong) for point in found.points] == [
        ("allgather", 2**20, 0),
        ("allgather", 2**22, 3),
    ]
    assert found.points[0].times_s == [pytest.approx(80.1e-6)]
    assert found.unknown["environment"] == "imported from gathered.txt"
    assert "13.1" in out
    assert "6.55" in out  # nccl-tests' own bus bandwidth


def test_json_of_nccl_tests_becomes_a_record(capsys, tmp_path):
    status, out, _, (path,) = imported(capsys, tmp_path, "reduced.json", JSON, "--json")
    found = record.read(path, BenchRecord)
    answer, *fields = json.loads(out).items()
    said = "Imported, 4 GPUs, nccl-tests: allreduce reaches 41.7 GB/s bus bandwidth at 4 MiB; 1 MiB take 80.1 us."
    assert answer == ("answer", said)
    assert dict(fields) == msgspec.to_builtins(found)
    assert status == 0
    assert found.world_size == 4
    assert [(point.collective, point.wrong) for point in found.points] == [("allreduce", 0), ("allreduce", None)]
    assert found.unknown["points.1.wrong"] == "nccl-tests does not say"


def test_what_a_file_does_not_say_is_asked_for(capsys, tmp_path):
    status, _, err, paths = imported(capsys, tmp_path, "old.txt", OLD)
    assert (status, paths) == (2, [])
    assert "it does not say of which collective it is; expected collective= one of allgather, alltoall" in err
    status, _, err, paths = imported(capsys, tmp_path, "new.txt", TEXT, "collective=allreduce")
    assert (status, paths) == (2, [])
    assert "new.txt: holds allgather; expected allreduce" in err
    status, _, _, (path,) = imported(capsys, tmp_path, "old.txt", OLD, "collective=alltoall")
    found = record.read(path, BenchRecord)
    assert ({point.collective for point in found.points}, found.world_size) == ({"alltoall"}, 2)


def test_a_bench_record_is_not_imported_again(capsys, tmp_path):
    *_, (path,) = imported(capsys, tmp_path, "reduced.json", JSON)
    status, _, err = run(capsys, "bench", "--import", str(path), f"results={tmp_path / 'again'}")
    assert status == 2
    assert "a bench record already" in err


def test_an_imported_record_calibrates_as_its_file_does(capsys, tmp_path):
    from resnetx.interconnect.collectives.measured import read

    *_, (path,) = imported(capsys, tmp_path, "reduced.json", JSON)
    assert [(point.size_bytes, point.time_s) for point in read(str(path)).points] == [
        (point.size_bytes, point.time_s) for point in read(str(tmp_path / "reduced.json")).points
    ]


def test_cpu_ranks_have_no_collectives_over_shared_memory(capsys, tmp_path, launched):
    status, _, err = run(capsys, "bench", "transport=host", f"results={tmp_path}")
    assert status == 2
    assert "transport=host: gloo sends over TCP only, and torch has no other backend for CPU ranks" in err
    assert run(capsys, "bench", "copy=device", "transport=host", f"results={tmp_path}")[0] == 0
    assert asked(launched)[0].slug == "device_g2_host"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["timing=graph"], "timing=graph: CUDA graphs need a GPU, and this machine has none"),
        (["algorithm=ring"], "algorithm=ring: a choice of NCCL, and CPU ranks use gloo, which has none"),
        (["copy=device", "endpoint=pinned"], "endpoint=pinned: CPU ranks have pageable memory alone"),
        (["copy=relay", "through=0", "gpus=3", "oversubscribe=true", "transport=host"], "CPU ranks relay over sockets"),
    ],
)
def test_what_cpu_ranks_do_not_have_is_refused(capsys, tmp_path, launched, words, sentence):
    status, _, err = run(capsys, "bench", *words, f"results={tmp_path}")
    assert status == 2
    assert sentence in err
    assert not asked(launched)


def test_how_collectives_are_run_is_asked_for_named_and_shown(capsys, tmp_path, launched):
    words = ["collective=allreduce", "dtype=bf16", "timing=back-to-back", f"results={tmp_path}"]
    _, out, _ = run(capsys, "bench", *words)
    (request,) = asked(launched)
    assert (request.dtype, request.timing, request.place) == ("bf16", "back-to-back", None)
    assert request.slug == "allreduce_g2_back-to-back_bf16"
    assert out.splitlines()[2] == "bf16, back-to-back"


EIGHT = [name for name in names() if len(load(name, nodes=1).gpus) >= 8 and load(name).library != "gloo"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EIGHT)
def test_all_collectives_at_all_sizes_on_eight_gpus_are_planned_to_take_less_than_a_minute(name):
    plans = {each: plan(load(name, nodes=1), each, range(8)) for each in COLLECTIVES}
    request = msgspec.structs.replace(
        BENCH, gpus=8, collectives=list(OPERATIONS), sizes_bytes=bench.SIZES, warmup=5, iterations=bench.ITERATIONS
    )
    planned_for_s = bench_settings.planned_s(
        request, lambda collective, size_bytes: plans[collective].cost(size_bytes).time_s, on_gpus=True
    )
    assert 3 < planned_for_s < 60


@pytest.mark.parametrize(
    ("size_bytes", "operation_s", "row", "expected"),
    [
        (8, 10e-6, 1, (20, 5, 20)),
        (2**27, 1e-3, 1, (20, 2, 20)),
        (2**24, 5e-3, 1, (20, 3, 20)),
        (2**24, 19e-3, 1, (15, 2, 7)),
        (2**28, 0.2, 1, (5, 2, 4)),
        (2**24, 5e-3, 20, (5, 3, 20)),
    ],
)
def test_operations_that_take_long_are_timed_less_often_on_gpus(size_bytes, operation_s, row, expected):
    assert counts(size_bytes, operation_s, 20, row) == expected
    assert counts(size_bytes, operation_s, 3, row).iterations == 3


def test_a_planned_time_counts_operations_queues_and_sizes():
    request = msgspec.structs.replace(BENCH, sizes_bytes=[64], warmup=2, iterations=3)
    fixed_s = 10e-3 + 5 * 100e-6
    assert bench_settings.planned_s(request, lambda *_: 1.0, on_gpus=False) == pytest.approx(6 + fixed_s)
    assert bench_settings.planned_s(request, lambda *_: 1.0, on_gpus=True) == pytest.approx(7 + 2 * 5 + fixed_s)
    row = msgspec.structs.replace(request, timing="back-to-back")
    assert bench_settings.planned_s(row, lambda *_: 1.0, on_gpus=False) == pytest.approx(2 + 60 + 1 + fixed_s)


# ---- export


def exported(capsys, tmp_path):
    """The files of a bench that was exported."""
    points = [
        BenchPoint(collective=name, size_bytes=size, times_s=[time_s], wrong=0, cpu_share=1.0)
        for name in ("allreduce", "alltoall")
        for size, time_s in ((2**10, 1e-4), (2**20, 1e-3))
    ]
    request = msgspec.structs.replace(BENCH, collectives=["allreduce", "alltoall"])
    task = BenchFile(kind="bench", schema=record.SCHEMA, request=request, timeout_s=60)
    found = msgspec.structs.replace(record.cut_short(task, 0.0, "ok", ""), points=points, library="gloo")
    record.write(RunFolder(tmp_path).record, found)
    status, out, _ = run(capsys, "bench", "--export", str(tmp_path))
    assert status == 0
    return [Path(line) for line in out.splitlines()]


BENCH = record.BenchRequest(
    collectives=["allreduce"], sizes_bytes=[2**10, 2**20], gpus=4, devices=None, env={}, threads=1, warmup=1,
    iterations=1, seed=0,
)  # fmt: skip


def test_what_is_exported_is_nccl_tests_json_and_is_imported_again(capsys, tmp_path):
    (tmp_path / "bench").mkdir()
    paths = exported(capsys, tmp_path / "bench")
    assert [path.name for path in paths] == ["nccl-tests-allreduce.json", "nccl-tests-alltoall.json"]
    tree = json.loads(paths[0].read_text())
    assert (tree["version"], tree["args"], len(tree["config"]["devices"])) == (3, ["all_reduce_perf"], 4)
    large = tree["results"][1]
    assert (large["size"], large["count"], large["type"], large["redop"]) == (2**20, 2**18, "float", "sum")
    assert large["in_place"]["time"] == pytest.approx(1000)
    assert large["in_place"]["bus_bw"] == pytest.approx(2**20 / 1e-3 / 1e9 * 1.5)
    assert large["out_of_place"]["time"] == "nan"
    assert json.loads(paths[1].read_text())["results"][0]["in_place"]["time"] == "nan"
    for path, name in zip(paths, ("allreduce", "alltoall"), strict=True):
        status, out, _ = run(capsys, "bench", "--import", str(path), f"results={tmp_path}", "--json")
        back = json.loads(out)
        assert status == 0
        assert back["world_size"] == 4
        assert [(point["collective"], point["size_bytes"]) for point in back["points"]] == [
            (name, 2**10),
            (name, 2**20),
        ]
        assert [point["times_s"][0] for point in back["points"]] == pytest.approx([1e-4, 1e-3])
        assert [point["wrong"] for point in back["points"]] == [0, 0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "--export: expected one bench (its folder or record.json), and no settings"),
        (["nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_exported_is_refused(capsys, words, sentence):
    status, _, err = run(capsys, "bench", "--export", *words)
    assert status == 2
    assert sentence in err


# ---- copies


CELL = record.CopyCell(
    copy="device", source=0, target=1, through=None, size_bytes=2**20, direction="one-way", endpoint="pageable",
    time_s=[1e-3, 2e-3, 4e-3], wrong=0, path="socket", evidence=[], expected_s=None, verdict="low", causes=["a cable"],
    pair_class="same host",
)  # fmt: skip


def shown(capsys, tmp_path, monkeypatch, cells, *words):
    """The screen, and the record's rows, of a bench that measured these cells."""

    def execute(task, folder, **_):
        ended = msgspec.structs.replace(record.cut_short(task, 0.0, "ok", ""), cells=cells)
        record.write(folder.record, ended)
        return ended

    monkeypatch.setattr(launcher, "supervise", execute)
    status, out, err = run(capsys, "bench", "copy=device", f"results={tmp_path}", *words)
    return status, out, err, resnetx.bench(copy="device", results=str(tmp_path)).rows()


def test_pairs_are_matrices_of_bandwidth_and_latency(capsys, tmp_path, monkeypatch):
    small = msgspec.structs.replace(CELL, size_bytes=4, time_s=[5e-6], verdict="as expected", causes=[])
    status, out, err, rows = shown(capsys, tmp_path, monkeypatch, [CELL, small], "--all")
    lines = [line.split() for line in out.splitlines()]
    assert out.splitlines()[0].startswith(
        "Measured, 2 GPUs, library unknown: device copies, one way: 0.524 GB/s at 1 MiB"
    )
    assert "copy=device, one-way, gpus=2, socket: GB/s of 1 MiB in one direction" in out.splitlines()
    assert ["0", "0.524"] in lines  # 1 MiB in the median of 2 ms
    assert ["0", "5.0"] in lines
    assert "30 copies: about " in err  # two ordered pairs at 15 sizes
    assert (status, rows[0]["bandwidth_Bps"], rows[0]["verdict"]) == (0, 2**20 / 2e-3, "not judged")


def test_pairs_are_one_table_of_classes_with_those_that_differ(capsys, tmp_path, monkeypatch):
    """Four GPUs, of which one is slow with each other one, at 15 sizes: 180 cells."""
    ordered = [(source, target) for source in range(4) for target in range(4) if source != target]
    cells = [
        msgspec.structs.replace(
            CELL,
            size_bytes=4**exponent,
            source=source,
            target=target,
            time_s=[4**exponent / 1e9 * (2 if 2 in (source, target) else 1)],
            pair_class="slower" if 2 in (source, target) else "faster",
        )
        for exponent in range(1, 16)
        for source, target in ordered
    ]
    _, out, *_ = shown(capsys, tmp_path, monkeypatch, cells)
    answer, table = out.split("\n\n")
    assert "at worst 0.5" in answer
    rows = [line for line in table.splitlines() if re.match(r" *\d+ [KMG]?i?B ", line)]
    assert (len(rows), len(out.splitlines())) == (6, 14)
    assert "1 GiB" in rows[-1] and rows[-1].endswith("all with GPU 2") and rows[-2].endswith("0-1 0-3 1-3")
    assert "6 of 30 rows: --all has each." in table and "from \\ to" not in table


def test_several_collectives_are_one_table_that_has_each(two_ranks, capsys):
    made, path = two_ranks
    show.begin(Namespace(all=False, quiet=False))
    show_bench.bench(record.read(path, BenchRecord), RunFolder(path.parent))
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("collective "))) + 1 :]
    named = [line.split()[0] for line in table if line.split()[0] in made["request"]["collectives"]]
    assert set(named) == set(made["request"]["collectives"]) and len(named) <= 12


def test_wrong_bytes_are_a_failure(capsys, tmp_path, monkeypatch):
    status, out, *_ = shown(capsys, tmp_path, monkeypatch, [msgspec.structs.replace(CELL, wrong=7)])
    assert status == 1
    assert "0 to 1, 1 MiB: 7 bytes are wrong" in out


def test_copies_are_asked_for_without_a_collective(capsys, tmp_path, launched):
    words = ["copy=[device,local]", "direction=[one-way,both-ways]", f"results={tmp_path}"]
    assert run(capsys, "bench", *words)[0] == 0
    (request,) = asked(launched)
    assert (request.collectives, request.sizes_bytes, request.copies) == ([], [], ["device", "local"])
    assert (request.copy_sizes_bytes[0], request.copy_sizes_bytes[-1]) == (4, 2**30)
    assert request.slug == "device-local_g2"


def test_pairs_that_share_something_keep_less(capsys, tmp_path, monkeypatch):
    other = record.Pair(source=2, target=3)
    alone = msgspec.structs.replace(CELL, copy="together", time_s=[1e-3])
    beside = msgspec.structs.replace(alone, time_s=[2e-3], together=[other])
    _, out, *_ = shown(capsys, tmp_path, monkeypatch, [alone, beside])
    assert "of which another pair leaves 50% at worst" in " ".join(out.split())
    assert ["0", "to", "1", "2", "to", "3", "50%"] in [line.split() for line in out.splitlines()]


def test_an_imported_collective_stands_beside_what_its_system_allows(capsys, tmp_path):
    file = tmp_path / "all_reduce.txt"
    file.write_text(table("allreduce", 8, {2**30: 0.09}))
    words = ["bench", "--import", str(file), "gpus=8", "collective=allreduce", f"results={tmp_path}"]
    status, out, _ = run(capsys, *words, "systems=dgx-h200")
    assert status == 0
    assert out.startswith("Imported, 8 GPUs, nccl-tests: allreduce reaches 20.9 GB/s bus bandwidth at 1 GiB. ")
    assert "Slower than described in 1 of 1 measurements." in out.splitlines()[0]
    assert "low (1 GiB); to check: " in out
    status, out, _ = run(capsys, *words, "systems=dgx-h200", "--json")
    assert json.loads(out)["points"][0]["verdict"] == "low"
    (row,) = resnetx.bench(file, gpus=8, collective="allreduce", results=str(tmp_path), systems=["dgx-h200"]).rows()
    assert (row["verdict"], row["expected_s"] < row["time_s"]) == ("low", True)
    assert "systems=['gx8', 'dgx2']: a bench runs on one machine" in run(capsys, *words, "systems=[gx8,dgx2]")[2]
    assert "verdict" not in run(capsys, *words)[1]


def pasted(tmp_path, hosts, times_s, collective="allreduce"):
    """A file with a list of ranks, so many on each host, and a table."""
    file = tmp_path / "pasted.log"
    file.write_text(rank_list(hosts) + table(collective, sum(hosts.values()), times_s))
    return file


def warned(out):
    return {each["code"]: each["message"] for each in json.loads(out)["warnings"]}


def test_ranks_on_other_gpus_than_the_system_has_are_said(capsys, tmp_path):
    file = tmp_path / "pasted.log"
    words = ["bench", "--import", str(file), "systems=dgx-h200", f"results={tmp_path}", "--json"]
    rows = table("allreduce", 8, {2**30: 4018e-6})
    file.write_text(rank_list({"a": 8}, "Tesla V100-SXM2-32GB") + rows)
    assert warned(run(capsys, *words)[1])["other-gpu"].startswith(
        "the list names Tesla V100-SXM2-32GB; dgx-h200 has NVIDIA H200, so that"
    )
    file.write_text(rank_list({"a": 8}) + rows)
    assert "other-gpu" not in warned(run(capsys, *words)[1])
    mixed = rank_list({"a": 8}).replace("NVIDIA H200", "Tesla\tT4", 3)
    file.write_text(mixed + rows)
    found = warned(run(capsys, *words)[1])
    assert found["mixed-gpus"] == "lists several kinds of GPUs: 5 NVIDIA H200, 3 Tesla T4"
    assert "the list names Tesla T4" in found["other-gpu"]


def test_hosts_of_one_name_are_told_apart_by_their_devices(capsys, tmp_path):
    ranks = rank_list({"a": 8, "b": 8}).replace("      b device", "      a device")
    file = tmp_path / "pasted.log"
    file.write_text(ranks + table("allreduce", 16, {2**30: 4018e-6}))
    words = ["systems=dgx-h200", "network=ndr400", f"results={tmp_path}", "--json"]
    status, out, _ = run(capsys, "bench", "--import", str(file), *words)
    assert status == 0
    assert [device["node"] for device in json.loads(out)["devices"]] == ["a"] * 8 + ["a (2)"] * 8
    assert warned(out)["imported"] == "several hosts have one name, by their devices: a"
    assert json.loads(out)["points"][0]["verdict"] == "as expected"


def test_ranks_on_several_hosts_are_judged_on_as_many_nodes(capsys, tmp_path):
    file = pasted(tmp_path, {"node-a": 8, "node-b": 8}, {2**30: 4018e-6, 8 * 2**30: 0.278})
    words = ["bench", "--import", str(file), "systems=dgx-h200", f"results={tmp_path}"]
    status, out, _ = run(capsys, *words, "network=ndr400", "--json")
    found = json.loads(out)
    assert status == 0
    assert [(point["verdict"], round(point["expected_s"] * 1e6)) for point in found["points"]] == [
        ("as expected", 4426), ("not judged", 33323),
    ]  # fmt: skip
    assert (
        "allreduce takes up to 8.34 times as long as expected, more than nine" in warned(out)["longer-than-elsewhere"]
    )
    assert "network cards do not reach GPU memory" in out
    assert [device["node"] for device in found["devices"]] == ["node-a"] * 8 + ["node-b"] * 8
    assert found["devices"][9]["index"] == 1
    assert json.loads(run(capsys, *words, "network=ndr400", "nodes=2", "--json")[1])["points"] == found["points"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("# Out of bounds values : 2 FAILED\n", "WRONG results."),
        (
            "node-a: Test NCCL failure common.cu:958 'unhandled cuda error'\n",
            "The test FAILED behind these measurements.",
        ),
        ("", "All results are right."),
    ],
)
def test_the_answer_says_no_results_are_right_where_the_last_lines_deny_it(capsys, tmp_path, last, said):
    file = pasted(tmp_path, {"node-a": 8}, {2**25: 0.0003, 2**30: 0.004})
    file.write_text(file.read_text() + last)
    _, out, _ = run(capsys, "bench", "--import", str(file), f"results={tmp_path}")
    assert out.splitlines()[0].endswith(said)
    assert ("All results are right" in out) == (not last)


def test_times_that_no_model_is_off_by_are_said_where_nothing_is_judged(capsys, tmp_path):
    file = pasted(tmp_path, {"node-a": 8, "node-b": 8}, {2**25: 0.0213, 96 * 2**20: 0.0845})
    words = ["bench", "--import", str(file), "systems=dgx-h200", "network=ndr400", f"results={tmp_path}"]
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    assert {point["verdict"] for point in json.loads(out)["points"]} == {"not judged"}
    assert "takes up to 123.30 times as long as expected, more than nine" in warned(out)["longer-than-elsewhere"]
    pasted(tmp_path, {"node-a": 8, "node-b": 8}, {2**25: 0.0004})
    assert not {"far-off", "longer-than-elsewhere"} & warned(run(capsys, *words, "--json")[1]).keys()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "its ranks are on 2 hosts, and dgx-h200: nodes=2 of dgx-h200: expected network=, one of 100gbe"),
        (["nodes=3", "network=ndr400"], "nodes=3: it lists ranks on 2 hosts; expected nodes=2"),
        (["network=ndr400", "nics=9"], "nics=9: dgx-h200 has 8 network cards in each node"),
        (["network=ndr"], "network"),
        (["env.A=1"], "env.A: nothing is measured with --import; it reads collective, gpus, size, systems, nodes,"),
    ],
)
def test_what_is_missing_to_judge_several_hosts_is_named(capsys, tmp_path, words, sentence):
    file = pasted(tmp_path, {"node-a": 8, "node-b": 8}, {2**30: 4018e-6})
    status, _, err = run(capsys, "bench", "--import", str(file), "systems=dgx-h200", *words, f"results={tmp_path}")
    assert status == 2
    assert sentence in err


@pytest.mark.parametrize(
    ("hosts", "words", "sentence"),
    [
        ({"a": 8}, ["systems=dgx-h200", "network=ndr400"], "network=ndr400: one node needs no network; set nodes= as"),
        ({"a": 8}, ["network=ndr400"], "network=ndr400: of the nodes of systems=, which is missing"),
        ({"a": 16}, ["systems=dgx-h200"], "it has 16 ranks, and dgx-h200 has 8 GPUs; expected nodes= and network=, or"),
    ],
)
def test_a_system_of_other_nodes_than_the_ranks_is_refused(capsys, tmp_path, hosts, words, sentence):
    file = pasted(tmp_path, hosts, {2**30: 4018e-6})
    status, _, err = run(capsys, "bench", "--import", str(file), *words, f"results={tmp_path}")
    assert (status, sentence in err) == (2, True)


def test_without_a_number_of_ranks_there_is_nothing_to_compare(capsys, tmp_path):
    file = tmp_path / "sent.log"
    file.write_text("./sendrecv_perf\n" + table("sendrecv", 8, {2**30: 4018e-6}))
    status, _, err = run(capsys, "bench", "--import", str(file), "systems=dgx-h200", f"results={tmp_path}")
    assert status == 2
    assert "does not say how many ranks there were; expected gpus=N, to compare it with systems=" in err


def test_hosts_of_one_rack_are_one_node(capsys, tmp_path):
    """A rack that is published as a good one is judged by the others that are: one alone would not judge it."""
    file = pasted(tmp_path, {f"tray{tray}": 4 for tray in range(18)}, {8 * 2**30: 20299e-6})
    words = ["bench", "--import", str(file), "systems=gb200-nvl72", f"results={tmp_path}"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert "as expected" in out and "to check" not in out


def test_the_answer_and_the_verdicts_are_of_results_that_are_right(capsys, tmp_path):
    """Of a row with wrong elements, which is fast in one file and slow in the other."""
    file = tmp_path / "wrong.log"
    for time_s in (1e-4, 1e-1):
        rows = row("allreduce", 8, 2**10, 2e-5) + row("allreduce", 8, 2**25, 1.8e-4)
        rows += row("allreduce", 8, 2**26, time_s, inside=3)
        file.write_text("./all_reduce_perf -g 8\n" + HEADING + rows)
        words = ["bench", "--import", str(file), "systems=dgx-h200", f"results={tmp_path}"]
        status, out, _ = run(capsys, *words, "--json")
        made = json.loads(out)
        assert status == 1 and made["points"][2]["verdict"] == "not judged"
        assert "GB/s bus bandwidth at 32 MiB" in made["answer"] and "64 MiB" not in made["answer"]
        assert "Slower than described" not in made["answer"]
        assert "WRONG results in 1 of 3 measurements." in made["answer"]
        assert {figure.size_bytes for figure in resnetx.explain(msgspec.convert(made, BenchRecord))} == {2**10, 2**25}
    file.write_text("./all_reduce_perf -g 8\n" + HEADING + row("allreduce", 8, 2**26, 1e-3, inside=3))
    _, out, _ = run(capsys, *words)
    assert "allreduce: no result is right. WRONG results in 1 of 1 measurements." in " ".join(out.split())


def test_sizes_whose_error_is_not_known_are_named_beside_those_that_are_judged(capsys, tmp_path):
    file = pasted(tmp_path, {"node-a": 8}, {2**20: 2, 2**30: 1})
    _, out, _ = run(capsys, "bench", "--import", str(file), "systems=dgx1-p100", f"results={tmp_path}", "--json")
    assert [point["verdict"] for point in json.loads(out)["points"]] == ["not judged", "low"]
    assert "allreduce at 1 MiB has no verdict, as" in out and "allreduce has no verdict" not in out


def test_wrong_elements_in_place_are_named_with_their_size(capsys, tmp_path):
    file = tmp_path / "wrong.log"
    rows = row("allreduce", 2, 2**10, 1e-5) + row("allreduce", 2, 2**20, 1e-4, inside=32)
    file.write_text("./all_reduce_perf -g 2\n" + HEADING + rows + "# Out of bounds values : 1 FAILED\n")
    status, out, _ = run(capsys, "bench", "--import", str(file), f"results={tmp_path}")
    assert status == 1
    assert "look: wrong elements: 32 at 1 MiB (in place); its times mean nothing" in " ".join(out.split())


@pytest.mark.parametrize(
    ("gpus", "devices", "rate_Bps"),
    [
        (2, None, 131.04e6),  # of two GPUs below one switch of a GX8, / 100
        (4, [0, 1, 4, 5], 103.1e6),  # across risers, as peers through one CPU
        (1, None, bench_settings.CPU_Bps),  # no link
    ],
)
def test_in_the_lab_the_announced_time_is_that_of_the_slowest_link(gpus, devices, rate_Bps):
    lab = Lab(system="gx8", scale=100, transport="auto")
    request = msgspec.structs.replace(BENCH, gpus=gpus, devices=devices, lab=lab)
    assert bench_settings.announced_rate(request) == (pytest.approx(rate_Bps, rel=0.001), False)


def test_a_run_that_would_wait_for_another_one_in_the_lab_says_so(monkeypatch, caplog):
    caplog.set_level("INFO")
    request = msgspec.structs.replace(BENCH, lab=Lab(system="gx8", scale=100, transport="auto"))
    for taken, said in ((False, []), (True, ["another run is in the lab of this machine; this one waits for its end"])):
        monkeypatch.setattr("resnetx.api.measuring.taken", lambda taken=taken: taken)
        announce([request], None)
        assert caplog.messages == said


@pytest.mark.parametrize(
    "words", [["bench", "protocol=LL"], ["bench", "algorithm=ring"], ["train", "input=synthetic", "precision=fp16"]]
)
def test_a_dry_run_says_what_cannot_run_here_where_a_shell_passes_over_it(words, capsys, tmp_path):
    status, out, _ = run(capsys, *words, "gpus=2", "--dry-run", f"results={tmp_path}")
    command, *notes = out.splitlines()
    assert status == 0 and "torchrun" in command and notes[0].startswith(f"# cannot run here: {words[-1]}: ")
    assert all(note.startswith("# ") for note in notes)
