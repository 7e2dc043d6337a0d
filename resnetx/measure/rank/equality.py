"""Whether N ranks compute what one process computes: the same losses and gradients, step after step.

Rank 0 draws one global batch. Each rank takes its slice of it through the very step that is measured (`training_step`),
while rank 0 also takes the whole through the same step of a bare model; before each update, every rank compares its
gradients with those of the bare model (with a parameter server, by how much each parameter changed). Dropout is off.

**Batch normalisation** makes one process and N differ by definition where each rank normalises by its own images, as
training does here and in the paper. The comparison holds the statistics of the global batch fast, or on GPUs computes
them over all ranks (SyncBatchNorm); what statistics per rank change is compared apart, and is no failure.

**Tolerance.** N partial sums differ from one sum by rounding, in single precision by 1e-6 to 1e-4, in which a mistake
that concerns one image in a thousand would hide. So equality is judged in double precision, where that is 1e-12; the
least mistake, one image too much or too little in a batch of B, changes the gradient by about 1 / B. TOLERANCE lies
between the two, by a factor of a thousand or more for batches up to 10^6. In single precision a deviation of ROUNDING
is a mistake, too.

A layer's deviation is the root mean square of the difference over that of its gradient, or a thousandth of the largest
gradient's where that is rounding alone (the bias in front of a normalisation).
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import msgspec
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from resnetx import inputs, workloads
from resnetx.choices import Bucket
from resnetx.errors import ConfigError
from resnetx.measure.launch import hang
from resnetx.measure.machine import missing_feature
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.results import RankResults
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import OwnBatches, build, training_step
from resnetx.measure.rank.windows import StartUpTimer, peak_memory_bytes
from resnetx.record import Deviation, Equality, InputState, Unknown, known
from resnetx.request import Request
from resnetx.workloads import user_program
from resnetx.workloads.counts import CAP_BYTES, FIRST_BUCKET_BYTES, MIB, Gradient, ddp_buckets
from resnetx.workloads.layers import tensors

TOLERANCE = 1e-9
ROUNDING = 0.05  # in single precision, in which FSDP and gloo have been seen to take a sum for a mean: a deviation of 1
MESSAGE_BYTES = 4 * MIB  # in single precision: small results are sent together until they are so many
NOTHING = 1e-3  # of the largest gradient's root mean square: gradients below are measured by this

TensorBatch = tuple[Any, Any]  # images and labels; of a user's own model its batch, twice
Recorded = Literal["none", "frozen", "synchronised"]
Statistics = Recorded | Literal["per rank"]


def measure(request: Request, ranks: Ranks, clock: StartUpTimer) -> RankResults | None:
    """Compares; rank 0 returns what the record has of it."""
    model = _without_chance(build(request, ranks))
    clock.lap("model_s")
    batch, state = _stored_batch(request, ranks)
    clock.lap("input_s")
    normalised = any(isinstance(module, _BatchNorm) for module in model.modules())
    whole = request.accumulate == 1 and not request.checkpointing  # which normalises once, by the batch
    statistics: Recorded = "synchronised" if ranks.device.type == "cuda" and whole else "frozen"
    if not normalised:
        statistics = "none"
    _normalise_by(model, batch, request)

    in_double = _double(request)
    double = compare(model.double(), batch, in_double, ranks, request.steps, statistics)
    clock.lap("first_step_s")
    per_rank: ReplicaDeviations | Unknown = Unknown(f"{request.model.label} has no batch normalisation")
    if normalised:
        per_rank = compare(model, batch, in_double, ranks, 1, "per rank")
    as_trained = compare(model.float(), batch, request, ranks, 1, statistics)
    alike = all(deviation <= TOLERANCE for deviation in (double.loss, *double.layers.values()))
    if request.precision == "fp32":  # libraries may add up otherwise in single precision than in double
        alike = alike and all(deviation <= ROUNDING for deviation in (as_trained.loss, *as_trained.layers.values()))
    equality = Equality(
        equal=alike,
        tolerance=TOLERANCE,
        steps=request.steps,
        statistics=statistics,
        double=double.recorded(),
        as_trained=as_trained.recorded(),
        per_rank=known(per_rank if isinstance(per_rank, Unknown) else per_rank.recorded()),
    )
    start_up = ranks.gather(clock.parts(ranks.rank))
    peaks = ranks.gather(peak_memory_bytes(ranks.device))
    if state is None:
        return None
    return RankResults(start_up=start_up, peak_memory_bytes=peaks, input_state=state, equality=equality)


@dataclass(frozen=True)
class ReplicaDeviations:
    """Those of a `record.Deviation`, but NaN where there is no number."""

    loss: float
    layers: dict[str, float]

    def recorded(self) -> Deviation:
        """As a record can hold them."""
        return Deviation(
            loss=_finite(self.loss), layers={layer: _finite(deviation) for layer, deviation in self.layers.items()}
        )


def _finite(deviation: float) -> float | None:
    return known(deviation if math.isfinite(deviation) else Unknown("not a finite number"))


def compare(
    model: nn.Module, batch: TensorBatch, request: Request, ranks: Ranks, steps: int, statistics: Statistics
) -> ReplicaDeviations:
    """How far some steps of all ranks are from those of one process, both starting from `model`.

    The same on all ranks.
    """
    batch = _like_parameters(batch, model)
    mine = _share_of(batch, request, ranks)

    shared = copy.deepcopy(model)
    if statistics == "synchronised":
        shared = nn.SyncBatchNorm.convert_sync_batchnorm(shared)
    _train_statistics(shared, statistics)
    replica = replicate(shared, request, ranks)
    updates, result = replica.updates, StepResult(replica.module, replica.updates)
    sequential = _Sequential(model, batch, request, ranks, statistics, updates) if ranks.first else None
    found: list[dict[str, float]] = []

    def mark(phase: str) -> None:
        if phase == "optimizer":
            found.append(_deviations(result, sequential, ranks))

    step, progress = training_step(replica, repeat(mine), request, ranks, mark)
    losses = []
    for number in range(steps):
        hang.begin_untimed(f"step {number + 1} of {steps}, {statistics}", on_gpu=ranks.device.type == "cuda")
        if sequential:
            sequential.step()
        result.begin()
        step()
        assert progress.loss is not None
        losses.append(_loss_deviation(progress.loss.item(), sequential, request, ranks))
    layers = {layer: _largest(deviations[layer] for deviations in found) for layer in found[0]}
    return ReplicaDeviations(_largest(losses), layers)


def _like_parameters(batch: TensorBatch, model: nn.Module) -> TensorBatch:
    """The batch whose real numbers are as precise as the model's; whole ones are tokens and labels."""
    dtype = next(model.parameters()).dtype

    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    images, labels = batch
    changed = user_program.moved(images, change)
    return changed, changed if labels is images else labels


