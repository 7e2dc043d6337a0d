"""What the installed torch may lack: found by looking for it, not by its version."""

import inspect

from resnetx.choices import Bucket, Strategy


def missing_feature(strategy: Strategy) -> str:
    """Why the installed torch cannot do what the strategy asks for, in one sentence; "" where it can.

    Touches no device; loads torch only for the setting that not every torch has.
    """
    if not isinstance(strategy, Bucket) or strategy.first_bucket_mb is None:
        return ""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    if "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel).parameters:
        return ""
    return (
        f"strategy.first_bucket_mb={strategy.first_bucket_mb:g}: DDP of torch {torch.__version__} has no setting "
        "for the first bucket alone; leave it null, or install a newer torch"
    )
