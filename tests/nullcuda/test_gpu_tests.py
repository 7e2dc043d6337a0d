"""The tests of GPUs on null GPUs, as `pytest -m gpu` runs them where no driver is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import nullcuda
from tests.nullcuda import build

ROOT = Path(__file__).parents[2]


@pytest.mark.dist
def test_the_tests_of_gpus_pass_on_null_gpus():
    if nullcuda.has_driver():
        pytest.skip("this machine has NVIDIA's driver: pytest -m gpu runs on its GPUs")
    if reason := build.missing():
        pytest.skip(reason)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDA_VISIBLE"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "gpu", *nullcuda.IN_CI]
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
