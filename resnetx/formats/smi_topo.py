"""How near GPUs and network cards are, as nvidia-smi and rocm-smi print it: matrices of devices."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from resnetx.errors import FileError
from resnetx.loading import File

# ---- device matrix --------------------------------------------------------------------------------------------------
# Matrices of devices as nvidia-smi and rocm-smi print them: a row and a column for each GPU and network card.
#
# Such text arrives with tabs or blanks, wrapped by a terminal, underlined by escape codes, quoted in Markdown, trimmed
# by hand or cut off. So columns are named by the header (or, where that is gone, by the rows), a row is known by its
# label, and what a terminal broke is joined again. What the cells mean is for the parsers below to
# say.
#
# References: nvidia-smi(1), "topo"; rocm-smi --showtopo.

MAX_DEVICES = 512  # of a matrix: a rack of 72 GPUs and its network cards is far below

_ESCAPE = re.compile(r"(?:\x1b|␛|\^\[|\\e|\\033|\\x1b)?\[[0-9;]{0,10}m|\x1b[\[(][0-9;?]{0,10}[A-Za-z]")
_NOTE = re.compile(r"\([^()]{0,200}\)")  # behind a label: GPU0 (Tesla P100)
# Some copies have lost what stood between the names of the header: GPU0GPU1mlx5_0.
_GLUED = re.compile(r"GPU\d{1,4}(?=[A-Za-z])|(?:NIC|mlx\d_)\d{1,3}(?=GPU\d|NIC\d|mlx\d|CPU\Z)|.+")
_APART = re.compile(r"\bGPU\s(?=\d{1,4}(?!\d*:))")  # GPU 0; of nvidia-smi -L, GPU 0: is no label
_GPU = re.compile(r"GPU\d{1,4}")
_CARD = re.compile(r"(?:NIC\d|mlx\d|hfi\d|rdmap\d|bnxt_re|roce|irdma|qedr|efa_?\d|ib\d)[\w.-]*")
_LEGEND = ("X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "PSB", "OK", "CNS", "GNS", "TNS", "NS", "DR")  # of cells
_CELL = re.compile(rf"{'|'.join(sorted(_LEGEND, key=len, reverse=True))}|NV[1-9]\d{{0,2}}")
_CPUS = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")
_OF_GPU = re.compile(r"^\s*GPU\s*\[?\d{1,4}(?:,\d{1,4})*\]?\s*:")  # GPU[0] : ..., GPU 0: ..., GPU 0,1: ...
_FIELD = {"CPU", "NUMA", "GPU", "Affinity", "ID"}  # words of the headers behind the columns of devices
_PROMPT = re.compile(r"^.{0,200}?(?<![\w.-])(?:nvidia-smi|rocm-smi|amd-smi)(?![\w.-]).*?(?=\s{2,40}GPU0\s|\Z)")


@dataclass
class DeviceMatrix:
    """One matrix as it is printed."""

    devices: list[str]
    header: list[str]  # words behind the names of devices: CPU Affinity NUMA Affinity
    title: str  # the line above it, or ""
    command: str  # the line of a shell above it, or ""
    rows: dict[str, list[str]] = field(default_factory=dict)  # label -> cells, fewer where it is cut off
    fields: dict[str, list[str]] = field(default_factory=dict)  # label -> words behind the cells
    lines: dict[str, int] = field(default_factory=dict)  # label -> its line in the file
    headed: bool = True  # False: its header is gone, so that columns are taken in the order of rows

    @property
    def gpus(self) -> list[str]:
        return sorted(filter(_GPU.fullmatch, self.devices), key=lambda name: int(name[3:]))

    @property
    def cards(self) -> list[str]:
        return [name for name in self.devices if not _GPU.fullmatch(name)]

    def cell(self, row: str, column: str) -> str | None:
        """None where the text has lost it."""
        cells, index = self.rows.get(row, []), self.devices.index(column)
        return cells[index] if index < len(cells) else None


def apart(word: str) -> list[str]:
    """The cells that a terminal has put together without a blank, as NODEPIX; the last may be the CPUs behind them.

    Empty where the words of the legend do not divide it, or in several ways.
    """
    ways: list[list[list[str]]] = [[[]]]  # to divide what ends at each letter
    for end in range(1, min(len(word), 200) + 1):
        found = [
            [*way, word[start:end]]
            for start in range(max(0, end - 5), end)
            for way in ways[start]
            if _CELL.fullmatch(word, start, end)
        ]
        ways.append(found[:2])
    whole = [way for way in ways[-1] if len(way) > 1]
    for start, before in enumerate(ways):  # of NV4 and 0-7, nobody knows where they part
        if _CPUS.fullmatch(word, start):
            whole += [[*way, word[start:]] for way in before if way and not way[-1].startswith("NV")]
    return whole[0] if len(whole) == 1 and len(word) <= 200 else []


def plain_lines(text: str) -> list[str]:
    """The lines of a text, without escape codes and the marks of Markdown."""
    plain = _ESCAPE.sub(" ", text)
    return [re.sub(r"^\s*(?:>\s?)*", "", line).replace("|", " ") for line in plain.splitlines()]


def unwrapped(text: str) -> str:
    """A text whose lines a terminal has broken at its width, also within words, with these joined again."""
    lines = text.splitlines()
    width = max(map(len, lines), default=0)
    joined: list[str] = []
    whole = True  # nothing is to be added to the last line
    for line in lines:
        words = line.split()
        starts = len(words) > 1 and _names(words[0]) and not _names(words[1])
        if whole or starts or _ends(line, words):
            joined.append(line)
        else:
            joined[-1] += line
        whole = len(line) < width
    return "\n".join(joined)


def matrices(file: File, text: str) -> list[DeviceMatrix]:
    """Every matrix of a text."""
    found: list[DeviceMatrix] = []
    for matrix in _blocks(file, plain_lines(text)):
        _check(file, matrix)
        found.append(matrix)
    return found


def _blocks(file: File, lines: Sequence[str]) -> Iterator[DeviceMatrix]:
    """Matrices as they stand, their rows joined where a terminal has broken them."""
    matrix, row, title, command = None, "", "", ""
    for number, line in enumerate(lines, 1):
        if asked := _PROMPT.match(line):
            title = command = asked[0].strip()
            line = line[asked.end() :]  # a terminal may have put the heading behind it
        labelled = _APART.sub("GPU", _NOTE.sub(" ", line))
        words = [part for word in labelled.split() for part in _GLUED.findall(word)]
        if _ends(line, words):
            if matrix and matrix.rows:
                yield matrix
                matrix = None
            title, row = (line.strip() or title), ""
        elif _is_header(words):
            if matrix and matrix.rows:
                yield matrix
            matrix, row = _headed(words, title, command), ""
        elif _is_row(words, matrix):
            matrix = matrix or DeviceMatrix([], [], title, command, headed=False)
            row = words[0]
            if row in matrix.rows:
                raise file.error(f"{row} has two rows in one matrix", number)
            matrix.lines[row] = number
            _extend(matrix, row, words[1:])
        elif matrix and row:
            _extend(matrix, row, words)
        elif matrix:
            _continue_header(matrix, words)
        else:
            title = line.strip()
    if matrix and matrix.rows:
        yield matrix


def _ends(line: str, words: Sequence[str]) -> bool:
    """Whether a line is none of a matrix."""
    return (
        not words
        or words[0].startswith(("Legend", "```", "===", "---", "+--"))
        or bool(_PROMPT.match(line) or _OF_GPU.match(line))
    )


def _is_header(words: Sequence[str]) -> bool:
    """GPU0 GPU1 ..., or GPU0 CPU Affinity."""
    return bool(_GPU.fullmatch(words[0])) and (len(words) == 1 or _names(words[1]) or words[1] in _FIELD)


def _is_row(words: Sequence[str], matrix: DeviceMatrix | None) -> bool:
    if len(words) < 2 or _names(words[1]):
        return False
    if any(word.endswith(":") for word in words) and not any(map(_CELL.fullmatch, words)):
        return False  # GPU 0 Compute Capability: 9.0
    return bool(_GPU.fullmatch(words[0])) or (matrix is not None and words[0] in matrix.devices)


def _names(word: str) -> bool:
    return bool(_GPU.fullmatch(word) or _CARD.fullmatch(word))


def _headed(words: Sequence[str], title: str, command: str) -> DeviceMatrix:
    matrix = DeviceMatrix([], [], title, command)
    _continue_header(matrix, words)
    return matrix


def _continue_header(matrix: DeviceMatrix, words: Sequence[str]) -> None:
    for word in words:
        if matrix.header or word in _FIELD:
            matrix.header.append(word)
        else:
            matrix.devices.append(word)


def _extend(matrix: DeviceMatrix, row: str, words: Sequence[str]) -> None:
    """Words of a row: cells up to the number of devices, then fields; without a header all are cells until the end."""
    cells, fields = matrix.rows.setdefault(row, []), matrix.fields.setdefault(row, [])
    room = len(matrix.devices) - len(cells) if matrix.headed else MAX_DEVICES
    cells += words[: max(room, 0)]
    fields += words[max(room, 0) :]


def _divide(matrix: DeviceMatrix, row: str) -> None:
    """Divides the cells of a row that stand together, where that gives as many as there are columns."""
    words, columns = [*matrix.rows[row], *matrix.fields[row]], len(matrix.devices)
    parts = [part for word in words for part in apart(word) or [word]]
    cells, beyond = parts[:columns], parts[columns : columns + 1]
    if len(parts) > len(words) and len(cells) == columns and not any(map(_CELL.fullmatch, beyond)):
        matrix.rows[row], matrix.fields[row] = cells, parts[columns:]


def _last(matrix: DeviceMatrix) -> str:
    return max(matrix.lines, key=matrix.lines.__getitem__)


def _is_cut_off(matrix: DeviceMatrix) -> bool:
    """Whether the text ends within the last row: it has fewer cells than columns, or none of the fields behind them."""
    last = _last(matrix)
    most = max(len(matrix.devices) if matrix.headed else 0, *map(len, matrix.rows.values()))
    has_fields = {row for row, words in matrix.fields.items() if words}
    others = has_fields if len(matrix.rows) > 1 else matrix.header
    return len(matrix.rows[last]) < most or (bool(others) and last not in has_fields)


def _check(file: File, matrix: DeviceMatrix) -> None:
    """Completes a matrix without a header; refuses one that has its diagonal elsewhere, or that is too large."""
    for row in matrix.rows if matrix.headed else ():
        _divide(matrix, row)
    if not matrix.headed:
        matrix.devices = list(matrix.rows)
        for row, cells in matrix.rows.items():
            matrix.fields[row], matrix.rows[row] = cells[len(matrix.devices) :], cells[: len(matrix.devices)]
    if _is_cut_off(matrix):  # its last word may be half of one: NV1 of NV12
        del matrix.rows[_last(matrix)][-1:]
    matrix.devices += [row for row in matrix.rows if row not in matrix.devices]  # columns that are cut off
    if len(matrix.devices) > MAX_DEVICES:
        raise file.error(f"a matrix of {len(matrix.devices)} devices; expected at most {MAX_DEVICES}")
    if len(set(matrix.devices)) < len(matrix.devices):
        twice = next(name for name in matrix.devices if matrix.devices.count(name) > 1)
        raise file.error(f"{twice} has two columns in one matrix")
    for row, cells in matrix.rows.items():
        for column, cell in zip(matrix.devices, cells, strict=False):
            if (cell == "X") != (row == column) and cell in ("X", "SYS", "SOC", "NODE", "PHB", "PXB", "PIX", "OK"):
                where = f"the row of {row} says {cell} in the column of {column}"
                raise file.error(f"{where}; expected X of a device and itself, and only there", matrix.lines[row])


# `rocm-smi --showtopo` or `amd-smi topology`: which AMD GPUs are joined by XGMI, and which NUMA node each is on.
#
# The kind of link says XGMI also of GPUs that reach each other through others, and hops are 1 then, too; the weight
# tells them apart: 15 for one XGMI link on the way, 30 for two. How many links join a pair, it does not say.
#
# amd-smi, its successor, prints the same tables with other titles, by addresses, and no NUMA nodes.
#
# References: ROCm/rocm-systems issues 5763 and 7372 (hops and weights); rocm_smi.py of ROCm.

XGMI_WEIGHT = 15  # of each XGMI link on the way (amdkfd, kfd_topology.c)

_NUMA = re.compile(r"GPU\s*\[?(\d{1,4})\]?\s*:\s*\(Topology\)\s*Numa (?:Node|Affinity):\s*(-?\d{1,4})", re.IGNORECASE)
_AMD_SMI = re.compile(r"^\s*LINK[ _]TYPE TABLE:?\s*$", re.MULTILINE)
_TABLE = re.compile(r"^\s*([A-Z][A-Z _-]{1,40}) TABLE:?\s*\Z")
_TITLES = {"WEIGHT": "Weight", "HOPS": "Hops", "LINK TYPE": "Link Type", "LINK_TYPE": "Link Type"}
_ADDRESS = re.compile(r"\b[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\b")
_NAME = re.compile(r"GPU\s*\[?(\d{1,4})\]?\s*:\s*Card [Ss]eries:\s*(\S.{0,80})")


@dataclass(frozen=True)
class RocmTopo:
    """What `--showtopo` says."""

    gpus: tuple[str, ...]
    direct: frozenset[tuple[str, str]]  # pairs that an XGMI link joins, each once
    affinity: dict[str, str]  # GPU -> "NUMA 0"
    names: dict[int, str]  # GPU -> its name, by --showproductname
    notes: tuple[str, ...]
    program: str = "rocm-smi --showtopo"


def rocm_recognised(text: str) -> bool:
    """Whether a text may be of rocm-smi."""
    return bool(re.search(r"between two GPUs|ROCm System Management|\(Topology\)", text) or _AMD_SMI.search(text))


def parse_rocm(file: File, text: str) -> RocmTopo:
    """The tables of a text; refuses one without that of the kinds of links."""
    newer = bool(_AMD_SMI.search(text))
    text = _as_rocm_smi(text) if newer else text
    tables = {name: matrix for matrix in matrices(file, text) for name in ("Weight", "Hops", "Link Type")
              if matrix.title.strip("= ").startswith(name)}  # fmt: skip
    kinds, weights = tables.get("Link Type"), tables.get("Weight")
    if kinds is None or not kinds.gpus:
        raise file.error('no table "Link Type between two GPUs"; expected the text of rocm-smi --showtopo')
    lines = plain_lines(text)
    matches = [match for match in map(_NUMA.search, lines) if match]
    affinity = {f"GPU{match[1]}": f"NUMA {match[2]}" for match in matches if int(match[2]) >= 0}
    pairs = [pair for pair in combinations(kinds.gpus, 2) if _kind(file, kinds, *pair) == "XGMI"]
    least = min((weight for pair in pairs if (weight := _weight(file, weights, *pair))), default=XGMI_WEIGHT)
    direct = [pair for pair in pairs if (_weight(file, weights, *pair) or least) == least]
    notes = [f"{'amd-smi' if newer else 'rocm-smi'} does not say how many XGMI links join two GPUs"] * bool(direct)
    if weights is None:
        notes += ["without the table of weights, GPUs that reach each other through others look joined"] * bool(direct)
    names = {int(match[1]): match[2].strip() for match in map(_NAME.search, lines) if match}
    program = "amd-smi topology" if newer else "rocm-smi --showtopo"
    return RocmTopo(tuple(kinds.gpus), frozenset(direct), affinity, names, tuple(notes), program)


def _as_rocm_smi(text: str) -> str:
    """The tables of amd-smi that rocm-smi has, too, as it prints them: GPUs are numbered as their addresses stand."""
    numbers: dict[str, str] = {}
    lines, title = [], ""
    for line in plain_lines(text):
        if table := _TABLE.match(line):
            title = _TITLES.get(table[1].strip(), "")
            lines += ["", f"{title} between two GPUs"] * bool(title)
        elif title:
            named = _ADDRESS.sub(lambda match: numbers.setdefault(match[0].lower(), f"GPU{len(numbers)}"), line)
            lines.append(re.sub(r"\bSELF\b", "0", named))
    return "\n".join([*lines, ""])


def _kind(file: File, matrix: DeviceMatrix, one: str, other: str) -> str:
    said = {cell for cell in (matrix.cell(one, other), matrix.cell(other, one)) if cell is not None}
    if not said <= {"XGMI", "PCIE", "UNKNOWN", "N/A"} or len(said) > 1:
        what = " and ".join(sorted(said))
        raise file.error(f"{one} to {other} is {what}; expected XGMI or PCIE, both ways alike", matrix.lines.get(one))
    return said.pop() if said else "N/A"


def _weight(file: File, matrix: DeviceMatrix | None, one: str, other: str) -> int | None:
    if matrix is None or not {one, other} <= set(matrix.devices):
        return None
    cell = matrix.cell(one, other) or matrix.cell(other, one)
    if cell is None or cell == "N/A":
        return None
    if not re.fullmatch(r"\d{1,6}", cell):
        raise file.error(f"the weight {one} to {other} is {cell}; expected a number", matrix.lines.get(one))
    return int(cell)


# ---- nvidia smi topo ------------------------------------------------------------------------------------------------
# `nvidia-smi topo -m` and `topo -p2p`: how near GPUs and network cards are, and which GPUs may be peers.
#
#     GPU0  X    NV1  PIX  0-19      X itself, NV#: NVLinks, PIX: one PCIe switch, PXB: several, PHB: a host bridge,
#     GPU1  NV1  X    SYS  0-19      NODE: between host bridges of a NUMA node, SYS (SOC before 2017): between NUMA
#     nodes
#
# NVLink hides what lies between two GPUs on PCIe: cells of network cards and the affinity of CPUs tell a part of it.
# The text names no GPU, no rate and no generation. A text may hold several answers: of `nvidia-smi nvlink -s`, and the
# names of GPUs as `-L`, `-q`, plain `nvidia-smi` and `lspci` have them, too.
#
# Reference: nvidia-smi(1), the legends below its matrices.

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

_NVIDIA_GPU = re.compile(r"^\s*GPU (\d{1,4}):\s*\S")
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


def nvlink_ports(file: File, lines: Sequence[str]) -> dict[int, NvlinkPorts]:
    """The links of each GPU, but of one whose lines are not all there; refuses what other switches alone say of links.

    Links are numbered from 0. A line that stands for several (...), or a text that is cut off, leaves out some of them.
    """
    rates: dict[int, dict[int, float | None]] = {}
    gpu, of_another = None, 0
    for number, line in enumerate(lines, 1):
        if match := _NVIDIA_GPU.match(line):
            gpu = int(match[1])
        if gpu is not None and _NONE_UP.match(line):
            rates.setdefault(gpu, {})
        elif link := _LINK.match(line):
            if gpu is None:
                raise file.error("a link without its GPU; expected the line with its name above, as GPU 0: ...", number)
            rate = _RATE.fullmatch(link[2].strip())
            if "inactive" not in link[2].lower() and (rate is None or not float(rate[1])):
                of_another = of_another or number
                continue
            of_gpu = rates.setdefault(gpu, {})
            if int(link[1]) in of_gpu or len(of_gpu) >= MOST_LINKS:
                raise file.error(f"link {link[1]} of GPU {gpu} again; expected nvidia-smi nvlink -s once", number)
            of_gpu[int(link[1])] = float(rate[1]) * 1e9 if rate else None
    if of_another and not rates:
        raise file.error(
            "links without their rates, as other switches of nvidia-smi nvlink print them; expected nvidia-smi nvlink "
            "-s",
            of_another,
        )
    most = max(map(len, rates.values()), default=0)
    return {gpu: _ports(links) for gpu, links in rates.items() if not links or [*links] == [*range(most)]}


def _ports(links: dict[int, float | None]) -> NvlinkPorts:
    rates = [Bps for Bps in links.values() if Bps]
    up = tuple(link for link, Bps in links.items() if Bps)
    return NvlinkPorts(up, tuple(link for link in links if link not in up), min(rates, default=None))


FARTHER = ("PIX", "PXB", "PHB", "NODE", "SYS")  # each farther than the one before
PEERS = {"OK": True, "CNS": False, "GNS": False, "TNS": False, "NS": False, "DR": False, "U": None, "N/A": None}

_SAME = {"SOC": "SYS", "PSB": "PIX"}  # what drivers before 2017 called them
_WORD = re.compile(r"PIX|PXB|PHB|NODE|SYS|NV[1-9]\d{0,2}")
_UNSAID = ("N/A", "?", "-", ".", "UNK", "X")  # X is checked against the diagonal where the matrix is read
# One node of CPUs, and those of the memory of its GPUs, of which each may be divided into several: GB200 lists 0,2-17.
_MEMORY_NODES = re.compile(r"\d{1,6},(\d{1,6})-(\d{1,6})")
_LEAST_MEMORY_NODES = 4  # fewer may be of CPUs
_LISTED = re.compile(r"^\s*GPU (\d{1,4}(?:,\d{1,4})*): (.{1,100}?)\s*(?:\(UUID: [^)]*(?:\)?\s*\Z|\).{0,200}\Z)|\Z)")
# Of plain nvidia-smi: its number, name, persistence mode or driver model, and address; a long name ends in dots.
_IN_TABLE = re.compile(
    r"^\s*(\d{1,4})\s+(\S.{0,60}?)\s+(?:On|Off|N/A|Enabled|Disabled|WDDM|TCC|MCDM)\s+[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
)
_IN_QUERY = re.compile(r"^\s*Product Name\s+:\s*(\S.{0,99}?)\s*\Z")
_IN_LSPCI = re.compile(  # its address, and what stands in brackets behind the chip; not the numbers of its PCI id
    r"^\s*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?:VGA compatible|3D) controller\b.{0,20}: "
    r"NVIDIA Corporation (?:[^\[]{0,60}\[(?![0-9a-f]{4}:)([^\]]{1,80})\])?",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(r"-p2p[ =]*(rw|[rwnap])\b")
_HEADED = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_OF_PCI = re.compile(r"\s(?:-mp|--matrix_pci)\b")
_NVIDIA_LEGEND = re.compile(r"^\s*(NIC\d{1,3})\s*[:=]\s*(\S{1,64})\s*\Z")


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
    of_pci: bool = False  # of topo -mp: without NVLink


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
    return bool(cells) or bool(_gpu_names(lines)) or any(_LINK.match(line) or _NONE_UP.match(line) for line in lines)


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
            continue
        other = _topo(file, matrix, lines)
        if topo and (topo.of_pci == other.of_pci or topo.gpus != other.gpus):  # -m and -mp of one machine are one
            raise file.error("two matrices of nvidia-smi topo -m; expected those of one machine", _first(matrix))
        topo = topo if topo and other.of_pci else other
    names = _gpu_names(lines) or _names_in_lspci(lines, len(topo.gpus) if topo else 0)
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


def _gpu_names(lines: Sequence[str]) -> dict[int, str]:
    """GPU -> its name; that of plain nvidia-smi may be cut off, and ends then in dots."""
    lists = filter(None, map(_LISTED.match, lines))
    listed = {int(gpu): line[2] for line in lists for gpu in line[1].split(",")}
    in_query = [line[1] for line in filter(None, map(_IN_QUERY.match, lines))]
    in_table = {int(line[1]): line[2] for line in filter(None, map(_IN_TABLE.match, lines))}
    return listed or dict(enumerate(in_query)) or in_table


def _names_in_lspci(lines: Sequence[str], gpus: int) -> dict[int, str]:
    """The same of lspci, which has no numbers of GPUs: where it names as many as a matrix has, and no other."""
    names = {line[1]: line[2] for line in filter(None, map(_IN_LSPCI.match, lines))}  # each once, by its address
    return dict(enumerate(names.values())) if len(names) == gpus and all(names.values()) else {}


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
    legend = {match[1]: match[2] for match in map(_NVIDIA_LEGEND.match, lines) if match}
    affinity, in_numa = _affinity(matrix)
    of_pci = _OF_PCI.search(matrix.command) is not None
    without = ["NVLink: topo -mp leaves it out; nvidia-smi topo -m has it"] * of_pci
    return TopoMatrix(
        gpus=tuple(matrix.gpus),
        cards=tuple(matrix.cards),
        words=words,
        affinity=affinity,
        in_numa=in_numa,
        card_names={name: legend.get(name, name) for name in matrix.cards},
        notes=(*_missing(matrix, words), *without),
        of_pci=of_pci,
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
            if _CPUS.fullmatch(cell) or cell == "NUMA":  # a row that is cut off before its fields
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
        lost = len(fields) < len(_HEADED.findall(headed)) and bool(fields) and fields[0].isdecimal()
        cpus = fields.pop(0) if "CPU Affinity" in headed and fields and not lost else ""
        numa = fields.pop(0) if "NUMA Affinity" in headed and fields else ""
        if _CPUS.fullmatch(numa):
            found[gpu] = f"NUMA {numa}"
        elif _CPUS.fullmatch(cpus):
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
    match = _CAPABILITY.search(matrix.title) or _CAPABILITY.search(matrix.command)
    return PeerMatrix(tuple(matrix.gpus), match[1] if match else "", peers)
