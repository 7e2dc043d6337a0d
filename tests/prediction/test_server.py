"""A parameter server, predicted for a network of three tensors: each time can be said by hand."""

import pytest

from resnetx.choices import After, Server
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.systems.system import load
from resnetx.prediction.messages import HOST_MEMORY_Bps
from resnetx.prediction.predict import predict, simulated
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.step import Overlap
from tests.prediction.made_traces import batch, layer, trace

H200 = load("dgx-h200")
SIZES = {"a": 4_000_000, "b": 8_000_000, "c": 2_000_000}  # bytes, in the order of the forward pass
LAYERS = [layer(name, 1.0, 2.0, size_bytes) for name, size_bytes in SIZES.items()]
TINY = trace(batch(4, LAYERS, update_s=0.5, clean_s=[9.5, 9.5]))
CPU, GPU = Server(device="cpu"), Server(device="gpu")


def point(strategy, gpus=2, deployment=None, **setting):
    overlap = setting.pop("overlap", Overlap(False, False))
    workload = Workload.of_import(TINY, strategy)
    deployment = deployment or Deployment(H200, "nccl2")
    return Point(workload, deployment, tuple(range(gpus)), 4 * gpus, TrainingSetup(overlap, **setting))


def host_s(size_bytes, gpus):
    """Adding up what so many GPUs sent, and updating, in a host's memory."""
    return (1.5 * (gpus - 1) + 2.5) * size_bytes / (0.4 * HOST_MEMORY_Bps)


@pytest.mark.parametrize("gpus", [2, 8])
def test_each_tensor_goes_by_itself_and_all_come_back_behind_the_backward_pass(gpus):
    iteration = simulated(point(CPU, gpus))
    copies = Deployment(H200, "nccl2").star(tuple(range(gpus)), on_host=True)
    to_server = {name: copies.inward.time_s(size) + host_s(size, gpus) for name, size in SIZES.items()}
    back_s = sum(map(copies.outward.time_s, SIZES.values()))
    times = [message.time_s for message in iteration.job.messages]
    assert times == pytest.approx([to_server["c"], to_server["b"], to_server["a"], back_s])
    # All but the tensor that is ready last goes while others are computed.
    copied_s = sum(SIZES.values()) / iteration.steps[0].gradient_copy_Bps
    assert iteration.time_s == pytest.approx(9.5 + copied_s + to_server["a"] + back_s, rel=1e-9)
    assert iteration.exchange.sizes_bytes == (2_000_000, 8_000_000, 4_000_000, 14_000_000)


def test_a_gpu_adds_up_and_updates_by_its_own_rates():
    iteration = simulated(point(GPU, 4))
    copies = Deployment(H200, "nccl2").star((0, 1, 2, 3), on_host=False)
    first, *_ = iteration.job.messages
    adding_s = 3 * 1.5 * 2_000_000 / iteration.steps[0].gradient_copy_Bps
    assert first.time_s == pytest.approx(copies.inward.time_s(2_000_000) + adding_s + 0.5 * 2 / 14)
    assert iteration.exchange.limiting_link == copies.inward.limit == "nvswitch0 to gpu0"


def test_parameters_that_come_during_the_next_forward_pass_are_hidden_but_for_the_first_layers():
    waiting, fetching = (simulated(point(CPU, overlap=Overlap(False, False, each))) for each in (False, True))
    copies = Deployment(H200, "nccl2").star((0, 1), on_host=True).outward
    hidden_s = copies.time_s(SIZES["b"]) + copies.time_s(SIZES["c"])
    assert waiting.time_s - fetching.time_s == pytest.approx(hidden_s)
    assert fetching.exchange.time_s == pytest.approx(waiting.exchange.time_s)


def test_faster_links_and_no_latency_shorten_it_and_the_record_names_the_link():
    found = predict(point(GPU, 4, sensitivity=True)).point
    gains = {each.what: each.gain for each in found.sensitivity}
    assert gains["bandwidth of nvlink4 x 2"] > 0 and gains["latency of collectives / 2"] > 0
    assert gains["bandwidth of pcie5 x 2"] == 0
    assert found.strategy == "server" and found.limiting_link == "nvswitch0 to gpu0"
    assert 0 < found.exposed_communication_s < found.communication_s


def test_half_precision_halves_what_goes_to_the_server_and_not_what_comes_back():
    full, half = (simulated(point(CPU, gradients=each)).exchange.sizes_bytes for each in ("fp32", "bf16"))
    assert half == (*(size // 2 for size in full[:3]), full[3])


@pytest.mark.parametrize("strategy", [CPU, GPU])
def test_a_rank_on_two_nodes_is_no_faster_than_on_one(strategy):
    """Ranks of two nodes waited less for each other than those of one."""
    layers = [layer("a", 1.0, 2.0, 4)]
    one = Workload.of_import(trace(batch(4, layers, update_s=0.5)), strategy)
    deployment = Deployment(load("dgx1-p100", nodes=2, network="edr100"), "nccl2")
    times = [simulated(Point(one, deployment, tuple(range(n)), 4 * n, TrainingSetup())).time_s for n in (2, 4, 8, 16)]
    assert times == sorted(times)


def test_one_gpu_has_no_server():
    assert simulated(point(CPU, gpus=1)).time_s == simulated(point(After(), gpus=1)).time_s


def test_a_calibration_of_collectives_is_refused():
    measured = {None: MeasuredCollective("a bench", (MeasuredSize(8, 0.5), MeasuredSize(8000, 0.5)))}
    with pytest.raises(ConfigError, match="calibration with strategy=server"):
        simulated(point(CPU, deployment=Deployment(H200, "nccl2", measured=measured)))
