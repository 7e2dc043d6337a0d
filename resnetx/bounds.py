"""The range of every setting, with the reason: one table for all verbs and run files.

    bounds.check({"gpus": 0})       # ConfigError: gpus=0: expected at least 1

A value is rejected where it has no meaning, or would crash a run hours later; whether a given machine can run it is
checked elsewhere. Numbers that are not finite are rejected for every setting.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resnetx.errors import ConfigError
from resnetx.units import seconds

_DAY_S = 86_400


@dataclass(frozen=True)
class Range:
    """The values that a setting may have, in its own unit."""

    least: float
    most: float = math.inf
    why: str = ""  # why `most` is large enough
    above: bool = False  # `least` itself is rejected
    null: str = ""  # what null means, to suggest it instead of a value that is too small


# El Capitan (LLNL, 2024) has 44,544 GPUs in 11,136 nodes; Colossus (xAI, 2025), by its owner, 200,000.
_GPUS = Range(1, 2**18, "Colossus has 200,000")
_BUCKET = Range(0, 2**20, "a TiB of gradients", above=True, null="DDP's own")
_FACTOR = Range(0, 10**6, "a million times", above=True)
_SEED = Range(0, 2**32 - 1, "32 bits, which every library accepts")
_TIMES = "the record stores the time of each"

BOUNDS = {
    # ---- the workload
    "model.x": Range(1, 2**15, "the activations of one 224x224 image then take 158 GB"),
    "model.width": Range(1, 2**13, "a block then has 738 million parameters"),
    "model.classes": Range(2, 10**6, "ImageNet-21k has 21,841"),
    "image_size": Range(1, 2**12, "4K has 3,840 pixels"),
    "batch_size": Range(1, 2**28, "4,096 images on each of 65,536 GPUs"),
    "input.threads": Range(1, 2**10, "threads or processes of one rank"),
    "input.prefetch": Range(1, 2**8, "batches held in memory"),
    "optimizer.learning_rate": Range(0),
    "optimizer.momentum": Range(0),
    "optimizer.weight_decay": Range(0),
    "strategy.bucket_cap_mb": _BUCKET,
    "strategy.first_bucket_mb": _BUCKET,
    # ---- ranks and machines
    "gpus": _GPUS,
    "baseline": _GPUS,
    "pick": _GPUS,
    "devices": Range(0, _GPUS.most - 1, _GPUS.why),
    "receivers": Range(1, 2**16, "units that end at one GPU"),
    "reconfiguration": Range(0, _DAY_S, "a day, in seconds"),
    "durations": Range(0, 366 * _DAY_S, "a year, in seconds", above=True),
    "free": Range(0, _GPUS.most - 1, _GPUS.why),
    "nodes": Range(1, 2**14, "El Capitan has 11,136"),
    "node_rank": Range(0, 2**14 - 1, "nodes of one run"),
    "jobs": Range(1, 1000, "Slurm's usual MaxArraySize"),
    "walltime": Range(60, 366 * _DAY_S, "a year, in seconds"),
    "through": Range(0, _GPUS.most - 1, _GPUS.why),
    "numa": Range(0, 2**10 - 1, "Linux knows 1,024 NUMA nodes"),
    "nics": Range(1, 2**7, "network ports of one node"),
    "scale": Range(1, 10**6, "a link of 100 GB/s then carries 100 kB/s"),
    "lab.scale": Range(1, 10**6, "a link of 100 GB/s then carries 100 kB/s"),
    "pcie": Range(1, 6, "the newest generation of PCI Express in machines"),
    "switches": Range(0, 2**8, "PCIe switches of one machine"),
    "sockets": Range(1, 2**6, "CPUs of one machine"),
    "threads": Range(1, 2**12, "no host has that many"),
    # ---- what is measured, and for how long
    "seed": _SEED,
    "warmup": Range(1, 10**5, "steps before the first window"),
    "steps": Range(1, 10**9, "a window of a year, at 30 steps a second"),
    "windows": Range(1, 10**4, _TIMES),
    "iterations": Range(1, 10**4, _TIMES),
    "repeats": Range(1, 1000, "fresh processes for every point"),
    "twins": Range(0, 1000, "fresh processes for every twin"),
    "timeout": Range(1, 30 * _DAY_S, "30 days, in seconds"),
    "budget": Range(1, 366 * _DAY_S, "a year, in seconds"),
    # ---- generated images
    "images.classes": Range(1, 10**5, "ImageNet-21k has 21,841"),
    "images.per_class": Range(1, 10**6, "ILSVRC2012 has 1,300"),
    "images.classes x images.per_class": Range(1, 10**7, "1.1 TB; ILSVRC2012 has 1.3 million"),
    "images.seed": _SEED,
    "images.workers": Range(1, 2**10, "processes"),
    # ---- collectives and predictions
    "size": Range(1, 2**40, "1 TiB, in bytes"),
    "image_bytes": Range(1, 2**30, "1 GiB, in bytes"),
    "memory": Range(1, 2**50, "1 PiB, in bytes"),
    "memory_limit": Range(1, 2**50, "1 PiB, in bytes"),
    "host_time": Range(0, _DAY_S, "a day, in seconds"),
    "host_step": Range(0, 10, "10 s: a host launches what a GPU runs, layer by layer, in milliseconds"),
    "rate": Range(1e-6, 10**9, "images/s of one GPU"),
    "rate_error": Range(0, 1, "all of it"),
    "parameters": Range(1, 10**13, "ten trillion"),
    "straggler": Range(1, 1000, "times as long as the others"),
    "clock": Range(0, 10**4, "MHz", above=True),
    "what_if.bandwidth": _FACTOR,
    "what_if.latency": _FACTOR,
}


def seconds_of(key: str, value: str | float, example: str) -> float:
    """A setting's duration, a number of seconds or with a unit, in its range; `example` is for the sentence."""
    try:
        found_s = seconds(value) if isinstance(value, str) else float(value)
    except (ValueError, TypeError):
        raise ConfigError(f"{key}={value}: expected a duration, e.g. {example}") from None
    check({key: found_s})
    return found_s


