"""A sweep with a time budget: the most informative run comes next, and no run starts that would not end in time.

First every point once, then every twin once, then what has the widest spread of all points and twins, again and again.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable

from resnetx.measure.study.plan import PlannedRun
from resnetx.measure.study.sweep import hopeless, pointless
from resnetx.record import RunRecord
from resnetx.request import Request
from resnetx.statistics import summarize


class Budget:
    """Chooses runs (a `sweep.Choice`) until the time is spent.

    `estimate`: seconds that a run of a request may take, before any has been seen.
    """

    def __init__(
        self, seconds: float, estimate: Callable[[Request], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._estimate = estimate

    def __call__(self, remaining: list[PlannedRun], ended: list[RunRecord]) -> PlannedRun | None:
        """The next run, or None where none of those that are left would end in time."""
        seen: dict[str, list[RunRecord]] = defaultdict(list)
        for record in ended:
            seen[record.request_key].append(record)
        remaining_s = self.remaining_s()
        lost = hopeless(ended)
        # What has been given up costs nothing, and is told at once.
        able = [run for run in remaining if pointless(run, lost) or self._expected_s(run, seen[run.key]) <= remaining_s]
        return min(able, key=lambda run: self._rank(run, seen[run.key]), default=None)  # the first of equals

    def remaining_s(self) -> float:
        """Seconds until the budget is spent."""
        return self._end - self._clock()

    def _expected_s(self, run: PlannedRun, before: list[RunRecord]) -> float:
        return statistics.fmean(record.duration_s for record in before) if before else self._estimate(run.task.request)

    def _rank(self, run: PlannedRun, before: list[RunRecord]) -> tuple[int, float]:
        """Small is first: points before twins, and wide before narrow."""
        if not before:
            return (0 if run.twin is None else 1, 0.0)
        rates = [record.images_per_s for record in before if record.images_per_s]
        return (2, -summarize(rates).spread if rates else 0.0)
