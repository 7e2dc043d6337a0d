"""The simulated iteration against the closed forms of docs/ssgd.md, and tiny cases against literal timelines."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.drawn_examples  # noqa: F401
from resnetx.prediction import iteration
from resnetx.prediction.step import (
    HostShare,
    LayerTime,
    Overlap,
    SimulatedJob,
    Step,
    Stretch,
    TimedMessage,
    columns,
)
from resnetx.prediction.task_graph import simulated_s as iteration_s
from resnetx.prediction.task_graph import timeline

NOTHING = Overlap(input=False, host_to_device=False)
seconds = st.integers(0, 40).map(lambda eighths: eighths / 8)


def step(forward, backward, update=0.5, **rest):
    """Layers a, b, c ... with these forward and backward times."""
    layers = [LayerTime("abcdefghij"[i], f, b, 4) for i, (f, b) in enumerate(zip(forward, backward, strict=True))]
    return Step(**columns(layers), update_s=update, **rest)


def job(each, messages=(), overlap=NOTHING, **rest):
    return SimulatedJob((replace(each, ranks=4),), tuple(messages), overlap, **rest)


@st.composite
def steps(draw):
    count = draw(st.integers(1, 6))
    forward, backward = (draw(st.lists(seconds, min_size=count, max_size=count)) for _ in range(2))
    each = step(forward, backward, draw(seconds), input_s=draw(seconds), host_to_device_s=draw(seconds))
    return each, draw(st.lists(seconds, min_size=count, max_size=count))


def layerwise(each, times):
    """A message for each layer, in the order of the backward pass."""
    pairs = zip(each.layers, times, strict=True)
    return [TimedMessage((layer.name,), time_s) for layer, time_s in reversed(list(pairs))]


def not_overlapped(each, times):
    """t_c_no of equation 5."""
    ends = list(accumulate(layer.backward_s for layer in reversed(each.layers)))
    end = 0.0
    for ready, time_s in zip(ends, reversed(times), strict=True):
        end = max(end, ready) + time_s
    return max(end, ends[-1]) - ends[-1]


# ---- equations 1 to 6


@given(steps())
def test_equation_1_one_gpu_overlaps_nothing(drawn):
    each, _ = drawn
    assert iteration_s(job(each)) == pytest.approx(each.input_s + each.host_to_device_s + each.compute_s)


@given(steps())
def test_equation_2_naive_exchange_adds_itself(drawn):
    each, times = drawn
    names = tuple(layer.name for layer in each.layers)
    alone = each.input_s + each.host_to_device_s + each.compute_s
    assert iteration_s(job(each, [TimedMessage(names, sum(times))])) == pytest.approx(alone + sum(times))


@given(steps())
def test_equation_3_overlapped_input(drawn):
    each, times = drawn
    names = tuple(layer.name for layer in each.layers)
    message = TimedMessage(names, sum(times))
    rest = each.compute_s + sum(times)
    read, copy = each.input_s, each.host_to_device_s
    assert iteration_s(job(each, [message], Overlap())) == pytest.approx(max(read, copy, rest))
    assert iteration_s(job(each, [message], Overlap(host_to_device=False))) == pytest.approx(copy + max(read, rest))


@pytest.mark.parametrize(("read", "copy"), [(9, 4), (4, 9)])
def test_a_batch_is_read_while_another_is_copied(read, copy):
    fed = job(step([1], [1], input_s=read, host_to_device_s=copy), [TimedMessage(("a",), 0.5)], Overlap())
    assert (iteration_s(fed), iteration.iteration_s(fed)) == (9, 9)


@given(steps())
def test_equations_4_and_5_wait_free_backpropagation(drawn):
    each, times = drawn
    expected = max(each.input_s, each.host_to_device_s, each.compute_s + not_overlapped(each, times))
    assert iteration_s(job(each, layerwise(each, times), Overlap())) == pytest.approx(expected)


@given(steps(), st.integers(2, 64))
def test_equation_6_speed_up_under_weak_scaling(drawn, ranks):
    each, times = drawn
    each = Step(**columns(each.layers), update_s=each.update_s + 1)
    speedup = ranks * iteration_s(job(each)) / iteration_s(job(each, layerwise(each, times)))
    assert speedup == pytest.approx(ranks * each.compute_s / (each.compute_s + not_overlapped(each, times)))


@given(steps(), st.booleans(), st.booleans(), seconds, st.sampled_from([0.0, 0.5, 1.0, 1.25]))
@pytest.mark.slow
def test_layers_wait_for_parameters_and_input_in_the_formula_as_in_the_simulation(
    drawn, reading, copying, host_s, slowness
):
    each, times = drawn
    fetched = tuple(
        TimedMessage((layer.name,), time_s, name="parameters") for layer, time_s in zip(each.layers, times, strict=True)
    )
    overlap = Overlap(reading, copying)
    whole = replace(job(replace(each, host_s=host_s), layerwise(each, times), overlap), fetched=fetched)
    for by in (Stretch(), Stretch(compute=slowness, messages=0.5, reading=2, copying=0.5)):
        assert iteration.iteration_s(whole, by) == pytest.approx(iteration_s(whole, by))


def test_a_layer_waits_for_its_own_parameters_and_the_step_for_no_others():
    fetched = tuple(TimedMessage((name,), time_s, name="parameters") for name, time_s in (("a", 0.5), ("b", 2.0)))
    whole = replace(job(step([1, 1], [0, 0], update=0.0)), fetched=fetched)
    assert iteration_s(whole) == 0.5 + 2.0 + 1.0  # both parameters, and then b
    bars = {bar.name: (bar.start_s, bar.end_s) for bar in timeline(whole)}
    assert bars["parameters a"] == (0.0, 0.5) and bars["forward a"] == (0.5, 1.5)
    assert bars["parameters b"] == (0.5, 2.5) and bars["forward b"] == (2.5, 3.5)


@given(
    steps(),
    st.booleans(),
    st.booleans(),
    seconds,
    seconds,
    seconds,
    st.sampled_from([0.0, 0.5, 1.0, 1.25]),
    st.integers(1, 3),
)
@pytest.mark.slow
def test_the_formula_that_predictions_use_says_what_is_simulated(
    drawn, reading, copying, host_s, queue_s, unpack_s, slowness, parts
):
    each, times = drawn
    messages = [TimedMessage(made.layers, made.time_s, unpack_s) for made in layerwise(each, times)]
    overlap = Overlap(reading, copying)
    if not host_s and not (reading and copying):
        queue_s = 0.0  # is simulated
    whole = job(replace(each, host_s=host_s, queue_s=queue_s, parts=parts), messages, overlap)
    for by in (
        Stretch(),
        Stretch(compute=slowness, messages=0.5, reading=2, copying=0, host=slowness, queueing=slowness),
    ):
        assert iteration.iteration_s(whole, by) == pytest.approx(iteration_s(whole, by))


# ---- what the formulas leave out


def test_a_steady_iteration_bar_by_bar():
    each = step([1, 2], [3, 4], update=1, input_s=2, host_to_device_s=1)
    bars = timeline(job(each, [TimedMessage(("b",), 5), TimedMessage(("a",), 2)], Overlap()))
    assert [(bar.name, bar.lane, bar.start_s, bar.end_s) for bar in bars] == [
        ("forward a", "compute", 0, 1),
        ("forward b", "compute", 1, 3),
        ("backward b", "compute", 3, 7),
        ("backward a", "compute", 7, 10),
        ("all-reduce 1", "collectives", 7, 12),
        ("all-reduce 2", "collectives", 12, 14),
        ("update", "compute", 14, 15),
        ("copy to device", "copies", 0, 1),  # of the next batch
        ("read", "input", 1, 3),  # the batch behind that
    ]


def test_two_messages_at_once():
    each = step([0, 0], [1, 1], update=0)
    messages = [TimedMessage(("b",), 4), TimedMessage(("a",), 4)]
    assert iteration_s(job(each, messages)) == 9  # 1 + 4 + 4
    assert iteration_s(job(each, messages, at_once=2)) == 6  # the second starts at 2


def test_a_message_waits_for_the_slowest_class_of_ranks():
    fast, slow = step([1], [1], update=1), step([2], [2], update=1)
    both = SimulatedJob((replace(fast, ranks=1023), slow), (TimedMessage(("a",), 1.0),))
    assert iteration_s(both) == 6


def test_a_bucket_is_ready_when_its_last_layer_is():
    each = step([0, 0, 0], [1, 1, 1], update=0)
    assert iteration_s(job(each, [TimedMessage(("c", "b"), 1), TimedMessage(("a",), 1)])) == 4  # sent at 2 and at 3


def test_sums_are_unpacked_before_the_update():
    each = step([0, 0], [1, 1], update=0.25)
    messages = [TimedMessage(("b",), 1, unpack_s=0.5), TimedMessage(("a",), 2, unpack_s=0.5)]
    assert iteration_s(job(each, messages)) == 4.75  # sums at 2 and 4; unpacked until 2.5 and 4.5


def test_sending_takes_cores_from_computing():
    # Two ranks on two cores: computing wants both, a message one more on each. b's message starts at 1 and both then
    # go on at half speed, so that a's backward pass takes 2 s; what is left of the message, 1 s, runs alone.
    each = step([0, 0], [1, 1], update=0)
    host = HostShare(cores=2, computing=1, sending=1)
    shared = SimulatedJob((replace(each, ranks=2),), (TimedMessage(("b",), 2), TimedMessage(("a",), 0)), host=host)
    assert iteration_s(shared) == 4
    assert iteration_s(SimulatedJob(shared.classes, shared.messages)) == 3


def test_the_host_is_a_term_of_its_own():
    assert iteration_s(job(step([1], [1], update=1, host_s=2))) == 5


def test_a_host_that_queues_more_slowly_than_the_device_runs_is_what_a_step_takes():
    each = step([1], [1], update=1)
    message = TimedMessage(("a",), 2)
    assert (
        iteration_s(job(replace(each, queue_s=4), [message], Overlap())) == 5
    )  # the device, with its message, takes longer
    assert iteration_s(job(replace(each, queue_s=7), [message], Overlap())) == 7
    assert iteration_s(job(replace(each, queue_s=7), [message], Overlap()), Stretch(queueing=0)) == 5
    # The next batch is read behind the update, and nothing is queued before it is read.
    assert iteration_s(job(replace(each, queue_s=7, input_s=3), [message], Overlap(False, False))) == 3 + 7 + 1


@given(steps(), seconds, seconds)
@pytest.mark.slow
def test_a_host_that_queues_ahead_is_simulated_until_the_pipeline_is_full(drawn, queue_s, more):
    each, times = drawn
    one = job(replace(each, queue_s=queue_s), layerwise(each, times), Overlap())
    alike = replace(one, classes=(*one.classes, *one.classes))  # of several classes only the simulation knows
    assert iteration.iteration_s(alike) == pytest.approx(iteration.iteration_s(one), rel=1e-3)
    uneven = replace(one, classes=(*one.classes, replace(one.classes[0], ranks=1).slowed(1 + more)))
    assert iteration.iteration_s(uneven) >= iteration.iteration_s(one) * (1 - 1e-3)


@given(steps())
@pytest.mark.slow
def test_the_detailed_graph_takes_as_long_as_the_short_one(drawn):
    each, times = drawn
    whole = job(each, layerwise(each, times), Overlap())
    bars = timeline(whole)
    ends = [bar.end_s for bar in bars if bar.name == "update" and bar.start_s >= 0]
    if each.update_s:
        assert max(ends) == pytest.approx(iteration_s(whole))
