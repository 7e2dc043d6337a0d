"""What a study costs beside its runs: the sweep's own time between two runs, and reading 10,000 records.

    python -m tests.bench.bench_study overhead [RUNS]
    python -m tests.bench.bench_study starts [RUNS] [RANKS]
    python -m tests.bench.bench_study read [RECORDS]

Overhead: from the end of one child to the start of the next, beside a bare loop that starts the same children (a
Python that ends at once: what a real child does is its own time). Starts: whole runs of a moment, as forks of a process
that has imported what they need, and started afresh, in turns. Reading: against parsing the same files with the
standard library's json and keeping them whole, each in a process of its own.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.compose import compose
from resnetx.config import request_from, run_settings_from
from resnetx.measure.launch import launcher, preloaded
from resnetx.measure.launch.executor import Command
from resnetx.measure.machine import environment
from resnetx.measure.study_runs import planned_runs, sweep
from resnetx.record import SCHEMA, RunFile, RunFolder, RunRecord, StudyFolder, StudyRecord
from resnetx.request import Request
from resnetx.workloads import workload
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments

REPEATS = 6
MOMENT = {
    **{"input": "synthetic", "model.x": 1, "model.width": 16, "image_size": 32, "batch_size": 8, "threads": 1},
    **{"warmup": 3, "steps": 1, "windows": 1},
}


# ---- overhead -------------------------------------------------------------------------------------------------------


def overhead(runs: int) -> None:
    """Seconds per run of a sweep and of a bare loop, whose children end at once."""
    task = _task(_request(seed=0))
    with tempfile.TemporaryDirectory() as folder:
        planned = planned_runs([(task, "")], repeats=runs, twins=0, folder=StudyFolder(Path(folder)), seed=0)
        at_once = Command([sys.executable, "-c", "pass"], {})  # a child that leaves no record
        execute = launcher.execute
        launcher.execute = lambda task, folder: execute(task, folder, lambda *_: at_once)
        start = time.perf_counter()
        sweep(planned[:1], [], lambda *_: None)  # counting loads torch, once
        first_s = time.perf_counter() - start
        sweeping_s = bare_s = 0.0
        for run in planned[1:]:
            start = time.perf_counter()
            sweep([run], [], lambda *_: None)
            sweeping_s += time.perf_counter() - start
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            bare_s += time.perf_counter() - start
    count = runs - 1
    print(
        f"a run of the sweep {sweeping_s / count * 1e3:.1f} ms, of a bare loop {bare_s / count * 1e3:.1f} ms: ", end=""
    )
    print(
        f"overhead {(sweeping_s - bare_s) / count * 1e3:.1f} ms per run ({count} runs; the first took {first_s:.1f} s)"
    )


# ---- starts ---------------------------------------------------------------------------------------------------------


def starts(count: int, ranks: int) -> None:
    """Seconds of a run that is forked, again (the control), and of one that is started afresh."""
    task = _task(request_from(compose({**MOMENT, "gpus": ranks})))
    with tempfile.TemporaryDirectory() as folder, preloaded.kept():
        numbers = itertools.count()

        def run() -> float:
            start = time.perf_counter()
            ended = launcher.execute(task, RunFolder(Path(folder) / str(next(numbers))))
            assert ended.outcome == "ok", ended.reason
            return time.perf_counter() - start

        def afresh() -> float:
            os.environ[preloaded.AFRESH_VARIABLE] = ""
            try:
                return run()
            finally:
                del os.environ[preloaded.AFRESH_VARIABLE]

        first_s = run()
        times = rounds({"forked": run, "again": run, "afresh": afresh}, count)
    print(f"the first run, which imports: {first_s:.2f} s; of {ranks} ranks")
    for name, taken in times.items():
        print(f"{statistics.median(taken):6.2f} s  " + sentence(f"{name} / afresh", ratio(taken, times["afresh"])))


# ---- reading --------------------------------------------------------------------------------------------------------


def read(count: int) -> None:
    """Seconds and memory of loading and summarising a study, and of keeping its parsed files whole."""
    with tempfile.TemporaryDirectory() as folder:
        size = _write(StudyFolder(Path(folder)), count)
        for name in ("ours", "json"):
            done = subprocess.run(
                [sys.executable, "-m", "tests.bench.bench_study", f"read-{name}", folder],
                capture_output=True,
                text=True,
                check=True,
            )
            print(f"{name:5} {done.stdout.strip()} ({count:,} records of {size / count:,.0f} B)")


def read_ours(folder: str) -> None:
    from resnetx.reporting.study_scaling import load, point_results

    start = time.perf_counter()
    results = load(StudyFolder(Path(folder)))
    loaded = time.perf_counter()
    found = point_results(results)
    print(f"{loaded - start:.2f} s to load, {time.perf_counter() - loaded:.2f} s for {len(found):,} rows, {_peak()}")


def read_json(folder: str) -> None:
    start = time.perf_counter()
    kept = [json.loads(run.record.read_text()) for run in StudyFolder(Path(folder)).runs()]
    print(f"{time.perf_counter() - start:.2f} s to load {len(kept):,}, {_peak()}")


def _peak() -> str:
    """Of this program alone: getrusage would count what the process was before it started it."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return f"{int(line.split()[1]) / 1024:,.0f} MiB at most"


def _write(folder: StudyFolder, count: int) -> int:
    """A study of so many records, as a real run on this machine would leave them, with 10 windows of rates."""
    requests = [_request(seed=seed) for seed in range(-(-count // REPEATS))]
    counted = workload(requests[0].model, requests[0].image_size, requests[0].batch_size, "caffe")
    here = environment(None)
    size = 0
    for number in range(count):
        task = msgspec.structs.replace(_task(requests[number // REPEATS]), repeat=number % REPEATS + 1)
        windows = [[1.0 + ((number * 7 + window * 3) % 11) / 100 for window in range(10)]]
        ended: RunRecord = record.cut_short(
            task, 0.0, "ok", "", workload=counted, windows_s=windows, environment=here, images_per_s=320.0
        )
        path = folder.run(task.request.slug, task.repeat).record
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(ended), indent=1))  # without fsync
        size += path.stat().st_size
    study = StudyRecord(
        kind="study", schema=SCHEMA, name="bench", about="", node="here", points=requests, repeats=REPEATS, twins=0,
        baseline=1, convention="caffe",
        resnetx="0",
    )  # fmt: skip
    record.write(folder.study, study)
    return size


def _request(seed: int) -> Request:
    return request_from(compose({"input": "synthetic", "seed": seed, "threads": 1}))


def _task(request: Request) -> RunFile:
    settings = run_settings_from(compose({}))
    return RunFile(
        schema=SCHEMA,
        request=request,
        study="bench",
        repeat=1,
        timeout_s=settings.timeout,
        convention=settings.convention,
        tracker=settings.tracker,
    )


if __name__ == "__main__":
    what, *rest = arguments(__doc__)
    match what:
        case "overhead":
            overhead(int(rest[0]) if rest else 20)
        case "starts":
            starts(*map(int, [*rest, *("5", "2")[len(rest) :]]))
        case "read":
            read(int(rest[0]) if rest else 10_000)
        case "read-ours":
            read_ours(rest[0])
        case "read-json":
            read_json(rest[0])
