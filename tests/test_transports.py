"""The transport as a setting: what NCCL is told, what contradicts it, and what no run or machine can do."""

import msgspec
import pytest

from resnetx.api import doctor
from resnetx.api.sweep import study_of
from resnetx.compose import compose
from resnetx.config import check, request_from
from resnetx.errors import ConfigError
from resnetx.launching import AUTO, Way


def request(**settings):
    point = {"model.x": 4, "input": "synthetic", "gpus": 2, **settings}
    return request_from(compose(point))


@pytest.mark.parametrize(
    ("transport", "told"),
    [
        ("auto", {}),
        ("peer", {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"}),
        ("host", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0", "NCCL_NVLS_ENABLE": "0"}),
        ("socket", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}),
    ],
)
def test_nccl_is_told_what_it_may_use(transport, told):
    assert told.items() <= Way(transport).nccl.items()
    assert bool(Way(transport).nccl) == bool(told)


def test_gpudirect_tells_nccl_how_far_cards_reach():
    assert Way(gpudirect=True).nccl == {"NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1"}
    assert Way(gpudirect=False).nccl == {"NCCL_NET_GDR_LEVEL": "LOC", "NCCL_NET_GDR_READ": "0"}


def test_an_interface_is_named_exactly():
    way = Way("socket", "eth1")
    assert way.nccl["NCCL_SOCKET_IFNAME"] == "=eth1"  # else eth10 is one, too
    assert way.gloo == {"GLOO_SOCKET_IFNAME": "eth1"}


@pytest.mark.parametrize(
    ("transport", "used", "other"),
    [
        ("auto", ["SHM/direct/direct"], []),
        ("peer", ["P2P/CUMEM", "NVLS"], []),
        ("peer", ["P2P/CUMEM", "SHM/direct/direct"], ["SHM/direct/direct"]),
        ("host", ["SHM/direct/direct"], []),
        ("host", ["P2P/IPC"], ["P2P/IPC"]),
        ("socket", ["NET/Socket/0"], []),
        ("socket", ["NET/IB/0/GDRDMA"], ["NET/IB/0/GDRDMA"]),
    ],
)
def test_connections_that_were_not_asked_for_are_found(transport, used, other):
    assert Way(transport).contradicted(used, one_node=True) == other


def test_between_nodes_the_network_is_no_contradiction():
    assert Way("peer").contradicted(["P2P/CUMEM", "NET/IB/0"], one_node=False) == []
    assert Way("peer").contradicted(["NET/IB/0"], one_node=True) == ["NET/IB/0"]


def test_requests_of_before_keep_their_keys():
    plain = request()
    assert plain.key == "916a4c76"
    assert {plain.key, request(transport="socket").key, request(interface="lo").key} != {plain.key}
    assert request(transport="socket").baseline_key == plain.baseline_key


def test_twins_that_exchange_nothing_have_no_transport():
    twins = request(transport="socket", interface="lo").twins
    assert twins["alone"].way == AUTO
    assert twins["phases"].way == Way("socket", "lo")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"transport": "socket", "gpus": 1}, "transport=socket: this run exchanges no gradients"),
        ({"interface": "lo", "gpus": 1}, "interface=lo: this run exchanges no gradients"),
        ({"transport": "host", "env.NCCL_P2P_DISABLE": 1}, "env.NCCL_P2P_DISABLE: set by transport=host; leave one"),
        ({"interface": "lo", "env.GLOO_SOCKET_IFNAME": "lo"}, "env.GLOO_SOCKET_IFNAME: set by interface=lo; leave one"),
        ({"gpudirect": False, "gpus": 1}, "gpudirect=false: this run exchanges no gradients"),
        ({"gpudirect": True, "env.NCCL_NET_GDR_LEVEL": "PIX"}, "env.NCCL_NET_GDR_LEVEL: set by gpudirect=true; leave"),
        ({"transport": "host", "strategy": "server", "strategy.device": "cpu"}, "over sockets; use transport=socket"),
    ],
)
def test_what_no_machine_can_do_is_refused(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check(request(**settings))


def test_the_baseline_of_a_comparison_of_transports_has_none():
    tree = compose({"model.x": 4, "input": "synthetic", "gpus": 1, "transport": "socket"})
    assert request_from(tree, max_gpus=2).way == AUTO


@pytest.mark.parametrize(
    ("way", "gpus", "sentence"),
    [
        (Way("socket"), 0, ""),
        (Way("auto", "lo"), 0, ""),
        (Way(gpudirect=True), 0, "gpudirect=true: network cards reach memory of GPUs, and this machine has none"),
        (Way("host"), 0, "transport=host: gloo sends over TCP only"),
        (Way("peer"), 0, "transport=peer: between GPUs, and this machine has none"),
        (Way("auto", "none0"), 0, "interface=none0: this host has no such network interface; it has "),
        (Way("host"), 2, ""),
        (Way("auto", "lo"), 2, "interface=lo: read with transport=socket on GPUs"),
    ],
)
def test_what_this_machine_cannot_do_is_a_sentence(way, gpus, sentence, monkeypatch):
    monkeypatch.setattr(doctor.socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    found = doctor.obstacle_to_way(way, gpus)
    assert found.startswith(sentence) and bool(found) == bool(sentence)


@pytest.mark.parametrize(
    ("gpus", "sentence"),
    [([1], "one rank sends nothing, so no transport differs"), ([1, 2], "on CPU ranks auto is socket")],
)
def test_an_axis_that_could_not_differ_is_refused(gpus, sentence):
    with pytest.raises(ConfigError, match=sentence):
        study_of(
            {"model": {"kind": "resnetx", "x": 4}, "input": "synthetic", "gpus": gpus, "transport": ["auto", "socket"]}
        )


def test_interfaces_are_an_axis_of_a_sweep(monkeypatch):
    monkeypatch.setattr(doctor.socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    study = study_of(
        {"model": {"kind": "resnetx", "x": 4}, "input": "synthetic", "gpus": [1, 2], "interface": ["lo", "eth0"]}
    )
    assert [(point.gpus, point.interface) for point in study.record.points] == [(1, None), (2, "lo"), (2, "eth0")]
    assert msgspec.json.decode(msgspec.json.encode(study.record.points[1]))["interface"] == "lo"
