"""What GPUs send each other in a step, by the way in which gradients are exchanged: a matrix, and bytes on links.

    sizes = [gradient.size_bytes for gradient in subject.gradients]
    matrix = through_owners(sizes, round_robin(sizes, 8), 8)     # [i][j]: bytes that GPU j sends to GPU i
    bytes_by_link(load("dgx1-v100"), range(8), matrix)           # (from, to) -> bytes, along the paths of copies

The matrix has the destination first, as that of Anderson et al. 2018 (section 2.2). TensorFlow's benchmarks
(tf_cnn_benchmarks, 2017) exchange in two ways of one form, in which each variable has an owner: every other GPU sends
the variable's gradient there, and gets the sum, or the updated variable, back from there.

    variable_update=replicated         owners take turns, variable by variable (`round_robin`;
                                       variable_mgr_util.aggregate_gradients_using_copy_with_device_selection)
    variable_update=parameter_server   with variables on GPUs, each belongs to the GPU that has least so far
                                       (`least_loaded`; variable_mgr_util.ParamServerDeviceSetter)

A server on one GPU (`strategy=server strategy.device=gpu`) owns all of them; with variables in the host's memory GPUs
send each other nothing. `of_all_reduces` is what collectives send along rings and trees.

These are bytes, not times: `train` has no strategy of this form, and predictions take nothing from here. `steering`
takes them as what links are to be arranged for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from resnetx.choices import Lab
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.algorithms import Algorithm
from resnetx.interconnect.collectives.plan import CollectivePlan, socket_rate
from resnetx.interconnect.collectives.rings import SOCKET, Ring, directions
from resnetx.interconnect.collectives.sends import messages
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import SwitchSpec, by_node
from resnetx.interconnect.systems.lab_network import LabNetwork, lab_network, tree
from resnetx.interconnect.systems.paths import LinkFlow, Transport, backward, fair_shares, host_steps, to_host
from resnetx.interconnect.systems.system import System
from resnetx.operations import OPERATIONS, Operation

Matrix = tuple[tuple[float, ...], ...]  # [i][j]: bytes that GPU j sends to GPU i
Links = dict[tuple[str, str], float]  # (from, to) -> bytes in this direction


def round_robin(sizes_bytes: Sequence[float], gpus: int) -> tuple[int, ...]:
    """The owner of each variable: one GPU after the other."""
    return tuple(index % gpus for index in range(len(sizes_bytes)))


def least_loaded(sizes_bytes: Sequence[float], gpus: int) -> tuple[int, ...]:
    """The owner of each variable, in the order in which they are made: the GPU with the fewest bytes until then."""
    loads = [0.0] * gpus
    owners = []
    for size_bytes in sizes_bytes:
        owners.append(loads.index(min(loads)))
        loads[owners[-1]] += size_bytes
    return tuple(owners)


def to_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """The gradient of each variable, from every other GPU to its owner."""
    owned = _owned(sizes_bytes, owners, gpus)
    return tuple(tuple(owned[to] if to != sender else 0.0 for sender in range(gpus)) for to in range(gpus))


def from_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """What comes back of each variable, from its owner to every other GPU."""
    return tuple(zip(*to_owners(sizes_bytes, owners, gpus), strict=True))


def through_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """Each variable goes from every other GPU to its owner, and back from there to every other."""
    return added_up([way(sizes_bytes, owners, gpus) for way in (to_owners, from_owners)])


def _owned(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> list[float]:
    """The bytes of each GPU's own variables."""
    owned = [0.0] * gpus
    for size_bytes, owner in zip(sizes_bytes, owners, strict=True):
        owned[owner] += size_bytes
    return owned


