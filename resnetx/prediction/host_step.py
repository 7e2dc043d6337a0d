"""The host's part of a step: launching the work of all layers takes time, which no smaller batch makes shorter.

    host = assumed(operations=408, framework=None, precision="fp16")
    host.step_s(device_s=0.012)

A GPU runs what its host has launched. Eager PyTorch launches a step while the GPU still runs what it has, so that a
step takes the longer of the two, softly near where they are alike: the 4-norm. Loops of TensorFlow 1 and MXNet wait for
each step to end, so that its launch comes on top. How long launching takes goes by the host, the program and the
operations that its layers are made of, not by the GPU: where the CPU has a rating of its single thread, in inverse
proportion to it. A host's own time is taken to be within the factors of `SPREAD` of what that says in nine cases of
ten; a trace, a rate at a small batch, or `host_step=` says more.

Programs of others have loops that do more than train (loaders, meters, logs): their constants were chosen on the steps
at batch 1 of one machine (milabench on an H100) and judged on others (`scaling_check`). resnetx's own loop does nothing
else: its constants were chosen on one H100 (`OWN_ON`), on which those of others had been up to 3.3 times too long.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from resnetx.choices import DaliInput, Folders, Input
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import CpuSpec
from resnetx.interconnect.systems.system import System
from resnetx.record.prediction import Origin
from resnetx.workloads.counts import Layer

NORM = 4.0  # of the two times: 2 to 6 err alike on the published rates
# How many times as short, and as long, a host's time may be as the constants say, in nine cases of ten, rated or not.
# Intervals of 243 steps at an eighth of a batch hold 93 % with it; their score is 82 % (83 with 1.5, 87 with 2.3).
SPREAD = 1.8
STATED = 1.2  # either way, of a time that the user states: assumed
# That PyTorch launches for a layer, forward and backward, where they are not two, as its dispatcher counts them in
# torchvision's networks (`tests/prediction/test_own_loop.py`).
MODULE = "module"  # one without children of which no more is known: as a ResNet has, whose additions are in none
OPERATIONS = {
    "batchnorm": 3,
    "linear": 4,
    "mul": 4,
    "stochasticdepth": 4,
    "multiheadattention": 27,
    "shiftedwindowattention": 48,
    MODULE: 2.6,
}
# A loop has work of its own beside the launches: LOOP_s, of which a network of LOOP_OPERATIONS operations has 63 %
# and one of three times as many 95 % (Gavel's language model of about 20 takes 8.8 ms in all on a V100: a bound).
LOOP_s, LOOP_OPERATIONS = 20e-3, 156.0
# Of the host, for each operation. Chosen on CHOSEN_ON's steps at batch 1 while passes over layers were counted, of 1.3
# operations in a ResNet. By operations ResNets take 10 % less there, and all its networks 20 %. Over all 175 eager
# pairs 36 us would have the least error (14.2 %, 14.7 with 30).
OPERATION_s = 30e-6
CHOSEN_ON = "milabench-h100"  # the source in `results/published/steps.yaml`
# PassMark's rating of a thread of the host that they are of. Nobody names that one's CPU: this is the rating of Zeus's
# host of A40s, whose smallest steps are as the constants say.
RATED = 2447.0
# How many times as short where the loop waits for each step: that of tf_cnn_benchmarks takes 1/12 to 1/2 of it on two
# machines (server-gear's), those of U-Net and V-Net all of it; of CNTK and Caffe nothing is published.
WAITING_SHORTER = 12.0
# MXNet's takes 1.1, 1.5 and 1.9 times of it beside a V100, an M60 and a K80 on one CPU: what small batches cost a slow
# GPU is in it.
MXNET_SPREAD = (1.8, 2.3)
# Times as long in programs whose loaders decode, chosen on hosts without ratings. Over 78 such pairs 1.4 would have the
# least error (11.9 %, 12.6 with 1.3).
DECODING = 1.3
# Of resnetx's own loop: ResNet/1, /8 and /32 and ResNet-50 in bf16, where their host limited them, within 13 %: 1.2 ms
# and 53 us there, over AUTOCAST. That fp32 takes so much less is assumed (ResNet-50 in TF32, 32 images: half too long).
OWN_LOOP_s, OWN_OPERATION_s, OWN_ON = 1.0e-3, 44e-6, "results/h100/one-gpu"
AUTOCAST = 1.2  # times as long: tensors are cast
# Of it, of frameworks that launch a graph as a whole, chosen on hosts rated 2,141 and 2,145 (DGX-1, DGX A100). The 13
# pairs of such loops would have 0.4 (9 % off, 10 with 0.5), MXNet's 32 would have 0.6 (14, 15).
GRAPH, GRAPH_RATED = 0.5, 2143.0
# Of the GPU, for each operation, whatever the batch: it has to be started, and filled, which takes a slow GPU longer,
# twice as long where its peak is 22 TFLOP/s. The two with the least error over 220 steps at an eighth of a batch (11 %;
# chosen without a step's publisher 12 %, one time for all GPUs 14 %); 23 steps entered after that are 18 % off (24 with
# one time for all). Steps that are CUDA graphs have no other: ResNet-50 in bf16 on one H100 takes 6 to 8 us an
# operation (`results/h100/one-gpu-rest`).
GPU_OPERATION_s, FILLED_FLOPps = 8e-6, 22e12
MOST_FIXED = 0.7  # of the GPU's part of a known step that no smaller batch makes shorter
MOST_OF_STEP = 0.9  # that the host's part may be of a step that is known: assumed
LEAST_STEP = 1e-6  # of a step, at best: of no time at all there is no logarithm

# What a step costs on several GPUs beside its messages, for each doubling of their number: hooks, buckets, launches of
# messages. A network of PARALLEL_TENSORS gradient tensors takes 63 % of it on a host rated GRAPH_RATED, and in inverse
# proportion. TensorFlow and Horovod agree on each tensor: on 8 GPUs 1 to 6 ms for the few of VAE-CF and NCF, 10 to 14
# for U-Net and V-Net where the share's rate is known. PyTorch's few cost less, too: with the figure that was chosen
# on TensorFlow's, 26 rates of one global batch go from 14.4 to 10.6 % off, and were in sight. Rates of large batches
# cannot see it. One may be PARALLEL_SPREAD times as long or short.
# PyTorch's DDP costs one V100 12 to 32 us a tensor, and eight hardly more. 12 us a tensor on any number of GPUs is no
# clear gain, each system left out: eager global batches 10.5 -> 9.9 % off, JPEG loaders over nodes 5.1 -> 4.7, half
# precision over nodes 8.3 -> 8.6, one node alike; Horovod's rates want what is here.
PARALLEL_s, PARALLEL_TENSORFLOW_s, PARALLEL_TENSORS, PARALLEL_SPREAD = 1.0e-3, 4.0e-3, 30.0, 3.0
# Of PARALLEL_s the share that a host launches ahead, hidden while its GPU takes longer; with Horovod none. Of none,
# half and all, half is nearest to published rates (167 of one node: 1.8, 1.7 and 1.9 % off), with all in sight.
PARALLEL_LAUNCHES = 0.5

WAITING = ("tensorflow", "mxnet", "cntk", "caffe-mpi")  # frameworks whose loops wait for each step to end


@dataclass(frozen=True)
class HostStep:
    """The host's time to launch a step."""

    time_s: float
    # How many times as short, and as long, it may be, in nine cases of ten
    spread: tuple[float, float] = (SPREAD, SPREAD)
    waits: bool = False  # for each step to end; else it launches the next one meanwhile
    loop_s: float = 0.0  # of it, what its loop does once in a step, however many parts the batch has
    rating: float | None = None  # of its CPU, from which it is taken; None: it is not, or of any host

    def stretched(self, sign: int) -> "HostStep":
        """At its shortest (-1), as it is (0), or at its longest (1)."""
        shorter, longer = self.spread
        return replace(self, time_s=self.time_s * {-1: 1 / shorter, 0: 1.0, 1: longer}[sign])

    def text(self, longest_s: float = math.inf) -> str:
        """In ms, with both ends; `longest_s`: of a step that has it."""
        ends_s = (self.stretched(-1).time_s, min(self.stretched(1).time_s, longest_s))
        return "{:,.1f} ms ({:,.1f} to {:,.1f})".format(self.time_s * 1e3, *(end_s * 1e3 for end_s in ends_s))

    def within(self, step_s: float) -> "HostStep":
        """Not all of a step that is known: the GPU takes some time, too."""
        return replace(self, time_s=min(self.time_s, MOST_OF_STEP * step_s))

    def of_part(self, parts: int) -> "HostStep":
        """Of one of the parts of a step, with its share of what the loop does once."""
        return replace(self, time_s=self.time_s - (1 - 1 / parts) * min(self.loop_s, self.time_s))

    def step_s(self, device_s: float) -> float:
        """A step whose work takes the GPU `device_s`."""
        return self.time_s + device_s if self.waits else longer_s(self.time_s, device_s)

    def device_s(self, step_s: float) -> float:
        """What the GPU takes of a step that is known, and no shorter than the host's part."""
        return step_s - self.time_s if self.waits else (step_s**NORM - self.time_s**NORM) ** (1 / NORM)


