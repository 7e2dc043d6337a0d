"""Points from hand-made traces, whose predictions can be said beforehand."""

import math
from dataclasses import replace

import pytest

import resnetx
from resnetx import workloads
from resnetx.choices import After, Bucket, Layerwise
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.systems.system import load
from resnetx.prediction.iteration import deviation_of_ratio
from resnetx.prediction.messages import CONTENTION
from resnetx.prediction.predict import Curve, predict, predicted_curves
from resnetx.prediction.scaling import LEAST_COST, scaling_errors, slowest_of
from resnetx.prediction.scenario import Deployment, Point, ScalingCosts, TrainingSetup, Workload
from resnetx.prediction.step import Overlap
from resnetx.record import Unknown
from tests.prediction.made_traces import batch, layer, trace

H200 = load("dgx-h200")
LAYERS = [layer("a", 1.0, 2.0, 4000), layer("b", 1.0, 2.0, 8000)]
CLEAN = {"update_s": 1.0, "clean_s": [7.0, 7.0]}
TINY = trace(batch(4, LAYERS, **CLEAN), batch(8, LAYERS, **CLEAN))


def flat(**seconds_by_bytes):
    """All-reduces that take these times, on any number of GPUs."""
    points = tuple(MeasuredSize(float(size.strip("_")), seconds) for size, seconds in seconds_by_bytes.items())
    return {None: MeasuredCollective("made up", points)}


# 0.5 s whatever the size: every message costs that, and nothing else
SECONDS = flat(_8=0.5, _4000=0.5, _8000=0.5, _12000=0.5)


FREE = ScalingCosts(variation=0.0, host_load=0.0, parallel_s=0.0)


def tiny(strategy, gpus=2, deployment=None, **setting):
    workload = Workload.of_import(TINY, strategy)
    deployment = deployment or Deployment(H200, "nccl2.4", measured=SECONDS)
    return predict(
        Point(
            workload,
            deployment,
            tuple(range(gpus)),
            4 * gpus,
            TrainingSetup(Overlap(False, False), **setting, costs=FREE),
        )
    ).point


def test_one_gpu_computes_and_sends_nothing():
    found = tiny(After(), gpus=1)
    assert found.iteration_s == 7.0
    assert found.exposed_communication_s == 0
    assert found.limited_by == "compute"
    assert isinstance(found.limiting_link, Unknown)


def test_after_the_backward_pass_nothing_is_hidden():
    assert tiny(After()).iteration_s == pytest.approx(7.5, rel=1e-6)
    assert tiny(After()).exposed_communication_s == pytest.approx(0.5, rel=1e-6)


def test_layer_by_layer_the_first_message_hides_behind_the_second_backward_pass():
    found = tiny(Layerwise())
    assert found.communication_s == pytest.approx(1.0, rel=1e-6)
    lost_s = CONTENTION["nccl2"] * 0.5  # of computing, to the message that hides behind it
    assert found.exposed_communication_s == pytest.approx(0.5 + lost_s, rel=1e-6)


def test_small_gradients_are_one_bucket():
    strategy = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)
    assert tiny(strategy).communication_s == pytest.approx(0.5, rel=1e-6)


def test_a_straggler_holds_up_everybody():
    assert tiny(After(), gpus=8, straggler=1.5).iteration_s == pytest.approx(7.0 * 1.5 + 0.5, rel=1e-6)


def test_the_host_is_a_limit_of_its_own():
    found = tiny(After(), host_s=20.0)
    assert found.iteration_s == pytest.approx(27.5, rel=1e-6)
    assert found.limited_by == "host"


def test_a_host_that_is_too_slow_to_queue_a_step_is_what_it_takes():
    def host_bound(cpu):
        slow = trace(batch(4, LAYERS, clean_s=[9.0, 9.0], update_s=1.0, host_s=[9.0, 9.0]), cpu=cpu)
        return predict(
            Point(Workload.of_import(slow, After()), Deployment(H200, "nccl2.4"), (0,), 4, TrainingSetup())
        ).point

    own = host_bound("Intel(R) Xeon(R) Platinum 8480C")
    assert (own.iteration_s, own.limited_by) == (9.0, "host")
    assert own.limit_share == pytest.approx(2 / 9)
    assert own.interval_s == [9.0, 9.0]  # as its steps are all alike
    other = host_bound("AMD EPYC 7742")
    assert (other.iteration_s, other.interval_s) == (9.0, [7.0, 18.0])
    assert "took 9,000.00 ms to queue a step, and this host is assumed to take between" in other.compute_note


