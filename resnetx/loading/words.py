"""Words from files: which may name a file or a folder, and how text is shown."""

import re

MAX_NAME_BYTES = 100  # a file system takes 255 for a name, and ours get more words added


def name_fault(name: str) -> str:
    """Why a word may not name a file, a folder or a part of a system, as the end of a sentence; "" where it may.

    A name from a file must lead nowhere else, and be shown as what it is.
    """
    if not name or name != name.strip():
        return "expected a name without spaces around it"
    if not name.isprintable():  # nor are surrogates, controls of direction, and breaks of lines
        return "expected a name of printable characters"
    if "/" in name or "\\" in name:
        return "expected a name, not a path"
    if name.startswith((".", "-", "~")):
        return "expected a name that begins with none of . - ~"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"expected a name of at most {MAX_NAME_BYTES} bytes"
    return ""


# C0 and C1 controls but tab and newline, controls of direction (a terminal would show what follows in another order),
# breaks of lines that terminals do not agree on, and what is no character at all, as surrogates.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """The text with what a terminal would obey instead of showing written out: an escape is `\\x1b`."""
    return UNSHOWN.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