@dataclass(frozen=True)
class LaunchedStep:
    """A step of one GPU with its host's part."""

    device_s: float
    host: HostStep
    time_s: float
    # How much (shorter, longer) the step may be in nine cases of ten, relative, by what is not known of each part.
    by_device: tuple[float, float]
    by_host: tuple[float, float]
    level: float  # the batch at which the GPU takes as long as the host: no smaller one has a much shorter step

    @property
    def faster(self) -> float:
        """How much shorter the step may be, by both: the root of the sum of their squares, as logarithms."""
        parts = (max(LEAST_STEP, 1 - by[0]) for by in (self.by_device, self.by_host))
        return -math.expm1(-math.hypot(*map(math.log, parts)))

    @property
    def slower(self) -> float:
        """And how much longer."""
        return math.expm1(math.hypot(*(math.log1p(by[1]) for by in (self.by_device, self.by_host))))

    def ending(self, shortest_s: float, longest_s: float) -> "LaunchedStep":
        """With an interval that reaches no further, and has as much of either part as before."""
        ends = ((shortest_s, 1 - self.faster), (longest_s, 1 + self.slower))
        shares = [math.log(end_s / self.time_s) / math.log(end) if end != 1 else 1.0 for end_s, end in ends]
        shorter, longer = (min(1.0, max(0.0, share)) for share in shares)
        by_device, by_host = (
            (1 - max(LEAST_STEP, 1 - by[0]) ** shorter, (1 + by[1]) ** longer - 1)
            for by in (self.by_device, self.by_host)
        )
        return replace(self, by_device=by_device, by_host=by_host)

    def of_part(self, parts: int) -> "LaunchedStep":
        """The step of one part of a batch in parts, of which this one is of as many images."""
        host = self.host.of_part(parts)
        shorter = host.step_s(self.device_s) / self.host.step_s(self.device_s)
        return replace(self, host=host, time_s=shorter * self.time_s)

    def reaching(self, other: "LaunchedStep") -> "LaunchedStep":
        """With an interval that has the other's in it: what it is wider by is not known of the host."""
        ratio = other.time_s / self.time_s
        faster, slower = self.by_host
        if (shortest := max(LEAST_STEP, ratio * (1 - other.faster))) < 1 - self.faster:
            device = math.log(max(LEAST_STEP, 1 - self.by_device[0]))
            faster = -math.expm1(-math.sqrt(math.log(shortest) ** 2 - device**2))
        if (longest := ratio * (1 + other.slower)) > 1 + self.slower:
            slower = math.expm1(math.sqrt(math.log(longest) ** 2 - math.log1p(self.by_device[1]) ** 2))
        return replace(self, by_host=(faster, slower))


