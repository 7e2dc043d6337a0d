"""A trace taken to another GPU by the kinds of its kernels, where no layer table says what its layers do.

Products and convolutions scale with the peak rate of their precision; all else, the update too, with the memory's rate.
Where nothing tells kernels apart, or their precision, a layer lies between the two ends that are possible, and their
geometric mean is predicted. Nothing is fitted: `off_by` is how far such ratios were from steps of the same networks
that others measured on several GPUs (`results/published/gpus.yaml`), and widens both ends.

What the host takes to launch a step is taken along as the profile has it. Profiling lengthens it: it is taken to be
between nothing and that.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from statistics import median
from typing import Literal

import msgspec
import numpy as np

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.interconnect.systems.system import parts_table
from resnetx.loading import own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.step import StepLayers, StepTimes
from resnetx.record.traces import Trace, TracedBatch
from resnetx.settings.files import PUBLISHED

FILE = PUBLISHED / "gpus.yaml"
# The oldest compute capability of which a step was judged. Convolutional networks on a K80 (3.7) and on later GPUs were
# up to 1.8 times off such ratios (`results/published/training.yaml`).
OLDEST = 6.0

Range = tuple[float, float]  # least and most


@dataclass(frozen=True)
class Scaled:
    """A step on another GPU; the true one is between `least` and `most` times as long, nine times of ten."""

    step: StepTimes
    least: float
    most: float
    note: str


def scaled(
    step: StepTimes, batch: TracedBatch, trace: Trace, source: GpuSpec, target: GpuSpec, clock_Hz: float | None
) -> Scaled:
    """A step that was traced on `source` as it is on `target`; `batch`: says what kinds of kernels its layers have."""
    for gpu in (source, target):
        if gpu.compute_capability.value < OLDEST and not any(name.startswith("AMD") for name in gpu.product_names):
            raise ConfigError(
                f"{trace.source}: open on {target.about}: no published step says how {gpu.about} compares with other "
                f"GPUs kernel by kernel; predict for systems of {trace.device}, or give rate="
            )
    precisions = batch.times.precisions
    products = _of_products(precisions, (source, trace.sm_clock_Hz), (target, clock_Hz))
    rest = source.memory_Bps.value / target.memory_Bps.value
    kinds = {layer.name: layer.products for layer in batch.times.layers}
    least_s = most_s = step.update_s * rest
    layers = []
    for layer in step.layers:
        shares = kinds.get(layer.name) or (None, None)
        forward, backward = (_ends(products, rest, share) for share in shares)
        least_s += layer.forward_s * forward[0] + layer.backward_s * backward[0]
        most_s += layer.forward_s * forward[1] + layer.backward_s * backward[1]
        forward_s, backward_s = layer.forward_s * _middle(forward), layer.backward_s * _middle(backward)
        layers.append(layer._replace(forward_s=forward_s, backward_s=backward_s))
    launching_s = median(batch.times.launching_s) / 2 if batch.times.launching_s else 0.0
    scaled_step = replace(step, layers=StepLayers.of(layers), update_s=step.update_s * rest, queue_s=launching_s)
    if not scaled_step.compute_s:
        raise ConfigError(f"{trace.source}: the layers of {trace.workload} take no time in it, which scales to nothing")
    off = off_by(source, target)
    multiplied = " and ".join(precisions) or "any precision, as theirs is not known"
    by = (
        f"products by the peak of {multiplied}, all else by memory"
        if any(kinds.values())
        else "between the ratios of peaks and of memories, as nothing tells its kernels apart"
    )
    note = f"{by}; nine of ten published pairs of steps stay within {math.expm1(off):.0%} of such ratios"
    whole_s = scaled_step.compute_s
    return Scaled(scaled_step, least_s / whole_s * math.exp(-off), most_s / whole_s * math.exp(off), note)


def _middle(ends: Range) -> float:
    return math.sqrt(ends[0] * ends[1])


def _ends(products: Range, rest: float, share: float | None) -> Range:
    """What a pass of a layer is multiplied by at least and at most; `share` of it are products, None: not known."""
    if share is None:
        return min(products[0], rest), max(products[1], rest)
    return share * products[0] + (1 - share) * rest, share * products[1] + (1 - share) * rest


def _of_products(
    precisions: Sequence[str], source: tuple[GpuSpec, float | None], target: tuple[GpuSpec, float | None]
) -> Range:
    """What the time of products is multiplied by at least and at most; `precisions`: [], where they are not known.

    A GPU without TF32 does the same in fp32; one with it may do in TF32 what another one did in fp32, as torch has it
    do for convolutions unless it is told otherwise.
    """
    here, there = _peaks(*source), _peaks(*target)
    pairs = [(name, "fp32" if name == "tf32" and name not in there else name) for name in precisions or here]
    if "fp32" in (precisions or here) and "tf32" not in here:
        pairs.append(("fp32", "tf32"))
    ratios = [here[own] / there[other] for own, other in pairs if own in here and other in there]
    if not ratios:
        (gpu, _), name = (source if precisions[0] not in here else target), precisions[0]
        raise ConfigError(f"the trace multiplies in {name}, of which no peak rate is stated of {gpu.about}; give rate=")
    return min(ratios), max(ratios)


def _peaks(gpu: GpuSpec, clock_Hz: float | None) -> dict[str, float]:
    """The peak rate of each precision that is stated."""
    names = [name for name in roofline.PRECISION_BYTES if roofline.peak(gpu, name) is not None]
    return {name: roofline.peak_FLOPps(gpu, name, clock_Hz) for name in names}


# ---- how far such ratios were off -----------------------------------------------------------------------------------


class _OtherGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fp32_FLOPps: float
    memory_Bps: float
    source: str


class _Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    network: str
    of: Literal["training", "inference"]
    sequence: int
    batch: int
    steps: dict[str, tuple[float, float]]  # by GPU: ms, and the share of products in it


class _Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: dict[str, str]
    slot_powered: list[str]
    gpus: dict[str, _OtherGpu]
    measured: list[_Network]


@dataclass(frozen=True)
class GpuPair:
    """One network on two GPUs, the step on the second predicted from that on the first."""

    network: str
    source: str
    target: str
    error: float  # ln(predicted / measured)


@cache
def published() -> _Published:
    return own_yaml(FILE, _Published)


@cache
def pairs() -> tuple[GpuPair, ...]:
    """All that is published, in both directions."""
    return tuple(_pairs())


def _pairs() -> Iterator[GpuPair]:
    for row in published().measured:
        for source, target in permutations(row.steps, 2):
            (here_FLOPps, here_Bps), (there_FLOPps, there_Bps) = _rates(source), _rates(target)
            (here_ms, share), (there_ms, _) = row.steps[source], row.steps[target]
            ratio = share * here_FLOPps / there_FLOPps + (1 - share) * here_Bps / there_Bps
            name = f"{row.network} {row.of} {row.sequence} x {row.batch}"
            yield GpuPair(name, source, target, math.log(here_ms * ratio / there_ms))


def _rates(name: str) -> tuple[float, float]:
    other = published().gpus.get(name)
    if other is not None:
        return other.fp32_FLOPps, other.memory_Bps
    part: GpuSpec = parts_table("gpus")[name]
    return part.fp32_FLOPps.value, part.memory_Bps.value


def off_by(source: GpuSpec, target: GpuSpec) -> float:
    """What nine of ten published pairs stay within, as |ln(predicted / measured)|; those of a slot's power apart."""
    table: dict[str, GpuSpec] = parts_table("gpus")
    slot = [table[name] for name in published().slot_powered if name in table]
    return within_90(in_slot=source in slot or target in slot)


@cache
def within_90(in_slot: bool, without: str = "") -> float:
    """The same, of pairs with such a GPU or of all others; `without`: no pair of this GPU."""
    slot = set(published().slot_powered)
    errors = [
        abs(pair.error)
        for pair in pairs()
        if bool(slot & {pair.source, pair.target}) == in_slot and without not in (pair.source, pair.target)
    ]
    return float(np.quantile(errors, 0.9))
