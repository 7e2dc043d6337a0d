"""What launchers, log shippers, terminals and web pages add to the lines that a program printed, taken away again.

    plain("[1,0]<stdout>:\\x1b[0m#  size  count")     # "#  size  count"

    0:                                  srun --label
    [0]                                 mpiexec -l, Intel MPI; torchrun's [rank0]: and [default0]:
    [1,0]<stdout>:                      Open MPI, --tag-output; PRRTE: [prterun-node-1@1,0]<stdout>:
    (worker pid=12, ip=10.0.0.1)        Ray
    2026-01-31T03:04:05.678Z stdout F   log shippers: containers, the kernel's log, Python's logging
    node01:   worker-0 |   [pod/x/y]    pdsh, docker compose, kubectl: only where most lines begin so, for a program
                                        prints words like these, too
    >                                   quoted in mail or Markdown

Blanks behind a label stay, as columns are aligned by them.
"""

import html
import re
from collections.abc import Iterator

_ENTITY = re.compile(r"&(?:lt|gt|amp|nbsp|quot|#\d{1,6});")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_])")  # ECMA-48, colours
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_LABEL = re.compile(r"\[(?:rank|default)?\d{1,6}\]:?")
_LABELS = tuple(
    re.compile(rf"[ \t]{{0,8}}(?:{label})")
    for label in (
        r"\d{1,6}: ",
        rf"{_LABEL.pattern}(?= |#|$) ?",
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
    lines = [_unlabelled(line) for line in text.splitlines()]
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


def _unlabelled(line: str) -> str:
    for _ in range(_MOST_LABELS):
        found = next((match for label in _LABELS if (match := label.match(line)) and match.end()), None)
        if found is None:
            return line
        line = line[found.end() :]
    return line
