"""Calibration: ratios that are known, held-out errors, and the forms in which points come."""

import json
import re
from math import log
from pathlib import Path

import msgspec
import pytest

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.collective_errors import error_of
from resnetx.interconnect.collectives.measured import (
    ComparedTime,
    MeasuredCollective,
    MeasuredSize,
    by_gpus,
    by_times,
    measured,
    read,
)
from resnetx.interconnect.collectives.plan import calibrate, plan
from resnetx.interconnect.systems.system import load
from resnetx.record import BenchFile, BenchRequest, Unknown, cut_short
from tests.nccl_tables import HEADING, row, table

SIZES = [2**20 * 4**power for power in range(6)]


def compared(sizes, ratio):
    """Times that are `ratio` of the size times the modelled ones: 100 us and 10 GB/s."""
    modelled = [(size, 1e-4 + size / 1e10) for size in sizes]
    return [ComparedTime(size, time_s * ratio(size), time_s) for size, time_s in modelled]


def test_every_measured_size_is_met_wherever_the_protocol_changes():
    def ratio(size):
        return 0.5 if size < 2**25 else 0.9

    found = by_times("a test", compared(SIZES, ratio))
    assert [found.ratio(size) for size in SIZES] == pytest.approx(list(map(ratio, SIZES)))
    assert found.ratio(2**25) == pytest.approx((0.5 * 0.9) ** 0.5)  # half way between 16 and 64 MiB
    assert (found.ratio(1), found.ratio(2**33)) == (pytest.approx(0.5), pytest.approx(0.9))


def test_sizes_that_were_measured_twice_take_the_mean_of_their_logarithms():
    found = by_times("a test", [*compared(SIZES, lambda size: 2.0), *compared(SIZES, lambda size: 8.0)])
    assert found.ratio(2**22) == pytest.approx(4)
    assert found.points == 12


def test_the_held_out_error_is_that_of_each_inner_size_predicted_from_the_others():
    ratios = dict(zip(SIZES, (2, 3, 2, 2, 5, 2), strict=True))
    found = by_times("a test", compared(SIZES, ratios.get))
    errors = []
    for left_out in SIZES[1:-1]:
        others = by_times("a test", compared([size for size in SIZES if size != left_out], ratios.get))
        errors.append(abs(log(others.ratio(left_out) / ratios[left_out])))
    assert found.held_out_error == pytest.approx(sum(errors) / 4)
    assert found.held_out_error < found.held_out_q90 <= max(errors)


def test_two_sizes_hold_nothing_out_and_one_is_refused():
    found = by_times("a test", compared(SIZES[:2], lambda size: 2.0))
    assert not found.judged
    with pytest.raises(ConfigError, match="expected at least two"):
        by_times("a test", compared([2**20, 2**20], lambda size: 2.0))


def test_one_large_size_says_how_fast_bytes_move_and_nothing_of_fixed_times():
    plain = plan(load("hgx-b200"))
    large = MeasuredCollective("my.txt", (MeasuredSize(2**30, 2 * plain.cost(2**30).time_s),))
    made = calibrate(plain, large)
    assert made.cost(2**30).time_s == pytest.approx(2 * plain.cost(2**30).time_s)
    assert made.cost(8).time_s == pytest.approx(plain.cost(8).time_s, rel=0.01)
    middle = made.cost(2**23).time_s / plain.cost(2**23).time_s
    assert 1.2 < middle < 2
    known, before = error_of(made, 2**30), error_of(plain, 2**30)
    assert known.q90 < 0.106 < before.q90 and "each calibrated by its largest size" in known.text and not known.own
    small = MeasuredCollective("my.txt", (MeasuredSize(2**10, 30e-6),))
    with pytest.raises(ConfigError, match="has one size, 1 KiB, of whose time bytes take 0%; expected one large size"):
        calibrate(plain, small)


