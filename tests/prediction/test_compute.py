"""The source of compute times: measured, between two batches, rescaled, by the roofline, or refused."""

import msgspec
import pytest

import resnetx
from resnetx import workloads
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import load, parts_table
from resnetx.prediction import roofline
from resnetx.prediction.compute import of_point, of_roofline
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.traced_step import jitter_of, of_trace
from tests.prediction.made_traces import batch, layer, trace

H200, DGX1 = load("dgx-h200"), load("dgx1-p100")
REQUEST = request_from(compose({"model": "alexnet", "batch_size": 64, "input": "synthetic", "gpus": 1}))
TABLE = workloads.table(REQUEST.model, REQUEST.image_size)


def of_alexnet(size, factor=1.0, **changed):
    """A trace of AlexNet in which every layer takes what the roofline says of an H200."""
    gpu = parts_table("gpus")["h200-sxm5-141gb"]
    times = roofline.modelled_step(roofline.fitted(), TABLE, REQUEST.image_size, size, gpu, "fp32").layers
    layers = [
        layer(each.name, each.forward_s * factor, each.backward_s * factor, each.gradient_bytes) for each in times
    ]
    return batch(size, layers, **changed)


def test_a_traced_batch_is_taken_as_it_was_measured():
    found = of_trace(trace(batch(8, [layer("a", 1, 2, 4)], update_s=0.5)), 8, H200, 0, None)
    assert (found.source, found.step.forward_s, found.step.backward_s, found.step.update_s) == ("measured", 1, 2, 0.5)
    assert "NVIDIA H200" in found.note


def test_layers_are_stretched_to_the_step_that_nobody_watched():
    watched = batch(8, [layer("a", 1, 2)], update_s=1.0, clean_s=[2.0, 2.0], input_wait_s=[0.0])
    step = of_trace(trace(watched), 8, H200, 0, None).step
    assert (step.forward_s, step.backward_s, step.update_s) == (0.5, 1.0, 0.5)


def test_waiting_for_input_is_no_computing():
    watched = batch(8, [layer("a", 1, 1)], clean_s=[3.0], input_wait_s=[1.0], input_s=[0.25])
    step = of_trace(trace(watched), 8, H200, 0, None).step
    assert (step.compute_s, step.input_s) == (2.0, 0.25)


def test_between_two_traced_batches_lies_a_line_and_the_note_says_so():
    small, large = batch(4, [layer("a", 1, 3)]), batch(8, [layer("a", 2, 5)])
    found = of_trace(trace(small, large), 6, H200, 0, None)
    assert (found.step.forward_s, found.step.backward_s) == (1.5, 4.0)
    assert "between its batches 4 and 8" in found.note


@pytest.mark.parametrize("size", [2, 16])
def test_outside_of_the_traced_batches_nothing_is_guessed(size):
    with pytest.raises(ConfigError, match=f"and {size} is outside of them"):
        of_trace(trace(batch(4, [layer("a", 1, 3)]), batch(8, [layer("a", 2, 5)])), size, H200, 0, None)


def test_the_spread_of_clean_steps_is_the_error():
    steady = of_trace(trace(batch(8, [layer("a", 1, 1)], clean_s=[2.0, 2.0, 2.0])), 8, H200, 0, None)
    noisy = of_trace(trace(batch(8, [layer("a", 1, 1)], clean_s=[1.9, 2.0, 2.1])), 8, H200, 0, None)
    assert steady.error == 0
    assert noisy.error == pytest.approx(2 * 0.1 / 2.0)


def test_another_gpu_gets_times_rescaled_layer_by_layer():
    known = trace(of_alexnet(64, 1.5), request=REQUEST)
    found = of_trace(known, 64, DGX1, 0, TABLE)
    model, target = roofline.fitted(), DGX1.gpu_part(0)
    expected = roofline.modelled_step(model, TABLE, REQUEST.image_size, 64, target, "fp32").layers
    assert found.source == "rescaled"
    assert [each.forward_s for each in found.step.layers] == pytest.approx([1.5 * each.forward_s for each in expected])
    assert found.error >= model.error