def test_gradients_in_half_precision_are_half_the_bytes():
    slow = {None: MeasuredCollective("made up", (MeasuredSize(6e8, 6.0), MeasuredSize(12e8, 12.0)))}
    large = trace(batch(4, [layer("a", 1.0, 1.0, 12 * 10**8)]))
    point = Point(
        Workload.of_import(large, After()), Deployment(H200, "nccl2.4", measured=slow), (0, 1), 8, TrainingSetup()
    )
    whole = predict(point).point.communication_s
    half = predict(replace(point, setting=TrainingSetup(gradients="bf16"))).point.communication_s
    assert (whole, half) == (pytest.approx(12.0, rel=0.01), pytest.approx(6.0, rel=0.01))


def test_the_interval_holds_the_prediction_and_widens_with_the_error_of_messages():
    plain = tiny(After(), deployment=Deployment(H200, "nccl2.4"))
    low, high = plain.interval_s
    assert low < plain.iteration_s < high
    known = tiny(After())  # made-up points that agree to the last digit, and a trace without spread
    scaling = scaling_errors().spread.times(LEAST_COST)
    ends = [known.iteration_s * math.exp(-scaling.faster), known.iteration_s * math.exp(scaling.slower)]
    assert known.interval_s == pytest.approx(ends, rel=1e-5)
    assert high / plain.iteration_s > ends[1] / known.iteration_s


def test_nothing_is_known_of_what_computing_loses_to_messages_so_the_interval_has_both_ends():
    """Two messages of 0.5 s, of which one hides: at best it costs nothing, at worst as much as one that does not."""
    found = tiny(Layerwise())
    scaling = scaling_errors().spread.times(LEAST_COST)
    best, worst = (math.log(end_s / found.iteration_s) for end_s in (7.5, 8.0))
    assert found.interval_s == pytest.approx(
        [
            found.iteration_s * math.exp(-math.hypot(best, scaling.faster)),
            found.iteration_s * math.exp(math.hypot(worst, scaling.slower)),
        ],
        rel=1e-3,
    )


def test_ranks_wait_for_the_slowest_of_them():
    assert slowest_of(1, 0.1) == 1.0
    assert slowest_of(2, 0.1) == pytest.approx(1 + 0.1 / math.pi**0.5, abs=0.003)  # exact for two
    assert slowest_of(8, 0.1) == pytest.approx(1.14236, abs=0.002)  # Harter 1961: 1.42360 of eight
    assert slowest_of(1024, 0.0) == 1.0


def test_ranks_on_one_host_crowd_each_other():
    on_cpu = trace(*TINY.batches, device="CPU", cpus=8)
    times = []
    for crowding in (None, 1.2):
        measured = {2: MeasuredCollective("made up", SECONDS[None].points, gpus=2, crowding=crowding)}
        deployment = Deployment(load("cpu-host"), "gloo", measured=measured)
        times.append(
            predict(Point(Workload.of_import(on_cpu, After()), deployment, (0, 1), 8, TrainingSetup())).point.compute_s
        )
    assert times[1] == pytest.approx(1.2 * times[0])


def test_ranks_on_cpus_pay_for_moving_gradients():
    on_cpu = trace(*TINY.batches, device="CPU")
    measured = {2: MeasuredCollective("made up", tuple(replace(each, cpu_share=1.0) for each in SECONDS[None].points))}
    alone = Point(
        Workload.of_import(on_cpu, Layerwise()),
        Deployment(load("cpu-host"), "gloo", measured=measured),
        (0, 1),
        8,
        TrainingSetup(),
    )
    # b's message starts at 4 s; it and a's backward pass want 4 cores of 2 until it ends, 1 s later.
    assert predict(alone).point.iteration_s == pytest.approx(7.0 + 0.5 + 0.5, rel=1e-6)
    many = replace(alone, workload=replace(alone.workload, trace=trace(*TINY.batches, device="CPU", cpus=8)))
    assert predict(many).point.iteration_s == pytest.approx(7.0 + 0.5, rel=1e-6)


