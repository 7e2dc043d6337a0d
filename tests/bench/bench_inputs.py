"""How fast is each input pipeline alone? DALI and torchvision on the same JPEG files, in turns, in one run.

    python -m tests.bench.bench_inputs                      # makes 512 images first
    python -m tests.bench.bench_inputs data/images --threads 1 --rounds 10

DALI runs twice: the ratio of the two (A/A) is what this machine cannot tell from 1. "CPU ms" is the processor time of
this process and its workers for one image; other processes hardly change it, unlike the rate. "Unchecked" pipelines
decode without looking at the header first: what they save is what the check costs.

As that is less than most machines can tell, the check is also timed by itself, in turns with what it is a share of. And
how many headers a second are read and checked, on files in memory.

Last, what a batch of DALI costs the thread that launches the steps, in turns with a pipeline that is given nothing, and
as it would be if this thread fed DALI an array for each path: processor time of that thread alone, and the time of all
by the clock. Nothing is decoded meanwhile. The benchmark fails where batches of 128 cost that thread 0.2 ms more than
nothing does, and more than twice as much.
"""

import argparse
import contextlib
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from nvidia.dali import Pipeline, fn
from nvidia.dali.data_node import DataNode
from torch.utils.dlpack import from_dlpack
from torchvision.io import ImageReadMode, decode_jpeg, read_file

from resnetx import inputs
from resnetx.choices import DaliInput, TorchvisionInput, image_sample
from resnetx.inputs import dali as dali_batches
from resnetx.inputs import folders, image_tree, jpeg

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
        _measure_checks(root, given.rounds)
        _measure_headers(root, given.rounds)
        _measure_launching(root, given.rounds)


@contextmanager
def _tree(root: Path | None, size: str) -> Iterator[Path]:
    if root is not None:
        yield root
        return
    with tempfile.TemporaryDirectory() as folder:
        print("making 512 images ...", flush=True)
        image_tree.make(Path(folder) / "images", classes=8, per_class=64, size=size, seed=0)
        yield Path(folder) / "images"


def _measure(root: Path, given: argparse.Namespace) -> None:
    settings = {"root": str(root), "format": "folders", "recipe": given.recipe}
    settings |= {"threads": given.threads, "prefetch": _PREFETCH}
    dali, torchvision = DaliInput(decoder="auto", **settings), TorchvisionInput(**settings)
    contestants = {"dali": dali, "dali again": dali, "dali unchecked": dali}
    contestants |= {"torchvision": torchvision, "torchvision unchecked": torchvision}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    share = {"sample": image_sample(given.image_size), "classes": 10**6, "rank": 0, "world_size": 1, "device": device}

    tree = folders.read(root)
    size_bytes = sum(tree.path(index).stat().st_size for index in range(len(tree.files)))
    for index in range(len(tree.files)):
        tree.path(index).read_bytes()  # all contestants find the files in memory
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    cpu_ms: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(given.rounds):
        for name, input in contestants.items():
            with _unchecked() if "unchecked" in name else contextlib.nullcontext():
                batches = inputs.open_input(input, inputs.Share(batch_size=given.batch_size, seed=turn, **share))
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
    any_jpeg = jpeg.Header("JPEG", 1, 1, 1)
    with (
        mock.patch.object(dali_batches, "_checked", lambda files: files),
        mock.patch.object(jpeg, "of_bytes", lambda data: any_jpeg),
        mock.patch.object(jpeg, "check", lambda header, smallest=0: None),
    ):
        yield


def _measure_checks(root: Path, rounds: int) -> None:
    """The CPU time of the check alone, as a share of that of decoding the same files, one by one and in one thread."""
    tree = folders.read(root)
    files = [read_file(str(tree.path(index))) for index in range(0, len(tree.files), 4)]
    shares, check_us = [], []
    for _ in range(rounds):
        check_s = _time(lambda data: jpeg.check(jpeg.of_bytes(memoryview(data.numpy()))), files)
        decode_s = _time(lambda data: decode_jpeg(data, ImageReadMode.RGB), files)
        shares.append(check_s / decode_s)
        check_us.append(1e6 * check_s)
    print(_share("torchvision", check_us, shares))
    shares, check_us = [], []
    for _ in range(rounds):
        with_check, without = (_dali_s(tree, checked) for checked in (dali_batches._checked, lambda files: files))
        decode_s = _time(lambda data: decode_jpeg(data, ImageReadMode.RGB), files)
        shares.append((with_check - without) / decode_s)
        check_us.append(1e6 * (with_check - without))
    print(_share("DALI", check_us, shares))


def _share(what: str, check_us: list[float], shares: list[float]) -> str:
    quarters = statistics.quantiles(shares, n=4)
    return (
        f"check by {what}: {statistics.median(check_us):.0f} us, {100 * statistics.median(shares):.2f} % of "
        f"decoding by torchvision ({100 * quarters[0]:.2f} to {100 * quarters[2]:.2f} % in half of the rounds)"
    )


