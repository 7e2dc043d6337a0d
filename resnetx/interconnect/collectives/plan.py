"""What a collective costs on a system: rings, trees and in-switch reduction, from the link graph to seconds.

    plan(load("dgx1-v100"), "allreduce", devices=[0, 1, 2, 3, 4]).cost(64 * 2**20)

A plan is made once (it searches the rings); a cost is then arithmetic. A library generation decides what is tried,
and of what it tries, what the library expects to be fastest is taken, as it is on the machine:

    nccl1    one ring in the order of the bus; over NVLink only if all GPUs are mutual peers, else over PCIe and the
             host (inferred from Tallent et al. 2017 and Tartan: no source says so)
    nccl2    as many rings as whole NVLink lanes allow, half lanes for up to 4 GPUs (source of NCCL 2.0 to 2.3,
             `p2p.cu`); else one ring over PCIe, staged in the host where GPUs are no peers; LL for small sizes
    nccl2.4  the same with half lanes for any number of GPUs, LL128 over NVLink, and trees for allreduce; peer traffic
             over PCIe only below one PCIe root (NCCL_P2P_LEVEL is PXB by default), else staged
    nvls     the same with reduction inside NVSwitches that can
    gloo     one ring of host processes over sockets

The assumptions, and how much depends on each:

- A link's rate is that of one large copy, measured or from its datasheet; kernels get 17/18 of it on NVLink 1 and 2
  (`graph.NVLINK_KERNELS`, packet headers), what NCCL plans with on NVLink 3 and 4, and a fitted share of one link
  where a ring goes over PCIe. All large sizes scale with it.
- Rings share nothing but lanes: their bandwidths add up. Measured on a P100 DGX-1: true at 2, 3, 4 and 6 GPUs, 11 % too
  good at 8.
- Across CPU sockets, kernels of NCCL 2 and later get what NCCL's source plans for them (`kernel_GBps` of a link
  part), far less than a copy engine. It decides how deep a DGX-1 falls at 5 GPUs: to 6.0 instead of 10.1 GB/s. NCCL 1
  is given the rates of copies there, for what it was measured at is above 6.0; why, is not known. Between two EPYC of
  Turin they get what another such host was measured at (23), as NCCL plans with 16 for any of AMD's.
- Latency = launch + base + steps x hop, with base and hop from the source of NCCL (`GENERATIONS`, `protocols`), but for
  the hops of Simple and LL128 over NVLink (`Fitted`).
- Rings are counted by lanes; NCCL's logs have two channels for each, up to Ampere (`test_nccl_logs.py`).
- Inside one node, what NCCL takes beyond its source is fitted to published measurements (`Fitted`): 22 figures,
  such as 4.7 us for each GPU that one process starts, and that LL128 reaches 0.6 of the links' rate in an all-reduce
  (source: 0.92). `errors` has how far off predictions are of kinds of machines that were left out of the fit.
- Who starts the GPUs decides what small sizes take (`Algorithm.launch_s`); where nobody tells, it is open.
- Rings through NVSwitches reach the rate of large sizes over 0.2 ms only, and lose a part of each round's last step.
- Trees carry 0.46 of the links' rate (`tuning.cc`), in-switch reduction 0.84 on Hopper (fitted; the source has 0.85).
- What NCCL takes of these is held to what its own code answers (`tests/interconnect/nccl_search.yaml`).
- Several nodes have the fixed times and shares of the source (`BETWEEN_NODES`); reduction in switches takes there what
  it takes inside one node, and the steps between nodes; RCCL has Simple only. One figure is fitted to times between
  nodes: a channel of a tree hands on in LL at 5.3 GB/s, step after step.
- Between nodes, every network card that the library drives carries one ring, all of them equal shares, each from a GPU
  of its own; `internode` says which cards those are, and what a step between nodes costs. With in-switch reduction the
  nodes form two trees, in which a node sends all its data twice if there are more than two.
- Collectives other than allreduce have twice the hand-overs a step in NCCL 2.0 to 2.3 (`collectives.h`). Broadcast and
  reduce still come out up to 1.6 times too fast there on 8 GPUs: the cost of their many small pieces is not known.
- `gloo`: one figure, measured on one small machine (`SOCKET_Bps`); an order of magnitude.

Bandwidths: algbw = size / time; busbw = algbw x `bus_factor`, as nccl-tests defines both (size: the whole array).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import exp, inf, log
from statistics import fmean
from typing import get_args

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collectives.algorithms import (
    LAUNCH_SHARES,
    Algorithm,
    NcclAlgorithms,
    choices,
    time_of,
)
from resnetx.interconnect.collectives.internode import Groups, join_nodes
from resnetx.interconnect.collectives.measured import (
    Calibration,
    ComparedTime,
    MeasuredCollective,
    by_one_size,
    by_times,
    refuse_other_library,
)
from resnetx.interconnect.collectives.protocols import fitted
from resnetx.interconnect.collectives.rings import (
    GENERATIONS,
    SOCKET,
    Lanes,
    Ring,
    SOCKET_Bps,
    directions,
    fractional,
    join,
)
from resnetx.interconnect.collectives.sends import NcclSends, leaving
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import by_node, unlike_nodes
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import FABRIC, LaunchMode, Library, System
from resnetx.operations import OPERATIONS, Operation
from resnetx.units import in_GBps, size_text

COLLECTIVES = tuple(OPERATIONS)
WORTH_SAYING = 1.05  # times as long
MOSTLY = 0.5  # of a time that bytes must take for one size to say how fast they move
FASTEST = 1.02  # times what links carry, which a time may say: it is rounded
LIBRARIES: tuple[str, ...] = get_args(Library)
SENDING = tuple(name for name, generation in GENERATIONS.items() if generation.sends)  # the oldest first


@dataclass(frozen=True)
class Cost:
    """What one operation of one size costs."""

    time_s: float
    algbw_Bps: float
    busbw_Bps: float
    algorithm: str
    limiting_link: str


@dataclass(frozen=True)
class CollectivePlan:
    """How a library would run a collective on these GPUs; `cost` is then cheap."""

    system: System
    collective: str
    devices: tuple[int, ...]
    library: str
    algorithms: tuple[Algorithm, ...]  # of which the fastest is taken
    notes: tuple[str, ...]  # why, in sentences
    rings: tuple[Ring, ...] = ()  # inside one node; on several nodes, of the first
    chains: tuple[Ring, ...] = ()
    lanes: Lanes | None = None  # direct NVLink lanes between the devices, where rings were packed into them
    transport: Transport = "auto"
    staged: bool = False  # whether data between GPUs of one node pass host memory
    launch_mode: LaunchMode | None = None  # None: not told
    calibration: Calibration | None = None

    def launched_by(self, mode: LaunchMode | None) -> "CollectivePlan":
        """The same with one process that starts all GPUs of a node, or one for each; None: not told."""
        algorithms = tuple(replace(algorithm, launch_share=LAUNCH_SHARES[mode]) for algorithm in self.algorithms)
        return replace(self, algorithms=algorithms, launch_mode=mode)

    def launch_spread(self, size_bytes: float) -> float:
        """ln of what a size takes at most, if nobody told who starts the GPUs, over what is said; 0: it is known.

        Of sizes that were measured on the machine at hand it is as it was there.
        """
        measured = self.calibration is not None and not self.calibration.elsewhere and self.calibration.points > 1
        return 0.0 if self.launch_mode or measured else log(self.fastest(size_bytes).launch_ratio(size_bytes)) / 2

    def launch_decides(self, size_bytes: float) -> bool:
        """Whether who starts the GPUs makes a difference to what the library runs."""
        return self.launched_by("process-per-gpu").fastest(size_bytes).launch_decides(size_bytes)

    @cached_property
    def spans_nodes(self) -> bool:
        """Whether its GPUs are in several nodes: else it is as in a system of one."""
        return len({self.system.node_of(gpu) for gpu in self.devices}) > 1

    @cached_property
    def no_peers(self) -> bool:
        """Whether all that goes between GPUs of a node is staged in the host."""
        if not self.staged or self.transport == "host":
            return self.staged
        groups = by_node(self.system, self.devices)
        return not any(paths.are_peers(self.system, a, b) for group in groups for a, b in combinations(group, 2))

    @cached_property
    def bus_factor(self) -> float:
        """busbw / algbw."""
        return OPERATIONS[self.collective].bus_factor(len(self.devices))

    @cached_property
    def bound_lanes(self) -> float | None:
        """Rings' worth of lanes that the best fractions would carry; None where no rings were packed. Takes a while."""
        return None if self.lanes is None else fractional(self.lanes)

    def fastest(self, size_bytes: float) -> Algorithm:
        """What the library runs for `size_bytes`, by the uncalibrated model."""
        return self.algorithms[choices(self.algorithms, size_bytes)[0][0]]

    def time_s(self, size_bytes: float) -> float:
        """What `size_bytes` (the whole array) take, with measured corrections if the plan is calibrated."""
        time_s = time_of(self.algorithms, choices(self.algorithms, size_bytes))
        return time_s if self.calibration is None else time_s * self.calibration.ratio(size_bytes)

    def cost(self, size_bytes: float) -> Cost:
        """The same with the bandwidths, and what limits them."""
        fastest, time_s = self.fastest(size_bytes), self.time_s(size_bytes)
        algbw_Bps = size_bytes / time_s
        return Cost(time_s, algbw_Bps, algbw_Bps * self.bus_factor, fastest.name, fastest.limit)

    def explain(self, size_bytes: float) -> list[str]:
        """Why it costs what it costs, in sentences."""
        cost = self.cost(size_bytes)
        taken = (
            f"{size_text(round(size_bytes))} by {self.fastest(size_bytes).label}: {_time(cost.time_s)}, bus bandwidth "
            f"{in_GBps(cost.busbw_Bps)}; limited by {cost.limiting_link}."
        )
        fastest = self.fastest(size_bytes)
        others = [
            f"By {algorithm.label} it would take {_time(algorithm.time_s(size_bytes))}."
            for algorithm in self.algorithms
            if algorithm is not fastest and algorithm.expected_s(size_bytes) < inf
        ]
        return [
            *self.notes,
            *self._unused_fractions(),
            taken,
            *others,
            *self._kept(size_bytes),
            *self._open(size_bytes),
            self._calibrated(size_bytes),
        ]

    def why(self, size_bytes: float) -> list[str]:
        """What stands beside a table that has the rest: which rings there are, and what is open."""
        return [*self.notes, *self._unused_fractions(), *self._open(size_bytes)]

    def _kept(self, size_bytes: float) -> list[str]:
        """That a larger array takes less, as the library changes what it runs later than is best."""
        own_s, own = self.cost(size_bytes).time_s, self.fastest(size_bytes).label
        for larger in (4 / 3 * size_bytes, 2 * size_bytes):
            if WORTH_SAYING * (time_s := self.cost(larger).time_s) < own_s:
                takes = f"{size_text(round(larger))} take {_time(time_s)}"
                return [f"{takes}: its tuning keeps {own} below, and published times fall likewise."]
        return []

    def _open(self, size_bytes: float) -> list[str]:
        """What a size takes by who starts the GPUs, where nobody told and it makes a difference."""
        if exp(self.launch_spread(size_bytes)) < WORTH_SAYING:
            return []
        ends = (self.launched_by(mode).cost(size_bytes).time_s for mode in ("process-per-gpu", "one-process"))
        return [
            "Open: {} with a process for each GPU, {} if one starts all; launch_mode= says which.".format(
                *map(_time, ends)
            )
        ]

    def _calibrated(self, size_bytes: float) -> str:
        calibration = self.calibration
        if calibration is None:
            return "Not calibrated: from the rates of links and the fixed times in the library's source."
        if not calibration.covers(size_bytes):
            return f"Not calibrated at this size, which is below those of {calibration.source}."
        off = f"{calibration.held_out_error:.1%} off what the fit leaves out"
        if not calibration.mean_counted:
            off = f"90% within {calibration.held_out_q90:.1%}"
        held_out = off if calibration.judged else "too few to leave any out"
        return f"Calibrated from {calibration.points} points of {calibration.source}; {held_out}."

    def _unused_fractions(self) -> list[str]:
        if not self.bound_lanes or self.system.nodes > 1:
            return []
        bound_Bps = self.bound_lanes * paths.lane_Bps(self.system, self.devices)
        if bound_Bps < 1.001 * sum(ring.bandwidth_Bps for ring in self.rings):
            return []
        worth = f"{self.bound_lanes:.3g} lanes' worth, {in_GBps(bound_Bps)}"
        return [f"Rings on any fractions of lanes could carry more ({worth}); {self.library} does not try them."]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"


