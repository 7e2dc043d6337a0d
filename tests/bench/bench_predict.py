"""How long predictions take after import, without torch: the paper's grid, many points, and many GPUs.

python -m tests.bench.bench_predict              # all questions
python -m tests.bench.bench_predict "131,072 GPUs"

The clock on the wall depends on what else the machine does; CPU time of all processes does less, and at most as many
cores as there are work on it at once.
"""

import resource
import subprocess
import sys
import time

from tests.bench.started import arguments

GRID = [
    "systems=[dgx1-p100,dgx1-v100,gx8,dgx-a100,dgx-h100,dgx2,pcie-gen5]", "model=[alexnet,googlenet,resnetx]",
    "model.x=[1,2,4,8]", "gpus=[1,2,4,8]", "strategy=[bucket,layerwise,after]", "input=[synthetic,dali]",
    "precision=[fp32,fp16]",
]  # fmt: skip
BATCHES = ",".join(str(64 * each) for each in range(1, 14))
QUESTIONS = {
    "88 points on each of 2 systems": ["systems=[dgx1-p100,gx8]", "study=paper"],
    "one point on 1,024 GPUs": [
        "systems=dgx-h100", "nodes=128", "network=ndr400", "model=alexnet", "batch_size=8192", "gpus=1024",
    ],
    "one point on 131,072 GPUs": [
        "systems=dgx-h100", "nodes=16384", "network=ndr400", "model=alexnet", "batch_size=8388608", "gpus=131072",
    ],
    "10,080 points": [*GRID, "batch_size=[64,128,256,512,1024]"],
    "104,832 points": [*GRID, f"batch_size=[{BATCHES}]", "library=[nccl1,nccl2,nccl2.4,nvls]"],
}  # fmt: skip
LIMITS_S = dict(zip(QUESTIONS, (2.0, 1.0, 5.0, 10.0, 60.0), strict=True))
PROCESSES = {name: 1 if name[0] == "1" and "points" in name else 5 for name in QUESTIONS}


def ask(name: str) -> None:
    """Prints the seconds of one question, from the first instruction behind the imports; CPU seconds, and peak MB."""
    from resnetx.api.predict import predicted
    from resnetx.cli.words import settings_of

    start, busy = time.perf_counter(), cpu_s()
    predicted([], settings_of(QUESTIONS[name]))
    peak_MB = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - start, cpu_s() - busy, peak_MB)
    assert "torch" not in sys.modules


def cpu_s() -> float:
    """Of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main(asked: str) -> None:
    for name in filter(lambda name: asked in name, QUESTIONS):
        command = [sys.executable, "-m", "tests.bench.bench_predict", "--ask", name]
        told = [
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(PROCESSES[name])
        ]
        passed, busy, peak_MB = (sorted(float(each[column]) for each in told) for column in (0, 1, 2))
        verdict = "holds" if passed[0] <= LIMITS_S[name] else "MISSED"
        print(
            f"{name}: {passed[0]:.2f} s at best, {passed[-1]:.2f} at worst of {PROCESSES[name]} "
            f"(CPU time {busy[0]:.2f}, {peak_MB[-1]:.0f} MB); at most {LIMITS_S[name]:g} s: {verdict}",
            flush=True,
        )


if __name__ == "__main__":
    given = arguments(__doc__)
    ask(given[1]) if given[:1] == ["--ask"] else main("".join(given[:1]))
