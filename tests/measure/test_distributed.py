from resnetx.measure.distributed import Ranks, transport
from resnetx.measure.nccl_log import channel_lines

# Two lines of an NCCL 2.2x log at INFO, between others that a reader must not take for them.
LOG = """\
node:7:7 [0] NCCL INFO Channel 00/16 :    0   1   2   3
node:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node:7:7 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
node:7:7 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct
node:7:7 [0] NCCL INFO Connected all rings
"""


def test_the_transport_of_each_connection_is_read_from_ncclss_log():
    assert channel_lines(LOG) == [
        ("P2P/CUMEM", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
        ("SHM/direct/direct", "Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct"),
    ]


def test_the_transport_of_gpu_ranks_is_what_nccl_says_and_unknown_where_it_says_nothing():
    import torch

    ranks = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cuda", 0))
    assert transport(ranks, [LOG, ""])["used"] == ["P2P/CUMEM", "SHM/direct/direct"]
    assert transport(ranks, ["", ""])["used"] == "NCCL's log names no connections"
