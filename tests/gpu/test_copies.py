"""Pair copies on real GPUs; with one GPU those of its own memory, the host's and storage."""

import dataclasses
from itertools import pairwise

import msgspec
import pytest
import torch

from resnetx.copies import SIZES_BYTES, Entry, Flow
from resnetx.measure.bench.gpu_copies import CudaRuntime, GpuCopies
from resnetx.measure.rank import device
from resnetx.measure.rank.distributed import Ranks
from tests.gpu.conftest import ON_NULL_GPUS

pytestmark = pytest.mark.gpu

MOST = 2**22 if ON_NULL_GPUS else 2**26  # what the host copies for null GPUs takes long


class Alone(Ranks):
    """Rank 0, which drives all GPUs that there are."""

    def gather(self, value):
        return list(range(torch.cuda.device_count())) if isinstance(value, int) else [value]


def copier(**more):
    torch.cuda.set_device(0)
    ranks = Alone(rank=0, local_rank=0, world_size=torch.cuda.device_count(), device=torch.device("cuda", 0))
    return GpuCopies(MOST, ranks, **more)


def observed(flow, size, **more):
    return copier(**more).observe(Entry("device", (flow,), size), 2, 10)


@pytest.mark.parametrize("size", [4, 1000, MOST])
@pytest.mark.parametrize("flow", [Flow(0, 0), Flow(0, "host"), Flow("host", 0)])
@pytest.mark.parametrize("endpoint", ["pinned", "pageable"])
def test_data_arrives_and_is_timed(flow, size, endpoint):
    found = observed(flow, size, endpoint=endpoint)
    assert found.wrong == [0]
    assert len(found.times_s[0]) == 10
    assert min(found.times_s[0]) >= 0


def test_pinned_memory_is_copied_behind_a_held_stream():
    found = observed(Flow("host", 0), MOST)
    assert not [line for line in found.evidence if line.startswith("timed by the host")]
    assert max(found.times_s[0]) < 10 * min(found.times_s[0])


def test_memory_on_a_numa_node_is_copied():
    assert observed(Flow("host", 0), MOST, numa_node=0).evidence[-1] == "memory of the host on NUMA node 0"


def test_the_runtime_says_what_it_is():
    assert CudaRuntime().version.split(".")[0] == (torch.version.cuda or "").split(".")[0]


@pytest.mark.parametrize("transport", ["auto", "host"])
def test_pairs_are_copied_with_peer_access_and_without(transport):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    found = observed(Flow(0, 1), MOST, transport=transport)
    assert found.wrong == [0]
    assert found.evidence[0].startswith("peer access ")
    both = copier(transport=transport).observe(Entry("device", (Flow(0, 1), Flow(1, 0)), MOST, "both-ways"), 2, 10)
    assert (both.wrong, len(both.times_s)) == ([0, 0], 1)


def test_copies_at_once_start_together_whichever_is_the_slower():
    """Else a fast flow would be over while a slow one, which is to be timed beside it, still copies."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    made = copier()
    fast = made._lane(Flow(0, 1), 4)
    slow = dataclasses.replace(made._lane(Flow(1, 0), 4), copy=lambda: torch.cuda._sleep(2**22))
    for first, second in ((fast, slow), (slow, fast)):
        fast_s, slow_s = made._held_back([first, second], 3, both_ways=False)[:: 1 if first is fast else -1]
        assert max(fast_s) < min(slow_s)
        begins_s = [device.seconds_between(fast.marks[0], mark) for mark in fast.marks[::2]]
        assert min(later - earlier for earlier, later in pairwise(begins_s)) >= 0.9 * min(slow_s)


def test_a_relay_takes_less_than_both_copies():
    if torch.cuda.device_count() < 3:
        pytest.skip("fewer than three GPUs")
    ways = copier()
    relayed = ways.observe(Entry("relay", (Flow(0, 2, 1),), MOST), 2, 10)
    parts = [ways.observe(Entry("device", (flow,), MOST), 2, 10) for flow in (Flow(0, 1), Flow(1, 2))]
    assert relayed.wrong == [0]
    assert min(relayed.times_s[0]) < sum(min(part.times_s[0]) for part in parts)


def test_a_bench_of_copies_is_a_record(tmp_path):
    import resnetx

    kinds = ["local", "to-host", "from-host", "storage-cold"] + ["device"] * (torch.cuda.device_count() > 1)
    (found,) = resnetx.bench(copy=kinds, gpus=torch.cuda.device_count(), size=SIZES_BYTES[:12], results=str(tmp_path))
    assert found.outcome == "ok", found.reason
    assert {cell.copy for cell in found.cells} == set(kinds)
    assert {cell.wrong for cell in found.cells} == {0}
    assert msgspec.json.decode(msgspec.json.encode(found.cells[0]))["from"] is not None
