"""`nvidia-smi topo -m` and `topo -p2p`: how near GPUs and network cards are, and which GPUs may be peers.

    GPU0  X    NV1  PIX  0-19      X itself, NV#: NVLinks, PIX: one PCIe switch, PXB: several, PHB: a host bridge,
    GPU1  NV1  X    SYS  0-19      NODE: between host bridges of a NUMA node, SYS (SOC before 2017): between NUMA nodes

NVLink hides what lies between two GPUs on PCIe: cells of network cards and the affinity of CPUs tell a part of it. The
text names no GPU, no rate and no generation. A text may hold several answers: of `nvidia-smi nvlink -s`, and the names
of GPUs as `-L`, `-q` and plain `nvidia-smi` have them, too.

Reference: nvidia-smi(1), the legends below its matrices.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from resnetx.errors import FileError
from resnetx.formats.device_matrix import DeviceMatrix, apart, matrices, plain_lines, unwrapped
from resnetx.loading import File

# `nvidia-smi nvlink -s`: which NVLinks of each GPU are up, and at which rate.
#
#     GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-...)
#              Link 0: 25.781 GB/s
#              Link 1: <inactive>
#     GPU 1: Tesla V100-SXM2-32GB (UUID: GPU-...)
#     NVML: Unable to retrieve NVLink information as all links are inActive
#
# It does not say where a link leads. Other switches of `nvidia-smi nvlink` (-c, -e, -R ...) have lines of the same
# form, of which none is a rate. Reference: nvidia-smi(1), "nvlink".

MOST_LINKS = 64  # of a GPU

_GPU = re.compile(r"^\s*GPU (\d{1,4}):\s*\S")
_LINK = re.compile(r"^\s*Link (\d{1,3})\s*[:,]\s*(\S.{0,200})\Z")
_NONE_UP = re.compile(
    r"^\s*(?:GPU \d{1,4}: [^)]{1,300}\)\s*)?NVML: Unable to retrieve NVLink information as all links are inactive",
    re.IGNORECASE,
)
_RATE = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) GB/s")


@dataclass(frozen=True)
class NvlinkPorts:
    """The NVLinks of one GPU, by their numbers."""

    up: tuple[int, ...]
    inactive: tuple[int, ...]  # (): none, or all, where `up` is empty, too
    Bps: float | None  # of each link that is up, and each way: the lowest; None: none is up


def nvlink_recognised(lines: Sequence[str]) -> bool:
    return any(_LINK.match(line) or _NONE_UP.match(line) for line in lines)


def nvlink_ports(file: File, lines: Sequence[str]) -> dict[int, NvlinkPorts]:
    """The links of each GPU; refuses what other switches say of links."""
    rates: dict[int, dict[int, float | None]] = {}
    gpu = None
    for number, line in enumerate(lines, 1):
        if match := _GPU.match(line):
            gpu = int(match[1])
        if gpu is not None and _NONE_UP.match(line):
            rates.setdefault(gpu, {})
        elif link := _LINK.match(line):
            if gpu is None:
                raise file.error("a link without its GPU; expected the line with its name above, as GPU 0: ...", number)
            of_gpu = rates.setdefault(gpu, {})
            if int(link[1]) in of_gpu or len(of_gpu) >= MOST_LINKS:
                raise _of_another_switch(file, number)
            of_gpu[int(link[1])] = _rate_Bps(file, link[2], number)
    return {gpu: _ports(links) for gpu, links in rates.items()}


def _rate_Bps(file: File, said: str, number: int) -> float | None:
    """None: inactive."""
    if "inactive" in said.lower():
        return None
    rate = _RATE.fullmatch(said.strip())
    if rate is None or not float(rate[1]):
        raise _of_another_switch(file, number)
    return float(rate[1]) * 1e9


def _of_another_switch(file: File, number: int) -> FileError:
    return file.error(
        "links without their rates, as other switches of nvidia-smi nvlink print them; expected nvidia-smi nvlink -s",
        number,
    )


def _ports(links: dict[int, float | None]) -> NvlinkPorts:
    rates = [Bps for Bps in links.values() if Bps]
    up = tuple(link for link, Bps in links.items() if Bps)
    return NvlinkPorts(up, tuple(link for link in links if link not in up), min(rates, default=None))


FARTHER = ("PIX", "PXB", "PHB", "NODE", "SYS")  # each farther than the one before
PEERS = {"OK": True, "CNS": False, "GNS": False, "TNS": False, "NS": False, "DR": False, "U": None, "N/A": None}

_SAME = {"SOC": "SYS", "PSB": "PIX"}  # what drivers before 2017 called them
_WORD = re.compile(r"PIX|PXB|PHB|NODE|SYS|NV[1-9]\d{0,2}")
_UNSAID = ("N/A", "?", "-", ".", "UNK", "X")  # X is checked against the diagonal where the matrix is read
_AFFINITY = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")
# One node of CPUs, and those of the memory of its GPUs, of which each may be divided into several: GB200 lists 0,2-17.
_MEMORY_NODES = re.compile(r"\d{1,6},(\d{1,6})-(\d{1,6})")
_LEAST_MEMORY_NODES = 4  # fewer may be of CPUs
_LISTED = re.compile(r"^\s*GPU (\d{1,4}): (.{1,100}?)\s*(?:\(UUID: [^)]*(?:\)?\s*\Z|\).{0,200}\Z)|\Z)")
# Of plain nvidia-smi: its number, name, persistence mode or driver model, and address; a long name ends in dots.
_IN_TABLE = re.compile(
    r"^\s*(\d{1,4})\s+(\S.{0,60}?)\s+(?:On|Off|N/A|Enabled|Disabled|WDDM|TCC|MCDM)\s+[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
)
_IN_QUERY = re.compile(r"^\s*Product Name\s+:\s*(\S.{0,99}?)\s*\Z")
_LEGEND = re.compile(r"^\s*(NIC\d{1,3})\s*[:=]\s*(\S{1,64})\s*\Z")


@dataclass(frozen=True)
class TopoMatrix:
    """What `topo -m` says."""

    gpus: tuple[str, ...]
    cards: tuple[str, ...]
    words: dict[tuple[str, str], str]  # of each pair both ways round; a pair that is not said is missing
    affinity: dict[str, str]  # GPU -> what it says of its NUMA node, or else of its CPUs
    in_numa: frozenset[str] = frozenset()  # GPUs whose memory is a NUMA node of the host, as beside a Grace CPU
    card_names: dict[str, str] = field(default_factory=dict)  # NIC0 -> mlx5_0
    notes: tuple[str, ...] = ()  # what is missing in the text


@dataclass(frozen=True)
class PeerMatrix:
    """What `topo -p2p` says."""

    gpus: tuple[str, ...]
    capability: str  # r, w, n, a, p, rw; "": the text does not say
    peers: dict[tuple[str, str], bool]  # a pair whose state is unknown is missing


@dataclass(frozen=True)
class NvidiaSmi:
    """All that one text says."""

    topo: TopoMatrix | None
    peers: tuple[PeerMatrix, ...]
    names: dict[int, str]  # GPU -> its name
    ports: dict[int, NvlinkPorts] = field(default_factory=dict)  # GPU -> its NVLinks, by nvidia-smi nvlink -s


def recognised(text: str) -> bool:
    """Whether a text may be of nvidia-smi: it has a GPU, and words of cells; or the names of GPUs."""
    cells = re.search(r"GPU\d", text) and re.search(r"\b(?:SYS|SOC|NODE|PHB|PXB|PIX|NV\d+|[CGT]?NS|OK|X)\b", text)
    lines = plain_lines(text)
    return bool(cells) or bool(_names(lines)) or nvlink_recognised(lines)


def parse(file: File, text: str) -> NvidiaSmi:
    """The matrices of a text; refuses one that has none, or that contradicts itself."""
    try:
        return _parsed(file, text)
    except FileError:
        if (joined := unwrapped(text)) == text:
            raise
        with contextlib.suppress(FileError):
            return _parsed(file, joined)
        raise


def _parsed(file: File, text: str) -> NvidiaSmi:
    lines = plain_lines(text)
    topo, peers = None, []
    for matrix in matrices(file, text):
        if _is_of_peers(matrix):
            peers.append(_peers(file, matrix))
        elif topo is None:
            topo = _topo(file, matrix, lines)
        else:
            raise file.error("two matrices of nvidia-smi topo -m; expected those of one machine", _first(matrix))
    names = _names(lines)
    ports = nvlink_ports(file, lines)
    if topo is None and not peers and not names and not ports:
        raise file.error("no line of it is a row of nvidia-smi topo -m or -p2p (GPU0, then X, NV1, PIX, SYS ...)")
    return NvidiaSmi(topo, tuple(peers), names, ports)


def _first(matrix: DeviceMatrix) -> int:
    return min(matrix.lines.values())


def _is_of_peers(matrix: DeviceMatrix) -> bool:
    cells = {cell for row in matrix.rows.values() for cell in row}
    of_topo = any(_WORD.fullmatch(cell) or cell in _SAME for cell in cells)
    return not of_topo and bool(cells & (PEERS.keys() - {"N/A"}))


def _names(lines: Sequence[str]) -> dict[int, str]:
    """GPU -> its name; that of plain nvidia-smi may be cut off, and is then none."""
    listed = {int(line[1]): line[2] for line in filter(None, map(_LISTED.match, lines))}
    in_query = [line[1] for line in filter(None, map(_IN_QUERY.match, lines))]
    in_table = {int(line[1]): line[2] for line in filter(None, map(_IN_TABLE.match, lines))}
    short = {gpu: "" if name.endswith("...") else name for gpu, name in in_table.items()}
    return listed or dict(enumerate(in_query)) or short


# ---- topo -m --------------------------------------------------------------------------------------------------------


def _topo(file: File, matrix: DeviceMatrix, lines: Sequence[str]) -> TopoMatrix:
    if not matrix.gpus:
        raise file.error("a matrix without GPUs", _first(matrix))
    for gpu in matrix.gpus:
        if (cell := matrix.cell(gpu, gpu)) not in (None, "X", "x", "-", "*"):
            raise file.error(f"{gpu} to itself is {cell}; expected X", matrix.lines[gpu])
    words: dict[tuple[str, str], str] = {}
    for row, column in combinations(matrix.devices, 2):
        if word := _word(file, matrix, row, column):
            words[row, column] = words[column, row] = word
    legend = {match[1]: match[2] for match in map(_LEGEND.match, lines) if match}
    affinity, in_numa = _affinity(matrix)
    return TopoMatrix(
        gpus=tuple(matrix.gpus),
        cards=tuple(matrix.cards),
        words=words,
        affinity=affinity,
        in_numa=in_numa,
        card_names={name: legend.get(name, name) for name in matrix.cards},
        notes=tuple(_missing(matrix, words)),
    )


def _word(file: File, matrix: DeviceMatrix, row: str, column: str) -> str | None:
    """How near two devices are, by the row of either; None where neither says it."""
    said: list[str] = []
    for one, other in ((row, column), (column, row)):
        cell = (matrix.cell(one, other) or "?").upper()
        if cell in _UNSAID:
            continue
        word = _SAME.get(cell, cell)
        if not _WORD.fullmatch(word):
            if _AFFINITY.fullmatch(cell) or cell == "NUMA":  # a row that is cut off before its fields
                continue
            if apart(cell):
                columns = len(matrix.devices)
                raise file.error(
                    f"{cell} is several cells without a blank between, but divided, the row has more cells than its "
                    f"{columns} columns",
                    matrix.lines[one],
                )
            raise file.error(f"{cell} is no word of nvidia-smi topo -m (X, NV1, PIX, SYS ...)", matrix.lines[one])
        said.append(word)
    if len(set(said)) > 1:
        what = f"{row} to {column} is {said[0]}, but {column} to {row} is {said[1]}"
        raise file.error(f"the matrix contradicts itself: {what}", matrix.lines[column])
    return said[0] if said else None


def _affinity(matrix: DeviceMatrix) -> tuple[dict[str, str], frozenset[str]]:
    """(GPU -> its NUMA node as "NUMA 0", else its CPUs as "CPUs 0-19"; GPUs that are a NUMA node), where it is said."""
    headed = " ".join(matrix.header)
    found: dict[str, str] = {}
    in_numa = set()
    for gpu in matrix.gpus:
        fields = list(matrix.fields.get(gpu, []))
        if fields[:1] == ["NUMA"]:  # as somebody wrote it by hand
            fields = fields[1:] if not headed else fields
            found |= {gpu: f"NUMA {fields[0]}"} if fields else {}
            continue
        cpus = fields.pop(0) if "CPU Affinity" in headed and fields else ""
        numa = fields.pop(0) if "NUMA Affinity" in headed and fields else ""
        if _AFFINITY.fullmatch(numa):
            found[gpu] = f"NUMA {numa}"
        elif _AFFINITY.fullmatch(cpus):
            found[gpu] = f"CPUs {cpus}"
        own = headed.endswith("GPU NUMA ID") and bool(fields) and fields[0].isdecimal()
        nodes = _MEMORY_NODES.fullmatch(numa)
        if own or (nodes and int(nodes[2]) - int(nodes[1]) >= _LEAST_MEMORY_NODES - 1):
            in_numa.add(gpu)
    return found, frozenset(in_numa)


def _missing(matrix: DeviceMatrix, words: dict[tuple[str, str], str]) -> list[str]:
    notes = [] if matrix.headed else ["the matrix has no header: its columns are taken in the order of its rows"]
    rowless = [name for name in matrix.devices if not matrix.rows.get(name)]
    if rowless:
        some = ", ".join(rowless[:4]) + f" and {len(rowless) - 4} more" * (len(rowless) > 4)
        notes.append(f"{some} {'has' if len(rowless) == 1 else 'have'} no row: the text may be cut off")
    unsaid = [f"{a}-{b}" for a, b in combinations(matrix.gpus, 2) if (a, b) not in words]
    if unsaid:
        more = f" and {len(unsaid) - 4} more" if len(unsaid) > 4 else ""
        notes.append(f"how near these are is not said: {', '.join(unsaid[:4])}{more}")
    return notes


# ---- topo -p2p ------------------------------------------------------------------------------------------------------


def _peers(file: File, matrix: DeviceMatrix) -> PeerMatrix:
    peers: dict[tuple[str, str], bool] = {}
    for gpu in matrix.gpus:
        for other in matrix.gpus:
            cell = matrix.cell(gpu, other)
            if gpu == other or cell is None:
                continue
            if cell not in PEERS:
                raise file.error(f"{cell} is no state of nvidia-smi topo -p2p (OK, GNS, TNS ...)", matrix.lines[gpu])
            state = PEERS[cell]
            if state is not None:
                peers[gpu, other] = state
    match = re.search(r"-p2p[ =]*(rw|[rwnap])\b", matrix.command)
    return PeerMatrix(tuple(matrix.gpus), match[1] if match else "", peers)
