"""`rocm-smi --showtopo` or `amd-smi topology`: which AMD GPUs are joined by XGMI, and which NUMA node each is on.

The kind of link says XGMI also of GPUs that reach each other through others, and hops are 1 then, too; the weight tells
them apart: 15 for one XGMI link on the way, 30 for two. How many links join a pair, it does not say.

amd-smi, its successor, prints the same tables with other titles, by addresses, and no NUMA nodes.

References: ROCm/rocm-systems issues 5763 and 7372 (hops and weights); rocm_smi.py of ROCm.
"""

import re
from dataclasses import dataclass
from itertools import combinations

from resnetx.formats.device_matrix import DeviceMatrix, matrices, plain_lines
from resnetx.loading import File

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
    found = [match for match in map(_NUMA.search, lines) if match]
    affinity = {f"GPU{match[1]}": f"NUMA {match[2]}" for match in found if int(match[2]) >= 0}
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
            named = _ADDRESS.sub(lambda found: numbers.setdefault(found[0].lower(), f"GPU{len(numbers)}"), line)
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
