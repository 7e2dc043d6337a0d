"""Pair copies as two programs print them: p2pBandwidthLatencyTest and nvbandwidth."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import msgspec

from resnetx.errors import some
from resnetx.formats.copy_rows import (
    LOAD,
    MOST_BYTES,
    MOST_PLACES,
    STAGED,
    CopyRow,
    CopyTable,
    ListedGpu,
    gpus_of,
    matrix_below,
    number,
    seconds,
)
from resnetx.loading import File, decode
from resnetx.record.bench_record import Access, CopyEnd, Engine, Pair

# ---- p2p test -------------------------------------------------------------------------------------------------------
# Text of p2pBandwidthLatencyTest (NVIDIA/cuda-samples), and of copies of it: matrices of all ordered pairs.
#
#     Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
#     Device=0 CANNOT Access Peer Device=1
#     P2P Connectivity Matrix
#          D\D     0     1
#          0       1     0
#     Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
#        D\D     0      1
#          0 500.90   9.84
#          1   9.84 500.30
#
# The GPU of a row issues the copies: it sends ("P2P Writes", and with peer access off in versions that say so), or it
# receives ("P2P Reads", and everything of older versions, which say neither). A bandwidth on the diagonal counts what
# is read and what is written. "P2P=Enabled" asks for peer access: pairs that have none, by the connectivity matrix or
# by a line "CANNOT Access Peer", are staged in host memory all the same. The size of the copies is not printed: 40 MB
# in older versions, 160 MB in those that say whether peers write or read; latencies are of 1 B and 16 B. Newer ones
# print two matrices of latencies, the GPU's and the host's; the GPU's is taken.
#
# Source: Samples/5_Domain_Specific/p2pBandwidthLatencyTest/p2pBandwidthLatencyTest.cu.

OLD_BYTES, NEW_BYTES = 40_000_000, 160_000_000
OLD_LATENCY_BYTES, NEW_LATENCY_BYTES = 1, 16
P2P_TEST_MARK = re.compile(r"P2P.{0,40}Bandwidth Latency Test|directional P2P=|P2P=(Enabled|Disabled) Latency")

_TITLE = re.compile(
    r"(?P<way>Unidirectional|Bidirectional)?\s*P2P=(?P<peer>Enabled|Disabled)\s+(?P<what>Bandwidth|Latency)"
    r"\s*(?:\(P2P (?P<access>Write|Read)s\))?\s*Matrix"
)
_CONNECTIVITY = re.compile(r"P2P Connectivity Matrix")
_PEER = re.compile(r"Device=(\d{1,4}) CANNOT Access Peer Device=(\d{1,4})")
_NEWER = re.compile(r"\(P2P (?:Writes|Reads)\)|^\s*GPU\s+0\b", re.MULTILINE)
_OLDER = re.compile(
    r"^\s*Unidirectional P2P=Enabled Bandwidth Matrix|^P2P Cliques|^\s*P2P=\w+ Latency Matrix", re.MULTILINE
)
_DEVICE = re.compile(
    r"Device:\s*(?P<index>\d{1,4}),\s*(?P<name>[^,\n]{1,100}),\s*pciBusID:\s*(?P<bus>[0-9a-f]{1,4}),"
    r"\s*pciDeviceID:\s*(?P<device>[0-9a-f]{1,4}),\s*pciDomainID:\s*(?P<domain>[0-9a-f]{1,8})",
    re.IGNORECASE,
)
Pairs = Collection[tuple[int, int]]


def parse_p2p_test(file: File, text: str, size_bytes: int | None) -> CopyTable:
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
        for row in _of_matrix(title, matrix_below(file, lines, index, may_be_cut=True), size, newer, apart)
        if row.usable
    ]
    if not rows:
        raise file.error("no matrix of it is one of p2pBandwidthLatencyTest (Unidirectional P2P=Enabled Bandwidth ...)")
    listed = devices(text)
    cut = [
        " ".join(title[0].split())
        for index, title in _titles(lines)
        if _is_cut(matrix_below(file, lines, index, may_be_cut=True))
    ]
    either = "" if newer or _OLDER.search(text) else f", or {NEW_BYTES}: the text does not show its version"
    program = f"{size} bytes, as the program has it{either}"
    notes = [] if size_bytes else [f"the file does not say how large copies are: {program}"]
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
                evidence=(_evidence_of_setting(asked, peers, local),),
                direction="both-ways" if both else "one-way",
                access=access if peers else "",
                path=None if peers or local else "host",
            )


def _evidence_of_setting(asked: bool, peers: bool, local: bool) -> str:
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
    rows = [row for row in _tartan_rows(file, text.splitlines(), without_peers(file, text)) if row.usable]
    if not rows:
        raise file.error("no matrix of it is one of Tartan's by size (===== 1024 =====, then PCIe-Latency, ...)")
    listed = devices(text)
    return CopyTable("Tartan scale_up_p2p_packet", gpus_of(rows, listed), tuple(rows), devices=tuple(listed))


def _tartan_rows(file: File, lines: Sequence[str], apart: Pairs) -> Iterator[CopyRow]:
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


# ---- nvbandwidth ----------------------------------------------------------------------------------------------------
# What nvbandwidth prints, as text or as JSON (-j): a matrix for each test, "N/A" where nothing was measured.
#
#     Running device_to_device_memcpy_read_ce.
#     memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
#                0         1
#      0       N/A     26.34
#      1     21.95       N/A
#
#     SUM device_to_device_memcpy_read_ce 48.29
#
#     {"nvbandwidth": {"version": "v0.8", "testcases": [
#       {"name": "device_to_device_memcpy_read_ce", "status": "Passed", "bandwidth_matrix": [["N/A", "26.34"], ...]}]}}
#
# A row is the GPU that issues the copies (testcases_ce.cpp: `value(srcDeviceId, peerDeviceId)`). A write goes from it
# to the GPU of the column, a read comes from there: the arrow of the printed titles points the other way. Of copies
# between host and GPUs, rows are hosts. Tests in both directions at once print each direction, then "Total", which is
# read; in JSON the three are one matrix, one below the other. Older ones print one matrix: of SMs both directions, of
# copy engines the measured one of two, which is left out, as are those with the host. Latencies are accesses of an SM
# to memory of another GPU or the host, one after the other. How large copies are is written in the JSON of some
# versions only: 512 MiB unless they say so.
#
# Source: NVIDIA/nvbandwidth, testcases_ce.cpp, testcases_sm.cpp, inline_common.h (text), json_output.cpp; kernels.cuh
# and common.h for latencies.

BUFFER_BYTES = 512 * 2**20  # common.h: defaultBufferSize
LOAD_BYTES = 8  # kernels.cuh: a LatencyNode is a pointer
NVBANDWIDTH_MARK = re.compile(
    r"^\s*(?:nvbandwidth Version:|(?:Running|SUM|&&&& PERF) (?:device_local_copy|\w+_(?:ce|sm|tma))(?:_\w+)?(?:\.| )"
    r"|memcpy (?:CE|SM) [CG]PU\(row\) [<>-]{2,3} [CG]PU\(column\)(?: \w{1,20})? bandwidth \(GB/s\))",
    re.MULTILINE,
)
UNNAMED = "a matrix without the name of its test"
MOST_AT_ONCE = 64  # GPUs of one host that copy at once: each cell names all others
_PAIRS = re.compile(r"(?:multinode_)?device_to_device_(bidirectional_)?memcpy_(read|write)_(ce|sm|tma)")
_HOST = re.compile(r"(host_to_device|device_to_host|all_to_host|host_to_all)_memcpy_(ce|sm)")
_LATENCY = re.compile(r"(host_device|device_to_device)_latency_sm")
_LOCAL = re.compile(r"device_local_copy(?:_(sm|tma))?")
_ENGINES: dict[str | None, Engine] = {"ce": "copy engine", "sm": "SM", "tma": "TMA", None: "copy engine"}


MOST_OF_A_SUM = 0.01  # cells and sums are rounded to 0.01 GB/s
MOST_NOTED = 5


class _Test(msgspec.Struct):
    name: str
    status: str = ""
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str | float | None]] = []
    printed_sum: float | None = None  # of the cells, below the matrix


class _Results(msgspec.Struct):
    version: str = ""
    git_version: str = ""
    driver: str = msgspec.field(name="Driver Version", default="")
    gpus: list[str] = msgspec.field(name="GPU Device list", default_factory=list)
    buffer_MiB: float | str | None = msgspec.field(name="bufferSize", default=None)
    testcases: list[_Test] = []


class _Written(msgspec.Struct):
    nvbandwidth: _Results


def parse_nvbandwidth(file: File, content: bytearray, size_bytes: int | None) -> CopyTable:
    """The pairs of a file of JSON. `size_bytes`: of the copies; None: what it says, or the program's default."""
    written = decode(replace(file, what="the JSON of nvbandwidth"), content, _Written)
    return _table(file, written.nvbandwidth, size_bytes)


