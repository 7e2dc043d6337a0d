"""Text of p2pBandwidthLatencyTest (NVIDIA/cuda-samples), and of Tartan's copy of it: matrices of all ordered pairs.

    Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
       D\\D     0      1
         0 500.90   9.84
         1   9.84 500.30

Rows send. A bandwidth on the diagonal counts what is read and what is written. The size of the copies is not printed:
40 MB in older versions, 160 MB in those that say whether peers write or read ("(P2P Writes)"); latencies are of 1 B and
16 B. Newer ones print two matrices of latencies, the GPU's and the host's; the GPU's is taken.

Source: Samples/5_Domain_Specific/p2pBandwidthLatencyTest/p2pBandwidthLatencyTest.cu.
"""

import re
from collections.abc import Iterator, Sequence

from resnetx.formats.copy_rows import STAGED, CopyRow, CopyTable, matrix_rows, seconds
from resnetx.loading import File
from resnetx.record.copies import Direction

OLD_BYTES, NEW_BYTES = 40_000_000, 160_000_000
OLD_LATENCY_BYTES, NEW_LATENCY_BYTES = 1, 16
MARK = re.compile(r"P2P.{0,40}Bandwidth Latency Test|directional P2P=|P2P=(Enabled|Disabled) Latency")

_TITLE = re.compile(
    r"(?P<way>Unidirectional|Bidirectional)?\s*P2P=(?P<peer>Enabled|Disabled)\s+(?P<what>Bandwidth|Latency)"
    r"\s*(?P<new>\(P2P (?:Writes|Reads)\))?\s*Matrix"
)
_PEER = re.compile(r"Device=(\d{1,4}) (CAN|CANNOT) Access Peer Device=(\d{1,4})")


def parse(file: File, text: str, size_bytes: int | None) -> CopyTable:
    """The matrices of a file. `size_bytes`: of the copies whose bandwidth it prints; None: the program's default."""
    lines = text.splitlines()
    new = "(P2P Writes)" in text or "(P2P Reads)" in text
    size = size_bytes or (NEW_BYTES if new else OLD_BYTES)
    no_peers = {(int(a), int(b)) for a, can, b in _PEER.findall(text) if can == "CANNOT"}
    rows = [
        row
        for place, line in enumerate(lines)
        if (title := _TITLE.search(line))
        for row in _of_matrix(title, lines[place + 1 :], size, new, no_peers)
        if row.usable
    ]
    if not rows:
        raise file.error("no matrix of it is one of p2pBandwidthLatencyTest (Unidirectional P2P=Enabled Bandwidth ...)")
    gpus = 1 + max(place for row in rows for place in (row.source, row.target) if isinstance(place, int))
    notes = [] if size_bytes else [f"the file does not say how large copies are: {size} bytes, as the program has it"]
    return CopyTable("p2pBandwidthLatencyTest", gpus, tuple(rows), notes=tuple(notes))


def _of_matrix(
    title: re.Match[str], below: Sequence[str], size: int, new: bool, no_peers: set[tuple[int, int]]
) -> Iterator[CopyRow]:
    latency = title["what"] == "Latency"
    both = title["way"] == "Bidirectional"
    direction: Direction = "both-ways" if both else "one-way"
    for source, row in enumerate(matrix_rows(below[1:])):
        for target, figure in enumerate(row):
            local = source == target
            moved = size * (2 if both else 1) * (2 if local else 1)
            peer = title["peer"] == "Enabled"
            evidence = [f"peer access {'on' if peer else 'off'}"]
            if peer and (source, target) in no_peers:
                evidence.append("the GPUs cannot reach each other as peers")
            yield CopyRow(
                copy="local" if local else "device" if peer else STAGED,
                source=source,
                target=target,
                size_bytes=(NEW_LATENCY_BYTES if new else OLD_LATENCY_BYTES) if latency else size,
                time_s=figure * 1e-6 if latency else seconds(moved, figure),
                evidence=tuple(evidence),
                direction=direction,
                path=None if peer or local else "host",
            )
