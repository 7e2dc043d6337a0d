"""Where the ranks of nccl-tests ran: the list that it prints, and the command that started them.

#  Rank  0 Group  0 Pid   6287 on     node-a device  0 [0x18] NVIDIA H200
#   Rank  0 uses device  0 [0x05] Tesla P100                                  NCCL 1
mpirun -np 16 ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 1
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_LISTED = re.compile(
    r"^\s*#?\s*(?:Rank|Device)\s+(?P<rank>\d{1,7})\s+(?:Group\s+(?P<group>\d{1,7})\s+)?(?:Pid\s+\d{1,10}\s+)?"
    r"(?:on\s+(?P<host>\S{1,255})\s+device|uses\s+device|->)\s+(?P<device>\d{1,4})\s+\[(?P<bus>[^\]]{1,40})\]\s?(?P<name>.{0,200})"
)
_PROGRAM = re.compile(
    r"(?:^|[\s/\"'`])(?P<name>[a-z_]{1,40}?)_(?P<kind>perf|test)(?:_mpi)?\b(?P<after>[^|;&>]{0,1000})"
)
_LAUNCHER = re.compile(r"\b(?:mpirun|mpiexec|orterun|prun|srun|jsrun)\b")
_PROCESSES = re.compile(r"(?:^|\s)(?:-np|-n|--np|--ntasks)[ =]?(\d{1,7})\b")
_THREADS = re.compile(r"\s(?:-t|--nthreads)[ =]?(\d{1,4})\b")
_GPUS = re.compile(r"\s(?:-g|--ngpus)[ =]?(\d{1,4})\b")
_SUMMED_UP = re.compile(r"nThreads?:? (\d{1,4}) nGpus:? (\d{1,4})\b")


@dataclass(frozen=True)
class Rank:
    """One line of the list."""

    rank: int
    group: int  # of several that ran at once, each for itself
    host: str | None
    device: int
    bus_id: str | None
    name: str
    bus: str = ""  # as the list has it: a number, or an address


@dataclass(frozen=True)
class RankList:
    """The list, or what the command says instead of it."""

    ranks: tuple[Rank, ...] = ()
    in_command: int | None = None
    in_each_process: int | None = None  # of the line that sums the options up

    @property
    def groups(self) -> int:
        """How many communicators ran at once (NCCL_TESTS_SPLIT)."""
        return len({rank.group for rank in self.ranks}) or 1

    @property
    def count(self) -> int | None:
        """Ranks of one collective; the list may have lost lines, but numbers them."""
        if not self.ranks:
            return None
        if self.groups > 1:
            return max(Counter(rank.group for rank in self.ranks).values())
        return 1 + max(rank.rank for rank in self.ranks)

    @property
    def complete(self) -> bool:
        return bool(self.ranks) and self.groups == 1 and len(self.ranks) == self.count


NOT_SAID = RankList()


def listed(line: str) -> Rank | None:
    """A rank that a line lists."""
    if (found := _LISTED.match(line)) is None:
        return None
    bus = found["bus"] if ":" in found["bus"] else None  # the number of a bus alone is no address
    rank, group, device = int(found["rank"]), int(found["group"] or 0), int(found["device"])
    return Rank(rank, group, found["host"], device, bus, " ".join(found["name"].split()), found["bus"])


def rank_list(ranks: Iterable[Rank], in_command: int | None, in_each_process: int | None) -> RankList:
    """Those of one table; a rank that is listed twice counts once."""
    by_rank = {rank.rank: rank for rank in ranks}
    told_apart = tuple(_hosts_apart(by_rank[number] for number in sorted(by_rank)))
    return RankList(told_apart, in_command, in_each_process)


def _hosts_apart(ranks: Iterable[Rank]) -> Iterator[Rank]:
    """The ranks, with a number behind the name of a host that has a device again: NCCL lets no two ranks share one."""
    seen: Counter[tuple[str, int, str]] = Counter()
    for rank in ranks:
        if rank.host is not None and rank.bus:
            device = rank.host, rank.device, rank.bus
            seen[device] += 1
            yield replace(rank, host=f"{rank.host} ({seen[device]})") if seen[device] > 1 else rank
        else:
            yield rank


@dataclass(frozen=True)
class Command:
    """A test that a line starts, or names; None: it does not say."""

    program: str | None  # less "_perf": "all_reduce"
    ranks: int | None


def command(line: str) -> Command | None:
    """The test in a command line, or in what a test prints of itself."""
    if (found := _PROGRAM.search(line)) is None or (found["kind"] == "test" and not found["name"].endswith(_OLD)):
        return None
    before, after = line[: found.start()], found["after"]
    launched, processes = _LAUNCHER.search(before), _PROCESSES.search(before)
    own = [int(option[1]) for option in (_THREADS.search(after), _GPUS.search(after)) if option]
    if (launched and not processes) or not (own or launched):
        return Command(found["name"], None)
    ranks = int(processes[1]) if launched and processes else 1
    for each in own:
        ranks *= each
    return Command(found["name"], ranks if ranks > 1 else None)


_OLD = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")  # programs of NCCL 1


def in_each_process(line: str) -> int | None:
    """Ranks of one process, by the line that sums the options up."""
    found = _SUMMED_UP.search(line)
    return int(found[1]) * int(found[2]) if found else None
