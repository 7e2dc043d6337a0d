"""A CUDA without a device, for tests: see README.md beside this file."""

import ctypes

VARIABLE = "NULLCUDA_GPUS"  # how many GPUs the process sees that this device plays; not there: a real driver, or none
_RUNS = "tests/gpu/test_runs.py::"
IN_CI = (
    "tests/nullcuda/test_device.py",
    "tests/nullcuda/test_faults.py",
    "tests/nullcuda/test_truth.py",
    "tests/nullcuda/test_clock.py::test_a_run_holds_its_clock_in_every_window_and_puts_it_back",
    "tests/nullcuda/test_clock.py::test_a_run_that_fails_leaves_no_clock_locked",
    "tests/gpu/test_device_time.py",
    "tests/nullcuda/test_runs.py::test_a_batch_that_is_copied_ahead_is_there_and_stays_while_a_step_reads_it",
    "tests/nullcuda/test_runs.py::test_a_step_launches_no_more_than_that_of_a_bare_loop",
    "tests/nullcuda/test_runs.py::test_registered_buckets_lie_in_the_memory_of_nccl_once_ddp_has_made_them_anew",
    f"{_RUNS}test_several_ranks_train_over_nccl_and_say_which_way_the_gradients_went",
    f"{_RUNS}test_gpu_ranks_equal_one_process_with_synchronised_statistics",
    f"{_RUNS}test_nccls_messages_start_when_they_are_ready_and_end_before_the_update[after]",
)  # of the tests of GPUs, those in each test run
GPUS = 2  # those of `pytest -m gpu` where no GPU is


def has_driver() -> bool:
    """Whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
