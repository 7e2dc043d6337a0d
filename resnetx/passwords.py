"""Passwords inside addresses, `https://user:password@host`, which no record may have."""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

# The part of an address between :// and @ (RFC 3986, userinfo). A user's name alone is hidden, too: it may be a token.
# With a colon in it, it may have what should have been escaped, a / in a password.
_USERINFO = re.compile(rb"(?<=://)(?!\*\*\*@)(?:[^\s/?#\"'<>@\\]*:[^\s\"'<>\\]*|[^\s/?#\"'<>\\]*)@")


def has_password(text: str) -> bool:
    """Whether a text has an address with a user or a password in it."""
    return bool(_USERINFO.search(text.encode(errors="replace")))


def without_passwords(data: bytes) -> bytes:
    """A text, or JSON, with `***` for the user and the password of every address."""
    return _USERINFO.sub(b"***@", data)


def hide_in(log: Path) -> None:
    """Hides the passwords that others have written into a log, line by line; a log without any stays as it is."""
    with log.open("rb") as lines:
        if not any(_USERINFO.search(line) for line in lines):
            return
    with tempfile.TemporaryFile() as hidden:
        with log.open("rb") as lines:
            hidden.writelines(map(without_passwords, lines))
        hidden.seek(0)
        with log.open("wb") as whole:
            shutil.copyfileobj(hidden, whole)


def plain(part: Any) -> Any:
    """A record, or a part of one, as plain values without passwords: what leaves the machine."""
    return msgspec.json.decode(without_passwords(msgspec.json.encode(part)))
