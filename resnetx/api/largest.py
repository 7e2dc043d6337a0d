"""`batch_size=max`: the largest batch that fits on each rank, found here by trial, or predicted by counted memory.

A trial is a short run in processes of its own, like what is measured later. The batch of a rank (with accumulate= the
samples of a part) is doubled until it does not fit, then the gap is bisected down to 1/32 of the batch (`GAP`). On CPUs
each process may have `SHARE` of the host's free memory over its ranks, or `memory_limit` (RLIMIT_DATA).

Every rank then has that batch, whatever their number (scaling=weak).
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from resnetx import progress, workloads
from resnetx.api.doctor import obstacle_to
from resnetx.api.measuring import run_file
from resnetx.api.predict_settings import PredictSettings, composed_alike, split
from resnetx.api.systems import load_systems
from resnetx.choices import NoExchange, Strategy
from resnetx.config import RunSettings, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.host import free_memory_bytes
from resnetx.prediction.memory import FRAMEWORK_BYTES, images_of_a_test, step_bytes
from resnetx.record import LargestBatch, RunFolder, RunRecord
from resnetx.request import Request
from resnetx.settings.setting_types import bytes_of
from resnetx.settings.table import TABLE
from resnetx.study import Point
from resnetx.units import CPU, si, size_text

MAX = "max"
GAP = 32  # the largest batch is known to 1/32 of it, or to one sample
SHARE = 0.8  # of the memory that is free on a host: the rest is left to others
MOST = 2**20  # samples on a rank: a model of no activations would take any number
LONGEST_S = 60.0  # of a step: larger batches would only take longer
_UNKNOWN_GPU_BYTES = 8 * 10**9  # where the search begins on a GPU; it ends where memory does

Trial = Literal["fits", "lacks", "slow"]


def asks(tree: Point) -> bool:
    """Whether settings leave the batch to be found."""
    return tree.get("batch_size") == MAX


# ---- by trial -------------------------------------------------------------------------------------------------------


def found(trees: Sequence[dict[str, Any]], given: Point) -> list[LargestBatch | None]:
    """Puts a number in place of each batch size that is to be found, and returns how it was found.

    Points that differ in ranks alone have the batch that fits on the most of them.
    """
    batches: dict[str, LargestBatch] = {}
    results: list[LargestBatch | None] = []
    for tree in trees:
        if not asks(tree):
            results.append(None)
            continue
        _refuse_untried(tree, given)
        alike = [other for other in trees if asks(other) and _but_ranks(other) == _but_ranks(tree)]
        name = _but_ranks(tree)
        if name not in batches:
            batches[name] = _searched(max(alike, key=_ranks))
        results.append(batches[name])
    for tree, result in zip(trees, results, strict=True):
        if result is not None:
            limit = tree["memory_limit"] if not result.limit_bytes else None  # of CPU ranks it was for the trials
            tree |= {"batch_size": result.per_rank, "scaling": "weak", "memory_limit": limit}
    return results


def _refuse_untried(tree: Point, given: Point) -> None:
    for key, default in (("replay", None), ("launcher", None), ("lab", None)):
        value = tree.get(key)
        if isinstance(value, dict):
            value = next((each for each in value.values() if each is not None), None)
        if value is not default:
            raise ConfigError(f"batch_size=max with {key}={value}: is found on this machine's own ranks; give a number")
    refuse_strong(given)


def refuse_strong(given: Point) -> None:
    """The batch of each rank is found, not that of all."""
    if given.get("scaling") == "strong":
        raise ConfigError("batch_size=max with scaling=strong: is the batch of each rank; leave scaling out")


def _but_ranks(tree: Point) -> str:
    return repr({key: value for key, value in tree.items() if key not in ("gpus", "devices")})


def _ranks(tree: Point) -> int:
    gpus, devices = tree["gpus"], tree["devices"]
    return gpus if isinstance(gpus, int) else len(devices) if isinstance(devices, list) else 1


def _searched(tree: dict[str, Any]) -> LargestBatch:
    """The largest batch for the ranks of a point."""
    from resnetx.measure.launch import preloaded
    from resnetx.measure.machine.nvidia import gpus_here

    settings = run_settings_from(tree)
    ranks, on_cpus = _ranks(tree), not gpus_here()
    limit = bytes_of("memory_limit", tree["memory_limit"])
    free = int(SHARE * free_memory_bytes() / ranks)
    limit_bytes = min(free, limit or free) if on_cpus else None

    def request_with(images: int) -> Request:
        short = {"batch_size": images, "scaling": "weak", "measure": "step", "steps": 1, "windows": 1, "warmup": 3}
        kept = None if on_cpus else tree["memory_limit"]
        return request_from({**tree, **short, "memory_limit": kept}, ranks)

    unit = request_with(1).accumulate
    first = request_with(unit)
    if obstacle := obstacle_to(first, settings.oversubscribe):
        raise ConfigError(obstacle)
    room = FRAMEWORK_BYTES + (limit_bytes or limit or _UNKNOWN_GPU_BYTES)  # no limit counts CUDA's own
    start = 2 ** max(0, counted(first, ranks, room).bit_length() - 2)  # half of what counting allows, or less

    def tried(images: int) -> Trial:
        request = request_with(images)
        with progress.waiting(f"batch_size=max: {images} on each of {ranks} ranks"), limited(limit_bytes):
            return _trial(request, settings)

    with preloaded.kept():
        fits, lacks, limit_by = searched(tried, start, unit)
    result = LargestBatch(
        per_rank=max(fits),
        ranks=ranks,
        fits=sorted(fits),
        lacks=sorted(lacks),
        limit=limit_by,
        limit_bytes=limit_bytes or 0,
    )
    progress.note(f"batch_size=max: {result.sentence}")
    return result


def _trial(request: Request, settings: RunSettings) -> Trial:
    from resnetx.measure.launch import launcher

    with tempfile.TemporaryDirectory(prefix="resnetx-trial-") as folder:
        ended: RunRecord = launcher.supervise(run_file(request, settings, None), RunFolder(Path(folder)))
    if ended.outcome == "oom":
        return "lacks"
    if ended.outcome == "timeout":
        return "slow"
    if ended.outcome != "ok":
        raise ConfigError(f"batch_size=max: a trial with {request.share(0)} on each rank has failed: {ended.reason}")
    longest_s = max(map(max, ended.windows_s or [[0.0]])) / ended.steps_per_window
    return "slow" if longest_s > LONGEST_S else "fits"


def searched(
    tried: Callable[[int], Trial], start: int, unit: int = 1
) -> tuple[set[int], set[int], Literal["memory", "time", "most"]]:
    """Batches that fit and that do not, by doubling and bisection from `start` on, and what ends the search.

    Batches are multiples of `unit`.
    """
    fits: set[int] = set()
    lacks: set[int] = set()

    def fit(units: int) -> bool:
        images = units * unit
        found = tried(images)
        (lacks if found == "lacks" else fits).add(images)
        if found == "slow":
            slow.add(images)
        return found != "lacks"

    slow: set[int] = set()
    low = max(1, start // unit)
    while not fit(low):
        if low == 1:
            raise ConfigError(f"batch_size=max: not even {_least(unit)} on each rank; use a smaller model")
        low //= 2
    while not lacks and not slow and 2 * low <= MOST // unit:
        low = low * 2 if fit(low * 2) else low
    while lacks and not slow and min(lacks) - max(fits) > max(unit, max(fits) // GAP):
        fit((min(lacks) + max(fits)) // 2 // unit)
    return fits, lacks, "time" if slow else "memory" if lacks else "most"


def _least(unit: int, of: str = "") -> str:
    """What does not fit."""
    return f"{unit} samples{of}, one for each part, fit" if unit > 1 else f"one sample{of} fits"


@contextmanager
def limited(limit_bytes: int | None) -> Iterator[None]:
    """What is started while it lasts may have so much memory of its own in each process; None: any."""
    if limit_bytes is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = limit_bytes if before[1] == resource.RLIM_INFINITY else min(limit_bytes, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


# ---- by counting ----------------------------------------------------------------------------------------------------


def counted(request: Request, gpus: int, room_bytes: int, memory_model: str = "torch") -> int:
    """The most samples of a GPU whose counted memory is there, in parts of one size; 0 where not even the least are."""
    table = workloads.table(request.model, request.image_size)
    strategy: Strategy = request.strategy if gpus > 1 else NoExchange()

    def fits(units: int) -> bool:
        images = units * request.accumulate
        tested = images_of_a_test(request.model, images * gpus)
        return step_bytes(request, table, images, strategy, memory_model, tested, gpus) <= room_bytes

    if not fits(1):
        return 0
    low, high, most = 1, 2, MOST // request.accumulate
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * request.accumulate


def predicted(given: Point) -> Iterator[tuple[Point, str]]:
    """The questions in which a number stands for `batch_size=max`, one for each system and workload, and what to say.

    All GPU counts of a question have the batch that fits on each of them.
    """
    if "study" in given:
        raise ConfigError("batch_size=max with study=: a study has its batches; leave one of them out")
    refuse_strong(given)
    settings, workload = split(given)
    own = {key: value for key, value in given.items() if key not in workload}
    for system in settings.systems:
        of_system = {**own, "systems": [system]}
        room_bytes, name = _room(of_system)
        for words, requests in composed_alike({**workload, "batch_size": 1, "scaling": "weak"}):
            label, samples = requests[0].model.label, requests[0].model.samples
            most = {
                request.gpus: counted(request, request.gpus, room_bytes, settings.memory_model) for request in requests
            }
            if not (images := min(most.values())):
                least = _least(requests[0].accumulate, f" of {label}")
                raise ConfigError(
                    f"batch_size=max: not even {least} in the {size_text(room_bytes)} of a GPU of {name}; use a "
                    "smaller model, or memory="
                )
            counts = list(most)
            ended = ", with which the search ends" * (images > MOST - requests[0].accumulate)
            said = (
                f"batch_size=max: {images} {samples} of {label} on each GPU of {name}{ended}, by counted memory of "
                f"{si(room_bytes, 'B')}"
            )
            yield {**of_system, **words, "gpus": counts, "batch_size": images, "scaling": "weak"}, said


def refuse_unlike(given: Point) -> None:
    """Refuses to compare systems that have unlike batches."""
    found: dict[str, dict[str, int]] = {}
    for point, _ in predicted(given):
        (system,), images = point["systems"], point["batch_size"]
        asked = {key: value for key, value in point.items() if key not in ("systems", "batch_size")}
        found.setdefault(repr(asked), {})[system] = images
    for batches in found.values():
        if len(set(batches.values())) > 1:
            *others, last = (f"{images} on each GPU of {system}" for system, images in batches.items())
            raise ConfigError(
                f"batch_size=max: is {', '.join(others)} and {last}, and systems are compared at one batch; give one "
                f"that fits on all, batch_size={min(batches.values())} scaling=weak, or predict systems= one by one"
            )


def _room(given: Point) -> tuple[int, str]:
    """The memory of a GPU of the system, and its name."""
    settings: PredictSettings = split(given)[0]
    (machine,) = load_systems(settings, settings.systems)
    stated, gpu = bytes_of("memory", settings.memory), machine.gpu_part((settings.devices or [0])[0])
    if stated is None and CPU in gpu.product_names:
        raise ConfigError(
            f"batch_size=max: ranks of {machine.name} share their host's memory; add memory=, e.g. "
            f"memory={TABLE['memory'].example}"
        )
    return stated or round(gpu.memory_bytes.value), machine.name
