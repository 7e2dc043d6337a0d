"""How long each layer takes on a GPU that was not measured here: two roofs, and a small fixed time.

    modelled_step(fitted(gpu), table, image_size=224, batch_size=32, gpu=gpu, precision="fp32")

A pass (forward or backward) over one layer takes

    FLOP / (matmul_efficiency x peak) + memory_slowness x bytes / (MEMORY_EFFICIENCY x memory bandwidth)
    + operations x operation_s x (1 + FILLED_FLOPps / peak)

Both add up: with the larger of the two alone, rates of publishers left out are further off. In fp32, convolutions with
square kernels at stride 1 are `square_speedup` times as fast as their FLOP say: Winograd's algorithm does 3x3 ones with
2.25 to 4 times fewer multiplications (Lavin & Gray 2016). Where there is TF32, no published rate shows that, and fp32
differs from TF32 in computing alone. Convolutions of each channel by itself reach a few percent of any peak, and go by
the memory's rate: in place of FLOP they take `depthwise_slowness` times what reading as much as they make does, once
for each row of their kernels. Programs move more than a table says (casts, dropout, what is kept): `memory_slowness`.
In half precision and NCHW, convolutions move `nchw_slowness` times that, as tensor cores need NHWC. Tensor cores
compute faster than they are fed: what products read and write takes (peak / peak in fp32) ** `feeding` times as long.
That is all that is fitted: six figures, to published rates of whole networks on one GPU (`training_fit`, which also
says how far off it is). Networks of attention have a share of the peak and a slowness of memory of their own, fitted to
rates of transformers, and their attention takes ATTENTION_SLOWNESS times as long. Single layers were never checked.
Operations are those that PyTorch launches, half of them in each pass; `operation_s` is GPU_OPERATION_s where no
generation's own rates at small batches say otherwise. What a small batch cannot make shorter is mostly the host's part
of a step, which is no property of the GPU and is not fitted here (`host_step`).

FLOP are those of the layer table; backward costs a convolution or product twice its forward pass, or once where no
gradient of its input is needed. Bytes are what each operation reads and writes, none of it kept in caches:

    convolution, product   input, output and weights forward; twice that backward
    batch normalisation    input twice and output forward; its input and the gradient twice, and a gradient, backward
    layer normalisation    input and output forward; backward as that; where half precision is cast: in fp32, with casts
    attention of GPT/x     as a product, by a fused kernel: what is between is neither written nor read
    any other              inputs and output forward; in addition a tensor like the output, backward

In half precision, TensorFlow (its remapper) and NVIDIA's MXNet (fuse-bn-relu, fuse-bn-add-relu) compute batch
normalisation, an addition and an activation behind it by one kernel: the latter two move no more than what is added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import GpuSpec, SourcedValue
from resnetx.loading import own_yaml
from resnetx.prediction.host_step import GPU_OPERATION_s, filling, operations_of
from resnetx.prediction.step import HashedTuple, Step
from resnetx.settings.files import PUBLISHED
from resnetx.workloads.counts import BYTES_PER_PARAMETER, DATA, Layer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Clocked = tuple[GpuSpec, str, float | None]  # a GPU at a precision and a clock; None: its boost clock
# What passes take at least on a GPU, arrays of one shape: computing at the peak rate; what they read and write; whether
# Winograd's algorithm is used; whether each channel is convolved by itself, so that computing is reading; whether it is
# attention; how little its convolution is made for how images are stored, from 0 to 1; how many times the peak in
# fp32 that of its product is; the operations that are launched, each as many times as it takes longer than where the
# peak has no limit.
LeastTimes = tuple[Floats, Floats, Flags, Flags, Flags, Floats, Floats, Floats]

ALL = "all"  # the fit to all generations of GPUs
ATTENTION = ("causalattention", "scaleddotproductattention", "selfattention")  # kinds of layers
OF_TRANSFORMERS = (*ATTENTION, "multiheadattention")  # the last has its projections, too, which are most of it
# Of what a byte takes convolutions of each channel by itself in fp32, what it takes in half precision, of which cuDNN
# has kernels of its own. Chosen with all rates in sight: without their publisher they err by 15.6 %, with 1 by 16.8.
DEPTHWISE_HALF = 0.5
# Exponent of `nchw_slowness` in TF32, of which cuDNN has kernels of NCHW, too. Chosen likewise: without their publisher
# rates err by 14.0 % with 1, 14.2 with this and 15.2 with 0, without their family of networks by 16.8, 15.7 and 15.6.
NCHW_TF32 = 0.5
FUSING = ("tensorflow", "mxnet")  # frameworks that compute what follows batch normalisation with it
ACTIVATIONS = ("relu", "relu6", "hardswish", "silu")  # kinds of layers
CAST = 3  # times two bytes that casting a number to fp32 or back moves
# How much longer steps with convolutions may be in fp32 on Ampere and newer, as a logarithm: rates of one network alone
# are fitted, and 32 images of AlexNet took 7.7 ms on an H100 where 5.0 were predicted (`results/h100`).
UNSEEN_FP32 = 0.43
LEAST_OF_TENSOR_CORES = 4.0  # times the peak rate in fp32: half precision without them has twice as much at most
UNSTATED = 8.0  # the same of a GPU whose peak in fp32 no source states: as V100 and T4 have
# Assumed: what rates of transformers on tensor cores fit best with, if it is fitted, too (in fp32 3.3, but publishers
# left out are further off then).
ATTENTION_SLOWNESS = 2.0
# The fits to transformers, by what computes their products.
TRANSFORMERS = {"fp32": "transformers in fp32", "tensor cores": "transformers on tensor cores"}
# Assumed, as the rates hardly tell: with any value from 0.7 to 1 the leave-one-out error stays within one point.
MEMORY_EFFICIENCY = 0.8
UPDATE_PASSES = 5  # SGD with momentum reads weights, gradients and momenta, and writes weights and momenta
STATE_PASSES = 2  # a further number that an optimizer keeps is read and written, too: the second moment of AdamW
# The same where eager PyTorch trains, by the numbers that an optimizer keeps: it goes over all parameters once for each
# operation, SGD in 1, with momentum in 3, AdamW in 9. Weights are also read in both passes, and gradients written.
EAGER_PASSES, WEIGHT_PASSES = (3, 8, 21), 3

HALF = ("bf16", "fp16")  # precisions in which the software stack, not the GPU, decides up to a factor of two
PRECISION_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}  # of an activation


@dataclass(frozen=True)
class Parameters:
    """What is fitted; see `Roofline`."""

    matmul_efficiency: float
    square_speedup: float
    depthwise_slowness: float
    memory_slowness: float = 1.0
    nchw_slowness: float = 1.0
    feeding: float = 0.0
    operation_s: float = GPU_OPERATION_s
    attention_slowness: float = 1.0


class Roofline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fitted figures, and how far off they are; errors are |ln(predicted / measured)|."""

    generation: str  # compute capability of the GPUs whose rates went in; "all"; of transformers, see `TRANSFORMERS`
    matmul_efficiency: float  # share of the peak that convolutions and products reach
    square_speedup: float  # of fp32 convolutions with square kernels at stride 1, by fewer multiplications
    depthwise_slowness: float  # of convolutions of each channel by itself, over reading once for each row of a kernel
    memory_slowness: float = 1.0  # of what is read and written, over its roof
    nchw_slowness: float = 1.0  # of what convolutions read and write in half precision where images are stored as NCHW
    feeding: float = 0.0  # exponent of (peak / peak in fp32), times which what products read and write takes
    operation_s: float  # of each operation, to start it and to fill the GPU
    attention_slowness: float = 1.0  # of attention, over its roof
    rows: int  # published rates that it is fitted to
    fit_error: float  # mean over these rows
    error: float  # mean over these rows, each predicted by a fit to the others
    worst_error: float
    unseen_network_error: float  # mean, each network predicted by a fit to the others
    unseen_source_error: float | None  # the same with publishers; null: there is but one
    unseen_gpu_error: float | None  # the same with generations; null: likewise
    # What nine of ten rates stay within, as |ln(predicted / measured)|, in full (fp32, tf32) and half precision: the
    # larger with networks and with publishers left out; null: no such rate is published for these GPUs.
    error_90: float
    half_error_90: float | None
    unseen_gpu_90: float | None  # the same with generations left out whole, in either precision
    # The same of single generations that have enough rates and no fit of their own; of the fit to all alone.
    unseen_generation_90: dict[str, float] = {}
    publishers: list[str]  # of the rates
    without: dict[str, Parameters]  # as fitted to the rates of all others, by publisher; empty: there is but one

    @property
    def source(self) -> str:
        """Where its figures are from, for people."""
        gpus = "all GPUs" if self.generation == ALL else f"GPUs of compute capability {self.generation}"
        if self.generation in TRANSFORMERS.values():
            gpus = self.generation
        unseen = f"networks left out whole {self.unseen_network_error:.0%}"
        if self.unseen_source_error is not None:
            unseen += f", publishers left out whole {self.unseen_source_error:.0%}"
        if self.unseen_gpu_error is not None:
            unseen += f", GPUs left out whole {self.unseen_gpu_error:.0%}"
        return (
            f"a roofline fitted to {self.rows} published one-GPU training rates of {gpus} "
            f"(results/published/{self.file}): leave-one-out error {self.error:.0%}, worst {self.worst_error:.0%}; "
            f"{unseen}"
        )

    @property
    def file(self) -> str:
        """Where these rates are."""
        return "transformers.yaml" if self.generation in TRANSFORMERS.values() else "training.yaml"

    def error_on(self, gpu: GpuSpec, precision: str) -> float:
        """What nine of ten published rates stay within where the fit had not seen their network or publisher.

        For a GPU of another generation: their generation, or this one where its rates are known. In half precision:
        never less than all half rates there are.
        Of transformers: the largest, as all GPUs share a fit.
        """
        if self.generation in TRANSFORMERS.values():
            return max(self.error_90, self.half_error_90 or 0.0, self.unseen_gpu_90 or 0.0)
        if self.generation != generation(gpu):
            assert self.unseen_gpu_90 is not None, "the fit to all GPUs has seen several generations"
            own = self.unseen_generation_90.get(generation(gpu))
            if own is None:
                return self.unseen_gpu_90
            return max(own, self.half_error_90 or 0.0) if precision in HALF else own
        if precision not in HALF:
            return self.error_90
        return max(self.error_90, self.half_error_90 or fitted().half_error_90 or 0.0)

    def longer_on(self, gpu: GpuSpec, precision: str, table: Sequence[Layer]) -> float:
        """The same of steps that take longer than predicted."""
        unseen = 0.0
        if precision == "fp32" and gpu.compute_capability.value >= 8.0 and any(layer.kind == "conv" for layer in table):
            unseen = UNSEEN_FP32
        return max(self.error_on(gpu, precision), unseen)

    def left_out(self, publisher: str) -> "Roofline | None":
        """As fitted to the rates of all other publishers; None where there are none."""
        if publisher not in self.publishers:
            return self
        figures = self.without.get(publisher)
        if figures is None:
            return None
        return msgspec.structs.replace(
            self,
            matmul_efficiency=figures.matmul_efficiency,
            square_speedup=figures.square_speedup,
            depthwise_slowness=figures.depthwise_slowness,
            memory_slowness=figures.memory_slowness,
            nchw_slowness=figures.nchw_slowness,
            feeding=figures.feeding,
            operation_s=figures.operation_s,
        )


