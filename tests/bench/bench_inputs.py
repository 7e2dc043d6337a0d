"""How fast is each input pipeline alone? DALI and torchvision on the same JPEG files, in turns, in one run.

    python tests/bench/bench_inputs.py                      # makes 512 images first
    python tests/bench/bench_inputs.py data/images --threads 1 --rounds 10

DALI runs twice: the ratio of the two (A/A) is what this machine cannot tell from 1. "CPU ms" is the processor time of
this process and its workers for one image; other processes hardly change it, unlike the rate.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from resnetx import inputs
from resnetx.config import DaliInput, TorchvisionInput
from resnetx.inputs import folders, images

_PREFETCH = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", help="a folder of class folders; without it, one is made")
    parser.add_argument("--threads", type=int, default=1, help="DALI threads, torchvision workers")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=16, help="timed in a row")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--recipe", choices=("imagenet", "paper"), default="imagenet")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with _tree(given.root, "256" if given.recipe == "paper" else "imagenet") as root:
        _measure(root, given)


@contextmanager
def _tree(root: Path | None, size: str) -> Iterator[Path]:
    if root is not None:
        yield root
        return
    with tempfile.TemporaryDirectory() as folder:
        print("making 512 images ...", flush=True)
        images.make(Path(folder) / "images", classes=8, per_class=64, size=size, seed=0)
        yield Path(folder) / "images"


def _measure(root: Path, given: argparse.Namespace) -> None:
    settings = {"root": str(root), "format": "folders", "recipe": given.recipe}
    settings |= {"threads": given.threads, "prefetch": _PREFETCH}
    dali, torchvision = DaliInput(decoder="auto", **settings), TorchvisionInput(**settings)
    contestants = {"dali": dali, "dali again": dali, "torchvision": torchvision}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    share = {"image_size": given.image_size, "classes": 10**6, "rank": 0, "world_size": 1, "device": device}

    tree = folders.read(root)
    size_bytes = sum(tree.path(index).stat().st_size for index in range(len(tree.files)))
    for index in range(len(tree.files)):
        tree.path(index).read_bytes()  # all contestants find the files in memory
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    cpu_ms: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(given.rounds):
        for name, input in contestants.items():
            batches = inputs.open_input(input, batch_size=given.batch_size, seed=turn, **share)
            for _ in range(_PREFETCH + 2):  # start, and what was made ahead
                next(batches)
            start, cpu_start = time.perf_counter(), _cpu_s()
            for _ in range(given.batches):
                next(batches)
            if device.type == "cuda":
                torch.cuda.synchronize()
            count = given.batches * given.batch_size
            rates[name].append(count / (time.perf_counter() - start))
            cpu_ms[name].append(1e3 * (_cpu_s() - cpu_start) / count)
            batches.close()

    print(
        f"{len(tree.files)} images of {size_bytes / len(tree.files) / 1e3:.0f} KB, {given.recipe} recipe, "
        f"{given.image_size}x{given.image_size}, threads={given.threads}, on {device}, {given.rounds} rounds"
    )
    print(
        f"{'input':12} {'images/s':>9} {'lowest':>7} {'highest':>8} {'CPU ms':>7}   dali / this (range over the rounds)"
    )
    for name in contestants:
        ratios = sorted(first / this for first, this in zip(rates["dali"], rates[name], strict=True))
        print(
            f"{name:12} {statistics.median(rates[name]):9.0f} {min(rates[name]):7.0f} {max(rates[name]):8.0f} "
            f"{statistics.median(cpu_ms[name]):7.2f}   "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def _cpu_s() -> float:
    """Processor time of this process and of its living workers."""
    ticks = 0
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