def parse_text(file: File, text: str, size_bytes: int | None) -> CopyTable:
    """The same of printed text, which may hold the output of several calls."""
    results = _printed(file, text.splitlines())
    if not results.testcases:
        if waived := re.findall(r"^Waiving (\w+)", text, re.MULTILINE):
            raise file.error(
                f"nvbandwidth left out {some(waived, where='')}, as where GPUs are no peers; expected a test that ran"
            )
        raise file.error(
            "has no matrix of nvbandwidth, as where its sums alone were kept; expected all that it printed"
        )
    return _table(file, results, size_bytes)


def _table(file: File, results: _Results, size_bytes: int | None) -> CopyTable:
    size, notes = _size(results, size_bytes)
    rows = [row for test in results.testcases for row in _rows(test, size) if row.usable]
    read = {row.evidence[0].split()[1] for row in rows}
    notes += list(filter(None, (_unlike_its_sum(test) for test in results.testcases if test.name in read)))[:MOST_NOTED]
    left_out = list(dict.fromkeys(test.name for test in results.testcases if test.name not in read))
    if left_out:
        notes.append(f"left out: {', '.join(left_out[:20])}")
    if not rows and UNNAMED in left_out:
        raise file.error(f"holds {UNNAMED} (Running ..., or SUM ...); expected the output of nvbandwidth as it was")
    if not rows:
        raise file.error("no test of it has copies between GPUs, within one, or from or to the host, that passed")
    runs = Counter((test.name, test.bandwidth_description) for test in results.testcases if test.name in read)
    if again := list(dict.fromkeys(name for (name, _), count in runs.items() if count > 1)):
        notes.append(f"holds {max(runs.values())} runs of {', '.join(again[:20])}: medians of their times")
    version = results.version or results.git_version or "of unknown version"
    driver = f", driver {results.driver}" if results.driver else ""
    listed = list({gpu.index: gpu for gpu in map(_gpu, results.gpus) if gpu}.values())
    if len({(gpu.index, gpu.name) for gpu in map(_gpu, results.gpus) if gpu}) > len(listed):
        raise file.error("lists other GPUs by the same numbers, as of two machines; expected the output of one")
    return CopyTable(
        f"nvbandwidth {version}{driver}"[:200],
        gpus_of(rows, listed),
        tuple(rows),
        notes=tuple(notes),
        devices=tuple(listed),
    )


