"""Structs as tables."""

import builtins

import msgspec

from resnetx.record.comparisons import Estimate
from resnetx.reporting.csv_tables import estimate_cells, summary_cells, table_of
from resnetx.statistics import Summary
from resnetx.table import Column, Table, as_shown


class Row(msgspec.Struct, kw_only=True):
    name: str
    devices: list[int] | None


SUMMARY, ESTIMATE = Summary(2.0, 1.0, 3.0, 6, "interval"), Estimate(value=5.0, low=4.0, high=6.0)


def test_estimates_take_several_columns_whether_they_are_known_or_not():
    known = {**summary_cells("rate", SUMMARY), **estimate_cells("margin", ESTIMATE)}
    assert list(known.items()) == [
        ("rate", 2.0), ("rate_low", 1.0), ("rate_high", 3.0), ("rate_ends", "interval"),
        ("margin", 5.0), ("margin_low", 4.0), ("margin_high", 6.0),
    ]  # fmt: skip
    assert {**summary_cells("rate", None), **estimate_cells("margin", None)} == dict.fromkeys(known)


def test_the_fields_of_a_struct_are_columns_and_a_list_is_one_cell():
    table = table_of([Row(name="a", devices=[0, 5]), Row(name="b", devices=None)])
    assert (table.columns, table.rows) == (["name", "devices"], [["a", "0 5"], ["b", None]])


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
