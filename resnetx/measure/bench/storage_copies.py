"""Reads of a file into memory of the host, by rank 0: cold, from storage, or warm, from the page cache.

The file lies in the folder of the run. It is written through to storage, as pages that are not cannot be dropped;
before each cold read the kernel is asked to drop its pages (posix_fadvise), and how many it has kept is evidence: file
systems in memory keep all of them.
"""

import os
import tempfile
import time
from pathlib import Path

import torch

from resnetx.copies import Entry
from resnetx.inputs.page_cache import resident_share
from resnetx.measure.bench import checks
from resnetx.measure.bench.observed import CLEAR, Observed, data_of
from resnetx.measure.launch.torchrun import launched_folder
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import Unknown

KEPT_SHARE = 0.01  # of pages in memory, up to which a file counts as cold
_CHUNK_BYTES = 2**26


class StorageCopies:
    """Reads of a file of the run's own."""

    def __init__(self, most_bytes: int, ranks: Ranks) -> None:
        self._ranks = ranks
        self._memory = torch.zeros(most_bytes if ranks.first else 0, dtype=torch.uint8)

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        found = self._read(entry, warmups, timings) if self._ranks.first else None
        measured = self._ranks.gather(found)[0]
        assert measured is not None, "rank 0 reads"
        return measured

    def _read(self, entry: Entry, warmups: int, timings: int) -> Observed:
        cold = entry.kind == "storage-cold"
        target = self._memory[: entry.size_bytes]
        target.fill_(CLEAR)
        run = launched_folder()
        with tempfile.NamedTemporaryFile(dir=run.path if run else Path.cwd(), prefix="read-") as file:
            _write(file.fileno(), entry)
            kept: list[float | Unknown] = []
            times_s = []
            for _ in range(timings if cold else warmups + timings):
                if cold:
                    kept.append(_dropped(Path(file.name), file.fileno()))
                start_s = time.perf_counter()
                _read_all(file.fileno(), target)
                times_s.append(time.perf_counter() - start_s)
        return Observed(
            times_s=[times_s[-timings:]],
            wrong=[checks.unlike(target, data_of(entry.flows[0].source))],
            endpoint="pageable",
            path="storage" if cold and not _still_warm(kept) else "page cache",
            evidence=_evidence(kept) if cold else ["read before, so that it is in memory"],
        )


def _write(handle: int, entry: Entry) -> None:
    """The data of storage, through to the disk."""
    left = entry.size_bytes
    period = data_of(entry.flows[0].source)
    chunk = torch.empty(min(left, _CHUNK_BYTES // len(period) * len(period)), dtype=torch.uint8)
    checks.write(chunk, period)
    view = chunk.numpy().data
    while left:
        left -= os.write(handle, view[:left]) if left < len(view) else _whole(handle, view)
    os.fsync(handle)


def _whole(handle: int, view: memoryview) -> int:
    """Writes all of it, so that the next chunk begins with a period."""
    done = 0
    while done < len(view):
        done += os.write(handle, view[done:])
    return done


def _read_all(handle: int, target: torch.Tensor) -> None:
    view, done = target.numpy().data, 0
    while done < len(view):
        done += os.preadv(handle, [view[done:]], done)


def _dropped(path: Path, handle: int) -> float | Unknown:
    """Asks the kernel to drop the file's pages; the share of them that it has kept."""
    if not hasattr(os, "posix_fadvise"):
        return Unknown("this system cannot be asked to drop a file's pages")
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return resident_share([path])


def _still_warm(kept: list[float | Unknown]) -> bool:
    return any(isinstance(share, Unknown) or share > KEPT_SHARE for share in kept)


def _evidence(kept: list[float | Unknown]) -> list[str]:
    reasons = [str(share) for share in kept if isinstance(share, Unknown)]
    if reasons:
        return [f"not known to be cold: {reasons[0]}"]
    most = max((share for share in kept if not isinstance(share, Unknown)), default=0.0)
    if most > KEPT_SHARE:
        return [f"not cold: {most:.0%} of the file's pages stayed in memory, as on file systems in memory"]
    return ["the file's pages were dropped before each read (posix_fadvise)"]
