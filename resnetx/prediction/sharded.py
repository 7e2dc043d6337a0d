"""What ZeRO-1 and FSDP send on GPUs, and when: their collectives as the costs of a system's plans say.

`zero1` sends gradients as DDP does. Each rank then updates its own tensors, the largest first, each given to the rank
that has least (torch's ZeroRedundancyOptimizer), so that an embedding that is a third of the parameters stays with one;
then each rank in turn broadcasts its own, and the next forward pass waits for all of them.

`fsdp` gathers, as `measure.rank.sharded` trains it: what is outside of blocks and then block by block while the forward
pass runs, each block waiting for its own; with `reshard` in the backward pass again, for the block behind the
one that is being undone (none for the last block, which is kept). Behind the backward pass of a block its gradients are
reduced to their ranks, and last those outside of blocks. All that shares one communicator, and goes in this order.
Of a batch that is taken in parts, each part gathers, and the last one's gradients are reduced. The host is taken to run
ahead; rows that padding adds (0.02 % of GPT-2 on eight GPUs) are left out.

On CPUs torch waits for each of these, and what gloo takes for them is in no description: that is refused. In the lab,
what is replayed goes on (`measure.rank.sharded`), and gloo's collectives are known (`collectives.traffic`).
"""

from dataclasses import replace

from resnetx.choices import Fsdp, Zero1
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.lab_broadcasts import broadcasts_s
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.prediction import messages
from resnetx.prediction.compute import Compute
from resnetx.prediction.messages import LARGE_BYTES, Exchange
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import HashedTuple, TimedMessage
from resnetx.workloads import counts
from resnetx.workloads.counts import BYTES_PER_PARAMETER, parts_of


def exchange(point: Point, computed: Compute, bytes_each: int, gathered_bytes: int) -> Exchange:
    """All messages of a step; of an element of the gradients that are sent, and of the parameters that are gathered."""
    strategy = point.workload.strategy
    if point.deployment.on_cpus and point.deployment.lab is None:
        raise ConfigError(
            f"strategy={strategy.kind}: what gloo takes for its collectives between processes is not known; measure it "
            "with train, or predict it for GPUs"
        )
    if point.deployment.staged_on(point.gpus) is not None or point.deployment.no_peers:
        raise ConfigError(
            f"strategy={strategy.kind} on {point.deployment.described.name}, whose GPUs are no peers: only all-reduce "
            "is known through the host; use strategy=bucket"
        )
    if isinstance(strategy, Zero1):
        return _zero1(point, strategy, computed, bytes_each)
    assert isinstance(strategy, Fsdp), strategy
    return _fsdp(point, strategy, computed, bytes_each, gathered_bytes)


def _zero1(point: Point, strategy: Zero1, computed: Compute, bytes_each: int) -> Exchange:
    reduced = messages.exchange(
        point.deployment.plan(point.devices), point.workload.gradients, strategy, bytes_each, computed.gradient_copy_Bps
    )
    broadcast, parts = point.deployment.plan(point.devices, "broadcast"), parts_of(point.workload.gradients, point.gpus)
    if (lab := point.deployment.lab) is not None:
        network = lab_network(point.deployment.system, point.devices, point.gpus, lab.scale, lab.transport)
        begin_s = [computed.step.update_s * part / sum(parts) for part in parts]  # each has updated its own by then
        back_s = broadcasts_s(network, parts, begin_s)
    else:
        back_s = sum(broadcast.cost(size).time_s for size in parts if size)
    back = TimedMessage((computed.step.layers.names[0],), back_s, name="parameters")
    error = max(reduced.error, messages.error_of(broadcast, [size for size in parts if size]))
    return replace(reduced, fetched=(back,), sizes_bytes=(*reduced.sizes_bytes, *parts), error=error)


def _fsdp(point: Point, strategy: Fsdp, computed: Compute, bytes_each: int, gathered_bytes: int) -> Exchange:
    gather, reduce = (point.deployment.plan(point.devices, name) for name in ("allgather", "reduce_scatter"))
    *blocks, message = counts.grouped(point.workload.gradients, strategy)  # from the last block to the first
    order = computed.step.layers.names
    places = {name: index for index, name in enumerate(order)}
    forward = [
        _gathered(gather.cost(_sent(message, gathered_bytes)).time_s, order[0]),
        *(
            _gathered(gather.cost(_sent(block, gathered_bytes)).time_s, _first(block, places))
            for block in reversed(blocks)
        ),
    ]
    backward: list[TimedMessage] = []
    done: tuple[str, ...] = ()
    for index, block in enumerate(blocks):
        if strategy.reshard and index + 1 < len(blocks):
            again_s = gather.cost(_sent(blocks[index + 1], gathered_bytes)).time_s
            before = order[places[_first(block, places)] - 1]  # the last layer of the block behind this one
            backward.append(TimedMessage(done, again_s, name="gather", gates=before, each_part=True))
        done = (_first(block, places),)
        backward.append(TimedMessage(done, reduce.cost(_sent(block, bytes_each)).time_s, name="reduce-scatter"))
    backward.append(TimedMessage((order[0],), reduce.cost(_sent(message, bytes_each)).time_s, name="reduce-scatter"))
    again = blocks[1:] if strategy.reshard else []  # all but the last, which is kept
    gathered = [_sent(each, gathered_bytes) for each in (message, *blocks, *again)] * point.parts
    reduced = [_sent(each, bytes_each) for each in (*blocks, message)]
    costs = [*(gather.cost(size) for size in gathered), *(reduce.cost(size) for size in reduced)]
    moved_s = sum(gathered) / gather.cost(LARGE_BYTES).algbw_Bps + sum(reduced) / reduce.cost(LARGE_BYTES).algbw_Bps
    return Exchange(
        messages=HashedTuple(backward),
        sizes_bytes=(*gathered, *reduced),
        library=reduce.library,
        error=max(messages.error_of(gather, gathered), messages.error_of(reduce, reduced)),
        calibrated="" if reduce.calibration is None else reduce.calibration.source,
        limiting_link=max(costs, key=lambda cost: cost.time_s).limiting_link,
        link_share=moved_s / sum(cost.time_s for cost in costs),
        contention=messages.CONTENTION.get(reduce.library, 0.0),
        fetched=HashedTuple(forward),
        parts=point.parts,
    )


def _gathered(time_s: float, layer: str) -> TimedMessage:
    return TimedMessage((layer,), time_s, name="gather", each_part=True)


def _first(block: counts.Message, places: dict[str, int]) -> str:
    """The layer of a block that the forward pass comes to first, of those that have parameters."""
    return min(block.layers, key=lambda name: places[name])


def _sent(block: counts.Message, bytes_each: int) -> int:
    return block.size_bytes * bytes_each // BYTES_PER_PARAMETER
