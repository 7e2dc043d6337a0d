"""Copies between simulated GPUs: how long they last, what they share, and by which evidence a path is named."""

import dataclasses

import pytest
import torch

from resnetx.copies import Entry, Flow
from resnetx.errors import ConfigError
from resnetx.measure.bench import gpu_copies
from resnetx.measure.bench.gpu_copies import GpuCopies
from resnetx.measure.machine.sensors import GpuTraffic
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import Unknown
from tests.measure.simulated_gpus import SimulatedGpus

SIZE, MOST = 2**14, 2**16
PEERS = [(a, b) for a in range(4) for b in range(4) if a != b]


@dataclasses.dataclass(frozen=True)
class OfFour(Ranks):
    """Rank 0 of four; the others only wait."""

    def gather(self, value):
        return [0, 1, 2, 3] if isinstance(value, int) else [value]


FIRST = OfFour(rank=0, local_rank=0, world_size=4, device=torch.device("cuda", 0))


def rates(source, target):
    """10 GB/s from GPU 0, 5 GB/s from the others; 20 GB/s with the host; local 100 GB/s."""
    if "host" in (source, target):
        return 20e9
    return 100e9 if source == target else 10e9 if source == "0" else 5e9


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(gpu_copies, "watched", lambda copy, *_: (copy(), gpu_copies.Seen("nvlink", ["counted"]))[1])
    return SimulatedGpus(monkeypatch, rates, PEERS)


def observed(gpus, *flows, size=SIZE, kind="device", direction="one-way", **more):
    copier = GpuCopies(MOST, FIRST, runtime=gpus.runtime, **more)
    return copier.observe(Entry(kind, flows, size, direction), 2, 5)


def test_a_copy_lasts_from_mark_to_mark_without_the_hosts_time(gpus):
    found = observed(gpus, Flow(0, 1))
    assert found.times_s == [pytest.approx([SIZE / 10e9] * 5)]
    assert (found.wrong, found.endpoint, found.path, found.evidence) == ([0], "device", "nvlink", ["counted"])


def test_a_small_copy_is_timed_without_its_launch(gpus):
    assert observed(gpus, Flow(0, 1), size=1000).times_s == [pytest.approx([1e-7] * 5)]


def test_both_ways_count_until_both_have_ended(gpus):
    found = observed(gpus, Flow(0, 1), Flow(1, 0), direction="both-ways")
    assert found.times_s == [pytest.approx([SIZE / 5e9] * 5)]  # the slower of the two
    assert found.wrong == [0, 0]


def test_what_runs_together_has_a_time_for_each(gpus):
    found = observed(gpus, Flow(0, 1), Flow(2, 3), kind="together")
    assert found.times_s == [pytest.approx([SIZE / 10e9] * 5), pytest.approx([SIZE / 5e9] * 5)]


def test_a_relay_passes_pieces_on_while_the_next_ones_come_in(gpus, monkeypatch):
    monkeypatch.setattr(gpu_copies, "LEAST_PIECE_BYTES", 1024)
    size = MOST
    found = observed(gpus, Flow(0, 2, 1), size=size, kind="relay")
    piece_s = size / gpu_copies.PIECES / 5e9
    assert found.times_s[0] == pytest.approx([size / 5e9 + piece_s / 2] * 5, rel=0.01)  # not the sum of both copies
    assert found.wrong == [0]


def test_memory_of_the_host_is_pinned_unless_it_is_set(gpus):
    found = observed(gpus, Flow("host", 1), kind="from-host", numa_node=None)
    assert (found.times_s, found.endpoint) == ([pytest.approx([SIZE / 20e9] * 5)], "pinned")
    assert observed(gpus, Flow(1, 1), kind="local").times_s == [pytest.approx([SIZE / 100e9] * 5)]


def test_pageable_memory_is_timed_by_the_host(gpus, monkeypatch):
    monkeypatch.setattr(gpu_copies, "timed", lambda work, *_: (work(), 1.0)[1])
    found = observed(gpus, Flow(1, "host"), kind="to-host", endpoint="pageable")
    assert (found.times_s, found.endpoint) == ([[1.0] * 5], "pageable")
    assert found.evidence[-1] == "timed by the host: it copies memory that is not pinned"


def test_copies_that_wait_for_the_device_are_timed_by_the_host(gpus, monkeypatch):
    monkeypatch.setattr(gpu_copies, "timed", lambda work, *_: (work(), 1.0)[1])
    gpus.blocks = True
    found = observed(gpus, Flow(0, 1))
    assert found.times_s == [[1.0] * 5]
    assert found.evidence[-1].startswith("timed by the host: the host takes longer to queue it")


def test_a_copy_that_moves_nothing_is_caught(gpus):
    gpus.skip = True
    assert observed(gpus, Flow(0, 1)).wrong == [SIZE]


@pytest.mark.parametrize(("transport", "connected"), [("auto", {(0, 1), (1, 0)}), ("host", set())])
def test_peer_access_is_what_was_asked_for(gpus, transport, connected):
    observed(gpus, Flow(0, 1), transport=transport)
    assert gpus.connected == connected


def test_peers_that_cannot_be_are_refused_where_they_are_asked_for(gpus):
    gpus.can = set()
    observed(gpus, Flow(0, 1))
    with pytest.raises(ConfigError, match="transport=peer: GPU 0 cannot reach the memory of GPU 1"):
        observed(gpus, Flow(0, 1), transport="peer")


# ---- evidence


def watched(peers, source, target, moved=1000):
    """The path of a copy from GPU 0 to 1, whose counters go from zero to these."""
    readings = {0: iter([ZERO, source]), 1: iter([ZERO, target])}
    return gpu_copies.watched(lambda: None, moved, Flow(0, 1), {0: 0, 1: 1}, peers, lambda gpu: next(readings[gpu]))


ZERO = GpuTraffic((0, 0), (0, 0))
NONE = Unknown("no driver")


@pytest.mark.parametrize(
    ("peers", "source", "target", "path"),
    [
        (True, GpuTraffic((990, 0), (10, 0)), GpuTraffic((0, 990), (0, 5)), "nvlink"),
        (True, GpuTraffic((0, 0), (1010, 0)), GpuTraffic((0, 0), (0, 1020)), "pcie"),
        (False, GpuTraffic((0, 0), (1010, 0)), GpuTraffic((0, 0), (0, 1020)), "host"),
        (False, NONE, NONE, "host"),
        (True, NONE, NONE, "no counter shows it (no driver)"),
        (True, GpuTraffic((990, 0), (0, 0)), GpuTraffic((0, 0), (0, 0)), "no counter shows it"),  # it did not arrive
    ],
)
def test_the_counters_of_both_gpus_show_the_path(peers, source, target, path):
    found = watched(peers, source, target)
    assert found.path == path
    assert found.evidence[0] == f"peer access {'on' if peers else 'off'}"


def test_evidence_has_the_bytes_of_both_gpus():
    found = watched(True, GpuTraffic((990, 7), NONE), GpuTraffic((3, 980), NONE))
    assert found.evidence[1:] == [
        "NVLink of GPU 0 sent 990 B of 1.00 kB",
        "PCIe of GPU 0: no driver",
        "NVLink of GPU 1 received 980 B of 1.00 kB",
        "PCIe of GPU 1: no driver",
    ]