@dataclass(frozen=True)
class LayerWork:
    """What layers do: arrays of (forward, backward) by layer."""

    flop: Floats  # of an image
    elements: Floats  # of activations read and written, of an image
    cast: Floats  # of these, what half precision moves in addition, in numbers of two bytes
    rows: Floats  # of an image: made by convolutions of each channel by itself, times the rows of their kernels
    parameters: Floats  # read and written, once whatever the batch
    square: Flags  # by layer: Winograd's algorithm can do it
    depthwise: Flags  # by layer: it convolves each channel by itself
    attention: Flags  # by layer
    convolution: Flags  # by layer
    operations: Floats  # that are launched


def fitted(gpu: GpuSpec | None = None, table: Sequence[Layer] = (), precision: str = "fp32") -> Roofline:
    """The fit to published rates of this GPU's generation where there are enough of them; else that to all.

    Of networks of attention, whose table is given: the fit to those of transformers on any GPU, at such a precision.
    """
    if (of_transformers := _of_transformers(gpu, table, precision)) is not None:
        return of_transformers
    rooflines = fits()
    roofline = None if gpu is None else rooflines.get(generation(gpu))
    return roofline or rooflines[ALL]


def fitted_without(gpu: GpuSpec, publisher: str, table: Sequence[Layer] = (), precision: str = "fp32") -> Roofline:
    """What `fitted` would be if this publisher had published nothing."""
    rooflines = fits()
    roofline = _of_transformers(gpu, table, precision) or rooflines.get(generation(gpu))
    left = None if roofline is None else roofline.left_out(publisher)
    left = left or rooflines[ALL].left_out(publisher)
    assert left is not None, "several publishers have published rates"
    return left


