"""The input pipeline alone: how fast batches come when nobody trains on them."""

from resnetx import inputs
from resnetx.measure.rank import results
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.process import StartUpTimer
from resnetx.measure.rank.windows import measure_windows
from resnetx.request import Request


def measure(request: Request, ranks: Ranks, clock: StartUpTimer) -> results.RankResults | None:
    """Reads batches as training would; rank 0 returns what the record has of it."""
    clock.lap("model_s")  # there is none
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    clock.lap("input_s")

    def step() -> None:
        next(batches)

    every = ranks.gather(measure_windows(step, lambda _: None, request, ranks, clock))
    measured = results.of_windows(request, every, batches) if ranks.first else None
    batches.close()
    return measured
