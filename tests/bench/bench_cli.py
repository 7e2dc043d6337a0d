"""How long the command line takes to answer, against a bare interpreter, in turns.

python -m tests.bench.bench_cli
"""

import subprocess
import sys
import time

from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments

CONTENDERS = {
    "python -c pass": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "resnetx --help": ["-m", "resnetx", "--help"],
    "resnetx list": ["-m", "resnetx", "list"],
    "resnetx sweep --dry-run (12 runs)": ["-m", "resnetx", "sweep", "study=quickstart", "input=synthetic", "--dry-run"],
    "resnetx describe (22 workloads)": ["-m", "resnetx", "describe"],
}


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    times = rounds({name: lambda words=words: seconds(words) for name, words in CONTENDERS.items()}, count=7)
    for name, taken in times.items():
        print(f"{sorted(taken)[len(taken) // 2]:6.2f} s  " + sentence(name, ratio(taken, times["python -c pass"])))


if __name__ == "__main__":
    arguments(__doc__)
    main()
