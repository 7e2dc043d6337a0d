"""How much memory a training step needs on one GPU, from the layer table: what does not fit is not predicted.

    step_bytes(request, table, images=64, strategy=request.strategy)

`torch` is our own training. Weights and momenta stay; the forward pass keeps what the backward pass will read, which
goes again layer by layer while gradients of parameters come; with them, the gradients of one layer's output and
inputs. The peak over these times is what is needed. What each operation keeps is in `workloads.counts`.

`caffe` is Caffe as Tallent et al. 2017 ran it: a value and a gradient of every blob, all alive all the time, and of
every parameter a value, a gradient and a momentum. On GPU 0, which holds the net that tests as well, also a value of
every blob for each image of a test: as many as its files say for the nets of the framework, and the whole global
batch of any other, an assumption, made for ResNet/32 at 64 on two GPUs: that is missing in the paper, and has as many
images on each as 32 on one, which is not. Of the six points of a system that they report as not fitting it finds five,
and no other. No sum of shares and batches could find the sixth, GoogLeNet at 256 on two GPUs: 512 on four has as many
images on each, more in all, and is not reported.

With `accumulate`, gradients are added up beside the buffers in which they are sent. With `checkpointing`, of each block
of a family its input is kept, and all else of it only while it is undone.

Neither counts workspaces that convolutions ask for while memory is left; those they can do without.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from resnetx.choices import Bucket, Fsdp, ModelChoice, NoExchange, Server, Strategy, Zero1
from resnetx.errors import ConfigError, unknown_name
from resnetx.prediction.roofline import PRECISION_BYTES
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import HashedTuple
from resnetx.record import Unknown
from resnetx.request import Request
from resnetx.units import si
from resnetx.workloads import counts
from resnetx.workloads.counts import BYTES_PER_PARAMETER, DATA, Layer, grouped, parts_of, ready_order

Convention = Literal["torch", "caffe"]
CONVENTIONS: tuple[Convention, ...] = ("torch", "caffe")

FRAMEWORK_BYTES = 600_000_000  # assumed: CUDA's context with the kernels of cuDNN and NCCL


def step_bytes(
    request: Request,
    table: Sequence[Layer],
    images: int,
    strategy: Strategy,
    convention: str = "torch",
    tested: int = 0,
    gpus: int = 1,
) -> int:
    """The most that a step of so many images on this GPU takes at once; `strategy` is `none` on a single GPU.

    `tested`: the images of a test, which Caffe's first GPU holds, too (`images_of_a_test`). `gpus`: over which `zero1`
    and `fsdp` share parameters out.
    """
    match convention:
        case "torch":
            return FRAMEWORK_BYTES + _torch_bytes(request, table, images, strategy, gpus)
        case "caffe":
            if request.accumulate > 1 or request.optimizer.states > 1 or request.checkpointing:
                raise ConfigError(
                    "memory_model=caffe: what Caffe needs for accumulate=, checkpointing= and optimizer=adamw is not "
                    "known; leave it out"
                )
            return FRAMEWORK_BYTES + _caffe_bytes(table, request.image_size, images, tested)
    raise unknown_name("memory model", convention, CONVENTIONS, "memory_model")


def images_of_a_test(model: ModelChoice, batch_size: int) -> int:
    """How many images Caffe's first GPU holds for a test of a net that trains with this global batch."""
    return model.tested_by_caffe or batch_size


def received_bytes(table: Sequence[Layer], ranks: int) -> int:
    """Where a GPU that serves receives a variable of every rank: variables come one after the other."""
    return ranks * BYTES_PER_PARAMETER * max((elements for layer in table for elements in layer.parameters), default=0)


def _caffe_bytes(table: Sequence[Layer], image_size: int, batch_size: int, tested: int) -> int:
    activations, parameters = _caffe_counts(HashedTuple(table), image_size)
    return BYTES_PER_PARAMETER * ((2 * batch_size + tested) * activations + 3 * parameters)


