"""From NCCL's log of two nodes to the record, the screen and the answer about rails.

The log lines are made up after NCCL's format strings (src/transport/net.cc, net_ib.cc): no log of such nodes was at
hand.
"""

import dataclasses

import pytest
import torch

from resnetx.cli.verbs import show_bench
from resnetx.launching import Way
from resnetx.measure.rank import results
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import Device, if_known
from resnetx.reporting import bench_conclusions

GPU_RANK = Ranks(rank=0, local_rank=0, world_size=4, device=torch.device("cuda", 0))
CARDS = "n:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.1.0.1<0>\n"


RINGS = "n:7:7 [0] NCCL INFO Channel 00/02 :    0   1   2   3\nn:7:7 [0] NCCL INFO Channel 01/02 :    0   3   2   1\n"


def end(channel, source, target, way, card, how="/GDRDMA", kind=0):
    pair = f"{source}[{source % 2}] -> {target}[{target % 2}]"
    return f"n:7:7 [0] NCCL INFO Channel {channel:02d}/{kind} : {pair} [{way}] via NET/IB/{card}{how}\n"


# Two nodes of two GPUs: the ring of channel 0 crosses at 1 -> 2 and 3 -> 0, that of channel 1 at 0 -> 3 and 2 -> 1.
LOGS = [
    CARDS + RINGS + end(0, 3, 0, "receive", 0) + end(1, 0, 3, "send", 0),
    CARDS + end(0, 1, 2, "send", 1) + end(1, 2, 1, "receive", 1) + end(0, 1, 3, "send", 1),
    CARDS + end(0, 1, 2, "receive", 0) + end(1, 2, 1, "send", 0, how="(3)/Shared"),
    end(0, 3, 0, "send", 1) + end(1, 0, 3, "receive", 1, how="") + end(0, 1, 3, "receive", 1),
]  # fmt: skip


@pytest.fixture
def several_nodes(monkeypatch):
    monkeypatch.setattr(results, "on_one_node", lambda: False)


@pytest.fixture
def devices():
    def device(rank):
        facts = dict.fromkeys(Device.__struct_fields__, "") | {"rank": rank, "index": rank % 2}
        return Device(**facts | {"node": f"node{rank // 2 + 1}"})

    return [device(rank) for rank in range(4)]


def test_each_end_between_nodes_is_recorded_with_its_card(several_nodes):
    found = results.nics(LOGS)
    assert len(found) == 10
    pxn = next(each for each in found if each.driver != each.source and each.end == "send")
    assert (pxn.channel, pxn.source, pxn.target, pxn.driver, pxn.name, pxn.gpudirect) == (1, 2, 1, 3, "mlx5_0", False)
    assert [each.ring for each in found if (each.source, each.target) == (1, 3)] == [False, False]
    assert [if_known(each.name) for each in found if each.driver == 3 and each.end == "receive"] == [None, None]


def test_on_one_node_and_where_the_log_is_silent_the_reason_is_recorded(several_nodes, monkeypatch):
    assert results.nics(["", ""]) == "NCCL's log names no connection between nodes"
    monkeypatch.setattr(results, "on_one_node", lambda: True)
    assert results.nics(LOGS) == "all ranks are on one node"
    assert results.over_sockets().nics == "gloo does not say by which network card it sends"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (None, None),
        (False, "gpudirect=false was asked for, and 8 of 10 ends"),
        (True, "gpudirect=true was asked for, and 2 of 10"),
    ],
)
def test_gpudirect_otherwise_than_asked_for_is_a_warning(several_nodes, asked, says):
    way = Way(gpudirect=asked)
    found = results.used(dataclasses.replace(GPU_RANK, way=way), LOGS)
    messages = [warning.message for warning in results.unlike_gpudirect(found, way)]
    assert bool(messages) == (says is not None)
    assert all(message.startswith(says) for message in messages)


def test_rings_that_change_rails_and_share_cards_are_told(several_nodes, devices):
    found = bench_conclusions.crossings(results.nics(LOGS))
    assert [(each.channel, each.ring, each.source, each.target, each.on_one_rail) for each in found] == [
        (0, True, 1, 2, False),
        (0, True, 3, 0, False),
        (0, False, 1, 3, True),
        (1, True, 0, 3, False),
        (1, True, 2, 1, False),
    ]
    seen = bench_conclusions.rails(found, devices)
    assert (seen.kept, seen.compared) == (0, 4)
    assert [(each.node, each.card, each.channels) for each in seen.cards][:2] == [
        ("node1", "mlx5_0", (0, 1)),
        ("node1", "mlx5_1", (0, 1)),
    ]


def test_the_screen_has_a_row_for_connections_that_are_alike(several_nodes, devices):
    ends = results.nics([CARDS + LOGS[0].partition("\n")[2] + end(2, 3, 0, "receive", 0), *LOGS[1:]])
    rows = show_bench._nic_rows(bench_conclusions.crossings(ends))
    assert ("0", "1", "2", "ring", "mlx5_1", "mlx5_0", "yes") in rows
    assert ("1", "2", "1", "ring", "mlx5_0", "mlx5_1", "one end") in rows
