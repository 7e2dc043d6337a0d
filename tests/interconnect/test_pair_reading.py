"""Measured copies beside what the described topology allows."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from resnetx.interconnect.pairs import pair_reading
from resnetx.interconnect.pairs.costs import host_path, pair_cost
from resnetx.interconnect.pairs.pair_reading import counted, findings_of, judge, with_readings
from resnetx.interconnect.systems.paths import copy_path
from resnetx.interconnect.systems.system import load
from resnetx.literature.pairs_fit import MATRIX_BYTES, published
from resnetx.record.bench_record import CopyCell, Pair

MiB = 2**20


def cell(source, target, time_s, size_bytes=64 * MiB, **more):
    return CopyCell(
        **{
            "copy": "device",
            "source": source,
            "target": target,
            "size_bytes": size_bytes,
            "direction": "one-way",
            "endpoint": "device",
            "time_s": [time_s],
            "wrong": 0,
            "path": None,
            "evidence": [],
            "expected_s": None,
            "verdict": "not judged",
            "pair_class": None,
            **more,
        }
    )


@pytest.fixture(scope="module")
def dgx1():
    return load("dgx1-p100")


def matrix_cells(transport, direction="one-way"):
    """Tartan's matrix of the DGX-1 as cells."""
    (rows,) = (
        each.bandwidth_GBps
        for each in published().matrices
        if (each.transport, each.direction) == (transport, direction) and each.bandwidth_GBps
    )
    both = 2 if direction == "both-ways" else 1
    return [
        cell(a, b, both * MATRIX_BYTES / (rate * 1e9), MATRIX_BYTES, direction=direction)
        for a, row in enumerate(rows)
        for b, rate in enumerate(row)
        if a != b
    ]


# ---- verdicts


@pytest.mark.parametrize(
    ("time_s", "verdict"),
    [(1.0, "as expected"), (1.09, "as expected"), (1.2, "low"), (0.93, "as expected"), (0.8, "above the link")],
)
def test_a_verdict_is_by_how_far_off_the_model_was(time_s, verdict):
    assert judge(time_s, 1.0, tolerance=0.1) == verdict


def test_every_staged_copy_of_the_dgx1_is_as_expected(dgx1):
    read = with_readings(matrix_cells("host"), dgx1, "host")
    assert dict(counted(read)) == {"as expected": 56}
    assert all(each.expected_s == pytest.approx(each.time_s[0], rel=0.15) for each in read)
    for each in read:
        low_s, high_s = each.expected_interval_s
        assert low_s < each.expected_s < high_s
        assert (each.verdict == "as expected") == (low_s <= each.time_s[0] <= high_s)


def test_copies_without_peer_access_are_low_where_nvlink_could_be_taken(dgx1):
    read = with_readings([msgspec.structs.replace(each, path="host") for each in matrix_cells("host")], dgx1, "auto")
    low = [each for each in read if each.verdict == "low"]
    assert len(low) == 32
    assert {each.causes[0] for each in low} == {pair_reading.PEER_OFF}


def test_relayed_copies_of_the_dgx1_are_named_low_only_beside_the_host(dgx1):
    """Tartan's copies between GPUs without a link went through a third one: 9.2 GB/s, where the host gives 10.1."""
    read = with_readings(matrix_cells("peer"), dgx1)
    assert {each.verdict for each in read if each.pair_class == "one NVLink"} == {"as expected"}


def test_each_pair_has_its_class(dgx1):
    read = with_readings(matrix_cells("peer"), dgx1)
    assert Counter(each.pair_class for each in read) == {"one NVLink": 32, "across sockets": 24}


def test_without_a_system_there_are_classes_and_no_verdict():
    read = with_readings(matrix_cells("peer"), None)
    assert {each.pair_class for each in read} == {"fastest", "slowest"}
    assert {(each.expected_s, each.verdict) for each in read} == {(None, "not judged")}


def test_devices_are_those_of_the_system(dgx1):
    """GPUs 0 and 5 have no NVLink; the bench numbers them 0 and 1."""
    time_s = pair_cost(copy_path(dgx1, 0, 5), 64 * MiB).time_s
    (as_first,), (as_chosen,) = (
        with_readings([cell(0, 1, time_s)], dgx1, devices=devices) for devices in (None, [0, 5])
    )
    assert (as_first.verdict, as_chosen.verdict) == ("low", "as expected")
    assert (as_chosen.source, as_chosen.target) == (0, 1)


@pytest.mark.parametrize(("source", "target"), [("host", 0), (0, "host"), ("numa1", 0)])
def test_copies_from_and_to_the_host_are_judged(dgx1, source, target):
    time_s = pair_cost(host_path(dgx1, 0), 64 * MiB).time_s
    slow, good = (
        with_readings([cell(source, target, factor * time_s, copy="to-host", endpoint="pinned")], dgx1)[0]
        for factor in (3, 1)
    )
    assert (slow.verdict, good.verdict) == ("low", "as expected")
    assert slow.causes[:2] == [pair_reading.PCIE_LINK, pair_reading.NUMA]


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [({"copy": "to-host", "target": "host"}, "pageable"), ({"copy": "storage-cold", "source": "storage"}, "pinned")],
)
def test_what_no_topology_tells_is_not_judged(dgx1, more, endpoint):
    (read,) = with_readings([msgspec.structs.replace(cell(0, 1, 1.0, endpoint=endpoint), **more)], dgx1)
    assert (read.expected_s, read.verdict, read.causes) == (None, "not judged", [])


