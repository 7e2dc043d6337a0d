"""Predictions for two gloo ranks on this machine, put to the test: measured after they were stored.

python -m tests.bench.truth_gloo results/cpu-2core/truth     # most of an hour; goes on where it was

1. `resnetx bench`: all-reduces of two gloo ranks, also at the sizes that the workloads send.
2. `resnetx trace`: one rank of each workload, layer by layer.
3. `resnetx predict` from these two, stored with its date and digest.
4. All strategies train on two ranks in short windows, each between two windows of one rank alone (`truth_ranks`).

`tests/prediction/test_truth.py` holds what today's model predicts from the same traces against these runs.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from resnetx import record
from resnetx.cli import main as resnetx
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.host import node_name
from resnetx.measure.launch import executor
from resnetx.record import record_file
from resnetx.request import Request
from resnetx.traces import read_all
from tests.bench.started import arguments

GRIDS: list[dict[str, object]] = [  # batch sizes are each rank's
    {"model": "alexnet", "batch_size": 4},
    {"model": "googlenet", "batch_size": 4},
    {"model": "resnetx", "model.x": 1, "batch_size": 8},
    {"model": "resnetx", "model.x": 8, "batch_size": 4},
]
STRATEGIES = ("bucket", "layerwise", "after")
COMMON: dict[str, object] = {"input": "synthetic", "threads": 1}
WINDOW_S = 0.4


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bench(folder)
    trace(folder)
    predict(folder)
    measure(folder)


def run(*words: str) -> None:
    print("+ resnetx", *words, flush=True)
    status = resnetx(list(words))
    assert status == 0, f"resnetx {words[0]} ended with status {status}"


def words_of(point: dict[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in point.items()]


def listed(values: Iterable[object]) -> str:
    return f"[{','.join(map(str, values))}]"


# ---- what predictions are made from ---------------------------------------------------------------------------------


def bench(folder: Path) -> None:
    if not (folder / "bench").is_dir():
        names = ["model=[alexnet,googlenet,resnetx]", "model.x=[1,8]", f"strategy={listed(STRATEGIES)}"]
        run("bench", "gpus=2", *names, "threads=1", "iterations=40", f"results={folder}/made")
        keep(folder, "bench")


def trace(folder: Path) -> None:
    if not (folder / "trace").is_dir():
        for grid in GRIDS:
            run("trace", *words_of({**COMMON, **grid}), "gpus=1", f"results={folder}/made")
        keep(folder, "trace")


def keep(folder: Path, verb: str) -> None:
    """What a verb wrote below results/<machine>/<verb>, where this study keeps it."""
    (folder / "made" / node_name() / verb).rename(folder / verb)


def predict(folder: Path) -> None:
    if not record_file("prediction", folder).is_file():
        words = ["systems=cpu-host", "scaling=weak", "gpus=[1,2]", f"strategy={listed(STRATEGIES)}"]
        run("predict", f"{folder}/trace", *words, f"calibration={folder}/bench", f"out={folder}")


# ---- what checks them -----------------------------------------------------------------------------------------------


def measure(folder: Path) -> None:
    traced_s = clean_steps_s(folder)
    for grid in GRIDS:
        points = list(two_ranks(grid, traced_s))
        done = folder / "windows" / f"{points[0].model.label.replace('/', '-').lower()}.json"
        if not done.is_file():
            asked = folder / "made" / "points.json"
            record.write(asked, points)
            command = executor.torchrun(2, ["-m", "tests.bench.truth_ranks", str(asked), str(done)])
            print("+", command.line, flush=True)
            done.parent.mkdir(exist_ok=True)
            environment = {**os.environ, "OMP_NUM_THREADS": "1", **command.variables}
            torchrun = Path(sys.executable).with_name("torchrun")
            subprocess.run([torchrun, *command.words[1:]], check=True, env=environment)


def clean_steps_s(folder: Path) -> dict[str, float]:
    """The clean step of each traced workload."""
    found = {}
    for each in read_all(folder / "trace"):
        (batch,) = each.batches
        assert batch.times.clean_step_s, "measured traces have clean steps"
        found[each.workload] = median(batch.times.clean_step_s)
    return found


def two_ranks(grid: dict[str, object], traced_s: dict[str, float]) -> Iterator[Request]:
    for strategy in (*STRATEGIES, "none"):
        point = {**COMMON, **grid, "scaling": "weak", "gpus": 2, "strategy": strategy}
        step_s = traced_s[request_from(compose(point)).model.label]
        yield request_from(compose({**point, "steps": max(1, round(WINDOW_S / step_s))}))


if __name__ == "__main__":
    (results,) = arguments(__doc__)
    main(Path(results))