def check(settings: Mapping[str, Any], least: Mapping[str, tuple[float, str]] | None = None) -> None:
    """Rejects numbers outside of their setting's range; values of other types are checked elsewhere.

    `given`: setting -> value, list of values, or group of settings. `least`: larger minima than the table's, each with
    the text that explains it (" for AlexNet").
    """
    for name, number in _numbers("", settings):
        low, needed_for = (least or {}).get(name, (None, ""))
        _check(name, number, _range(name), low, needed_for)


def _range(name: str) -> Range:
    """The range of a setting, or of the group that it is in."""
    while name and name not in BOUNDS:
        name = name.rpartition(".")[0]
    return BOUNDS.get(name, Range(-math.inf))


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The numbers in a setting's value, each with its name."""
    if isinstance(value, Mapping):
        for below, inner in value.items():
            if inner is not None and not isinstance(
                inner, str | bool
            ):  # most are: this is asked for each of many points
                yield from _numbers(f"{name}.{below}" if name else str(below), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(name, inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _check(name: str, number: float, bounds: Range, least: float | None, needed_for: str) -> None:
    low = bounds.least if least is None else least
    if isinstance(number, float) and not math.isfinite(number):
        raise ConfigError(f"{name}={number}: expected a finite number")
    if number < low or (bounds.above and number == low):
        what, null = "more than" if bounds.above else "at least", f", or null for {bounds.null}" * bool(bounds.null)
        raise ConfigError(f"{name}={_text(number)}: expected {what} {_text(low)}{needed_for}{null}")
    if number > bounds.most:
        why = f" ({bounds.why})" * bool(bounds.why)
        raise ConfigError(f"{name}={_text(number)}: expected at most {_text(bounds.most)}{why}")


def _text(number: float) -> str:
    """A number as it is written, unless it has more digits than fit on a line."""
    if isinstance(number, float):
        return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:g}"
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"