def around_rings(
    rings: Sequence[tuple[Sequence[int], float]], size_bytes: float, gpus: int, factor: float | None = None
) -> Matrix:
    """Collectives of so many bytes: each ring carries its share, and each step is a neighbour's.

    `rings`: (order of GPUs, bandwidth) of each; shares are those of the bandwidths. `factor`: what each GPU sends, over
    the size; unless given, that of an all-reduce on as many GPUs as a ring has.
    """
    sent = [[0.0] * gpus for _ in range(gpus)]
    whole = sum(bandwidth for _, bandwidth in rings)
    for order, bandwidth in rings:
        of_size = 2 * (len(order) - 1) / len(order) if factor is None else factor
        for sender, to in directions(tuple(order)):
            sent[to][sender] += of_size * size_bytes * bandwidth / whole
    return tuple(map(tuple, sent))


def along_chains(chains: Sequence[tuple[Sequence[int], float]], size_bytes: float, gpus: int) -> Matrix:
    """All-reduces by trees, which are chains inside a node: each carries its share up to its root, and down again."""
    sent = [[0.0] * gpus for _ in range(gpus)]
    whole = sum(bandwidth for _, bandwidth in chains)
    for order, bandwidth in chains:
        for a, b in pairwise(order):
            sent[a][b] += size_bytes * bandwidth / whole
            sent[b][a] += size_bytes * bandwidth / whole
    return tuple(map(tuple, sent))


def of_all_reduces(plan: CollectivePlan, sizes_bytes: Sequence[float]) -> Matrix:
    """What all-reduces of these sizes send, by the rings or trees that the library takes for each size.

    Rows and columns are all GPUs of the plan's system.
    """
    gpus = len(plan.system.gpus)
    found = []
    for size_bytes, count in Counter(sizes_bytes).items():
        taken = plan.fastest(size_bytes).name
        if taken == "ring":
            found.append(
                around_rings([(ring.order, ring.bandwidth_Bps) for ring in plan.rings], count * size_bytes, gpus)
            )
        elif taken == "tree":
            chains = [(chain.order, chain.bandwidth_Bps) for chain in plan.chains]
            found.append(along_chains(chains, count * size_bytes, gpus))
        else:
            raise ConfigError(
                f"library={plan.library}: all-reduces on {plan.system.name} are summed up in switches ({taken}), and "
                "no GPU sends another anything; expected a system whose GPUs are linked"
            )
    return added_up(found)


def added_up(matrices: Sequence[Matrix]) -> Matrix:
    """The traffic of several phases together."""
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*matrices, strict=True))


def on_devices(matrix: Matrix, devices: Sequence[int], gpus: int) -> Matrix:
    """The traffic of ranks, as that of the GPUs that they run on."""
    place = {device: rank for rank, device in enumerate(devices)}
    return tuple(
        tuple(matrix[place[to]][place[by]] if to in place and by in place else 0.0 for by in range(gpus))
        for to in range(gpus)
    )


def over_links(matrix: Matrix, joined: Sequence[Sequence[bool]]) -> Matrix:
    """What goes over links between GPUs; the rest is staged in the host, where nothing can be steered."""
    return tuple(
        tuple(sent if link else 0.0 for sent, link in zip(row, links, strict=True))
        for row, links in zip(matrix, joined, strict=True)
    )


def bytes_by_link(system: System, devices: Sequence[int], matrix: Matrix, transport: Transport = "auto") -> Links:
    """What each direction of a described link carries; `devices`: the GPU ids of the matrix's rows and columns."""
    return carried(
        (paths.flow(system, sender, to, transport), size_bytes)
        for to, row in zip(devices, matrix, strict=True)
        for sender, size_bytes in zip(devices, row, strict=True)
        if size_bytes
    )


def carried(loads: Iterable[tuple[LinkFlow, float]]) -> Links:
    """The bytes of flows, added up over the links that they take."""
    links: Links = {}
    for flow, size_bytes in loads:
        for before, after, _ in flow.steps:
            links[before, after] = links.get((before, after), 0.0) + size_bytes
    return links


