"""Pair copies of one set of ranks: everything that is planned, in random order, as cells of a record.

Which way a kind is copied depends on the machine:

    CPU ranks   by send and receive over sockets, or (transport=host, and whatever touches memory of the host) within
                memory that the ranks share
    GPUs        rank 0 copies between all GPUs of its node; between nodes, ranks send and receive
    storage     rank 0 reads
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal

import torch
from torch.nn import functional

from resnetx.copies import COPIES, HOST, CopyPlace, Entry, Flow, planned, shuffled, timings, warmups
from resnetx.launching import Way
from resnetx.measure.bench.arrays import Copier, Observed, Timed, usable_bytes
from resnetx.measure.bench.gpu_copies import GpuCopies
from resnetx.measure.bench.host_copies import MappedCopies, SentCopies, StorageCopies
from resnetx.measure.launch import hang, on_one_node
from resnetx.measure.rank import results
from resnetx.measure.rank.device import MOST_LAUNCHES, held_back, mark, seconds_between, timed_on_device
from resnetx.measure.rank.distributed import Ranks, Send
from resnetx.record import BenchRequest, CopyCell, NicUse, Pair, SkippedArray, Transport, Unknown, if_known, known
from resnetx.units import si, size_text

# Why a field of a cell, by its name in JSON, may be null.
_NULL = {
    "through": "no GPU relays it",
    "path": "nothing shows it; see the cell's evidence",
    "expected_s": "no described system says what to expect",
    "class": "pairs were not classified",
}
_FIELDS = dict(zip(CopyCell.__struct_encode_fields__, CopyCell.__struct_fields__, strict=True))


def measure(request: BenchRequest, ranks: Ranks) -> Timed[CopyCell]:
    """Every kind of copy, every pair and size."""
    sizes, skipped = _fitting(request, ranks)
    entries = planned(
        request.copies,
        gpus=ranks.world_size,
        sizes_bytes=sizes,
        directions=request.directions,
        through=request.through,
    )
    copiers = Copiers(request, max(sizes), ranks)
    cells = []
    for entry in shuffled(entries, request.seed):
        hang.begin(f"copies of {entry.kind}, {size_text(entry.size_bytes)}")
        before = warmups(entry, request.iterations, request.warmup)
        observed = copiers.of(entry.kind).observe(entry, before, timings(entry, request.iterations))
        cells += cells_of(entry, observed, request.numa)
    return Timed(cells, skipped)


def cells_of(entry: Entry, observed: Observed, numa: int | None) -> list[CopyCell]:
    """A cell for each flow; both ways at once are one."""
    shown = entry.flows[:1] if entry.direction == "both-ways" else entry.flows
    return [
        CopyCell(
            copy=entry.kind,
            source=_place(flow.source, numa),
            target=_place(flow.target, numa),
            through=flow.through,
            size_bytes=entry.size_bytes,
            direction=entry.direction,
            endpoint=observed.endpoint,
            together=[_pair(other, numa) for other in shown if other is not flow],
            time_s=observed.times_s[number],
            wrong=observed.wrong[number] if len(shown) > 1 else sum(observed.wrong),
            path=if_known(observed.path),
            evidence=[*observed.evidence, *([str(observed.path)] if isinstance(observed.path, Unknown) else [])],
            expected_s=None,
            verdict="not judged",
            pair_class=None,
        )
        for number, flow in enumerate(shown)
    ]


def reasons(cells: Sequence[CopyCell]) -> dict[str, str]:
    """Why fields of cells are null, by their path in a record."""
    return {
        f"cells.{number}.{field}": reason
        for number, cell in enumerate(cells)
        for field, reason in _NULL.items()
        if getattr(cell, _FIELDS[field]) is None
    }


def transport(cells: Sequence[CopyCell], way: Way, nics: list[NicUse] | Unknown) -> Transport:
    """What the copies went over that a transport is chosen for; `nics`: the network cards that NCCL used."""
    chosen = [cell for cell in cells if "transport" in COPIES[cell.copy].reads]
    used = sorted({path for cell in chosen if (path := cell.path) is not None})
    if not used:
        why = "no counter shows what copies went over" if chosen else "copies within a host and a GPU have no transport"
        return results.none(why, way)
    evidence = dict.fromkeys(line for cell in chosen for line in cell.evidence)
    return Transport(requested=way.transport, used=used, evidence=list(evidence), nics=known(nics))


def _place(place: CopyPlace, numa: int | None) -> CopyPlace:
    return f"numa{numa}" if place == HOST and numa is not None else place


def _pair(flow: Flow, numa: int | None) -> Pair:
    return Pair(source=_place(flow.source, numa), target=_place(flow.target, numa))


WayName = Literal["storage", "by GPUs", "between nodes", "sent", "mapped"]

# Arrays of the largest size that each rank has: what it sends, what it receives, its share of memory of the host.
ARRAYS: dict[WayName, int] = {"storage": 1, "by GPUs": 2, "between nodes": 2, "sent": 2, "mapped": 3}


def way_of(kind: str, request: BenchRequest, ranks: Ranks) -> WayName:
    """How a kind of copy goes here."""
    if COPIES[kind].touches_storage:
        return "storage"
    if ranks.device.type == "cuda":
        return "by GPUs" if on_one_node() else "between nodes"
    return "sent" if "transport" in COPIES[kind].reads and request.transport != "host" else "mapped"


def _fitting(request: BenchRequest, ranks: Ranks) -> tuple[list[int], list[SkippedArray]]:
    """The sizes that every rank has memory for, and the others with the reason."""
    usable = usable_bytes(ranks)
    arrays = sum(ARRAYS[way] for way in {way_of(kind, request, ranks) for kind in request.copies})
    sizes = [size for size in request.copy_sizes_bytes if arrays * size <= usable]
    skipped = [
        SkippedArray(
            ", ".join(request.copies),
            size,
            f"copies of {size_text(size)} take {size_text(arrays * size)} of memory for each rank, and "
            f"{si(usable, 'B')} can be had",
        )
        for size in request.copy_sizes_bytes
        if size not in sizes
    ]
    if not sizes:
        raise MemoryError(f"{skipped[0].reason}; ask for smaller sizes with size=")
    return sizes, skipped


class Copiers:
    """The ways to copy that a bench needs, each made when the first kind needs it."""

    def __init__(self, request: BenchRequest, most_bytes: int, ranks: Ranks) -> None:
        self._request, self._most_bytes, self._ranks = request, most_bytes, ranks
        self._made: dict[WayName, Copier] = {}

    def of(self, kind: str) -> Copier:
        """The way that a kind of copy goes."""
        way = way_of(kind, self._request, self._ranks)
        if way not in self._made:
            self._made[way] = self._make(way)
        return self._made[way]

    def _make(self, way: WayName) -> Copier:
        request, most_bytes, ranks = self._request, self._most_bytes, self._ranks
        match way:
            case "storage":
                return StorageCopies(most_bytes, ranks)
            case "by GPUs":
                return GpuCopies(
                    most_bytes,
                    ranks,
                    endpoint=request.endpoint,
                    transport=request.transport,
                    numa_node=request.numa,
                )
            case "between nodes":
                return SentCopies(most_bytes, ranks, request.endpoint or "device", ranks.host_group())
            case "sent":
                return SentCopies(most_bytes, ranks, "pageable")
            case "mapped":
                return MappedCopies(most_bytes, ranks, request.numa)


# ---- interference ---------------------------------------------------------------------------------------------------
# What computing loses to other ranks that compute, and to a collective that runs beside it.
#
# gloo's threads move and add gradients on the cores that train. How much computing they cost cannot be read off their
# CPU time: they also take caches and memory bandwidth, and wait for their turn. So it is measured: the same computing
# alone, and with the collective started before it, alternating. It is half convolutions and half passes over arrays
# larger than caches, as training is; computing that needs more of the memory loses more.
#
# NCCL's kernels take multiprocessors and memory bandwidth from the kernels that train. How much, is measured in the
# same way, each part queued behind a sleeping kernel and timed by CUDA events on the stream that computes. In each
# queue the ranks meet in a small all-reduce first, so that none waits for another one in the large one, whose kernel
# takes its multiprocessors while it waits.

# Of an all-reduce: below, what is lost on CPUs is less than computing varies by, and on GPUs it ends before the first
# kernels beside it do.
LEAST_BYTES = {"cpu": 2**18, "cuda": 2**20}
REPEATS = 5
CROWD_S, CROWD_REPEATS = 0.1, 15
IMAGES, ELEMENTS = 16, 2**24  # of one convolution and one pass: some ten milliseconds
LONGER = 4.0  # times as long as the collective alone takes, so that it ends beside the computing
CHUNK_LAUNCHES = 6  # at most, of one call of the computing, which takes some 0.2 ms on an H200
LEAST_CHUNKS, MOST_CHUNKS = 3, MOST_LAUNCHES // CHUNK_LAUNCHES


def crowding(ranks: Ranks) -> float:
    """How many times as long computing takes while all ranks compute, as while one of them does.

    Ranks on CPUs share caches, memory bandwidth, and the clock that the host grants to all its cores. Rank 0's answer.
    """
    compute = _computing()
    compute(3)
    chunks = max(1, round(CROWD_S / _seconds(compute, 5, ranks) * 5))
    ratios = []
    for _ in range(CROWD_REPEATS):
        crowd_s = _seconds(compute, chunks, ranks)
        alone_s = _seconds(compute if ranks.first else _idle, chunks, ranks)
        ratios.append((crowd_s + _seconds(compute, chunks, ranks)) / 2 / alone_s)
    return median(ratios)


def _idle(_: int) -> None:
    """What a rank does while another one computes."""


def computing_lost(send: Send, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float:
    """Seconds of computing that this rank loses for each second that the collective takes alone; median of a few."""
    compute = _computing()
    compute(3)
    chunks = max(3, round(LONGER * alone_s / _seconds(compute, 5, ranks) * 5))
    lost = []
    for _ in range(REPEATS):
        before_s = _seconds(compute, chunks, ranks)
        ranks.barrier()
        start = time.perf_counter()
        work = send(array)
        compute(chunks)
        beside_s = time.perf_counter() - start
        work.wait()
        after_s = _seconds(compute, chunks, ranks)
        lost.append((beside_s - (before_s + after_s) / 2) / alone_s)
    return max(0.0, median(lost))


def _seconds(compute: Callable[[int], None], chunks: int, ranks: Ranks) -> float:
    ranks.barrier()
    start = time.perf_counter()
    compute(chunks)
    return time.perf_counter() - start


def _computing() -> Callable[[int], None]:
    """Does so many chunks of computing."""
    images, kernels = torch.randn(IMAGES, 64, 56, 56), torch.randn(64, 64, 3, 3)
    large, other = torch.randn(ELEMENTS), torch.randn(ELEMENTS)

    def compute(chunks: int) -> None:
        with torch.no_grad():
            for _ in range(chunks):
                functional.conv2d(images, kernels, padding=1)
                large.mul_(0.5).add_(other)

    return compute


# ---- on GPUs ---------------------------------------------------------------------------------------------------------


def computing_lost_on_gpus(send: Send, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float | Unknown:
    """Seconds of computing that this rank loses for each second that the collective takes alone; median of a few."""
    compute = _computing_on_gpu(ranks.device)
    chunk_s = timed_on_device(compute, LEAST_CHUNKS, ranks.device, everywhere=ranks.everywhere)
    if isinstance(chunk_s, Unknown):
        return chunk_s
    fastest_s = min(ranks.gather(chunk_s)) / LEAST_CHUNKS
    chunks = max(LEAST_CHUNKS, math.ceil(LONGER * alone_s / fastest_s))
    if chunks > MOST_CHUNKS:
        return Unknown("the collective takes longer than what computing can be queued beside it")
    lost = []
    for _ in range(REPEATS):
        times_s = []
        for sent in (None, send, None):
            seconds = _seconds_on_gpu(compute, chunks, sent, array, ranks)
            if isinstance(seconds, Unknown):
                return seconds
            times_s.append(seconds)
        before_s, beside_s, after_s = times_s
        lost.append((beside_s - (before_s + after_s) / 2) / alone_s)
    return max(0.0, median(lost))


def _seconds_on_gpu(
    compute: Callable[[], None], chunks: int, send: Send | None, array: torch.Tensor, ranks: Ranks
) -> float | Unknown:
    """Seconds of the computing on its stream, beside a message where one is sent."""
    meeting = torch.zeros(1, device=array.device)

    def queue() -> tuple[torch.cuda.Event, torch.cuda.Event]:
        ranks.send(meeting).wait()  # the stream waits for it, and the host does not
        begin = mark()
        work = send(array) if send else None
        for _ in range(chunks):
            compute()
        end = mark()
        if work:
            work.wait()
        return begin, end

    marks = held_back(queue, ranks.device, ranks.everywhere)
    return marks if isinstance(marks, Unknown) else seconds_between(*marks)


def _computing_on_gpu(device: torch.device) -> Callable[[], None]:
    """Half convolutions and half passes over arrays larger than caches, as training is; some 0.4 GB of memory."""
    images, kernels = (
        torch.randn(shape, device=device).contiguous(memory_format=torch.channels_last)  # as cuDNN wants them
        for shape in ((32, 64, 56, 56), (64, 64, 3, 3))
    )
    large, other = torch.randn(2**25, device=device), torch.randn(2**25, device=device)

    def compute() -> None:
        with torch.no_grad():
            functional.conv2d(images, kernels, padding=1)
            large.mul_(0.5).add_(other)

    return compute
