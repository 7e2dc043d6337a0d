"""Structs as tables."""

import builtins

import msgspec
import pytest

from resnetx.record.comparisons import Estimate
from resnetx.reporting.csv_tables import table_of
from resnetx.statistics import Summary
from resnetx.table import Column, Table, as_shown


class Row(msgspec.Struct, kw_only=True):
    name: str
    rate: Summary | None
    margin: Estimate | None
    devices: list[int] | None


class Mark(Row, kw_only=True):
    colour: str


SUMMARY, ESTIMATE = Summary(2.0, 1.0, 3.0, 6, "interval"), Estimate(value=5.0, low=4.0, high=6.0)


def test_estimates_take_several_columns_whether_they_are_known_or_not():
    known = Row(name="a", rate=SUMMARY, margin=ESTIMATE, devices=[0, 5])
    table = table_of([known, Row(name="b", rate=None, margin=None, devices=None)])
    assert table.columns == [
        "name", "rate", "rate_low", "rate_high", "rate_ends", "margin", "margin_low", "margin_high", "devices",
    ]  # fmt: skip
    assert table.rows == [["a", 2.0, 1.0, 3.0, "interval", 5.0, 4.0, 6.0, "0 5"], ["b", *[None] * 8]]


def test_a_base_leaves_out_what_only_says_how_a_row_is_drawn_and_a_field_can_be_renamed():
    mark = Mark(name="a", rate=SUMMARY, margin=None, devices=None, colour="red")
    assert "colour" in table_of([mark]).columns
    table = table_of([mark], Row, rate="speedup")
    assert table.columns[1:5] == ["speedup", "speedup_low", "speedup_high", "speedup_ends"]
    assert "colour" not in table.columns
    assert table.records()[0]["speedup"] == pytest.approx(2.0)


def test_a_table_without_rows_has_no_columns():
    assert table_of([]) == Table([], [])


NAMED: list[Column[tuple[str, str, str]]] = [
    Column("GPU", lambda row: row[0]), Column(">RTL before", lambda row: row[1]), Column(">after", lambda row: row[2]),
]  # fmt: skip


def test_columns_that_say_the_same_of_all_rows_become_a_clause_in_text_and_html():
    table = as_shown(NAMED, [("0", "2", "1.5"), ("1", "2", "1.2")])
    assert str(table) == "GPU  after\n0      1.5\n1      1.2\nIn all rows: RTL before 2."
    assert table._repr_html_().endswith("</table><p>In all rows: RTL before 2.</p>")


def test_where_names_alone_tell_rows_apart_the_clause_is_all():
    table = as_shown(NAMED, [("0", "2", "2"), ("1", "2", "2")])
    assert str(table) == "In all rows: RTL before 2, after 2."
    assert table._repr_html_() == "<p>In all rows: RTL before 2, after 2.</p>"
    assert as_shown(NAMED, [("0", "2", "2")]).note == ""


def test_in_a_notebook_the_text_of_a_table_is_returned_and_not_displayed(monkeypatch):
    """rich displays what it prints there, where it is told of no other place (seen with ipykernel 7)."""
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a kernel has it
    assert str(Table(["a"], [[1]])).split() == ["a", "1"]