def _of_transformers(gpu: GpuSpec | None, table: Sequence[Layer], precision: str) -> Roofline | None:
    """Of networks of attention; None: this is none, or nothing is fitted to such."""
    if not any(layer.kind in OF_TRANSFORMERS for layer in table):
        return None
    return transformer_fits().get(TRANSFORMERS[computing_unit(gpu, precision)])


def computing_unit(gpu: GpuSpec | None, precision: str) -> Literal["fp32", "tensor cores"]:
    """What computes products at a precision: half precision without tensor cores is counted as fp32."""
    at = None if gpu is None else peak(gpu, precision)
    without = gpu is not None and at is not None and at.value < LEAST_OF_TENSOR_CORES * gpu.fp32_FLOPps.value
    return "fp32" if precision == "fp32" or without else "tensor cores"


def generation(gpu: GpuSpec) -> str:
    """GPUs of one compute capability are one generation."""
    return f"{gpu.compute_capability.value:.1f}"


def modelled_step(
    roofline: Roofline,
    table: Sequence[Layer],
    image_size: int,
    batch_size: int,
    gpu: GpuSpec,
    precision: str,
    clock_Hz: float | None = None,
    states: int = 1,
    channels_last: bool = True,
    framework: str | None = None,
) -> Step:
    """The step of a per-GPU `batch_size`; `clock_Hz`: of the multiprocessors, its boost clock unless set.

    `states`: see `update_s`.
    """
    done = work(table, image_size, is_fused(framework, precision))
    least = least_times(done, batch_size, (gpu, precision, clock_Hz), channels_last)
    forward_s, backward_s = duration_s(roofline, *least)
    names, gradient_bytes = _gradients(HashedTuple(table))
    updating_s = update_s(roofline, sum(gradient_bytes), gpu, states)
    return Step(names, forward_s.tolist(), backward_s.tolist(), gradient_bytes, updating_s)