# ---- hosts ----------------------------------------------------------------------------------------------------------
# Copies between GPUs and one place that serves them all: a GPU, or the memory of a host.
#
#     copies = star(load("dgx1-p100"), range(8), on_host=True)
#     copies.inward.time_s(4 * 25_557_032)    # every GPU copies so much to the host, all of them at once
#
# Each GPU's data takes its own path (`paths`), and where paths meet they share the links fairly (`paths`). A copy
# to the host ends in the memory of the CPU that is nearest to the GPU, as `internode` has it; between nodes it goes
# from there over the network to the host of the server. Nothing is added up on the way: where n copies meet, a link
# carries n.
#
# The copy engines move the data, whichever library a framework has for collectives. Over sockets (`gloo`, or
# `transport=socket`) all copies share the rate of `rings.SOCKET_Bps` into the process that serves.


@dataclass(frozen=True)
class HostCopies:
    """One copy for each GPU, all of them at once."""

    flows: tuple[LinkFlow, ...]  # none for what goes over sockets inside one process or host
    fixed_s: float  # that no byte costs
    bandwidth_Bps: float  # of the slowest copy
    limit: str  # the link that sets it

    def time_s(self, size_bytes: float) -> float:
        """Until all of them are there, each of `size_bytes`."""
        return self.fixed_s + size_bytes / self.bandwidth_Bps

    def bytes_by_link(self, size_bytes: float) -> dict[tuple[str, str], float]:
        """What each direction of a link carries: (from, to) -> bytes, where every copy has `size_bytes`."""
        return carried((flow, size_bytes) for flow in self.flows)


@dataclass(frozen=True)
class Star:
    """Copies from every GPU to the server, and from there to every GPU."""

    inward: HostCopies
    outward: HostCopies

    def with_latency(self, factor: float) -> "Star":
        """The same with fixed times `factor` times as long."""
        inward, outward = (replace(copies, fixed_s=copies.fixed_s * factor) for copies in (self.inward, self.outward))
        return Star(inward, outward)


def star(
    system: System, devices: Sequence[int], on_host: bool, library: str = "", transport: Transport = "auto"
) -> Star:
    """Copies between `devices` and the server: the first of them, or with `on_host` its host's memory."""
    _refuse_peers_of_a_host(on_host, transport)
    if library == "gloo" or transport == "socket":
        return _over_sockets(system, devices, on_host)
    server, *others = devices
    if on_host:
        flows = [_to_memory(system, device, server) for device in devices]
        back = [replace(flow, steps=backward(flow.steps)) for flow in flows]
        fixed_s = max(_latency_s(system, device, flow) for device, flow in zip(devices, flows, strict=True))
        return Star(_copies(system, flows, fixed_s), _copies(system, back, fixed_s))
    ways = [(device, server) for device in others]
    flows = [paths.flow(system, *way, transport) for way in ways]
    back = [paths.opposite_flow(system, *way, flow, transport) for way, flow in zip(ways, flows, strict=True)]
    inward_s = max(paths.copy_path(system, *way, transport).latency_s for way in ways)
    outward_s = inward_s
    if system.uneven:
        outward_s = max(paths.copy_path(system, server, device, transport).latency_s for device in others)
    return Star(_copies(system, flows, inward_s), _copies(system, back, outward_s))


def _copies(system: System, flows: Sequence[LinkFlow], fixed_s: float) -> HostCopies:
    bandwidth_Bps, limit = min(fair_shares(system, flows))
    return HostCopies(tuple(flows), fixed_s, bandwidth_Bps, limit)


def _to_memory(system: System, device: int, server: int) -> LinkFlow:
    """A copy from a GPU to memory of the host that serves."""
    gpu, at = system.gpus[device], system.gpus[server]
    up = to_host(system, gpu.name)
    if not up:
        raise ConfigError(
            f"strategy.device=cpu: no CPU of {system.name} is described that {gpu.name} could copy to; use "
            "strategy.device=gpu"
        )
    if gpu.node == at.node:
        return LinkFlow(up, staged=False, from_host=True)
    through = host_steps(system, gpu.name, at.name)
    return LinkFlow(through[: -len(to_host(system, at.name))], staged=False, from_host=True)