def _share_of(batch: TensorBatch, request: Request, ranks: Ranks) -> TensorBatch:
    """This rank's samples of a global batch."""
    first = sum(request.share(rank) for rank in range(ranks.rank))
    images, labels = batch
    if not request.model.code:
        mine = slice(first, first + request.share(ranks.rank))
        return images[mine], labels[mine]
    own = user_program.cut(images, workloads.own_parts(request.model), first, request.share(ranks.rank))
    return own, own


class StepResult:
    """What a step does to each parameter: its gradient, or where the strategy `updates`, the change of its values."""

    def __init__(self, module: nn.Module, updates: bool) -> None:
        self.module, self._updates = module, updates
        self._before: list[torch.Tensor] = []

    def begin(self) -> None:
        """A step begins."""
        if self._updates:
            self._before = [parameter.detach().clone() for parameter in self.module.parameters()]

    def of(self, index: int, parameter: nn.Parameter) -> torch.Tensor:
        return self._before[index] - parameter.detach() if self._updates else _gradient(parameter)


class _Sequential:
    """One process that trains on the whole batch, and keeps what its latest step did to the parameters."""

    def __init__(
        self,
        model: nn.Module,
        batch: TensorBatch,
        request: Request,
        ranks: Ranks,
        statistics: Statistics,
        updates: bool,
    ) -> None:
        alone = Ranks(rank=0, local_rank=ranks.local_rank, world_size=1, device=ranks.device)
        self._model = copy.deepcopy(model)
        _train_statistics(self._model, statistics)
        self._request = _of_one(request)
        replica = replicate(self._model, self._request, alone)
        self._step, self._progress = training_step(replica, repeat(batch), self._request, alone, self._keep)
        self._result, self._kept_at = StepResult(self._model, updates), "end" if updates else "optimizer"
        self.expected: list[torch.Tensor] = []  # of each parameter, contiguous

    def step(self) -> None:
        """Trains for one step; refuses a learning rate with which the loss is no number any more."""
        self._result.begin()
        self._step()
        if not math.isfinite(self.loss):
            learning_rate = self._request.optimizer.learning_rate
            raise ConfigError(
                f"optimizer.learning_rate={learning_rate:g}: the loss of one process is not finite, so that there is "
                "nothing to compare with; lower it, or take fewer steps"
            )

    @property
    def loss(self) -> float:
        assert self._progress.loss is not None, "no step has run"
        return float(self._progress.loss.item())

    def _keep(self, phase: str) -> None:
        if phase == self._kept_at:
            every = enumerate(self._model.parameters())
            self.expected = [self._result.of(index, parameter).contiguous() for index, parameter in every]
            if self._request.precision == "fp16":  # the update will unscale gradients in place
                self.expected = [expected.clone() for expected in self.expected]


# ---- deviations -----------------------------------------------------------------------------------------------------


