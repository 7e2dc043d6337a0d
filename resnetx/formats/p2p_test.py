"""Text of p2pBandwidthLatencyTest (NVIDIA/cuda-samples), and of copies of it: matrices of all ordered pairs.

    Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
    Device=0 CANNOT Access Peer Device=1
    P2P Connectivity Matrix
         D\\D     0     1
         0       1     0
    Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
       D\\D     0      1
         0 500.90   9.84
         1   9.84 500.30

The GPU of a row issues the copies: it sends ("P2P Writes", and with peer access off in versions that say so), or it
receives ("P2P Reads", and everything of older versions, which say neither). A bandwidth on the diagonal counts what is
read and what is written. "P2P=Enabled" asks for peer access: pairs that have none, by the connectivity matrix or by a
line "CANNOT Access Peer", are staged in host memory all the same. The size of the copies is not printed: 40 MB in older
versions, 160 MB in those that say whether peers write or read; latencies are of 1 B and 16 B. Newer ones print two
matrices of latencies, the GPU's and the host's; the GPU's is taken.

Source: Samples/5_Domain_Specific/p2pBandwidthLatencyTest/p2pBandwidthLatencyTest.cu.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from resnetx.formats.copy_rows import MOST_BYTES, STAGED, CopyRow, CopyTable, ListedGpu, gpus_of, matrix_below, seconds
from resnetx.loading import File
from resnetx.record.copies import Access

OLD_BYTES, NEW_BYTES = 40_000_000, 160_000_000
OLD_LATENCY_BYTES, NEW_LATENCY_BYTES = 1, 16
MARK = re.compile(r"P2P.{0,40}Bandwidth Latency Test|directional P2P=|P2P=(Enabled|Disabled) Latency")

_TITLE = re.compile(
    r"(?P<way>Unidirectional|Bidirectional)?\s*P2P=(?P<peer>Enabled|Disabled)\s+(?P<what>Bandwidth|Latency)"
    r"\s*(?:\(P2P (?P<access>Write|Read)s\))?\s*Matrix"
)
_CONNECTIVITY = re.compile(r"P2P Connectivity Matrix")
_PEER = re.compile(r"Device=(\d{1,4}) CANNOT Access Peer Device=(\d{1,4})")
_NEWER = re.compile(r"\(P2P (?:Writes|Reads)\)|^\s*GPU\s+0\b", re.MULTILINE)
_DEVICE = re.compile(
    r"Device:\s*(?P<index>\d{1,4}),\s*(?P<name>[^,\n]{1,100}),\s*pciBusID:\s*(?P<bus>[0-9a-f]{1,4}),"
    r"\s*pciDeviceID:\s*(?P<device>[0-9a-f]{1,4}),\s*pciDomainID:\s*(?P<domain>[0-9a-f]{1,8})",
    re.IGNORECASE,
)
Pairs = Collection[tuple[int, int]]


def parse(file: File, text: str, size_bytes: int | None) -> CopyTable:
    """The matrices of a file. `size_bytes`: of the copies whose bandwidth it prints; None: the program's default."""
    lines = text.splitlines()
    newer = bool(_NEWER.search(text))
    size = size_bytes or (NEW_BYTES if newer else OLD_BYTES)
    apart = without_peers(file, text)
    titles = [title[0] for _, title in _titles(lines)]
    if twice := next((title for title in titles if titles.count(title) > 1), ""):
        raise file.error(f"holds {' '.join(twice.split())} twice, as of two runs; expected the output of one")
    rows = [
        row
        for index, title in _titles(lines)
        for row in _of_matrix(title, matrix_below(file, lines, index), size, newer, apart)
        if row.usable
    ]
    if not rows:
        raise file.error("no matrix of it is one of p2pBandwidthLatencyTest (Unidirectional P2P=Enabled Bandwidth ...)")
    listed = devices(text)
    cut = [" ".join(title[0].split()) for index, title in _titles(lines) if _is_cut(matrix_below(file, lines, index))]
    notes = [] if size_bytes else [f"the file does not say how large copies are: {size} bytes, as the program has it"]
    notes += [f"{title} has fewer rows than columns: the text has been cut off" for title in cut[:1]]
    return CopyTable(
        "p2pBandwidthLatencyTest", gpus_of(rows, listed), tuple(rows), notes=tuple(notes), devices=tuple(listed)
    )


