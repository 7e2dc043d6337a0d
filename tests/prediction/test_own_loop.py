"""What launches a step: resnetx's own loop, or that of a program of others; on one H100, beside what it measured."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import resnetx
from resnetx import choices, workloads
from resnetx.api.known_rates import KnownRates
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.system import load
from resnetx.prediction.compute import of_point
from resnetx.prediction.host_step import (
    AUTOCAST,
    OWN_ON,
    RATED,
    OWN_LOOP_s,
    OWN_OPERATION_s,
    assumed,
    operations_of,
    rated,
)
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.stated_rates import StatedRates
from resnetx.record import RunFolder, RunSummaryReader

RESULTS = Path(__file__).parents[2]
WORDS = {"model": "torchvision", "model.name": "resnet50", "input": "synthetic", "gpus": 1, "precision": "bf16"}
REQUEST, H100 = request_from(compose(WORDS)), load("dgx-h100")
TABLE = workloads.table(REQUEST.model, REQUEST.image_size)
OPERATIONS, RATING = operations_of(TABLE), rated(H100)
CASTING = AUTOCAST * RATED / RATING  # times as long as the constants of its own loop say, on this host


def run(folder):
    return RunSummaryReader()(RunFolder(RESULTS / folder))


EIGHT = run(f"{OWN_ON}/resnet50_b8_g1_04b15337_r1")
FULL = run(f"{OWN_ON}/resnet50_b256_g1_cf84a53e_r1")
MEASURED_s = 128 / run("results/h100/train/20261126T151517015_resnet50_b128_g1_d3cc6a35").images_per_s


def step(images, rates=None, **how):
    setting = TrainingSetup(framework=how.pop("framework", None))
    workload = replace(Workload.of(msgspec.structs.replace(REQUEST, **how), TABLE, "torch"), rates=rates)
    return of_point(Point(workload, Deployment(H100, H100.library), (0,), images, setting), images)


def rate_of(*runs, source="measured"):
    by_batch = tuple((run.request.batch_size, run.images_per_s) for run in runs)
    return StatedRates(by_batch, source, "rate=")


def holds(computed, time_s):
    predicted_s = computed.step.compute_s
    return predicted_s * (1 - computed.best) <= time_s <= predicted_s * (1 + computed.error)


def test_ten_steps_of_one_h100_beside_what_was_predicted_before():
    """Before the constants of resnetx's own loop were chosen on them (docs/method/validation.md)."""
    (total,) = resnetx.compare(
        str(RESULTS / "results/h100/predicted/prediction.json"), str(RESULTS / OWN_ON)
    ).totals  # fmt: skip
    assert (total.points, total.covered) == (10, 6)
    assert total.mean_absolute_error == pytest.approx(0.788, abs=0.001)


@pytest.mark.parametrize(
    ("rates", "how", "loop"),
    [
        (None, {}, "own"),
        (rate_of(FULL), {}, "own"),
        (rate_of(FULL, source="stated"), {}, "others'"),
        (None, {"framework": "mxnet"}, "mxnet's"),
        (rate_of(FULL), {"framework": "mxnet"}, "mxnet's"),
        (None, {"graph": True}, "none"),
        (rate_of(FULL, source="stated"), {"graph": True}, "none"),
    ],
)
def test_whose_loop_launches_a_step(rates, how, loop):
    launches_s = {
        "own": CASTING * (OWN_LOOP_s + OWN_OPERATION_s * OPERATIONS),
        "others'": assumed(OPERATIONS, None, "bf16", rating=RATING).time_s,
        "mxnet's": assumed(OPERATIONS, "mxnet", "bf16", rating=RATING).time_s,
        "none": 0.0,
    }
    times = step(256, rates, **how).step
    assert times.queue_s + times.host_s == pytest.approx(launches_s[loop])


class Launches(TorchDispatchMode):
    """How many operations that compute something are dispatched."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        moves = operation.is_view or operation.overloadpacket._qualified_op_name in WITHOUT_KERNEL
        self.count += not moves
        return operation(*args, **(kwargs or {}))


WITHOUT_KERNEL = {
    f"aten::{name}" for name in ("_unsafe_view", "detach", "empty", "empty_like", "empty_strided", "lift_fresh")
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "convnext_tiny", "vit_b_16", "swin_b"])
def test_a_step_launches_as_many_operations_as_pytorch_dispatches(name):
    """An attention has 27 in both passes, a shifted window's 48; a convolution two."""
    model = choices.Torchvision(name=name, classes=1000)
    network = workloads.build(model, 224).train()
    with Launches() as counted:
        torch.nn.functional.cross_entropy(
            network(torch.randn(1, 3, 224, 224).expand(2, -1, -1, -1)), torch.tensor([0, 1])
        ).backward()
    assert operations_of(workloads.table(model, 224)) == pytest.approx(counted.count, rel=0.1)


