"""Staged images as ranks and records have them."""

from pathlib import Path

import msgspec
import pytest
import torch

from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.measure.rank import main
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import RunFile, Staging, read_task

ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


@pytest.fixture
def of_images(tmp_path, request_of):
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/1.jpg").write_bytes(b"image")
    folders = {"input.root": f"{tmp_path}/root", "input.threads": 1}

    def make(kind, **more):
        return request_of({"input": kind, **folders, **more})

    return make


@pytest.mark.parametrize("kind", ["dali", "torchvision"])
def test_ranks_read_from_the_stage_and_the_record_says_what_it_took(kind, of_images, tmp_path):
    request = of_images(kind, **{"input.stage": f"{tmp_path}/local"})
    reading, (node,) = main.staged_images(request, ALONE)
    assert reading.input.root == node.folder and node.folder.startswith(f"{tmp_path}/local/resnetx-")
    assert msgspec.structs.replace(reading, input=request.input) == request
    assert (node.rank, node.images, node.size_bytes, node.copied_bytes) == (0, 1, 5, 5)
    _, (again,) = main.staged_images(request, ALONE)
    assert again.copied_bytes == 0


def test_the_ranks_of_each_node_read_from_its_own_folder(of_images, tmp_path, monkeypatch):
    request = of_images("torchvision", **{"input.stage": f"{tmp_path}/local"})
    nodes = [Staging(f"node{rank}", rank, f"/of/{rank}", 1, 5, 5, 0.0, 0.0, 0.0) for rank in (0, 2)]
    monkeypatch.setattr(Ranks, "gather", lambda self, mine: [nodes[0], None, nodes[1], None])
    read = [main.staged_images(request, Ranks(rank, rank % 2, 4, ALONE.device))[0].input.root for rank in (1, 3)]
    assert read == ["/of/0", "/of/2"]


@pytest.mark.parametrize(
    ("kind", "why"), [("synthetic", "no images are read"), ("torchvision", "input.stage is not set")]
)
def test_what_is_not_staged_has_its_reason(kind, why, of_images, request_of):
    request = request_of({"input": "synthetic"}) if kind == "synthetic" else of_images(kind)
    reading, found = main.staged_images(request, ALONE)
    assert reading is request and why in found


def test_where_images_are_read_is_part_of_the_request_and_of_no_key_of_before(of_images, tmp_path):
    here, staged = of_images("dali"), of_images("dali", **{"input.stage": f"{tmp_path}/local"})
    assert here.key != staged.key
    assert staged.twins["input"].input.stage == f"{tmp_path}/local"
    assert (here.settings["input.stage"], staged.settings["input.stage"]) == (None, f"{tmp_path}/local")
    with pytest.raises(ConfigError, match=r"input\.stage is empty: expected a folder of each node"):
        check(of_images("dali", **{"input.stage": ""}))


def test_synthetic_input_has_no_stage(request_of):
    with pytest.raises(ConfigError, match=r"input\.stage"):
        request_of({"input": "synthetic", "input.stage": "/local"})


def test_requests_of_images_of_before_keep_their_keys():
    file = Path(__file__).parents[2] / "results/cpu-2core/quickstart/resnet-1_b16_g1_a661be61_r1/run.json"
    made = read_task(file, RunFile).request
    assert made.input.stage is None
    assert made.key == "a661be61"
