"""Prose and tables laid out as lines of a terminal."""

import io

import pytest

from resnetx.cli import show
from resnetx.cli.table_layout import WIDEST, beside, lay_out, width_of, wrapped

SENTENCE = "Started again, the sweep keeps what is in results/node1/quickstart/alexnet_b32_g2_46370579_r1 and goes on."


@pytest.mark.parametrize("width", [20, 40, 80])
def test_prose_is_broken_between_words_and_never_inside_one(width):
    lines = wrapped(SENTENCE, width).split("\n")
    assert " ".join(lines) == SENTENCE
    assert all(len(line) <= width or " " not in line for line in lines)


def test_what_stands_in_backticks_is_one_word():
    text = "install what is missing with `python -m pip install vl-convert-python` and start again"
    lines = wrapped(text, 30).split("\n")
    assert "`python -m pip install vl-convert-python`" in lines
    assert " ".join(lines) == text


def test_a_broken_line_goes_on_indented_and_keeps_its_own_indent():
    assert wrapped("  warning: a b", 12, indent=2) == "  warning: a\n    b"


def test_prose_of_a_wide_terminal_is_no_wider_than_one_reads_well():
    assert max(map(len, wrapped("word " * 100, 300).split("\n"))) <= WIDEST


def test_without_a_terminal_nothing_is_broken():
    assert wrapped(SENTENCE * 3, None) == SENTENCE * 3
    assert beside("name", SENTENCE * 3, 10, None) == f"name      {SENTENCE * 3}"
    assert width_of(io.StringIO()) is None


def test_what_is_said_of_a_name_stays_in_its_column():
    assert beside("name", "one two three", 6, 14) == "name  one two\n      three"


# ---- tables

COLUMNS = ["workload", ">GPUs", ">images/s", ">range", "limited by"]
ROWS = [["ResNet/1", "1", "76.2", "73.5 to 78.8", "compute"], ["AlexNet", "16", "1,030.3", "", "communication"]]
LEAST = ["limited by", "range"]


def test_a_table_that_fits_has_all_columns_aligned_and_no_blanks_at_the_end_of_lines():
    laid = lay_out(COLUMNS, {"": ROWS}, 80, LEAST)
    assert laid.blocks[0].heading == "workload  GPUs  images/s         range  limited by"
    assert laid.blocks[0].lines[""] == [
        "ResNet/1     1      76.2  73.5 to 78.8  compute",
        "AlexNet     16   1,030.3                communication",
    ]
    assert laid.left_out == []


def test_where_it_does_not_fit_the_least_important_columns_go_first_and_are_named():
    laid = lay_out(COLUMNS, {"": ROWS}, 45, LEAST)
    assert laid.blocks[0].heading == "workload  GPUs  images/s         range"
    assert laid.left_out == ["limited by"]
    assert lay_out(COLUMNS, {"": ROWS}, 30, LEAST).left_out == ["range", "limited by"]


def test_a_less_important_column_has_its_place_where_a_more_important_one_is_too_wide():
    laid = lay_out(COLUMNS, {"": ROWS}, 38, ["range", "limited by"])
    assert laid.blocks[0].heading == "workload  GPUs  images/s         range"
    assert laid.left_out == ["limited by"]


def test_columns_of_one_heading_go_together_and_the_others_from_the_right():
    rows = [["x", "10", "9", "11", "20", "19", "21"]]
    columns = ["name", ">a", ">from", ">to", ">b", ">from", ">to"]
    assert lay_out(columns, {"": rows}, 16, ["to", "from"]).blocks[0].heading == "name   a   b"
    assert lay_out(columns, {"": rows}, 12).blocks[0].heading == "name   a"


def test_tables_of_one_kind_share_their_columns():
    laid = lay_out(["a", ">b"], {"first": [["x", "1"]], "second": [["longer", "1000"]]})
    assert laid.blocks[0].lines == {"first": ["x          1"], "second": ["longer  1000"]}


def test_a_column_without_any_cell_is_none():
    assert lay_out(["a", "b", "c"], {"": [["1", "", "2"], ["3", "", ""]]}).blocks[0].heading == "a  c"
    assert lay_out(["a", "b"], {"": []}).blocks[0].heading == "a  b"


def test_prose_in_the_last_column_goes_on_below_itself():
    laid = lay_out([">points", "~of"], {"": [["3", "one two three four five six seven eight nine ten"]]}, 40)
    assert laid.blocks[0].lines[""] == ["     3  one two three four five six\n        seven eight nine ten"]
    assert lay_out([">points", "~of"], {"": [["3", "word " * 50]]}).blocks[0].lines[""][0].count("\n") == 0


