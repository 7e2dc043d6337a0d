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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

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
    known = {each.value: each.name for each in signal.Signals}
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
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_])")  # ECMA-48, colours
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
    return [word for word in line.replace("|", " ").split() if not _LABEL.fullmatch(word)]


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