def _latency_s(system: System, device: int, flow: LinkFlow) -> float:
    """Of a small copy to the host's memory, or from there."""
    switches = (system.component(name).part for _, name, _ in flow.steps)
    crossed = sum(link.wire.latency_s.value for _, _, link in flow.steps)
    passed = sum(part.latency_s.value for part in switches if isinstance(part, SwitchSpec))
    return system.gpu_part(device).copy_s.value + crossed + passed


def _over_sockets(system: System, devices: Sequence[int], on_host: bool) -> Star:
    """Processes that send to the one that serves, which receives them all at the rate of sockets."""
    both_ways = OPERATIONS["allreduce"]  # as the server sends to some while others send to it
    rate_Bps, limit = socket_rate(system, by_node(system, devices), both_ways)
    sockets = HostCopies((), SOCKET.base_s + SOCKET.network_s, rate_Bps / (len(devices) - 1), limit)
    if not on_host:
        return Star(sockets, sockets)
    own = [star(system, [device], on_host) for device in devices]  # each rank copies to memory of its own host
    slowest = min(own, key=lambda each: each.inward.bandwidth_Bps)
    return Star(_one_behind_the_other(slowest.inward, sockets), _one_behind_the_other(sockets, slowest.outward))


def _one_behind_the_other(first: HostCopies, second: HostCopies) -> HostCopies:
    return HostCopies(
        (*first.flows, *second.flows),
        first.fixed_s + second.fixed_s,
        1 / (1 / first.bandwidth_Bps + 1 / second.bandwidth_Bps),
        min(first, second, key=lambda copies: copies.bandwidth_Bps).limit,
    )


def _refuse_peers_of_a_host(on_host: bool, transport: Transport) -> None:
    if on_host and transport in ("peer", "pcie"):
        raise ConfigError(
            f"transport={transport} with strategy.device=cpu: what goes to the host's memory is no traffic between "
            "GPUs; use transport=auto, or strategy.device=gpu"
        )


# What gloo's messages cost over the links of the lab: rings in the order of ranks, and messages between any of them.
#
#     lab_plan(system, Lab(system="gx8", scale=100, transport="auto"), devices=range(4)).cost(64 * 2**20)
#
# Gloo all-reduces along one ring in the order of ranks, whatever joins them, in segments that keep every step busy
# (gloo/allreduce.cc): it moves at the rate of the link that most steps of the ring share in one direction. All-to-all,
# send-receive, gather and scatter are messages that start at once, as copies to one rank from all others are: they end
# when the link with most to carry for its rate has carried it. A reduce-scatter is a whole all-reduce. An all-gather
# passes parts along the same ring (gloo/allgather.cc), and takes half a part longer than they do: measured
# (results/lab/links). A broadcast goes along a binomial tree (gloo/broadcast.cc), in which each rank sends to all whom
# it reaches at once: what is measured there is within 2 % of that, but for four ranks behind one switch (19 %).

Share = tuple[int, int, float]  # (source, target, bytes of it)

# Measured: all-reduces of 8 bytes between 2, 4 and 8 namespaces, 0.12, 0.56 and 1.14 ms (two cores, SCHED_RR, torch
# 2.15); of one step, of which there are two for each rank but one.
STEP_S = 85e-6


