"""How fast is each input pipeline alone? DALI and torchvision on the same JPEG files, in turns, in one run.

    python tests/bench/bench_inputs.py                      # makes 512 images first
    python tests/bench/bench_inputs.py data/images --threads 1 --rounds 10

DALI runs twice: the ratio of the two (A/A) is what this machine cannot tell from 1. "CPU ms" is the processor time of
this process and its workers for one image; other processes hardly change it, unlike the rate. "Unchecked" pipelines
decode without looking at the header first: what they save is what the check costs.

Behind that, how many headers a second are read and checked by themselves, on files in memory.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import torch

from resnetx import inputs
from resnetx.config import DaliInput, TorchvisionInput
from resnetx.inputs import dali as dali_batches
from resnetx.inputs import damage, folders, header, images

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
        _measure_headers(root, given.rounds)


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
    contestants = {"dali": dali, "dali again": dali, "dali unchecked": dali}
    contestants |= {"torchvision": torchvision, "torchvision unchecked": torchvision}
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
            with _unchecked() if "unchecked" in name else contextlib.nullcontext():
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
        f"{'input':21} {'images/s':>9} {'lowest':>7} {'highest':>8} {'CPU ms':>7}   "
        "checked / this, CPU ms (range over the rounds)"
    )
    for name in contestants:
        checked = cpu_ms["torchvision" if "torchvision" in name else "dali"]
        ratios = sorted(first / this for first, this in zip(checked, cpu_ms[name], strict=True))
        print(
            f"{name:21} {statistics.median(rates[name]):9.0f} {min(rates[name]):7.0f} {max(rates[name]):8.0f} "
            f"{statistics.median(cpu_ms[name]):7.2f}   "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


@contextmanager
def _unchecked() -> Iterator[None]:
    """Pipelines that are opened meanwhile do not look at headers."""
    any_jpeg = header.Header("JPEG", 1, 1, 1)
    with (
        mock.patch.object(dali_batches, "_checked", lambda files: files),
        mock.patch.object(header, "of_bytes", lambda data: any_jpeg),
        mock.patch.object(header, "check", lambda header, smallest=0: None),
    ):
        yield


def _measure_headers(root: Path, rounds: int) -> None:
    tree = folders.read(root)
    paths = [tree.path(index) for index in range(len(tree.files))]
    for threads in (1, 8):
        with ThreadPoolExecutor(threads) as pool:
            rates = []
            for _ in range(rounds):
                start = time.perf_counter()
                assert not any(pool.map(lambda path: damage.of_header(path, 1), paths, chunksize=64))
                rates.append(len(paths) / (time.perf_counter() - start))
        print(f"headers by {threads} threads: {statistics.median(rates):,.0f} a second, at least {min(rates):,.0f}")


def _cpu_s() -> float:
    """Processor time of this process and of its living workers."""
    ticks = 0
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
