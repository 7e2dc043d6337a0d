"""A CUDA without a device, for tests: see README.md beside this file."""

import ctypes

VARIABLE = "NULLCUDA_GPUS"  # how many GPUs the process sees that this device plays; not there: a real driver, or none
IN_CI = (
    "tests/nullcuda/test_device.py",
    "tests/gpu/test_device_time.py",
)  # of the tests of GPUs, those in each test run
GPUS = 2  # those of `pytest -m gpu` where no GPU is


def has_driver() -> bool:
    """Whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
