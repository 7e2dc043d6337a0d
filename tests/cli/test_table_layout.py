"""Prose and tables laid out as lines of a terminal."""

import io

import pytest

from resnetx.cli.prose import WIDEST, beside, width_of, wrapped
from resnetx.cli.table_layout import lay_out

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
    assert laid.heading == "workload  GPUs  images/s         range  limited by"
    assert laid.lines[""] == [
        "ResNet/1     1      76.2  73.5 to 78.8  compute",
        "AlexNet     16   1,030.3                communication",
    ]
    assert laid.left_out == []


def test_where_it_does_not_fit_the_least_important_columns_go_first_and_are_named():
    laid = lay_out(COLUMNS, {"": ROWS}, 45, LEAST)
    assert laid.heading == "workload  GPUs  images/s         range"
    assert laid.left_out == ["limited by"]
    assert lay_out(COLUMNS, {"": ROWS}, 30, LEAST).left_out == ["range", "limited by"]


def test_a_less_important_column_has_its_place_where_a_more_important_one_is_too_wide():
    laid = lay_out(COLUMNS, {"": ROWS}, 38, ["range", "limited by"])
    assert laid.heading == "workload  GPUs  images/s         range"
    assert laid.left_out == ["limited by"]


def test_columns_of_one_heading_go_together_and_the_others_from_the_right():
    rows = [["x", "10", "9", "11", "20", "19", "21"]]
    columns = ["name", ">a", ">from", ">to", ">b", ">from", ">to"]
    assert lay_out(columns, {"": rows}, 16, ["to", "from"]).heading == "name   a   b"
    assert lay_out(columns, {"": rows}, 12).heading == "name   a"


def test_tables_of_one_kind_share_their_columns():
    laid = lay_out(["a", ">b"], {"first": [["x", "1"]], "second": [["longer", "1000"]]})
    assert laid.lines == {"first": ["x          1"], "second": ["longer  1000"]}


def test_a_column_without_any_cell_is_none():
    assert lay_out(["a", "b", "c"], {"": [["1", "", "2"], ["3", "", ""]]}).heading == "a  c"
    assert lay_out(["a", "b"], {"": []}).heading == "a  b"


def test_prose_in_the_last_column_goes_on_below_itself():
    laid = lay_out([">points", "~of"], {"": [["3", "one two three four five six seven eight nine ten"]]}, 40)
    assert laid.lines[""] == ["     3  one two three four five six\n        seven eight nine ten"]
    assert lay_out([">points", "~of"], {"": [["3", "word " * 50]]}).lines[""][0].count("\n") == 0


def test_all_of_it_has_every_column_however_narrow_the_terminal_is():
    laid = lay_out(COLUMNS, {"": ROWS}, 30, LEAST, whole=True)
    assert laid.left_out == []
    assert "communication" in laid.lines[""][1]


def test_letters_of_two_columns_are_counted_as_such():
    laid = lay_out(["name", ">n"], {"": [["機械", "1"], ["node", "2"]]})
    assert laid.lines[""] == ["機械  1", "node  2"]
