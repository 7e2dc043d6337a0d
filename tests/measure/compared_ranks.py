"""Ranks that are compared with one process: torchrun ... compared_ranks.py CASES.json ANSWERS.json

A case is the settings of a request and, maybe, what is broken in its strategy. Rank 0 writes the equality of each case
as a record would have it. One start of torchrun serves many cases.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import msgspec
import torch

from resnetx.compose import compose
from resnetx.config import check, request_from
from resnetx.measure.launch import Moment
from resnetx.measure.rank import distributed, equality, training
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.windows import StartUpTimer


def main(cases: Path, answers: Path) -> None:
    asked = json.loads(cases.read_text())
    requests = [request_from(compose({"input": "synthetic", "measure": "equality", **case[0]})) for case in asked]
    torch.set_num_threads(1)
    found = []
    with distributed.joined(requests[0].gpus, requests[0].devices, 600) as ranks:
        for request, (_, breach) in zip(requests, asked, strict=True):
            check(request)
            torch.manual_seed(ranks.rank)  # what the ranks start from is for `replicate` to settle
            with mock.patch.object(*BREACHES[breach](ranks)):
                clock = StartUpTimer(Moment.now())
                clock.lap("process_group_s")
                if measured := equality.measure(request, ranks, clock):
                    found.append(json.loads(msgspec.json.encode(measured.equality, enc_hook=str)))
        if ranks.first:
            answers.write_text(json.dumps(found))
        ranks.barrier()


# ---- what can be broken ---------------------------------------------------------------------------------------------


def sending(broken):
    """A breach of the messages; `broken` is told the strategy's way to send, the ranks, the buffer and its number."""

    def breach(ranks):
        sent = 0

        def watched(own):
            def send(buffer):
                nonlocal sent
                sent += 1
                return broken(own, ranks, buffer, sent - 1)

            return send

        def replicated(model, request, ranks):
            return replicate(model, request, ranks, watched)

        return equality, "replicate", replicated

    return breach


def every_second(broken):
    """Breaks one of two messages, so that some layers or some steps are sound."""
    return lambda own, ranks, buffer, count: broken(own, buffer) if count % 2 else own(buffer)


class _NotSent:
    """A message that stays where it is."""

    def __init__(self, buffer):
        self._buffer = buffer

    def wait(self):
        pass

    def get_future(self):
        future = torch.futures.Future()
        future.set_result([self._buffer])
        return future


def not_reduced(_, buffer):
    return _NotSent(buffer)


def reduced_twice(own, buffer):
    own(buffer).wait()
    return own(buffer)


def summed(own, ranks, buffer, _):
    return own(buffer.mul_(ranks.world_size))


def slightly_off(own, ranks, buffer, _):
    """One element of one rank, by a millionth of its layer's gradient."""
    if ranks.rank == 1:
        buffer[0] += 1e-6 * buffer.abs().max()
    return own(buffer)


def stale(own, _, buffer, __, before={}):  # noqa: B006 - what each buffer held in the step before
    key, now = (buffer.data_ptr(), buffer.shape), buffer.clone()
    buffer.copy_(before.get(key, now))
    before[key] = now
    return own(buffer)


def equal_weights(_):
    return training, "loss_weight", lambda request, rank: 1.0


BREACHES = {
    "": lambda ranks: (equality, "replicate", replicate),
    "not reduced": sending(every_second(not_reduced)),
    "reduced twice": sending(every_second(reduced_twice)),
    "sum, not mean": sending(summed),
    "slightly off": sending(slightly_off),
    "stale": sending(stale),
    "equal weights": equal_weights,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
