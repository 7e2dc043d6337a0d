"""Runs that no longer progress: what each rank notes of its progress, and how its launcher finds a hang in the notes.

A rank notes what it begins (a part of its start-up, a step of its warm-up, a window) in a small file of the run's
folder. Where no rank has begun anything else for `LEAST_S` or longer, the launcher asks the ranks on this host where
they are, and names those that are behind: they have begun least, or have started fewer collectives.

Before the first step nothing has a time to compare with: a hang is certain only where ranks neither compute nor read.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from resnetx.errors import FileError, shortened
from resnetx.formats.logs import named
from resnetx.loading import File, read_json
from resnetx.measure.launch import children, launched_folder, on_one_node, rank, variables_of
from resnetx.record import RunFolder

LEAST_S = 60.0
OF_A_STEP = 20  # times the slowest step so far
OF_EXPECTED = 3  # times what a stretch of many steps should take
# Ranks on GPUs that wait for others in their first step keep their cores busy, as if they worked: torch gives
# collectives of NCCL ten minutes (torch.distributed.constants.default_pg_nccl_timeout).
UNCERTAIN_S = 600.0
WORK_S = 3.0  # CPU time of a rank in `LEAST_S` that is work; the threads of a rank that waits take less than a tenth
WORK_BYTES = 2**24  # that it has read
ANSWER_S = 3.0  # for ranks to say where they are
BETWEEN_LOOKS_S = 1.0
SLOWEST_BPS = 1e7  # a network on which messages take no longer than expected
UNLIMITED_S = 1e9  # expected of what only `timeout` ends
QUESTION = signal.SIGURG  # which is ignored where nobody waits for it

_BYTES = 2048  # of a note, so that one write replaces it whole
_TEXT = 300  # characters of each text in it


class HangError(Exception):
    """No rank progresses any more; the text says which one is behind, where it is, and who waits for it."""

    @property
    def how_long(self) -> str:
        """ "no rank has progressed for 60 s"."""
        return str(self).rpartition("; ")[2]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has begun last, and once it is asked, where it is."""

    rank: int
    host: str
    process: int
    begun: int  # how many notes there were: ranks note the same things in the same order
    phase: str
    is_step: bool = False  # or a stretch of steps: it has a time to compare with
    all_work: bool = False  # ranks that wait for others look as if they worked: one that does not is behind
    believed_s: float = 0.0  # for how long ranks that seem to work are believed to; 0: without limit
    slowest_step_s: float = 0.0  # so far
    expected_s: float = 0.0  # what this stretch should take; 0: not known
    answered: bool = False
    at: str = ""  # file, line and function
    collectives: int | None = None  # that this rank has started; None: not known
    collective: str = ""  # the latest one of these


# ---- a rank ---------------------------------------------------------------------------------------------------------


class _Own:
    """This rank's note, and its file; None where no launcher reads it."""

    note: Note | None = None
    file: int | None = None