def _size(results: _Results, size_bytes: int | None) -> tuple[int, list[str]]:
    stated = number(str(results.buffer_MiB))
    if size_bytes:
        return size_bytes, []
    if 0 < stated < 2**20:
        return int(stated * 2**20), []
    return BUFFER_BYTES, ["the file does not say how large copies are: 512 MiB, as the program has it"]


_LISTED = re.compile(
    r"(?:Process (?P<process>\d{1,4}) \((?P<host>[^)]{1,255})\): device )?(?P<index>\d{1,4}): (?P<name>[^()]{1,100}?)"
    r"(?: \((?P<domain>[0-9a-f]{1,8}):(?P<bus>[0-9a-f]{1,2})(?::(?P<device>[0-9a-f]{1,2}))?\)|\s*\Z)",
    re.I,
)  # of tests between nodes, by the processes that their matrices number; the first versions print no addresses


def _gpu(line: str) -> ListedGpu | None:
    """A GPU that a line lists."""
    match = _LISTED.search(line)
    if match is None or (index := int(match["process"] or match["index"])) >= MOST_PLACES:
        return None
    bus = match["bus"]
    address = f"{match['domain']:0>8}:{bus:0>2}:{match['device'] or 0:0>2}.0".lower() if bus else ""
    return ListedGpu(index, match["name"].strip(), address, match["host"] or "", int(match["index"]))


