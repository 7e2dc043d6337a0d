"""A CUDA without a device, for tests: see README.md beside this file."""

import ctypes
import os

VARIABLE = "NULLCUDA_GPUS"  # how many GPUs the process sees that this device plays; not there: a real driver, or none
GPUS = 2  # those of `pytest -m gpu` where no GPU is, and the variable does not say


def is_preloaded() -> bool:
    """Whether this process has met this device when it began."""
    return VARIABLE in os.environ and "libcudart" in os.environ.get("LD_PRELOAD", "")


def has_driver() -> bool:
    """Whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
