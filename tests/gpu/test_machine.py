"""What is said of the machine, on one that has a GPU."""

import pytest
import torch

from resnetx.measure import nodes
from resnetx.measure.distributed import Ranks
from resnetx.measure.doctor import examine

pytestmark = pytest.mark.gpu


def test_the_doctor_used_nccl_and_where_it_is_installed_dali(tmp_path):
    found = {finding.topic: finding for finding in examine(tmp_path, tmp_path)}
    assert found["GPU"].state in ("ok", "limited"), found["GPU"]
    assert found["torch"].state == "ok", found["torch"]
    assert found["NCCL"].state == "ok", found["NCCL"]
    if found["DALI"].state == "ok":
        assert found["DALI on the GPU"].state == "ok", found["DALI on the GPU"]


def test_the_environment_names_the_gpus_that_torch_sees():
    ranks = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cuda", 0))
    (machine,) = nodes.machines(None, ranks).values()
    uuids = {gpu["uuid"] for gpu in machine["gpus"]}
    assert {f"GPU-{torch.cuda.get_device_properties(gpu).uuid}" for gpu in range(torch.cuda.device_count())} <= uuids
    assert machine["driver"] and machine["nccl"]
