"""Text from files: what may name a file or a folder, and how text is shown."""

import re

MAX_NAME_BYTES = 100  # file systems allow 255, and resnetx appends to names


def name_fault(name: str) -> str:
    """Why a word may not name a file, a folder or a part of a system, as the end of a sentence; "" if it may.

    A name from a file must not lead to another folder, and must be displayed as it is.
    """
    if not name or name != name.strip():
        return "expected a name without spaces around it"
    if not name.isprintable():  # nor are surrogates, direction controls and line breaks
        return "expected a name of printable characters"
    if "/" in name or "\\" in name:
        return "expected a name, not a path"
    if name.startswith((".", "-", "~")):
        return "expected a name that does not begin with . - or ~"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"expected a name of at most {MAX_NAME_BYTES} bytes"
    return ""


# C0 and C1 controls except tab and newline, direction controls (a terminal would reorder what follows), line breaks
# that terminals treat differently, and code points that are not characters, as surrogates.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """The text with control characters written out, as a terminal would obey them: an escape is `\\x1b`."""
    return UNSHOWN.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
