"""Tables of an experiment in the lab: what was measured on each system beside what was predicted.

python -m tests.bench.lab_tables results/lab/paper            # one system against the other, point by point
python -m tests.bench.lab_tables results/lab/factors --chain  # one step of each system, in the order of their names

A folder has `prediction/` and `study/`. Ranges are those of the windows of a run, of the slowest rank; rates and times
are those of the described machine: what was measured, less the scale.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from resnetx.record import RunRecord, read, record_file
from resnetx.record.prediction import PredictedPoint, Prediction
from resnetx.request import Request
from tests.bench.started import arguments

LEAST_GAP = 0.001  # between two systems: what is closer is a tie


@dataclass(frozen=True)
class Measured:
    """A point with its run."""

    point: PredictedPoint
    run: RunRecord

    @property
    def system(self) -> str:
        return self.point.system

    @property
    def what(self) -> tuple[str, int, int, str]:
        return self.point.workload, self.point.batch_size, self.point.gpus, self.point.strategy

    @property
    def scale(self) -> float:
        assert self.run.request.lab is not None, "a run in the lab"
        return self.run.request.lab.scale

    @property
    def predicted_s(self) -> float:
        assert self.point.iteration_s is not None, "a point that can run"
        return self.point.iteration_s

    @property
    def step_s(self) -> float:
        """Measured, as `compare` has it."""
        assert isinstance(self.run.iterations_per_s, float), "a run that ended well"
        return 1 / self.run.iterations_per_s

    @property
    def windows_s(self) -> list[float]:
        return [max(ranks) for ranks in zip(*self.run.windows_s, strict=True)]

    @property
    def error(self) -> float:
        return self.predicted_s / self.step_s - 1

    @property
    def held(self) -> bool:
        assert self.point.interval_s is not None, "a point that can run"
        low_s, high_s = self.point.interval_s
        return low_s <= self.step_s <= high_s

    @property
    def unsteady(self) -> bool:
        """Whether windows of waited-out steps differ by more than a twentieth: by what else the machine did."""
        return max(self.windows_s) > 1.05 * min(self.windows_s)


def measured(folder: Path) -> list[Measured]:
    """Every point that has a run."""
    made: Prediction = read(record_file("prediction", folder / "prediction"), Prediction)
    runs = [read(path, RunRecord) for path in sorted((folder / "study").glob("*/record.json"))]
    asked = {_asked(run.request): run for run in runs if run.outcome == "ok"}
    found = [(point, asked.get(_asked(point.request))) for point in made.points if point.request is not None]
    return [Measured(point, run) for point, run in found if run is not None]


def _asked(request: Request) -> tuple[object, ...]:
    """What makes a point: how often it is measured is no part of it."""
    return request.lab, request.model, request.batch_size, request.gpus, request.strategy


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# ---- one system against another -------------------------------------------------------------------------------------


def against(found: Sequence[Measured]) -> Iterator[str]:
    """A row for each point that two systems have: how many times as fast the first is, measured and predicted."""
    first, second = dict.fromkeys(each.system for each in found)
    columns = ["workload", "batch", "ranks", "strategy", f"{first}, it/s", f"{second}, it/s"]
    columns += [f"{first} over {second}", "its range", "predicted", "winner", "errors"]
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    pairs: dict[tuple[str, int, int, str], dict[str, Measured]] = {}
    for each in found:
        pairs.setdefault(each.what, {})[each.system] = each
    duels = [Duel(pair[first], pair[second]) for _, pair in sorted(pairs.items()) if len(pair) == 2]
    yield from (duel.row() for duel in duels)
    decided = [duel for duel in duels if duel.decided]
    right = sum(duel.right for duel in decided)
    yield f"\nThe gap exceeds its range in {len(decided)} of {len(duels)} pairs; {right} winners are as predicted."


@dataclass(frozen=True)
class Duel:
    """One point on two systems."""

    a: Measured
    b: Measured

    @property
    def ratio(self) -> float:
        return self.b.step_s / self.a.step_s

    @property
    def foretold(self) -> float:
        return self.b.predicted_s / self.a.predicted_s

    @property
    def range(self) -> tuple[float, float]:
        a, b = self.a.windows_s, self.b.windows_s
        return min(b) / max(a), max(b) / min(a)

    @property
    def decided(self) -> bool:
        return self.range[0] > 1 + LEAST_GAP or self.range[1] < 1 - LEAST_GAP

    @property
    def right(self) -> bool:
        return (self.ratio > 1) == (self.foretold > 1)

    def row(self) -> str:
        winner = ("as predicted" if self.right else "MISSED") if self.decided else "not decided"
        rates = [f"{each.scale / each.step_s:.2f}{'*' * each.unsteady}" for each in (self.a, self.b)]
        ratios = [f"{self.ratio:.3f}", "{:.3f} to {:.3f}".format(*self.range), f"{self.foretold:.3f}"]
        return _row([*map(str, self.a.what), *rates, *ratios, winner, f"{self.a.error:+.1%}, {self.b.error:+.1%}"])


# ---- one system after another ---------------------------------------------------------------------------------------


def chain(found: Sequence[Measured]) -> Iterator[str]:
    """A row for each system and point: its step, and how many times as fast as the system before it is."""
    columns = ["system", "batch", "measured, ms", "predicted, ms", "error", "over the one before", "predicted"]
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    for batch in sorted({each.point.batch_size for each in found}):
        own = sorted((each for each in found if each.point.batch_size == batch), key=lambda each: each.system)
        for before, each in zip([None, *own], own, strict=False):
            steps = [f"{seconds * 1e3 / each.scale:.1f}" for seconds in (each.step_s, each.predicted_s)]
            steps[0] += "*" * each.unsteady
            over = (
                ["", ""]
                if before is None
                else [f"{Duel(each, before).ratio:.3f}", f"{Duel(each, before).foretold:.3f}"]
            )
            yield _row([each.system, str(batch), *steps, f"{each.error:+.1%}", *over])


# ---- all of them ----------------------------------------------------------------------------------------------------


def summary(found: Sequence[Measured]) -> Iterator[str]:
    """Errors of all points, and of those whose windows agree."""
    steady = [each for each in found if not each.unsteady]
    for words, chosen in (("all points", found), ("points whose windows agree within 5 % (others: *)", steady)):
        errors = [abs(each.error) for each in chosen]
        if errors:
            counts = f"within 10 %: {sum(error <= 0.1 for error in errors)}, within the stated interval: "
            counts += f"{sum(each.held for each in chosen)}"
            yield f"- {words}: {len(errors)}, mean error {fmean(errors):.1%}, worst {max(errors):.1%}, {counts}"
    loads = sorted(each.run.host_load.foreign for each in found if each.run.host_load is not None)
    if loads:
        share = f"{loads[0]:.0%} to {loads[-1]:.0%} of the CPUs (median {median(loads):.0%})"
        yield f"- other programs took {share} meanwhile"


if __name__ == "__main__":
    folder, *options = arguments(__doc__)
    points = measured(Path(folder))
    print("\n".join([*(chain if options == ["--chain"] else against)(points), "", *summary(points)]))
