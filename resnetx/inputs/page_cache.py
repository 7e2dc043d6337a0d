"""How much of some files is in memory already: with a warm page cache the disk is not measured at all.

mincore(2) tells it page by page without reading anything. The kernel answers truthfully only to those who own or may
write the file, and says "all in memory" to everybody else (Linux 5.2 and later), so for others it is not known.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from resnetx.record import Unknown


def resident_share(paths: Sequence[Path]) -> float | Unknown:
    """The share of the files' pages that are in memory, 0 cold to 1 warm, or why it cannot be known."""
    if sys.platform != "linux":
        return Unknown("only Linux tells which pages of a file are in memory")
    pages = resident = 0
    for path in paths:
        try:
            if not (path.stat().st_uid == os.geteuid() or os.access(path, os.W_OK)):
                return Unknown("Linux tells what is in memory only of files that one may write")
            flags = _pages_in_memory(path)
        except OSError as error:
            return Unknown(f"{path}: {error.strerror}")
        pages += len(flags)
        resident += sum(flag & 1 for flag in flags)
    return resident / pages if pages else Unknown("the files are empty")


def _pages_in_memory(path: Path) -> bytes:
    """One byte per page of the file, its lowest bit set where the page is in memory."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return b""
        view = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    data = np.frombuffer(view, dtype=np.uint8)  # tells the address of a read-only map, which ctypes does not
    flags = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(size), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return flags.raw
