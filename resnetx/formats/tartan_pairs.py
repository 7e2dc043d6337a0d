"""Text of Tartan's scale_up_p2p_packet (uuudown/Tartan): matrices of all pairs, at one size after the other.

    ===== 1024 =====
    Uni-PCIe-Bandwidth
       D\\D     0      1
         0   0.60   0.05
         1   0.05   0.60
    ... Uni-NVLink-Bandwidth, Bi-PCIe-Bandwidth, Bi-NVLink-Bandwidth (GB/s), PCIe-Latency, NVLink-Latency (us)

The GPU of a row receives, and issues the copies. PCIe is peer access off, NVLink is on. The latency is the time of one
copy of the size, so that it says what the unidirectional bandwidth says, with more digits: bandwidths one way are left
out. With peer access on, what GPUs without an NVLink between them copy takes as long as through the host.
"""

import re
from collections.abc import Iterator, Sequence

from resnetx.formats import p2p_test
from resnetx.formats.copy_rows import MOST_BYTES, STAGED, CopyRow, CopyTable, gpus_of, matrix_below, seconds
from resnetx.loading import File

MARK = re.compile(r"^(?:Uni|Bi)-(?:PCIe|NVLink)-Bandwidth\s*$", re.MULTILINE)
LEAST_GBps = 0.095  # printed with two digits behind the point: below, they say too little
_SIZE = re.compile(r"=+ (\d{1,15}) =+\s*")
_TITLE = re.compile(r"(?:(?P<way>Uni|Bi)-)?(?P<over>PCIe|NVLink)-(?P<what>Bandwidth|Latency)\s*")


def parse(file: File, text: str) -> CopyTable:
    """The matrices of a file."""
    rows = [row for row in _rows(file, text.splitlines(), p2p_test.without_peers(file, text)) if row.usable]
    if not rows:
        raise file.error("no matrix of it is one of Tartan's by size (===== 1024 =====, then PCIe-Latency, ...)")
    listed = p2p_test.devices(text)
    return CopyTable("Tartan scale_up_p2p_packet", gpus_of(rows, listed), tuple(rows), devices=tuple(listed))


def _rows(file: File, lines: Sequence[str], apart: p2p_test.Pairs) -> Iterator[CopyRow]:
    size = 0
    for place, line in enumerate(lines):
        if found := _SIZE.fullmatch(line):
            size = min(int(found[1]), MOST_BYTES + 1)
        elif title := _TITLE.fullmatch(line):
            yield from _of_matrix(title, matrix_below(file, lines, place), size, apart)


def _of_matrix(
    title: re.Match[str], matrix: Sequence[Sequence[float]], size: int, apart: p2p_test.Pairs
) -> Iterator[CopyRow]:
    latency, both = title["what"] == "Latency", title["way"] == "Bi"
    if not (latency or both):
        return
    for issuer, row in enumerate(matrix):
        for other, figure in enumerate(row):
            local = issuer == other
            peers = title["over"] == "NVLink" and (issuer, other) not in apart
            source, target = (issuer, other) if both else (other, issuer)
            if both and figure < LEAST_GBps:
                continue
            yield CopyRow(
                copy="local" if local else "device" if peers else STAGED,
                source=source,
                target=target,
                size_bytes=size,
                time_s=figure * 1e-6 if latency else seconds(2 * size * (2 if local else 1), figure),
                evidence=(f"peer access {'on' if title['over'] == 'NVLink' else 'off'}",),
                direction="both-ways" if both else "one-way",
                access="read" if peers and not (both or local) else "",
                path=None if peers or local else "host",
            )