def _deviations(result: StepResult, sequential: _Sequential | None, ranks: Ranks) -> dict[str, float]:
    """Layer -> deviation of its result from that of one process, on the rank where it is largest.

    One message after the other, so that no rank but the first needs room for a second set of gradients.
    """
    names, parameters = zip(*result.module.named_parameters(), strict=True)
    layer_of = [name.rpartition(".")[0] or name for name in names]
    gradients = [Gradient(layer, parameter.numel()) for layer, parameter in zip(layer_of, parameters, strict=True)]
    differences: list[float] = []
    sizes: list[float] = []
    for message in ddp_buckets(gradients, first_bucket_bytes=MESSAGE_BYTES, cap_bytes=MESSAGE_BYTES):
        elements = [gradient.elements for gradient in message.gradients]
        places = range(len(sizes), len(sizes) + len(elements))
        mine = [result.of(index, parameters[index]).reshape(-1) for index in places]
        expected = mine[0].new_empty(sum(elements))
        if sequential:
            torch.cat([sequential.expected[index].reshape(-1) for index in places], out=expected)
        ranks.broadcast(expected)
        for values, of_one in zip(mine, expected.split(elements), strict=True):
            differences.append(_root_mean_square(values - of_one))
            sizes.append(_root_mean_square(of_one))
    least = NOTHING * max(sizes)
    mine_by_layer: dict[str, float] = {}
    for layer, difference, size in zip(layer_of, differences, sizes, strict=True):
        mine_by_layer[layer] = _largest((mine_by_layer.get(layer, 0.0), difference / max(size, least)))
    every = ranks.gather(mine_by_layer)
    return {layer: _largest(of_rank[layer] for of_rank in every) for layer in mine_by_layer}


def _loss_deviation(loss: float, sequential: _Sequential | None, request: Request, ranks: Ranks) -> float:
    expected = ranks.gather(sequential.loss if sequential else 0.0)[0]  # rank 0's counts
    shares = zip(range(ranks.world_size), ranks.gather(loss), strict=True)
    mean: float = sum(request.share(rank) * of_rank for rank, of_rank in shares) / request.batch_size
    return abs(mean - expected) / abs(expected)


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None, "a layer table has no parameters that are not used"
    gradient = parameter.grad
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient  # of which each rank has its rows


def _root_mean_square(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64).item()) / math.sqrt(values.numel())


def _largest(deviations: Iterable[float]) -> float:
    """The largest; NaN, which compares with nothing, is larger than any."""
    return max(deviations, key=lambda deviation: (math.isnan(deviation), deviation))


# ---- the model and its batch ----------------------------------------------------------------------------------------


def _without_chance(model: nn.Module) -> nn.Module:
    """Dropout and batch normalisation as in evaluation, whatever holds them as in training (auxiliary classifiers).

    Attention drops by a rate of its own, or by that of a child, without calling it: rates are 0, too.
    """
    for module in model.modules():
        if not any(module.children()):
            module.eval()
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)
    return model


def _normalise_by(model: nn.Module, batch: TensorBatch, request: Request) -> None:
    """Sets the statistics of batch normalisation to those of this batch: activations are then as in training."""
    normalisations = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    usual = [module.momentum for module in normalisations]
    for module in normalisations:
        module.train()
        module.momentum = 1.0  # the new value replaces the old one
    if not normalisations:
        return
    with torch.no_grad():
        workloads.call(request.model, model, batch[0])
    for module, momentum in zip(normalisations, usual, strict=True):
        module.eval()
        module.momentum = momentum


def _train_statistics(model: nn.Module, statistics: Statistics) -> None:
    """Lets batch normalisation compute its statistics anew in each step, unless they are frozen."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.train(statistics in ("synchronised", "per rank"))


def _double(request: Request) -> Request:
    """The request in double precision: no autocast, and buckets of twice the bytes, which hold the same gradients."""
    strategy = request.strategy
    if isinstance(strategy, Bucket):
        first = strategy.first_bucket_mb
        if first is None and strategy.bucket_cap_mb is None:
            first = FIRST_BUCKET_BYTES / MIB
        cap = strategy.bucket_cap_mb or CAP_BYTES / MIB
        doubled = msgspec.structs.replace(strategy, first_bucket_mb=first and 2 * first, bucket_cap_mb=2 * cap)
        if not missing_feature(doubled):
            strategy = doubled
    return msgspec.structs.replace(request, precision="fp32", strategy=strategy)


def _of_one(request: Request) -> Request:
    """The same global batch, whatever the scaling, in one process, which takes it whole and keeps all that it needs."""
    return msgspec.structs.replace(request, gpus=1, devices=None, split="even", accumulate=1, checkpointing=False)


def _stored_batch(request: Request, ranks: Ranks) -> tuple[TensorBatch, InputState | None]:
    """One global batch of the request's input, the same on all ranks; and, in rank 0, the state of that input."""
    state = None
    if request.model.code:  # each rank makes one, to have tensors for rank 0's
        own = OwnBatches(request.model, request.batch_size, ranks.device, request.seed)
        for tensor in tensors(next(own)[0]):
            ranks.broadcast(tensor)
        known_state = InputState(**own.state(), reads_bytes=known(Unknown("no windows were timed")))
        return next(own), known_state if ranks.first else None
    if ranks.first:
        batches = inputs.open_for(_of_one(request), 0, ranks.device)
        images, labels = next(batches)
        state = InputState(**batches.state(), reads_bytes=known(Unknown("no windows were timed")))
        batches.close()
    else:
        images, labels = inputs.empty_batch(request, ranks.device)
    ranks.broadcast(images)
    ranks.broadcast(labels)
    return (images, labels), state
