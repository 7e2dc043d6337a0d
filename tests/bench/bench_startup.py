"""Where the time goes before a run's first window, part by part, against a bare interpreter, in turns.

    python -m tests.bench.bench_startup [ROUNDS]

The first contenders are what no run can do without: an interpreter, torch, what torch's optimizers and DDP load on top
of it, torchrun around one and two ranks that do nothing. The last ones are whole runs with three short steps.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments

TORCHRUN = [  # as resnetx starts it (resnetx/measure/launch/executor.py)
    *("env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", str(Path(sys.executable).with_name("torchrun"))),
    *("--rdzv-backend=c10d", "--rdzv-conf=store_type=file", "--local-addr=127.0.0.1"),
]
RUN = [
    "resnetx.train",
    *("input=synthetic", "model.x=1", "model.width=16", "image_size=32", "batch_size=8", "threads=1", "seed=1"),
    *("warmup=3", "steps=1", "windows=1"),
]


def seconds(*command: str) -> Callable[[], float]:
    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            return time.perf_counter() - start

    return measure


def ranks(count: int, *words: str) -> Callable[[], float]:
    return seconds(*TORCHRUN, f"--nproc-per-node={count}", *words)


def main(count: int = 5) -> None:
    python = sys.executable
    contenders = {
        "python -c pass": seconds(python, "-c", "pass"),
        "import torch": seconds(python, "-c", "import torch"),
        "import torch._dynamo": seconds(python, "-c", "import torch._dynamo"),
        "torchrun, 1 empty rank": ranks(1, "--no-python", python, "-c", "pass"),
        "torchrun, 2 empty ranks": ranks(2, "--no-python", python, "-c", "pass"),
        "a run on 1 rank": ranks(1, "-m", *RUN),
        "a run on 2 ranks": ranks(2, "-m", *RUN),
    }
    times = rounds(contenders, count)
    for name, taken in times.items():
        print(f"{sorted(taken)[len(taken) // 2]:6.2f} s  " + sentence(name, ratio(taken, times["python -c pass"])))


if __name__ == "__main__":
    main(*map(int, arguments(__doc__)))
