"""What the page of a large study costs: reading its records, making the page, all of `resnetx report`, and opening it
in Chromium.

    python -m tests.bench.bench_report [RUNS ...]       # 50 and 5,000 runs
    python -m tests.bench.bench_report --keep FOLDER 5000

The records are copies of those of `results/two-nodes`, with requests and rates of their own: five models, eleven
batches, three strategies and two precisions on one and two ranks, each with six runs and its twins. Opening is
timed from the start of Chromium to its screenshot of the page, in turns with an empty page; the least times count.
Times depend on what else runs; CPU times less, and their ratio to Python's `json` on the same records least.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.choices import After, Layerwise, NoExchange
from resnetx.record import RunRecord, StudyFolder, StudyRecord
from resnetx.record.sealing import RunFolder
from resnetx.request import Request
from resnetx.workloads import workload

MEASURED = StudyFolder(Path(__file__).parents[2] / "results" / "two-nodes" / "two-nodes")
REPEATS, OPENINGS, TURNS = 6, 9, 5
GRID = (
    ("fp32", "bf16"),
    ("bucket", "layerwise", "after"),
    tuple(range(16, 192, 16)),
    (1, 2, 4, 8, 16),
    (1, 2),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=int, default=[50, 5000])
    parser.add_argument("--keep", type=Path, help="folder for the studies and their pages; without it they are deleted")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp())
    try:
        for runs in given.runs:
            measure(StudyFolder(folder / f"runs-{runs}"), runs)
    finally:
        if not given.keep:
            shutil.rmtree(folder)


def measure(folder: StudyFolder, runs: int) -> None:
    """Prints how long each stage takes for a study of so many runs."""
    written = write_study(folder, runs)
    told = subprocess.run(
        [sys.executable, "-c", STAGES, str(folder.path)], stdout=subprocess.PIPE, text=True, check=True
    )
    page = folder.report / "index.html"
    files = sum(file.stat().st_size for file in folder.report.iterdir() if file != page)
    print(
        f"{written:,} runs: {told.stdout.strip()}; page {page.stat().st_size / 1e6:.2f} MB, files {files / 1e6:.2f} MB"
    )
    print(f"  {commanded(folder)}\n  {opened(page)}", flush=True)


def commanded(folder: StudyFolder) -> str:
    """What `resnetx report` takes from its start to its end, beside a bare loop in turns with it; the least counts."""
    report = [sys.executable, "-m", "resnetx", "report", str(folder.path)]
    loop = [sys.executable, "-c", "for number in range(10_000_000): number += 1"]
    turns = [(_taken_s(loop), _taken_s(report)) for _ in range(TURNS)]
    (_, loop_s), (wall_s, user_s) = (
        [min(times) for times in zip(*each, strict=True)] for each in zip(*turns, strict=True)
    )
    return (
        f"resnetx report: {wall_s:.2f} s, {user_s:.2f} s of user CPU, {user_s / loop_s:.1f} times a loop of 10 million"
    )


def _taken_s(command: list[str]) -> tuple[float, float]:
    """Seconds, and of user CPU."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


STAGES = """
import json, sys, time
from pathlib import Path
from resnetx.record import StudyFolder
from resnetx.reporting import page
from resnetx.reporting import study_scaling as results
folder = StudyFolder(Path(sys.argv[1]))
clocks = lambda: (time.perf_counter(), time.process_time())
bare = clocks()
for run in folder.runs():
    json.loads(run.record.read_bytes())
began = clocks()
found = results.load(folder)
read = clocks()
page.write([found], folder.report)
made = clocks()
(bare_s, bare_cpu_s), (read_s, read_cpu_s), (made_s, made_cpu_s) = (
    [after - before for before, after in zip(*pair)] for pair in ((bare, began), (began, read), (read, made))
)
print(f"read in {read_s:.2f} s ({read_cpu_s:.2f} s of CPUs), page and its files made in {made_s:.2f} s "
      f"({made_cpu_s:.2f} s); both {(read_cpu_s + made_cpu_s) / bare_cpu_s:.1f} times the CPU time of json.loads",
      end="")
"""


# ---- the study ------------------------------------------------------------------------------------------------------


def write_study(folder: StudyFolder, runs: int) -> int:
    """A study of about so many runs; how many it has."""
    measured: StudyRecord = record.read(MEASURED.study, StudyRecord)
    patterns = {_kind(run.request): run for run in map(_read, MEASURED.runs())}
    points: list[Request] = []
    places: set[Path] = set()  # points of several strategies share the twin without any
    for request in _requests(measured.points):
        if len(places) >= runs:
            break
        points.append(request)
        repeats = [(request, repeat) for repeat in range(1, REPEATS + 1)]
        for run, repeat in [*repeats, *((twin, 1) for twin in request.twins.values())]:
            place = folder.run(run.slug, repeat)
            places.add(place.path)
            if not place.path.exists():
                _write(place, patterns[_kind(run)], run, repeat)
    record.write(folder.study, msgspec.structs.replace(measured, name="large", points=points, repeats=REPEATS))
    return len(places)


def _kind(request: Request) -> tuple[int, str, bool]:
    return request.gpus, request.measure, isinstance(request.strategy, NoExchange)


def _read(folder: RunFolder) -> RunRecord:
    found: RunRecord = record.read(folder.record, RunRecord)
    return found


def _requests(measured: list[Request]) -> Iterator[Request]:
    by_gpus = {request.gpus: request for request in measured}
    strategies = {"bucket": measured[0].strategy, "layerwise": Layerwise(), "after": After()}
    for precision, strategy, batch_size, x, gpus in product(*GRID):
        yield msgspec.structs.replace(
            by_gpus[gpus],
            model=msgspec.structs.replace(by_gpus[gpus].model, x=x),
            batch_size=batch_size,
            strategy=strategies[strategy],
            precision=precision,
        )


def _write(folder: RunFolder, pattern: RunRecord, request: Request, repeat: int) -> None:
    """A copy of a record for another request; its rates differ by a few per cent, as those of runs do."""
    share = 1 + 0.01 * (hash_of(f"{request.key} {repeat}") % 7)
    copied = msgspec.structs.replace(
        pattern,
        request=request,
        request_key=request.key,
        repeat=repeat,
        workload=workload(request.model, request.image_size, request.batch_size, "caffe"),
        windows_s=[[time_s * share for time_s in rank] for rank in pattern.windows_s or []],
    )
    folder.path.mkdir(parents=True)
    folder.record.write_bytes(msgspec.json.encode(copied))  # without fsync


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(text.encode())


# ---- the browser ----------------------------------------------------------------------------------------------------


def opened(page: Path) -> str:
    """How long Chromium takes to show a page, and an empty one."""
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
    if browser is None:
        return "not opened: Chromium is not installed"
    empty = page.with_name("empty.html")
    empty.write_text("<!doctype html><title>empty</title><p>empty")
    turns = [[_opening_s(browser, file) for file in (empty, page)] for _ in range(OPENINGS)]
    empty_s, page_s = (min(times_s) for times_s in zip(*turns, strict=True))
    empty.unlink()
    return (
        f"Chromium shows it after {page_s:.2f} s, an empty page after {empty_s:.2f} s: "
        f"{page_s - empty_s:.2f} s for the page, {page_s / empty_s:.2f} times as long"
    )


def _opening_s(browser: str, page: Path) -> float:
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        command += ["--window-size=1280,900", f"--screenshot={profile}/page.png", page.resolve().as_uri()]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
