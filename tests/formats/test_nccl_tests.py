"""Tables of nccl-tests of every version: read by their headings, and held against themselves."""

import json
import re
from collections import Counter

import pytest

from resnetx.errors import FileError
from resnetx.formats.nccl_table import Interval, NcclTestCommand, command, listed, printed
from resnetx.formats.nccl_tests import parse
from resnetx.loading import File
from tests.nccl_tables import HEADING, half, number, rank_list, row, table

MiB, GiB = 2**20, 2**30
TIMES_s = {64 * MiB: 396.8e-6, GiB: 4335.5e-6, 8 * GiB: 33508e-6}


@pytest.fixture
def read(tmp_path):
    """What is read of a text."""

    def reads(text, collective=None, gpus=None, name="log.txt"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return parse(File(path, "a table", 2**24, "--import log"), path.read_bytes(), collective, gpus)

    return reads


def times(found):
    return {row.size_bytes: pytest.approx(row.time_s, rel=1e-3) for row in found.rows}


# ---- columns by their heading


def columns(words, halves=2, last="error"):
    return f"#   {'   '.join(words)}" + f"   time   algbw   busbw   {last}" * halves + "\n"


def rows(cells, collective="alltoall", ranks=8, wrong="N/A", parts=True, halves=2):
    each = 4 * ranks if parts else 4
    return "".join(
        f"  {size}  {size // each}  {cells}{half(collective, ranks, size, time_s, wrong) * halves}\n"
        for size, time_s in TIMES_s.items()
    )


@pytest.mark.parametrize(
    ("words", "cells", "collective"),
    [
        (["size", "count", "type", "redop"], "float        ", "alltoall"),  # of 2020 and 2021: a blank operator
        (["size", "count", "type"], "float", "allgather"),
        (["size", "count", "type", "redop"], "float  sum", "reduce_scatter"),
        (["size", "count", "type", "root"], "float  0", "scatter"),
        (["size", "count", "type", "redop", "root"], "float       -1", "alltoall"),  # of 2022
        (["size", "count", "type", "redop", "root"], "uint32  none  -1", "allgather"),
    ],
)
def test_columns_go_by_their_heading(read, words, cells, collective):
    found = read(columns(words) + rows(cells, collective), collective)
    assert times(found) == TIMES_s
    assert found.left_out == ()


def test_a_heading_without_its_mark_and_a_half_that_is_missing(read):
    """Of rccl-tests without the half out of place; a web page has taken "#" for a title."""
    text = columns(["size", "count", "type", "redop", "root"], halves=1, last="wrong").lstrip("# ")
    found = read(text + rows("float  sum  -1", "allreduce", parts=False, halves=1, wrong=0))
    assert (found.collective, found.gpus, times(found)) == ("allreduce", 8, TIMES_s)
    blank = HEADING + f"{GiB}  {GiB // 4}  float  sum  -1{' ' * 32}{half('allreduce', 8, GiB, 0.004, 3)}\n"
    (only,) = read(blank).rows
    assert (only.time_s, only.wrong) == (pytest.approx(0.004), 3)


def test_columns_that_somebody_left_out_are_not_missed(read):
    lines = "".join(
        f"  {size:_}{half('allreduce', 8, size, time_s).rsplit(None, 1)[0]}\n" for size, time_s in TIMES_s.items()
    )
    found = read(f"       size    time   algbw   busbw\n        (B)    (us)  (GB/s)  (GB/s)\n{lines}")
    assert (found.collective, found.gpus, times(found)) == ("allreduce", 8, TIMES_s)


def test_a_table_that_became_a_comment_is_read(read):
    text = table("allreduce", 8, TIMES_s)
    assert times(read("".join(f"# {line}\n" for line in text.splitlines()))) == TIMES_s


def test_what_stands_behind_a_half_is_no_half(read):
    """Percentiles of each half, and the time of day, of 2026."""
    labels = "time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    behind = " 3.1 99.2 98.1 4.5"
    one = half("allreduce", 8, GiB, 0.004) + behind
    text = f"# size count type redop root {labels} {labels} timestamp\n {GiB} {GiB // 4} float sum -1 {one} {one} "
    found = read(text + "2026-01-31 03:04:05\n")
    assert (times(found), found.gpus) == ({GiB: 0.004}, 8)


def test_until_2018_times_are_milliseconds(read):
    text = "#   bytes   N   type   op   time   algbw   busbw   res\n"
    lines = [
        f"  {size}  {size // 4}  float  sum  {time_s * 1e3:.3f}  {size / time_s / 1e9:.2f}"
        f"  {size / time_s / 1e9 * 1.75:.2f}  2e-06\n"
        for size, time_s in TIMES_s.items()
    ]
    found = read(text + "".join(lines))
    assert (times(found), found.collective, found.gpus) == (TIMES_s, "allreduce", 8), "the only one that fits"


def test_until_june_2020_gathering_counted_less_as_its_rate(read):
    def line(size, time_s):
        rate = f"{number(time_s * 1e6)}  {size * 7 / 8 / time_s / 1e9:.2f}  {size * 7 / 8 / time_s / 1e9:.2f}  0e+00"
        return f"  {size}  {size // 32}  float  {rate}  {rate}\n"

    found = read(columns(["size", "count", "type"]) + "".join(line(*each) for each in TIMES_s.items()), "allgather")
    assert (times(found), found.gpus) == (TIMES_s, 8)


def test_rows_without_a_heading_count_if_their_columns_agree(read):
    text = table("allreduce", 8, TIMES_s).partition("\n")[2]
    assert times(read(text)) == TIMES_s
    older = rows("float  sum", "allreduce", parts=False, wrong="5e-07")
    assert [each.wrong for each in read(older).rows] == [None] * 3
    empty = row("allreduce", 8, 0, 1.3e-6)
    assert times(read(empty + text)) == TIMES_s
    with pytest.raises(FileError, match="no line of it is a result"):  # a heading that broke off is none
        read("# size count type redop root time algbw busbw #wrong time\n" + empty)
        read("# size count type redop\n" + empty)
    with pytest.raises(FileError, match="no line of it is a result of nccl-tests"):
        read(f"  {GiB}  {GiB // 4}  float  sum  -1  4000  11.1  19.4  0\n")
    with pytest.raises(FileError, match="no line of it is a result of nccl-tests"):
        read(table("allreduce", 8, {0: 1.6e-6}))


def test_times_of_the_cpu_are_no_times(read):
    with pytest.raises(FileError, match="line 1: its times are of the CPU"):
        read(HEADING.replace(" time", " cputime") + row("allreduce", 8, GiB, 0.004))


# ---- each row against itself


def test_a_row_that_does_not_agree_with_itself_is_left_out_and_said(read):
    text = table("allreduce", 8, TIMES_s)
    found = read(text.replace("4335", "43355"))
    assert found.left_out == ("line 3: 1073741824 B in 43355.5 us are 24.77 GB/s, and its algbw is 247.66",)
    assert GiB not in times(found)
    with pytest.raises(FileError, match=r"line 2: .*no table of nccl-tests, or its columns are not those"):
        read(text.replace("4335", "43355").replace("  396.8", "  39.68"))


def test_a_line_that_breaks_off_is_said(read):
    text = table("allreduce", 8, TIMES_s)
    found = read(text + f"  {GiB}  {GiB // 4}  float  sum  -1  node-a:77:78 [0] NCCL INFO Channel 00\n")
    assert found.left_out == ("line 5 begins as a result, and does not go on as its heading says",)


def test_a_busbw_of_other_ranks_than_the_rows_above_is_left_out(read):
    text = table("allreduce", 8, TIMES_s) + row("allreduce", 4, 16 * GiB, 0.06)
    assert "line 5: its busbw / algbw is not that of the rows above (1.5 and 1.75)" in read(text).left_out


def test_digits_say_how_far_a_number_was_rounded():
    assert (printed("24.77").interval, printed("33508").interval) == (
        Interval(24.765, 24.775),
        Interval(33507.5, 33508.5),
    )
    assert printed("1.2e+03").interval == Interval(1150, 1250)
    assert [printed(word) for word in ("N/A", "-1", "nan", "0x18")] == [None] * 4


# ---- of which collective, on how many ranks


def test_two_ranks_are_told_apart_by_what_is_checked_in_place(read):
    assert [read(table(name, 2, TIMES_s)).collective for name in ("allreduce", "sendrecv")] == ["allreduce", "sendrecv"]


def test_one_rank_whose_busbw_is_its_algbw_is_refused(read):
    text = rank_list({"a": 1}) + table("reduce", 1, TIMES_s)
    with pytest.raises(FileError, match="it lists one rank, which sends nothing to others"):
        read(text)
    assert read(text, gpus=4).gpus == 4


@pytest.mark.parametrize("ranks", [3, 8, 72])
def test_an_all_reduce_and_its_ranks_are_known_by_their_rates(read, ranks):
    found = read(table("allreduce", ranks, TIMES_s))
    assert (found.collective, found.gpus) == ("allreduce", ranks)


@pytest.mark.parametrize(
    ("collective", "fits"),
    [
        ("allgather", ("allgather",)),
        ("alltoall", ("alltoall",)),
        ("reduce_scatter", ("reduce_scatter",)),
        ("gather", ("gather", "scatter")),
        ("broadcast", ("broadcast",)),
        ("reduce", ("reduce",)),
    ],
)
def test_figures_operator_root_and_what_is_checked_in_place_tell_collectives_apart(read, collective, fits):
    found = read(table(collective, 8, TIMES_s))
    assert found.may_be == fits
    assert found.collective == (collective if len(fits) == 1 else None)
    assert read(table(collective, 8, TIMES_s), collective).collective == collective


def test_what_the_figures_contradict_is_refused(read):
    gathered = table("allgather", 8, TIMES_s)
    with pytest.raises(FileError, match=r"is 0.875 and its size is 8 times its count, which allreduce has on no"):
        read(gathered, "allreduce")
    with pytest.raises(FileError, match=r"gpus=4: its busbw / algbw is 1.75, .* on 8 ranks; expected gpus=8"):
        read(table("allreduce", 8, TIMES_s), gpus=4)
    with pytest.raises(FileError, match=r"it lists 16 ranks, and its busbw / algbw is 1.75, .* on 8 ranks"):
        read(rank_list({"a": 16}) + table("allreduce", 8, TIMES_s))
    with pytest.raises(FileError, match="its busbw is 0, as of one rank alone"):
        read(table("allreduce", 1, TIMES_s))
    with pytest.raises(FileError, match="it holds hypercube; expected collective= one of allreduce"):
        read("# Collective test starting: hypercube_perf\n" + gathered)


def test_a_list_that_has_lost_lines_is_said(read):
    found = read(rank_list({"a": 4}) + table("allreduce", 8, TIMES_s))
    assert (found.gpus, found.ranks.complete) == (8, True)
    assert found.note == "its busbw / algbw is 1.75, as of allreduce on 8 ranks; the list of ranks names 4"
    last = rank_list({"a": 72}, "GB200").splitlines()[-1]  # alone, as when the others were cut
    assert read(f"{last}\n{table('allreduce', 72, TIMES_s)}").ranks.complete is False


@pytest.mark.parametrize(
    ("line", "program", "ranks"),
    [
        ("./build/all_gather_perf -b 16M -e 1G -g 2 -d bfloat16", "all_gather", 2),
        ("mpirun -np 16 -H a:8,b:8 /opt/all_reduce_perf -b 8 -e 1G -g 1", "all_reduce", 16),
        ("srun -N 4 --ntasks=32 all_reduce_perf -b 8 -n 20", "all_reduce", 32),
        ("srun -N 4 all_reduce_perf -g 1", "all_reduce", None),  # as many as the job has
        ("mpirun -n 2 ./alltoall_perf -t 2 -g 4", "alltoall", 16),
        ("# Collective test starting: reduce_scatter_perf", "reduce_scatter", None),
        ("# Collective test starting: all_reduce_perf_mpi", "all_reduce", None),
        ("$ ./build/test/single/all_reduce_test 10000000", "all_reduce", None),
    ],
)
def test_a_command_names_the_collective_and_perhaps_the_ranks(line, program, ranks):
    assert command(line) == NcclTestCommand(program, ranks)


def test_the_command_of_a_table_says_what_it_is_of(read):
    told = "mpirun -np 8 \\\n  ./sendrecv_perf -b 8 -e 8G\n" + table("sendrecv", 8, TIMES_s)
    found = read(told)
    assert (found.collective, found.gpus) == ("sendrecv", 8)  # busbw is algbw on any number of ranks
    assert read("mpirun ./sendrecv_perf\n" + table("sendrecv", 8, TIMES_s), gpus=8).gpus == 8


def test_one_of_several_tables_is_chosen(read):
    text = "".join(
        f"# Collective test starting: {program}_perf\n{table(name, 8, TIMES_s)}# Out of bounds values : 0 OK\n"
        for program, name in (("all_reduce", "allreduce"), ("all_gather", "allgather"))
    )
    with pytest.raises(FileError, match=r"several tables \(allreduce on 8 ranks, allgather on 8 ranks\); say"):
        read(text)
    assert read(text, "allgather").collective == "allgather"
    with pytest.raises(FileError, match="holds allreduce on some ranks, allgather on some ranks; expected"):
        read(text, "reduce")


def test_a_program_that_is_named_between_two_tables_is_of_the_one_below(read):
    text = f"{table('allgather', 8, TIMES_s)}The same nodes with all_reduce_perf:\n{table('allreduce', 8, TIMES_s)}"
    with pytest.raises(FileError, match=r"several tables \(allgather on 8 ranks, allreduce on 8 ranks\); say"):
        read(text)


@pytest.mark.parametrize(
    "last",
    ["node1: Test NCCL failure common.cu:303 'unhandled cuda error'", " .. node1 pid 1000: Test failure common.cu:401"],
)
def test_a_test_that_failed_behind_its_rows_is_said(read, last):
    text = table("allreduce", 8, TIMES_s)
    assert read(text + "# Out of bounds values : 0 OK\n").note == ""
    said = " ".join(last.split())
    assert read(f"{text}{last}\n").note == f"the test failed behind its rows (line 5: {said})"


def test_a_list_that_was_shortened_is_said(read):
    lines = rank_list({"a": 8}).splitlines(keepends=True)
    text = table("allreduce", 8, TIMES_s)
    assert read("".join(lines) + text).note == ""
    assert read("".join([*lines[:2], "...\n", *lines[7:]]) + text).note == (
        "the list of ranks is shortened: it has 3 of 8"
    )


def test_separators_of_thousands_and_decimal_commas_are_no_columns(read):
    text = table("allreduce", 8, TIMES_s)
    grouped = re.sub(r"\d{4,}(?=\.|\s)", lambda found: f"{int(found[0]):,}", text)
    assert "67,108,864" in grouped
    assert times(read(grouped)) == TIMES_s
    assert times(read(re.sub(r"(\d)\.(\d)", r"\1,\2", text))) == TIMES_s


def test_tables_of_the_same_sizes_are_not_mixed(read):
    fast, slow = (table("allreduce", 8, {size: times * time_s for size, time_s in TIMES_s.items()}) for times in (1, 3))
    with pytest.raises(FileError, match=r"holds 2 tables with the same sizes .*; expected one of them"):
        read(fast + slow)
    small = {size // 2: time_s for size, time_s in TIMES_s.items()}
    both = read(fast + table("allreduce", 8, small))
    assert times(both) == {**TIMES_s, **small}
    assert both.note.startswith("2 tables of other sizes are taken as one; they begin at line 2, line ")


@pytest.mark.parametrize(
    ("cells", "other", "named"),
    [
        ("float  sum  -1", "half  sum  -1", "float sum; half sum"),  # -d all
        ("float  sum  -1", "float  max  -1", "float sum; float max"),  # -o all
        ("float  none  0", "float  none  1", "float none root 0; float none root 1"),  # -r all
    ],
)
def test_rows_of_several_types_operators_or_roots_are_not_one_measurement(read, cells, other, named):
    heading = columns(["size", "count", "type", "redop", "root"])
    text = heading + "".join(rows(each, "allreduce" if "sum" in cells else "broadcast", parts=False)
                             for each in (cells, other))  # fmt: skip
    with pytest.raises(FileError, match=f"differ in type, redop or root \\({named}\\); expected the rows of one"):
        read(text, "allreduce" if "sum" in cells else "broadcast")


@pytest.mark.parametrize(
    "line",
    ["#   Rank  0 Pid  77 on  host device  0 [0x07] NVIDIA", "#   Rank  0 uses device  0 [0x07] NVIDIA",
     "#   Device  0 ->  0 [0x07] NVIDIA", "  Rank  0 on  host device  0 [0000:07:00] NVIDIA"],
)  # fmt: skip
def test_ranks_are_listed_in_several_forms(line):
    found = listed(line)
    assert (found.rank, found.device, found.name) == (0, 0, "NVIDIA")
    assert found.host == ("host" if "host" in line else None)


# ---- wrong elements


def test_wrong_elements_count_out_of_place_and_in_place(read):
    text = HEADING + row("allreduce", 8, MiB, 1e-4) + row("allreduce", 8, 4 * MiB, 2e-4, wrong=2, inside=32)
    found = read(text + "# Out of bounds values : 2 FAILED\n")
    assert [each.wrong for each in found.rows] == [0, 34]
    assert found.wrong == "wrong elements: 2 at 4 MiB (out of place), 32 at 4 MiB (in place)"


def test_wrong_elements_that_rccl_tests_marks_are_counted(read):
    found = read(HEADING + row("allreduce", 8, GiB, 4e-3, "12*", 3))
    assert (found.rows[0].wrong, found.wrong) == (
        15,
        "wrong elements: 12 at 1 GiB (out of place), 3 at 1 GiB (in place)",
    )


def test_a_last_line_that_says_failed_counts_where_rows_have_errors_alone(read):
    words = columns(["size", "count", "type", "redop"])
    text = words + rows("float  sum", "allreduce", parts=False, wrong="5e-07")
    assert read(text + "# Out of bounds values : 0 OK\n").wrong == ""
    said = "its last lines say FAILED: 1 values out of bounds, at"
    assert read(text + " Out of bounds values : 1 FAILED\n").wrong == f"{said} sizes that its table does not say"
    for failed in ("3e-01", "2e-06*"):  # rccl-tests marks it
        failing = text.replace("5e-07", failed, 1)
        assert read(failing + "# Out of bounds values : 1 FAILED\n").wrong == f"{said} 64 MiB"


# ---- JSON


def written(alg_bw, **more):
    timed = {"time": 4000.0, "alg_bw": alg_bw, "bus_bw": alg_bw * 1.75, "nwrong": 0.0}
    result = {"size": GiB, "count": GiB // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": timed}
    return json.dumps({"version": 3, "results": [{**result, "in_place": {**timed, **more}}]})


def test_json_is_held_against_itself_too(read):
    found = read(written(GiB / 4e-3 / 1e9), name="a.json")
    assert (found.collective, found.gpus, times(found)) == ("allreduce", 8, {GiB: 0.004})
    with pytest.raises(FileError, match=r"result 1: 1073741824 B in 4000 us are 268.4 GB/s, and its algbw is 42"):
        read(written(42.0), name="a.json")
    assert read(written(GiB / 4e-3 / 1e9, nwrong=5.0), name="a.json").wrong == "wrong elements: 5 at 1 GiB (in place)"
    with pytest.raises(FileError, match="its times are of the CPU"):
        read(written(GiB / 4e-3 / 1e9, cpu_time=3.0), name="a.json")


# ---- what is pasted


@pytest.mark.parametrize("label", ["0: ", "[0] ", "[1,0]<stdout>:", "2026-01-31T03:04:05Z ", "    ", "node01: "])
def test_tables_are_read_as_launchers_label_them(read, label):
    text = rank_list({"a": 4, "b": 4}) + table("allreduce", 8, TIMES_s)
    found = read("".join(f"{label}{line}\r\n" for line in text.splitlines()))
    assert (times(found), found.gpus, found.ranks.complete) == (TIMES_s, 8, True)
    assert Counter(rank.host for rank in found.ranks.ranks) == {"a": 4, "b": 4}


def test_labels_that_stand_against_the_cells_before_them_are_no_part_of_them(read):
    text = table("allreduce", 8, TIMES_s).replace("      -1  ", "      -1[3]  ").replace("      0  ", "      0[3]  ")
    assert text.count("[3]") == 2 * len(TIMES_s)
    assert times(read(text)) == TIMES_s


def test_a_published_table_below_srun_label(read):
    text = """\
0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
0:       524288          4096     float    none      -1    692.3    0.76    0.73      0    678.9    0.77    0.75      0
0:      1048576          8192     float    none      -1   1456.6    0.72    0.70      0   1304.0    0.80    0.78      0
0:      2097152         16384     float    none      -1    70248    0.03    0.03      0    73593    0.03    0.03      0
"""
    found = read(text, "allgather", 32)
    assert [(row.size_bytes, round(row.time_s * 1e6, 1)) for row in found.rows] == [
        (2**19, 692.3), (2**20, 1456.6), (2**21, 70248.0)
    ]  # fmt: skip
    assert (found.gpus, found.left_out) == (32, ())


def test_a_published_table_whose_values_are_wrong_in_place_alone(read):
    text = """\
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1   477.32    2.20    2.20       0   492.81    2.13    2.13      32
     4194304       1048576     float     sum      -1   787.11    5.33    5.33       0   404.71   10.36   10.36       0
# Out of bounds values : 1 FAILED
"""
    assert read(text, "allreduce", 2).wrong == "wrong elements: 32 at 1 MiB (in place)"


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (" RDMA_Write BW Test\n#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
         "2          2000             5.32               5.30                2.77\n", "perftest"),
        (" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n 2    1000     1.02\n", "perftest"),
        ("[ ID] Interval        Transfer     Bitrate\n[  5]   0.00-1.00   sec  1.10 GBytes  9.4 Gbits/sec\n", "iperf"),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-19\n", "nvidia-smi topo -m"),
        ("node:77:78 [0] NCCL INFO Channel 00/08 : 0 1\n", "a log of NCCL"),
        ("nvbandwidth Version: v0.5\n\nRunning host_to_device_memcpy_ce.\n", "nvbandwidth: copies between pairs"),
        ("[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n", "p2pBandwidthLatencyTest: copies between pairs of GPUs"),
        ("# OSU MPI-CUDA Bandwidth Test v5.6.2\n1  0.10\n", "the OSU micro-benchmarks, which `bench --import` reads"),
        ("GPU 0: NVIDIA H200 (UUID: x)\n\t Link 0: 26.562 GB/s\n", "nvidia-smi nvlink -s, which `topology"),
        ('<system version="1">\n  <cpu numaid="0"/>\n</system>\n', "a topology in XML"),
        ("Collective:             Alltoall\nMemory type:            cuda\n", "ucc_perftest"),
        ("\tCOMMS-RES-all_reduce-float32\t\tsize (B)\n", "PARAM's benchmark"),
        (" Time (%)  Total Time (ns)  Instances   Avg (ns)  Name\n", "Nsight Systems"),
        ("   Name    Self CPU %      Self CPU   CPU total %\n", "the table of a PyTorch profile"),
        ("=========== TransferBench v1.50 ===========\n", "TransferBench"),
        ("        #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n", "oneCCL's benchmark"),
        ("seq: (g=0): rw=read, bs=(R) 1024KiB, ioengine=libaio, iodepth=32\n", "fio"),
        ("---- Performance of all_reduce on 8 devices -----\n", "DeepSpeed's ds_bench"),
        ("| payload |    busbw   |    algbw   |\n|   32KiB |   1.44GBps |   0.82GBps |\n", "all_reduce_bench.py"),
        ("data_size(Bytes):     | aveg_time(us):     | alg_bandwidth(GB/s):\n", "hccl_test"),
        ("     size(B)    count(elems)     type    time(us)\n", "nccom-test"),
        ("+----+\n|  NvLink Link Status  |\nGPUs:\n    gpuId 0:\n        U U D\n", "dcgmi"),
        ("GPU0GPU1CPU Affinity\nGPU0XNODE0-31\nGPU1NODEX0-31\n", "nvidia-smi topo -m, without the blanks"),
        ("Iter #0: 108.3 img/sec per GPU\nTotal img/sec on 4 GPU(s): 432.8 +-4.9\n", "a program that trains"),
        ("10\timages/sec: 204.8 +/- 0.1 (jitter = 0.6)\t9.2\n", "a program that trains"),
        ("Epoch: [0][ 10/313]\tTime  0.402 ( 1.232)\tData  0.000\n" * 3, "a program that trains"),
        (" iteration 100/ 500 | elapsed time per iteration (ms): 2345.6 |\n", "a program that trains"),
        ("[2023-07-19 00:33:08] [timer.py:215:stop] RunningAvgSamplesPerSec=25.34\n", "a program that trains"),
    ],
)  # fmt: skip
def test_other_programs_are_refused_by_their_name(read, text, program):
    with pytest.raises(FileError, match=f"is of {program}.*; expected results of nccl-tests"):
        read(text, "allreduce", 2)
