"""The runs of a check, within its budget: all nodes at once, an all-reduce and a training point; then pairs of nodes.

A run that fails, hangs or takes too long is kept with its reason, and its node is in no pair.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from resnetx import progress
from resnetx.fleet.measured import Tried, fault_of
from resnetx.fleet.settings import AskedCheck
from resnetx.measure.launch import launcher
from resnetx.measure.launch.scratch import write
from resnetx.record import Ended, RunFolder, TaskFile, TaskRecord
from resnetx.record.check import CheckFolder, Measure
from resnetx.units import duration

# Runs at the same time, each on nodes of its own: one thread supervises each of them.
#
# Signals reach the main thread alone. What it raises then interrupts all runs, which record that, before it goes on.


@dataclass(frozen=True)
class Placed(Generic[Ended]):
    """A task, and the folder that its record goes to."""

    task: TaskFile[Ended]
    folder: RunFolder


def together(placed: Sequence[Placed[Ended]]) -> list[Ended]:
    """The records of tasks that run at the same time, in their order; each is on disk."""
    stopped = threading.Event()

    def look_up() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(max_workers=max(1, len(placed)), thread_name_prefix="resnetx-run") as pool:
        runs = [pool.submit(launcher.supervise, each.task, each.folder, look_up=look_up) for each in placed]
        try:
            wait(runs)
        except BaseException:
            stopped.set()
            raise
    return [run.result() for run in runs]


# Of the time that is left, what the runs of single nodes may take: one that hangs leaves some for the others.
SHARES: dict[Measure, float] = {"all-reduce": 0.4, "training": 0.6, "pair": 1.0}

Pairs = list[tuple[str, str]]
Judge = Callable[[TaskRecord, int], TaskRecord]  # a record of so many nodes, beside what the description allows


class CheckRuns:
    """Runs what the budget leaves room for; `tried` and `left_out` say what that was."""

    def __init__(self, check: AskedCheck, folder: CheckFolder, judge: Judge) -> None:
        self.tried: list[Tried] = []
        self.left_out: list[str] = []
        self.pairs_tried = 0
        self._made, self._folder, self._judge = check, folder, judge
        self._end = time.monotonic() + check.budget_s

    def run(self) -> None:
        """All of it, one phase after the other."""
        nodes = self._made.fleet.names
        self.left_out += self._made.fleet.left_out
        if self._made.gpus > 1:
            self._phase("all-reduce", [(node,) for node in nodes])
        else:
            self.left_out.append("all-reduce on each node: one rank has no peer (gpus=1)")
        self._phase("training", [(node,) for node in nodes])
        self._pairs()

    def _pairs(self) -> None:
        faulty = {each.nodes[0]: fault for each in self.tried if (fault := fault_of(each.record))}
        able = [node for node in self._made.fleet.names if node not in faulty]
        if faulty and len(self._made.fleet.names) > 1:
            self.left_out.append(f"pairs with {', '.join(faulty)}: its own runs failed")
        every: list[Pairs] = rounds(able)
        for index, pairs in enumerate(every, 1):
            if not self._phase("pair", pairs, index):
                left = sum(map(len, every[index - 1 :]))
                self.left_out[-1] = f"{left} of {sum(map(len, every))} pairs, {self.left_out[-1]}"
                return
            self.pairs_tried += len(pairs)

    def _phase(self, measure: Measure, of_nodes: Sequence[tuple[str, ...]], index: int = 0) -> bool:
        """Runs one measure at the same time on each of these; whether the budget had room for it."""
        left_s, usual_s = self._end - time.monotonic(), self._usual_s(measure)
        if left_s < max(usual_s, 1.0):
            what = "" if measure == "pair" else f"{measure} on each node, "
            self.left_out.append(
                f"{what}as {duration(max(0.0, left_s))} of budget={duration(self._made.budget_s)} were left"
            )
            return False
        limit_s = SHARES[measure] * left_s
        placed = [self._placed(measure, nodes, limit_s) for nodes in of_nodes]
        label = f"round {index}" if measure == "pair" else measure
        with progress.waiting(f"{label}: {len(placed)} at the same time", self._folder.path):
            records = together(placed)
        for nodes, each, record in zip(of_nodes, placed, records, strict=True):
            judged = self._judge(record, len(nodes))
            if judged != record:
                write(each.folder.record, judged)
            self.tried.append(Tried(measure, tuple(nodes), judged, each.folder.path, index))
        failed = sum(bool(fault_of(record)) for record in records)
        progress.note(f"{label}: {len(records)} ended" + f", {failed} of them not well" * bool(failed))
        return True

    def _placed(self, measure: Measure, nodes: tuple[str, ...], limit_s: float) -> Placed[TaskRecord]:
        task = self._made.task(measure, *nodes)
        limited = msgspec.structs.replace(task, timeout_s=max(1.0, min(task.timeout_s, limit_s)))
        return Placed(limited, self._folder.run(measure, nodes))

    def _usual_s(self, measure: Measure) -> float:
        """What runs of this check took, starting included: for pairs other all-reduces; 0 before any has ended well."""
        ended = [(each.measure, each.record.duration_s or 0.0) for each in self.tried if not fault_of(each.record)]
        alike = [seconds for kind, seconds in ended if (kind == "training") == (measure == "training")]
        return max(alike or (seconds for _, seconds in ended), default=0.0)


# Rounds of pairs: everything meets everything else once, and in one round nothing meets two others.
#
# Round-robin by the circle method: one stays, the others move on by a place each round (R. Lucas, "Récréations
# mathématiques", 1883). N nodes need N - 1 rounds of N / 2 pairs; an odd number needs N, in each of which one pauses.

T = TypeVar("T")


def rounds(nodes: Sequence[T]) -> list[list[tuple[T, T]]]:
    """All pairs, each in the order of `nodes`, in rounds of disjoint ones; none of fewer than two nodes."""
    places = list(range(len(nodes) + len(nodes) % 2))  # the last one of an odd number is a pause
    found = []
    for _ in places[1:]:
        met = zip(places[: len(places) // 2], reversed(places), strict=False)
        pairs = sorted((min(pair), max(pair)) for pair in met)
        found.append([(nodes[a], nodes[b]) for a, b in pairs if b < len(nodes)])
        places = [places[0], places[-1], *places[1:-1]]
    return [each for each in found if each]
