"""Text of the OSU micro-benchmarks: two ranks (osu_latency, osu_bw, osu_bibw), or a collective (osu_allreduce, ...).

    # OSU MPI-CUDA Bandwidth Test v5.6.2
    # Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
    # Size      Bandwidth (MB/s)
    1                       0.48

MB is 1e6 bytes. A latency is one way, half of a ping-pong. A bandwidth is of a window of 64 messages. A size of
gathering collectives is what each rank sends, so that the whole array is as many times as large as there are ranks.
"""

import re
from collections.abc import Iterator

from resnetx.formats.copy_rows import MOST_BYTES, CollectiveRow, CopyRow, CopyTable, number
from resnetx.loading import File
from resnetx.record.copies import Endpoint, Place
from resnetx.record.limits import LONGEST_s, SHORTEST_s

MARK = re.compile(r"^\s*#?\s*OSU \w", re.MULTILINE)
_TITLE = re.compile(
    r"^\s*#?\s*OSU (?P<name>.{1,120}?)\s*(?:Test)?\s*(?:\(?(?:Version|v)\s*(?P<version>[\w.]{1,20})\)?)?\s*$", re.M
)
_COLLECTIVES = {
    "allreduce": "allreduce",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce_scatter": "reduce_scatter",
    "reduce": "reduce",
    "allgather": "allgather",
}
_PER_RANK = ("allgather",)  # sizes are of each rank's part
# Others have the same columns and are something else: overlap with computing, several pairs at once, neighbours.
_ONE_PAIR = re.compile(r"MPI\S*\s+(?:Latency|Bandwidth|Bi-?Directional Bandwidth)", re.IGNORECASE)
_ONE_COLLECTIVE = re.compile(r"\S+\s+(?P<word>\w+)\s+Latency", re.IGNORECASE)


def parse(file: File, text: str, ranks: int | None) -> CopyTable:
    """The results of a file. `ranks`: of a collective, which the file does not say."""
    title = _TITLE.search(text)
    if title is None:
        raise file.error("no line of it names a benchmark of OSU (# OSU MPI Bandwidth Test v5.6.2)")
    name, program = title["name"], f"OSU micro-benchmarks {title['version'] or 'of unknown version'}"
    figures = list(_figures(text))
    of_all = _ONE_COLLECTIVE.fullmatch(name)
    if of_all and (collective := _COLLECTIVES.get(of_all["word"].lower())):
        return _collective(file, program, collective, figures, ranks)
    if not _ONE_PAIR.fullmatch(name):
        raise file.error(f"holds {name}, which is neither a copy between two ranks nor a known collective")
    both = re.search(r"bi-?directional", name, re.I) is not None
    rows = [_copy(text, name, size, figure, "andwidth" in name, both) for size, figure in figures]
    usable = tuple(row for row in rows if row.usable)
    if not usable:
        raise file.error("no line of it is a result (size, then latency or bandwidth)")
    return CopyTable(program, 2, usable)


def _figures(text: str) -> Iterator[tuple[int, float]]:
    """(size, the first figure behind it) of each line of results."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdecimal() and len(words[0]) < 16 and number(words[1]) > 0:
            yield int(words[0]), number(words[1])


def _collective(
    file: File, program: str, collective: str, figures: list[tuple[int, float]], ranks: int | None
) -> CopyTable:
    if collective in _PER_RANK and ranks is None:
        raise file.error(f"a size of {collective} is what each rank sends; expected gpus=N, the number of ranks")
    times = ranks if collective in _PER_RANK and ranks else 1
    rows = [CollectiveRow(collective, size * times, figure * 1e-6) for size, figure in figures]
    usable = tuple(row for row in rows if 0 < row.size_bytes <= MOST_BYTES and SHORTEST_s <= row.time_s <= LONGEST_s)
    if not usable:
        raise file.error("no line of it is a result (size, then average latency)")
    return CopyTable(program, ranks, collectives=usable)


def _copy(text: str, name: str, size: int, figure: float, bandwidth: bool, both: bool) -> CopyRow:
    endpoint, places = _endpoints(text)
    moved = size * (2 if both else 1)
    return CopyRow(
        copy="device",
        source=places[0],
        target=places[1],
        size_bytes=size,
        time_s=moved / (figure * 1e6) if bandwidth else figure * 1e-6,
        evidence=(f"OSU {name}", "a window of messages in flight" if bandwidth else "half of a ping-pong"),
        direction="both-ways" if both else "one-way",
        endpoint=endpoint,
    )


def _endpoints(text: str) -> tuple[Endpoint, tuple[Place, Place]]:
    """Device memory where the file says so, else memory of hosts, which MPI does not pin."""
    on_device = re.search(r"Send Buffer on DEVICE.{0,40}Receive Buffer on DEVICE", text)
    return ("device" if on_device else "pageable"), (0, 1)
