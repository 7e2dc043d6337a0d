"""A model in DDP as a strategy sets it up, and the buckets that DDP makes of its gradients."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from resnetx.choices import Bucket, Optimizer
from resnetx.measure.rank.distributed import Ranks, Send
from resnetx.record import Unknown
from resnetx.workloads.buckets import CAP_BYTES, MIB

SECOND_BETA = 0.999  # of AdamW: the default of torch


def data_parallel(
    model: nn.Module, strategy: Bucket, ranks: Ranks, send: Send | None = None
) -> DistributedDataParallel:
    """`model` in DDP as the strategy sets it up; `send`: used in place of DDP's own way to start an all-reduce.

    All ranks have to bring the same parameters and buffers: an older DDP would not give them rank 0's buffers.
    """
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = _limits(strategy)
    # BatchNorm statistics stay per rank, as in the paper; broadcasting them would add traffic that no payload counts.
    options["forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"] = False
    wrapped = DistributedDataParallel(
        model,
        device_ids=[ranks.device] if ranks.device.type == "cuda" else None,
        gradient_as_bucket_view=strategy.gradient_as_bucket_view,
        init_sync=False,
        **options,
    )
    if send is not None:
        wrapped.register_comm_hook(send, _sent_by)
    return wrapped


def _limits(strategy: Bucket) -> dict[str, Any]:
    """The limits of DDP's buckets, in MiB; to set both takes a torch whose DDP has a list of them (`features`)."""
    if strategy.first_bucket_mb is None:
        return {"bucket_cap_mb": strategy.bucket_cap_mb}
    return {"bucket_cap_mb_list": [strategy.first_bucket_mb, strategy.bucket_cap_mb or CAP_BYTES / MIB]}


def divide_like_buckets(strategy: Bucket) -> None:
    """Has torch.compile end its first part where DDP's first bucket ends, which it takes to have DDP's default limit.

    (torch 2.15, `_dynamo/backends/distributed.py`: it even refuses a model whose buckets are smaller than that.)
    """
    first_mb = strategy.first_bucket_mb or strategy.bucket_cap_mb
    if first_mb is not None:
        dist._DEFAULT_FIRST_BUCKET_BYTES = int(first_mb * MIB)  # type: ignore[attr-defined]


def _sent_by(send: Send, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's communication hook that does what DDP does without one: the mean over the ranks."""
    sent = send(bucket.buffer().div_(dist.get_world_size()))
    return sent.get_future().then(lambda done: done.value()[0])


def bucket_sizes(wrapped: DistributedDataParallel) -> list[int] | Unknown:
    """Bytes of the buckets that DDP reports after it rebuilt them, in the order in which it sends them."""
    try:
        logged = wrapped._get_ddp_logging_data()
    except AttributeError:
        return Unknown(f"torch {torch.__version__} does not report DDP's buckets")
    sizes = logged.get("rebuilt_bucket_sizes") or logged.get("bucket_sizes") or ""
    return [int(size) for size in str(sizes).split(",") if size.strip()]


# Flat buffers in which gradients are sent: each gradient has its place, and is scaled on its way there.


def copy_scaled(gradient: torch.Tensor, share: float, view: torch.Tensor) -> None:
    """Puts a rank's share of a gradient into its place in a message."""
    torch.mul(gradient, share, out=view)


class MessageBuffer:
    """One flat buffer, and the places of a group's gradients in it."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        elements = sum(parameter.numel() for parameter in parameters)
        self.buffer = torch.zeros(elements, dtype=parameters[0].dtype, device=parameters[0].device)
        self.views: list[tuple[nn.Parameter, torch.Tensor]] = []
        offset = 0
        for parameter in parameters:
            # With the parameter's own strides (channels_last, say) the update reads both in the same order.
            view = self.buffer.as_strided(parameter.size(), parameter.stride(), offset)
            self.views.append((parameter, view))
            offset += parameter.numel()
        self.missing = len(parameters)


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


# The optimizer of a run: stochastic gradient descent with momentum, or AdamW, over some parameters.


def optimizer_options(settings: Optimizer) -> tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]:
    """The class of torch, and what it takes."""
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.kind == "adamw":
        return torch.optim.AdamW, options | {"betas": (settings.momentum, SECOND_BETA)}
    return torch.optim.SGD, options | {"momentum": settings.momentum}


def optimizer_over(parameters: Iterable[nn.Parameter], settings: Optimizer) -> torch.optim.Optimizer:
    """The optimizer over parameters, with its momenta in place."""
    trained = list(parameters)
    sharded = any(isinstance(parameter, DTensor) for parameter in trained)  # which have no fused kernel
    kind, options = optimizer_options(settings)
    # Fused: one pass over the parameters: 5 % of a CPU step of AlexNet.
    optimizer = kind(trained, **options, fused=not sharded, foreach=sharded)
    # Where the first gradients of fp16 overflow, SGD's kernel leaves these unwritten, and reads them in the next step.
    for parameter in trained if settings.kind == "sgd" and settings.momentum else ():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
