"""What the committed truth says of each point: see `test_truth`."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from resnetx.api.predict import predicted
from resnetx.cli.words import settings_of
from resnetx.statistics import Summary, summarize
from resnetx.traces import read_all

TRUTH = Path(__file__).parents[2] / "results" / "cpu-2core" / "truth"
WORDS = ["systems=cpu-host", "scaling=weak", "gpus=[1,2]", "strategy=[bucket,layerwise,after]"]
MOVED = 0.05  # of the baseline: between the windows before and behind a step, or from the trace
LEAST_ALLOWED = 0.10
LEAST_WINDOWS = 3  # of a point that says something

Window = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One point: its step over that of one rank, and its step where one rank was as fast as when it was traced."""

    workload: str
    strategy: str
    windows: int  # in all; those between baselines that differ are discarded
    predicted: float
    measured: Summary
    predicted_s: float
    as_traced_s: Summary | None

    @property
    def error(self) -> float:
        return self.predicted / self.measured.median - 1

    @property
    def error_s(self) -> float | None:
        """Of the time itself; None where the machine was never as it was traced."""
        return None if self.as_traced_s is None else self.predicted_s / self.as_traced_s.median - 1

    @property
    def allowed(self) -> float:
        return allowed(self.measured)

    def __str__(self) -> str:
        return f"{self.workload} {self.strategy}: {self.error:+.1%}, allowed {self.allowed:.1%}"


def allowed(measured: Summary) -> float:
    """10 %, or twice the measured interval."""
    return max(LEAST_ALLOWED, 2 * (measured.high - measured.low) / measured.median)


def judged() -> dict[tuple[str, str], Judged]:
    """(workload, strategy) -> what today's model says beside what was measured; without points that were discarded."""
    made = predicted([TRUTH / "trace"], settings_of([*WORDS, f"calibration={TRUTH / 'bench'}"]))
    times = {(each.workload, each.strategy, each.gpus): each.iteration_s for each in made.points}
    traced_s = {each.workload: median(each.batches[0].times.clean_step_s or []) for each in read_all(TRUTH / "trace")}
    found = {}
    for (workload, strategy), windows in by_point().items():
        kept = [each for each in windows if abs(each["after_s"] / each["before_s"] - 1) <= MOVED]
        if strategy != "none" and len(kept) >= LEAST_WINDOWS:
            as_traced = [each["step_s"] for each in kept if _as_traced(each, traced_s[workload])]
            found[workload, strategy] = Judged(
                workload,
                strategy,
                len(windows),
                times[workload, strategy, 2] / times[workload, strategy, 1],
                summarize([each["step_s"] / fmean((each["before_s"], each["after_s"])) for each in kept]),
                times[workload, strategy, 2],
                summarize(as_traced) if len(as_traced) >= LEAST_WINDOWS else None,
            )
    return found


def _as_traced(window: Window, traced_s: float) -> bool:
    return max(abs(window[each] / traced_s - 1) for each in ("before_s", "after_s")) <= MOVED


def by_point() -> dict[tuple[str, str], list[Window]]:
    """All windows that were measured."""
    found = defaultdict(list)
    for file in sorted((TRUTH / "windows").glob("*.json")):
        for each in msgspec.json.decode(file.read_bytes()):
            found[each["workload"], each["strategy"]].append(each)
    return found


def table() -> str:
    """The points as rows of Markdown."""
    columns = [
        "workload",
        "strategy",
        "windows kept",
        "two ranks over one: measured",
        "predicted",
        "error",
        "allowed",
        "step where one rank was as traced: measured, ms",
        "predicted",
        "error",
    ]
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return "\n".join([head, *map(_row, judged().values())])


def _row(each: Judged) -> str:
    of = each.measured
    cells = [
        each.workload,
        each.strategy,
        f"{of.n} of {each.windows}",
        f"{of.median:.3f} [{of.low:.3f}, {of.high:.3f}]",
        f"{each.predicted:.3f}",
        f"{each.error:+.1%}",
        f"{each.allowed:.1%}",
    ]
    if each.as_traced_s is None or each.error_s is None:
        return f"| {' | '.join([*cells, 'never', '', ''])} |"
    time = each.as_traced_s
    words = f"{time.median * 1e3:.0f} [{time.low * 1e3:.0f}, {time.high * 1e3:.0f}]"
    return f"| {' | '.join([*cells, words, f'{each.predicted_s * 1e3:.0f}', f'{each.error_s:+.1%}'])} |"


if __name__ == "__main__":
    print(table())
