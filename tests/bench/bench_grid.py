"""How many points a second a grid of predictions has, streamed to Parquet, beside as many points kept in memory.

    python -m tests.bench.bench_grid --points 131072

CPU seconds of all processes, which a busy machine does not change; the largest resident set of the parent and of the
largest child. With two cores to themselves a million points take half of the CPU seconds.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SYSTEMS = ["dgx1-p100", "dgx1-v100", "gx8", "dgx2", "dgx-a100", "dgx-h100", "dgx-h200", "pcie-gen5"]
GPUS = [1, 2, 4, 8]


def settings(points: int) -> dict[str, object]:
    """A grid of about so many points: ResNet/x, batches of eight systems."""
    batches = max(1, points // (len(SYSTEMS) * len(GPUS) * 16))
    return {
        "systems": SYSTEMS,
        "model": {"kind": "resnetx", "x": list(range(1, 17))},
        "batch_size": [8 * place for place in range(1, batches + 1)],
        "gpus": GPUS,
    }


def measured(points: int, stream: bool) -> dict[str, float]:
    """One way, in an interpreter of its own."""
    script = (
        "import sys, json, resnetx\nimport resnetx.api.predict as p\n"
        f"p.GRID_POINTS = {0 if stream else 10**9}\n"
        "made = resnetx.predict(**json.loads(sys.argv[1]), out=sys.argv[2])\n"
        "print(made.points if isinstance(made.points, int) else len(made.points))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        words = [sys.executable, "-c", script, json.dumps(settings(points)), str(Path(folder) / "out")]
        ended = subprocess.run(words, check=True, capture_output=True, text=True)
        wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    count = int(ended.stdout.splitlines()[-1])
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"points": count, "cpu_s": cpu_s, "us_a_point": 1e6 * cpu_s / count, "wall_s": wall_s,
            "largest_MB": after.ru_maxrss / 1e3}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=131_072)
    parser.add_argument("--kept", action="store_true", help="also in memory, as fewer points are kept")
    asked = parser.parse_args()
    found = {"streamed": measured(asked.points, True)}
    if asked.kept:
        found["kept"] = measured(asked.points, False)
    for name, figures in found.items():
        print(name, json.dumps({key: round(value, 1) for key, value in figures.items()}))
    print(f"a million points on two cores: {found['streamed']['us_a_point'] / 2:.0f} s of each")


if __name__ == "__main__":
    main()
