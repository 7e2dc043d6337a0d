"""What copies between pairs of GPUs cost by size, beside Tartan's P100 DGX-1."""

import pytest

from resnetx.interconnect.pairs.costs import FIT_FILE, error_of, host_path, pair_cost, tolerance
from resnetx.interconnect.systems.paths import copy_path, routes
from resnetx.interconnect.systems.system import load
from resnetx.literature import pairs_fit
from resnetx.literature.pairs_fit import figures

KiB, MiB = 2**10, 2**20


@pytest.fixture(scope="module")
def dgx1():
    return load("dgx1-p100")


def test_the_file_is_what_its_command_writes():
    assert FIT_FILE.read_text() == pairs_fit.content()


def test_most_figures_judge_and_few_are_fitted():
    assert sum(figure.fitted for figure in figures()) == 7
    assert len(figures()) > 350


@pytest.mark.parametrize(
    ("transport", "pair", "size_bytes", "measured_us", "within"),
    [  # Tartan, scale_up_p2p_packet, medians of the class; none of them is fitted
        ("auto", (0, 1), 128 * KiB, 16.97, 0.02),
        ("auto", (0, 1), 2 * MiB, 122.9, 0.01),
        ("auto", (0, 1), 256 * MiB, 14528, 0.01),
        ("host", (0, 4), 512 * KiB, 112.4, 0.02),
        ("host", (0, 4), 2 * MiB, 300.7, 0.04),
        ("host", (0, 4), 256 * MiB, 25997, 0.03),
        ("host", (0, 2), 8 * MiB, 931.9, 0.01),
        ("host", (0, 1), 512 * KiB, 113.3, 0.01),
        ("host", (0, 1), 4 * MiB, 536.6, 0.06),
    ],
)
def test_copies_of_the_dgx1(dgx1, transport, pair, size_bytes, measured_us, within):
    cost = pair_cost(copy_path(dgx1, *pair, transport), size_bytes)
    assert cost.time_s == pytest.approx(measured_us * 1e-6, rel=within)


def test_a_staged_copy_is_not_latency_and_size_over_rate(dgx1):
    path = copy_path(dgx1, 0, 4, "host")
    simple_s = path.latency_s + MiB / path.bandwidth_Bps
    assert pair_cost(path, MiB).time_s > 1.6 * simple_s  # 201 us were measured, 123 us is simple


def test_chunks_follow_each_other_at_the_rate_of_the_path(dgx1):
    path = copy_path(dgx1, 0, 4, "host")
    step_s = pair_cost(path, 9 * MiB).time_s - pair_cost(path, 8 * MiB).time_s
    assert step_s == pytest.approx(MiB / path.bandwidth_Bps)


@pytest.mark.parametrize(("pair", "measured_GBps"), [((0, 1), 5.75), ((0, 2), 7.50)])
def test_both_ways_through_one_uplink_take_turns(dgx1, pair, measured_GBps):
    cost = pair_cost(copy_path(dgx1, *pair, "host"), 256 * KiB)
    assert cost.bidirectional_Bps == pytest.approx(measured_GBps * 1e9, rel=0.06)


def test_small_direct_copies_both_ways_start_one_after_the_other(dgx1):
    assert pair_cost(copy_path(dgx1, 0, 1), 16 * KiB).bidirectional_Bps == pytest.approx(2.23e9, rel=0.03)


def test_a_copy_within_a_gpu_gets_a_share_of_its_memory(dgx1):
    assert pair_cost(copy_path(dgx1, 0, 0), 64 * MiB).time_s == pytest.approx(259.5e-6, rel=0.02)


def test_a_relay_is_two_copies_in_sequence(dgx1):
    relay, *_ = routes(dgx1, 0, 5)
    cost = pair_cost(relay, 40_000_000)
    assert cost.bandwidth_Bps == pytest.approx(9.19e9, rel=0.01)  # Tartan, dgx1_ascending.txt


def test_host_memory_is_reached_as_measured(dgx1):
    cost = pair_cost(host_path(dgx1, 0), 256 * MiB)
    assert cost.bandwidth_Bps == pytest.approx(11.1 * 2**30, rel=0.08)  # Tallent et al. 2017: host to GPU 0


def test_an_error_of_another_system_is_that_of_all_copies():
    own, other = (error_of(system, "nvlink", "one-way", 64 * MiB) for system in ("dgx1-p100", "dgx-h100"))
    assert own.q90 < 0.01 < other.q90
    assert tolerance("dgx-h100", "nvlink", "one-way", 64 * MiB) == other.worst


def test_ranks_on_cores_have_no_links_of_their_own():
    path = copy_path(load("cpu-host"), 0, 1)
    assert pair_cost(path, 2**22).time_s > 2**22 / path.bandwidth_Bps