# ---- text

_RUNNING = re.compile(r"\s*Running (\w{1,100})\.?\s*")
_SUM = re.compile(r"\s*(?:SUM|&&&& PERF) (\w{1,100}?)(?:_(?:read|write)?[12]|_total)? (\S+).*")
_DESCRIPTION = re.compile(r".*(?:\((?:row|column)\)|All Gpus).*\((?:GB/s|ns)\)\s*")
_SAID = {
    "version": re.compile(r"\s*nvbandwidth Version: (\S{1,50})\s*"),
    "git_version": re.compile(r"\s*Built from Git version: (\S{1,50})\s*"),
    "driver": re.compile(r"\s*Driver Version: (\S{1,50})\s*"),
}


def _printed(file: File, lines: Sequence[str]) -> _Results:
    """A test for each matrix, and for each name whose matrix does not follow."""
    results = _Results(gpus=[line for line in lines if line.lstrip().startswith(("Device ", "Process "))])
    name, waiting = "", False  # of the test that runs, and whether its matrix is still to come
    for index, line in enumerate(lines):
        for field, pattern in _SAID.items():
            if (said := pattern.fullmatch(line)) and not getattr(results, field):
                setattr(results, field, said[1])
        if running := _RUNNING.fullmatch(line):
            results.testcases += [_Test(name)] * waiting
            name, waiting = running[1], True
        elif _DESCRIPTION.fullmatch(line):
            matrix: list[list[str | float | None]] = [list(row) for row in matrix_below(file, lines, index)]
            below, total = _summed_below(lines, index)
            own = below or name or UNNAMED
            results.testcases += [_Test(name)] * (waiting and own != name)
            results.testcases.append(_Test(own, "", line.strip(), matrix, total))
            waiting = False
    results.testcases += [_Test(name)] * waiting
    return results


def _summed_below(lines: Sequence[str], title: int) -> tuple[str, float | None]:
    """The name of a test and its sum, by the line below the matrix of a title; "": another title comes first."""
    for line in lines[title + 1 : title + 2 * MOST_PLACES]:
        if match := _SUM.fullmatch(line):
            return match[1], number(match[2]) or None
        if _DESCRIPTION.fullmatch(line) or _RUNNING.fullmatch(line):
            break
    return "", None


def _unlike_its_sum(test: _Test) -> str:
    """That a test's cells do not add up to what is printed below them; "": they do, or nothing is."""
    total = sum(figure for _, _, figure in _cells(test.bandwidth_matrix))
    if test.printed_sum is None or abs(total / test.printed_sum - 1) <= MOST_OF_A_SUM:
        return ""
    return (
        f"{test.name}: its cells add up to {total:.6g}, and its SUM is {test.printed_sum:.6g}; some are missing, or of "
        "another test"
    )


# ---- figures

Cell = tuple[int, int, float]  # row, column, figure


