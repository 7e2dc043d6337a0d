"""What launchers, log shippers and web pages add to printed lines is taken away, and nothing else."""

import pytest

from resnetx.formats.logs import cells, numbered, plain

LINE = "#       size         count"


@pytest.mark.parametrize(
    "added",
    [
        "0: ",
        "  12: ",
        "[0] ",
        "[rank3]: ",
        "[default0]:",
        "[1,0]<stdout>:",
        "[1,12]<stderr>: ",
        "[prterun-node-1-77@1,0]<stdout>: ",
        "(worker pid=12, ip=10.0.0.1) ",
        "2026-01-31T03:04:05.678901234Z stdout F ",
        "2026-01-31 03:04:05,678 INFO - ",
        "[2026-01-31, 03:04:05 UTC] {subprocess.py:93} INFO - ",
        "Sat Jan 31 03:04:05 2026[1,0]<stdout>:",
        "Jan 31 03:04:05 node01 run[77]: ",
        "03:04:05.123 ",
        "> ",
        "&gt; ",
        "\x1b[1;32m",
        "2026-01-31T03:04:05.678Z [36;1m",
        "\ufeff",
        "2026-01-31T03:04:05Z 0: [1,0]<stdout>:\x1b[0m",
    ],
)
def test_labels_in_front_of_a_line_go(added):
    assert plain(f"{added}{LINE}\n") == f"{LINE}\n"


def test_blanks_behind_a_label_stay():
    assert plain("0:      1048576   8\r\n0:         8   8\r\n") == "     1048576   8\n        8   8\n"


@pytest.mark.parametrize("name", ["node01: ", "worker-0  | ", "[pod/bench-0/main] "])
def test_names_go_where_most_lines_begin_with_one(name):
    text = f"{LINE}\n     1048576   8\n"
    assert plain("".join(f"{name}{line}\n" for line in text.splitlines())) == text


@pytest.mark.parametrize(
    "line",
    [
        "     1048576        262144     float     sum      -1    80.10",
        "#  Rank  0 Group  0 Pid   6287 on     node-a device  0 [0x18] NVIDIA H200",
        "# Out of bounds values : 0 OK",
        "     0 500.90   9.84",
        "GPU0\t X \tNV2\t0-19",
        "Device=0 CAN Access Peer Device=1",
    ],
)
def test_lines_of_programs_stay(line):
    assert plain(f"{LINE}\n{line}\n").splitlines()[1] == line


def test_a_word_with_a_colon_stays_where_few_lines_begin_with_one():
    text = "Device: 0, Tesla P100, pciBusID: 6\n   D\\D     0      1\n     0 500.90   9.84\n"
    assert plain(text) == text


def test_labels_and_rules_between_columns_are_no_cells():
    assert cells("| 1048576 | 262144 [0] float [rank1]: 80.10 [0x18] |") == [
        "1048576",
        "262144",
        "float",
        "80.10",
        "[0x18]",
    ]


def test_a_command_on_several_lines_is_one():
    lines = numbered("mpirun -np 8 \\\n   ./all_reduce_perf \\\n -g 1\nnext\n")
    assert list(lines) == [(3, "mpirun -np 8    ./all_reduce_perf  -g 1"), (4, "next")]


@pytest.mark.parametrize("number", ["{0:4}  ", "{0}\t", "{0}: ", "{0:3} | ", "{0}. "])
def test_numbers_of_lines_go_where_all_lines_have_one(number):
    lines = [LINE, "     1048576   8", "     2097152   8", "# Out of bounds values : 0 OK"]
    numbered_text = "".join(f"{number.format(98 + index)}{line}\n" for index, line in enumerate(lines))
    assert [line.strip() for line in plain(numbered_text).splitlines()] == [line.strip() for line in lines]


@pytest.mark.parametrize(
    "text", ["1  9\n2  9\n4  9\n", "0 1 2\n0 N/A 2\n1 2 N/A\n", "7 8\n8 9\n", "1 a\nb\n2 c\n3 d\n"]
)
def test_numbers_that_do_not_follow_each_other_on_all_lines_stay(text):
    assert plain(text) == text


def test_tags_of_web_pages_go():
    assert plain(f"<details><summary>topo</summary>\n<pre><code>{LINE}</code></pre>a<br>b\n") == f"topo\n{LINE}a\nb\n"
    assert plain("[1,0]<stdout>:a <cpu> b\n") == "a <cpu> b\n"