def plan(
    system: System,
    collective: str = "allreduce",
    devices: Sequence[int] | None = None,
    library: str | None = None,
    transport: Transport = "auto",
    calibration: Calibration | None = None,
) -> CollectivePlan:
    """How `library` (the system's own unless set) runs a collective on `devices` (all unless set)."""
    collective = collective.replace("-", "_")
    if collective not in COLLECTIVES:
        raise unknown_name("collective", collective, COLLECTIVES, "collective")
    if library is not None and library not in LIBRARIES:
        raise unknown_name("library generation", library, LIBRARIES, "library")
    chosen, library = check_devices(system, devices), library or _own_library(system, collective)
    asked = (collective, chosen, library, transport)
    if asked not in system.plans:
        if library == "gloo" or transport == "socket":
            made = _over_sockets(system, collective, chosen, library)
        elif OPERATIONS[collective].sends:
            made = _sent_by_nccl(system, *asked)
        else:
            made = _by_nccl(system, *asked)
        system.plans[asked] = replace(made, transport=transport).launched_by(system.launch_mode)
    planned: CollectivePlan = system.plans[asked]
    return planned if calibration is None else replace(planned, calibration=calibration)


def _own_library(system: System, collective: str) -> str:
    """The system's own; for messages between GPUs the oldest that has them, where that one is older."""
    own = system.library
    return SENDING[0] if OPERATIONS[collective].sends and own != "gloo" and own not in SENDING else own