def test_what_is_no_layer_of_the_table_is_rescaled_like_all_others_together():
    measured = of_alexnet(64)
    times = msgspec.structs.replace(measured.times, layers=[*measured.times.layers, layer("loss", 1.0, 0.0)])
    known = trace(msgspec.structs.replace(measured, times=times), request=REQUEST)
    before, after = (of_trace(known, 64, system, 0, TABLE).step for system in (H200, DGX1))
    ratio = sum(each.forward_s + each.backward_s for each in after.layers[:-1]) / sum(
        each.forward_s + each.backward_s for each in before.layers[:-1]
    )
    assert after.layers[-1].forward_s == pytest.approx(ratio)


def test_the_clock_of_a_trace_is_named_and_another_one_is_rescaled_to():
    known = trace(of_alexnet(64), request=REQUEST, sm_clock_Hz=1980e6)
    measured, again, slower = (of_trace(known, 64, H200, 0, TABLE, clock) for clock in (None, 1970e6, 990e6))
    assert (measured.source, again.source, slower.source) == ("measured", "measured", "rescaled")
    assert "at 1980 MHz" in measured.note
    assert "to h200-sxm5-141gb at 990 MHz" in slower.note
    assert 1.2 < slower.step.forward_s / measured.step.forward_s <= 2.0  # what memory limits stays


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"device": "CPU"}, "say nothing of a GPU"),
        ({"device": "Some GPU"}, "is in no table of parts"),
    ],
)
def test_a_trace_that_says_nothing_of_a_system_is_refused(changed, sentence):
    with pytest.raises(ConfigError, match=sentence):
        of_trace(trace(batch(8, [layer("a", 1, 1)]), **changed), 8, DGX1, 0, None)


def test_a_host_bound_trace_is_good_for_its_own_host_only():
    bound = trace(batch(8, [layer("a", 1, 1)], host_bound=True))
    assert of_trace(bound, 8, H200, 0, None).source == "measured"  # its CPU is the same
    other = msgspec.structs.replace(bound, cpu="AMD EPYC 7742 64-Core Processor")
    with pytest.raises(ConfigError, match="waited for the host"):
        of_trace(other, 8, H200, 0, None)


def of_two_clocks(**changed):
    """A step that the device alone runs in 2 s, and the host queues in 5, as batch 8 of a trace."""
    return trace(batch(8, [layer("a", 1, 1)], clean_s=[5.0, 5.0], host_s=[5.0, 5.0], host_bound=True), **changed)


def test_a_device_that_was_held_back_has_times_of_its_own_on_any_host():
    own = of_trace(of_two_clocks(), 8, H200, 0, None)
    assert (own.step.compute_s, own.step.queue_s) == (2.0, 5.0)  # not stretched to the clean step
    other = of_trace(of_two_clocks(cpu="AMD EPYC 7742"), 8, H200, 0, None)
    assert (other.step.compute_s, other.step.queue_s) == (2.0, 5.0)
    bound_by_device = batch(8, [layer("a", 2, 2)], clean_s=[5.0, 5.0], host_s=[3.0, 3.0])
    assert of_trace(trace(bound_by_device), 8, H200, 0, None).step.compute_s == 5.0


def test_a_host_bound_step_that_neither_host_nor_device_accounts_for_is_told():
    gone = batch(8, [layer("a", 1, 1)], clean_s=[8.0, 8.0], host_s=[5.0, 5.0])
    found = of_trace(trace(gone), 8, H200, 0, None)
    assert found.step.compute_s == pytest.approx(2 * 8 / 5)
    assert "its layers add up to 62% of the clean step" in found.note