def googlenet(batch_size):
    request = request_from(compose({"model": "googlenet", "batch_size": batch_size, "input": "synthetic"}))
    return Workload.of(request, workloads.table(request.model, request.image_size), "caffe")


FABRIC = Deployment(load("dgx1-p100"), "nccl2")
GOOGLENET = Point(googlenet(64), FABRIC, tuple(range(8)), 64, TrainingSetup(sensitivity=True))


# ---- curves


def test_speedups_are_over_one_gpu_and_points_beyond_the_system_are_refused():
    workload, deployment = Workload.of_import(TINY, After()), Deployment(H200, "nccl2.4", measured=SECONDS)
    placements = [(tuple(range(gpus)), 4 * gpus) for gpus in (2, 16)]
    setting = TrainingSetup(Overlap(False, False), costs=FREE)
    answers = predicted_curves([Curve(workload, deployment, setting, placements, ((0,), 4))])
    two, sixteen = (answer.point for answer in answers)
    assert two.speedup == pytest.approx(2 * 7.0 / 7.5, rel=1e-6)
    assert two.baseline_gpus == 1
    assert (sixteen.outcome, sixteen.reason) == (
        "refused",
        "gpus=16: dgx-h200 has 8 GPUs; several of it: nodes=2 network=edr100",
    )


def paper(gpus, batch_size=512, **changed):
    placements, baseline = [(tuple(range(count)), batch_size) for count in gpus], ((0,), batch_size)
    setting = TrainingSetup(memory_model="caffe", **changed)
    answers = predicted_curves([Curve(googlenet(batch_size), FABRIC, setting, placements, baseline)])
    return [answer.point for answer in answers]


def test_a_point_without_memory_is_missing_and_is_no_baseline():
    one, two, four = paper([1, 2, 4])
    assert [each.outcome for each in (one, two, four)] == ["oom", "oom", "ok"]
    assert "GB of memory; each GPU has" in one.reason
    assert (four.baseline_gpus, four.speedup) == (4, 1.0)


def test_points_keep_the_order_that_was_asked_for_whichever_is_the_baseline():
    eight, two, four = paper([8, 2, 4])
    assert [each.gpus for each in (eight, two, four)] == [8, 2, 4]
    assert (eight.baseline_gpus, four.baseline_gpus) == (4, 4)
    assert eight.speedup == pytest.approx(eight.images_per_s / four.images_per_s)
    assert isinstance(two.speedup, Unknown)


def test_more_memory_brings_it_back():
    assert [each.outcome for each in paper([1, 2, 4], memory_bytes=10**12)] == ["ok"] * 3


def test_a_calibration_is_of_the_machine_as_it_is_described():
    points = tuple(MeasuredSize(float(size), 5e-5 + size / 10e9) for size in (8, 2**20, 2**24, 2**28))
    deployment = Deployment(load("dgx1-p100"), "nccl2", measured={4: MeasuredCollective("made up", points)})
    plain, faster, quicker = (
        changed.plan((0, 1, 2, 3)).cost(2**28).time_s
        for changed in (deployment, replace(deployment, bandwidth={"nvlink1": 2.0}), replace(deployment, latency=0.5))
    )
    assert plain == pytest.approx(points[-1].time_s, rel=1e-9)
    assert faster == pytest.approx(plain / 2, rel=0.02)
    assert quicker < plain


@pytest.mark.slow
def test_what_is_faster_already_is_made_faster_still():
    (plain,), (twice,) = (
        [
            found.sensitivity
            for found in [predict(replace(GOOGLENET, deployment=replace(FABRIC, bandwidth=bandwidth))).point]
        ]
        for bandwidth in ({}, {"nvlink1": 2.0})
    )
    assert all(each.gain > -1e-9 for each in twice)
    assert twice[0].gain < plain[0].gain


def test_what_a_link_is_worth_is_sorted_and_the_limiting_one_comes_first():
    (found,) = paper([8], batch_size=64, sensitivity=True)
    gains = [each.gain for each in found.sensitivity]
    assert gains == sorted(gains, reverse=True)
    assert found.sensitivity[0].what == "bandwidth of nvlink1 x 2"
    assert {each.what for each in found.sensitivity} >= {"bandwidth of pcie3 x 2", "latency of collectives / 2"}