def _titles(lines: Sequence[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """The places of the matrices' titles."""
    return ((index, title) for index, line in enumerate(lines) if (title := _TITLE.search(line)))


def _is_cut(matrix: Sequence[Sequence[float]]) -> bool:
    return not matrix or len(matrix[0]) > len(matrix)


def devices(text: str) -> list[ListedGpu]:
    """The GPUs that the program lists before it measures."""
    return [
        ListedGpu(
            index=int(line["index"]),
            name=line["name"].strip(),
            pci_bus_id=f"{line['domain']:0>8}:{line['bus']:0>2}:{line['device']:0>2}.0".lower(),
        )
        for line in _DEVICE.finditer(text)
    ]


def without_peers(file: File, text: str) -> set[tuple[int, int]]:
    """(Issuer, other) of each pair of GPUs without peer access, as the program says line by line or in its matrix."""
    lines = text.splitlines()
    apart = {(int(a), int(b)) for a, b in _PEER.findall(text)}
    for index, line in enumerate(lines):
        if _CONNECTIVITY.search(line):
            matrix = matrix_below(file, lines, index)
            apart |= {(a, b) for a, row in enumerate(matrix) for b, able in enumerate(row) if able == 0 and a != b}
    return apart


def _of_matrix(
    title: re.Match[str], matrix: Sequence[Sequence[float]], size: int, newer: bool, apart: Pairs
) -> Iterator[CopyRow]:
    latency, both = title["what"] == "Latency", title["way"] == "Bidirectional"
    asked = title["peer"] == "Enabled"
    writes = title["access"] == "Write" or (title["access"] is None and newer)
    access: Access = "" if both else "write" if writes else "read"
    for issuer, row in enumerate(matrix):
        for other, figure in enumerate(row):
            local = issuer == other
            peers = asked and not local and (issuer, other) not in apart
            moved = size * (2 if both else 1) * (2 if local else 1)
            source, target = (issuer, other) if writes or both else (other, issuer)
            yield CopyRow(
                copy="local" if local else "device" if peers else STAGED,
                source=source,
                target=target,
                size_bytes=(NEW_LATENCY_BYTES if newer else OLD_LATENCY_BYTES) if latency else size,
                time_s=figure * 1e-6 if latency else seconds(moved, figure),
                evidence=(_evidence(asked, peers, local),),
                direction="both-ways" if both else "one-way",
                access=access if peers else "",
                path=None if peers or local else "host",
            )


def _evidence(asked: bool, peers: bool, local: bool) -> str:
    if asked and not (peers or local):
        return "peer access asked for; the GPUs cannot reach each other as peers"
    return f"peer access {'on' if asked else 'off'}"


# Text of Tartan's scale_up_p2p_packet (uuudown/Tartan): matrices of all pairs, at one size after the other.
#
#     ===== 1024 =====
#     Uni-PCIe-Bandwidth
#        D\D     0      1
#          0   0.60   0.05
#          1   0.05   0.60
#     ... Uni-NVLink-Bandwidth, Bi-PCIe-Bandwidth, Bi-NVLink-Bandwidth (GB/s), PCIe-Latency, NVLink-Latency (us)
#
# The GPU of a row receives, and issues the copies. PCIe is peer access off, NVLink is on. The latency is the time of
# one copy of the size, so that it says what the unidirectional bandwidth says, with more digits: bandwidths one way are
# left out. With peer access on, what GPUs without an NVLink between them copy takes as long as through the host.

TARTAN_MARK = re.compile(r"^(?:Uni|Bi)-(?:PCIe|NVLink)-Bandwidth\s*$", re.MULTILINE)
LEAST_GBps = 0.095  # printed with two digits behind the point: below, they say too little
_SIZE = re.compile(r"=+ (\d{1,15}) =+\s*")
_TARTAN_TITLE = re.compile(r"(?:(?P<way>Uni|Bi)-)?(?P<over>PCIe|NVLink)-(?P<what>Bandwidth|Latency)\s*")


def parse_tartan(file: File, text: str) -> CopyTable:
    """The matrices of a file."""
    rows = [row for row in _rows(file, text.splitlines(), without_peers(file, text)) if row.usable]
    if not rows:
        raise file.error("no matrix of it is one of Tartan's by size (===== 1024 =====, then PCIe-Latency, ...)")
    listed = devices(text)
    return CopyTable("Tartan scale_up_p2p_packet", gpus_of(rows, listed), tuple(rows), devices=tuple(listed))


def _rows(file: File, lines: Sequence[str], apart: Pairs) -> Iterator[CopyRow]:
    size = 0
    for index, line in enumerate(lines):
        if match := _SIZE.fullmatch(line):
            size = min(int(match[1]), MOST_BYTES + 1)
        elif title := _TARTAN_TITLE.fullmatch(line):
            yield from _of_tartan_matrix(title, matrix_below(file, lines, index), size, apart)


def _of_tartan_matrix(
    title: re.Match[str], matrix: Sequence[Sequence[float]], size: int, apart: Pairs
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