def test_a_graph_is_launched_at_once():
    slow_host = trace(of_alexnet(64, clean_s=[9.0, 9.0], host_s=[9.0, 9.0]), request=REQUEST)

    def queued_s(graph):
        request = msgspec.structs.replace(REQUEST, graph=graph)
        workload = Workload.of(request, TABLE, "caffe", slow_host)
        return of_point(Point(workload, Deployment(H200, "nccl2"), (0,), 64, TrainingSetup()), 64).step.queue_s

    assert (queued_s(False), queued_s(True)) == (9.0, 0.0)


def test_by_the_roofline_a_lower_clock_takes_longer():
    fast, slow = (of_roofline(tuple(TABLE), 227, 64, "fp32", DGX1.gpu_part(0), clock) for clock in (None, 1227e6))
    assert fast.source == slow.source == "roofline"
    assert slow.step.compute_s > fast.step.compute_s
    assert "1227 MHz" in slow.note


def test_a_batch_that_is_not_used_may_be_host_bound():
    bound = trace(batch(4, [layer("a", 1, 1)], host_bound=True), batch(8, [layer("a", 1, 1)]), cpu="AMD EPYC 7742")
    assert of_trace(bound, 8, H200, 0, None).source == "measured"
    with pytest.raises(ConfigError, match="at per-GPU batch 4"):
        of_trace(bound, 6, H200, 0, None)


def test_a_gpu_says_nothing_of_ranks_on_cpus():
    with pytest.raises(ConfigError, match="says nothing of ranks on CPUs"):
        of_trace(trace(of_alexnet(64), request=REQUEST), 64, load("cpu-host"), 0, TABLE)


def test_a_step_that_mostly_waits_for_input_is_not_stretched():
    waiting = batch(8, [layer("a", 1, 1)], clean_s=[10.0], input_wait_s=[9.0])
    assert of_trace(trace(waiting), 8, H200, 0, None).step.compute_s == 2.0


def test_what_was_taken_once_has_an_assumed_error_and_says_so():
    found = of_trace(trace(batch(8, [layer("a", 1, 1)])), 8, H200, 0, None)
    assert found.error == 0.3
    assert "measured once" in found.note


def test_jitter_is_how_steps_differ_from_the_next_and_not_how_they_drift():
    drifting = batch(8, [layer("a", 1, 1)], step_s=[1 + place / 100 for place in range(40)])
    shaking = batch(8, [layer("a", 1, 1)], step_s=[1.0, 1.1] * 20)
    assert jitter_of(drifting.times) == pytest.approx(0, abs=1e-9)
    assert jitter_of(shaking.times) == pytest.approx(0.1 / 2**0.5 / 1.05, rel=0.03)
    assert of_trace(trace(shaking), 8, H200, 0, None).jitter == jitter_of(shaking.times)
    assert jitter_of(batch(8, [layer("a", 1, 1)], step_s=[1.0, 2.0]).times) == 0.0  # too few to tell


def test_ranks_on_cpus_have_no_roofline():
    with pytest.raises(ConfigError, match="needs a trace of that host"):
        of_roofline(tuple(TABLE), 227, 8, "fp32", load("cpu-host").gpu_part(0), None)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{}, {"precision": "fp16"}, {"strategy": "server"}])
@pytest.mark.parametrize("study", ["paper", "intensity"])
@pytest.mark.parametrize("system", ["dgx1-v100", "gx8"])
def test_fewer_images_never_take_a_step_longer(system, study, changed):
    """Before, AlexNet on 8 V100 took 19.1 ms for 64 images and 17.8 ms for 192."""
    steps_s = {}
    for point in resnetx.predict(systems=system, study=study, **changed).points:
        steps_s.setdefault((point.workload, point.gpus), {})[point.batch_size] = point.iteration_s
    batches = [[by_batch[batch] for batch in sorted(by_batch)] for by_batch in steps_s.values()]
    assert sum(map(len, batches)) > len(batches)
    for known_s in batches:
        times_s = [time_s for time_s in known_s if time_s is not None]
        assert times_s == sorted(times_s)
