"""Real training of two ranks over links of 10, 1 and 0.5 Gb/s in the lab, predicted from the rate of one rank.

python -m tests.bench.truth_lab_training results/lab/training          # some minutes, as root, on an idle machine
python -m tests.bench.truth_lab_training results/lab/training --table  # the points of an earlier start

1. `resnetx trace`: one rank of each workload, layer by layer.
2. `resnetx predict` of two ranks that wait these times out, over each link: stored with its date and digest.
3. The same two ranks train in the lab, all strategies in short windows, each between two windows of one rank alone
   (`truth_ranks`).

Beside each window one rank alone computes, before and behind it. What that differs from the trace makes the predicted
step as much longer or shorter; a window is left out where that is more than 5 % of the step. A point counts where more
than half of its predicted step is exposed communication; the others test the cores of this machine, which two ranks and
what moves their gradients share.

The first rule, made before anything was measured, was stricter: one rank alone within 5 % of the trace, although it is
5 % of the step at 0.5 Gb/s. On an idle machine it kept three windows or more of only one of the 12 points that count.
A machine on which others work is refused; --anyway tries it there.
"""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import msgspec

from resnetx import record
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.measure.launch import LAB_VARIABLE, SCRATCH_VARIABLE
from resnetx.measure.machine.host_facts import cpu_times, host_load
from resnetx.measure.machine.readings import FOREIGN_SHARE
from resnetx.record import record_file
from resnetx.record.prediction import Prediction
from resnetx.request import Request
from resnetx.traces import read_all
from tests.bench.started import arguments
from tests.bench.truth_gloo import COMMON, STRATEGIES, WINDOW_S, clean_steps_s, keep, listed, run, words_of
from tests.prediction.gloo_truth import LEAST_WINDOWS, MOVED

LINKS = ("10", "1", "0-5")  # Gb/s
GRIDS: list[dict[str, object]] = [  # batch sizes are each rank's
    {"model": "alexnet", "batch_size": 2, "image_size": 67},
    {"model": "resnetx", "model.x": 1, "batch_size": 1, "image_size": 32},
]
ROUNDS = 12
EXPOSED = 0.5  # of a predicted step: what is bound by communication
LOOKS_s = 5.0  # at the machine before anything is measured
ALLOWED = 0.08  # mean error over the points that count


def main(folder: Path, words: list[str]) -> None:
    if "--table" not in words:
        if "--anyway" not in words:
            refuse_others()
        trace(folder)
        predict(folder)
        for grid in GRIDS:
            for link in LINKS:
                measure(folder, grid, link)
    print("\n".join(table(folder)))


def refuse_others() -> None:
    """Ends where other processes use the machine: they would be measured, too."""
    before = cpu_times()
    time.sleep(LOOKS_s)
    load = host_load(before, cpu_times())
    assert not isinstance(load, record.Unknown), load
    if load.foreign > FOREIGN_SHARE:
        sys.exit(f"other processes use {load.foreign:.0%} of the host's CPUs: stop them (see top), or add --anyway")


def machine_of(folder: Path, link: str) -> Path:
    return folder / f"two-gpus-{link}gbps.yaml"


def name_of(grid: dict[str, object]) -> str:
    return f"{grid['model']}"


# ---- what is predicted ----------------------------------------------------------------------------------------------


def trace(folder: Path) -> None:
    if not (folder / "trace").is_dir():
        for grid in GRIDS:
            run("trace", *words_of({**COMMON, **grid}), "gpus=1", f"results={folder}/made")
        keep(folder, "trace")


def predict(folder: Path) -> None:
    machines = listed(machine_of(folder, link) for link in LINKS)
    for grid in GRIDS:
        out = folder / f"prediction-{name_of(grid)}"
        if not record_file("prediction", out).is_file():
            both = {**grid, "batch_size": 2 * int(str(grid["batch_size"]))}
            words = ["input=synthetic", *words_of(both), "gpus=2", f"strategy={listed(STRATEGIES)}"]
            words += [f"replay={traced(folder, grid)}", f"lab.system={machines}", "lab.scale=1"]
            run("predict", *words, f"out={out}")


def traced(folder: Path, grid: dict[str, object]) -> Path:
    """The folder of the trace of a workload."""
    wanted = request_from(compose({**COMMON, **grid, "gpus": 1})).model.label
    below = [each for each in (folder / "trace").iterdir() if each.is_dir()]
    (path,) = [each for each in below if [trace.workload for trace in read_all(each)] == [wanted]]
    return path


# ---- what checks it -------------------------------------------------------------------------------------------------