def _rows(test: _Test, size: int) -> Iterator[CopyRow]:
    """The copies of a test; none of one that is not read, or did not pass."""
    if test.status not in ("Passed", ""):
        return
    if pairs := _PAIRS.fullmatch(test.name):
        for row, column, rate_GBps in _cells(_square(test, both=bool(pairs[1]), engine=pairs[3])):
            source, target = (row, column) if pairs[2] == "write" else (column, row)
            yield CopyRow(
                "device",
                source,
                target,
                size,
                seconds(size * (2 if pairs[1] else 1), rate_GBps),
                _evidence(test),
                direction="both-ways" if pairs[1] else "one-way",
                access="write" if pairs[2] == "write" else "read",
                engine=_ENGINES[pairs[3]],
            )
    elif host := _HOST.fullmatch(test.name):
        yield from _of_host(test, host, size)
    elif latency := _LATENCY.fullmatch(test.name):
        for row, column, time_ns in _cells(test.bandwidth_matrix):
            memory = column if latency[1] == "device_to_device" else _memory(test, row)
            by = row if latency[1] == "device_to_device" else column
            yield CopyRow(LOAD, memory, by, LOAD_BYTES, time_ns * 1e-9, _evidence(test), access="read", engine="SM")
    elif local := _LOCAL.fullmatch(test.name):
        for _, column, rate_GBps in _cells(test.bandwidth_matrix):
            time_s = seconds(size, rate_GBps)
            yield CopyRow("local", column, column, size, time_s, _evidence(test), engine=_ENGINES[local[1]])


def _cells(matrix: Sequence[Sequence[str | float | None]]) -> Iterator[Cell]:
    """What was measured."""
    for row, cells in enumerate(matrix[:MOST_PLACES]):
        for column, cell in enumerate(cells[:MOST_PLACES]):
            figure = number(str(cell))
            if figure > 0:
                yield row, column, figure


def _square(test: _Test, both: bool, engine: str) -> Sequence[Sequence[str | float | None]]:
    """The matrix of all pairs of a test between GPUs; of both directions at once, of their sum. []: it has none."""
    matrix = test.bandwidth_matrix
    gpus = len(matrix[0]) if matrix else 0
    if both and len(matrix) == 3 * gpus:  # JSON: one direction, the other, both
        return matrix[2 * gpus :]
    one_of_two = re.search(r"(?:Read|Write)[12] ", test.bandwidth_description)
    summed = "Total" in test.bandwidth_description or engine != "ce"
    return matrix if len(matrix) == gpus and (not both or (summed and not one_of_two)) else []


def _of_host(test: _Test, host: re.Match[str], size: int) -> Iterator[CopyRow]:
    """Of each GPU alone, or of all at once: then each cell is that of one GPU beside all others."""
    down = host[1] in ("host_to_device", "host_to_all")
    at_once = host[1] in ("host_to_all", "all_to_host")
    cells = list(_cells(test.bandwidth_matrix))
    if at_once and len(cells) > MOST_AT_ONCE:
        return

    def ends(row: int, column: int) -> tuple[CopyEnd, CopyEnd]:
        memory = _memory(test, row)
        return (memory, column) if down else (column, memory)

    for row, column, rate_GBps in cells:
        others = [ends(at, other) for at, other, _ in cells if (at, other) != (row, column)] if at_once else []
        yield CopyRow(
            "from-host" if down else "to-host",
            *ends(row, column),
            size,
            seconds(size, rate_GBps),
            _evidence(test),
            endpoint="pinned",
            engine=_ENGINES[host[2]],
            together=tuple(Pair(source=source, target=target) for source, target in others),
        )


def _memory(test: _Test, row: int) -> CopyEnd:
    """Of the host, of a row; of several rows, of its NUMA node."""
    return "host" if len(test.bandwidth_matrix) == 1 else f"numa{row}"


def _evidence(test: _Test) -> tuple[str, ...]:
    return (f"nvbandwidth {test.name}", test.bandwidth_description[:200])