def calibrate(uncalibrated: CollectivePlan, measured: MeasuredCollective) -> CollectivePlan:
    """The plan, corrected by what was measured for its collective on as many GPUs.

    The ratios correct a plan for another number of GPUs, too: hand its `calibration` to `plan`.
    """
    if measured.gpus not in (None, len(uncalibrated.devices)):
        raise ConfigError(
            f"calibration={measured.source}: measured on {measured.gpus} GPUs; expected "
            f"{len(uncalibrated.devices)}, as many as devices={list(uncalibrated.devices)}"
        )
    refuse_other_library(measured, uncalibrated.library)
    _refuse_faster_than_links(uncalibrated, measured)
    if len({point.size_bytes for point in measured.points}) == 1:
        return replace(uncalibrated, calibration=_by_one(uncalibrated, measured))
    compared = [
        ComparedTime(point.size_bytes, point.time_s, uncalibrated.cost(point.size_bytes).time_s)
        for point in measured.points
    ]
    return replace(uncalibrated, calibration=by_times(measured.source, compared))


def _by_one(plan: CollectivePlan, measured: MeasuredCollective) -> Calibration:
    """By one large size: bytes of large arrays take so many times as long, and what no byte costs stays as it is."""
    size_bytes, time_s = measured.points[0].size_bytes, fmean(point.time_s for point in measured.points)
    moving_s = plan.fastest(size_bytes).moving_s(size_bytes)
    modelled_s = plan.cost(size_bytes).time_s
    if moving_s < MOSTLY * modelled_s:
        raise ConfigError(
            f"calibration={measured.source}: has one size, {size_text(round(size_bytes))}, of whose time bytes take "
            f"{moving_s / modelled_s:.0%}; expected one large size, such as 256MiB, or at least two"
        )
    slower = max(0.0, 1 + (time_s - modelled_s) / moving_s)
    return by_one_size(
        measured.source, size_bytes, slower, lambda size: plan.fastest(size).moving_s(size) / plan.cost(size).time_s
    )


