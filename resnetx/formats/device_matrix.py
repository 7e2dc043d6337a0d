"""Matrices of devices as nvidia-smi and rocm-smi print them: a row and a column for each GPU and network card.

Such text arrives with tabs or blanks, wrapped by a terminal, underlined by escape codes, quoted in Markdown, trimmed by
hand or cut off. So columns are named by the header (or, where that is gone, by the rows), a row is known by its label,
and what a terminal broke is joined again. What the cells mean is for `nvidia_smi_topo` and `rocm_smi_topo` to say.

References: nvidia-smi(1), "topo"; rocm-smi --showtopo.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from resnetx.loading import File

MAX_DEVICES = 512  # of a matrix: a rack of 72 GPUs and its network cards is far below

_ESCAPE = re.compile(r"(?:\x1b|␛|\^\[|\\e|\\033|\\x1b)?\[[0-9;]{0,10}m|\x1b[\[(][0-9;?]{0,10}[A-Za-z]")
_NOTE = re.compile(r"\([^()]{0,200}\)")  # behind a label: GPU0 (Tesla P100)
# Some copies have lost what stood between the names of the header: GPU0GPU1mlx5_0.
_GLUED = re.compile(r"GPU\d{1,4}(?=[A-Za-z])|(?:NIC|mlx\d_)\d{1,3}(?=GPU\d|NIC\d|mlx\d)|.+")
_APART = re.compile(r"\bGPU\s(?=\d{1,4}(?!\d*:))")  # GPU 0; of nvidia-smi -L, GPU 0: is no label
_GPU = re.compile(r"GPU\d{1,4}")
_CARD = re.compile(r"(?:NIC\d|mlx\d|hfi\d|rdmap\d|bnxt_re|roce|irdma|qedr|efa_?\d|ib\d)[\w.-]*")
_LEGEND = ("X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "PSB", "OK", "CNS", "GNS", "TNS", "NS", "DR")  # of cells
_CELL = re.compile(rf"{'|'.join(sorted(_LEGEND, key=len, reverse=True))}|NV[1-9]\d{{0,2}}")
_CPUS = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")
_OF_GPU = re.compile(r"^\s*GPU\s*\[?\d{1,4}\]?\s*:")  # a line about one GPU: GPU[0] : ..., GPU 0: ..., GPU 0  : ...
_FIELD = {"CPU", "NUMA", "GPU", "Affinity", "ID"}  # words of the headers behind the columns of devices
_PROMPT = re.compile(r"^\s*(?:\S{0,100}[$#%>]\s+|[$#>]\s*)?(?:\S*/)?(?:nvidia-smi|rocm-smi|amd-smi)\b")


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
        labelled = _APART.sub("GPU", _NOTE.sub(" ", line))
        words = [part for word in labelled.split() for part in _GLUED.findall(word)]
        if _PROMPT.match(line):
            command = line.strip()
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


def recognised(text: str) -> bool:
    """Whether a text may be of rocm-smi."""
    return bool(re.search(r"between two GPUs|ROCm System Management|\(Topology\)", text) or _AMD_SMI.search(text))


def parse(file: File, text: str) -> RocmTopo:
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
