"""Traffic as files: CSV matrices with and without names, and what NCCL's log says of channels and operations."""

import pytest

from resnetx.errors import ConfigError
from resnetx.formats.logs import read_channels
from resnetx.steering.steered_traffic import read_traffic

MATRIX = ((0, 120e6, 40e6), (120e6, 0, 0), (40e6, 0, 0))


@pytest.mark.parametrize(
    "text",
    [
        "0,120e6,40e6\n120e6,0,0\n40e6,,0\n",
        "gpu0,gpu1,gpu2\n0,120e6,40e6\n120e6,0,0\n40e6,0,0\n",
        "to,gpu0,gpu1,gpu2\ngpu0,0,120e6,40e6\ngpu1,120e6,0,0\n\ngpu2,40e6,0,0\n",
        "gpu0, 0,120e6,40e6\ngpu1,120e6, 0,0\ngpu2,40e6,0,0\n",
        "to,0,1,2\n0,0,120e6,40e6\n1,120e6,0,0\n2,40e6,0,0\n",
        "\ufeff,a,b,c\na,0,120e6,40e6\nb,120e6,0,0\nc,40e6,0,0\n",
    ],
)
def test_a_matrix_may_have_names_of_columns_of_rows_both_or_neither(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert read_traffic(tmp_path / "a.csv") == MATRIX


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty; expected a row for each GPU"),
        ("to,a,b\n", "a heading and no rows"),
        ("0,1\n1,0\n1,1\n", "line 1: 3 rows, and 2 columns here; expected as many columns as rows"),
        ("0,1\n1\n", "line 2: 2 rows, and 1 columns here"),
        ("0,-1\n1,0\n", "line 1: -1: expected a number of bytes, 0 or more"),
        ("0,1\nnan,0\n", "line 2: nan: expected a number of bytes"),
        ("0,1\ninf,0\n", "inf: expected"),
        ("0,0\n0,0\n", "all of it is 0"),
        ("0,1\n1,5\n", "line 2: 5 from GPU 1 to itself; expected 0 on the diagonal"),
        ("0,1e300\n1,0\n", "1e300: expected 0, or 1e-09 to 1e\\+24"),
        ("0,many\n1,0\n", "expected"),
        ('"0,1\n', "not CSV"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_line(tmp_path, text, sentence):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        read_traffic(tmp_path / "a.csv")


# As NCCL 2.27 prints it; the node's name and ids are made up.
LOG = """\
node:101:201 [0] NCCL INFO Channel 00/02 : 0 3 2 1
node:101:201 [0] NCCL INFO Channel 01/02 : 0 1 2 3
node:101:201 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1
node:101:201 [0] NCCL INFO Channel 00/0 : 0[0] -> 3[3] via P2P/CUMEM
node:104:204 [3] NCCL INFO Channel 00/0 : 3[3] -> 2[2] via P2P/CUMEM
node:101:201 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm 0x5
node:104:204 [3] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm 0x6
node:101:201 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm 0x5
node:101:201 [0] NCCL INFO Broadcast: opCount 2 sendbuff 0x7f recvbuff 0x7f count 10 datatype 1 op 0 root 0 comm 0x5
"""


def test_a_log_names_rings_and_what_one_rank_ran(tmp_path):
    (tmp_path / "nccl.log").write_text(LOG)
    found = read_channels(tmp_path / "nccl.log")
    assert found.rings == [(0, 3, 2, 1), (0, 1, 2, 3)]
    assert found.connections == {(0, 3): 1, (3, 2): 1}
    assert found.operations == {("allreduce", 4096): 2, ("broadcast", 10): 1}
    assert found.ranks == 4


def test_an_old_log_names_connections_alone(tmp_path):
    (tmp_path / "nccl.log").write_text(
        "n:1:2 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC\n"
        "n:1:2 [1] NCCL INFO Ring 00 : 1[1] -> 0[0] via P2P/IPC\n"
        "n:1:2 [0] NCCL INFO Ring 01 : 0[0] -> 1[1] via P2P/IPC\n"
    )
    found = read_channels(tmp_path / "nccl.log")
    assert (found.rings, found.connections, found.ranks) == ([], {(0, 1): 2, (1, 0): 1}, 2)


def test_a_text_without_channels_is_no_log(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing of NCCL")
    with pytest.raises(ConfigError, match="names no channels; expected a log of NCCL_DEBUG=INFO"):
        read_channels(tmp_path / "notes.txt")
