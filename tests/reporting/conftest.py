"""Studies that were never run, for pages and figures: every number in them comes from the small model below."""

import random

import msgspec
import pytest

from resnetx import study
from resnetx.choices import NoExchange, SyntheticInput
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.record import Device, RunSummary
from resnetx.reporting.study_points import study_points
from resnetx.reporting.study_scaling import Results
from resnetx.request import Request

CPU = Device(rank=0, node="node1", index=0, name="CPU", uuid=None, pci_bus_id=None)


@pytest.fixture(scope="session")
def grid():
    """Makes the requests of a study that comes with resnetx, or of a grid of its own."""

    def make(name: str | None = None, **chosen) -> list[Request]:
        axes = {key.replace("__", "."): value for key, value in chosen.items()}
        return [request_from(compose(point), 8) for point in study.points(study.load(name) if name else None, axes)]

    return make


@pytest.fixture(scope="session")
def invented(brief_of, results_of):
    """Makes a study of the requests, each run `repeats` times, on a machine whose links carry `link_Bps`."""

    def make(requests: list[Request], repeats=6, link_Bps=10e9, brief=None, **of_study) -> Results:
        chance = random.Random(0)

        def run(request: Request, repeat: int) -> RunSummary:
            common = {"repeat": repeat, "devices": [CPU], **(brief or {})}
            counts = brief_of(request).workload
            if counts.activations_per_batch / request.gpus > 1.3e9:
                return brief_of(request, outcome="oom", reason="rank 0: no memory left", **common)
            rate = request.batch_size / (_step_s(request, counts, link_Bps) * chance.gauss(1, 0.02))
            return brief_of(request, rate, rate, **common)

        runs = [run(request, repeat + 1) for request in requests for repeat in range(repeats)]
        twins = [twin for request in requests for twin in request.twins.values() if twin.measure == "step"]
        return results_of(requests, runs + [run(twin, 1) for twin in twins], **of_study)

    return make


def _step_s(request: Request, counts, link_Bps: float) -> float:
    """Computing, reading, and the part of sending that half of the computing does not hide."""
    computing = 3 * counts.flops_per_image * request.batch_size / request.gpus / 5e12 + 2e-3
    reading = 0 if isinstance(request.input, SyntheticInput) else request.batch_size / 20e3
    alone = request.gpus == 1 or isinstance(request.strategy, NoExchange)
    sending = 0 if alone else 2 * counts.gradient_bytes * (1 - 1 / request.gpus) / link_Bps
    return computing + reading + max(0.2 * sending, sending - 0.5 * computing)


@pytest.fixture(scope="session")
def points_of():
    """Makes the named points of studies."""
    return lambda *studies: study_points(studies)


@pytest.fixture(scope="session")
def renamed():
    """Gives every run of a study's results something else in its brief."""

    def make(results: Results, **changed) -> Results:
        for point in results.points:
            point.runs[:] = [msgspec.structs.replace(run, **changed) for run in point.runs]
        return results

    return make