@lru_cache(maxsize=64)  # the same for every batch and GPU
def _gradients(table: HashedTuple[Layer]) -> tuple[HashedTuple[str], Sequence[int]]:
    """The names of layers, and the bytes of their gradients."""
    return HashedTuple(layer.name for layer in table), [BYTES_PER_PARAMETER * sum(layer.parameters) for layer in table]


def update_s(roofline: Roofline, gradient_bytes: float, gpu: GpuSpec, states: int = 1) -> float:
    """Updating all parameters in one go, which memory limits. `gradient_bytes`: of all of them.

    `states`: numbers that the optimizer keeps of each; SGD keeps its momentum.
    """
    return roofline.operation_s + of_parameters_s(gradient_bytes, gpu, states, at_once=True)


def of_parameters_s(gradient_bytes: float, gpu: GpuSpec, states: int = 1, at_once: bool = False) -> float:
    """What moving parameters takes a step whatever its batch: as eager PyTorch does, or updating them `at_once`."""
    passes = UPDATE_PASSES + STATE_PASSES * (states - 1)
    if not at_once:
        passes = WEIGHT_PASSES + EAGER_PASSES[states]
    return passes * gradient_bytes / (MEMORY_EFFICIENCY * gpu.memory_Bps.value)


def ratios(
    roofline: Roofline,
    table: Sequence[Layer],
    image_size: int,
    batch_size: int,
    measured_on: Clocked,
    wanted_on: Clocked,
) -> dict[str, tuple[float, float]]:
    """What to multiply each layer's measured times by, forward and backward, to have them on another GPU or clock.

    Both sides are computed with the same efficiencies, so that an error that both share cancels.
    """
    layers = work(table, image_size)
    have, want = (duration_s(roofline, *least_times(layers, batch_size, on)) for on in (measured_on, wanted_on))
    forward, backward = (want / have).tolist()
    return dict(zip((layer.name for layer in table), zip(forward, backward, strict=True), strict=True))


# ---- a GPU whose rate is known, and another one
#
# A pair of GPUs has two ratios: of the roofline's times, both with the same efficiencies, and of what their memories
# take for the same bytes. The first is too large where peaks grow faster than what programs reach of them, the second
# where computing is the limit; their geometric mean errs less than either. What the program itself gains or loses
# against the roofline is in the rate of one GPU, but what GPUs of a generation gain or lose is not: from another
# generation, the geometric mean of the rescaled time and of the roofline's own counts. Both exponents were chosen on
# published pairs (`training_fit.rescalings`), whichever publisher or GPU was left out.

