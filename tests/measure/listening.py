"""What listens: read from the kernel, by the sockets that processes hold."""

import ipaddress
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses on which any of these processes listens for TCP."""
    held = _sockets(pids)
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {_address(row[1]) for row in rows if row[3] == _LISTEN and row[9] in held}


def foreign(addresses: Iterable[str]) -> set[str]:
    """Those that are not of the loopback interface."""
    return {each for each in addresses if not ipaddress.ip_address(each).is_loopback}


def _sockets(pids: Iterable[int]) -> set[str]:
    """Inodes of the sockets that the processes hold."""
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has ended
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    found.update(re.findall(r"socket:\[(\d+)\]", str(handle.readlink())))
    return found


def _address(entry: str) -> str:
    """The address of "0100007F:1F90", which the kernel writes in words of the host's byte order."""
    words = entry.partition(":")[0]
    packed = b"".join(struct.pack("=I", int(words[start : start + 8], 16)) for start in range(0, len(words), 8))
    return str(ipaddress.ip_address(packed))
