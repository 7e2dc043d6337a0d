"""Which words from files may name a file or a folder."""

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