def _refuse_faster_than_links(plan: CollectivePlan, measured: MeasuredCollective) -> None:
    """Refuses times in which what each GPU, or node, has to receive or send does not fit through all of its links."""
    if plan.library == "gloo":  # ranks of one host, which share its memory
        return
    operation, several = OPERATIONS[plan.collective], plan.spans_nodes
    groups = by_node(plan.system, plan.devices) if several else [[gpu] for gpu in plan.devices]
    share = 1 - 1 / len(groups) if operation.in_parts else 1.0  # of the array
    most_Bps = min(_into(plan.system, group[0], several) for group in groups)
    for point in measured.points:
        if share * point.size_bytes > FASTEST * most_Bps * point.time_s:
            moved = f"{size_text(round(point.size_bytes))} in {point.time_s * 1e6:,.1f} us"
            rate, most = (in_GBps(each_Bps) for each_Bps in (point.size_bytes / point.time_s, most_Bps))
            raise ConfigError(
                f"calibration={measured.source}: {moved} are {rate}, and all links of a {'node' if several else 'GPU'} "
                f"of {plan.system.name} carry {most}; expected times of {plan.collective} measured there"
            )


def _into(system: System, gpu: int, several: bool) -> float:
    """What all links into a GPU, or all ports of its node, carry by their datasheets."""
    if several:
        node = system.node_of(gpu)
        return sum(link.bandwidth_Bps for link, _ in system.near(FABRIC, {node}))
    links = system.neighbours[system.gpus[gpu].name]
    return sum(link.lanes_from(near) * link.wire.bandwidth_Bps.value for link, near in links)


