"""What torch logs when ranks are lost: which rank, and in which collective. No line of it is a measurement.

    [rank1]:[E626 06:24:44.903 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout:
    WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020
    milliseconds before timing out.

The watchdog of each rank says so of the collective that did not end, torch before 2.1 without the numbers of elements,
and then what its rank had sent off. torchrun ends the log with the rank that failed first.

Sources: torch/distributed/elastic/multiprocessing/errors/__init__.py of torch 2.15, and what
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of torch 1.12 to 2.8 printed in public issues of both.
"""

import html
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from resnetx.loading import FLIGHT_RECORDER, MEMORY, File

_WATCHDOG = re.compile(
    r"\[Rank (?P<rank>\d{1,7})\]\s{1,20}Watchdog caught collective operation timeout:\s{1,20}"
    r"WorkNCCL\(SeqNum=(?P<number>\d{1,15}),\s{0,20}OpType=(?P<operation>\w{1,40})"
    r"(?:,\s{0,20}NumelIn=(?P<elements>\d{1,18}))?[^\[]{0,200}?\sran\s{1,20}for\s{1,20}(?P<ms>\d{1,15})\s"
)
_SENT = re.compile(
    r"\[PG[^\]]{0,200}?Rank (?P<rank>\d{1,7})\][^\[]{0,300}?"
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<begun>-?\d{1,15}), last completed (?:NCCL )?work: (?P<ended>-?\d{1,15})"
)
_ENDED = re.compile(
    r"Rank (?P<rank>\d{1,7})\] Process group watchdog thread terminated with exception: (?P<error>[^\n]{1,300})"
)
_SIGNAL = re.compile(r"due to a collective timeout from {1,3}rank (?P<rank>\d{1,7})")
_FIRST = re.compile(
    r"Root Cause \(first observed failure\):\s{1,20}\[\d{1,7}\]:\s{1,20}time {0,9}:[^\n]{0,100}\s{1,20}"
    r"host {0,9}: (?P<host>[^\n]{0,255})\s{1,20}rank {0,9}: (?P<rank>\d{1,7}) \([^\n]{0,60}\s{1,20}"
    r"exitcode {0,9}: (?P<status>-?\d{1,9})"
)
_LOCAL = re.compile(r"failed \(exitcode: (?P<status>-?\d{1,9})\) local_rank: (?P<rank>\d{1,7}) \(pid: ")
_STUCK = re.compile(r"Rank (?P<rank>\d{1,7})\] Heartbeat monitor timed out")
_MOST_NAMED = 8  # ranks


@dataclass(frozen=True)
class Waiting:
    """A rank that waited in a collective until its watchdog ended it."""

    rank: int
    operation: str  # as torch names it: "ALLREDUCE"
    number: int  # of the collectives of its group, which all ranks count alike
    elements: int | None  # that it sends; None: this torch does not say
    time_s: float


def waiting(log: str) -> list[Waiting]:
    """The ranks that a log says this of, by rank; of each the earliest collective."""
    found: dict[int, Waiting] = {}
    for line in _WATCHDOG.finditer(log):
        elements = None if line["elements"] is None else int(line["elements"])
        each = Waiting(int(line["rank"]), line["operation"], int(line["number"]), elements, int(line["ms"]) / 1000)
        if each.rank not in found or each.number < found[each.rank].number:
            found[each.rank] = each
    return [found[rank] for rank in sorted(found)]


def waited(waits: Sequence[Waiting], of: Collection[int] = ()) -> str:
    """What these ranks waited in, in words, and for which of all ranks (`of`), where these are known."""
    groups: dict[tuple[int, str, int | None], list[Waiting]] = {}
    for wait in waits:
        groups.setdefault((wait.number, wait.operation, wait.elements), []).append(wait)
    said = []
    for (number, operation, elements), group in sorted(groups.items(), key=lambda item: item[0][:2])[:3]:
        size = "" if elements is None else f", {elements:,} elements"
        times = f"{max(each.time_s for each in group):.0f} s"
        said.append(f"{named([each.rank for each in group])} waited {times} in {operation} (SeqNum {number}{size})")
    missing = set(of) - {wait.rank for wait in waits}
    return " and ".join(said) + (f", which {named(missing)} did not enter or end" if missing else "")


