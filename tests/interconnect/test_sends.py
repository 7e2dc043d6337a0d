"""The cost of messages that run at once: by hand on small machines, and where published figures tell."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import rings
from resnetx.interconnect.collectives.algorithms import Channels
from resnetx.interconnect.collectives.collective_errors import error_of
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.collectives.protocols import fitted
from resnetx.interconnect.collectives.sends import BOTH_WAYS_SHARE, CHANNEL_Bps, MESSAGE_s, leaving, messages
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.paths import fair_shares, seconds_per_byte
from resnetx.interconnect.systems.system import load
from resnetx.literature.rivals import alpha_beta
from resnetx.operations import OPERATIONS

LARGE = 2**34
PORT_Bps = 120e9 * 17 / 18  # of a GPU of `switched`, by kernels
SENDS = ["alltoall", "sendrecv", "gather", "scatter"]


def cost(made, size_bytes):
    """What bytes take, without fixed times."""
    return made.fastest(size_bytes).moving_s(size_bytes)


# ---- a star: every GPU has one link into a switch


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize(
    ("name", "through_a_link", "both_ways"),
    [
        ("alltoall", lambda ranks: (ranks - 1) / ranks, True),
        ("sendrecv", lambda _: 1.0, True),
        ("gather", lambda ranks: (ranks - 1) / ranks, False),
        ("scatter", lambda ranks: (ranks - 1) / ranks, False),
    ],
)
def test_a_star_takes_what_passes_the_busiest_link(switched, gpus, name, through_a_link, both_ways):
    rate_Bps = PORT_Bps * (BOTH_WAYS_SHARE if both_ways else 1)
    made = plan(switched(gpus), name)
    assert cost(made, LARGE) == pytest.approx(through_a_link(gpus) * LARGE / rate_Bps)
    assert made.cost(LARGE).busbw_Bps == pytest.approx(rate_Bps, rel=1e-3)


@pytest.mark.parametrize(("name", "limit"), [("gather", "nvswitch0 to gpu0"), ("scatter", "gpu0 to nvswitch0")])
def test_the_root_is_the_limit(switched, name, limit):
    assert plan(switched(4), name).cost(LARGE).limiting_link == limit


def test_a_message_posted_costs_time_of_the_host(switched):
    def fixed_us(name, gpus):
        return plan(switched(gpus), name).fastest(LARGE).fixed_s * 1e6

    assert fixed_us("alltoall", 8) - fixed_us("alltoall", 4) == pytest.approx(2 * 4 * MESSAGE_s * 1e6)
    assert fixed_us("alltoall", 8) - fixed_us("gather", 8) == pytest.approx(7 * MESSAGE_s * 1e6)
    assert fixed_us("sendrecv", 8) == fixed_us("sendrecv", 4)


def test_small_messages_go_by_flags_where_the_library_has_them():
    """Up to 16 KiB each, from 2.17 on: of an all-to-all of 8 GPUs 128 KiB."""
    newer, older = (plan(load("dgx-h100"), "alltoall", library=library) for library in ("nvls", "nccl2.4"))
    labels = [made.fastest(size).label for made in (newer, older) for size in (2**17, 2**17 + 8)]
    assert labels == ["sends (LL)", "sends (Simple)", "sends", "sends"]
    assert (
        newer.launched_by("process-per-gpu").cost(8).time_s < 0.6 * older.launched_by("process-per-gpu").cost(8).time_s
    )


# ---- shared links


def test_messages_share_the_links_between_sockets():
    """GX8: two risers, no peers between them; of 56 messages 16 pass from one riser to the other, each way."""
    made = plan(load("gx8"), "alltoall", library="nccl2.4")
    assert "24 over PCIe, 32 over the host" in made.notes[0]
    system = load("gx8")
    staged = [paths.bus_flow(system, a, b, "auto", False) for a in range(4) for b in range(4, 8)]
    both = [*staged, *(paths.bus_flow(system, b, a, "auto", False) for a in range(4) for b in range(4, 8))]
    least_Bps, _ = min(fair_shares(system, both))
    assert cost(made, 2**30) >= 2**30 / 8 / least_Bps


def test_an_uplink_that_all_share_is_divided(machine):
    """Two GPUs on each CPU, 10 GB/s of staging each way: four messages go up through each CPU's port."""
    system = machine({}, names=range(4))
    made = plan(system, "alltoall", library="nccl2.4")
    flows = [paths.bus_flow(system, a, b, "auto", False) for a in range(4) for b in range(4) if a != b]
    least_Bps, _ = min(fair_shares(system, flows))
    assert cost(made, 2**30) == pytest.approx(2**30 / 4 / (least_Bps * fitted().pcie_ring_share))


