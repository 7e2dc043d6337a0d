"""Passwords inside addresses, `https://user:password@host`, which no record may have."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

# What may be an address, or several in one word, from the first :// on.
_WORD = re.compile(rb"://[^\s\"'<>\\]+")
_USER = re.compile(rb"[^/?#@:]*")
_HIDDEN = b"***"
_PIECE_BYTES = 2**20  # of a log, of which a line may be as long as the log


def has_password(text: str) -> bool:
    """Whether a text has an address with a user or a password in it."""
    data = text.encode(errors="replace")
    return without_passwords(data) != data


def without_passwords(data: bytes) -> bytes:
    """A text, or JSON, with `***` for the user and the password of every address; in time that grows with its length.

    That is the part between :// and @ (RFC 3986, userinfo). A user's name alone is hidden, too: it may be a token. With
    a colon in it, it may have what should have been escaped, a / in a password, and ends at the last @ of the word.
    """
    return _WORD.sub(_word, data) if b"://" in data and b"@" in data else data


def _word(found: re.Match[bytes]) -> bytes:
    """One word of a text without its passwords."""
    word, kept, shown, at = found[0], [], 0, 0
    last = word.rfind(b"@")
    while 0 <= (at := word.find(b"://", at)) < last:
        at += 3
        user = _USER.match(word, at)
        assert user is not None, "it matches nothing, too"
        ends = word[user.end() : user.end() + 1]
        hidden = last if ends == b":" else user.end() if ends == b"@" else at
        if hidden > at and word[at:hidden] != _HIDDEN:
            kept += [word[shown:at], _HIDDEN]
            shown = at = hidden
    return b"".join([*kept, word[shown:]])


def hide_in(log: Path) -> None:
    """Hides the passwords that others have written into a log, whatever the length of its lines.

    A log without any stays as it is.
    """
    with log.open("rb") as file:
        if all(without_passwords(piece) == piece for piece in _pieces(file)):
            return
    with tempfile.TemporaryFile() as hidden:
        with log.open("rb") as file:
            hidden.writelines(map(without_passwords, _pieces(file)))
        hidden.seek(0)
        with log.open("wb") as whole:
            shutil.copyfileobj(hidden, whole)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file in pieces that end between two words; a word that is longer than a piece is taken apart."""
    kept = b""
    while read := file.read(_PIECE_BYTES):
        piece = kept + read
        end = max(piece.rfind(b" "), piece.rfind(b"\n")) + 1
        if len(piece) - end > _PIECE_BYTES:
            end = len(piece)
        yield piece[:end]
        kept = piece[end:]
    yield kept


def plain(part: Any) -> Any:
    """A record, or a part of one, as plain values without passwords: what leaves the machine."""
    return msgspec.json.decode(without_passwords(msgspec.json.encode(part)))
