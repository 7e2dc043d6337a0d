"""Which copies are measured, in which order, how often, and how long that is planned to take."""

from collections import Counter
from functools import cache

import pytest

from resnetx.copies import COPIES, SIZES_BYTES, Entry, Flow, planned, planned_s, shuffled, timings, warmups
from resnetx.interconnect.systems.paths import copy_path
from resnetx.interconnect.systems.system import load, names

EIGHT = [name for name in names() if len(load(name, nodes=1).gpus) >= 8 and load(name).library != "gloo"]


def flows(kind, gpus, **more):
    return [entry.flows for entry in planned([kind], gpus=gpus, sizes_bytes=[4], **more)]


def test_every_ordered_pair_is_one_entry_at_every_size():
    entries = planned(["device"], gpus=3, sizes_bytes=[4, 64])
    pairs = {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    assert {(*entry.flows[0].places, entry.size_bytes) for entry in entries} <= {
        (*sorted(pair), size) for pair in pairs for size in (4, 64)
    }
    assert {(flow.source, flow.target) for entry in entries for flow in entry.flows} == pairs
    assert len(entries) == 12


def test_both_ways_is_a_copy_and_the_opposite_one_at_once():
    assert flows("device", 2, directions=["both-ways"]) == [(Flow(0, 1), Flow(1, 0)), (Flow(1, 0), Flow(0, 1))]
    assert flows("local", 2, directions=["both-ways"]) == [(Flow(0, 0),), (Flow(1, 1),)]  # it has no direction


def test_a_relay_leaves_out_pairs_that_the_relay_is_one_of():
    assert flows("relay", 3, through=1) == [(Flow(0, 2, 1),), (Flow(2, 0, 1),)]


def test_fan_out_is_one_entry_of_all_gpus():
    assert flows("fan-out", 3) == [(Flow("host", 0), Flow("host", 1), Flow("host", 2))]


def test_together_has_every_pair_alone_and_beside_every_pair_of_other_gpus():
    both = [entry for entry in flows("together", 4) if len(entry) == 2]
    assert len([entry for entry in flows("together", 4) if len(entry) == 1]) == 12
    assert len(both) == 12
    assert all(not a.places & b.places for a, b in both)


def test_what_runs_together_is_measured_at_one_size():
    assert {entry.size_bytes for entry in planned(["together"], gpus=4, sizes_bytes=SIZES_BYTES)} == {2**26}
    assert {entry.size_bytes for entry in planned(["together"], gpus=4, sizes_bytes=[2**28, 2**30])} == {2**28}


def test_sizes_are_from_4_bytes_to_1_gib():
    assert (SIZES_BYTES[0], SIZES_BYTES[-1]) == (4, 2**30)


def test_the_order_is_random_and_the_seeds():
    entries = planned(["device"], gpus=4, sizes_bytes=[4, 64, 1024])
    assert shuffled(entries, 0) == shuffled(entries, 0) != shuffled(entries, 1)
    assert (
        sorted(map(repr, shuffled(entries, 0))) == sorted(map(repr, entries)) != list(map(repr, shuffled(entries, 0)))
    )


@pytest.mark.parametrize(("size", "times", "before"), [(4, 20, 5), (2**24, 8, 2), (2**26, 2, 0), (2**30, 2, 0)])
def test_large_sizes_are_copied_less_often(size, times, before):
    entry = Entry("device", (Flow(0, 1),), size)
    assert (timings(entry, 20), warmups(entry, 20, 5)) == (times, before)


def test_every_pair_is_timed_twice_at_least_in_each_direction():
    """Both ways at once, the pair has two entries, from either end."""
    entries = planned(["device"], gpus=2, sizes_bytes=[2**26, 2**28, 2**30], directions=["one-way", "both-ways"])
    found = Counter()
    for entry in entries:
        pair = entry.flows[0] if entry.direction == "one-way" else frozenset(entry.flows)
        found[entry.direction, pair, entry.size_bytes] += timings(entry, 20)
    assert min(found.values()) == 2
    assert found["both-ways", frozenset({Flow(0, 1), Flow(1, 0)}), 2**26] == 4


@pytest.mark.parametrize("name", EIGHT)
def test_all_pairs_of_eight_gpus_both_ways_are_planned_to_take_less_than_a_minute(name):
    system = load(name, nodes=1)
    entries = planned(["device"], gpus=8, sizes_bytes=SIZES_BYTES, directions=["one-way", "both-ways"])

    @cache
    def rates_Bps(flow):
        path = copy_path(system, flow.source, flow.target)
        return {"one-way": path.bandwidth_Bps, "both-ways": path.duplex_Bps}

    assert len(entries) == 2 * 56 * len(SIZES_BYTES)
    planned_for_s = planned_s(
        entries, iterations=20, warmup=5, rate_Bps=lambda entry: rates_Bps(entry.flows[0])[entry.direction]
    )
    assert 5 < planned_for_s < 60


def test_planned_time_counts_bytes_copies_and_cells():
    (entry,) = planned(["device"], gpus=2, sizes_bytes=[10**6])[:1]
    assert planned_s([entry], iterations=4, warmup=1, rate_Bps=lambda _: 1e9) == pytest.approx(
        5e-3 + 5 * (100e-6 + 1e-3)
    )


def test_kinds_read_settings_that_there_are():
    known = {"direction", "endpoint", "through", "numa", "transport", "interface", "gpudirect"}
    assert set().union(*(kind.reads for kind in COPIES.values())) == known
