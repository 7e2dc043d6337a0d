"""Predictions of two gloo ranks on this machine, put to the test: measured after they were stored.

python tests/bench/truth_gloo.py results/cpu-2core/truth     # an hour; goes on where it was

1. `resnetx bench`: all-reduces of two gloo ranks at the sizes that the workloads send.
2. `resnetx trace`: one rank, layer by layer, at the batch that each of two ranks has.
3. `resnetx predict` from these two, stored with its date and digest.
4. Each point runs, in turns with its baseline: one rank with one rank's batch. A shared machine drifts: a run before or
   after which the baseline is more than 5 % off the trace's clean step is repeated, up to `TRIES` times, then discarded.

`tests/predict/test_truth.py` holds the predictions of today's model against these runs.
"""

import json
import random
import sys
from pathlib import Path
from statistics import median

import msgspec

from resnetx import __version__, record
from resnetx.cli import main as resnetx
from resnetx.cli.compose import compose, points_of
from resnetx.cli.runs import run_file
from resnetx.config import Request, request_from, run_settings_from
from resnetx.host import node_name
from resnetx.measure import launch
from resnetx.record import RunFile, RunRecord, StudyFolder, StudyRecord
from resnetx.record.trace_runs import read_all

WORKLOADS = [
    "model=alexnet batch_size=8",
    "model=googlenet batch_size=8",
    "model=resnetx model.x=1 batch_size=16",
    "model=resnetx model.x=8 batch_size=8",
]
STRATEGIES = "strategy=[bucket,layerwise,after]"
COMMON = ["input=synthetic", "threads=1"]
REPEATS = 3  # runs of each point that are kept
TRIES = 3  # of each of them
MOVED = 0.05  # of the baseline, from the trace's clean step
SECONDS = 8.0  # of the windows of a run


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bench(folder)
    trace(folder)
    predict(folder)
    measure(folder)


def bench(folder: Path) -> None:
    if not list(folder.glob("bench/*/record.json")):
        words = [word for workload in WORKLOADS for word in workload.split()]
        models = "model=[alexnet,googlenet,resnetx]"
        assert any(word.startswith("model.x") for word in words)
        done(["bench", "collective=allreduce", "gpus=2", models, STRATEGIES, "threads=1", "iterations=60", f"results={folder}/made"])
        move(folder / "made", "bench", folder / "bench")


def trace(folder: Path) -> None:
    for workload in WORKLOADS:
        model, batch = workload.rsplit(" ", 1)
        half = int(batch.partition("=")[2]) // 2
        done(["trace", *model.split(), f"batch_size={half}", "gpus=1", *COMMON, f"results={folder}/made"])
    move(folder / "made", "trace", folder / "trace")


def move(made: Path, verb: str, to: Path) -> None:
    """What a verb wrote below results/<machine>/<verb>, to where this study keeps it."""
    source = made / node_name() / verb
    if source.is_dir() and not to.exists():
        source.rename(to)


def predict(folder: Path) -> None:
    if not (folder / "prediction" / "prediction.json").is_file():
        words = ["systems=cpu-host", "gpus=2", STRATEGIES, f"calibration={folder}/bench", f"out={folder}/prediction"]
        for each in sorted((folder / "trace").iterdir()):
            assert each.is_dir()
        done(["predict", *map(str, sorted((folder / "trace").iterdir())), *words])


def done(words: list[str]) -> None:
    print("+ resnetx", *words, flush=True)
    status = resnetx(words)
    assert status == 0, f"resnetx {words[0]} ended with status {status}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
