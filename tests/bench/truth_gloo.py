"""Predictions for two gloo ranks on this machine, put to the test: measured after they were stored.

python tests/bench/truth_gloo.py results/cpu-2core/truth     # most of an hour; goes on where it was

1. `resnetx bench`: all-reduces of two gloo ranks, also at the sizes that the workloads send.
2. `resnetx trace`: one rank of each workload, layer by layer.
3. `resnetx predict` from these two, stored with its date and digest.
4. In each round every point runs on two ranks, each with the batch that was traced, between two runs of its baseline,
   one rank. A shared machine drifts: where the two baselines differ by more than 5 %, the run is set aside, and the
   next round repeats it. A baseline more than 5 % off the trace's clean step shows that the machine is no longer the
   one that was traced: such a run says nothing of the predicted time, only of its ratio to the baseline beside it.

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
ROUNDS = 4
MOVED = 0.05
WINDOWS, RUN_S = 4, 5.0  # of each run


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a point between two of its baseline; steps in seconds."""

    point: str  # key of its request
    workload: str
    strategy: str
    round: int
    baseline_s: list[float]  # before and after
    traced_s: float  # the clean step of the trace
    step_s: float
    foreign: list[float | None]  # share of the host's CPUs that others used: before, during, after
    kept: bool  # the baselines agree
    as_traced: bool  # and the machine is as fast as it was when it was traced


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
    """Runs every point once in each round, the strategies of a workload one behind the other."""
    study, traced_s = StudyFolder(folder / "study"), clean_steps_s(folder)
    points = list(two_ranks(traced_s))
    write_definition(study, points)
    tries = msgspec.json.decode((folder / "tries.json").read_bytes(), type=list[Try]) if has_tries(folder) else []
    shuffle = random.Random(0).shuffle
    for round_ in range(1, ROUNDS + 1):
        order = list(dict.fromkeys(point.model for point in points))
        shuffle(order)
        for model in order:
            turn = [point for point in points if point.model == model]
            shuffle(turn)
            if not any((each.round, each.point) == (round_, turn[0].key) for each in tries):
                tries += one_after_the_other(study, turn, round_, traced_s[turn[0].model.label])
                record.write(folder / "tries.json", tries)


def one_after_the_other(study: StudyFolder, points: list[Request], round_: int, traced_s: float) -> Iterator[Try]:
    """Every point with its baseline before and behind it; neighbours share one."""
    first = (len(points) + 1) * (round_ - 1) + 1
    before = execute(study, baseline_of(points[0]), first)
    for place, point in enumerate(points, start=1):
        ran = execute(study, point, round_)
        after = execute(study, baseline_of(point), first + place)
        yield judged(study, point, round_, traced_s, (before, ran, after))
        before = after


def baseline_of(point: Request) -> Request:
    """One rank, which exchanges nothing whatever its strategy: the same for all of them."""
    return msgspec.structs.replace(point.on(1), strategy=request_from(compose({})).strategy)


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
        points=list({each.key: each for point in points for each in (baseline_of(point), point)}.values()),
        repeats=ROUNDS,
        twins=0,
        baseline=1,
        convention="caffe",
        resnetx=__version__,
    )
    record.write(study.study, definition)


def judged(
    study: StudyFolder, point: Request, round_: int, traced_s: float, runs: tuple[RunRecord, RunRecord, RunRecord]
) -> Try:
    """What came of a run; it is set aside if the machine has moved meanwhile."""
    before_s, ran_s, after_s = map(step_s, runs)
    kept = abs(after_s / before_s - 1) <= MOVED
    if not kept:
        study.run(point.slug, round_).record.rename(study.run(point.slug, round_).path / "moved.json")
    found = Try(
        point=point.key,
        workload=point.model.label,
        strategy=point.strategy.kind,
        round=round_,
        baseline_s=[before_s, after_s],
        traced_s=traced_s,
        step_s=ran_s,
        foreign=[None if each.host_load is None else each.host_load.foreign for each in runs],
        kept=kept,
        as_traced=kept and max(abs(each / traced_s - 1) for each in (before_s, after_s)) <= MOVED,
    )
    print(msgspec.json.encode(found).decode(), flush=True)
    return found


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