ROOFLINE_SHARE = 0.5  # exponent of the roofline's ratio; the rest is the memories'
RATE_SHARE = 0.5  # exponent of the rescaled time between generations; the rest is the roofline's own
ONE_CHIP, ONE_GENERATION = "one chip", "one generation"  # kinds of pairs
_NEAREST = {"bf16": "fp16", "fp16": "bf16"}  # of the same size


class Rescaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far off steps are that are rescaled from another GPU's rate; errors are |ln(predicted / measured)|."""

    kind: str
    pairs: int  # of published rates
    programs: int
    mean: float
    worst: float
    error_90: float  # what nine of ten are within, each publisher's pair of GPUs counting alike


def rescaling_kind(measured_on: GpuSpec, wanted_on: GpuSpec, precision: str) -> str:
    """Pairs of GPUs whose errors are counted together."""
    if _rates(measured_on, precision) == _rates(wanted_on, precision):
        return ONE_CHIP
    if generation(measured_on) == generation(wanted_on):
        return ONE_GENERATION
    return f"two generations, {'half' if precision in HALF else 'full'} precision"


def _rates(gpu: GpuSpec, precision: str) -> tuple[object, ...]:
    """What tells its times from those of others, by a roofline."""
    at = peak(gpu, precision)
    return generation(gpu), gpu.memory_Bps.value, at and at.value


def is_fused(framework: str | None, precision: str) -> bool:
    """Whether a framework (None: PyTorch) computes batch normalisation and what follows it by one kernel."""
    return framework in FUSING and precision in HALF


def rescaled_s(
    device_s: float,
    alone_s: float,
    table: Sequence[Layer],
    image_size: int,
    batch_size: int,
    measured_on: tuple[GpuSpec, str],
    wanted_on: tuple[GpuSpec, str],
    publisher: str = "",
    channels_last: bool = True,
    framework: str | None = None,
) -> float:
    """The GPU's part of a step on another GPU; both with the precision that they compute in.

    `device_s`: on the GPU that was measured; `alone_s`: on the other one, by the roofline with no rate; `publisher`:
    whose rates the roofline has not seen.
    """
    (gpu, precision), (other, other_precision) = measured_on, wanted_on
    models = [fitted_alike(each, publisher, table, at) for each, at in (measured_on, wanted_on)]
    here, there = (
        modelled_step(
            model, table, image_size, batch_size, *each, channels_last=channels_last, framework=framework
        ).compute_s
        for model, each in zip(models, (measured_on, wanted_on), strict=True)
    )
    moved = (
        PRECISION_BYTES[other_precision] / PRECISION_BYTES[precision] * gpu.memory_Bps.value / other.memory_Bps.value
    )
    ratio = (there / here) ** ROOFLINE_SHARE * moved ** (1 - ROOFLINE_SHARE)
    share = 1.0 if generation(gpu) == generation(other) else RATE_SHARE
    return float((device_s * ratio) ** share * alone_s ** (1 - share))


def fitted_alike(gpu: GpuSpec, publisher: str, table: Sequence[Layer], precision: str) -> Roofline:
    """The fit to all GPUs, without a publisher: of both of a pair, so that an error that they share cancels."""
    fit = _of_transformers(gpu, table, precision) or fits()[ALL]
    return fit.left_out(publisher) or fits()[ALL]


def precision_on(gpu: GpuSpec, precision: str) -> str:
    """At which precision a GPU computes what others do at this one: of the same size, else in fp32."""
    kinds = (precision, _NEAREST.get(precision, "fp32"), "fp32")
    return next(kind for kind in kinds if peak(gpu, kind) is not None)


def at_clock(clock_Hz: float | None) -> str:
    """The clock that times are said for, in words; "" where it is the described one."""
    return "" if clock_Hz is None else f" at {clock_Hz / 1e6:.0f} MHz"


def peak(gpu: GpuSpec, precision: str) -> SourcedValue | None:
    """The peak rate at a precision; None where none is stated."""
    value: SourcedValue | None = getattr(gpu, f"{precision}_FLOPps")
    return value


