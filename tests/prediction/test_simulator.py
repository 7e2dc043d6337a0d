"""Tiny scenarios against literal timelines, and properties that hold for any graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.drawn_examples  # noqa: F401
from resnetx.prediction.task_graph import Resource, Task, simulate


def timeline(tasks, resources, capacities=None):
    spans = simulate(tasks, resources, capacities)
    return list(zip(spans.start_s, spans.end_s, strict=True))


def test_nothing_takes_no_time():
    assert timeline([], []) == []


def test_a_chain_on_one_resource():
    assert timeline([Task(0, 2.0), Task(0, 1.0, (0,)), Task(0, 4.0, (1,))], [Resource("r")]) == [(0, 2), (2, 3), (3, 7)]


def test_independent_tasks_queue_for_one_server_in_their_order():
    assert timeline([Task(0, 2.0), Task(0, 1.0), Task(0, 1.0)], [Resource("r")]) == [(0, 2), (2, 3), (3, 4)]


def test_two_servers_take_two_at_a_time():
    tasks = [Task(0, 2.0), Task(0, 1.0), Task(0, 2.0)]
    assert timeline(tasks, [Resource("r", servers=2)]) == [(0, 2), (0, 1), (1, 3)]


def test_who_is_ready_first_is_served_first_whatever_its_place():
    tasks = [Task(0, 3.0), Task(0, 1.0), Task(1, 5.0, (0,)), Task(1, 1.0, (1,)), Task(1, 2.0)]
    resources = [Resource("a", servers=2), Resource("b")]
    assert timeline(tasks, resources) == [(0, 3), (0, 1), (3, 8), (2, 3), (0, 2)]


def test_what_is_ready_at_one_time_is_served_in_the_order_of_the_tasks():
    tasks = [Task(0, 1.0), Task(1, 1.0), Task(2, 1.0, (1,)), Task(2, 2.0, (0,))]
    assert timeline(tasks, [Resource("a"), Resource("b"), Resource("c")])[2:] == [(1, 2), (2, 4)]


def test_a_join_waits_for_the_last():
    tasks = [Task(0, 2.0), Task(1, 5.0), Task(0, 1.0, (0, 1))]
    assert timeline(tasks, [Resource("a"), Resource("b")]) == [(0, 2), (0, 5), (5, 6)]


def test_tasks_of_no_length_end_as_they_start():
    tasks = [Task(0, 1.0), Task(0, 0.0, (0,)), Task(0, 0.0, (1,)), Task(0, 1.0, (2,))]
    assert timeline(tasks, [Resource("r")]) == [(0, 1), (1, 1), (1, 1), (1, 2)]


def test_two_that_share_one_core_go_on_at_half_speed():
    shared = [Resource("a", pool="cores"), Resource("b", pool="cores")]
    assert timeline([Task(0, 2.0), Task(1, 1.0)], shared, {"cores": 1.0}) == [(0, 3), (0, 2)]


def test_a_pool_that_is_large_enough_slows_nobody():
    shared = [Resource("a", pool="cores"), Resource("b", pool="cores")]
    assert timeline([Task(0, 2.0), Task(1, 1.0)], shared, {"cores": 2.0}) == [(0, 2), (0, 1)]


def test_who_joins_later_slows_the_rest_of_what_runs():
    # b starts at 1, when a has 3 s left: together they need 1.5 cores of 1, so both go on at 2/3 until b ends at 2.5.
    resources = [Resource("a", pool="cores"), Resource("b", pool="cores", demand=0.5), Resource("c")]
    tasks = [Task(0, 4.0), Task(2, 1.0), Task(1, 1.0, (1,))]
    assert timeline(tasks, resources, {"cores": 1.0}) == [(0, 4.5), (0, 1), (1, 2.5)]


def test_a_task_cannot_wait_for_a_later_one():
    with pytest.raises(AssertionError, match="task 0 waits for task 1"):
        simulate([Task(0, 1.0, (1,)), Task(0, 1.0)], [Resource("r")])


@pytest.mark.parametrize("work_s", [float("inf"), float("nan"), -1.0])
def test_work_has_to_end(work_s):
    with pytest.raises(AssertionError, match="never ends"):
        simulate([Task(0, work_s)], [Resource("r")])


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 30))
    servers = draw(st.lists(st.integers(1, 3), min_size=3, max_size=3))
    tasks = []
    for place in range(count):
        after = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        tasks.append(Task(draw(st.integers(0, 2)), draw(st.integers(0, 9)) / 4, tuple(sorted(after))))
    pools = draw(st.booleans())
    return tasks, [Resource(f"{i}", n, "p" if pools else None) for i, n in enumerate(servers)], {"p": 2.0}


@pytest.mark.slow
@given(graphs())
def test_every_task_runs_once_after_what_it_waits_for_and_no_resource_is_overfull(graph):
    tasks, resources, capacities = graph
    spans = simulate(tasks, resources, capacities)
    for place, task in enumerate(tasks):
        assert spans.end_s[place] >= spans.start_s[place] + task.work_s - 1e-9
        assert all(spans.start_s[place] >= spans.end_s[before] for before in task.after)
    for index, resource in enumerate(resources):
        mine = [place for place, task in enumerate(tasks) if task.resource == index]
        for place in mine:
            middle = (spans.start_s[place] + spans.end_s[place]) / 2
            assert sum(spans.start_s[other] < middle < spans.end_s[other] for other in mine) <= resource.servers


@pytest.mark.slow
@given(graphs())
def test_the_same_graph_has_the_same_timeline(graph):
    assert simulate(*graph) == simulate(*graph)


@pytest.mark.slow
@given(graphs())
def test_a_server_is_never_idle_while_somebody_waits_for_it(graph):
    tasks, resources, capacities = graph
    spans = simulate(tasks, resources, capacities)
    for place, task in enumerate(tasks):
        ready = max((spans.end_s[before] for before in task.after), default=0.0)
        if spans.start_s[place] > ready:
            others = [o for o, other in enumerate(tasks) if other.resource == task.resource and o != place]
            middle = (ready + spans.start_s[place]) / 2
            busy = sum(spans.start_s[o] <= middle < spans.end_s[o] for o in others)
            assert busy == resources[task.resource].servers
