"""How long predictions take after import, in one process and without torch: the paper's grid, and 1,024 GPUs.

python tests/bench/bench_predict.py
"""

import subprocess
import sys
import time

LIMITS_S = {"88 points on each of 2 systems": 2.0, "one point on 1,024 GPUs": 1.0}
QUESTIONS = {
    "88 points on each of 2 systems": ["systems=[dgx1-p100,gx8]", "study=paper"],
    "one point on 1,024 GPUs": [
        "systems=dgx-h100", "nodes=128", "network=ndr400", "model=alexnet", "batch_size=8192", "gpus=1024",
    ],
}  # fmt: skip
PROCESSES = 5


def ask(name: str) -> None:
    """Prints the seconds of one question in this process, from its first instruction behind the imports."""
    from resnetx.api.predict import predicted
    from resnetx.cli.words import settings_of

    start, busy = time.perf_counter(), time.process_time()
    predicted([], settings_of(QUESTIONS[name]))
    print(time.perf_counter() - start, time.process_time() - busy)
    assert "torch" not in sys.modules


def main() -> None:
    for name, limit_s in LIMITS_S.items():
        told = [
            subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True).stdout.split()
            for _ in range(PROCESSES)
        ]
        passed, busy = (sorted(float(each[column]) for each in told) for column in (0, 1))
        verdict = "holds" if passed[0] <= limit_s else "MISSED"
        print(
            f"{name}: {passed[0]:.2f} s at best, {passed[-1]:.2f} at worst of {PROCESSES} processes "
            f"(CPU time {busy[0]:.2f}); at most {limit_s:g} s: {verdict}"
        )


if __name__ == "__main__":
    ask(sys.argv[1]) if len(sys.argv) > 1 else main()