def test_an_uneven_batch_is_as_slow_as_the_larger_share():
    steps = trace(batch(4, [layer("a", 1.0, 1.0, 4)]), batch(5, [layer("a", 2.0, 2.0, 4)]))
    workload = Workload.of_import(steps, After())
    deployment = Deployment(H200, "nccl2.4", measured=SECONDS)
    found = predict(Point(workload, deployment, (0, 1), 9, TrainingSetup(Overlap(False, False), costs=FREE))).point
    assert found.iteration_s == pytest.approx(4.5, rel=1e-6)


# ---- speed-ups


def test_what_is_wrong_with_both_points_cancels_in_a_speedup_and_what_scaling_costs_does_not():
    """One rate, equally wrong on one GPU and on eight, moves no speed-up; that nobody knows the host's part does."""
    one, other = (((-0.3, 0.3), (0.0, 0.0)), (0.0, 0.0)), (((-0.3, 0.3), (-0.1, 0.4)), (-0.2, 0.5))
    low, high = deviation_of_ratio(one, other)
    assert (low, high) == pytest.approx((-math.hypot(0.4, 0.5), math.hypot(0.1, 0.2)))
    assert deviation_of_ratio(other, one) == pytest.approx((-high, -low))


def test_a_speedup_has_an_interval_that_is_narrower_than_those_of_its_points():
    request = request_from(compose({"model": "alexnet", "batch_size": 512, "input": "synthetic"}))
    workload = Workload.of(request, workloads.table(request.model, request.image_size), "caffe")
    system = load("gx8")
    deployment = Deployment(system, system.library)
    placements = [(tuple(range(gpus)), 512) for gpus in (1, 8)]
    curve = Curve(workload, deployment, TrainingSetup(), placements, placements[0])
    one, eight = (each.point for each in predicted_curves([curve]))
    low, high = eight.speedup_interval
    assert low < eight.speedup < high
    assert eight.efficiency_interval == pytest.approx([low / 8, high / 8])
    assert high / low < math.prod(point.interval_s[1] / point.interval_s[0] for point in (one, eight))
    assert one.speedup_interval == [1.0, 1.0]


MLPX = {"model": "mlpx", "model.x": 8, "model.width": 512}


@pytest.mark.parametrize(
    "words",
    [
        {"systems": ["gx8"], "batch_size": 64, "input": "dali", "rate": {64: 1000.0}, **MLPX},
        {"systems": ["pcie-gen5"], "batch_size": 196608, "accumulate": 12, "rate": {2048: 336512.0}, **MLPX},
        {
            "systems": ["dgx1-v100"],
            "model": "alexnet",
            "batch_size": 1024,
            "framework": "mxnet",
            "rate": {1024: 1984.0},
        },
        {"systems": ["dgx1-p100"], "model": "alexnet", "batch_size": 1024, "rate": {1024: 1000.0, 128: 800.0}},
        {"systems": ["dgx-a100"], "model": "resnet50", "batch_size": 64, "scaling": "weak", "samples": "by-host"},
        {"systems": ["pcie-a100"], "model": "resnet50", "batch_size": 256, "transport": "host", "rate": {256: 1000.0}},
    ],
)
def test_rate_speedup_and_efficiency_of_one_answer_do_not_contradict_each_other(words):
    """A speed-up is no further off than the rates of both points; of the first, 5.07 times was said where 4.87 is."""
    one, *others = resnetx.predict(gpus=[1, 2, 8], memory="1TB", **words).points
    slowest, fastest = (one.batch_size / end_s for end_s in reversed(one.interval_s))
    for point in others:
        low, high = (point.batch_size / end_s for end_s in reversed(point.interval_s))
        assert point.speedup_interval[0] >= low / fastest * (1 - 1e-9)
        assert point.speedup_interval[1] <= high / slowest * (1 + 1e-9)
        assert point.efficiency_interval == pytest.approx([end / point.gpus for end in point.speedup_interval])
        if not point.open:
            assert point.speedup == pytest.approx(point.images_per_s / one.images_per_s)
            assert point.speedup_interval[0] <= point.speedup <= point.speedup_interval[1]
