"""What other programs call the values of some settings: each is taken for the name that resnetx has for it."""

from collections.abc import Mapping
from typing import Any

from resnetx.operations import OPERATIONS

# torch.dtype, and the words of papers
_NUMBERS = {
    "float32": "fp32", "float": "fp32", "single": "fp32", "tfloat32": "tf32",
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
}  # fmt: skip

# CUDA's kinds of cudaMemcpy, as its samples and nvbandwidth shorten them
_COPIES = {
    "d2h": "to-host", "dtoh": "to-host", "device-to-host": "to-host",
    "h2d": "from-host", "htod": "from-host", "host-to-device": "from-host",
    "d2d": "device", "p2p": "device", "peer": "device", "device-to-device": "device",
}  # fmt: skip


def _squeezed(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


# All-reduce is all_reduce in torch and nccl-tests, allReduce in NCCL's names, all-reduce in text.
_COLLECTIVES = {_squeezed(name): name for name in OPERATIONS} | {
    "alltoallsingle": "alltoall", "allgatherintotensor": "allgather", "reducescattertensor": "reduce_scatter",
    "bcast": "broadcast",
}  # fmt: skip

_OF_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "precision": _NUMBERS,
    "gradients": _NUMBERS,
    "dtype": _NUMBERS,
    "copy": _COPIES,
}


def ours(key: str, value: Any) -> Any:
    """A value of a setting, or each of a list of them, by the name that resnetx has for it; others as they are."""
    if isinstance(value, list):
        return [ours(key, item) for item in value]
    if not isinstance(value, str):
        return value
    if key == "collective":
        return _COLLECTIVES.get(_squeezed(value), value)
    return _OF_SETTINGS.get(key, {}).get(value.lower(), value)
