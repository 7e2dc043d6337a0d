"""The bytes of a file: of a regular one, never more than a limit, unpacked where it is packed."""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from resnetx.errors import FileError, shortened
from resnetx.units import size_text

PIECE_BYTES = 2**20  # that are unpacked at once: however large a file says that it gets, no more is in memory too early
GZIP = b"\x1f\x8b"

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _without_blocking(path: str, flags: int) -> int:
    """Opens what may have become a pipe meanwhile, which would wait for a writer; Windows has no such files."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@dataclass(frozen=True)
class File:
    """A file to be read, and what it should be."""

    path: Path
    what: str  # "a study"
    limit_bytes: int  # unpacked
    where: str = ""  # what sentences about it begin with, as "study=mine.yaml"; "": its path

    def error(self, sentence: str, line: int | None = None) -> FileError:
        """The error that says a sentence of this file, or of a line of it."""
        place = f"{shortened(self.where or self.path, 1000)}{'' if line is None else f', line {line}'}"
        return FileError(f"{place}: {shortened(sentence, 1000)}")

    def content(self) -> bytearray:
        """All that is in it."""
        with self._opened() as stream:
            return self._all_of(stream, os.fstat(stream.fileno()).st_size + 1)

    def unpacked(self) -> bytearray:
        """All that is in it; where it is packed by gzip, all that was packed."""
        with self._opened() as stream:
            packed = stream.read(len(GZIP)) == GZIP
            stream.seek(0)
            if not packed:
                return self._all_of(stream, PIECE_BYTES)
            try:
                with gzip.open(stream) as unpacking:
                    return self._all_of(cast(BinaryIO, unpacking), PIECE_BYTES)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self.error(f"truncated or not gzip ({error})") from None

    def text(self) -> str:
        """The same as text; a byte-order mark is left out."""
        return self.decoded(self.content())

    def decoded(self, data: bytes | bytearray) -> str:
        """Bytes of this file as text."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.error(f"byte 0x{data[error.start]:02x} is not UTF-8; expected {self.what}", line) from None

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, open; whatever the system says against it becomes a sentence."""
        try:
            self._check_kind(self.path.stat().st_mode)  # before it is opened, as opening moves some devices
            with open(self.path, "rb", opener=_without_blocking) as stream:
                self._check_kind(os.fstat(stream.fileno()).st_mode)
                yield stream
        except OSError as error:
            raise self.error(error.strerror or str(error)) from None
        except ValueError as error:
            if "null byte" not in str(error):
                raise
            raise self.error("no file has such a name: it holds a NUL") from None

    def _check_kind(self, mode: int) -> None:
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
            raise self.error(f"{kind}; expected {self.what}, which is a regular file")

    def _all_of(self, stream: BinaryIO, piece_bytes: int) -> bytearray:
        data = bytearray()
        while len(data) <= self.limit_bytes and (piece := stream.read(min(piece_bytes, self.limit_bytes + 1))):
            data += piece
        if len(data) > self.limit_bytes:
            raise self.error(f"larger than {size_text(self.limit_bytes)}; expected {self.what}")
        return data


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False for names that no file can have, which pathlib raises an error for."""
    return _mode_is(path, stat.S_ISREG)


def is_folder(path: Path) -> bool:
    """The same of a folder."""
    return _mode_is(path, stat.S_ISDIR)


def _mode_is(path: Path, test: Callable[[int], bool]) -> bool:
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):
        return False