def test_calibrated_plan_says_so_and_corrects_every_size():
    system = load("dgx1-p100")
    plain = plan(system, devices=range(8), library="nccl2")
    slower = MeasuredCollective("my.txt", tuple(MeasuredSize(size, 1.25 * plain.cost(size).time_s) for size in SIZES))
    made = calibrate(plain, slower)
    for size in (2**19, 3 * 2**22, 2**31):
        assert made.cost(size).time_s == pytest.approx(1.25 * plain.cost(size).time_s)
    assert "Calibrated from 6 points of my.txt; 0.0% off what the fit leaves out." in made.explain(2**20)


def test_calibration_of_four_gpus_serves_eight():
    system = load("dgx1-p100")
    four = plan(system, devices=range(4), library="nccl2")
    measured = MeasuredCollective("my.txt", tuple(MeasuredSize(size, 1.25 * four.cost(size).time_s) for size in SIZES))
    ratios = calibrate(four, measured).calibration
    eight = plan(system, devices=range(8), library="nccl2", calibration=ratios)
    assert eight.cost(2**28).time_s == pytest.approx(
        1.25 * plan(system, devices=range(8), library="nccl2").cost(2**28).time_s
    )


def test_a_calibration_of_four_gpus_is_refused_for_the_plan_of_eight():
    system = load("dgx1-p100")
    measured = MeasuredCollective("my.txt", tuple(MeasuredSize(size, 1e-1) for size in SIZES), gpus=4)
    assert calibrate(plan(system, devices=range(4)), measured).calibration
    with pytest.raises(ConfigError, match=r"my.txt: measured on 4 GPUs; expected 8, as many as devices=\[0, 1, 2"):
        calibrate(plan(system, devices=range(8)), measured)


def test_times_that_no_links_could_carry_are_refused():
    system = load("dgx-a100-40gb")
    fast = MeasuredCollective("my.txt", (MeasuredSize(2**20, 1e-4), MeasuredSize(8 * 2**30, 256.36e-6)), gpus=8)
    with pytest.raises(ConfigError) as refused:
        calibrate(plan(system, "alltoall"), fast)
    assert str(refused.value) == (
        "calibration=my.txt: 8 GiB in 256.4 us are 33,507 GB/s, and all links of a GPU of dgx-a100-40gb carry "
        "332 GB/s; "
        "expected times of alltoall measured there"
    )
    nodes = load("dgx-h200", nodes=2, network="ndr400")
    between = MeasuredCollective("my.txt", (MeasuredSize(2**20, 1e-4), MeasuredSize(8 * 2**30, 20e-3)), gpus=16)
    with pytest.raises(ConfigError, match=r"8 GiB in 20,000.0 us are 429 GB/s, and all links of a node of 2x dgx-h200"):
        calibrate(plan(nodes), between)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADING + row("allreduce", 8, 2**20, 1e-4, inside=2), "wrong elements: 2 at 1 MiB (in place): its times mean"),
        (
            table("alltoall", 8, {2**20: 1e-4, 2**30: 5e-3}),
            "is 0.875 and its size is 8 times its count, which allreduce",
        ),
        (
            table("allreduce", 8, {2**20: 1e-4, 2**28: 1e-3, 2**30: 5e-3}).replace("5000.0", "500.0"),
            "line 4: 1073741824 B in 500 us are 2,147 GB/s, and its algbw is 214.75; take that line out",
        ),
    ],
)
def test_a_table_that_does_not_agree_with_itself_calibrates_nothing(tmp_path, text, said):
    (tmp_path / "log.txt").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(str(tmp_path / "log.txt"), "allreduce")


# ---- bench records


