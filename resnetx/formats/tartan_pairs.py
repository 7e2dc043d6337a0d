"""Text of Tartan's scale_up_p2p_packet (uuudown/Tartan): matrices of all pairs, at one size after the other.

    ===== 1024 =====
    Uni-PCIe-Bandwidth
       D\\D     0      1
         0   0.60   0.05
         1   0.05   0.60
    ... Uni-NVLink-Bandwidth, Bi-PCIe-Bandwidth, Bi-NVLink-Bandwidth (GB/s), PCIe-Latency, NVLink-Latency (us)

Rows send. PCIe is peer access off, NVLink is on. The latency is the time of one copy of the size, so that it says what
the unidirectional bandwidth says, with more digits: bandwidths one way are left out. With peer access on, what GPUs
without an NVLink between them copy takes as long as through the host.
"""

import re
from collections.abc import Iterator, Sequence

from resnetx.formats.copy_rows import MOST_BYTES, STAGED, CopyRow, CopyTable, matrix_rows, seconds
from resnetx.loading import File

MARK = re.compile(r"^(?:Uni|Bi)-(?:PCIe|NVLink)-Bandwidth\s*$", re.MULTILINE)
LEAST_GBps = 0.095  # printed with two digits behind the point: below, they say too little
_SIZE = re.compile(r"=+ (\d{1,15}) =+\s*")
_TITLE = re.compile(r"(?:(?P<way>Uni|Bi)-)?(?P<over>PCIe|NVLink)-(?P<what>Bandwidth|Latency)\s*")


def parse(file: File, text: str) -> CopyTable:
    """The matrices of a file."""
    rows = [row for row in _rows(text.splitlines()) if row.usable]
    if not rows:
        raise file.error("no matrix of it is one of Tartan's by size (===== 1024 =====, then PCIe-Latency, ...)")
    gpus = 1 + max(place for row in rows for place in (row.source, row.target) if isinstance(place, int))
    return CopyTable("Tartan scale_up_p2p_packet", gpus, tuple(rows))


def _rows(lines: Sequence[str]) -> Iterator[CopyRow]:
    size = 0
    for place, line in enumerate(lines):
        if found := _SIZE.fullmatch(line):
            size = min(int(found[1]), MOST_BYTES + 1)
        elif title := _TITLE.fullmatch(line):
            yield from _of_matrix(title, lines[place + 2 :], size)


def _of_matrix(title: re.Match[str], below: Sequence[str], size: int) -> Iterator[CopyRow]:
    latency, both = title["what"] == "Latency", title["way"] == "Bi"
    if not (latency or both):
        return
    staged = title["over"] == "PCIe"
    for source, row in enumerate(matrix_rows(below)):
        for target, figure in enumerate(row):
            local = source == target
            if both and figure < LEAST_GBps:
                continue
            yield CopyRow(
                copy="local" if local else STAGED if staged else "device",
                source=source,
                target=target,
                size_bytes=size,
                time_s=figure * 1e-6 if latency else seconds(2 * size * (2 if local else 1), figure),
                evidence=(f"peer access {'off' if staged else 'on'}",),
                direction="both-ways" if both else "one-way",
                path="host" if staged and not local else None,
            )