def check_devices(system: System, devices: Sequence[int] | None) -> tuple[int, ...]:
    """GPU ids that the system has, each once and at least two; in order, for their order changes nothing."""
    count = len(system.gpus)
    chosen = tuple(sorted(range(count) if devices is None else devices))
    if len(set(chosen)) != len(chosen) or not all(0 <= device < count for device in chosen):
        raise ConfigError(
            f"devices={list(devices or ())}: expected different GPU ids from 0 to {count - 1} of {system.name}"
        )
    if len(chosen) < 2:
        raise ConfigError(f"devices={list(chosen)}: a collective needs at least two GPUs")
    return chosen


# ---- what a library tries -------------------------------------------------------------------------------------------


def _by_nccl(
    system: System, collective: str, devices: tuple[int, ...], library: str, transport: Transport
) -> CollectivePlan:
    """Rings; of an allreduce also trees and in-switch reduction, where the generation has them."""
    nccl = nccl_algorithms(system, collective, devices, library, transport)
    inside, between = nccl.inside, nccl.between
    algorithms = nccl.all()
    notes = [*inside.notes, *([between.note] if between else [])]
    if nccl.tries_switches and not any(algorithm.name == "nvls" for algorithm in algorithms):
        notes.append("No NVSwitch joins these GPUs that could reduce inside, so nvls is nccl2.4 here.")
    return CollectivePlan(
        system=system,
        collective=collective,
        devices=devices,
        library=library,
        algorithms=algorithms,
        notes=tuple(notes),
        rings=tuple(replace(ring, bandwidth_Bps=nccl.ring_Bps / len(inside.rings)) for ring in inside.rings),
        chains=inside.chains if any(algorithm.name == "tree" for algorithm in algorithms) else (),
        lanes=inside.lanes,
        staged=inside.staged,
    )


def _sent_by_nccl(
    system: System, collective: str, devices: tuple[int, ...], library: str, transport: Transport
) -> CollectivePlan:
    """Messages, all at once."""
    if library not in SENDING:
        raise ConfigError(
            f"library={library} with collective={collective}: it has no send and receive, which came with NCCL "
            f"2.7; use library={' or '.join(SENDING)}"
        )
    sends = nccl_sends(system, collective, devices, library, transport)
    older = [] if system.library in SENDING else [f"library={library}, as {system.library} has no messages."]
    return CollectivePlan(
        system=system,
        collective=collective,
        devices=devices,
        library=library,
        algorithms=sends.all(),
        notes=(*sends.notes, *older),
        staged=sends.staged,
    )


