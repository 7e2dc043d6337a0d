"""What is said of the machine, on one that has a GPU."""

import pytest
import torch

from resnetx.measure import held_clock
from resnetx.measure.examination import examine
from resnetx.measure.machine.nvidia import open_nvml
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.measure.rank import nodes
from resnetx.measure.rank.distributed import Ranks
from tests.gpu.conftest import ON_NULL_GPUS

pytestmark = pytest.mark.gpu


def test_the_doctor_used_nccl_and_where_it_is_installed_dali(tmp_path):
    found = {finding.topic: finding for finding in examine(tmp_path, tmp_path)}
    assert found["GPU"].state in ("ok", "limited"), found["GPU"]
    assert found["torch"].state == "ok", found["torch"]
    assert found["NCCL"].state == "ok", found["NCCL"]
    if torch.cuda.device_count() > 1:
        assert found["NCCL between GPUs"].state == "ok", found["NCCL between GPUs"]
    if found["DALI"].state == "ok" and not ON_NULL_GPUS:  # where DALI asks a driver
        assert found["DALI on the GPU"].state == "ok", found["DALI on the GPU"]


def test_the_environment_names_the_gpus_that_torch_sees():
    ranks = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    (machine,) = nodes.machines(None, ranks).values()
    uuids = {gpu.uuid for gpu in machine.gpus}
    assert {f"GPU-{torch.cuda.get_device_properties(gpu).uuid}" for gpu in range(torch.cuda.device_count())} <= uuids
    assert machine.driver and machine.nccl


def test_a_gpu_under_the_load_of_a_clock_is_watched(request_of):
    """It locks no clock: the settings of the machine stay as they are."""
    request = request_of({"model.x": 8, "batch_size": 64, "gpus": 1, "devices": [0]})
    nvml = open_nvml()
    with held_clock.loading([request]) as loads:
        handles = held_clock.handles_of(nvml, loads.uuids)
        clocks = held_clock.supported_clocks(nvml, handles)
        sensors = {gpu: NvmlGpu(nvml, handle) for gpu, handle in handles.items()}
        least_s = 1 if ON_NULL_GPUS else 3  # whose clock does not rise
        pace = held_clock.Pace(counted_s=least_s - 0.5, least_s=least_s, most_s=10)
        seen = held_clock.watching(sensors, loads.check, pace)()
    assert {each.gpu for each in seen} == {*handles}
    assert all(clocks[0] <= each.clock_MHz <= clocks[-1] + 15 for each in seen)