def launched(images: int, device_s: float, fixed_s: float, host: HostStep, errors: tuple[float, float]) -> LaunchedStep:
    """A step whose work is modelled to take the GPU `device_s`, of which `fixed_s` at any batch.

    `errors`: in nine cases of ten, |ln| of what it does take over that, where it takes less, and where more.
    """
    time_s = host.step_s(device_s)
    devices_s = [host.step_s(device_s * math.exp(error)) for error in (-errors[0], errors[1])]
    hosts_s = [host.stretched(sign).step_s(device_s) for sign in (-1, 1)]
    by_device, by_host = ((1 - low_s / time_s, high_s / time_s - 1) for low_s, high_s in (devices_s, hosts_s))
    of_images_s = device_s - fixed_s  # a roofline whose passes are shorter may leave nothing for a tiny network
    level = images * (host.time_s - fixed_s) / of_images_s if of_images_s > 0 else 0.0
    return LaunchedStep(device_s, host, time_s, by_device, by_host, level)


NO_HOST = HostStep(0.0)  # it launches a step in no time, or as a graph


def longer_s(host_s: float, device_s: float) -> float:
    """The longer of the two, softly."""
    return float((host_s**NORM + device_s**NORM) ** (1 / NORM))


def filling(peak_FLOPps: float) -> float:
    """How many times GPU_OPERATION_s an operation takes a GPU of such a peak rate at any batch."""
    return 1 + FILLED_FLOPps / peak_FLOPps


