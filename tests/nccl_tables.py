"""Tables as nccl-tests prints them, with rates that agree with their times."""

from collections.abc import Mapping

from resnetx.operations import OPERATIONS

_HALF = "     time   algbw   busbw #wrong"
HEADING = f"#       size         count      type   redop    root{_HALF}{_HALF}\n"
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def number(value: float) -> str:
    """A time as it is printed."""
    return f"{value:.0f}" if value >= 1e4 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def half(collective: str, ranks: int, size: int, time_s: float, wrong: int | str = 0) -> str:
    """One half of a row: out of place, or in place."""
    algbw = size / time_s / 1e9
    busbw = algbw * OPERATIONS[collective].bus_factor(ranks)
    return f"  {number(time_s * 1e6):>7}  {algbw:6.2f}  {busbw:6.2f}  {wrong:>5}"


def row(
    collective: str, ranks: int, size: int, time_s: float, wrong: int | str = 0, inside: int | str | None = None
) -> str:
    """One row of 2022 and later; `wrong`, `inside`: wrong elements out of place, and in place."""
    operation = OPERATIONS[collective]
    count = size // 4 // (ranks if operation.in_parts else 1)
    redop, root = "sum" if operation.adds else "none", 0 if collective in _ROOTED else -1
    if inside is None:
        inside = "N/A" if collective in ("alltoall", "sendrecv") else 0  # which it does not check in place
    halves = half(collective, ranks, size, time_s, wrong) + half(collective, ranks, size, time_s, inside)
    return f"{size:>12}  {count:>12}     float  {redop:>6}  {root:>6}{halves}\n"


def table(collective: str, ranks: int, times_s: Mapping[int, float]) -> str:
    """A heading, and a row for each size."""
    return HEADING + "".join(row(collective, ranks, size, time_s) for size, time_s in times_s.items())


def rank_list(hosts: Mapping[str, int], name: str = "NVIDIA H200") -> str:
    """The list of ranks: so many on each host."""
    lines = [(host, device) for host, count in hosts.items() for device in range(count)]
    return "".join(
        f"#  Rank {rank:2} Group  0 Pid   6287 on {host:>10} device {device:2} [0x18] {name}\n"
        for rank, (host, device) in enumerate(lines)
    )