def measure(folder: Path, grid: dict[str, object], link: str) -> None:
    done = folder / "windows" / f"{name_of(grid)}-{link}gbps.json"
    if done.is_file():
        return
    made = folder / "made" / f"{name_of(grid)}-{link}gbps"
    made.mkdir(parents=True, exist_ok=True)
    done.parent.mkdir(exist_ok=True)
    asked, network = made / "points.json", made / "network.json"
    record.write(asked, list(two_ranks(folder, grid, link)))
    record.write(network, lab_network(system.load(str(machine_of(folder, link))), None, 2, 1))
    words = [str(network), "tests.bench.truth_ranks", str(asked), str(done), str(ROUNDS)]
    environment = {
        **os.environ,
        LAB_VARIABLE: str(network),
        SCRATCH_VARIABLE: str(made),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    print("+ python -m resnetx.measure.lab_ranks", *words, flush=True)
    subprocess.run([sys.executable, "-m", "resnetx.measure.lab_ranks", *words], check=True, env=environment)


def two_ranks(folder: Path, grid: dict[str, object], link: str) -> Iterator[Request]:
    predicted = {point.strategy: point.iteration_s for point in points(folder, grid, link)}
    longest_s = max(step_s for step_s in predicted.values() if step_s is not None)
    for strategy in (*STRATEGIES, "none"):
        point = {**COMMON, **grid, "scaling": "weak", "gpus": 2, "strategy": strategy}
        yield request_from(compose({**point, "steps": max(1, round(WINDOW_S / longest_s))}))


# ---- how far off it was ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A point: its step where one rank alone was as fast as in the trace."""

    workload: str
    link: str
    strategy: str
    exposed: float  # share of the predicted step
    predicted_s: float
    measured_s: tuple[float, ...]  # of the windows that say something
    windows: int

    @property
    def refused(self) -> bool:
        return len(self.measured_s) < LEAST_WINDOWS

    @property
    def counts(self) -> bool:
        return self.exposed > EXPOSED and not self.refused

    @property
    def error(self) -> float:
        return self.predicted_s / median(self.measured_s) - 1

    def row(self) -> str:
        measured, error = ("machine not as traced", "") if self.refused else (self._measured, f"{self.error:+.1%}")
        cells = [self.workload, self.link.replace("-", "."), self.strategy, f"{self.exposed:.0%}"]
        cells += [f"{self.predicted_s * 1e3:.1f}", measured, error, "yes" if self.counts else "no"]
        return f"| {' | '.join([*cells, f'{len(self.measured_s)} of {self.windows}'])} |"

    @property
    def _measured(self) -> str:
        low, high = min(self.measured_s), max(self.measured_s)
        return f"{median(self.measured_s) * 1e3:.1f} ({low * 1e3:.1f} to {high * 1e3:.1f})"


def points(folder: Path, grid: dict[str, object], link: str):
    """The predicted points of a workload over a link."""
    made = record.read(record_file("prediction", folder / f"prediction-{name_of(grid)}"), Prediction)
    return [point for point in made.points if point.system == machine_of(folder, link).stem]


def judged(folder: Path) -> Iterator[Judged]:
    traced_s = clean_steps_s(folder)
    for grid in GRIDS:
        for link in LINKS:
            windows = defaultdict(list)
            for each in msgspec.json.decode((folder / "windows" / f"{name_of(grid)}-{link}gbps.json").read_bytes()):
                windows[each["strategy"]].append(each)
            for point in points(folder, grid, link):
                own = windows[point.strategy]
                kept = tuple(
                    each["step_s"]
                    for each in own
                    if moved_s(each, traced_s[point.workload]) <= MOVED * point.iteration_s
                )
                exposed = point.exposed_communication_s / point.iteration_s
                yield Judged(point.workload, link, point.strategy, exposed, point.iteration_s, kept, len(own))


def moved_s(window: dict, traced_s: float) -> float:
    """By how much one rank alone differed from the trace, before or behind a window."""
    return max(abs(window[each] - traced_s) for each in ("before_s", "after_s"))


def table(folder: Path) -> Iterator[str]:
    columns = [
        "workload",
        "link, Gb/s",
        "strategy",
        "exposed",
        "predicted, ms",
        "measured, ms (range)",
        "error",
        "counts",
    ]
    columns += ["windows kept"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    found = list(judged(folder))
    yield from (each.row() for each in found)
    errors = [abs(each.error) for each in found if each.counts]
    if not errors:
        yield "\nNo point counts: the machine was never as it was traced."
        return
    verdict = "held" if fmean(errors) <= ALLOWED else "MISSED"
    words = f"{len(errors)} points count: mean error {fmean(errors):.1%}, worst {max(errors):.1%}"
    yield f"\n{words} (at most {ALLOWED:.0%} on average: {verdict})."


if __name__ == "__main__":
    results, *options = arguments(__doc__)
    main(Path(results), options)
