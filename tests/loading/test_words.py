"""Which words are names."""

import pytest

from resnetx.loading import name_fault


@pytest.mark.parametrize("name", ["paper", "my study", "größe", "gx8+nvme (2)", "gpu0..3", "v1.2", "a" * 100])
def test_names_are_what_people_give(name):
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../../pwned", "not a path"),
        ("/etc/passwd", "not a path"),
        ("a\\b", "not a path"),
        ("", "expected a name"),
        (" a", "without spaces around it"),
        (".hidden", "does not begin with"),
        ("..", "does not begin with"),
        ("-rf", "does not begin with"),
        ("~root", "does not begin with"),
        ("a\0b", "printable"),
        ("a\nb", "printable"),
        ("a\x1b[2Jb", "printable"),
        ("a\u202eb", "printable"),
        ("a\udcffb", "printable"),
        ("ä" * 51, "at most 100 bytes"),
    ],
)
def test_what_leads_elsewhere_or_is_shown_as_something_else_is_no_name(name, fault):
    assert fault in name_fault(name)
