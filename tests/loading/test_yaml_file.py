"""YAML as plain values with lines: what a bare word stands for, and what is refused on which line."""

import re

import msgspec
import pytest
import yaml

from resnetx.errors import FileError
from resnetx.loading import MAX_DEPTH, YamlFile
from resnetx.settings.files import CONFIGS

OURS = [*CONFIGS.rglob("*.yaml"), *(CONFIGS.parent / "results" / "published").glob("*.yaml")]


@pytest.fixture
def read(tmp_path):
    def make(text: str | bytes, **more) -> YamlFile:
        (tmp_path / "it.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return YamlFile(tmp_path / "it.yaml", "a letter", where="it.yaml", **more)

    return make


@pytest.fixture(params=["C", "Python"])
def either_parser(request, monkeypatch):
    """Both parsers, as the fast one is not everywhere."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    return request.param


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_files_say_what_they_said_to_a_parser_that_knows_all_of_yaml(path):
    assert YamlFile(path, "ours", whole_keys=True).tree == yaml.safe_load(path.read_text())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False),
        ("5", 5), ("-7", -7), ("+3", 3), ("1_000", 1000), ("0", 0), ("9223372036854775807", 2**63 - 1),
        ("0.5", 0.5), ("1e-3", 1e-3), ("1E6", 1e6), (".5", 0.5), ("-2.", -2.0),
        # what YAML 1.1 takes for booleans, octal and sexagesimal numbers, and dates
        ("yes", "yes"), ("NO", "NO"), ("on", "on"), ("off", "off"), ("010", "010"), ("0x10", "0x10"),
        ("12:30:45", "12:30:45"), ("2026-01-01", "2026-01-01"), ("2026-01-01 10:00:00", "2026-01-01 10:00:00"),
        ("1.2.3", "1.2.3"), ("=", "="), ("'5'", "5"), ('"true"', "true"), ("a b", "a b"), ("${a}", "${a}"),
    ],
)  # fmt: skip
def test_a_bare_word_is_what_it_is_on_the_command_line_or_text(read, either_parser, text, value):
    found = read(f"a: {text}").tree["a"]
    assert (found, type(found)) == (value, type(value))


REFUSED = {
    "endless": ("a: 1\nb: .nan", 2, ".nan: expected a finite number"),
    "infinite": ("a: -.inf", 1, "-.inf: expected a finite number"),
    "overflow": ("a: 1e999", 1, "1e999: expected a finite number"),
    "long number": (f"a: {'9' * 10_000}", 1, "a whole number of more than 64 bits"),
    "65 bits": ("a: 18446744073709551616", 1, "18446744073709551616: a whole number of more than 64 bits"),
    "long fraction": (f"a: 0.{'1' * 10_000}", 1, "expected a finite number of at most 40 digits"),
    "key twice": ("a: 1\nb: 2\na: 3", 3, "a appears twice"),
    "number as key": ("a:\n  1: x", 2, "expected a word as the key"),
    "list as key": ("? [a, b]\n: x", 1, "expected a word as the key"),
    "group as key": ("a: 1\n{b: 1}: x", 2, "expected a word as the key"),
    "tag": ("a: 1\nb: !!str 5", 2, "tag:yaml.org,2002:str: YAML tags are not supported; expected plain values"),
    "code": ("!!python/object/apply:os.system [ls]", 1, "YAML tags are not supported; expected plain values"),
    "second document": ("a: 1\n---\nb: 2", 2, "a second document begins here"),
    "unknown alias": ("a: 1\nb: *c", 2, "*c: no earlier value has this anchor"),
    "value in itself": ("a: &a [1, *a]", 1, "*a: no earlier value has this anchor"),
    "merged word": ("a: 1\nb: {<<: word}", 2, "<<: expected one group of settings"),
    "closed bracket": ("a: 1\nb: ]", 2, "not YAML"),
    "control character": ("a: \x1b[2J", None, "not YAML"),
    "not UTF-8": (b"a: 1\nb: \xff", 2, "byte 0xff is not UTF-8; expected a letter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_with_its_line(read, either_parser, case):
    text, line, said = REFUSED[case]
    with pytest.raises(FileError, match=re.escape(said)) as refusal:
        read(text)
    assert str(refusal.value).startswith(f"it.yaml{f', line {line}' if line else ''}: ")
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "{a: ["])
def test_nesting_is_refused_long_before_the_stack_is_full(read, opening):
    with pytest.raises(FileError, match=rf"nested more than {MAX_DEPTH} deep; expected a letter|expected a word as"):
        read("about: " + opening * 100_000 if opening[0] in "[{" else opening * 100_000)


def test_aliases_are_counted_as_what_they_stand_for(read):
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    with pytest.raises(FileError, match="line 5: more than 100000 values"):
        read("\n".join(lines))
    assert read("\n".join(lines[:3])).tree["c"][9][9] == ["x"] * 10


def test_groups_are_merged_and_their_own_keys_win(read):
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: {<<: *a}"
    found = read(text)
    assert found.tree == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}
    assert [found.line(["b", "x"]), found.line(["b", "y"])] == [3, 4]


def test_keys_may_be_whole_numbers_where_that_is_asked_for(read):
    assert read("{1: a, b: c}", whole_keys=True).tree == {1: "a", "b": "c"}


def test_each_value_knows_its_line(read):
    found = read("a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n")
    assert [found.line(path) for path in ([], ["a"], ["b"], ["b", 0], ["b", 1], ["b", 1, "d"])] == [1, 1, 2, 3, 4, 5]
    assert found.line(["b", 1, "nothing"]) == 4  # the nearest that holds it
    assert found.line(["b", 7, "d"]) == 2


def test_what_has_another_type_is_refused_with_its_line(read):
    with pytest.raises(FileError, match=r"^it\.yaml, line 3: sizes\[1\]=x: expected a whole number$"):
        read("sizes:\n  - 1\n  - x").convert(Sizes)


class Sizes(msgspec.Struct):
    sizes: list[int]
