"""JSON within bounds: what is too much or too long is refused before it is built."""

from pathlib import Path

import msgspec
import pytest

from resnetx.errors import FileError
from resnetx.loading import MAX_VALUES, File, UnboundedError, decode, read_json, refuse_unbounded

FILE = File(Path("it.json"), "a letter", 2**20)


class Letter(msgspec.Struct):
    to: str
    pages: int = 1
    weight: float = 0.0


def test_json_becomes_a_struct_and_what_has_no_place_in_it_is_skipped(tmp_path):
    path = tmp_path / "a"
    path.write_text('{"to": "you", "more": [[["x"]]], "pages": 9223372036854775807}')
    assert read_json(File(path, "a letter", 100), Letter) == Letter("you", 2**63 - 1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "truncated or not JSON"),
        (b'{"to": "you"\n,}', "truncated or not JSON (line 2: "),
        (b'{"to":\n"\xff"}', "truncated or not JSON (line 2: byte 0xff is not UTF-8)"),
        (b'{"to": "\\udc00"}', "truncated or not JSON (line 1: JSON is malformed: invalid utf-16 surrogate pair)"),
        (b'{"to": "you", "more": ' + b"[" * 100_000, "truncated or not JSON (nested too deeply)"),
        (b'{"to": "you", "weight": NaN}', "truncated or not JSON"),
        (b'{"to": "you", "weight": 1e999}', "not a letter (Number out of range"),
        (b'{"to": 5}', "not a letter (Expected `str`, got `int` - at `$.to`)"),
        (b'{"to": "you", "pages":\n 99999999999999999999}', "line 2: a whole number of 20 digits"),
        (b'{"to": "you", "pages": -' + b"9" * 4000 + b"}", "line 1: a whole number of 4000 digits"),
        (b'{"to": "you", "more": [' + b"1," * 2**24 + b"1]}", "about 16,777,2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_file(data, said):
    with pytest.raises(FileError) as refusal:
        decode(FILE, data, Letter)
    assert str(refusal.value).startswith(f"it.json: {said}")
    assert len(str(refusal.value)) < 400


def test_a_megabyte_where_a_word_belongs_is_not_repeated():
    with pytest.raises(FileError) as refusal:
        decode(FILE, b'{"to": {"' + b"x" * 2**19 + b'": 1}}', dict[str, dict[str, str]])
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "data",
    [
        b'{"to": "call 12345678901234567890 or, 12345678901234567890", "weight": 0.1234567890123456789012345}',
        b'{"to": "say \\"no\\", 12345678901234567890", "weight": 12345678901234567890.5}',
        b'{"to": "x", "weight": -12345678901234567890e-3, "pages": -9223372036854775808}',
    ],
)
def test_long_numbers_in_texts_and_fractions_are_no_whole_numbers(data):
    refuse_unbounded(data)
    assert decode(FILE, data, Letter).to


def test_values_are_counted_by_what_stands_before_them():
    refuse_unbounded(b'[{"a": 1, "b": 2}, 3]', max_values=5)  # two groups, three values in them, less the outermost
    with pytest.raises(UnboundedError, match="about 5 values, of at most 4"):
        refuse_unbounded(b'[{"a": 1, "b": [2]}, 3]', max_values=4)
    assert MAX_VALUES == 2**26 // 4  # as many as the largest record can hold, one on each line