def test_equal_flows_end_when_the_one_with_the_least_share_does(machine):
    system = machine({(0, 1): 2, (1, 2): 1}, names=range(4))
    flows = [paths.flow(system, a, b) for a, b in ((0, 1), (1, 2), (2, 1), (0, 3), (1, 3))]
    least_Bps, _ = min(fair_shares(system, flows))
    together_s, _ = seconds_per_byte(system, [(flow, 1.0) for flow in flows])
    assert together_s == pytest.approx(1 / least_Bps)


# ---- which way a message takes


def test_newer_libraries_relay_where_no_link_is_direct():
    system = load("dgx1-v100")
    older, newer = (plan(system, "alltoall", library=library) for library in ("nccl2.4", "nvls"))
    assert "32 over NVLink, 24 over the host" in older.notes[0]
    assert "32 over NVLink, 24 over another GPU" in newer.notes[0]
    assert newer.cost(2**30).time_s < older.cost(2**30).time_s / 5


def test_a_transport_keeps_messages_off_nvlink():
    made = plan(load("dgx-a100"), "alltoall", transport="host")
    assert "56 over the host" in made.notes[0]
    with pytest.raises(ConfigError, match="no path from GPU 0 to GPU"):
        plan(load("dgx1-v100"), "alltoall", library="nccl2.4", transport="peer")


def test_a_system_of_an_older_library_takes_the_oldest_that_has_messages():
    made = plan(load("dgx1-p100"), "gather")
    assert made.library == "nccl2.4"
    assert "library=nccl2.4, as nccl2 has no messages." in made.notes
    assert plan(load("dgx-h100"), "gather").library == "nvls"


def test_of_messages_over_other_links_than_published_ones_the_error_is_not_known():
    known = error_of(plan(load("dgx-a100"), "alltoall"), 2**30)
    assert known.own and known.text.startswith("Off by")
    few = error_of(plan(load("dgx-h100"), "alltoall"), 2**30)
    assert not few.known and "%: one ladder of messages (all-to-all, " in few.text
    staged = error_of(plan(load("dgx-a100"), "alltoall", transport="host"), 2**30)
    assert not staged.known and "GPUs that are no peers" in staged.text
    for system, more in (("dgx1-v100", {"library": "nvls"}), ("gx8", {})):
        found = error_of(plan(load(system), "alltoall", **more), 2**30)
        assert not found.known and "%: no times of messages (all-to-all, " in found.text
    assert not error_of(plan(load("cpu-host"), "gather"), 8).known


def test_links_have_their_own_name():
    assert "56 over XGMI" in plan(load("mi300x"), "alltoall").notes[0]
    made = plan(load("mi250x"), "allreduce", range(4), library="nccl2.4")
    said = " ".join([*made.notes, *(algorithm.limit for algorithm in made.algorithms)])
    assert "XGMI" in said and "NVLink" not in said


# ---- channels


def test_a_message_has_more_channels_only_if_it_is_large():
    channels = Channels(share=1.0, least=4, most=32, part_bytes=2**24, rate_Bps=2**24)
    assert [channels.seconds(n * 2**24) for n in (1, 4, 5, 16, 32, 64)] == [0.25, 1, 0.625, 1, 1, 2]