@pytest.fixture
def bench_file(tmp_path):
    """Writes the record of a bench with these points."""

    def write(*points, outcome="ok"):
        counts = {"gpus": 2, "threads": 1, "warmup": 1, "iterations": 3, "seed": 0}
        request = BenchRequest(collectives=["allreduce"], sizes_bytes=[8], devices=None, env={}, **counts)
        task = BenchFile(kind="bench", schema=record.SCHEMA, request=request, timeout_s=1)
        made = [
            {
                "collective": name,
                "size_bytes": size,
                "times_s": times_s,
                "wrong": 0,
                "cpu_share": share,
                "computing_lost": 1.0,
                "queued_s": Unknown("made by a test"),
            }
            for name, size, times_s, share in points
        ]
        record.write(tmp_path / "b" / "record.json", cut_short(task, 0.0, outcome, "made by a test", points=made))
        return str(tmp_path / "b" / "record.json")

    return write


BOTH = (
    ("broadcast", 8, [9.0, 9.0, 9.0], 0.1),
    ("allreduce", 300, [3.0, 5.0, 4.0], 0.8),
    ("allreduce", 100, [1.0, 1.0, 9.0], 0.4),
)


def test_a_record_gives_the_medians_of_one_collective_by_size(bench_file, tmp_path):
    for path in (bench_file(*BOTH), str(tmp_path / "b")):
        found = read(path, "allreduce")
        assert found.points == (MeasuredSize(100, 1.0, 0, 0.4, 1.0), MeasuredSize(300, 4.0, 0, 0.8, 1.0))
        assert (found.source, found.collective, found.gpus) == ("b/record.json", "allreduce", 2)


@pytest.mark.parametrize(("last", "times"), [([2.0, 2.0], [0.5, 2.0]), (None, [1.0, 4.0])])
def test_queued_operations_are_what_counts_where_every_size_has_them(bench_file, last, times):
    path = bench_file(*BOTH)
    made = record.read(Path(path), record.BenchRecord)
    queued = {100: [0.5, 0.4, 0.6], 300: last}
    points = [
        msgspec.structs.replace(point, queued_s=queued[point.size_bytes])
        for point in made.points if point.collective == "allreduce"
    ]  # fmt: skip
    record.write(Path(path), msgspec.structs.replace(made, points=points))
    assert [point.time_s for point in read(path).points] == times


@pytest.mark.parametrize("queued_s", [[], [0.0], [float("inf")], [-1.0]])
def test_queued_times_that_nobody_measured_are_refused(bench_file, queued_s):
    made = record.read(Path(bench_file(*BOTH)), record.BenchRecord)
    made = msgspec.structs.replace(
        made, points=[msgspec.structs.replace(point, queued_s=queued_s) for point in made.points]
    )
    with pytest.raises(ConfigError, match="expected times above 0"):
        measured(made, "allreduce", "made", "calibration=made")


def test_the_share_of_the_cpu_is_that_of_large_sizes(bench_file):
    assert read(bench_file(*BOTH), "allreduce").cpu_share == pytest.approx((100 * 0.4 + 300 * 0.8) / 400)
    assert MeasuredCollective("my.txt", (MeasuredSize(8, 1.0),)).cpu_share is None


