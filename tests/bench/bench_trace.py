"""What watching a step layer by layer costs: a watched step against the clean one, and against a bare loop, in turns.

    python -m tests.bench.bench_trace model=alexnet batch_size=8

The ratios are times: above 1, the first is slower. `resnetx trace` holds the same ratio of every batch in its record;
here the bare loop (`bench_train.bare`) says in addition that the clean step is not slow by itself.
"""

import os
import sys

import torch

from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.inputs import open_for
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.layer_trace import LayerWatch
from resnetx.measure.rank.phases import clock_of
from resnetx.measure.rank.training import build, training_step
from resnetx.measure.rank.windows import keep_freed_memory
from tests.bench.bench_train import ROUNDS, STEPS, bare
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments


def main() -> None:
    request = request_from(compose({"input": "synthetic", "gpus": 1, "threads": 1} | settings_of(sys.argv[1:])))
    if not torch.cuda.is_available():
        keep_freed_memory()
    torch.set_num_threads(request.threads)
    with distributed.joined(request.gpus, request.devices, 600) as ranks:
        watch = LayerWatch(build(request, ranks), request.model.sample(request.image_size), clock_of(ranks.device))
        step, _ = training_step(watch, open_for(request, 0, ranks.device), request, ranks, watch.mark)

        def window(work, watching: bool):
            def run() -> float:
                watch.watching = watching
                seconds = timed(work, STEPS, ranks.device, ranks.barrier)
                watch.take()
                return seconds

            return run

        contenders = {
            "watched": window(step, True),
            "clean": window(step, False),
            "clean again": window(step, False),
        }
        if request.model.kind != "googlenet":  # whose three outputs the bare loop does not know
            contenders["bare"] = window(bare(request, ranks), False)
        rounds(contenders, 2)  # warm-up
        times = rounds(contenders, ROUNDS)
    print(f"{request.model.label} b{request.batch_size} {request.precision}, {len(watch.names)} layers")
    print("  " + sentence("watched step / clean step", ratio(times["watched"], times["clean"])))
    if "bare" in times:
        print("  " + sentence("clean step / bare loop", ratio(times["clean"], times["bare"])))
    print("  " + sentence("A/A control", ratio(times["clean again"], times["clean"])))


if __name__ == "__main__":
    arguments(__doc__)
    assert os.environ.get("WORLD_SIZE", "1") == "1", "a trace is of one rank"
    main()
