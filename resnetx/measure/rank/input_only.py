"""The input pipeline alone: how fast batches come when nobody trains on them."""

from typing import Any

from resnetx import inputs
from resnetx.measure.rank import results
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.process import StartUp
from resnetx.measure.rank.windows import measure_windows
from resnetx.request import Request


def measure(request: Request, ranks: Ranks, clock: StartUp) -> dict[str, Any]:
    """Reads batches as training would; returns what the record has of it (all of it in rank 0)."""
    clock.lap("model_s")  # there is none
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    clock.lap("input_s")

    def step() -> None:
        next(batches)

    every = ranks.gather(measure_windows(step, lambda _: None, request, ranks, clock))
    fields = results.of_windows(request, every, batches) if ranks.first else {}
    batches.close()
    return fields
