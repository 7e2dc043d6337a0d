"""NCCL's log: the only place in which it says which way each connection goes, and where it complains.

A rank has NCCL write into a file of its own, so NCCL's warnings do not reach stderr: where a run fails, they are taken
from there. Loads no torch, as the launcher reads the logs of ranks that were killed.

Reference: NCCL User Guide, "Environment Variables" (NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE).
"""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "resnetx-nccl-"
_MOST_WARNINGS = 20  # lines of one rank that are kept: the first ones, as others follow from them
_LINE = 500  # characters

_logs: list[Path] = []  # of this process


def new_log() -> Path | None:
    """An empty file for this rank's log; None where the user has asked for a log of his own."""
    if any(name in os.environ for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")):
        return None
    handle, name = tempfile.mkstemp(prefix=f"{_PREFIX}{os.getpid()}-", suffix=".log")
    os.close(handle)
    _logs.append(Path(name))
    return _logs[-1]


def variables(log: Path, choices: bool = False) -> dict[str, str]:
    """What makes NCCL write into the log, while a communicator is made.

    `choices`: also, for every operation, its algorithm and protocol, which takes the host a few us each.
    """
    parts = "INIT,P2P,NVLS" + ",TUNING" * choices
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": parts, "NCCL_DEBUG_FILE": str(log)}


def taken(log: Path | None) -> str:
    """What is in the log, which is then gone; "" where there is none."""
    if log is None:
        return ""
    try:
        text = log.read_text(errors="replace")
        log.unlink()
    except OSError:
        return ""
    return text


def warnings_left(folder: Path | None = None) -> str:
    """What NCCL warned of in the logs that ranks left in a folder, a line each; the logs are then gone.

    None: the logs that this process has made. A folder that others can write into is not searched: what has the name
    of a log there may be anything.
    """
    logs = sorted(folder.glob(f"{_PREFIX}*.log")) if folder else _logs
    lines = [line for log in logs for line in _warnings(taken(log))]
    return "".join(f"{line}\n" for line in lines)


def _warnings(log: str) -> list[str]:
    found = [line.strip()[:_LINE] for line in log.splitlines() if "NCCL WARN" in line]
    return list(dict.fromkeys(found))[:_MOST_WARNINGS]


def channel_lines(log: str) -> list[tuple[str, str]]:
    """(transport, line) for each connection of NCCL's first channel, and for NVLink SHARP, as its INFO log names them.

    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" gives ("P2P/CUMEM", the line).
    """
    found = {}
    for line in log.splitlines():
        text = line.partition("NCCL INFO ")[2]
        if text.startswith("Channel 00") and " via " in text:
            found[text] = text.rpartition(" via ")[2].split()[0]
        elif text.startswith(("Connected NVLS", "NVLS comm ")):  # the former between nodes, the latter on one, too
            found[text] = "NVLS"
    return [(via, text) for text, via in sorted(found.items())]


# "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}"; before NCCL 2.24 numbers, and no function.
_CHOICE = re.compile(r"NCCL INFO (?:(\w+): )?\s*(\d+) Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")  # nccl_common.h
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


@dataclass(frozen=True)
class NcclChoice:
    """What NCCL ran an operation by."""

    function: str  # "AllReduce"; "" where the log does not name it
    size_bytes: int
    algorithm: str
    protocol: str


def choices(log: str) -> list[NcclChoice]:
    """The algorithm and protocol of every operation in a log, each once."""
    found = [
        NcclChoice(
            function or "",
            int(size),
            _name(algorithm, _ALGORITHMS),
            _name(protocol, _PROTOCOLS),
        )
        for function, size, algorithm, protocol in _CHOICE.findall(log)
    ]
    return list(dict.fromkeys(found))


def _name(word: str, known: tuple[str, ...]) -> str:
    """A name as it is; a number as the name that it stands for."""
    if not word.isdecimal():
        return word.upper()
    return known[int(word)] if int(word) < len(known) else word
