"""Predictions for two gloo ranks on this machine, put to the test: measured after they were stored.

python tests/bench/truth_gloo.py results/cpu-2core/truth     # most of an hour; goes on where it was

1. `resnetx bench`: all-reduces of two gloo ranks, also at the sizes that the workloads send.
2. `resnetx trace`: one rank of each workload, layer by layer.
3. `resnetx predict` from these two, stored with its date and digest.
4. Each point runs on two ranks, each with the batch that was traced, between two runs of its baseline, one rank.
   A shared machine drifts, so a point runs again where a baseline is more than 5 % off the trace's clean step or off
   the other one, up to `TRIES` times, and is discarded if none of them will do.

`tests/predict/test_truth.py` holds what today's model predicts from the same traces against these runs.
"""

import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import msgspec

from resnetx import __version__, record
from resnetx.cli import main as resnetx
from resnetx.cli.compose import compose
from resnetx.cli.runs import run_file
from resnetx.config import Request, request_from, run_settings_from
from resnetx.host import node_name
from resnetx.measure import launch
from resnetx.record import SCHEMA, RunRecord, StudyFolder, StudyRecord
from resnetx.record.prediction import prediction_file
from resnetx.record.trace_runs import read_all

GRIDS: list[dict[str, object]] = [  # batch sizes are each rank's
    {"model": "alexnet", "batch_size": 4},
    {"model": "googlenet", "batch_size": 4},
    {"model": "resnetx", "model.x": 1, "batch_size": 8},
    {"model": "resnetx", "model.x": 8, "batch_size": 4},
]
STRATEGIES = ("bucket", "layerwise", "after")
COMMON: dict[str, object] = {"input": "synthetic", "threads": 1}
REPEATS = 3  # runs of each point that are kept
TRIES = 3  # of each of them
MOVED = 0.05
WINDOWS, RUN_S = 4, 6.0  # of each run


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a point between two of its baseline; steps in seconds."""

    point: str  # key of its request
    repeat: int
    baseline_s: list[float]  # before and after
    traced_s: float  # the clean step of the trace
    step_s: float
    foreign: list[float | None]  # share of the host's CPUs that others used: before, during, after
    kept: bool


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
        run("bench", "gpus=2", *names, "threads=1", "iterations=60", f"results={folder}/made")
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
    if not prediction_file(folder).is_file():
        words = ["systems=cpu-host", "scaling=weak", "gpus=[1,2]", f"strategy={listed(STRATEGIES)}"]
        run("predict", f"{folder}/trace", *words, f"calibration={folder}/bench", f"out={folder}")


# ---- what checks them -----------------------------------------------------------------------------------------------


def measure(folder: Path) -> None:
    """Runs every point until `REPEATS` of it are kept, or their tries are used up."""
    study, traced_s = StudyFolder(folder / "study"), clean_steps_s(folder)
    points = list(two_ranks(traced_s))
    write_definition(study, points)
    tries = msgspec.json.decode((folder / "tries.json").read_bytes(), type=list[Try]) if has_tries(folder) else []
    order = [(point, repeat) for repeat in range(1, REPEATS + 1) for point in points]
    random.Random(0).shuffle(order)
    for point, repeat in order:
        mine = [each for each in tries if (each.point, each.repeat) == (point.key, repeat)]
        while len(mine) < TRIES and not any(each.kept for each in mine):
            mine.append(between_baselines(study, point, repeat, traced_s[point.model.label]))
            tries.append(mine[-1])
            record.write(folder / "tries.json", tries)
            print(f"{point.slug} {msgspec.json.encode(mine[-1]).decode()}", flush=True)


def has_tries(folder: Path) -> bool:
    return (folder / "tries.json").is_file()


def clean_steps_s(folder: Path) -> dict[str, float]:
    """The clean step of each traced workload."""
    found = {}
    for each in read_all(folder / "trace"):
        (batch,) = each.batches
        assert batch.times.clean_step_s, "measured traces have clean steps"
        found[each.workload] = median(batch.times.clean_step_s)
    return found


def two_ranks(traced_s: dict[str, float]) -> Iterator[Request]:
    for grid in GRIDS:
        for strategy in STRATEGIES:
            point = {**COMMON, **grid, "scaling": "weak", "gpus": 2, "strategy": strategy, "windows": WINDOWS}
            step_s = traced_s[request_from(compose(point)).model.label]
            yield request_from(compose({**point, "steps": max(1, round(RUN_S / WINDOWS / step_s)), "warmup": 3}))


def write_definition(study: StudyFolder, points: list[Request]) -> None:
    about = "Two gloo ranks on two CPU cores beside one, weak scaling: what predictions are held against."
    definition = StudyRecord(
        kind="study",
        schema=SCHEMA,
        name="truth",
        about=about,
        node=node_name(),
        points=[each for point in points for each in (point.on(1), point)],
        repeats=REPEATS,
        twins=0,
        baseline=1,
        convention="caffe",
        resnetx=__version__,
    )
    record.write(study.study, definition)


def between_baselines(study: StudyFolder, point: Request, repeat: int, traced_s: float) -> Try:
    """The point's run, with a run of its baseline before and one after it; set aside if the machine has moved."""
    runs = [(point.on(1), 2 * repeat - 1), (point, repeat), (point.on(1), 2 * repeat)]
    before, ran, after = (execute(study, request, number) for request, number in runs)
    baseline_s = [step_s(before), step_s(after)]
    moved = max(*(abs(each / traced_s - 1) for each in baseline_s), abs(baseline_s[1] / baseline_s[0] - 1))
    if moved > MOVED:
        study.run(point.slug, repeat).record.rename(study.run(point.slug, repeat).path / "moved.json")
    foreign = [None if each.host_load is None else each.host_load.foreign for each in (before, ran, after)]
    return Try(
        point=point.key,
        repeat=repeat,
        baseline_s=baseline_s,
        traced_s=traced_s,
        step_s=step_s(ran),
        foreign=foreign,
        kept=moved <= MOVED,
    )


def execute(study: StudyFolder, request: Request, repeat: int) -> RunRecord:
    settings = run_settings_from(compose({}))
    task = msgspec.structs.replace(run_file(request, settings, "truth"), repeat=repeat)
    ended: RunRecord = launch.execute(task, study.run(request.slug, repeat))
    assert ended.outcome == "ok", ended.reason
    return ended


def step_s(ran: RunRecord) -> float:
    """The median window's step, of the slowest rank."""
    assert ran.windows_s is not None
    return median(max(times) for times in zip(*ran.windows_s, strict=True)) / ran.request.steps


if __name__ == "__main__":
    main(Path(sys.argv[1]))
