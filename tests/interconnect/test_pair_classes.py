"""Classes of pairs: those of real machines are found, and none where nothing but noise differs."""

import numpy as np
import pytest

from resnetx.interconnect.pairs.classes import ONE_CLASS, class_names, classify, described, described_pairs, names_of
from resnetx.interconnect.systems.paths import copy_path, routes
from resnetx.interconnect.systems.system import load
from resnetx.literature.pairs_fit import MATRIX_BYTES, published

SEEDS = range(40)


def all_pairs(gpus):
    return [(a, b) for a in range(gpus) for b in range(gpus) if a != b]


def matrix_times(transport, direction="one-way", latency=False):
    """Tartan's matrix as times."""
    (rows,) = (
        each.latency_us if latency else each.bandwidth_GBps
        for each in published().matrices
        if (each.transport, each.direction, each.latency_us is not None) == (transport, direction, latency)
    )
    return {
        (a, b): value * 1e-6 if latency else MATRIX_BYTES / (value * 1e9)
        for a, row in enumerate(rows)
        for b, value in enumerate(row)
    }


def found(times, names=None):
    """(name, pairs) of each class."""
    return [(each.name, len(each.pairs)) for each in classify({MATRIX_BYTES: times}, names)[MATRIX_BYTES]]


@pytest.fixture(scope="module")
def dgx1():
    return load("dgx1-p100")


# ---- real machines


@pytest.mark.parametrize("latency", [False, True])
def test_local_one_hop_and_other_of_the_dgx1(dgx1, latency):
    times = matrix_times("peer", latency=latency)
    assert found(times, names_of(dgx1)) == [("local", 8), ("one NVLink", 32), ("across sockets", 24)]
    assert found(times) == [("local", 8), ("fastest", 32), ("slowest", 24)]


def test_the_gap_is_in_units_of_the_spread(dgx1):
    at = classify({MATRIX_BYTES: matrix_times("peer")}, names_of(dgx1))[MATRIX_BYTES]
    assert at[1].gap > 100
    assert at[-1].gap is None


def test_every_pair_has_the_class_that_the_wiring_gives_it(dgx1):
    names = names_of(dgx1)
    at = classify({MATRIX_BYTES: matrix_times("peer")}, names)[MATRIX_BYTES]
    assert {pair: name for pair, name in class_names(at).items() if name != "local"} == names


def test_both_ways_through_the_host_the_same_switch_is_apart(dgx1):
    classes = found(matrix_times("host", "both-ways"), names_of(dgx1, "host"))
    assert [name.partition(",")[0] for name, _ in classes] == [
        "local", "same socket or across sockets", "same switch", "same switch",
    ]  # fmt: skip
    assert [count for _, count in classes] == [8, 48, 2, 6]  # GPUs 0 and 1 alone are less slow


def test_latencies_through_the_host_are_one_class(dgx1):
    assert found(matrix_times("host", latency=True), names_of(dgx1, "host")) == [("local", 8), (ONE_CLASS, 56)]


def test_the_names_of_a_v100_dgx1():
    counts = {}
    for each in described_pairs(load("dgx1-v100"), "auto"):
        counts[each.name] = counts.get(each.name, 0) + 1
    assert counts == {"one NVLink": 16, "two NVLinks": 16, "across sockets": 24}


@pytest.mark.parametrize(
    ("system", "pair", "transport", "name"),
    [
        ("gx8", (0, 1), "auto", "same switch"),
        ("gx8", (0, 7), "auto", "same socket"),
        ("dgx1-p100", (0, 1), "host", "same switch"),
        ("dgx1-p100", (0, 2), "host", "same socket"),
        ("dgx1-p100", (0, 1), "pcie", "same switch"),
        ("dual-root-1080ti", (0, 7), "auto", "across sockets"),
        ("dgx-h100", (0, 7), "auto", "NVSwitch"),
        ("summit", (0, 3), "auto", "across sockets"),
    ],
)
def test_names_by_the_described_topology(system, pair, transport, name):
    machine = load(system)
    assert described(machine, copy_path(machine, *pair, transport)) == name


def test_a_relayed_copy_is_routed(dgx1):
    relay, *_ = routes(dgx1, 0, 5)
    assert described(dgx1, relay) == "routed (two hops)"


# ---- nothing there

NOISE = {
    "normal": lambda random, count: random.normal(size=count),
    "long tails": lambda random, count: random.standard_t(3, count),
    "uniform": lambda random, count: random.uniform(-2, 2, count),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("gpus", [4, 8])
def test_pure_noise_is_one_class(noise, gpus):
    false = 0
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        drawn = np.exp(0.05 * NOISE[noise](random, gpus * (gpus - 1)))
        false += len(found(dict(zip(all_pairs(gpus), drawn, strict=True)))) > 1
    assert false <= 0.05 * len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [1, 3])
def test_shuffled_labels_are_one_class(sizes):
    """The DGX-1's own values, two groups of them, on pairs at random: about one in twenty may look like classes."""
    measured = matrix_times("peer")
    values = np.array([measured[pair] for pair in all_pairs(8)])
    false = 0
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        times = {2**size: dict(zip(all_pairs(8), random.permutation(values), strict=True)) for size in range(sizes)}
        false += any(len(classes) > 1 for classes in classify(times).values())
    assert false <= 0.15 * len(SEEDS)


@pytest.mark.parametrize("gpus", [4, 8])
def test_latencies_that_say_nothing_of_pairs_hide_no_classes_of_large_copies(gpus):
    """As p2pBandwidthLatencyTest prints them: peers of one switch copy four times as fast, and none answers sooner."""
    random = np.random.default_rng(1)
    large = {(a, b): (1.0 if a // 2 == b // 2 else 4.0) * (1 + 0.005 * random.random()) for a, b in all_pairs(gpus)}
    small = {pair: 1e-6 * (1 + 0.1 * random.random()) for pair in large}
    classes = classify({16: small, 2**27: large})
    assert [len(each.pairs) for each in classes[2**27]] == [gpus, gpus * (gpus - 2)]
    assert [each.name for each in classes[16]] == [ONE_CLASS]


def test_two_gpus_have_one_class():
    assert found({(0, 1): 1e-6, (1, 0): 2e-6}) == [(ONE_CLASS, 2)]


def test_nothing_measured_has_no_class():
    assert classify({8: {}})[8] == []


@pytest.mark.slow
def test_a_rack_of_72_gpus_is_classified():
    random = np.random.default_rng(0)
    far = {pair: 1.0 + (pair[0] // 36 != pair[1] // 36) for pair in all_pairs(72)}
    times = {pair: value * float(np.exp(0.01 * random.normal())) for pair, value in far.items()}
    classes = found(times)
    assert classes == [("fastest", 72 * 35), ("slowest", 72 * 36)]