def operations_s(operations: float, peak_FLOPps: float) -> float:
    """What so many operations take a GPU of such a peak rate whatever the batch: they are started, and filled."""
    return operations * GPU_OPERATION_s * filling(peak_FLOPps)


def operations_of(layers: Iterable[Layer]) -> float:
    """How many operations a step launches on the GPU: those of all layers, forward and backward; no update."""
    return sum(OPERATIONS.get(layer.kind, 2) for layer in layers)


def assumed(
    operations: float,
    framework: str | None,
    precision: str,
    own_loop: bool = False,
    decoding: bool = False,
    rating: float | None = None,
) -> HostStep:
    """What launching so many operations takes on a host of which no more is known than the rating of its CPU.

    `framework`: None for eager PyTorch; `own_loop`: that it is resnetx which trains, and no program of others;
    `decoding`: that it has loaders on the host's cores; `rating`: of `rated`.
    """
    waits = framework in WAITING
    scale = GRAPH if waits else AUTOCAST if precision in ("fp16", "bf16") else 1.0
    scale *= 1.0 if rating is None else (GRAPH_RATED if waits else RATED) / rating
    if own_loop and framework is None:
        return HostStep(scale * (OWN_LOOP_s + OWN_OPERATION_s * operations), loop_s=scale * OWN_LOOP_s, rating=rating)
    scale *= DECODING if decoding and not waits else 1.0
    loop_s = scale * LOOP_s * -math.expm1(-operations / LOOP_OPERATIONS)
    spread = MXNET_SPREAD if framework == "mxnet" else (WAITING_SHORTER if waits else SPREAD, SPREAD)
    return HostStep(loop_s + scale * OPERATION_s * operations, spread, waits, loop_s, rating)


def rated(system: System) -> float | None:
    """PassMark's rating of a thread of the slowest CPU of a system; None: one of them has none."""
    parts = [each.part for each in system.components if isinstance(each.part, CpuSpec)]
    ratings = [part.single_thread.value if part.single_thread else 0.0 for part in parts]
    return min(ratings, default=0.0) or None


# How fast images are decoded: by the cores of the host, which its GPUs share, or by the GPUs themselves.
#
# Decoding a JPEG takes time in proportion to its bytes, so that rates are in bytes of files a second, of one core or of
# one GPU. They are measured (`resnetx train measure=input`, given by `calibration=`) or, of cores, assumed. DALI
# decodes on the GPU unless `decoder=cpu`: without a measurement nothing is known of that.

IMAGE_BYTES = 108_000  # of the files that `resnetx images` makes, with which the rates below were measured


@dataclass(frozen=True)
class DecodingRate:
    """Bytes of image files that one core, or one GPU, decodes a second, with all that its loader does to a batch."""

    loader: str  # the kind of input: "dali", "torchvision"
    unit: Literal["core", "GPU"]
    rate_Bps: float
    error: float  # relative; in nine cases of ten
    origin: Origin
    source: str
    measured_on: str = ""  # the CPU, or the GPU; "": of whatever
    size: int | None = None  # of the images that it hands over, in pixels; null: of whatever

    def of(self, size: int) -> "DecodingRate":
        """With images of another size: what a loader does to one goes with its pixels."""
        return self if self.size is None else replace(self, rate_Bps=self.rate_Bps * (self.size / size) ** 2, size=size)


