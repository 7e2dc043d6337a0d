"""Chrome traces that we write have the structure that Perfetto and chrome://tracing read."""

import json
from itertools import pairwise

from resnetx.formats import chrome
from resnetx.record.prediction import PredictedTask
from resnetx.record.traces import LayerTimes, TracedLayer


def task(name: str, lane: str, start_s: float, end_s: float) -> PredictedTask:
    return PredictedTask(name=name, lane=lane, start_s=start_s, end_s=end_s)


TASKS = [
    task("all-reduce 1", "collectives", 0.4, 0.8),
    task("forward conv1", "compute", 0.0, 0.25),
    task("backward conv1", "compute", 0.25, 0.5),
    task("all-reduce 2", "collectives", 0.5, 0.9),  # beside the first
    task("all-reduce 3", "collectives", 0.8, 1.0),
]


def test_lanes_are_threads_and_what_overlaps_gets_threads_of_its_own() -> None:
    events = json.loads(chrome.encode({"AlexNet": TASKS}))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["AlexNet"]
    bars = [(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert bars == [
        ("compute", "forward conv1", 0.0, 250_000.0),
        ("compute", "backward conv1", 250_000.0, 250_000.0),
        ("collectives", "all-reduce 1", 400_000.0, 400_000.0),
        ("collectives", "all-reduce 3", 800_000.0, 200_000.0),
        ("collectives (2)", "all-reduce 2", 500_000.0, 400_000.0),
    ]


def test_every_timeline_is_a_process_and_every_event_is_complete() -> None:
    trace = json.loads(chrome.encode({"two GPUs": TASKS, "four GPUs": TASKS[:2]}))
    assert trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert list(processes.values()) == ["two GPUs", "four GPUs"]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    for event in events:
        assert event["ph"] in ("M", "X")
        assert event["pid"] in processes
        if event["ph"] == "X":
            assert (event["pid"], event["tid"]) in named
            assert event["ts"] >= 0 and event["dur"] >= 0 and event["name"] and event["cat"]


def test_a_measured_trace_is_laid_end_to_end_in_the_order_of_its_work() -> None:
    layers = [
        TracedLayer(name=name, forward_s=[1.0, 1.5], backward_s=[2.0, 2.5], communication_s=[], gradient_bytes=4)
        for name in ("conv", "fc")
    ]
    times = LayerTimes(
        clock="host",
        layers=layers,
        input_s=[0.5],
        host_to_device_s=[0.0, 0.0],
        update_s=[0.25, 0.25],
        step_s=None,
        clean_step_s=None,
        device_busy=None,
        host_bound=None,
        gradient_copy_Bps=None,
    )
    assert tasks_of_one(times) == ["input", "forward conv", "forward fc", "backward fc", "backward conv", "update"]
    tasks = list(chrome.measured_tasks(times, 2))
    work = ["forward conv", "forward fc", "backward fc", "backward conv", "update"]
    assert [each.name for each in tasks] == ["input", *work, *work]
    assert all(before.end_s == after.start_s for before, after in pairwise(tasks))
    assert tasks[-1].end_s == 0.5 + 6.25 + 8.25


def tasks_of_one(times: LayerTimes) -> list[str]:
    return [task.name for task in chrome.measured_tasks(times, 1)]
