"""Copies between ranks that one rank sends and the other receives, over the process group: gloo's sockets on CPUs.

    source   waits for the others [start] send ............
    target   posts its receive, says so   ........ received [end]

A copy lasts from the moment the source starts to send until the target has it all. Both read the same clock where they
run on one host (CLOCK_MONOTONIC); between hosts the target sends it back, and half of the round trip counts, as in
the OSU benchmarks. Whoever takes part says that it is ready, so that nobody starts before a receive is posted; the
other ranks wait meanwhile, and use no CPU.
"""

import time
from dataclasses import dataclass, field

import torch

from resnetx.copies import Entry, Flow
from resnetx.host import node_name
from resnetx.measure.bench import checks
from resnetx.measure.bench.observed import CLEAR, Observed, data_of, ended_together
from resnetx.measure.rank import used_transport
from resnetx.measure.rank.distributed import HostGroup, Ranks, Work
from resnetx.record.copies import Endpoint

RELAYED_BYTES = 2**20  # of each piece that a relay passes on while it receives the next one
_DATA, _READY, _BACK = 0, 1, 2  # tags


@dataclass(frozen=True)
class Times:
    """When this rank started to send a flow, and when it had received it, each timing; by its own clock."""

    met_s: list[float] = field(default_factory=list)  # when all were ready
    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    round_trip_s: list[float] = field(default_factory=list)  # at the source of a flow to another host


