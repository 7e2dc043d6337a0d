"""How text from anywhere is shown."""

import pytest

from resnetx.errors import ConfigError, has_control, on_one_line, visible


def test_what_a_terminal_would_obey_is_written_out():
    assert visible("a\x1b[31mb\x07\rc\x7f\x9b2Jd") == r"a\x1b[31mb\x07\x0dc\x7f\x9b2Jd"
    assert visible("abc\u202ecba\u2066\u200f\udcff") == r"abc\u202ecba\u2066\u200f\udcff"
    assert visible("two\nlines\tand ä 日本 🎉 é") == "two\nlines\tand ä 日本 🎉 é"


def test_what_enters_a_line_breaks_none():
    assert on_one_line("two\nlines\tand\r\x1b[2J\u2028ä") == r"two\x0alines\x09and\x0d\x1b[2J\u2028ä"
    assert has_control("gpu\n") and has_control("a\tb") and not has_control("größe 日本")


@pytest.mark.parametrize("given", ["a\nresnetx: every record was verified", "a\rb", "a\x1b[2Jb", "a\u2028b"])
def test_a_refusal_is_one_line_whatever_was_given(given):
    said = str(ConfigError(f"name={given}: no such name"))
    assert said == f"name={on_one_line(given)}: no such name"
    assert len(said.splitlines()) == 1 and said.isprintable()
