"""One way to run a collective, as arithmetic: what it takes by size, and what the library expects it to take.

    Algorithm("ring", fixed_s=40e-6, s_per_byte=1.75 / 130e9, limit="gpu0 to gpu1").time_s(2**26)

An algorithm has two prices: what the library expects, by which it chooses, and what it takes. One process that drives
all GPUs of a node starts them one after the other, and no operation ends before the last has begun: its fixed
time is the longer of the two. Where nobody told who starts them (`launch_share` one half), the time is the middle of
both, as logarithms.
"""

import math
from dataclasses import dataclass, replace

from resnetx.interconnect.generations import PIECE_BYTES
from resnetx.interconnect.graph import LaunchMode
from resnetx.interconnect.internode import Plateau

# Of one process that starts all GPUs, by who starts them; None: nobody told.
LAUNCH_SHARES: dict[LaunchMode | None, float] = {"process-per-gpu": 0.0, None: 0.5, "one-process": 1.0}


@dataclass(frozen=True)
class Settling:
    """What is lost on the way to the rate of large sizes, half of it once bytes have moved for `over_s`."""

    lost_s: float
    over_s: float


@dataclass(frozen=True)
class Channels:
    """One message over the channels that NCCL gives it: more of them, the more bytes there are."""

    share: float  # of the array that the largest message has
    least: int
    most: int
    part_bytes: int  # of one channel, beyond which the message gets twice as many
    rate_Bps: float  # of one channel

    def seconds(self, size_bytes: float) -> float:
        count, message_bytes = self.least, self.share * size_bytes
        while count < self.most and message_bytes > count * self.part_bytes:
            count *= 2
        return message_bytes / (count * self.rate_Bps)


@dataclass(frozen=True)
class Algorithm:
    """Seconds = fixed + size x per byte + pieces that fill the ring + what NVSwitches take to reach their rate."""

    name: str  # "ring", "tree", "nvls", "sends"
    fixed_s: float
    s_per_byte: float
    limit: str  # the link that sets the rate
    fill_s_per_byte: float = 0.0  # of one piece, over all the steps before the ring is full
    channels: int = 1
    settling: Settling | None = None  # None: the rate of large sizes is reached at once
    plateau: Plateau | None = None  # between nodes
    one_message: Channels | None = None  # of messages at once: what the largest takes by itself, if that is longer
    protocol: str = ""  # of NCCL, where a ring has several
    expected: tuple[float, float] | None = None  # (fixed s, s per byte) as the library expects; None: what it takes
    launch_s: float = 0.0  # until one process has started all GPUs of a node
    launch_share: float = 0.0  # 1: one process starts them; 0: each has its own; 1/2: not told

    @property
    def label(self) -> str:
        """Its name, with the protocol where it has one."""
        return f"{self.name} ({self.protocol})" if self.protocol else self.name

    def time_s(self, size_bytes: float) -> float:
        own_s = self.fixed_s + self.moving_s(size_bytes)
        return own_s * math.pow(self.launch_ratio(size_bytes), self.launch_share)

    def launch_ratio(self, size_bytes: float) -> float:
        """How many times as long it takes if one process starts all GPUs as if each has a process of its own."""
        return 1.0 + max(0.0, self.launch_s - self.fixed_s) / (self.fixed_s + self.moving_s(size_bytes))

    def moving_s(self, size_bytes: float) -> float:
        """The part of the time that bytes cost."""
        moving_s = size_bytes * self.s_per_byte
        if self.one_message:
            moving_s = max(moving_s, self.one_message.seconds(size_bytes))
        if self.settling:
            moving_s += self.settling.lost_s * moving_s / (moving_s + self.settling.over_s)
        if self.fill_s_per_byte:
            moving_s += self.fill_s_per_byte * min(size_bytes / self.channels, PIECE_BYTES)
        return moving_s + (self.plateau.at(size_bytes) if self.plateau else 0.0)

    def with_latency(self, factor: float) -> "Algorithm":
        """The same with that many times the time that no byte costs."""
        extra = self.plateau and replace(self.plateau, extra_s=self.plateau.extra_s * factor)
        return replace(self, fixed_s=self.fixed_s * factor, plateau=extra, launch_s=self.launch_s * factor)

    def expected_s(self, size_bytes: float) -> float:
        """What the library expects it to take, by which it chooses."""
        if self.expected is None:
            return self.time_s(size_bytes)
        fixed_s, s_per_byte = self.expected
        return fixed_s + size_bytes * s_per_byte
