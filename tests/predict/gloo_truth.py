"""What the committed truth says of each point: see `test_truth`."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from resnetx.cli.predict import predicted

TRUTH = Path(__file__).parents[2] / "results" / "cpu-2core" / "truth"
WORDS = ["systems=cpu-host", "scaling=weak", "gpus=[1,2]", "strategy=[bucket,layerwise,after]"]
LEAST_ALLOWED = 0.10


@dataclass(frozen=True)
class Judged:
    """One point: predicted and measured step over that of one rank, and steps where the machine was as traced."""

    name: str
    predicted: float
    measured: list[float]
    predicted_s: float
    as_traced_s: list[float]

    @property
    def error(self) -> float:
        return self.predicted / median(self.measured) - 1

    @property
    def allowed(self) -> float:
        """10 %, or twice the measured interval: the range, of so few runs."""
        return max(LEAST_ALLOWED, 2 * (max(self.measured) - min(self.measured)) / median(self.measured))


def tries() -> list[dict[str, Any]]:
    return msgspec.json.decode((TRUTH / "tries.json").read_bytes())


def judged() -> dict[tuple[str, str], Judged]:
    """(workload, strategy) -> what today's model says beside what was measured; without points that were discarded."""
    made = predicted([TRUTH / "trace"], [*WORDS, f"calibration={TRUTH / 'bench'}"])
    times = {(each.workload, each.strategy, each.gpus): each.iteration_s for each in made.points}
    kept = defaultdict(list)
    for each in tries():
        kept[each["workload"], each["strategy"]] += [each] if each["kept"] else []
    return {
        (workload, strategy): Judged(
            f"{workload} {strategy}",
            times[workload, strategy, 2] / times[workload, strategy, 1],
            [each["step_s"] / fmean(each["baseline_s"]) for each in runs],
            times[workload, strategy, 2],
            [each["step_s"] for each in runs if each["as_traced"]],
        )
        for (workload, strategy), runs in kept.items()
        if runs
    }