def test_channels_are_shared_out_over_the_ranks(switched):
    rate_Bps = dict(CHANNEL_Bps)[9.0]
    for gpus, count in ((2, 16), (3, 8), (4, 8), (5, 4), (8, 4)):
        assert cost(plan(switched(gpus, lanes=1000), "sendrecv"), 2**24) == pytest.approx(2**24 / (count * rate_Bps))


# ---- several nodes


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "share"), [(2, 1 / 2), (4, 3 / 4)])
def test_what_leaves_a_node_is_what_its_cards_carry(nodes, share):
    """One card for each GPU: the share of its data that goes to other nodes."""
    system = load("dgx-h100", nodes, "ndr400", 8)
    card_Bps = 1 / seconds_per_byte(system, [(paths.network_flow(system, 0, "node0.nic0", "node1.nic0", 8), 1.0)])[0]
    assert cost(plan(system, "alltoall"), 2**34) == pytest.approx(share * 2**34 / card_Bps, rel=0.1)


def test_two_nodes_stand_for_many():
    groups = [tuple(range(8 * node, 8 * node + 8)) for node in range(4)]
    all_to_all = messages(OPERATIONS["alltoall"], groups)
    own = [each for each in all_to_all if each.sender == 0]
    assert sum(each.share for each in own) == pytest.approx(31 / 32)
    assert sum(each.share for each in own if each.between_nodes) == pytest.approx(24 / 32)
    assert leaving(OPERATIONS["alltoall"], groups) == pytest.approx(8 * 24 / 32)
    assert leaving(OPERATIONS["gather"], groups) == pytest.approx(24 / 32)
    assert leaving(OPERATIONS["sendrecv"], groups) == 1
    few = [(0, 1), (2, 3, 4)]
    assert len(messages(OPERATIONS["alltoall"], few)) == 20
    assert leaving(OPERATIONS["alltoall"], few) == pytest.approx(2 * 3 / 5)


def test_processes_of_a_node_share_its_interface():
    system = load("k80-10gbe", 2)
    made = {name: plan(system, name, library="gloo") for name in SENDS}
    assert cost(made["alltoall"], 2**30) == pytest.approx(4 * cost(made["sendrecv"], 2**30) / 2, rel=0.3)
    assert "fabric" in made["alltoall"].cost(2**30).limiting_link


# ---- other models


def test_sockets_move_what_a_process_sends():
    made = plan(load("cpu-host"), "alltoall", range(4))
    assert cost(made, 2**20) == pytest.approx(0.75 * 2**20 / rings.SOCKET_Bps)
    (algorithm,) = made.algorithms
    assert algorithm.fixed_s == pytest.approx(rings.SOCKET.base_s + 3 * rings.SOCKET.network_s)


def test_the_textbook_counts_one_step_for_each_message():
    """alpha-beta: n - 1 steps, but one where each rank sends to its neighbour alone."""
    system = load("dgx-a100")
    steps = {name: alpha_beta(plan(system, name)).time_s(0) for name in SENDS}
    latency_s = paths.copy_path(system, 0, 1).latency_s
    assert steps == pytest.approx(
        {"alltoall": 7 * latency_s, "sendrecv": latency_s, "gather": 7 * latency_s, "scatter": 7 * latency_s}
    )


# ---- published


@pytest.mark.parametrize(
    ("system", "name", "gpus", "size_bytes", "busbw_GBps", "within"),
    [
        ("hgx-b200", "alltoall", 8, 2**34, 675, 0.03),
        ("hgx-b200", "gather", 8, 2**34, 717, 0.03),
        ("hgx-b200", "scatter", 8, 2**34, 746, 0.03),
        ("hgx-b200", "sendrecv", 8, 2**28, 332.8, 0.03),  # half of its channels
        ("dgx-h100", "alltoall", 4, 500 * 2**20, 334.9, 0.03),
        ("dgx-a100", "sendrecv", 8, 2**30, 195.1, 0.16),
    ],
)
def test_published_figures_that_nothing_was_taken_from(system, name, gpus, size_bytes, busbw_GBps, within):
    made = plan(load(system), name, range(gpus)).cost(size_bytes)
    assert made.busbw_Bps / 1e9 == pytest.approx(busbw_GBps, rel=within)