def _time(work: Callable[[torch.Tensor], object], files: list[torch.Tensor]) -> float:
    """CPU seconds for one file."""
    start = time.process_time()
    for data in files:
        work(data)
    return (time.process_time() - start) / len(files)


def _dali_s(tree: folders.Tree, checked: Callable[[DataNode], DataNode], batch_size: int = 32) -> float:
    """CPU seconds for one file that DALI reads and does not decode."""
    paths = dali_batches._paths(bytes(tree.root), tree.files[:batch_size])
    pipeline = Pipeline(batch_size=batch_size, num_threads=1, device_id=None)
    with pipeline:
        files = fn.io.file.read(fn.external_source(lambda: paths, batch=True), dont_use_mmap=True)
        pipeline.set_outputs(checked(files).shape())
        pipeline.build()
    for _ in range(4):
        pipeline.run()
    start = time.process_time()
    for _ in range(16):
        pipeline.run()
    return (time.process_time() - start) / 16 / batch_size


def _measure_headers(root: Path, rounds: int) -> None:
    tree = folders.read(root)
    paths = [tree.path(index) for index in range(len(tree.files))]
    for threads in (1, 8):
        with ThreadPoolExecutor(threads) as pool:
            rates = []
            for _ in range(rounds):
                start = time.perf_counter()
                assert not any(pool.map(lambda path: jpeg.of_header(path, 1), paths, chunksize=64))
                rates.append(len(paths) / (time.perf_counter() - start))
        print(f"headers by {threads} threads: {statistics.median(rates):,.0f} a second, at least {min(rates):,.0f}")


def _measure_launching(root: Path, rounds: int) -> None:
    for batch_size in (32, 128, 256):
        cpu_ms: dict[str, list[float]] = {"empty": [], "dali": [], "a list": []}
        all_ms: dict[str, list[float]] = {name: [] for name in cpu_ms}
        for _ in range(rounds):
            for name, values in cpu_ms.items():
                batches = _launching(root, batch_size, name)
                spent = [_launched_ms(batches) for _ in range(30)][5:]
                values.append(statistics.median(cpu for cpu, _ in spent))
                all_ms[name].append(statistics.median(wall for _, wall in spent))
                if isinstance(batches, dali_batches.DaliBatches):
                    batches.close()
        of = {name: statistics.median(values) for name, values in cpu_ms.items()}
        shown = ", ".join(f"{name} {of[name]:.3f} ({statistics.median(all_ms[name]):.2f})" for name in of)
        print(f"launching thread, ms a batch of {batch_size} (with a step of small operators, by the clock): {shown}")
        if batch_size == 128 and of["dali"] - of["empty"] > 0.2 and of["dali"] > 2 * of["empty"]:
            raise SystemExit("the source of DALI costs the launching thread more than 0.2 ms a batch of 128")


def _launching(root: Path, batch_size: int, name: str) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches without images: of `DaliBatches`, of constants, or of paths in a list that this thread feeds."""
    settings = {"root": str(root), "format": "folders", "recipe": "paper"}
    input = DaliInput(**settings, threads=1, prefetch=_PREFETCH, decoder="auto")
    share = inputs.Share(batch_size, 224, 10**6, 0, 1, torch.device("cpu"), seed=0)
    pixel = lambda files, *_: fn.constant(fdata=[0.0], shape=[1, 1, 1]) + 0 * files[0]  # noqa: E731
    with mock.patch.object(dali_batches, "_images", pixel), mock.patch.object(dali_batches, "_checked", lambda f: f):
        if name == "dali":
            return dali_batches.DaliBatches(input, share)
        if name == "empty":
            pipeline = Pipeline(batch_size=batch_size, num_threads=1, device_id=None, prefetch_queue_depth=_PREFETCH)
            with pipeline:
                label = fn.constant(idata=[1], shape=[])
                pipeline.set_outputs(fn.constant(fdata=[0.0], shape=[1, 1, 1]), label)
                pipeline.build()
        else:
            given = dali_batches._Given(folders.read(root), share)

            def listed() -> tuple[list[Any], Any]:
                paths, labels = given.next()
                return [*map(np.array, paths)], labels

            pipeline = dali_batches._pipeline(input, share, listed)
    return (tuple(from_dlpack(out.as_tensor()) for out in pipeline.run()) for _ in itertools.count())


def _launched_ms(batches: Iterator[tuple[torch.Tensor, ...]]) -> tuple[float, float]:
    """What the next batch costs this thread, and how long it takes with a step that a host launches."""
    x = torch.ones(16, requires_grad=True)
    start, cpu_start = time.perf_counter(), time.thread_time()
    next(batches)
    cpu_s = time.thread_time() - cpu_start
    for _ in range(10):
        y = x
        for _ in range(50):
            y = y * 1.01
        y.sum().backward()
    return 1e3 * cpu_s, 1e3 * (time.perf_counter() - start)


def _cpu_s() -> float:
    """Processor time of this process and of its living workers."""
    ticks = 0
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