def test_long_names_in_the_first_column_go_on_below_themselves_and_leave_figures_their_room():
    rows = [["GPT/4 width 256, batch 64, zero1, lab.system=gx8", "3,890.0", "4,708.9"], ["AlexNet", "1.0", "2.0"]]
    for width in (44, 60, 80):
        (block,) = lay_out(["~case", ">A, ms", ">B, ms"], {"": rows}, width).blocks
        lines = "\n".join([block.heading, *block.lines[""]]).split("\n")
        assert max(map(len, lines)) <= width and lines[0].split() == ["case", "A,", "ms", "B,", "ms"]
        assert lines[1].endswith("3,890.0  4,708.9") and lines[-1].split() == ["AlexNet", "1.0", "2.0"]
    assert lay_out(["~case", ">n"], {"": [["x" * 50, "1"], ["y", "2"]]}, 40).left_out == ["n"]


def test_headings_with_commas_that_are_left_out_are_told_apart(monkeypatch, capsys):
    monkeypatch.setattr(show, "width_of", lambda stream: 50)
    rows = [["x" * 45, "1" * 20, "2" * 20], ["y", "1", "2"]]
    show.tables(["name", ">A, ms", ">B, ms"], {"": rows}, least=["A, ms", "B, ms"])
    show.more()
    assert "more: A, ms; B, ms: --all" in " ".join(capsys.readouterr().out.split())


def test_all_of_it_has_every_column_however_narrow_the_terminal_is():
    laid = lay_out(COLUMNS, {"": ROWS}, 30, LEAST, whole=True)
    assert laid.left_out == []
    assert "communication" in "".join(block.lines[""][1] for block in laid.blocks)
    assert max(len(line) for block in laid.blocks for line in [block.heading, *block.lines[""]]) <= 30


def test_letters_of_two_columns_are_counted_as_such():
    laid = lay_out(["name", ">n"], {"": [["機械", "1"], ["node", "2"]]})
    assert laid.blocks[0].lines[""] == ["機械  1", "node  2"]


TWO = [["AlexNet", "256", "1,433.31", "1,485.05", "-3.5%"], ["AlexNet", "256", "6,642.91", "6,426.73", "+3.4%"]]
FIVE = ["workload", ">batch", ">predicted ms", ">measured ms", ">error"]


def test_columns_that_say_the_same_in_all_rows_go_first_and_are_said():
    laid = lay_out(FIVE, {"": TWO}, 40)
    assert [block.heading for block in laid.blocks] == ["predicted ms  measured ms  error"]
    assert laid.same == "In all rows: workload AlexNet, batch 256."
    assert lay_out(FIVE, {"": TWO}, 80).same == ""


def test_a_column_that_has_to_be_shown_goes_on_in_a_block_below_whose_rows_begin_alike():
    rows = [["AlexNet", *TWO[0][1:]], ["ResNet/8", *TWO[1][1:]]]
    laid = lay_out(FIVE, {"": rows}, 24)
    assert [block.heading for block in laid.blocks] == [
        "workload  predicted ms", "workload  measured ms", "workload  error",
    ]  # fmt: skip
    assert laid.blocks[1].lines[""] == ["AlexNet      1,485.05", "ResNet/8     6,426.73"]
    assert laid.left_out == []


def test_a_note_does_not_explain_columns_that_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(show, "width_of", lambda stream: 30)
    note = "step: an iteration. exposed: not hidden."
    rows = [["a", "1.00", "0.10"], ["b", "2.00", "0.20"]]
    show.tables(["name", ">step ms", ">exposed ms"], {"A table": rows}, note)
    assert "not hidden." in capsys.readouterr().out
    rows = [["AlexNet, bf16", "1", "1"], ["GoogLeNet", "2", "2"]]
    show.tables(["workload", ">step ms", ">exposed ms"], {"A table": rows}, note, ["exposed ms"])
    show.more("rings: --all")
    out = " ".join(capsys.readouterr().out.split())
    assert "more: rings: --all (exposed ms)" in out
    assert "not hidden." not in out


def test_a_column_wider_than_the_terminal_is_left_out_and_named():
    rows = [["AlexNet", "a reason that goes on and on", "-3.5%"], ["ResNet/8", "another one", "+3.4%"]]
    laid = lay_out(["workload", "why", ">error"], {"": rows}, 30)
    assert ([block.heading for block in laid.blocks], laid.left_out) == (["workload  error"], ["why"])
    assert lay_out(["a", "b"], {"": [["", ""]]}, 30).blocks[0].lines == {"": [""]}