def peak_FLOPps(gpu: GpuSpec, precision: str, clock_Hz: float | None = None) -> float:
    """The same as a rate at a clock, which scales the multiprocessors' peak, and not the memory's."""
    at = peak(gpu, precision)
    if at is None:
        stated = ", ".join(name for name in PRECISION_BYTES if peak(gpu, name) is not None)
        raise ConfigError(
            f"precision={precision}: no peak rate is stated for it of {gpu.about}; give rate=, or use one of {stated}"
        )
    scale = 1.0 if clock_Hz is None else clock_Hz / gpu.clock_Hz.value
    return at.value * scale


def least_times(work: LayerWork, batch_size: int, on: Clocked, channels_last: bool = True) -> LeastTimes:
    """Of each pass: (forward, backward) by layer. `channels_last`: images are stored as NHWC."""
    (gpu, precision, _), shape, of_bytes = on, work.flop.shape, PRECISION_BYTES[on[1]]
    half, in_fp32, memory_Bps = precision in HALF, precision == "fp32", MEMORY_EFFICIENCY * gpu.memory_Bps.value
    moved_bytes = batch_size * (of_bytes * work.elements + 2 * half * work.cast) + work.parameters * BYTES_PER_PARAMETER
    by_row_s = (DEPTHWISE_HALF if half else 1.0) * of_bytes * work.rows * batch_size / memory_Bps
    # No kernel in fp32 is faster than in TF32, where there is that: computing alone takes longer.
    fed_as = "tf32" if in_fp32 and _has_tf32(gpu) else precision
    relaid = 0.0 if channels_last or fed_as == "fp32" else 1.0 if half else NCHW_TF32
    gain = UNSTATED if gpu.fp32_FLOPps.stated is None else peak_FLOPps(gpu, fed_as) / gpu.fp32_FLOPps.value
    return (
        np.where(work.depthwise, by_row_s, work.flop * batch_size / peak_FLOPps(*on)),
        moved_bytes / memory_Bps,
        np.broadcast_to(work.square & (fed_as == "fp32"), shape),
        np.broadcast_to(work.depthwise, shape),
        np.broadcast_to(work.attention, shape),
        np.broadcast_to(work.convolution * relaid, shape),
        np.where((work.flop > 0) & ~work.depthwise & (fed_as != "fp32"), gain, 1.0),
        np.broadcast_to(work.operations * filling(peak_FLOPps(*on)), shape),
    )


def _has_tf32(gpu: GpuSpec) -> bool:
    """As GPUs of Ampere and newer have."""
    return peak(gpu, "tf32") is not None


def duration_s(
    fit: Parameters | Roofline,
    computing_s: Floats,
    moving_s: Floats,
    winograd: Flags,
    depthwise: Flags,
    attention: Flags,
    relaid: Floats,
    gain: Floats,
    operations: Floats,
) -> Floats:
    """Seconds of each pass, by the least times of all."""
    speed = np.where(winograd, fit.square_speedup, 1.0) * fit.matmul_efficiency
    speed = np.where(depthwise, 1 / fit.depthwise_slowness, speed)
    slowness = np.where(attention, fit.attention_slowness, 1.0)
    memory = fit.memory_slowness * fit.nchw_slowness**relaid * gain**fit.feeding
    passes_s: Floats = slowness * (computing_s / speed + memory * moving_s) + operations * fit.operation_s
    return passes_s


def work(table: Sequence[Layer], image_size: int, fused: bool = False) -> LayerWork:
    """What the layers of a table do; `fused`: what follows batch normalisation is computed with it."""
    return _work(HashedTuple(table), image_size, fused)


@lru_cache(maxsize=64)  # likewise
def _work(table: HashedTuple[Layer], image_size: int, fused: bool) -> LayerWork:
    shapes = {DATA: (3, image_size, image_size)} | {layer.name: layer.output_shape for layer in table}
    elements = {name: math.prod(shape) for name, shape in shapes.items()}
    passes = [_passes(layer, sum(elements[name] for name in layer.inputs), elements[layer.name]) for layer in table]
    flop, moved, parameters = np.array(passes, dtype=float).reshape(-1, 3, 2).transpose(1, 2, 0)
    if fused:
        _fuse(table, moved)
    kinds = {kind: np.array([layer.kind == kind for layer in table], dtype=bool) for kind in ("conv", "layernorm")}
    made = np.array([elements[layer.name] for layer in table])
    language = any(layer.kind in OF_TRANSFORMERS for layer in table)  # its slowness of memory has its casts
    kernels = np.array([_depthwise_side(layer, shapes) for layer in table], dtype=float)
    return LayerWork(
        flop=flop,
        elements=moved,
        # In fp32, of twice the bytes, and cast to that and back in either pass.
        cast=np.where(kinds["layernorm"] & (not language), moved + 2 * CAST * made, 0.0),
        rows=np.array([[1.0], [2.0]]) * kernels * made,
        parameters=parameters,
        square=np.array([_is_square(layer, shapes) for layer in table], dtype=bool),
        depthwise=kernels > 0,
        attention=np.array([layer.kind in ATTENTION for layer in table], dtype=bool),
        convolution=kinds["conv"],
        operations=np.array([operations_of([layer]) / 2 for layer in table]),  # alike in both passes
    )


