"""NVML: the GPUs that a run could use, through a fake of a machine with four."""

import pynvml
import pytest

from resnetx.measure.machine.nvidia import gpus_here, hidden_by_mistake, open_nvml
from resnetx.record import Unknown


class FourGpus:
    """NVML of a machine with four GPUs, which counts how often it is open."""

    NVMLError = pynvml.NVMLError

    def __init__(self) -> None:
        self.open = 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        assert self.open
        return 4

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        return ("GPU-1b2c", "GPU-3d4e", "GPU-3d5f", "GPU-6a7b")[gpu]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: int) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


class NoDriver(FourGpus):
    def nvmlInit(self) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def test_without_a_driver_there_are_no_gpus_and_a_reason():
    assert gpus_here(NoDriver()) == 0
    assert isinstance(open_nvml(NoDriver()), Unknown)


def test_counting_gpus_leaves_nvml_closed(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = FourGpus()
    assert gpus_here(nvml) == 4
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        ("0,1", 2),
        (" 3 , 1", 2),
        ("GPU-1b2c,GPU-3d4e", 2),
        ("GPU-1,GPU-6", 2),  # as short as they may be
        ("GPU-1,GPU-3", 1),  # two GPUs begin so
        ("GPU-9f,GPU-1", 0),
        ("0,GPU-1b2c", 0),  # one GPU, twice
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("0,-1,1", 1),
        ("0,1,4,2", 2),  # there is no GPU 4
    ],
)
def test_cuda_shows_the_gpus_before_the_first_invalid_id(monkeypatch, visible, count):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus_here(FourGpus()) == count


@pytest.mark.parametrize(("visible", "wrong"), [("GPU-9f", True), ("4", True), ("0,0", True), ("3", False)])
def test_gpus_that_are_named_wrongly_are_no_machine_without_gpus(monkeypatch, visible, wrong):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    said = hidden_by_mistake(FourGpus())
    assert said.startswith(f"CUDA_VISIBLE_DEVICES={visible} selects none of this machine's 4 GPUs") == wrong
    assert bool(said) == wrong
    assert hidden_by_mistake(NoDriver()) == ""


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_gpus_that_are_hidden_on_purpose_leave_the_cpus(monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hidden_by_mistake(FourGpus()) == ""
