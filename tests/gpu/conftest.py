"""GPUs as they are here: one is enough for every test, and with more the ranks spread out.

pytest -m gpu tests/gpu
"""

import msgspec
import pytest
import torch

from resnetx.measure.machine.software import nccl_version
from resnetx.measure.rank.distributed import SHARING_NCCL
from tests.gpu.resuming import pytest_collection_modifyitems, pytest_runtest_logreport  # noqa: F401  (pytest's hooks)

RANKS = 2


@pytest.fixture(autouse=True)
def _a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device (or `-m gpu` was not given)")


@pytest.fixture
def on_ranks(task_of):
    """Makes the run file of a run of two ranks: on two GPUs, or else sharing one, which takes an NCCL that can."""

    def make(settings, **more):
        if torch.cuda.device_count() >= RANKS:
            return task_of(settings, gpus=RANKS, **more)
        if tuple(map(int, nccl_version().split("."))) < SHARING_NCCL:
            pytest.skip(f"one GPU, and NCCL {nccl_version()} does not join several ranks of it")
        return msgspec.structs.replace(task_of(settings, gpus=RANKS, **more), oversubscribe=True)

    return make


@pytest.fixture
def has_bf16():
    return torch.cuda.get_device_capability() >= (8, 0)
