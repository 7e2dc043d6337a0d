"""What a copy went over, by evidence: peer access, and the byte counters of the GPUs before and after.

NVML counts the bytes of NVLinks (not on every GPU) and of PCIe (from Hopper on, and drivers that tell). Other copies
meanwhile count, too: a share of half tells which way the bytes took, not how many there were.

Reference: NVML API reference, field values (NVLINK_THROUGHPUT_DATA_TX, PCIE_COUNT_TX_BYTES).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from resnetx.copies import Flow, Place
from resnetx.measure.machine.sensors import GpuTraffic, gpu_traffic
from resnetx.record import Unknown
from resnetx.units import si

SHARE = 0.5  # of the bytes copied, that a counter rose by at least, where they went that way


@dataclass(frozen=True)
class Seen:
    """The way of a copy, and what shows it."""

    path: str | Unknown
    evidence: list[str]


def watched(
    copy: Callable[[], None],
    moved_bytes: int,
    flow: Flow,
    gpus: Mapping[int, int],
    peers: bool | None,
    read: Callable[[int], GpuTraffic | Unknown] = gpu_traffic,
) -> Seen:
    """What a copy of so many bytes goes over.

    `gpus`: CUDA's numbers by place; `peers`: whether they reach each other, None where a host takes part.
    """
    before = {place: read(gpu) for place, gpu in gpus.items()}
    copy()
    after = {place: read(gpu) for place, gpu in gpus.items()}
    risen = {place: _risen(after[place], before[place]) for place in gpus}
    evidence = [f"peer access {'on' if peers else 'off'}"] if peers is not None else []
    for place, (nvlink, pcie) in risen.items():
        sends = place == flow.source
        for name, count in (("NVLink", nvlink), ("PCIe", pcie)):
            verb = "sent" if sends else "received"
            if isinstance(count, Unknown):
                evidence.append(f"{name} of GPU {place}: {count}")
            else:
                evidence.append(
                    f"{name} of GPU {place} {verb} {si(_counted(count, sends), 'B')} of {si(moved_bytes, 'B')}"
                )
    return Seen(_path(risen, flow.source, moved_bytes, peers), evidence)


def together(seen: Sequence[Seen]) -> Seen:
    """The ways of several copies at once; one where they are alike."""
    unknown = next((each.path for each in seen if isinstance(each.path, Unknown)), None)
    path = unknown if unknown is not None else " and ".join(dict.fromkeys(each.path for each in seen))
    return Seen(path, list(dict.fromkeys(line for each in seen for line in each.evidence)))


_Risen = tuple[tuple[int, int] | Unknown, tuple[int, int] | Unknown]  # (sent, received) over NVLink, and over PCIe


def _path(risen: Mapping[int, _Risen], source: Place, moved_bytes: int, peers: bool | None) -> str | Unknown:
    for name, which in (("nvlink", 0), ("pcie", 1)):
        counts = [
            _counted(count, place == source)
            for place, both in risen.items()
            if not isinstance(count := both[which], Unknown)
        ]
        if counts and min(counts) >= SHARE * moved_bytes:
            return "host" if name == "pcie" and peers is False else name
    if peers is False:
        return "host"  # without peer access the driver stages copies there
    reasons = [count for both in risen.values() for count in both if isinstance(count, Unknown)]
    return Unknown(f"no counter shows it ({reasons[0]})" if reasons else "no counter shows it")


def _counted(count: tuple[int, int], sends: bool) -> int:
    return count[0] if sends else count[1]


def _risen(after: GpuTraffic | Unknown, before: GpuTraffic | Unknown) -> _Risen:
    if isinstance(after, Unknown) or isinstance(before, Unknown):
        reason = after if isinstance(after, Unknown) else before
        assert isinstance(reason, Unknown)
        return reason, reason
    return _both(after.nvlink, before.nvlink), _both(after.pcie, before.pcie)


def _both(after: tuple[int, int] | Unknown, before: tuple[int, int] | Unknown) -> tuple[int, int] | Unknown:
    if isinstance(after, Unknown):
        return after
    if isinstance(before, Unknown):
        return before
    if after[0] < before[0] or after[1] < before[1]:
        return Unknown("the counter started again in between")
    return after[0] - before[0], after[1] - before[1]