def nccl_algorithms(
    system: System, collective: str, devices: tuple[int, ...], library: str, transport: Transport = "auto"
) -> NcclAlgorithms:
    """What a generation of NCCL can run on these GPUs."""
    groups = by_node(system, devices)
    nodes = (join(system, group, library, transport) for group in unlike_nodes(system, groups))
    inside = min(nodes, key=lambda node: node.ring_Bps)  # what joins the GPUs of the node that the others wait for
    between = join_nodes(system, groups, OPERATIONS[collective]) if len(groups) > 1 else None
    return NcclAlgorithms(system, OPERATIONS[collective], groups, GENERATIONS[library], inside, between, fitted())


def nccl_sends(
    system: System, collective: str, devices: tuple[int, ...], library: str, transport: Transport = "auto"
) -> NcclSends:
    """The same of an operation that is messages."""
    groups = by_node(system, devices)
    return NcclSends(system, OPERATIONS[collective], groups, GENERATIONS[library], transport, fitted())


def _over_sockets(system: System, collective: str, devices: tuple[int, ...], library: str) -> CollectivePlan:
    """Processes, whose ring, if they have one, goes through the host inside the first node."""
    groups, operation = by_node(system, devices), OPERATIONS[collective]
    algorithm = over_sockets(system, groups, operation, library)
    steps = directions(groups[0]) if len(groups[0]) > 1 and not operation.sends else ()
    flows = [paths.flow(system, sender, receiver, "host") for sender, receiver in steps]
    walk = tuple(before for flow in flows for before, _, _ in flow.steps)
    rate_Bps = operation.bus_factor(len(devices)) / algorithm.s_per_byte
    what = "Messages between processes" if operation.sends else "One ring of processes"
    return CollectivePlan(
        system=system,
        collective=collective,
        devices=devices,
        library=library,
        algorithms=(algorithm,),
        notes=(f"{what} over sockets; the GPUs' links are not used.",),
        rings=() if operation.sends else (Ring(devices, rate_Bps, walk),),
    )


# Collectives of host processes over TCP: gloo, or a library that is kept off all other transports.
#
# Rings, and messages at once, move at one measured rate: `SOCKET_Bps` of what a process sends, an order of magnitude.
# All processes of a node share its one interface to others.


def over_sockets(system: System, groups: Groups, operation: Operation, library: str) -> Algorithm:
    """One ring of processes, or all their messages at once."""
    ranks = sum(map(len, groups))
    fixed_s = SOCKET.base_s + operation.steps(ranks) * SOCKET.network_s
    if operation.sends:
        return Algorithm("sends", fixed_s, *_sent(system, groups, operation))
    rate_Bps, limit = socket_rate(system, groups, operation)
    factor = operation.bus_factor(ranks) * (operation.gloo_moves if library == "gloo" else 1)
    return Algorithm("ring", fixed_s, factor / rate_Bps, limit)


def _sent(system: System, groups: Groups, operation: Operation) -> tuple[float, str]:
    """(seconds per byte of the array, what limits it): the busiest process, or the interface of the busiest node."""
    inside = operation.bus_factor(sum(map(len, groups))) / SOCKET_Bps, "loopback sockets"
    if len(groups) == 1:
        return inside
    between = join_nodes(system, groups, operation, "one")
    return max(inside, (leaving(operation, groups) / between.bandwidth_Bps, between.limit))


def socket_rate(system: System, groups: Groups, operation: Operation) -> tuple[float, str]:
    """(B/s, what limits it) of a ring of sockets: loopback inside a node, the network between nodes."""
    if len(groups) > 1:
        between = join_nodes(system, groups, operation, "one")
        if between.bandwidth_Bps < SOCKET_Bps:
            return between.bandwidth_Bps, between.limit
    return SOCKET_Bps, "loopback sockets"


def with_latency(plan: CollectivePlan, factor: float) -> CollectivePlan:
    """The plan with that many times the time that no byte costs."""
    if factor == 1:
        return plan
    return replace(plan, algorithms=tuple(algorithm.with_latency(factor) for algorithm in plan.algorithms))