def errors(log: str) -> dict[int, str]:
    """What NCCL told the watchdogs of ranks, which then ended them: its asynchronous errors, by rank."""
    return {int(line["rank"]): line["error"].strip() for line in _ENDED.finditer(log)}


def says(log: str) -> str:
    """What a log says of lost ranks, in words without a full stop; "" where it says nothing of the kind."""
    found = waiting(log)
    parts = [f"by its NCCL watchdog, {waited(found)}"] if found else []
    if not found and (first := _SIGNAL.search(log)):
        parts.append(f"rank {first['rank']} was the first whose collective timed out")
    sent = {int(line["rank"]): int(line["begun"]) for line in _SENT.finditer(log)}
    if behind := [rank for rank, begun in sent.items() if begun < max(sent.values())]:
        parts.append(f"{named(behind)} had begun fewer collectives than others ({min(sent.values())} of "
                     f"{max(sent.values())})")  # fmt: skip
    if first := _FIRST.search(log):
        parts.append(f"rank {first['rank']} on {first['host'].strip()} failed first, {_status(int(first['status']))}")
    elif first := _LOCAL.search(log):
        parts.append(f"local rank {first['rank']} of a node failed, {_status(int(first['status']))}")
    if stuck := {int(line["rank"]) for line in _STUCK.finditer(log)}:
        parts.append(f"the watchdog of {named(stuck)} stood still (its heartbeat timed out)")
    return f"a log of torch, not a measurement: {'; '.join(parts)}" if parts else ""


