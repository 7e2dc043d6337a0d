"""A model in DDP as a strategy sets it up, and the buckets that DDP makes of its gradients."""

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from resnetx.choices import Bucket
from resnetx.measure.rank.distributed import Ranks, Send
from resnetx.record import Unknown
from resnetx.workloads.buckets import CAP_BYTES, MIB


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
