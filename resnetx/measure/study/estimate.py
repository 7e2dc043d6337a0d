"""How long runs will take, from what runs on this machine took.

Best is a run of the same request; else the training rate (FLOP/s) and start-up time of other runs here; else an
assumption, reported as such.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from resnetx.choices import Model
from resnetx.record import RunSummary
from resnetx.request import WINDOW_S, Request

BACKWARD = 3  # a training step is about three forward passes
# For a machine on which nothing has run. Start-up: this tool on two cores of a Xeon (imports, torchrun, DDP, DALI).
# Rates of ResNet/8 in fp32, of one rank: 122 GFLOP/s on one core of that Xeon; the GPU's is a guess.
ASSUMED_START_UP_S = 12.0
ASSUMED_RATE = {"cpu": 1.2e11, "gpu": 1e13}


@dataclass(frozen=True)
class Estimator:
    """Seconds of a run on this machine. `basis` says what the answers rest on."""

    basis: str
    durations_s: dict[str, float]  # of requests that have run
    start_up_s: float
    rates: dict[str, float]  # kind of model -> FLOP/s of one rank; "": of any

    def __call__(self, request: Request) -> float:
        if request.key in self.durations_s:
            return self.durations_s[request.key]
        rate = self.rates.get(request.model.kind, self.rates[""])
        return self.start_up_s + _training_s(request, _step_flops(request) / request.gpus / rate)


def estimator(past: Iterable[RunSummary], on_gpus: bool) -> Estimator:
    """An estimator from the runs that this machine has on record."""
    durations: dict[str, list[float]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    start_ups = []
    for run in past:
        if not run.images_per_s:
            continue
        durations[run.key].append(run.duration_s)
        if run.request.measure == "step":
            step_s = run.request.batch_size / run.images_per_s
            start_ups.append(run.duration_s - _training_s(run.request, step_s))
            for kind in (run.request.model.kind, ""):
                rates[kind].append(_step_flops(run.request) / run.request.gpus / step_s)
    if not start_ups:
        assumed = ASSUMED_RATE["gpu" if on_gpus else "cpu"]
        return Estimator("assumed, as no runs of this machine are recorded yet", {}, ASSUMED_START_UP_S, {"": assumed})
    return Estimator(
        f"from {sum(map(len, durations.values()))} runs on this machine",
        {key: statistics.median(values) for key, values in durations.items()},
        max(0.0, statistics.median(start_ups)),
        {kind: statistics.median(values) for kind, values in rates.items()},
    )


def _training_s(request: Request, step_s: float) -> float:
    """Seconds of the warm-up and the windows."""
    return request.warmup * step_s + request.windows * max(WINDOW_S, request.steps * step_s)


def _step_flops(request: Request) -> float:
    return BACKWARD * request.batch_size * _flops_per_image(request.model, request.image_size)


@cache
def _flops_per_image(model: Model, image_size: int) -> int:
    from resnetx import workloads
    from resnetx.workloads.counts import flops_per_image

    return flops_per_image(workloads.table(model, image_size))
