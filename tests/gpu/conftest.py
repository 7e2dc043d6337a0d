"""GPUs as they are here: one is enough for every test, and with more the ranks spread out.

pytest -m gpu tests/gpu

Where no GPU is, tests/nullcuda plays two of them (`NULLCUDA_GPUS=1`: one); what it cannot show is skipped by name.
"""

import msgspec
import pytest
import torch

from resnetx.measure.machine import nccl_version
from resnetx.measure.rank.distributed import SHARING_NCCL
from tests import nullcuda
from tests.gpu import resuming
from tests.gpu.resuming import pytest_runtest_logreport  # noqa: F401  (a hook of pytest)

RANKS = 2
ON_NULL_GPUS = nullcuda.is_preloaded()
_DALI = "DALI asks a driver, which null GPUs have none of"
NOT_ON_NULL_GPUS = {
    "test_a_batch_of_dali_stays_as_it_is_while_a_slow_step_reads_it": _DALI,
    "test_batches_of_dali_are_born_on_the_gpu_and_show_the_same_pixels": _DALI,
    "test_a_file_that_must_not_reach_a_decoder_is_refused_by_name_on_the_gpu_too": _DALI,
    "test_several_ranks_train_on_images_that_dali_decodes_on_the_gpu": _DALI,
    "test_more_elements_than_32_bits_count_are_right": "null GPUs have the host's memory, and this takes 48 GB",
}
LOOKS_AT_VALUES = {
    "test_one_gpu_trains_in_every_precision_that_it_has_and_a_step_may_be_a_graph",
    "test_graphs_hold_what_ranks_exchange",
    "test_gpu_ranks_equal_one_process_with_synchronised_statistics",
    "test_a_parameter_server_trains_on_a_gpu_and_on_the_host",
    "test_a_wrong_sum_is_seen",
}  # all others run where products make zeros (NULLCUDA_COMPUTE=0)
_LONG_MESSAGES = {"test_the_backward_pass_goes_on_while_a_bucket_is_on_its_way"}  # longer than what the host launches
# Of these null GPUs run what is named; others are `long` there, as tests/nullcuda or another of these shows the same.
ONCE_ON_NULL_GPUS = {
    "test_other_models_train": ("alexnet", "gptx"),
    "test_several_ranks_train_over_nccl_and_say_which_way_the_gradients_went": ("bucket",),
    "test_the_backward_pass_goes_on_while_a_bucket_is_on_its_way": (),  # test_truth.py: to 5 %
    "test_graphs_hold_what_ranks_exchange": ("bucket", "layerwise"),
    "test_nccls_messages_start_when_they_are_ready_and_end_before_the_update": ("bucket",),
    "test_gpu_ranks_equal_one_process_with_synchronised_statistics": ("bucket",),
    "test_a_parameter_server_trains_on_a_gpu_and_on_the_host": ("phases-gpu-nccl", "equality-cpu-gloo"),
    "test_rows_and_graphs_of_half_precision_are_right": ("bf16-graph", "fp16-back-to-back"),
    "test_a_trace_has_device_times_and_says_whether_it_waits_for_the_host": ("fp16",),
}


def pytest_collection_modifyitems(items):
    resuming.pytest_collection_modifyitems(items)
    for item in items if ON_NULL_GPUS else ():
        shown = ONCE_ON_NULL_GPUS.get(item.originalname)
        if shown is not None and item.name.removeprefix(item.originalname).strip("[]") not in shown:
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device (or `-m gpu` was not given)")


@pytest.fixture(autouse=True)
def _on_null_gpus(request, monkeypatch):
    """Skips what null GPUs cannot show; runs of the others start without importing torch in each rank."""
    if not ON_NULL_GPUS:
        return
    name = request.node.originalname
    if reason := NOT_ON_NULL_GPUS.get(name):
        pytest.skip(reason)
    monkeypatch.setenv("NULLCUDA_COMPUTE", str(int(name in LOOKS_AT_VALUES)))
    if name in _LONG_MESSAGES:
        monkeypatch.setenv("NULLCUDA_NCCL_US", "20000")
    request.getfixturevalue("preloaded")


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