@lru_cache(maxsize=64)  # they are the same for every batch and system
def _caffe_counts(table: HashedTuple[Layer], image_size: int) -> tuple[int, int]:
    return counts.activations(table, image_size, "caffe"), counts.parameters(table, "caffe")


# ---- PyTorch


@lru_cache(maxsize=64)
def _torch_parameters(table: HashedTuple[Layer]) -> int:
    return counts.parameters(table, "torch")


def _torch_bytes(request: Request, table: Sequence[Layer], images: int, strategy: Strategy, gpus: int) -> int:
    """What stays, and the peak of what comes and goes in the backward pass."""
    if isinstance(strategy, Zero1 | Fsdp):
        return _sharded_bytes(request, table, images, strategy, gpus)
    width = PRECISION_BYTES[request.precision]
    parameters = _torch_parameters(HashedTuple(table))
    staying = BYTES_PER_PARAMETER * parameters  # weights
    if strategy != Server(device="cpu"):  # on the host a server keeps momenta there
        staying += BYTES_PER_PARAMETER * request.optimizer.states * parameters
    if width < BYTES_PER_PARAMETER:
        staying += width * parameters  # autocast keeps its copies of the weights for the step
    staying += _waiting_bytes(request, table, images)
    gradients_stay = not isinstance(strategy, NoExchange)  # in buffers, which are there from the beginning
    copied = isinstance(strategy, Bucket) and not strategy.gradient_as_bucket_view
    growing = copied or not gradients_stay
    if gradients_stay:
        staying += BYTES_PER_PARAMETER * parameters
    if request.accumulate > 1:  # from the first part of the batch on
        staying += BYTES_PER_PARAMETER * parameters
        growing = False
    at_update = BYTES_PER_PARAMETER * parameters if growing else 0
    return staying + max(_peak_bytes(request, table, images, growing), at_update)


