"""What happens to files: bits flip, disks fill up, programs and people write something else than they should.

A mutation takes valid content and gives other content. Some know nothing of the format; others change the tree of a
JSON document (which is YAML, too); `fields` keeps its shape, and so comes furthest into what reads it.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]  # content, and other samples of the same format

NUMBERS = [
    b"0", b"-0", b"-1", b"1", b"0.0", b"-1.5", b"1e-308", b"5e-324", b"1e308", b"-1e308", b"1e999", b"-1e999", b"NaN",
    b"Infinity", b".nan", b".inf", b"4294967296", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"9" * 40, b"9" * 5000, b"0x10", b"010", b"1_000", b"1e3",
    b"12:30:45",
]  # fmt: skip
WORDS = [
    b"", b"null", b"true", b"NO", b"yes", b"2026-01-01", b"../../../pwned", b"/etc/passwd", b"${oc.env:HOME}", b"${",
    b"<script>", b"=1+1", b"a" * 5000, b"\\u0000", b"\\u001b[2J", b"\\ud800", b"\\udc00\\ud800", b"\\u202e", b"CPU",
    b"ok", b"all_reduce", b"%s%n", b"{}", b"[]", b"!!python/object/apply:os.system [ls]", b"*a", b"&a", b"<<",
    b"gpu0..99999999",
]  # fmt: skip
BROKEN_TEXT = [
    b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\x1b[2J", b"\xe2\x80\xa8", b"\x85", b"\r", b"\t", b"\xf0\x9f\x92\xa9",
]  # fmt: skip
NESTING = [(b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"{a: ", b"}"), (b"(", b")")]


# ---- bytes ----------------------------------------------------------------------------------------------------------


def _place(random: Random, data: bytes) -> int:
    return random.randrange(len(data) + 1)


def _range(random: Random, data: bytes, most: int = 200) -> tuple[int, int]:
    begin = _place(random, data)
    return begin, min(len(data), begin + random.randrange(1, most))


def flip_bits(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data or b" ")
    for _ in range(random.choice((1, 1, 1, 4, 64))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _place(random, data)]


def cut_out(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _range(random, data)
    return data[:begin] + data[end:]


def repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _range(random, data)
    return data[:end] + data[begin:end] * random.choice((1, 2, 50)) + data[end:]


def splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    return data[: _place(random, data)] + other[_place(random, other) :]


def insert(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, what = (
        _place(random, data),
        random.choice((random.choice(WORDS), random.choice(BROKEN_TEXT), random.randbytes(8))),
    )
    return data[:at] + what + data[at:]


def _replaced(random: Random, data: bytes, pattern: bytes, what: bytes) -> bytes:
    """The content with one of the places that a pattern has in it replaced: the first from anywhere on."""
    place = re.compile(pattern).search(data, _place(random, data)) or re.search(pattern, data)
    return data[: place.start()] + what + data[place.end() :] if place else data + what


def another_number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(random, data, rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", random.choice(NUMBERS))


def another_word(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(random, data, rb"[A-Za-z_]{2,}", random.choice(WORDS))


def no_text(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(random, data, rb"[A-Za-z_]", random.choice(BROKEN_TEXT))


def line_again(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A line stands twice, as with a key that is given twice; or elsewhere."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    return b"".join(lines)


def nest(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    opening, closing = random.choice(NESTING)
    depth, at = random.choice((3, 40, 40, 900, 2000)), _place(random, data)
    if random.random() < 0.03:  # which takes its time
        depth = 100_000
    inside = b"1" if random.random() < 0.5 else b""
    return data[:at] + opening * depth + inside + closing * (depth if random.random() < 0.5 else 0) + data[at:]


def swap_brackets(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(
        random, data, rb"[\[\]{}:,\"']", random.choice((b"[", b"]", b"{", b"}", b":", b",", b'"', b"'", b"#"))
    )


BYTES: tuple[Mutation, ...] = (
    flip_bits, truncate, cut_out, repeat, splice, insert, another_number, another_word, no_text, line_again, nest,
    swap_brackets,
)  # fmt: skip


# ---- trees ----------------------------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30, 0.0, -0.0, 0.5, -1.5, 1e-300,
    5e-324, 1e300, 1.7e308, "", "x", "../../../pwned", "${oc.env:HOME}", "a\0b", "\x1b[2J", "a\u202eb", "a" * 3000, "1",
    "-1", "nan", "4MiB", [], {}, [[]], [None], [0], [1, 2, 3], [-1.0], {"a": 1}, {"": {}}, [1e300] * 3,
    [[1.0], [1.0, 2.0]],
]  # fmt: skip


def tree(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A JSON document with some of its values changed, moved, repeated or left out."""
    document = json.loads(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        document = _change(random, document, others)
    lines = random.choice((None, (",\n", ": ")))  # not `indent`, with which Python's own encoder is ten times slower
    return json.dumps(document, separators=lines).encode()


def _change(random: Random, document: Any, others: Sequence[bytes]) -> Any:
    containers = _containers(document)
    if not containers:
        return _value(random)
    above = random.choice(containers)
    key = random.choice(list(above)) if isinstance(above, dict) else random.randrange(len(above))
    match random.choice((0, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 6, 6, 7, 7)):
        case 0:
            del above[key]
        case 1 | 2:
            above[key] = _value(random)
        case 3:
            above[key] = _extreme(random, above[key])
        case 4:
            other = json.loads(random.choice(others))
            above[key] = random.choice(_containers(other) or [other])
        case 5 if isinstance(above, list):
            above.insert(key, deepcopy(above[key]))
        case 5:
            above[random.choice(["a", "", "<<", f"{key}x", *above])] = deepcopy(above[key])
        case 6 if isinstance(above, list):
            random.shuffle(above)
        case 6:
            above[key] = deepcopy(above[random.choice(list(above))])
        case 7 if isinstance(above, list):
            del above[random.randrange(len(above)) :]
        case 7:
            above[random.choice(["unknown", "kind", "schema"])] = _value(random)
    return document


def _value(random: Random) -> Any:
    """One of its own, as it may be changed."""
    return deepcopy(random.choice(VALUES))


def _extreme(random: Random, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice([0, 1, -1, value + 1, -value, value * 1000, 2**31, 2**62, -(2**62)])
    if isinstance(value, float):
        return random.choice([0.0, -value, value * 1e6, value * 1e-6, 1e-300, 1e300, 1.7e308, -1e300])
    if isinstance(value, str):
        return random.choice(["", value * 2, value[:-1], value.upper(), "x", "CPU", "a\0b", "\x1b[2J", "ä" * 2000])
    if isinstance(value, list):
        return random.choice([[], value[:1], value * 2, value[::-1], [value], value[1:]])
    return {} if isinstance(value, dict) else 0


def _containers(document: Any) -> list[Any]:
    """All lists and dictionaries of a document that are not empty."""
    found, ahead = [], [document]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict | list) and value:
            found.append(value)
            ahead += value.values() if isinstance(value, dict) else value
    return found


# ---- fields ---------------------------------------------------------------------------------------------------------

Keys = tuple[str | int, ...]  # the way to a value: keys, and places in lists


def fields(random: Random, data: bytes) -> bytes:
    """A JSON document of the same shape in which some fields have other values: 0, null, negative, huge, NaN, empty.

    A field is drawn by its name, however often it is there, and changed in one place or in all.
    """
    document, known = json.loads(data), _fields(bytes(data))
    names = list(known)
    for _ in range(random.choice((1, 1, 1, 2, 4)) if names else 0):
        places = known[random.choice(names)]
        some = places if random.random() < 0.4 else [random.choice(places)]
        choice = random.random()
        for keys in some:
            with suppress(KeyError, IndexError, TypeError):  # an earlier change has taken it away
                above = _value_at(document, keys[:-1])
                above[keys[-1]] = other_value(choice, above[keys[-1]])
    return json.dumps(document).encode()


def _value_at(document: Any, keys: Keys) -> Any:
    for key in keys:
        document = document[key]
    return document


@lru_cache(maxsize=64)
def _fields(data: bytes) -> dict[tuple[str, ...], list[Keys]]:
    """The places of each field, by the names on the way to it; those of a list have one."""
    found: dict[tuple[str, ...], list[Keys]] = {}
    ahead: list[tuple[tuple[str, ...], Keys, Any]] = [((), (), json.loads(data))]
    while ahead:
        names, keys, above = ahead.pop()
        items = above.items() if isinstance(above, dict) else enumerate(above) if isinstance(above, list) else ()
        for key, value in items:
            path = (*names, key if isinstance(key, str) else "[]")
            found.setdefault(path, []).append((*keys, key))
            ahead.append((path, (*keys, key), value))
    return found


def other_value(choice: float, value: Any) -> Any:
    """Another value of mostly the same type; the same for the same choice, from 0 to 1."""
    options: list[Any] = [None, 0, ""]
    if isinstance(value, bool):
        options = [not value, None]
    elif isinstance(value, int):
        options = [0, 0, 0, 1, -1, -value, value + 1, 2**31, 2**53, 2**62, -(2**62), None, value / 2]
    elif isinstance(value, float):
        options = [0.0, 0.0, 0, -1.0, -value, 1e-300, 5e-324, 1e18, 1e300, 1.7e308, float("nan"), float("inf"), None]
    elif isinstance(value, str):
        options = ["", "", "0", "x", value * 2, value[:1], " ", "CPU", None]
    elif isinstance(value, list):
        options = [[], [], value[:1], value[:-1], [*value, *deepcopy(value)], value[::-1], [deepcopy(value)], None]
    elif isinstance(value, dict):
        options = [{}, {key: value[key] for key in list(value)[:1]}, dict(list(value.items())[1:]), None]
    return options[int(choice * len(options))]
