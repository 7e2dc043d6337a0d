"""What `distributed` reads of NCCL's log, and what it asks torch for to register memory with NCCL."""

import dataclasses
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from resnetx.errors import ConfigError
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE, Way
from resnetx.measure.launch.ending import channel_lines
from resnetx.measure.rank import distributed, results
from resnetx.measure.rank import distributed as peers
from resnetx.measure.rank.distributed import Ranks, registered

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


def test_nvlink_sharp_is_seen_on_one_node_and_between_nodes():
    comm = "NVLS comm 0x1 headRank 0 nHeads 8 nvlsRanks 8 buffSize 1048576 memSize 2097152 nvlsPerRankSize 201326592"
    log = f"node:7:7 [0] NCCL INFO {comm}\nnode:7:7 [0] NCCL INFO Connected NVLS tree\n"
    assert channel_lines(log) == [("NVLS", "Connected NVLS tree"), ("NVLS", comm)]


def test_the_transport_of_gpu_ranks_is_what_nccl_says_and_unknown_where_it_says_nothing():
    ranks = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cuda", 0))
    assert results.used(ranks, [LOG, ""]).used == ["P2P/CUMEM", "SHM/direct/direct"]
    assert results.used(ranks, ["", ""]).used == "NCCL's log names no connections"


# ---- registered memory: torch's own functions are the border, as gloo and a machine without GPUs have none of it

GPU_RANK = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cuda", 0))


@pytest.fixture
def told(monkeypatch):
    """What torch is told of memory, in order, where the process group is NCCL's."""
    told: list[tuple[str, ...]] = []

    @contextmanager
    def within(pool, device):
        told.append(("from here in", pool, f"{device}"))
        yield
        told.append(("to here in", pool))

    nccl = SimpleNamespace(mem_allocator="NCCL", register_mem_pool=lambda pool: told.append(("registered", pool)))
    told_of = SimpleNamespace(told=told, nccl=nccl)
    group = SimpleNamespace(_get_backend=lambda _: told_of.nccl)
    monkeypatch.setattr(distributed.dist.distributed_c10d, "_get_default_group", lambda: group)
    monkeypatch.setattr(torch.cuda, "MemPool", lambda allocator: f"pool of {allocator}", raising=False)
    monkeypatch.setattr(torch.cuda, "use_mem_pool", within, raising=False)
    return told_of


def test_a_registered_tensor_is_allocated_in_a_pool_of_nccl_that_is_then_registered(told):
    tensor, memory = registered(lambda: told.told.append(("made",)) or torch.ones(3), GPU_RANK)
    assert tensor.sum() == 3
    name = "pool of NCCL"
    assert memory._pool == name
    assert told.told == [("from here in", name, "cuda:0"), ("made",), ("to here in", name), ("registered", name)]


def test_a_process_group_that_registers_nothing_is_refused_before_anything_is_allocated(told):
    told.nccl = SimpleNamespace()
    with pytest.raises(ConfigError, match=r"registered=true: torch .* registers no memory with nccl; leave it out"):
        registered(lambda: told.told.append(("made",)), GPU_RANK)
    assert told.told == []


# ---- the transport that was asked for


@pytest.mark.parametrize(
    ("asked", "logs", "says"),
    [
        ("auto", [LOG], None),
        ("peer", [LOG], "transport=peer was asked for, and SHM/direct/direct was used"),
        ("host", [LOG], "transport=host was asked for, and P2P/CUMEM was used"),
        ("socket", [""], "transport=socket was asked for, and nothing says what was used: NCCL's log names no connec"),
    ],
)
def test_another_transport_than_the_one_asked_for_is_a_warning(asked, logs, says, monkeypatch):
    monkeypatch.setattr(results, "on_one_node", lambda: True)
    way = Way(asked)
    found = results.used(dataclasses.replace(GPU_RANK, way=way), logs)
    assert found.requested == asked
    messages = [warning.message for warning in results.warnings(found, way)]
    assert bool(messages) == (says is not None)
    assert all(message.startswith(says) for message in messages)


def test_gloo_sends_over_the_interface_that_is_asked_for():
    found = results.over_sockets(Way("socket", "eth7"))
    assert (found.requested, found.used) == ("socket", ["socket"])
    assert found.evidence == ["gloo sends over TCP only; eth7"]
    assert not results.warnings(found, Way("socket", "eth7"))


def test_gpus_that_are_no_peers_are_refused_where_peers_are_asked_for(monkeypatch):
    reached = {(0, 1), (0, 2)}
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda a, b: (a, b) in reached)
    peers.check(Way("peer"), GPU_RANK.device, [0, 1, 2])
    peers.check(Way("host"), GPU_RANK.device, [0, 3])
    with pytest.raises(ConfigError, match=r"transport=peer: GPU 0 cannot reach the memory of GPU 3 .*transport=host"):
        peers.check(Way("peer"), GPU_RANK.device, [0, 1, 3])


@pytest.mark.parametrize("nvlink", [True, False])
def test_peers_with_nvlink_cannot_use_pcie(nvlink, monkeypatch):
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda *_: True)
    monkeypatch.setattr(peers, "has_nvlink", lambda _: nvlink)
    if not nvlink:
        peers.check(Way("pcie"), GPU_RANK.device, [0, 1])
        return
    with pytest.raises(ConfigError, match="transport=pcie: GPUs with NVLink reach each other over it"):
        peers.check(Way("pcie"), GPU_RANK.device, [0, 1])


def test_torch_still_has_the_nccl_backend_that_ranks_choose(monkeypatch):
    c10d = torch.distributed.distributed_c10d
    if (register := getattr(c10d, "_register_builtin_nccl_backend", None)) is None:
        assert tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15), (
            "torch has dropped the choice, or renamed it"
        )
        pytest.skip("this torch has one backend for NCCL")
    registered = []
    monkeypatch.setattr(c10d.Backend, "register_backend", lambda name, creator, **_: registered.append(creator))
    monkeypatch.setattr(c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    for chosen in (FIRST_NCCL_BACKEND, "1"):
        monkeypatch.setenv(NCCL_BACKEND_VARIABLE, chosen)
        register()
    assert registered == [c10d._create_nccl_process_group, c10d._create_nccl2_process_group]
