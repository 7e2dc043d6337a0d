"""Which gradients data-parallel training sends together, and in which order: pure arithmetic on a layer table.

    messages(table, strategy=request.strategy, precision=request.precision)[0].size_bytes

**When a gradient is ready.** Autograd undoes, of all operations that it can, the one that the forward pass executed
last (torch/csrc/autograd/engine.cpp, the order of the ready queue), so that layers finish in the reverse of the order
of execution, whatever branches the network has. A parameter of several layers is ready after the first of them: where
the table has it. The order inside a layer is that of its operations, see `_FULL` and `_AUTOCAST`.

**DDP's buckets.** The first step sends all gradients in one bucket. Before the second, DDP fills buckets in the order
in which gradients became ready: a tensor is never divided, and a bucket is closed by the tensor with which it reaches
its limit, so that it is usually larger. One limit holds for the first bucket, another for all others, and the rest is
the last bucket (torch/csrc/distributed/c10d/reducer.cpp, `Reducer::rebuild_buckets` and
`compute_bucket_assignment_by_size`; torch/nn/parallel/distributed.py, `DistributedDataParallel.__init__`). That is so
for a network whose every parameter is used: with `find_unused_parameters=True` DDP keeps other buckets. The environment
variable DDP_SET_LAST_BUCKET_CAP=1 makes the last bucket the special one, which is not modelled here.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from resnetx import choices
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Layer

MIB = 2**20  # what DDP's settings call MB
# DDP's own limits: torch.distributed._DEFAULT_FIRST_BUCKET_BYTES and torch.nn.parallel.distributed's default in MiB.
FIRST_BUCKET_BYTES, CAP_BYTES = 1 * MIB, 25 * MIB


class Gradient(msgspec.Struct, frozen=True, gc=False):
    """The gradient of one trainable tensor."""

    layer: str  # its name in the layer table
    elements: int

    @property
    def size_bytes(self) -> int:
        return BYTES_PER_PARAMETER * self.elements


class Message(msgspec.Struct, frozen=True, gc=False):
    """Gradients that are sent together, in the order in which they become ready. It starts when the last of them is."""

    gradients: tuple[Gradient, ...]

    @property
    def size_bytes(self) -> int:
        return sum(gradient.size_bytes for gradient in self.gradients)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that it has gradients of; a bucket may end, and the next begin, within a layer."""
        return tuple(dict.fromkeys(gradient.layer for gradient in self.gradients))


def messages(layers: Sequence[Layer], strategy: choices.Strategy, precision: str) -> tuple[Message, ...]:
    """What each rank sends in a step, in the order in which it does, once DDP has rebuilt its buckets."""
    return grouped(ready_order(layers, precision), strategy)


def grouped(ready: Sequence[Gradient], strategy: choices.Strategy) -> tuple[Message, ...]:
    """The messages of gradients that become ready in this order."""
    match strategy:
        case choices.Bucket():
            first_bucket_bytes, cap_bytes = _limits_bytes(strategy)
            return ddp_buckets(ready, first_bucket_bytes=first_bucket_bytes, cap_bytes=cap_bytes)
        case choices.Zero1():
            return ddp_buckets(ready, first_bucket_bytes=FIRST_BUCKET_BYTES, cap_bytes=CAP_BYTES)
        case choices.Fsdp():
            return _by_block(ready)
        case choices.Layerwise():
            return tuple(
                Message(tuple(gradients)) for _, gradients in groupby(ready, key=lambda gradient: gradient.layer)
            )
        case choices.After():
            return (Message(tuple(ready)),)
        case choices.Server():
            return tuple(Message((gradient,)) for gradient in ready)
        case choices.NoExchange():
            return ()


def ready_order(layers: Sequence[Layer], precision: str) -> tuple[Gradient, ...]:
    """All gradients in the order in which the backward pass finishes them; bf16 and fp16 are run under autocast."""
    orders = _AUTOCAST if precision in ("bf16", "fp16") else _FULL
    return tuple(
        Gradient(layer.name, layer.parameters[position])
        for layer in reversed(layers)
        for position in orders.get((layer.kind, len(layer.parameters)), range(len(layer.parameters)))
    )


def ddp_buckets(ready: Iterable[Gradient], *, first_bucket_bytes: int, cap_bytes: int) -> tuple[Message, ...]:
    """DDP's rule: gradients join a bucket until it holds its limit or more."""
    buckets: list[Message] = []
    filling: list[Gradient] = []
    filled_bytes = 0
    for gradient in ready:
        filling.append(gradient)
        filled_bytes += gradient.size_bytes
        if filled_bytes >= (cap_bytes if buckets else first_bucket_bytes):
            buckets.append(Message(tuple(filling)))
            filling, filled_bytes = [], 0
    if filling:
        buckets.append(Message(tuple(filling)))
    return tuple(buckets)


def _by_block(ready: Sequence[Gradient]) -> tuple[Message, ...]:
    """What FSDP reduces together: the gradients of each block of a family, and last those of all else."""
    blocks: dict[str, list[Gradient]] = {}
    for gradient in ready:
        blocks.setdefault(_block_of(gradient.layer), []).append(gradient)
    gradients = blocks.pop("", [])
    return tuple(Message(tuple(own)) for own in (*blocks.values(), gradients) if own)


def _block_of(layer: str) -> str:
    """The outermost block that a layer is in; "": it is in none of the model's own."""
    blocks, _, inside = layer.partition(".")
    number = inside.partition(".")[0]
    return f"{blocks}.{number}" if blocks == "blocks" and number.isdigit() else ""


def parts_of(gradients: Sequence[Gradient], ranks: int) -> list[int]:
    """Bytes of the parameters that each rank updates under ZeRO-1."""
    parts = [0] * ranks
    for gradient in sorted(gradients, key=lambda each: -each.elements):
        parts[parts.index(min(parts))] += gradient.size_bytes
    return parts


def _limits_bytes(strategy: choices.Bucket) -> tuple[int, int]:
    """The limits of the first bucket and of all others. To set the cap alone is to set it for the first bucket too."""
    cap_bytes = CAP_BYTES if strategy.bucket_cap_mb is None else int(strategy.bucket_cap_mb * MIB)
    if strategy.first_bucket_mb is not None:
        return int(strategy.first_bucket_mb * MIB), cap_bytes
    return FIRST_BUCKET_BYTES if strategy.bucket_cap_mb is None else cap_bytes, cap_bytes


# ---- the order inside a layer ---------------------------------------------------------------------------------------

# A convolution or normalisation hands out the gradients of its weight and bias in this order, that of the table. Where
# the order is another: (kind of the layer, number of its parameters) -> their positions in `Layer.parameters`.
_FULL = {
    ("linear", 2): (1, 0),  # the weight is transposed before it is used: its gradient has one operation more to go
    ("multiheadattention", 4): (3, 2, 1, 0),  # the table has its input projection, then its output projection
    ("shiftedwindowattention", 4): (3, 1, 2, 0),  # torchvision's Swin: both weights (input, output), then both biases
    ("shiftedwindowattention", 5): (3, 1, 4, 0, 2),  # Swin v2: and a scale; its input's bias is copied at the start
}
# Autocast casts the parameters of every product, and each gradient becomes ready with its own cast: the weight first,
# as torch casts from the last argument to the first (how C++ as GCC compiles it, for Linux, evaluates arguments).
_AUTOCAST = {
    ("multiheadattention", 4): (2, 3, 0, 1),
    ("shiftedwindowattention", 4): (1, 3, 0, 2),
    ("shiftedwindowattention", 5): (1, 3, 4, 0, 2),
}