def test_a_rate_at_a_batch_that_the_host_limits_says_little_of_the_gpu():
    """25.6 ms at batch 8, of which launching takes 22.9 or more: it may leave a long time to the GPU, or hardly any."""
    computed = step(128, KnownRates("rate=", None, runs=(EIGHT,)).of(REQUEST, 128))
    assert holds(computed, MEASURED_s)
    assert MEASURED_s < computed.step.compute_s < 2.6 * MEASURED_s
    assert not holds(computed, MEASURED_s / 2)
    assert "halfway to what a roofline says" in computed.note
    assert holds(computed, 5 * MEASURED_s)


def test_a_rate_at_a_batch_that_the_gpu_limits_says_all_of_it():
    computed = step(512, rate_of(FULL))
    assert "roofline" not in computed.note
    assert computed.step.compute_s == pytest.approx(2 * 256 / FULL.images_per_s, rel=0.1)


@pytest.mark.parametrize("run", [EIGHT, FULL])
def test_a_stated_rate_may_be_of_resnetx_or_of_a_program_of_others(run):
    """One step, whoever tells its rate: the interval of a stated rate has that of a measured one in it."""
    stated, measured = (step(128, rate_of(run, source=source)) for source in ("stated", "measured"))
    assert holds(stated, MEASURED_s)
    for end in (1 - measured.best, 1 + measured.error):
        assert holds(stated, measured.step.compute_s * end * (1 + 1e-9 * (1 - end)))


def test_what_a_loop_does_once_a_step_it_does_once_for_all_parts_of_a_batch():
    one, four = step(32).step, step(128, accumulate=4).step
    launches_s = CASTING * OWN_OPERATION_s * OPERATIONS
    assert one.queue_s == pytest.approx(CASTING * OWN_LOOP_s + launches_s)
    assert four.queue_s == pytest.approx(CASTING * OWN_LOOP_s + 4 * launches_s)


def test_a_known_step_in_parts_does_once_what_its_loop_does_once():
    """Of a program of others nobody knows what it repeats for each part: the interval reaches from all to nothing."""
    known = {source: StatedRates(((32, 32 / 0.03),), source, "rate=") for source in ("measured", "stated")}
    one, four = (step(32 * parts, known["measured"], accumulate=parts).step for parts in (1, 4))
    assert one.compute_s == pytest.approx(0.03)
    assert four.queue_s == pytest.approx(4 * one.queue_s - 3 * CASTING * OWN_LOOP_s)
    stated = step(128, known["stated"], accumulate=4)
    assert four.compute_s < stated.step.compute_s
    assert holds(stated, four.compute_s)


def test_between_a_step_of_the_host_and_one_of_the_gpu_no_fixed_time_of_the_gpu_is_known():
    """25.6 ms at 8 images, 64.2 at 256: 37.3 at 128 by the curve, 34.8 if the GPU has no fixed time; 34.5 measured."""
    assert holds(step(128, KnownRates("rate=", None, runs=(EIGHT, FULL)).of(REQUEST, 128)), MEASURED_s)


def test_a_graph_is_as_short_at_small_batches_as_one_h100_measured():
    """From the eager rate at 256 images; an operation takes as long as where a host launches it."""
    for images, folder in ((8, "resnet50_b8_g1_4e5e4437_r1"), (32, "resnet50_b32_g1_ba395de9_r1")):
        measured_s = images / run(f"results/h100/one-gpu-rest/{folder}").images_per_s
        computed = step(images, rate_of(FULL), graph=True)
        assert computed.step.compute_s == pytest.approx(measured_s, rel=0.1)
        assert holds(computed, measured_s)
        assert computed.error > 0.2
        assert holds(step(images, graph=True), measured_s)


@pytest.mark.parametrize(("images", "measured_ms"), [(1, 50.233), (2, 56.13), (4, 71.465), (8, 105.381)])
def test_graphs_of_a_v100_are_as_short_as_published(images, measured_ms):
    """pytorch/benchmark, pull request 706: ResNet-50 in fp32, three steps with Adam, from the rate of 64 images."""
    words = {"systems": "dgx1-v100", "gpus": 1, "model": "torchvision", "model.name": "resnet50", "graph": True}
    (point,) = resnetx.predict(**words, batch_size=images, rate={64: 3 * 64 / 0.562029}).points
    shortest_s, longest_s = point.interval_s
    assert shortest_s < measured_ms / 3e3 < longest_s