def lab_plan(system: System, lab: Lab, devices: Sequence[int], collective: str = "allreduce") -> CollectivePlan:
    """How gloo runs a collective between these GPUs of a system in the lab."""
    if not _modelled(OPERATIONS[collective]):
        known = ", ".join(name for name, entry in OPERATIONS.items() if _modelled(entry))
        raise ConfigError(f"collective={collective}: what gloo does for it in the lab is not modelled; use {known}")
    operation, ranks = OPERATIONS[collective], len(devices)
    rings: tuple[Ring, ...] = ()
    network = lab_network(system, list(devices), ranks, lab.scale, lab.transport)
    fixed_s, links = operation.steps(ranks) * STEP_S, f"over links 1/{lab.scale:g} as fast as described."
    if operation.sends:
        shares = [
            (message.sender, message.receiver, message.share) for message in messages(operation, [tuple(range(ranks))])
        ]
        algorithm = Algorithm("sends", fixed_s, *together(network, shares))
        note = f"{len(shares)} messages of processes at once, {links}"
    elif collective == "broadcast":
        levels = [together(network, shares) for shares in _levels(ranks)]
        s_per_byte, limit = sum(level_s for level_s, _ in levels), max(levels)[1]
        algorithm = Algorithm("tree", len(levels) * STEP_S, s_per_byte, limit)
        note = f"A binomial tree of processes in the order of ranks, {links}"
    else:
        s_per_byte, limit = max(together(network, way) for way in _both_ways(ranks))
        moved = operation.gloo_moves * operation.bus_factor(ranks) + (_WAITED_PART / ranks) * operation.own_part
        algorithm = Algorithm("ring", fixed_s * operation.gloo_moves, moved * s_per_byte, limit)
        rings = (Ring(tuple(devices), 1 / s_per_byte, tuple(network.ranks)),)
        note = f"One ring of processes in the order of ranks, {links}"
    return CollectivePlan(
        system=system,
        collective=collective,
        devices=tuple(devices),
        library="gloo",
        algorithms=(algorithm,),
        notes=(note,),
        rings=rings,
        transport=lab.transport,
    )


_WAITED_PART = 0.5  # of a part, in an all-gather: 0.2 to 0.6 of one on 2, 4 and 8 ranks (results/lab/links)


def _modelled(operation: Operation) -> bool:
    return operation.name != "reduce"


def _levels(ranks: int) -> list[list[Share]]:
    """The messages of a broadcast by how many come before them."""
    children = tree(ranks)
    levels, senders = [], [0]
    while level := [(sender, rank, 1.0) for sender in senders for rank in children[sender]]:
        levels.append(level)
        senders = [rank for _, rank, _ in level]
    return levels


def _both_ways(ranks: int) -> list[list[Share]]:
    """The steps of a ring in the order of ranks, and those of the opposite one."""
    places = directions(tuple(range(ranks)))
    return [[(a, b, 1.0) for a, b in places], [(b, a, 1.0) for a, b in places]]


def lab_star(system: System, lab: Lab, devices: Sequence[int]) -> Star:
    """Copies between the ranks and the first of them."""
    network = lab_network(system, list(devices), len(devices), lab.scale, lab.transport)
    others = range(1, len(devices))
    ways = ([(rank, 0, 1.0) for rank in others], [(0, rank, 1.0) for rank in others])
    inward, outward = (
        HostCopies((), STEP_S, 1 / s_per_byte, limit) for s_per_byte, limit in (together(network, way) for way in ways)
    )
    return Star(inward, outward)


def together(network: LabNetwork, shares: Iterable[Share]) -> tuple[float, str]:
    """(seconds, what limits it) until all have arrived, where each share is of one byte and all start at once."""
    routes = {(route.source, route.target): route for route in network.routes}
    load: dict[tuple[int, str], float] = {}
    for source, target, share in shares:
        route = routes[source, target]
        for name, link in zip(route.passes, route.links, strict=False):
            load[link, name] = load.get((link, name), 0.0) + share
    return max(
        (carried / network.links[link].from_Bps(name), f"{name} to {_far(network, link, name)}")
        for (link, name), carried in load.items()
    )


def _far(network: LabNetwork, link: int, name: str) -> str:
    a, b = network.links[link].a, network.links[link].b
    return b if name == a else a
