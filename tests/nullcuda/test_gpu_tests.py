"""The tests of GPUs on null GPUs, as `pytest -m gpu` runs them where no driver is, and the first hour on a machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx.api.images import images
from resnetx.host import node_name
from tests import nullcuda
from tests.nullcuda import build
from tests.preloaded.start import serving
from tests.test_gpu_day import HOUR, SMALL, STEPS, day_with

ROOT = Path(__file__).parents[2]
OF_GPUS, OF_THE_DEVICE = "tests/gpu", "tests/nullcuda"


@pytest.fixture(autouse=True)
def _buildable():
    if nullcuda.has_driver():
        pytest.skip("this machine has NVIDIA's driver: pytest -m gpu runs on its GPUs")
    if reason := build.missing():
        pytest.skip(reason)


def pass_on_null_gpus(marks: str, *folders: str, **variables: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDA_VISIBLE"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", marks, *folders]
    done = subprocess.run(command, cwd=ROOT, env=plain | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.dist
def test_the_tests_of_gpus_pass_on_two_null_gpus():
    pass_on_null_gpus("gpu and not long", OF_GPUS, OF_THE_DEVICE)


@pytest.mark.long
def test_they_pass_on_one_null_gpu_too():
    pass_on_null_gpus("gpu and not long", OF_GPUS, **{nullcuda.VARIABLE: "1"})


@pytest.mark.long
def test_the_long_tests_of_null_gpus_pass():
    pass_on_null_gpus("gpu and long", OF_GPUS, OF_THE_DEVICE)


@pytest.mark.long
def test_the_first_hour_and_the_day_run_from_the_first_line_to_the_last(tmp_path, monkeypatch, pytestconfig):
    """With torchvision in place of DALI; of its tests those of the machine, as all others have a test above."""
    images(tmp_path / "images", images={"classes": 2, "per_class": 16, "size": "256"})
    folder = build.kept(pytestconfig.cache.mkdir("nullcuda"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in build.playing(folder, nullcuda.GPUS).items():
        monkeypatch.setenv(name, value)
    listed = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "gpu", "--collect-only", "tests/gpu"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    passed = [name for name in names if "::" in name and "test_machine.py" not in name]
    assert passed
    trained = f"{SMALL} batch_size=4 scaling=weak input=torchvision input.threads=1"
    here = tmp_path / "results" / node_name() / "gpu_day"
    here.mkdir(parents=True)
    (here / "passed.txt").write_text("\n".join(passed))
    path = f"{os.environ['PYTHONPATH']}:{ROOT}"
    with serving(here) as python:
        Path(python).with_name("pytest").unlink()  # which starts such a Python itself
        day = day_with(tmp_path, python)
        status, steps, out = day("hour", TRAIN=trained, PYTHONPATH=path)
        assert (status, [*steps]) == (0, [name for name in HOUR if name != "images"]), out
        status, steps, out = day("day", TRAIN=trained, PYTHONPATH=path)
    assert (status, [*steps]) == (0, [name for name in STEPS if name != "images"]), out
    assert {name for name in steps if steps[name] == "done earlier"} == {*HOUR} - {"images"}
    assert "mean |error|" in out
