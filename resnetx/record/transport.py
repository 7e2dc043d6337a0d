"""How data travelled between ranks, and between nodes by which network cards."""

from typing import Literal

from resnetx.record.base import RecordPart


class NicUse(RecordPart, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One end of a connection between nodes, as NCCL logged it: the sender's card, or the receiver's."""

    channel: int  # of NCCL, each of which has a ring
    connection: int  # 0: of collectives, 1: of single sends
    ring: bool  # it is a step of the channel's ring; else of its tree, or of a single send
    source: int  # rank
    target: int
    end: Literal["send", "receive"]
    network: str  # "IB", "Socket", "AWS Libfabric"
    nic: int  # number of the card on the node of this end
    name: str | None  # "mlx5_0"
    gpudirect: bool  # the card reaches GPU memory (GPUDirect RDMA), else memory of the host
    driver: int  # the rank that drives the card: the one of this end, or another of its node (PXN)


class Transport(RecordPart, frozen=True):
    """How gradients travelled between ranks."""

    requested: str
    used: list[str] | None
    evidence: list[str]
    nics: list[NicUse] | None = None  # both ends of each connection between nodes; older records lack it
