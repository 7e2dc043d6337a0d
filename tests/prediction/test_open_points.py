"""Points that nothing determines: one process for all GPUs, and what closes them."""

from math import log

import pytest

import resnetx
from resnetx.prediction.scaling import LAUNCH_s

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


@pytest.mark.parametrize("system", ["dgx1-v100", "dgx-h100", "dgx-a100"])
def test_half_precision_on_several_nodes_may_take_much_longer_and_hardly_less(system, tmp_path):
    """Steps of one cluster of V100s took a time more, those of another of the same GPUs none."""
    settings = {"systems": [system], **RESNET, **HALF, "rate": 1400}
    sixteen = predicted(**settings)[1]
    single = predicted(**settings | {"precision": "fp32", "batch_size": 128, "rate": 380})[1]
    assert not sixteen.open and not single.open
    shorter, longer = (abs(log(end_s / sixteen.iteration_s)) for end_s in sixteen.interval_s)
    assert longer > 1.5 * shorter
    assert longer > log(single.interval_s[1] / single.iteration_s)
    closed = predicted(**settings, calibration=[rates(tmp_path, 16, 16219)])[1]
    assert closed.images_per_s == pytest.approx(16219)
    assert not closed.open
