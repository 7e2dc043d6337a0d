"""How text from anywhere is shown: control characters are written out, as a terminal would obey them.

A name in a file may hold an escape that clears the screen, a character that reverses what follows, or a line break,
behind which it goes on as a line of resnetx's own ("resnetx: every record was verified").

    visible("a\\x1b[2J")          # a\\x1b[2J, and line breaks stay: text of several lines
    on_one_line("a\\nb")          # a\\x0ab: text that enters a sentence, a cell or a line
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

# C0 and C1 controls except tab and newline, direction controls (a terminal would reorder what follows), line breaks
# that terminals treat differently, and code points that are not characters, as surrogates.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
_CONTROL = re.compile(rf"[\t\n]|{UNSHOWN.pattern}")


def visible(text: str) -> str:
    """The text with control characters written out, but for tabs and line breaks: an escape is `\\x1b`."""
    return UNSHOWN.sub(_escape, text)


def on_one_line(text: str) -> str:
    """The text with all control characters written out, tabs and line breaks among them: `\\x0a`."""
    return _CONTROL.sub(_escape, text)


def has_control(text: str) -> bool:
    """Whether a text has a control character: a line break, a tab, an escape."""
    return bool(_CONTROL.search(text))


def texts(value: Any) -> Iterator[str]:
    """All texts in a plain value, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(key)
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
