"""The null device itself: values, captures, races and time are what its README says."""

import ctypes
from pathlib import Path

import pytest
import torch

from tests.gpu.conftest import ON_NULL_GPUS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]


@pytest.fixture
def values():
    return torch.arange(4.0, device="cuda")


def test_values_are_real(values):
    assert (values * 2 + 1).tolist() == [1, 3, 5, 7]
    assert (values @ values).item() == 14
    assert values.half().pow(2).sum().item() == 14


def test_a_graph_does_its_work_at_each_launch_and_at_no_capture(values):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values += 1
        doubled = values * 2
    assert values.tolist() == [0, 1, 2, 3]
    graph.replay()
    graph.replay()
    assert (values.tolist(), doubled.tolist()) == ([2, 3, 4, 5], [4, 6, 8, 10])


@pytest.mark.parametrize("unsafe", [torch.cuda.synchronize, lambda: torch.cuda.current_stream().query()])
def test_what_is_unsafe_in_a_capture_ends_it(values, unsafe):
    with pytest.raises(RuntimeError, match="cudaErrorStreamCapture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        unsafe()
    assert values.sum().item() == 6


def test_a_stream_that_joins_a_capture_has_to_come_back(values):
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="Unjoined"), torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            values += 1
    assert values.tolist() == [0, 1, 2, 3]


def test_an_event_belongs_to_its_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(0))
    with pytest.raises((RuntimeError, ValueError), match=r"InvalidResourceHandle|device"):
        event.record(torch.cuda.current_stream(1))


def test_time_is_what_was_described():
    """Kernels behind a sleep take 5 us each, and a stream that waits for another ends behind it."""
    start, end, side_end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    values, side = torch.zeros(4, device="cuda"), torch.cuda.Stream()
    torch.cuda._sleep(int(2 * 1.98e9))  # 2 s, in which a slow host launches the rest
    start.record()
    for _ in range(200):
        values += 1
    end.record()
    side.wait_event(end)
    with torch.cuda.stream(side):
        values += 1
        side_end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) == pytest.approx(1.0, rel=0.05)
    assert start.elapsed_time(side_end) == pytest.approx(1.005, rel=0.05)


# ---- races -----------------------------------------------------------------------------------------------------------

RACES = {
    "a read that does not wait for the write": ("values += 1", "with torch.cuda.stream(side): values.sum()"),
    "a write that does not wait for the read": ("values.sum()", "with torch.cuda.stream(side): values.zero_()"),
    "two writes": ("values += 1", "with torch.cuda.stream(side): values += 1"),
    "input on a side stream": (
        "with torch.cuda.stream(side): values.copy_(torch.ones(4).pin_memory(), non_blocking=True)",
        "values.sum()",
    ),
    "memory that its allocator gave to another tensor": (
        "with torch.cuda.stream(side): values.sum()",
        "del values; other = torch.ones(4, device='cuda')",
    ),
}
_ORDERED = {
    "an event": "done = torch.cuda.Event(); done.record(first); second.wait_event(done)",
    "a synchronisation": "first.synchronize()",
}


def races(folder: Path, name: str, between: str = "") -> str:
    """What the detector writes of two pieces of work on two streams."""
    before, after = RACES[name]
    found, runtime = folder / "races.txt", ctypes.CDLL("libcudart.so.13")
    streams = (torch.cuda.Stream(), torch.cuda.Stream())
    first, second = reversed(streams) if before.startswith("with") else streams
    with torch.cuda.stream(streams[0]):
        names = {
            "torch": torch,
            "values": torch.zeros(4, device="cuda"),
            "side": streams[1],
            "first": first,
            "second": second,
        }
        torch.cuda.synchronize()
        runtime.null_detect_races(str(found).encode())
        for line in (before, between, after):
            exec(line, names)
        runtime.null_detect_races(b"")
    return found.read_text() if found.exists() else ""


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_with_both_stacks(name, tmp_path):
    found = races(tmp_path, name)
    assert found.startswith("race: ")
    assert found.count("  before:\n    ") == found.count("  now:\n    ") == found.count("race: ")


@pytest.mark.parametrize("between", _ORDERED.values(), ids=_ORDERED)
@pytest.mark.parametrize("name", RACES)
def test_what_is_ordered_is_no_race(name, between, tmp_path):
    assert races(tmp_path, name, between) == ""