def begin_notes() -> None:
    """Notes that this rank's process has begun."""
    if (folder := launched_folder()) is None:
        return
    with suppress(OSError):
        _Own.file = os.open(folder.progress(rank()), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        _write(
            Note(rank=rank(), host=socket.gethostname(), process=os.getpid(), begun=1, phase="loading its libraries")
        )


def begin(
    phase: str, *, is_step: bool = False, all_work: bool = False, believed_s: float = 0.0, expected_s: float = 0.0
) -> None:
    """Notes what this rank begins, as `Note` has it."""
    if (last := _Own.note) is None:
        return
    begun = {"is_step": is_step, "all_work": all_work, "believed_s": believed_s, "expected_s": expected_s}
    _write(msgspec.structs.replace(last, begun=last.begun + 1, phase=phase, **begun))


def begin_untimed(phase: str, *, on_gpu: bool) -> None:
    """Notes the beginning of steps whose time nobody knows yet. Ranks that wait for others spin where GPUs compute."""
    begin(phase, all_work=on_gpu, believed_s=UNCERTAIN_S if on_gpu else 0.0)


def took(step_s: float) -> None:
    """Notes what a step took, with what is begun next."""
    if (last := _Own.note) is not None:
        _Own.note = msgspec.structs.replace(last, slowest_step_s=max(last.slowest_step_s, step_s))


def _write(note: Note) -> None:
    """Replaces the note. A rank that cannot, on a full disk, takes it away: nothing is concluded without it."""
    _Own.note = note
    if _Own.file is None:
        return
    try:
        os.pwrite(_Own.file, msgspec.json.encode(note).ljust(_BYTES), 0)
        if not on_one_node():  # the launcher may read it through a network file system, which else sends it later
            os.fsync(_Own.file)
    except OSError:
        if folder := launched_folder():
            folder.progress(note.rank).unlink(missing_ok=True)
        _Own.file = None


def answer() -> None:
    """Says where this rank is: what its main thread runs, and its latest collective. Called by another thread."""
    if (last := _Own.note) is None:
        return
    started = None
    if measuring := sys.modules.get("resnetx.measure.rank.distributed"):  # where it has loaded torch
        with suppress(Exception):  # of a torch that has no such records
            started = measuring.latest_collective()
    number, name = started or (None, "")
    _write(
        msgspec.structs.replace(last, answered=True, at=_main_thread_at(), collectives=number, collective=name[:_TEXT])
    )


def _main_thread_at() -> str:
    """The innermost line of the main thread that is no library's, as "slow.py:12 (forward)"."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    first = frame
    while frame and "site-packages" in frame.f_code.co_filename:
        frame = frame.f_back
    frame = frame or first
    if frame is None:
        return ""
    code = frame.f_code
    return shortened(f"{Path(code.co_filename).name}:{frame.f_lineno} ({code.co_name})", _TEXT)


# ---- the launcher ---------------------------------------------------------------------------------------------------


class HangWatch:
    """Looks at the notes of so many ranks, which may be on several nodes that share the folder of the run."""

    def __init__(self, folder: RunFolder, ranks: int) -> None:
        self._folder, self._ranks = folder, ranks
        self._begun: list[int] = []
        self._progressed = self._worked = self._looked = time.monotonic()
        self._marks: dict[int, tuple[float, int]] = {}  # CPU seconds and bytes read when ranks last worked

    def look(self) -> None:
        """Raises `HangError` where the run hangs; at most one look in `BETWEEN_LOOKS_S`."""
        now = time.monotonic()
        if now < self._looked + BETWEEN_LOOKS_S:
            return
        slept = now > self._looked + 10 * BETWEEN_LOOKS_S  # this process was stopped, and its ranks may have been
        self._looked = now
        notes = self._notes()
        begun = [note.begun for note in notes]
        if len(notes) < self._ranks or begun != self._begun or slept:
            self._begun, self._progressed, self._worked, self._marks = begun, now, now, {}
            return
        least = min(begun)
        behind = [note for note in notes if note.begun == least]
        if not all(note.is_step for note in behind) and self._at_work(behind):
            self._worked = now
        still_s, believed_s = now - self._progressed, max(note.believed_s for note in behind)
        if now - self._worked >= _limit_s(notes) or 0 < believed_s <= still_s:
            raise HangError(_sentence(self._asked(notes), still_s))

    def _notes(self) -> list[Note]:
        """By rank; those that are there and whole."""
        notes = (_note(self._folder, index) for index in range(self._ranks))
        return [note for note in notes if note is not None]

    def _at_work(self, notes: Sequence[Note]) -> bool:
        """Whether ranks have computed or read since the last time that they had; those of other hosts may have."""
        own = socket.gethostname()
        used = {note.rank: _used(note.process) for note in notes if note.host == own}
        worked = []
        for index, (cpu_s, read_bytes) in used.items():
            before_s, before_bytes = self._marks.setdefault(index, (cpu_s, read_bytes))
            worked.append(cpu_s - before_s >= WORK_S or read_bytes - before_bytes >= WORK_BYTES)
        elsewhere = len(used) < len(notes)
        together = all if any(note.all_work for note in notes) else any
        if not (together(worked) if worked else elsewhere):
            return False
        self._marks = used
        return True

    def _asked(self, notes: list[Note]) -> list[Note]:
        """The notes with the answers of the ranks on this host that give one."""
        own, asked = socket.gethostname(), 0
        for note in notes:
            if note.host == own and _has_open(note.process, self._folder.progress(note.rank)):
                with suppress(OSError):
                    os.kill(note.process, QUESTION)
                    asked += 1
        end = time.monotonic() + ANSWER_S
        while sum(note.answered for note in notes) < asked and time.monotonic() < end:
            time.sleep(0.05)
            notes = self._notes() or notes
        return notes


def _limit_s(notes: Sequence[Note]) -> float:
    slowest_s = max(note.slowest_step_s for note in notes)
    expected_s = max(note.expected_s for note in notes)
    return max(LEAST_S, OF_A_STEP * slowest_s, OF_EXPECTED * expected_s)


def _sentence(notes: Sequence[Note], still_s: float) -> str:
    """Which ranks are behind, in which phase and where, and what the others wait in."""
    least = min(note.begun for note in notes)
    behind = [note for note in notes if note.begun == least]
    if len(behind) > 1:
        counts = [note.collectives for note in behind if note.collectives is not None]
        fewest = min(counts, default=None)
        if silent := [note for note in behind if not note.answered and any(other.answered for other in notes)]:
            behind = silent
        elif fewest is not None:
            behind = [note for note in behind if note.collectives in (None, fewest)]
    others = [note for note in notes if note not in behind]
    first, ranks = behind[0], named([note.rank for note in behind])
    said = f"{ranks} {'hangs' if len(behind) == 1 else 'hang'} in {first.phase}"
    if first.at:
        said += f", at {first.at}"
    elif others and any(note.answered for note in others):
        said += ", and cannot say where: in native code, or stopped"
    if len(behind) == len(notes) and first.collective:
        said += f"; the latest collective is {first.collective} (number {first.collectives})"
    waiting = [note for note in others if note.collective]
    if waiting:
        last = max(waiting, key=lambda note: note.collectives or 0)
        said += f"; {named([note.rank for note in others])} wait{'s' * (len(others) == 1)} in {last.collective} "
        said += f"(number {last.collectives}), which {ranks} did not start"
    return f"{said}; no rank has progressed for {still_s:.0f} s"


# ---- ranks that are stopped ------------------------------------------------------------------------------------------


def stopped(launched: int, folder: RunFolder, ranks: int) -> str:
    """Which of so many ranks below a process are stopped, so that the others wait for them, and in what; "": none."""
    notes = {index: note for index in range(ranks) if (note := _note(folder, index))}
    own = socket.gethostname()
    processes = {note.process: index for index, note in notes.items() if note.host == own}
    for process in _with_descendants(launched):  # a rank that has not begun, and what ranks have started
        with suppress(OSError, ValueError, KeyError):
            processes.setdefault(process, int(variables_of(process)[b"RANK"]))
    found = {index: by for process, index in processes.items() if (by := _stopped(process))}
    if not found:
        return ""
    first = min(found)
    phase = f"in {notes[first].phase}" if first in notes else "before it had begun"
    return f"{named(found)} {'is' if len(found) == 1 else 'are'} stopped {phase} ({found[first]}): the others wait"


def _stopped(process: int) -> str:
    """By what a process is stopped; "" where it is not."""
    with suppress(OSError, IndexError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return _STOPPED.get(state, "")
    return ""


_STOPPED = {"T": "SIGSTOP", "t": "by a debugger"}  # proc_pid_stat(5)


def _note(folder: RunFolder, index: int) -> Note | None:
    """The note of a rank; None where it has written none, or not to its end."""
    with suppress(FileError):
        return read_json(File(folder.progress(index), "a rank's progress", _BYTES), Note)
    return None


# ---- processes ------------------------------------------------------------------------------------------------------


def _used(process: int) -> tuple[float, int]:
    """CPU seconds of a process and all its living descendants so far, and the bytes that they have read."""
    ticks, read_bytes = 0, 0
    for descendant in _with_descendants(process):
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{descendant}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime (proc_pid_stat(5))
            read_bytes += int(Path(f"/proc/{descendant}/io").read_text().split()[1])  # rchar (proc_pid_io(5))
    return ticks / os.sysconf("SC_CLK_TCK"), read_bytes


def _with_descendants(process: int) -> Iterator[int]:
    yield process
    for child in children(process):
        yield from _with_descendants(child)


def _has_open(process: int, path: Path) -> bool:
    """Whether a process has a file open: its number may be another's by now."""
    for file in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(OSError):
            if file.samefile(path):
                return True
    return False
