"""Points that nothing determines: one process for all GPUs, half precision on several nodes, and what closes them."""

import pytest

import resnetx
from resnetx.cli import main
from resnetx.prediction.scaling import MOST_HALF, LAUNCH_s, scaling_errors

pytestmark = pytest.mark.slow  # finds rings

RESNET = {"model": "torchvision", "model.name": "resnet50", "batch_size": 64, "scaling": "weak", "rate": 228}
P100 = {"systems": ["dgx1-p100"], "library": "nccl1", "gpus": [1, 8], **RESNET}
HALF = {"precision": "fp16", "batch_size": 256, "nodes": 2, "gpus": [1, 16], "network": "edr100", "nics": 1}
PUBLISHED = 1612  # images/s of tensorpack on 8 GPUs (results/published/scaling.yaml)


def predicted(**settings):
    return resnetx.predict(**settings).points


def rates(folder, gpus, images_per_s):
    file = folder / "rates.yaml"
    file.write_text(f"source: mine\nimages_per_s: {{{gpus}: {images_per_s}}}\n")
    return str(file)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_one_process_for_all_gpus_is_open_between_two_ends(framework):
    one, eight = predicted(framework=framework, **P100)
    assert one.iteration_s and not one.open
    assert eight.iteration_s is eight.images_per_s is eight.speedup is None
    words = f"model=torchvision batch_size=64 scaling=weak framework={framework} gpus=8"
    assert eight.open == f"resnetx predict dgx1-p100 {words} launch_mode=process-per-gpu"
    fast_s, slow_s = eight.interval_s
    assert fast_s < 8 * 64 / PUBLISHED < slow_s
    assert slow_s - fast_s > LAUNCH_s * 161 * 8  # ResNet-50 has 161 tensors
    low, high = eight.speedup_interval
    assert low < PUBLISHED / 228 < high
    assert not any(point.open for point in predicted(**P100))  # a process for each GPU


def test_a_parameter_server_of_tensorflow_is_not_open():
    assert not any(point.open for point in predicted(framework="tensorflow", strategy="server", **P100))


def test_a_measured_rate_closes_one_process(tmp_path):
    _, eight = predicted(framework="tensorflow", calibration=[rates(tmp_path, 4, 802)], **P100)
    assert not eight.open
    assert eight.images_per_s == pytest.approx(PUBLISHED, rel=0.05)


@pytest.mark.parametrize(("system", "opened"), [("dgx1-v100", True), ("dgx-h100", False), ("dgx-a100", True)])
def test_half_precision_on_several_nodes_is_known_of_what_is_published(system, opened, tmp_path):
    settings = {"systems": [system], **RESNET, **HALF, "rate": 1400}
    one, sixteen = predicted(**settings)
    assert bool(sixteen.open) == opened
    single = predicted(**settings | {"precision": "fp32", "batch_size": 128})[1]
    assert not single.open
    half_s = scaling_errors().costs.between_half_s
    if opened:
        words = "model=torchvision batch_size=256 scaling=weak"
        assert sixteen.open == f"resnetx sweep {words} precision=fp16 gpus=16 nodes=2 launcher=slurm"
        assert main([*sixteen.open.split()[1:], "--dry-run"]) == 0
        assert sixteen.interval_s[1] - sixteen.interval_s[0] > MOST_HALF * half_s
    else:
        assert sixteen.iteration_s - one.iteration_s < half_s / 2
    closed = predicted(**settings, calibration=[rates(tmp_path, 16, 16219)])[1]
    assert closed.images_per_s == pytest.approx(16219)
    assert not closed.open
