"""Ways of copies: against the pair matrices measured on a P100 DGX-1 (Tartan, dgx1_ascending.txt), and as scenarios."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.paths import fair_shares
from resnetx.interconnect.systems.system import load

DGX1 = load("dgx1-p100")
# GB/s and us of classes of pairs: (from, to), transport, one way, both ways, latency
MEASURED = [
    ((0, 1), "auto", 18.41, 36.82, 9.9),
    ((3, 7), "auto", 18.39, 36.86, 9.3),
    ((0, 1), "host", 9.84, 10.45, 18.7),
    ((2, 3), "host", 9.17, 9.28, 18.8),
    ((0, 2), "host", 10.76, 18.04, 18.8),
    ((2, 0), "host", 9.77, 18.00, 19.0),
    ((0, 4), "host", 10.63, 17.87, 19.6),
    ((6, 1), "host", 10.06, 17.43, 19.7),
]


@pytest.mark.parametrize(("pair", "transport", "one_way", "both_ways", "latency_us"), MEASURED)
def test_copies_on_a_p100_dgx1(pair, transport, one_way, both_ways, latency_us):
    path = paths.copy_path(DGX1, *pair, transport)
    assert path.bandwidth_Bps / 1e9 == pytest.approx(one_way, rel=0.12)
    assert path.duplex_Bps / 1e9 == pytest.approx(both_ways, rel=0.17)
    assert path.latency_s * 1e6 == pytest.approx(latency_us, rel=0.07)


def test_relays_are_listed_before_the_host():
    """Tartan measured 9.19 GB/s for them: the two copies follow each other."""
    found = paths.routes(DGX1, 0, 5)
    assert [(path.kind, path.names) for path in found] == [
        ("relay", ["gpu0", "gpu1", "gpu5"]),
        ("relay", ["gpu0", "gpu4", "gpu5"]),
        ("host", ["gpu0", "plx0", "cpu0", "cpu1", "plx2", "gpu5"]),
    ]
    assert found[0].bandwidth_Bps / 1e9 == pytest.approx(9.19, rel=0.01)
    assert found[0].latency_s * 1e6 == pytest.approx(23.9, rel=0.25)


def test_neighbours_need_no_relay():
    assert [path.kind for path in paths.routes(DGX1, 0, 4)] == ["nvlink"]


def test_relays_are_the_shortest_of_all(machine):
    line = machine({(0, 1): 1, (1, 2): 1, (2, 3): 1})
    relay, host = paths.routes(line, 0, 3)
    assert relay.names == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert relay.bandwidth_Bps == pytest.approx(20e9 / 3)
    assert host.kind == "host"


def test_peer_traffic_crosses_a_cpu_only_where_its_root_lets_it():
    gx8 = load("gx8")
    near, far = paths.copy_path(gx8, 0, 1), paths.copy_path(gx8, 0, 7)
    assert (near.kind, far.kind) == ("pcie", "pcie")
    # Tallent et al. 2017: 12.2 and 9.6 GiB/s
    assert (near.bandwidth_Bps / 2**30, far.bandwidth_Bps / 2**30) == pytest.approx((12.2, 9.6), rel=0.01)
    assert paths.copy_path(DGX1, 0, 6).kind == "host"


def test_transport_is_obeyed():
    assert paths.copy_path(DGX1, 0, 1, "host").kind == "host"
    with pytest.raises(ConfigError, match="transport=peer: gpu0 and gpu5 of dgx1-p100 are not peers"):
        paths.copy_path(DGX1, 0, 5, "peer")


def test_without_a_cpu_there_is_no_staging(switched):
    with pytest.raises(ConfigError, match="no CPU is described that could stage a copy"):
        paths.copy_path(switched(2), 0, 1, "host")


def test_pair_matrix_holds_every_pair():
    matrix = paths.pair_matrix(DGX1)
    assert matrix.kind[0] == ["local", "nvlink", "nvlink", "nvlink", "nvlink", "host", "host", "host"]
    assert matrix.bandwidth_Bps[5][1] == paths.copy_path(DGX1, 5, 1).bandwidth_Bps
    assert matrix.latency_s[0][0] == pytest.approx(3e-6)


def test_a_small_copy_over_pcie_takes_as_long_across_switches_as_below_one():
    """Tallent et al. 2017, section 4.1: on the GX8 4 bytes take one time, 1 MB two."""
    near, far = (paths.copy_path(load("gx8"), 0, target) for target in (1, 4))
    assert far.latency_s == pytest.approx(near.latency_s, rel=0.02)
    assert far.bandwidth_Bps < 0.8 * near.bandwidth_Bps


def test_copies_at_once_share_the_uplink():
    staged = [paths.flow(DGX1, 0, 2, "host"), paths.flow(DGX1, 1, 3, "host")]
    assert [rate for rate, _ in fair_shares(DGX1, staged)] == pytest.approx([10.1e9 / 2] * 2)
    direct = [paths.flow(DGX1, 0, 1), paths.flow(DGX1, 2, 3)]
    assert [rate for rate, _ in fair_shares(DGX1, direct)] == pytest.approx([18.41e9] * 2)


def test_between_nodes_a_copy_takes_the_network():
    two = load("dgx-h100", nodes=2, network="ndr400", nics=8)
    path = paths.copy_path(two, 0, 15)
    assert path.kind == "network"
    assert "fabric" in path.names
    assert paths.connectivity(two)[0][8] == "NET"


def test_single_root_is_twice_as_fast_as_dual_root_with_peer_access_off():
    """ServeTheHome 2017: "around a 2x" by not having to traverse the bus between sockets."""
    dual, single = (load(name) for name in ("dual-root-1080ti", "single-root-1080ti"))
    across = paths.copy_path(dual, 0, 4, "host")
    below_one_root = paths.pair_matrix(single, "host").bandwidth_Bps
    assert across.limit == "cpu0 to cpu1"
    for a, row in enumerate(below_one_root):
        assert all(1.8 < rate_Bps / across.bandwidth_Bps < 2.2 for b, rate_Bps in enumerate(row) if a != b)
    assert paths.copy_path(dual, 0, 2, "host").bandwidth_Bps > 2 * across.bandwidth_Bps


def test_without_nvlink_peers_copy_over_pcie_where_it_lets_them():
    dgx1 = load("dgx1-p100")
    assert [paths.copy_path(dgx1, 0, 1, transport).kind for transport in ("auto", "pcie", "host")] == [
        "nvlink", "pcie", "host",
    ]  # fmt: skip
    assert paths.copy_path(dgx1, 0, 2, "pcie").kind == "host"  # across two switches of a CPU that refuses
    assert paths.copy_path(load("gx8"), 0, 4, "pcie").kind == "pcie"
    dgx2 = load("dgx2")
    through = paths.copy_path(dgx2, 0, 2, "pcie").names
    assert not any(name.startswith("nvswitch") for name in through)
