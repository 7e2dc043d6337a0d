"""What the ranks of a point send each other, and what that costs on a system."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import exp, log
from statistics import median
from typing import TYPE_CHECKING

from resnetx.choices import After, Bucket, Fsdp, Layerwise, Server, Strategy, Zero1
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import collective_errors
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.prediction.open_points import may_be_one_flow, shown_by_rates
from resnetx.prediction.scenario import SHOWN_BY_RATES, Point, StagedPaths
from resnetx.prediction.step import COPY_SHARE, UNEXPLAINED, Compute, HashedTuple, TimedMessage
from resnetx.prediction.traced_step import spread_over
from resnetx.record.bench_record import ELEMENT_BYTES
from resnetx.record.traces import Trace, TracedBatch, TracedLayer
from resnetx.workloads import counts
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Gradient, parts_of

if TYPE_CHECKING:
    from resnetx.interconnect.collectives.traffic import Star

# Mean error of the messages of ResNet-50 between four nodes (Shi et al. 2018, two points) if cards are taken to read
# GPU memory where their network can; tests/prediction/test_domains.py measures it again. Collectives between two to
# eight nodes of SummitDev are nearer (6.4 %), but the rates of its CPUs are taken from the same figures.
BETWEEN_NODES = 0.21
# Of the time in which messages are on their way, what computing on a GPU loses: the share of the multiprocessors that
# kernels of the library occupy (8 to 32 blocks of 56 to 132), assumed; in-switch reduction needs fewer. The interval
# reaches from nothing to all. On CPUs `job.HostShare` has it.
CONTENTION = {"nccl1": 0.2, "nccl2": 0.2, "nccl2.4": 0.2, "nvls": 0.1}
# No more than that is lost, between nodes, to the two channels that NCCL has for a network card, each a block: of 80.
# (Two nodes with one HDR card: "Channel 00/02", log of Baskerville, "The Impact of GPU Networking", part 2, 2025.)
CONTENTION_A_CARD = 2 / 80
MOST_BETWEEN_NODES = 0.2  # at most, there: so 223 of 227 published rates are inside; by all of it intervals score worse
LARGE_BYTES = 2**30  # a size at which only bandwidth counts


@dataclass(frozen=True)
class Exchange:
    """The messages of a step with their times, and how far off those may be."""

    messages: tuple[TimedMessage, ...]
    sizes_bytes: tuple[int, ...]
    library: str
    error: float  # relative, of a message's time
    calibrated: str  # what the plan was refined by; "" if by nothing
    limiting_link: str | None
    link_share: float | None  # of the rate that large messages reach, while these move
    contention: float = 0.0  # of the time they are on their way, what computing loses to them
    fetched: tuple[TimedMessage, ...] = ()  # parameters, which come while the forward pass runs
    parts: int = 1  # of a rank's batch, for each of which some messages are sent
    faster: float = 0.0  # ln of how many times as fast a message may be, where that is more than `error`
    slower: float = 0.0  # likewise, as slow
    more_s: float = 0.0  # of the messages, beyond what is modelled: as rates of several GPUs show it, without an error
    unexplained_s: float = 0.0  # likewise, and not of messages

    @property
    def time_s(self) -> float:
        """All messages, one after the other."""
        times = (
            (self.parts if message.each_part else 1) * message.time_s for message in (*self.messages, *self.fetched)
        )
        return sum(times) - self.unexplained_s

    def with_more(self, first_layer: str, more_s: float, unexplained_s: float = 0.0) -> "Exchange":
        """With time beyond what is modelled, which rates of several GPUs show: of messages, and of no message."""
        more = [more_message(first_layer, more_s)] if more_s else []
        unexplained = [TimedMessage((first_layer,), unexplained_s, name=UNEXPLAINED)] if unexplained_s else []
        share = self.time_s / (self.time_s + more_s + unexplained_s)
        return replace(
            self,
            messages=HashedTuple((*self.messages, *more, *unexplained)),
            error=self.error * share,
            faster=self.faster * share,
            slower=self.slower * share,
            more_s=more_s,
            unexplained_s=unexplained_s,
        )

    @property
    def modelled_error(self) -> float:
        """Relative, of what is modelled alone."""
        modelled_s, beyond_s = self.time_s - self.more_s, self.more_s + self.unexplained_s
        return self.error * (modelled_s + beyond_s) / modelled_s if beyond_s else self.error


def more_message(first_layer: str, more_s: float) -> TimedMessage:
    """What messages take beyond what is modelled; it is sent when the backward pass has ended."""
    return TimedMessage((first_layer,), more_s, name="beyond what is modelled")


NOTHING_SENT = Exchange((), (), "none", 0.0, "", None, None)


def of_point(point: Point, computed: Compute) -> Exchange:
    """All messages of a step of a point, whose ranks compute so."""
    made = _of_network(point, computed)
    if not made.messages or not may_be_one_flow(point):
        return made
    slow = _of_network(replace(point, deployment=point.deployment.by_one_flow), computed)
    return replace(made, slower=log(slow.time_s / made.time_s))


def _of_network(point: Point, computed: Compute) -> Exchange:
    """The same, if flows carry all of its network."""
    if point.gpus == 1:
        return NOTHING_SENT
    workload, deployment, strategy = point.workload, point.deployment, point.workload.strategy
    if point.setting.communication == "trace":
        assert workload.trace is not None, "communication=trace without a trace"
        return traced_exchange(workload.trace, point.shares[0][0] // point.parts, point.gpus, strategy)
    bytes_each = ELEMENT_BYTES[point.setting.gradients]
    if isinstance(strategy, Server):
        return server_exchange(point, computed, bytes_each)
    if isinstance(strategy, Zero1 | Fsdp):
        return sharded_exchange(point, computed, bytes_each, ELEMENT_BYTES[point.setting.gathered])
    paths = point.paths
    if paths is None and point.no_peers and shown_by_rates(point):
        paths = SHOWN_BY_RATES
    if paths is not None:
        if deployment.bandwidth or deployment.latency != 1:
            raise ConfigError(
                "what_if: changes described links, and between GPUs that are no peers published or measured rates of "
                "paths through the host are used; leave it out"
            )
        return staged(paths, point, computed)
    arguments = (workload.gradients, strategy, bytes_each, computed.gradient_copy_Bps)
    made = deployment.exchanges.get((point.devices, *arguments))
    if made is None:
        made = exchange(deployment.plan(point.devices), *arguments)
        deployment.exchanges[point.devices, *arguments] = made
    return made


def exchange(
    made: CollectivePlan,
    gradients: Sequence[Gradient],
    strategy: Strategy,
    bytes_each: int,
    gradient_copy_Bps: float,
) -> Exchange:
    """What `gradients` (in the order in which they become ready) cost by a plan; `bytes_each`: of one element."""
    sent = counts.grouped(gradients, strategy)
    sizes = tuple(message.size_bytes * bytes_each // BYTES_PER_PARAMETER for message in sent)
    times_s = list(map(made.time_s, sizes))
    unpacked = isinstance(strategy, Bucket) and not strategy.gradient_as_bucket_view
    messages = HashedTuple(
        TimedMessage(message.layers, time_s, message.size_bytes / gradient_copy_Bps if unpacked else 0.0)
        for message, time_s in zip(sent, times_s, strict=True)
    )
    if not messages:
        return NOTHING_SENT
    longest, large_Bps = times_s.index(max(times_s)), LARGE_BYTES / made.time_s(LARGE_BYTES)
    return Exchange(
        messages,
        sizes,
        made.library,
        error_of(made, sizes),
        "" if made.calibration is None else made.calibration.source,
        made.fastest(sizes[longest]).limit,
        sum(sizes) / large_Bps / sum(times_s),
        _contention(made),
    )


def _contention(made: CollectivePlan) -> float:
    """What computing loses of the time in which such messages are on their way."""
    share = CONTENTION.get(made.library, 0.0)
    cards = made.system.nics if made.spans_nodes else None
    return share if cards is None else min(share, CONTENTION_A_CARD * cards)


def staged(paths: StagedPaths, point: Point, computed: Compute) -> Exchange:
    """All gradients through the host when the backward pass has ended: so do the boxes that the paths are fitted to.

    What is sent while it runs may hide behind it, but for the last message: on four RTX 2080 Ti a node all of it does.
    """
    in_node, network_Bps = max(point.ranks_of_nodes), point.deployment.network_Bps(point.devices)
    time_s = paths.allreduce_s(point.sent_bytes, point.gpus, in_node, network_Bps)
    shortest_s, faster = time_s * exp(-paths.faster), paths.faster
    sent = counts.grouped(point.workload.gradients, point.workload.strategy)
    if len(sent) > 1:
        last_s = shortest_s * sent[-1].size_bytes / sum(message.size_bytes for message in sent)
        exposed_s = max(shortest_s - computed.step.backward_s, last_s)
        faster += log(shortest_s / exposed_s)
    return Exchange(
        HashedTuple((TimedMessage((computed.step.names[0],), time_s),)),
        (point.sent_bytes,),
        point.deployment.library,
        paths.error,
        paths.source,
        paths.link,
        link_share=1.0,
        faster=faster,
    )


def error_of(made: CollectivePlan, sizes_bytes: Sequence[int]) -> float:
    """What nine of ten times of these messages were off by at most: each by its size, for the time that it takes."""
    times_s = list(map(made.time_s, sizes_bytes))
    measured = [collective_errors.error_of(made, size_bytes).q90 for size_bytes in sizes_bytes]
    error = sum(time_s * error for time_s, error in zip(times_s, measured, strict=True)) / sum(times_s)
    return max(error, BETWEEN_NODES) if made.spans_nodes and made.calibration is None else error


# The messages of a trace as they were measured, where `communication=trace` asks for them; no link is modelled.
#
# Shi et al. 2018 predict so (section V, Fig. 4): the times of a trace, each layer's communication among them, go
# through the task graph, which only adds what overlaps. Such times have waiting for other GPUs in them, and hold for
# the GPUs and the per-GPU batch that they were measured on.

NO_LINK = "the trace has the times of messages, not what limits them"


def traced_exchange(trace: Trace, images: int, gpus: int, strategy: Strategy) -> Exchange:
    """What one iteration of `gpus` GPUs with `images` each sends, by a trace."""
    if isinstance(strategy, Zero1 | Fsdp):
        raise ConfigError(
            f"strategy={strategy.kind} with communication=trace: a trace has all-reduces; use communication=model"
        )
    batch = _batch(trace, images)
    _refuse_other_gpus(trace, batch, gpus)
    layers = [layer for layer in reversed(batch.times.layers) if layer.communication_s]
    messages = _messages(trace, layers, strategy)
    if not messages:
        return NOTHING_SENT
    return Exchange(
        messages,
        tuple(layer.gradient_bytes or 0 for layer in layers),
        library="",
        error=spread_over([layer.communication_s for layer in layers]),
        calibrated=trace.source,
        limiting_link=None,
        link_share=None,
    )


def refuse_silent(trace: Trace) -> None:
    """Refuses a trace without communication."""
    if not any(layer.communication_s for batch in trace.batches for layer in batch.times.layers):
        raise ConfigError(
            f"communication=trace: {trace.source} has no times of communication (of the six columns, comm); leave it "
            "out, to model them"
        )


def _batch(trace: Trace, images: int) -> TracedBatch:
    for batch in trace.batches:
        if batch.batch_size == images:
            return batch
    known = ", ".join(str(batch.batch_size) for batch in trace.batches)
    raise ConfigError(f"communication=trace: {trace.source} has the per-GPU batches {known}, and not {images}")


def _refuse_other_gpus(trace: Trace, batch: TracedBatch, gpus: int) -> None:
    if batch.communication_gpus not in (0, gpus):
        raise ConfigError(
            f"communication=trace: {trace.source} was measured on {batch.communication_gpus} GPUs, which says nothing "
            f"of {gpus}; predict for as many, or leave it out, to model messages"
        )


def _messages(trace: Trace, layers: list[TracedLayer], strategy: Strategy) -> tuple[TimedMessage, ...]:
    """A message for each layer that sends, in the order in which they become ready; behind the backward pass, one."""
    times_s = [median(layer.communication_s) for layer in layers]
    if isinstance(strategy, Layerwise):
        return tuple(TimedMessage((layer.name,), time_s) for layer, time_s in zip(layers, times_s, strict=True))
    if isinstance(strategy, After) and layers:
        return (TimedMessage(tuple(layer.name for layer in layers), sum(times_s)),)
    if not layers or strategy.kind == "none":
        return ()
    raise ConfigError(
        f"communication=trace: {trace.source} has a message for each layer, and strategy={strategy.kind} has "
        "others; use strategy=layerwise or after"
    )


# What a parameter server costs: gradients to one place, updates there, parameters back.
#
#     exchange(point, computed).messages
#
# As `strategy=server` trains (`measure.rank.replicas`): each variable's gradient goes to the server when it is ready,
# from all ranks at once, is added up and updated there, one variable after the other, beside the backward pass; behind
# the backward pass all parameters come back, and the next step waits for them. TensorFlow fetches them while the next
# forward pass runs (`overlap.parameters`): each layer waits for its own, and they come in the order of the forward
# pass. What copies get where they share links is `interconnect.star`'s.
#
# **Adding up and updating** is bound by memory: adding one buffer to another moves three halves of what copying it
# moves (two reads and a write), updating by SGD with momentum five halves (gradient, momentum and parameter are read,
# the latter two written). Where the server is what ranks compute on, the rate of copying is theirs
# (`gradient_copy_Bps`), and the update is that of their step. Memory of a host with GPUs is in no description:
# HOST_MEMORY_Bps is assumed.
#
# A step on GPUs keeps its update: a GPU that serves computes it in between, and rates of one GPU, as they are
# published, hold it wherever it ran. What is left out: that adding up slows the computing of the GPU that serves, the
# time that a framework takes to start an operation, and that copies of one variable may run beside those of the next.

ADDING, UPDATING = 1.5, 2.5  # bytes moved, over those of a copy
# Assumed of every host: one socket with four channels of DDR4-2400, 4 x 19.2 GB/s (Intel Xeon E5-2698 v4, datasheet).
HOST_MEMORY_Bps = 76.8e9
# Assumed, of the time of a message: no published figure is of the exchange alone. What scaling costs in the published
# rates of parameter servers does not follow the bytes (`predict --validate`), so that no error can be taken from them.
SERVER_ERROR = 1.0


def server_exchange(point: Point, computed: Compute, bytes_each: int) -> Exchange:
    """The variables of a step, each on its way to the server by itself, and the parameters on their way back.

    `bytes_each`: of an element of the gradients that are sent; parameters come back in single precision.
    """
    copies = _copies(point)
    sent = tuple(_sent(point, computed, copies, bytes_each))
    sizes = [gradient.elements * bytes_each for gradient in point.workload.gradients]
    whole = [gradient.size_bytes for gradient in point.workload.gradients]
    back = tuple(_back(point, copies))
    last = TimedMessage(  # behind the whole backward pass
        (computed.step.names[0],), sum(message.time_s for message in back), name="parameters"
    )
    overlaps = point.setting.overlap.parameters
    moving_s = sum(sizes) / copies.inward.bandwidth_Bps + sum(whole) / copies.outward.bandwidth_Bps
    slower = min(copies.inward, copies.outward, key=lambda way: way.bandwidth_Bps)
    return Exchange(
        messages=sent if overlaps else (*sent, last),
        fetched=back if overlaps else (),
        sizes_bytes=(*sizes, sum(whole)),
        library="server",
        error=SERVER_ERROR,
        calibrated="",
        limiting_link=slower.limit,
        link_share=moving_s / sum(message.time_s for message in (*sent, last)),
    )


def _sent(point: Point, computed: Compute, copies: "Star", bytes_each: int) -> Iterator[TimedMessage]:
    """Each variable on its way to the server, and its update there."""
    work_s = partial(_server_s, point, computed)
    for gradient in point.workload.gradients:
        time_s = copies.inward.time_s(gradient.elements * bytes_each) + work_s(gradient.size_bytes)
        yield TimedMessage((gradient.layer,), time_s, name="gradient")


def _back(point: Point, copies: "Star") -> Iterator[TimedMessage]:
    """The parameters of each layer on their way back, in the order of the forward pass."""
    for layer, gradients in groupby(reversed(point.workload.gradients), key=lambda gradient: gradient.layer):
        yield TimedMessage(
            (layer,), sum(copies.outward.time_s(gradient.size_bytes) for gradient in gradients), name="parameters"
        )


def _server_s(point: Point, computed: Compute, size_bytes: int) -> float:
    """Adding up and updating a variable."""
    adds = (point.gpus - 1) * ADDING
    if _on_host(point):
        return (adds + UPDATING) * size_bytes / (HOST_MEMORY_Bps * COPY_SHARE)
    update_s = computed.step.update_s * size_bytes / point.workload.gradient_bytes
    return adds * size_bytes / computed.gradient_copy_Bps + update_s


def _on_host(point: Point) -> bool:
    """Whether GPUs are served by their host; ranks on CPUs are there already."""
    strategy = point.workload.strategy
    assert isinstance(strategy, Server), strategy
    return strategy.device == "cpu" and not point.deployment.on_cpus


def _copies(point: Point) -> "Star":
    deployment, strategy = point.deployment, point.workload.strategy
    if strategy == Server(device="gpu") and deployment.on_cpus:
        raise ConfigError(
            f"strategy.device=gpu: ranks of {deployment.described.name} run on CPUs; use strategy.device=cpu"
        )
    if deployment.measured and not deployment.on_cpus:
        raise ConfigError(
            "calibration with strategy=server: measured collectives say nothing of copies to a parameter server; leave "
            "it out"
        )
    return deployment.star(point.devices, _on_host(point))


# What ZeRO-1 and FSDP send on GPUs, and when: their collectives as the costs of a system's plans say.
#
# `zero1` sends gradients as DDP does. Each rank then updates its own tensors, the largest first, each given to the
# rank that has least (torch's ZeroRedundancyOptimizer), so that an embedding that is a third of the parameters stays
# with one; then each rank in turn broadcasts its own, and the next forward pass waits for all of them.
#
# `fsdp` gathers, as `measure.rank.sharded` trains it: what is outside of blocks and then block by block while the
# forward pass runs, each block waiting for its own; with `reshard` in the backward pass again, for the block behind
# the one that is being undone (none for the last block, which is kept). Behind the backward pass of a block its
# gradients are reduced to their ranks, and last those outside of blocks. All that shares one communicator, and goes
# in this order. Of a batch that is taken in parts, each part gathers, and the last one's gradients are reduced. The
# host is taken to run ahead; rows that padding adds (0.02 % of GPT-2 on eight GPUs) are left out.
#
# On CPUs torch waits for each of these, and what gloo takes for them is in no description: that is refused. In the
# lab, what is replayed goes on (`measure.rank.sharded`), and gloo's collectives are known (`collectives.traffic`).


def sharded_exchange(point: Point, computed: Compute, bytes_each: int, gathered_bytes: int) -> Exchange:
    """All messages of a step; of an element of the gradients that are sent, and of the parameters that are gathered."""
    strategy = point.workload.strategy
    if point.deployment.on_cpus and point.deployment.lab is None:
        raise ConfigError(
            f"strategy={strategy.kind}: what gloo takes for its collectives between processes is not known; measure it "
            "with train, or predict it for GPUs"
        )
    if point.no_peers:
        raise ConfigError(
            f"strategy={strategy.kind} on {point.deployment.described.name}, whose GPUs are no peers: only all-reduce "
            "is known through the host; use strategy=bucket"
        )
    if isinstance(strategy, Zero1):
        return _zero1(point, strategy, computed, bytes_each)
    assert isinstance(strategy, Fsdp), strategy
    return _fsdp(point, strategy, computed, bytes_each, gathered_bytes)


def _zero1(point: Point, strategy: Zero1, computed: Compute, bytes_each: int) -> Exchange:
    reduced = exchange(
        point.deployment.plan(point.devices), point.workload.gradients, strategy, bytes_each, computed.gradient_copy_Bps
    )
    broadcast, parts = point.deployment.plan(point.devices, "broadcast"), parts_of(point.workload.gradients, point.gpus)
    if (lab := point.deployment.lab) is not None:
        from resnetx.interconnect.systems.lab_network import broadcasts_s, lab_network

        network = lab_network(point.deployment.system, point.devices, point.gpus, lab.scale, lab.transport)
        begin_s = [computed.step.update_s * part / sum(parts) for part in parts]  # each has updated its own by then
        back_s = broadcasts_s(network, parts, begin_s)
    else:
        back_s = sum(broadcast.time_s(size) for size in parts if size)
    back = TimedMessage((computed.step.names[0],), back_s, name="parameters")
    error = max(reduced.error, error_of(broadcast, [size for size in parts if size]))
    return replace(reduced, fetched=(back,), sizes_bytes=(*reduced.sizes_bytes, *parts), error=error)


def _fsdp(point: Point, strategy: Fsdp, computed: Compute, bytes_each: int, gathered_bytes: int) -> Exchange:
    gather, reduce = (point.deployment.plan(point.devices, name) for name in ("allgather", "reduce_scatter"))
    *blocks, message = counts.grouped(point.workload.gradients, strategy)  # from the last block to the first
    order = computed.step.names
    places = {name: index for index, name in enumerate(order)}
    forward = [
        _gathered(gather.time_s(_block_bytes(message, gathered_bytes)), order[0]),
        *(
            _gathered(gather.time_s(_block_bytes(block, gathered_bytes)), _first_layer(block, places))
            for block in reversed(blocks)
        ),
    ]
    backward: list[TimedMessage] = []
    done: tuple[str, ...] = ()
    for index, block in enumerate(blocks):
        if strategy.reshard and index + 1 < len(blocks):
            again_s = gather.time_s(_block_bytes(blocks[index + 1], gathered_bytes))
            before = order[places[_first_layer(block, places)] - 1]  # the last layer of the block behind this one
            backward.append(TimedMessage(done, again_s, name="gather", gates=before, each_part=True))
        done = (_first_layer(block, places),)
        backward.append(TimedMessage(done, reduce.time_s(_block_bytes(block, bytes_each)), name="reduce-scatter"))
    backward.append(TimedMessage((order[0],), reduce.time_s(_block_bytes(message, bytes_each)), name="reduce-scatter"))
    again = blocks[1:] if strategy.reshard else []  # all but the last, which is kept
    gathered = [_block_bytes(each, gathered_bytes) for each in (message, *blocks, *again)] * point.parts
    reduced = [_block_bytes(each, bytes_each) for each in (*blocks, message)]
    sent = [*((gather, size) for size in gathered), *((reduce, size) for size in reduced)]
    times_s = [made.time_s(size) for made, size in sent]
    slowest, size = sent[times_s.index(max(times_s))]
    moved_s = sum(
        sum(sizes) / (LARGE_BYTES / made.time_s(LARGE_BYTES)) for made, sizes in ((gather, gathered), (reduce, reduced))
    )
    return Exchange(
        messages=HashedTuple(backward),
        sizes_bytes=(*gathered, *reduced),
        library=reduce.library,
        error=max(error_of(gather, gathered), error_of(reduce, reduced)),
        calibrated="" if reduce.calibration is None else reduce.calibration.source,
        limiting_link=slowest.fastest(size).limit,
        link_share=moved_s / sum(times_s),
        contention=_contention(reduce),
        fetched=HashedTuple(forward),
        parts=point.parts,
    )


def _gathered(time_s: float, layer: str) -> TimedMessage:
    return TimedMessage((layer,), time_s, name="gather", each_part=True)


def _first_layer(block: counts.Message, places: dict[str, int]) -> str:
    """The layer of a block that the forward pass comes to first, of those that have parameters."""
    return min(block.layers, key=lambda name: places[name])


def _block_bytes(block: counts.Message, bytes_each: int) -> int:
    return block.size_bytes * bytes_each // BYTES_PER_PARAMETER