def named(ranks: Collection[int]) -> str:
    """ "rank 1", or "ranks 0, 1"."""
    listed = ", ".join(map(str, sorted(ranks)[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' * (len(ranks) > 1)} {listed}{more}"


def _status(status: int) -> str:
    if status >= 0:
        return f"with exit status {status}"
    known = {number.value: number.name for number in signal.Signals}
    return f"by signal {-status}" + (f" ({known[-status]})" if -status in known else "")


# What launchers, log shippers, terminals and web pages add to the lines that a program printed, taken away again.
#
#     plain("[1,0]<stdout>:\x1b[0m#  size  count")     # "#  size  count"
#
#     0:                                  srun --label
#     [0]                                 mpiexec -l, Intel MPI; torchrun's [rank0]: and [default0]:
#     [1,0]<stdout>:                      Open MPI, --tag-output; PRRTE: [prterun-node-1@1,0]<stdout>:
#     (worker pid=12, ip=10.0.0.1)        Ray
#     2026-01-31T03:04:05.678Z stdout F   log shippers: containers, the kernel's log, Python's logging
#     node01:   worker-0 |   [pod/x/y]    pdsh, docker compose, kubectl: only where most lines begin so, for a program
#                                         prints words like these, too
#     >                                   quoted in mail or Markdown
#     12  12: 12|                         numbers of lines, where all lines that are not empty have one
#     <pre> <details> <br>                tags of web pages, beside escaped characters
#
# Blanks behind a label stay, as columns are aligned by them.

_ENTITY = re.compile(r"&(?:lt|gt|amp|nbsp|quot|#\d{1,6});")
_ESCAPE = re.compile(  # ECMA-48; colours whose first letter is lost, too
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_])|(?:␛|\^\[)?\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_TAG = re.compile(
    r"</?(?:a|b|blockquote|code|details|div|em|i|p|pre|samp|span|strong|summary|table|tbody|td|tr)\b[^<>\n]{0,200}>"
)
_BREAK = re.compile(r"<br ?/?>")
_NUMBERED = re.compile(r"[ \t]{0,8}(\d{1,7})(?:[ \t]?[|:.)]|(?=[ \t])|\Z)[ \t]?")
_LEAST_NUMBERED = 3  # lines
_LABEL = re.compile(r"\[(?:rank|default)?\d{1,6}\]:?")
_GLUED_LABEL = re.compile(rf"(?<=[\w.]){_LABEL.pattern}(?=\s)")  # 0[3]   340.8
_LABELS = tuple(
    re.compile(rf"[ \t]{{0,8}}(?:{label})")
    for label in (
        r"\d{1,6}: ",
        rf"{_LABEL.pattern}(?= |#|\Z) ?",
        r"\[(?:[\w.@-]{1,200}[@,:])?\d{1,6},\d{1,6}\](?:<std(?:out|err)>:? ?|: ?)",
        r"\(\w[\w.() -]{0,80}\bpid=\d+[^)]{0,80}\) ?",
        rf"\[?\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]|, ){_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?:? ?",
        rf"\[?{_DAY} {_CLOCK}(?: \d{{4}})?\]?(?: [\w.-]{{1,80}} [\w./-]{{1,80}}(?:\[\d+\])?:|:)? ?",
        rf"\[?{_CLOCK}\]?:? (?=\D)",
        r"std(?:out|err) [FP] ",
        r"(?:\{[\w.]{1,40}:\d+\} )?(?:DEBUG|INFO|WARNING|ERROR) ?[-:|] ?",
        r">(?: |(?=#)|$)",
    )
)
_NAME = re.compile(r"[ \t]{0,8}(?:\[(?:pod/)?[\w./-]{1,200}\]|[\w.-]{1,80}\s{0,8}\||[\w.-]{1,80}:)[ \t]")
_MOST_LABELS = 6  # one in front of the other
_LONGEST = 10_000  # characters of a command


def plain(text: str) -> str:
    """The text as its program printed it, with a line feed behind each line."""
    if _ENTITY.search(text):
        text = html.unescape(text)
    text = _INVISIBLE.sub("", _ESCAPE.sub("", text)).replace("\xa0", " ")
    text = _BREAK.sub("\n", _TAG.sub("", text))
    lines = [_unlabelled(line) for line in _unnumbered(text.splitlines())]
    filled = [line for line in lines if line.strip()]
    if filled and sum(_NAME.match(line) is not None for line in filled) > len(filled) / 2:
        lines = [_unlabelled(_NAME.sub("", line, count=1)) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def cells(line: str) -> list[str]:
    """The words of a table's line, without labels that stand between its columns, or rules of a drawn table."""
    words = _GLUED_LABEL.sub(" ", line.replace("|", " ")).split()
    return [word for word in words if not _LABEL.fullmatch(word)]


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, from 1; a command that a backslash continues on the next line is one."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.rstrip().endswith("\\") and len(before) < _LONGEST:
            before += line.rstrip()[:-1]
        else:
            yield number, before + line
            before = ""


def _unnumbered(lines: list[str]) -> list[str]:
    """The lines without their numbers, which follow each other; all of them, where these are no numbers of lines."""
    numbers = [_NUMBERED.match(line) for line in lines]
    if sum(map(bool, numbers)) < _LEAST_NUMBERED:
        return lines
    last: int | None = None
    for line, number in zip(lines, numbers, strict=True):
        if number is None and line.strip():
            return lines
        if number is not None:
            if last is not None and int(number[1]) != last + 1:
                return lines
            last = int(number[1])
    return [line[number.end() :] if number else line for line, number in zip(lines, numbers, strict=True)]


def _unlabelled(line: str) -> str:
    for _ in range(_MOST_LABELS):
        found = next((match for label in _LABELS if (match := label.match(line)) and match.end()), None)
        if found is None:
            return line
        line = line[found.end() :]
    return line


# ---- nccl log -------------------------------------------------------------------------------------------------------
# The channels of NCCL's debug log, and the collectives that it names: who sends to whom, and how much.
#
#     NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL python train.py 2> nccl.log
#
# With INIT, rank 0 names the ring of each channel ("Channel 00/04 :    0   3   2   1"), and each rank its connections
# ("Channel 00/0 : 0[0] -> 3[3] via P2P/CUMEM"). With COLL each operation is a line ("AllReduce: opCount 0 ... count
# 2048 datatype 7"); the enumeration of types is that of nccl.h. Where the rings are not named, connections stand for
# them, of which a tree has some, too.

LIMIT_BYTES = 2**28
MOST_RANKS = 2**10

_RING = re.compile(r"NCCL INFO Channel (\d{1,4})/\d{1,4} ?:((?: +\d{1,4})+)\s*$", re.MULTILINE)
_CONNECTION = re.compile(
    r"NCCL INFO (?:Channel|Ring) (\d{1,4})(?:/\d{1,4})? ?: (\d{1,4})\[[^\]\n]{0,40}\] -> (\d{1,4})\[[^\]\n]{0,40}\]"
    r"(?: \[\w{1,10}\])?(?: via (?P<via>[\w/ ]{1,40}))?"
)
_OPERATION = re.compile(
    r"^(?P<who>[^\n]{0,200}?)NCCL INFO (?P<name>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce): opCount "
    r"[^\n]{0,200}? count (?P<count>\d{1,15}) datatype (?P<type>\d{1,2}) ",
    re.MULTILINE,
)
# nccl.h, ncclDataType_t: int8 0, uint8 1, int32 2, uint32 3, int64 4, uint64 5, float16 6, float32 7, float64 8, ...
_TYPE_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}
_COLLECTIVES = {
    "AllReduce": "allreduce",
    "AllGather": "allgather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
}


@dataclass(frozen=True)
class LoggedChannels:
    """What a log says. `rings`: an order of ranks for each channel; [] where only connections are named."""

    rings: list[tuple[int, ...]]
    connections: Counter[tuple[int, int]]  # (from, to) -> channels that connect them
    transports: Counter[str]  # "P2P/CUMEM" -> connections by it
    operations: Counter[tuple[str, int]]  # (collective, bytes as the log counts them) -> how often one rank ran it
    ranks: int


def read_channels(path: Path) -> LoggedChannels:
    """What is in a log of one or all ranks of one communicator."""
    file = File(path, "a log of NCCL", LIMIT_BYTES)
    channels = channels_of(file.text())
    if channels is None:
        raise file.error(
            "names no channels; expected a log of NCCL_DEBUG=INFO, or a CSV whose name ends in .csv, or a record"
        )
    if channels.ranks > MOST_RANKS:
        raise file.error(f"{channels.ranks} ranks; expected at most {MOST_RANKS}")
    return channels


def channels_of(text: str) -> LoggedChannels | None:
    """The same of a text; None where it names no channels."""
    rings = {int(channel): tuple(map(int, order.split())) for channel, order in _RING.findall(text)}
    rings = {channel: order for channel, order in rings.items() if len(order) > 1 and len(set(order)) == len(order)}
    connected = {
        (int(match[1]), int(match[2]), int(match[3])): (match["via"] or "").strip()
        for match in _CONNECTION.finditer(text)
    }
    connections = Counter((by, to) for _, by, to in connected if by != to)
    if not rings and not connections:
        return None
    transports = Counter(via for (_, by, to), via in connected.items() if via and by != to)
    ranks = 1 + max(
        [*(rank for order in rings.values() for rank in order), *(end for pair in connections for end in pair)]
    )
    return LoggedChannels(list(rings.values()), connections, transports, _operations(text), ranks)


def _operations(text: str) -> Counter[tuple[str, int]]:
    """The operations of the first rank that names any."""
    matches = list(_OPERATION.finditer(text))
    first = [match for match in matches if match["who"] == matches[0]["who"]]
    return Counter(
        (_COLLECTIVES[match["name"]], int(match["count"]) * _TYPE_BYTES[int(match["type"])])
        for match in first
        if int(match["type"]) in _TYPE_BYTES
    )


# The network cards of NCCL's debug log: by which one each connection between nodes leaves, and arrives.
#
#     NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.1.0.1<0>         cards, by their number
#     NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB ib0:10.1.0.1<0>  two ports that are used as one
#     NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2         likewise, from NCCL 2.23 on
#     Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA        of rank 3: card 0 reads GPU memory
#     Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IB/1(5)/Shared  of rank 4: card 1, which rank 5 drives (PXN)
#
# Each end is named in the log of its own rank, whose node has the card. The number behind the channel is that of the
# connection: 0 of collectives, 1 of single sends. Reference: NCCL, src/transport/net.cc, net_ib.cc and net_socket.cc.

_CARDS = re.compile(r"NCCL INFO NET/(?P<network>\w+) : Using(?P<cards> \[0\][^\n;]{0,4000})")
_CARD = re.compile(r"\[(\d{1,3})\](?:=\{(?P<ports>[^}]{0,500})\}|(?P<name>[^\s:]{1,64}))")
_PORT = re.compile(r"\[\d{1,3}\] ?([^\s:,]{1,64})")
_VIRTUAL = re.compile(r"NCCL INFO NET/IB : Made virtual device \[(\d{1,3})\] name=(\S{1,200})")
_END = re.compile(
    r"NCCL INFO Channel (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))? ?: "
    r"(?P<source>\d{1,7})\[\w{1,16}\] -> (?P<target>\d{1,7})\[\w{1,16}\] \[(?P<end>send|receive)\] via "
    r"NET/(?P<network>[^/\n]{1,40})/(?P<card>\d{1,4})(?:\((?P<proxy>\d{1,7})\))?(?P<how>(?:/\w{1,20})*)"
)
_NIC_RING = re.compile(r"NCCL INFO Channel (\d{1,4})/\d{1,4} ?:((?: +\d{1,7})+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class NetworkEnd:
    """One end of a connection between nodes."""

    channel: int
    connection: int  # 0: of collectives
    source: int  # rank
    target: int
    end: Literal["send", "receive"]
    network: str  # "IB", "Socket", "AWS Libfabric"
    card: int  # its number on the node of this end
    name: str | None  # "mlx5_0"; None where the log names no cards of this network
    gpudirect: bool
    proxy: int | None  # the rank that drives the card for this one; None: itself


def network_ends(log: str) -> list[NetworkEnd]:
    """The ends that are in the log of one rank, each once, by channel."""
    names = card_names(log)
    ends = {
        NetworkEnd(
            channel=int(match["channel"]),
            connection=int(match["connection"] or 0),
            source=int(match["source"]),
            target=int(match["target"]),
            end="send" if match["end"] == "send" else "receive",
            network=match["network"],
            card=int(match["card"]),
            name=names.get((match["network"], int(match["card"]))),
            gpudirect="GDRDMA" in match["how"],
            proxy=None if match["proxy"] is None else int(match["proxy"]),
        )
        for match in _END.finditer(log)
    }
    return sorted(ends, key=lambda end: (end.channel, end.connection, end.source, end.target, end.end))


def ring_steps(log: str) -> set[tuple[int, int, int]]:
    """(channel, rank, next rank) of every ring that the log names; rank 0's does. Other connections are of trees."""
    rings = [(int(channel), [int(rank) for rank in order.split()]) for channel, order in _NIC_RING.findall(log)]
    return {(channel, *step) for channel, order in rings for step in zip(order, order[1:] + order[:1], strict=True)}


def card_names(log: str) -> dict[tuple[str, int], str]:
    """(network, number) -> name of its card."""
    found = {("IB", int(number)): name for number, name in _VIRTUAL.findall(log)}
    for line in _CARDS.finditer(log):
        for card in _CARD.finditer(line["cards"]):
            name = card["name"] or "+".join(_PORT.findall(card["ports"]))
            found.setdefault((line["network"], int(card[1])), name)
    return found


# ---- programs whose output is given to a verb that does not read it: named, with what reads it ----------------------
#
# refused("RDMA_Write BW Test ...")            # "is of perftest (ib_write_bw, ...): copies from one network card ..."
# of_json(b'{"traceEvents": ...', "bench")     # _PROFILE

_PAIRS = "copies between pairs of GPUs, which `bench --import` reads"
_RCCL_LINES = "rccl-tests -Z; run it without -Z, and `bench --import` reads what it prints"
_MARKS = (
    (
        r"^\s*(?:RDMA_Write|RDMA_Read|Send|Write_imm|Atomic\w*)\s+(?:Bidirectional )?(?:BW|Latency)\b.{0,40}Test"
        r"|^\s*#?bytes\s+(?:#\w{1,9}\s+)?#?iterations\s+(?:BW peak|t_min|t_avg)",
        "perftest (ib_write_bw, ib_send_bw, ib_read_lat, ...): copies from one network card to another",
    ),
    (
        r"^\[ *ID\]\s+Interval\s+Transfer\s+(?:Bandwidth|Bitrate)|^iperf \d",
        "iperf: one or more sockets between two hosts",
    ),
    (r"^MIGRATED \w+ STREAM TEST|^MIGRATED \w+ REQUEST/RESPONSE TEST", "netperf: sockets between two hosts"),
    (r"^(?:tcp|rc|uc|ud|rds|sdp)_\w{1,30}:\s*$", "qperf: sockets or network cards of two hosts"),
    (r"^\|.{0,80}overhead \(usec\)", "ucx_perftest: messages of UCX between two processes"),
    (r"^\s*backend:\s+(?:sycl|host|native)\b|#repetitions\s.{0,80}stddev", "oneCCL's benchmark"),
    (r"^#\s*Intel(?:\(R\))? MPI Benchmark|^\s*#bytes\s+#repetitions\s+t", "the Intel MPI Benchmarks"),
    (r"^\[CUDA Bandwidth Test\]", "bandwidthTest of the CUDA samples: copies between one GPU and the host"),
    (r"RocmBandwidthTest Version|^\s*Inter-Device Access\s*$", "rocm-bandwidth-test"),
    (r"^[= ]{0,80}TransferBench v", "TransferBench"),
    (
        r"^\s*nvbandwidth Version:|^\s*SUM (?:device|host|all)_\w+_(?:ce|sm) |^\s*memcpy (?:CE|SM) [CG]PU\(row\) ",
        f"nvbandwidth: {_PAIRS}",
    ),
    (r"Host/Device Bandwidth Matrix|^Test Description: Bus bandwidth", "busGrind of the CUDA samples"),
    (r"^numCycle,name,", _RCCL_LINES),
    (r"P2P.{0,40}Bandwidth Latency Test|directional P2P=", f"p2pBandwidthLatencyTest: {_PAIRS}"),
    (r"^(?:Uni|Bi)-(?:PCIe|NVLink)-Bandwidth\s*$", f"Tartan: {_PAIRS}"),
    (r"^\s*#?\s*OSU \w", "the OSU micro-benchmarks, which `bench --import` reads"),
    (
        r"^[ \t]{0,80}#?[ \t]{0,80}size[ \t]{1,80}count[ \t]{1,80}type\b",
        "nccl-tests: collectives, which `bench --import` reads",
    ),
    (r"^Function\s+Best Rate MB/s\s+Avg time", "STREAM: the memory of one host"),
    (r"^\s*GPU0\s+(?:GPU1|CPU Affinity|.{0,200}NUMA Affinity)", "nvidia-smi topo -m, which `topology --import` reads"),
    (r"^\s*Link \d{1,3}: (?:[\d.]+ GB/s|<inactive>)", "nvidia-smi nvlink -s, which `topology --import` reads"),
    (r"^\| NVIDIA-SMI \d", "nvidia-smi: names of GPUs, not their wiring"),
    (r"\(Topology\) |between two GPUs", "rocm-smi --showtopo, which `topology --import` reads"),
    (r"^\s*<(?:system|graphs|topology)\b", "a topology in XML, of NCCL or lstopo, which `topology --import` reads"),
    (
        r"^\s*Machine\b.{0,80}\n\s*(?:Package|NUMANode|Group|HostBridge)|^\s*Package L#\d",
        "lstopo's text, of whose forms `topology --import` reads XML (lstopo --of xml)",
    ),
    (r"^available: \d+ nodes? \(", "numactl: the nodes of one host"),
    (r"^CA '\w+'\s*$|^hca_id:", "ibstat or ibv_devinfo: network cards alone"),
    (r"^\s*-\+?-?\[[0-9a-f]{4}:[0-9a-f]{2}\]-|^[0-9a-f:]{2,10}\.\d [\w ]{1,40}: ", "lspci: devices of a host"),
    (r"^Collective:\s+\w+\s*\nMemory type:", "ucc_perftest: collectives of UCC"),
    (r"^\s*COMMS-RES-", "PARAM's benchmark of communication"),
    (r"^\s*Time ?\(%\)\s+Total Time\b", "Nsight Systems (nsys stats): how long kernels took in all"),
    (r"^\s*Name\s+Self CPU %\s+Self CPU\b",
     "the table of a PyTorch profile (key_averages), which has no steps; export_chrome_trace writes one that "
     "`trace --import` reads"),
    (r"^[^;\n]{1,300}\(\d{1,7}\): [^;\n]{1,200};.{0,9999} \d{1,18}$",
     "PyTorch's stacks (export_stacks), which have no steps; export_chrome_trace writes what `trace --import` reads"),
    (r"^==\d+== (?:NVPROF|Profiling) ", "nvprof: how long kernels took in all"),
    (
        r"\bimg/sec per |\bimages/sec: |^(?:Epoch: )?(?:\[\d+\])?\[ {0,8}\d+/\d+\]\s+Time\b|\bRunningAvgSamplesPerSec="
        r"|\belapsed time per iteration \(ms\)|^DLL \d{4}-|(?:\b|_)(?:samples|tokens|steps)_per_sec(?:ond)?\b"
        r"|\bmfu:? {0,3}\d|\btokens/s(?:ec)?\b|^\{'loss': ",
        "a program that trains: rates, and no times of layers; give images/s as rate=BATCH:RATE",
    ),
    (r"^:::MLL(?:OG|v\d)", "MLPerf: when a job began and ended; give what one GPU does as rate=BATCH:IMAGES/S"),
    (r"^fio-\d|\bioengine=\w|\"fio version\"", "fio: a disk"),
    (r"^---- Performance of \w+ on \d+ devices", "DeepSpeed's ds_bench: collectives of torch.distributed"),
    (r"^data_size\(Bytes\)", "hccl_test: collectives of Ascend NPUs"),
    (r"^\s*size\(B\)\s+count\(elems\)", "nccom-test: collectives of AWS Neuron"),
    (r"^\|\s*NvLink Link Status|^\|\s*(?:DCGM Version|Diagnostic)\s*\|", "dcgmi: links that are up, and tests of GPUs"),
    (r"^\|?\s*payload\s*\|\s*busbw\s*\|", "all_reduce_bench.py: rates of torch's all-reduces, without times"),
    (r"^PCIe LINK SCORE: ", "p2pmark: scores of pairs of GPUs"),
    (r"^\|\s*Isolated Network Tests", "GPCNeT: the network of a cluster"),
    (r"^GPU0(?:GPU\d|X)", "nvidia-smi topo -m, without the blanks between its cells; paste it as it was printed"),
    (r"DeepSpeed Flops Profiler", "DeepSpeed's flops profiler, which has no steps"),
    (
        r'^"?(?:Step|Wall Time|Relative Time \(.{1,20})"?,.{0,300} - \S',
        "wandb: a metric by step; give images/s as rate=BATCH:RATE",
    ),
    (r"^#SBATCH ", "Slurm: the script of a job, which measures nothing"),
    (r"^Architecture:\s.{0,80}\n(?:.{0,200}\n){0,12}?\s*CPU\(s\):\s", "lscpu: the CPUs of one host"),
    (r"NCCL INFO ", "a log of NCCL (NCCL_DEBUG=INFO) without a table of nccl-tests"),
    (r"<!DOCTYPE html|^\s*<html\b", "a web page; paste what the program printed as text"),
)  # fmt: skip

_PROFILE = "PyTorch's profiler, which `trace --import` reads"
# What only such a file has, what it is, and the verb that reads it. Keys of torch's dumps: FlightRecorder.hpp and
# torch/cuda/_memory_viz.py of torch 2.15; lines and planes of XLA's: tsl/profiler/utils/xplane_schema.cc.
_JSON = (
    (r'"schemaVersion"\s*:\s*\d', _PROFILE, "trace"),
    (r'"(?:profiling_name|time_discovered_\w{1,20}_ns)"\s*:', FLIGHT_RECORDER, ""),
    (r'"(?:device_traces|segment_type)"\s*:', MEMORY, ""),
    (
        r'"(?:XLA (?:Ops|Modules)|TensorFlow (?:Ops|Name Scope)|Framework Ops|hlo_(?:op|module)|/host:CPU)"'
        r'|"/(?:device|job):[^"\n]{0,80}(?:GPU|TPU)',
        "the profiler of TensorFlow and JAX, without PyTorch's layers; give images/s as rate=BATCH:RATE, or times of "
        "layers in six columns",
        "",
    ),
    (
        r'"pid"\s*:\s*"(?:CPU|CUDA) functions"',
        "PyTorch's profiler before 1.8, which names no kinds of events; profile with torch.profiler",
        "",
    ),
    (r'"NEGOTIATE_(?:ALL|BROAD)', "Horovod's timeline: when ranks met, and no layers", ""),
    (r'"schema"\s*:\s*"[\d.]{1,12}(?:-chakra|")',
     "PyTorch's execution trace (Chakra), without times of kernels; export_chrome_trace writes them", ""),
    (r'"numCycle"\s*:', _RCCL_LINES, ""),
    (r'"num_hops"\s*:', "amd-smi topology --json; without --json, `topology --import` reads it", ""),
    (r'"\(Topology\) ', "rocm-smi --showtopo --json; without --json, `topology --import` reads it", ""),
    (r'"viztracer_metadata"\s*:', "VizTracer: functions of Python", ""),
    (r'"nvbandwidth"\s*:', f"nvbandwidth: {_PAIRS}", "bench"),
    (r'"(?:out_of_place|in_place)"\s*:', "nccl-tests: collectives, which `bench --import` reads", "bench"),
    (r'"traceEvents"\s*:', _PROFILE, "trace"),
)  # fmt: skip
_JSON_BYTES = 2**20  # of a file's beginning, which tell what it is


def of_json(content: bytes | bytearray, verb: str = "") -> str:
    """What JSON is of; "" for what is not known, or what `verb` reads."""
    if content[:4096].lstrip()[:1] not in (b"{", b"["):
        return ""
    begin = bytes(content[:_JSON_BYTES])
    name, reads = next(((name, reads) for mark, name, reads in _JSON if re.search(mark.encode(), begin)), ("", ""))
    return "" if verb and verb == reads else name


def program_of(text: str) -> str:
    """The program that a text is of, and what that does; "" for none that is known."""
    return next((name for mark, name in _MARKS if re.search(mark, text, re.MULTILINE)), "")


def refused(text: str) -> str:
    """What a pasted text is instead, in words that go on after the name of its file; "" for none that is known."""
    if said := says(text):
        return said
    program = of_json(text[:_JSON_BYTES].encode()) or program_of(plain(text))
    return f"is of {program}" if program else ""
