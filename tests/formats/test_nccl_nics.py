"""Network cards in NCCL's log. The lines are made up after NCCL's format strings (src/transport/net.cc, net_ib.cc,
net_socket.cc of NCCL 2.4 to 2.28): no log of a machine with such cards was at hand."""

from resnetx.formats.logs import NetworkEnd, network_ends, ring_steps

RANK_3 = """\
node1:7:7 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.1.0.1<0>
node1:7:7 [3] NCCL INFO Channel 00/02 :    0   1   2   3   4   5   6   7
node1:7:7 [3] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM
node1:7:7 [3] NCCL INFO Channel 01/0 : 3[3] -> 4[0] [send] via NET/IB/1(2)/GDRDMA/Shared
node1:7:7 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA
node1:7:7 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA
node1:7:7 [3] NCCL INFO Channel 00/1 : 4[0] -> 3[3] [receive] via NET/IB/0
"""


def test_each_end_has_its_card_its_name_and_whether_the_card_reaches_gpu_memory():
    here = {"network": "IB", "source": 3, "target": 4, "end": "send", "gpudirect": True}
    assert network_ends(RANK_3) == [
        NetworkEnd(channel=0, connection=0, card=0, name="mlx5_0", proxy=None, **here),
        NetworkEnd(0, 1, 4, 3, "receive", "IB", 0, "mlx5_0", False, None),
        NetworkEnd(channel=1, connection=0, card=1, name="mlx5_1", proxy=2, **here),
    ]


def test_ring_steps_close_the_ring():
    log = "x NCCL INFO Channel 00/02 :    0   1   2\nx NCCL INFO Channel 01/02 :    0   2   1\n"
    assert ring_steps(log) == {(0, 0, 1), (0, 1, 2), (0, 2, 0), (1, 0, 2), (1, 2, 1), (1, 1, 0)}


def names(cards: str, network: str = "IB", number: int = 0) -> str | None:
    end = f"x NCCL INFO Channel 02 : 1[b1000] -> 0[18000] [send] via NET/{network}/{number}\n"
    (found,) = network_ends(f"{cards}\n{end}")
    assert (found.channel, found.connection, found.network) == (2, 0, network)
    return found.name


def test_names_of_sockets_and_of_ports_that_are_used_as_one():
    assert names("x NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>", "Socket", 1) == "eth1"
    merged = (
        "x NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/IB [RO]; OOB ib0:10.1.0.1<0>"
    )
    assert (names(merged), names(merged, number=1)) == ("mlx5_0+mlx5_1", "mlx5_2")
    assert names("x NCCL INFO NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=1 ndevs=2", number=4) == (
        "mlx5_0+mlx5_1"
    )


def test_a_plugin_that_names_no_cards_leaves_the_name_unknown():
    assert names("x NCCL INFO NET/IB : No device found.", "AWS Libfabric", 3) is None


def test_a_log_of_one_node_has_no_such_end():
    assert network_ends("x NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n") == []