class SentCopies:
    """Copies between ranks by send and receive."""

    def __init__(self, most_bytes: int, ranks: Ranks, endpoint: Endpoint, host_group: HostGroup | None = None) -> None:
        """`endpoint`: where the data lies; `host_group`: the ranks over memory of their hosts, where that is not how
        they have joined."""
        self._ranks, self._endpoint, self._host_group = ranks, endpoint, host_group
        on_device = endpoint == "device"
        self._group = None if on_device else host_group
        self._on_gpus = on_device and ranks.device.type == "cuda"
        device = ranks.device if on_device else torch.device("cpu")
        pinned = endpoint == "pinned"
        self._sent, self._received = (
            torch.zeros(most_bytes, dtype=torch.uint8, device=device, pin_memory=pinned) for _ in range(2)
        )
        self._nodes = ranks.gather(node_name())

    def observe(self, entry: Entry, warmups: int, timings: int) -> Observed:
        times = [Times() for _ in entry.flows]
        taking_part = sorted(set().union(*(flow.places for flow in entry.flows)))
        sent, received = self._sent[: entry.size_bytes], self._received[: entry.size_bytes]
        if self._ranks.rank in taking_part:
            checks.write(sent, data_of(self._ranks.rank))
            received.fill_(CLEAR)
            for _ in range(warmups + timings):
                self._copy(entry.flows, sent, received, times, taking_part)
        every = self._ranks.gather((times, [self._wrong(flow, received) for flow in entry.flows]))
        seconds = [
            self._seconds(flow, [of_rank[place] for of_rank, _ in every], len(entry.flows))[warmups:]
            for place, flow in enumerate(entry.flows)
        ]
        return Observed(
            times_s=ended_together(entry, seconds),
            wrong=[sum(of_rank[place] for _, of_rank in every) for place in range(len(entry.flows))],
            endpoint=self._endpoint,
            path="socket" if self._over_sockets else "network",
            evidence=[*self._way(), *self._clock(entry.flows)],
        )

    # ---- one timing -------------------------------------------------------------------------------------------------

    def _copy(
        self,
        flows: tuple[Flow, ...],
        sent: torch.Tensor,
        received: torch.Tensor,
        times: list[Times],
        taking_part: list[int],
    ) -> None:
        """This rank's part of all flows, once."""
        if self._on_gpus:
            self._exchange(flows, sent, received, times, taking_part)
            return
        me = self._ranks.rank
        incoming = [(flow, self._posted(flow, received)) for flow in flows if me in (flow.target, flow.through)]
        self._meet(flows, taking_part)
        met_s = time.perf_counter()
        outgoing: list[Work] = []
        for flow, noted in zip(flows, times, strict=True):
            noted.met_s.append(met_s)
            if flow.source == me:
                noted.start_s.append(time.perf_counter())
                outgoing += self._sends(flow, sent)
        for flow, works in incoming:
            if flow.through == me:
                outgoing += self._passed_on(flow, works, received)
            else:
                self._wait(works)
                times[flows.index(flow)].end_s.append(time.perf_counter())
        self._wait(outgoing)
        self._send_back(flows, sent, received, times)

    def _exchange(
        self,
        flows: tuple[Flow, ...],
        sent: torch.Tensor,
        received: torch.Tensor,
        times: list[Times],
        taking_part: list[int],
    ) -> None:
        """The same between memory of GPUs: what NCCL sends and receives starts at once, once all are ready."""
        me = self._ranks.rank
        self._meet(flows, taking_part)
        met_s = time.perf_counter()
        sends = [(sent, _rank(flow.target)) for flow in flows if flow.source == me]
        receives = [(received, _rank(flow.source)) for flow in flows if flow.target == me]
        self._wait(self._ranks.starts_exchange(sends, receives))
        end_s = time.perf_counter()
        for flow, noted in zip(flows, times, strict=True):
            noted.met_s.append(met_s)
            if flow.source == me:
                noted.start_s.append(met_s)
            if flow.target == me:
                noted.end_s.append(end_s)
        self._send_back(flows, sent, received, times)

    def _send_back(
        self, flows: tuple[Flow, ...], sent: torch.Tensor, received: torch.Tensor, times: list[Times]
    ) -> None:
        """To another host, whose clock differs: the way back, which makes a round trip of a single copy."""
        (flow, *others), me = flows, self._ranks.rank
        if others or not self._apart(flow):
            return
        if flow.target == me:
            self._wait([self._ranks.starts_send(received, _rank(flow.source), self._group, _BACK)])
        if flow.source == me:
            self._wait([self._ranks.starts_receive(sent, _rank(flow.target), self._group, _BACK)])
            times[0].round_trip_s.append(time.perf_counter() - times[0].start_s[-1])

    def _posted(self, flow: Flow, received: torch.Tensor) -> list[Work]:
        """Receives of a flow, one for each piece."""
        sender = flow.source if flow.through in (None, self._ranks.rank) else flow.through
        return [
            self._ranks.starts_receive(piece, _rank(sender), self._group, _DATA) for piece in _pieces(flow, received)
        ]

    def _sends(self, flow: Flow, sent: torch.Tensor) -> list[Work]:
        target = flow.target if flow.through is None else flow.through
        return [self._ranks.starts_send(piece, _rank(target), self._group, _DATA) for piece in _pieces(flow, sent)]

    def _passed_on(self, flow: Flow, works: list[Work], received: torch.Tensor) -> list[Work]:
        """Sends each piece on as soon as it is there, while the next ones come in."""
        sends = []
        for piece, work in zip(_pieces(flow, received), works, strict=True):
            self._wait([work])
            sends.append(self._ranks.starts_send(piece, _rank(flow.target), self._group, _DATA))
        return sends

    def _meet(self, flows: tuple[Flow, ...], taking_part: list[int]) -> None:
        """Waits until all that take part are ready. Of one flow, only its source has to know."""
        first = _rank(flows[0].source)
        if self._ranks.rank == first:
            others, then = [rank for rank in taking_part if rank != first], (self._hear, self._tell)
        else:
            others, then = [first], (self._tell, self._hear)
        for each in then[: 2 if len(flows) > 1 else 1]:
            each(others)

    def _tell(self, others: list[int]) -> None:
        for rank in others:
            self._ranks.starts_send(_token(), rank, self._host_group, _READY).wait()

    def _hear(self, others: list[int]) -> None:
        for rank in others:
            self._ranks.starts_receive(_token(), rank, self._host_group, _READY).wait()

    def _wait(self, works: list[Work]) -> None:
        for work in works:
            work.wait()
        if self._on_gpus:
            torch.cuda.synchronize(self._ranks.device)  # `wait` of NCCL makes the stream wait, not the host

    # ---- what it says -----------------------------------------------------------------------------------------------

    def _apart(self, flow: Flow) -> bool:
        return self._nodes[_rank(flow.source)] != self._nodes[_rank(flow.target)]

    def _seconds(self, flow: Flow, by_rank: list[Times], flows: int) -> list[float]:
        """Of each timing of a flow."""
        source, target = by_rank[_rank(flow.source)], by_rank[_rank(flow.target)]
        if not self._apart(flow):
            return [end - start for start, end in zip(source.start_s, target.end_s, strict=True)]
        if flows == 1:
            return [round_trip_s / 2 for round_trip_s in source.round_trip_s]
        return [end - met for met, end in zip(target.met_s, target.end_s, strict=True)]

    def _wrong(self, flow: Flow, received: torch.Tensor) -> int:
        return checks.unlike(received, data_of(flow.source)) if flow.target == self._ranks.rank else 0

    @property
    def _over_sockets(self) -> bool:
        return self._ranks.device.type == "cpu" or self._endpoint != "device"

    def _way(self) -> list[str]:
        return used_transport.over_sockets(self._ranks.way).evidence if self._over_sockets else []

    def _clock(self, flows: tuple[Flow, ...]) -> list[str]:
        if not any(map(self._apart, flows)):
            return []
        return ["half of a round trip" if len(flows) == 1 else "from the target's start to its end, by its own clock"]


def _token() -> torch.Tensor:
    """What says that a rank is ready."""
    return torch.zeros(1, dtype=torch.uint8)


def _rank(place: object) -> int:
    assert isinstance(place, int), f"{place!r} is no rank"
    return place


def _pieces(flow: Flow, data: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (data,) if flow.through is None else data.split(RELAYED_BYTES)