def _fuse(table: Sequence[Layer], moved: Floats) -> None:
    """Has additions and activations behind batch normalisation move no more than what is added."""
    with_it = {layer.name for layer in table if layer.kind == "batchnorm"}
    for index, layer in enumerate(table):
        if layer.kind not in ("add", *ACTIVATIONS) or not with_it.intersection(layer.inputs):
            continue
        moved[:, index] = math.prod(layer.output_shape) if layer.kind == "add" else 0
        with_it.add(layer.name)


def _passes(layer: Layer, read: int, made: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """(forward, backward) of one image's FLOP and activations moved, and of the parameters moved."""
    if layer.kind == DATA:
        return (0, 0), (0, 0), (0, 0)
    flop = 2 * layer.multiply_adds
    backward_flop = flop if DATA in layer.inputs else 2 * flop
    weights = sum(layer.parameters)
    if layer.kind in ATTENTION:
        backward_flop = 5 * flop // 2  # a fused kernel computes the scores anew: five products instead of two
    if layer.kind == "batchnorm":
        return (flop, backward_flop), (2 * read + made, 5 * made), (weights, weights)
    if layer.kind == "layernorm":
        return (0, 0), (read + made, 5 * made), (weights, 2 * weights)
    if layer.multiply_adds:
        return (flop, backward_flop), (read + made, 2 * (read + made)), (weights, 2 * weights)
    return (0, 0), (read + made, read + 2 * made), (weights, 2 * weights)


def _is_square(layer: Layer, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether it convolves with a square kernel larger than one pixel, at stride 1, in at most two groups.

    The table keeps no kernels: a weight's elements, over those of a 1x1 kernel, are the kernel's over the groups.
    """
    if layer.kind != "conv" or not layer.parameters or len(layer.output_shape) != 3:
        return False
    read = shapes[layer.inputs[0]] if layer.inputs else ()
    if len(read) != 3:
        return False
    channels, rows, _ = read
    made, rows_made, _ = layer.output_shape
    area = layer.parameters[0] / (channels * made)
    sides = (math.sqrt(area * groups) for groups in (1, 2))
    return rows < 1.5 * rows_made and any(side > 1 and side.is_integer() for side in sides)


def _depthwise_side(layer: Layer, shapes: dict[str, tuple[int, ...]]) -> int:
    """Pixels of the side of a kernel that convolves each of several channels by itself, which is odd; 0: none does."""
    of_input = shapes[layer.inputs[0]] if layer.inputs else ()
    if layer.kind != "conv" or not layer.parameters or not of_input or not layer.output_shape:
        return 0
    read, made = of_input[0], layer.output_shape[0]
    side = math.sqrt(layer.parameters[0] / made)  # of a kernel that sees one channel
    return int(side) if layer.parameters[0] < read * made and side > 1 and side % 2 == 1 else 0


# ---- the file


FILE = PUBLISHED / "roofline.yaml"
RESCALED_FILE = PUBLISHED / "rescaled.yaml"


@cache
def fits() -> dict[str, Roofline]:
    """The fit of each generation, and of all GPUs, in the order of the file."""
    return _fits("fits")


@cache
def rescalings() -> dict[str, Rescaling]:
    """How far off steps by another GPU's rate are, by kinds of pairs."""
    return {each.kind: each for each in own_yaml(RESCALED_FILE, dict[str, list[Rescaling]])["rescaled"]}


@cache
def transformer_fits() -> dict[str, Roofline]:
    """The fits to transformers on any GPU, by their names."""
    return _fits("transformers")


def _fits(key: str) -> dict[str, Roofline]:
    return {fit.generation: fit for fit in own_yaml(FILE, dict[str, list[Roofline]])[key]}
