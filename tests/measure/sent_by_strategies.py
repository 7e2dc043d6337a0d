"""What ranks send and have after a step: torchrun --nproc-per-node 2 sent_by_strategies.py CASES.json ANSWERS.json

A case is the settings of a request. Rank 0 writes, for each: what the strategy calls itself, the bytes that it says it
sends, those that a watch saw leave in each of the last steps, the watch's record, and whether all ranks have the same
parameters and buffers once they are replicas (the models they bring differ in both) and the same parameters after the
steps, and of how many elements the momenta of each rank are.
"""

import gc
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from resnetx import inputs
from resnetx.compose import compose
from resnetx.config import check, request_from
from resnetx.measure.rank import distributed, training
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.phases import Watch
from resnetx.measure.rank.strategies import replicate


def main(cases: Path, answers: Path) -> None:
    requests = [request_from(compose({"input": "synthetic", **case})) for case in json.loads(cases.read_text())]
    torch.set_num_threads(1)
    with distributed.joined(requests[0].gpus, requests[0].devices, 600) as ranks:
        found = [answer(request, ranks) for request in requests]
        if ranks.first:
            answers.write_text(json.dumps(found))
        ranks.barrier()


def answer(request, ranks):
    check(request)
    gc.collect()  # what the case before has left
    torch.manual_seed(ranks.rank)
    watch = Watch(ranks) if request.measure == "phases" else None
    model = training.build(request, ranks)
    for buffer in model.buffers():
        buffer += ranks.rank
    replica = replicate(model, request, ranks, watch.watched if watch else distributed.unchanged)
    begun = ranks.gather(flattened((*replica.module.parameters(), *replica.module.buffers())))
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    step, _ = training.training_step(replica, batches, request, ranks, watch.mark if watch else lambda _: None)
    for window in range(2):  # DDP has its final buckets from the second step on
        timed(step, 3, ranks.device, ranks.barrier)
        if watch:
            watch.note(window)
    every = ranks.gather((watch.seen() if watch else None, flattened(replica.module.parameters())))
    return {
        "name": replica.name,
        "sizes": replica.sizes(),
        "watched": [asdict(seen) for seen, _ in every] if watch else None,
        "momenta": ranks.gather(momenta()),
        "begun_equal": all(torch.equal(begun[0], other) for other in begun),
        "equal": all(torch.equal(every[0][1], other) for _, other in every),
    }


def momenta():
    """Elements of the momenta that this rank has."""
    found = [each for each in gc.get_objects() if isinstance(each, torch.optim.Optimizer)]
    return sum(state["momentum_buffer"].numel() for optimizer in found for state in optimizer.state.values())


def flattened(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