def test_a_relay_passes_pieces_on(dgx1):
    """Tartan's relay did not: one copy after the other, 9.2 GB/s."""
    (read,) = with_readings([cell(0, 5, MATRIX_BYTES / 9.19e9, MATRIX_BYTES, copy="relay", through=1)], dgx1)
    assert (read.verdict, read.pair_class) == ("low", "routed (two hops)")
    assert MATRIX_BYTES / read.expected_s == pytest.approx(18.4e9, rel=0.04)


def test_copies_that_run_together_share_their_links(dgx1):
    """Two staged copies up one uplink: each is expected to take longer than alone."""
    alone, beside = (
        with_readings([cell(0, 4, 1.0, together=together)], dgx1, "host")[0].expected_s
        for together in ([], [Pair(source=1, target=5)])
    )
    assert beside == pytest.approx(2 * alone, rel=0.05)


def test_a_copy_within_the_cache_is_above_the_link(dgx1):
    (read,) = with_readings([cell(0, 0, 0.5e-6, 64 * MiB, copy="local")], dgx1)
    assert (read.verdict, read.causes[0]) == ("above the link", pair_reading.CACHE)


def test_ranks_on_cpus_are_classified_only():
    (read,) = with_readings([cell(0, 1, 1e-3)], load("cpu-host"))
    assert (read.verdict, read.pair_class) == ("not judged", "one class")


# ---- what stands out


def test_anti_locality_names_the_shared_uplink(dgx1):
    (found,) = findings_of(matrix_cells("host", "both-ways"), dgx1, "host").values()
    (anti,) = [each for each in found if each.what == "anti-locality"]
    assert anti.ratio == pytest.approx(17.4 / 9.33, rel=0.05)
    assert "same switch" in anti.text
    assert "uplink" in anti.cause


def test_nothing_stands_out_over_nvlink(dgx1):
    assert findings_of(matrix_cells("peer"), dgx1) == {}


@pytest.mark.parametrize("described", [True, False])
def test_a_gpu_that_is_slow_with_all_others_is_named(dgx1, described):
    cells = [
        msgspec.structs.replace(each, time_s=[each.time_s[0] * 1.5]) if 7 in (each.source, each.target) else each
        for each in matrix_cells("host")
    ]
    (found,) = findings_of(cells, dgx1 if described else None, "host").values()
    slow = [each for each in found if each.what == "slow GPU"]
    assert [each.text.partition(" is slow")[0] for each in slow] == ["GPU 7"]
    assert len(slow[0].pairs) == 14


def test_a_slow_pair_is_named(dgx1):
    cells = [
        msgspec.structs.replace(each, time_s=[each.time_s[0] * 2]) if (each.source, each.target) == (2, 3) else each
        for each in matrix_cells("peer")
    ]
    (found,) = findings_of(cells, dgx1).values()
    assert [(each.what, each.pairs) for each in found] == [("slow pair", ((2, 3),))]


@pytest.mark.parametrize("gpus", [2, 8])
def test_a_direction_that_is_ten_times_slower_than_the_way_back_is_named(gpus):
    cells = [cell(a, b, 1e-2 if (a, b) == (1, 0) else 1e-3) for a in range(gpus) for b in range(gpus) if a != b]
    ((found,),) = findings_of(cells, None).values()
    assert (found.what, found.pairs) == ("slow direction", ((1, 0),))
    assert found.text.startswith("copies from 1 to 0 take 10.00 times as long as those back at ")


@pytest.mark.parametrize(("slow", "named"), [([{2, 5}], 1), ([{2, 5}, {1, 6}], 0)])
def test_without_a_topology_two_gpus_that_are_far_slower_than_any_others_are_named(slow, named):
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    found = findings_of([cell(a, b, 0.9 if {a, b} in slow else 1e-3) for a, b in pairs], None)
    assert [(each.what, each.text[:41]) for own in found.values() for each in own] == [
        ("slow pair", "copies from 2 to 5 take 900.00 times as l")
    ] * named


def test_two_gpus_that_are_slower_one_way_at_some_sizes_and_the_other_way_at_others_are_named_once():
    sizes, pairs = [MiB << power for power in range(4)], [(a, b) for a in range(8) for b in range(8) if a != b]
    slow_s = {(2, 5): (0.9, 0.8, 0.9, 0.8), (5, 2): (0.8, 0.9, 0.8, 0.9)}
    cells = [cell(*pair, slow_s[pair][place] if pair in slow_s else 1e-3, size_bytes=size)
             for place, size in enumerate(sizes) for pair in pairs]  # fmt: skip
    found = [each.text for own in findings_of(cells, None).values() for each in own]
    assert found == ["copies from 2 to 5 take 900.00 times as long as any others at 1 MiB"]


def test_noise_has_no_slow_gpu():
    false = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        cells = [cell(a, b, float(np.exp(0.05 * random.normal()))) for a in range(8) for b in range(8) if a != b]
        false += bool(findings_of(cells, None))
    assert false == 0


def test_a_slow_rank_on_cpu_cores_is_no_gpu_with_a_pcie_link():
    """The times of five ranks, of which the third takes twice as long with all others."""
    cells = [
        cell(a, b, (2 if 2 in (a, b) else 1) * 1e-3 * (1 + 0.002 * (a + b)), endpoint="pageable")
        for a in range(5)
        for b in range(5)
        if a != b
    ]
    ((rank,),) = findings_of(cells, None, unit="rank").values()
    assert (rank.what, rank.text[:12]) == ("slow rank", "rank 2 is sl")
    assert "PCIe" not in rank.cause
    ((gpu,),) = findings_of(cells, None).values()
    assert (gpu.what, gpu.text[:11]) == ("slow GPU", "GPU 2 is sl")