def _sharded_bytes(request: Request, table: Sequence[Layer], images: int, strategy: Zero1 | Fsdp, gpus: int) -> int:
    """The same where ranks keep parts: of momenta by `zero1`, of weights, gradients and momenta by `fsdp`."""
    width, gradients = PRECISION_BYTES[request.precision], ready_order(table, request.precision)
    states, whole = request.optimizer.states, sum(gradient.size_bytes for gradient in gradients)
    if isinstance(strategy, Zero1):
        staying = 2 * whole + states * max(parts_of(gradients, gpus))  # weights and buckets of gradients
    else:
        *blocks, rest = (message.size_bytes for message in grouped(gradients, strategy))
        kept = max(blocks, default=0) * min(2, len(blocks)) if strategy.reshard else sum(blocks)
        # The weights that are gathered, and one message of gradients with the copy that is reduced.
        staying = (2 + states) * -(-whole // gpus) + rest + kept + 2 * max([rest, *blocks])
    if width < BYTES_PER_PARAMETER:
        staying += width * whole // BYTES_PER_PARAMETER
    if request.accumulate > 1:
        staying += whole  # gradients that are not reduced yet
    return staying + _waiting_bytes(request, table, images) + _peak_bytes(request, table, images, growing=False)


def _waiting_bytes(request: Request, table: Sequence[Layer], images: int) -> int:
    """The next batch, and the parts of this one that are not computed on."""
    waiting = 2 * images - images // request.accumulate
    return waiting * BYTES_PER_PARAMETER * counts.elements(table, request.image_size)[DATA]


def _peak_bytes(request: Request, table: Sequence[Layer], images: int, growing: bool) -> int:
    """The most that comes and goes in the backward pass of a part of the images."""
    how = (request.image_size, request.precision, growing, request.checkpointing)
    moments = _backward_moments(HashedTuple(table), *how)
    return max((images // request.accumulate * per_image + fixed for per_image, fixed in moments), default=0)


@lru_cache(maxsize=256)  # they are the same for every batch and system
def _backward_moments(
    table: HashedTuple[Layer], image_size: int, precision: str, growing: bool, checkpointing: bool
) -> tuple[tuple[int, int], ...]:
    """What may be the most that is alive in addition to what stays, in the backward pass: bytes per image, and fixed.

    `growing`: gradients of parameters add up; otherwise each moves into a buffer that was there before.
    `checkpointing`: what a block keeps is there once it is computed again.
    """
    elements, widths = counts.elements(table, image_size), counts.widths(table, PRECISION_BYTES[precision])
    moments: list[tuple[int, int]] = []
    freed = [0] * len(table)  # released when the layer at this place is done
    for kept_bytes in (counts.kept_outside if checkpointing else counts.kept)(table, image_size, widths):
        freed[kept_bytes.first] += kept_bytes.bytes_per_image
    saved, grown = sum(freed), 0
    again = [0] * len(table)  # computed again before the layer at this place is undone
    for block in counts.recomputed(table, image_size, widths) if checkpointing else ():
        again[block.places[-1]] = sum(kept_bytes.bytes_per_image for kept_bytes in block.kept)
        for kept_bytes in block.kept:
            freed[kept_bytes.first] += kept_bytes.bytes_per_image
    for index in reversed(range(len(table))):
        layer = table[index]
        saved += again[index]
        own = BYTES_PER_PARAMETER * sum(layer.parameters)
        passing = sum(widths[name] * elements[name] for name in (layer.name, *layer.inputs) if name != DATA)
        moments.append((saved + passing, grown + own))
        saved -= freed[index]
        grown += own if growing else 0
    return tuple(_that_may_be_the_peak(moments))


def _that_may_be_the_peak(moments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The moments than which no other has as much of both: of whatever batch, the peak is one of them."""
    most = -1
    for per_image, fixed in sorted(moments, reverse=True):
        if fixed > most:
            most = fixed
            yield per_image, fixed


# Whether a point fits into the memory of its GPUs: one that does not is missing, as in a measured study.

Memory = tuple[int | Unknown, int | Unknown]  # bytes that the largest share of the batch needs on a GPU, and it has


def lack_of(point: Point, memory: Memory) -> str:
    """Why the point cannot run; "" if it can, or if that is not known."""
    return "" if shown_to_fit(point) else _lack_by_count(memory)


def doubt_of(point: Point, memory: Memory) -> str:
    """What is counted against a point that runs by a known rate; "" where nothing is."""
    return _lack_by_count(memory) if shown_to_fit(point) else ""


def shown_to_fit(point: Point) -> bool:
    """Whether a known rate of one GPU is of as many images, which then have room on it, whatever is counted."""
    setting, rates = point.setting, point.workload.rates
    if rates is None or rates.other is not None or setting.memory_bytes is not None or setting.memory_model != "torch":
        return False
    return point.shares[0][0] <= max(images for images, _ in rates.by_batch)


def _lack_by_count(memory: Memory) -> str:
    needed, capacity = memory
    if isinstance(needed, Unknown) or isinstance(capacity, Unknown) or needed <= capacity:
        return ""
    digits = next((digits for digits in range(3, 9) if si(needed, "B", digits) != si(capacity, "B", digits)), 9)
    return f"needs {si(needed, 'B', digits)} of memory; each GPU has {si(capacity, 'B', digits)}"


def memory_of(point: Point) -> Memory:
    """The memory that a point needs and has."""
    workload, request, capacity = point.workload, point.workload.request, _capacity_bytes(point)
    if workload.layers is None or request is None:
        return Unknown("an imported trace has no activations"), capacity
    images, _ = point.shares[0]
    strategy, convention = workload.strategy if point.gpus > 1 else NoExchange(), point.setting.memory_model
    tested = images_of_a_test(request.model, point.batch_size)
    needed_bytes = step_bytes(request, workload.layers, images, strategy, convention, tested, point.gpus)
    if strategy == Server(device="gpu") and convention == "torch":
        needed_bytes += received_bytes(workload.layers, point.gpus)
    return needed_bytes, capacity


def _capacity_bytes(point: Point) -> int | Unknown:
    if point.setting.memory_bytes is not None:
        return point.setting.memory_bytes
    if point.deployment.on_cpus:
        return Unknown("ranks share their host's")
    return round(point.deployment.described.gpu_part(point.devices[0]).memory_bytes.value)