@pytest.mark.parametrize(
    ("points", "collective", "said"),
    [
        (BOTH, None, "holds allreduce, broadcast; say which with collective="),
        (BOTH, "reduce", "holds allreduce, broadcast; expected reduce"),
        ((), None, "has no points (failed: made by a test)"),
    ],
)
def test_records_that_lack_the_collective_are_refused(bench_file, points, collective, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(bench_file(*points, outcome="ok" if points else "failed"), collective)


def test_a_bench_of_copies_alone_is_said_to_have_no_collectives(bench_file):
    path = bench_file(*BOTH)
    cell = record.CopyCell(
        copy="device", source=0, target=1, size_bytes=100, direction="one-way", endpoint="device", time_s=[1.0],
        wrong=0, path=None, evidence=[], expected_s=None, verdict="not judged", pair_class=None,
    )  # fmt: skip
    made = record.read(Path(path), record.BenchRecord)
    record.write(Path(path), msgspec.structs.replace(made, points=[], cells=[cell]))
    with pytest.raises(ConfigError, match="has no collectives, which are all that calibrates"):
        read(path, "allreduce")


def test_a_folder_of_benches_is_read_by_gpus(bench_file, tmp_path):
    path = bench_file(*BOTH)
    assert by_gpus(str(tmp_path), "allreduce") == {2: read(path, "allreduce")}
    assert by_gpus(path, "allreduce") == by_gpus(str(tmp_path), "allreduce")
    (tmp_path / "typed.yaml").write_text(YAML)
    assert list(by_gpus(str(tmp_path / "typed.yaml"), "allreduce")) == [None]


def test_benches_with_registered_buffers_and_without_are_not_mixed(bench_file, tmp_path):
    made = record.read(Path(bench_file(*BOTH)), record.BenchRecord)
    of_four = msgspec.structs.replace(made.request, gpus=4, registered=True)
    registered = msgspec.structs.replace(made, request=of_four, world_size=4)
    record.write(tmp_path / "c" / "record.json", registered)
    with pytest.raises(ConfigError, match="has benches with registered buffers and without; name the folder of one"):
        by_gpus(str(tmp_path), "allreduce")
    assert read(str(tmp_path / "c"), "allreduce").registered
    assert not read(str(tmp_path / "b"), "allreduce").registered


def test_a_broken_record_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "record.json").write_text('{"kind": "bench", "schema": 1}')
    with pytest.raises(ConfigError, match="not a bench record of resnetx"):
        read(str(tmp_path))


# ---- forms

TABLE = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304
# Using devices
#   Rank  0 Pid    353 on       node device  0 [0x07] NVIDIA
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    80.10   13.09   22.91      0    79.90   13.12   22.97      0
     4194304       1048576     float     sum      -1    151.0   27.78   48.61    N/A    150.9   27.80   48.64    N/A
# Out of bounds values : 0 OK
"""
OLD = """\
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
     1048576        262144   float     sum    80.10   13.09   22.91  5e-07    79.90   13.12   22.97  5e-07
     4194304       1048576   float     sum    151.0   27.78   48.61  5e-07    150.9   27.80   48.64  5e-07
"""
JSON = json.dumps({"version": 3, "results": [
    {"size": 1048576, "out_of_place": {"time": 80.1}, "in_place": {"time": 79.9}},
    {"size": 4194304, "out_of_place": {"time": 151.0}},
]})  # fmt: skip
YAML = "source: typed\npoints: [{size: 1MiB, time_us: 80.1}, {size: 4MiB, time_us: 151}]"


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("new.txt", TABLE, "new.txt (nccl-tests)"),
        ("old.log", OLD, "old.log (nccl-tests)"),
        ("v3.json", JSON, "v3.json (nccl-tests)"),
        ("mine.yaml", YAML, "typed"),
    ],
)
def test_points_are_read(tmp_path, name, text, source):
    (tmp_path / name).write_text(text)
    measured = read(str(tmp_path / name))
    assert measured.source == source
    assert [(point.size_bytes, point.time_s) for point in measured.points] == [
        (2**20, pytest.approx(80.1e-6)),
        (2**22, pytest.approx(151e-6)),
    ]
    assert [point.wrong for point in measured.points] == [0 if name == "new.txt" else None, None]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "hello\n", "no line of it is a result of nccl-tests"),
        ("a.json", "{", "truncated or not JSON"),
        ("a.json", '{"results": [{"size": 8}]}', "no line of it is a result of nccl-tests"),
        ("a.yaml", "source: [", "not YAML"),
        ("a.yaml", "points: []", "missing required field `source`"),
        ("a.yaml", "{source: x, points: [{size: 1X, time_us: 1}]}", "1X: not a size"),
        ("a.yaml", "{source: x, points: [{size: 1MiB}]}", "expected points as"),
        ("a.yaml", "{source: x, points: [{size: 1MiB, time_us: -1}]}", "expected sizes and times above 0"),
    ],
)
def test_foreign_points_are_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(str(tmp_path / name))


def test_missing_file_is_refused():
    with pytest.raises(ConfigError, match="no such file"):
        read("nowhere.txt")