OTHER_CORES = (
    0.5  # relative error of the rate of another CPU's cores: assumed, they differ by less than a factor of two
)
# The median of the twelve runs of results/cpu-2core/quickstart with measure=input, one and two ranks with a core each.
_DALI = DecodingRate("dali", "core", 382 * IMAGE_BYTES, OTHER_CORES, "assumed", "results/cpu-2core/quickstart")
# On the same host, 162 to 186 images a second of CPU time while it was busy, and 255 to 292 for each core while not.
_TORCHVISION = DecodingRate(
    "torchvision", "core", 230 * IMAGE_BYTES, OTHER_CORES, "assumed", "prediction/host_step.py", size=224
)
ASSUMED = {rate.loader: rate for rate in (_DALI, _TORCHVISION)}


def _published(images_per_s: float, source: str) -> DecodingRate:
    """A framework's loader on a DGX-1 (40 cores of Xeon E5-2698 v4), with files of ILSVRC2012 (110 kB)."""
    return DecodingRate("torchvision", "core", images_per_s / 40 * 110_000, 0.0, "published", source, size=224)


# The fastest and the slowest that were measured by themselves, and what one that augments images automatically leaves
# training: there four networks of 224 to 512 pixels have 80 to 122 images/s a core, times their pixels over 224 x 224.
FASTEST_LOADER = _published(15_000, "tensorflow/models, pull 6551: tf.data with a trivial model")
SLOW_LOADER = _published(5_600, "tensorpack/benchmarks 6ae5c20, ImageNet: in Python")
SLOWEST_LOADER = _published(
    4_012, "NVIDIA/DeepLearningExamples 34fdb95, TensorFlow2 EfficientNet-B0: with AutoAugment, which limits it"
)


@dataclass(frozen=True)
class Decoding:
    """What each GPU of a point gets decoded while all of them train."""

    rate: DecodingRate
    cores: float | None  # of its host that work for one GPU; None: the GPU decodes

    @property
    def rate_Bps(self) -> float:
        """For one GPU."""
        return self.rate.rate_Bps * (1.0 if self.cores is None else self.cores)


def loader_rate(input: Folders, size: int, measured: Iterable[DecodingRate]) -> DecodingRate | None:
    """What one core, or one GPU, decodes of images that become so large; None: nothing is known."""
    unit = decoding_unit(input)
    fitting = [rate for rate in measured if (rate.loader, rate.unit) == (input.kind, unit)]
    rate = fitting[0] if fitting else None if unit == "GPU" else ASSUMED.get(input.kind)
    return None if rate is None else rate.of(size)


def decoding(
    input: Folders, size: int, system: System, devices: Sequence[int], measured: Iterable[DecodingRate],
    threads: int | None,
) -> Decoding | None:  # fmt: skip
    """How images are decoded for `devices`; None: nothing is known. `threads`: the most cores for one GPU."""
    rate = loader_rate(input, size, measured)
    if rate is None:
        return None
    if rate.unit == "GPU":
        _refuse_other_gpu(rate, system, devices)
        return Decoding(rate, None)
    cores = cores_for_each(system, devices)
    return None if cores is None else Decoding(rate, cores if threads is None else min(cores, threads))


def decoding_unit(input: Input | Folders) -> Literal["core", "GPU"]:
    """What decodes on a machine with GPUs."""
    return "GPU" if isinstance(input, DaliInput) and input.decoder == "auto" else "core"


def cores_for_each(system: System, devices: Sequence[int]) -> float | None:
    """Cores of its host for each of `devices`, on the host that has the fewest; None: they are not described."""
    node, most_ranks = system.node_of(devices[0]), max(Counter(map(system.node_of, devices)).values())
    cores = 0.0
    for component in system.in_node(node):  # nodes are alike
        if isinstance(component.part, CpuSpec):
            if component.part.cores is None:
                return None
            cores += component.part.cores.value
    return cores / most_ranks or None


def _refuse_other_gpu(rate: DecodingRate, system: System, devices: Sequence[int]) -> None:
    part, name = system.gpu_part(devices[0]), system.gpus[devices[0]].part_name
    if rate.measured_on not in (*part.product_names, name):
        raise ConfigError(
            f"{rate.source}: images were decoded on {rate.measured_on}, which says nothing of {name}; give a run on "
            "it, or input.decoder=cpu"
        )
