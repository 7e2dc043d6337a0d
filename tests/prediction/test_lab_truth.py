"""Today's predictions for the lab beside the committed runs of results/lab/truth, paper and sharded.

Ranks of these runs waited out steps as the rooflines of two GPUs had them then (WAITED), which are predicted, too.
"""

import statistics
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

import resnetx
from resnetx.prediction import roofline
from resnetx.prediction.host_step import MODULE
from resnetx.prediction.result import domains
from resnetx.record import RunRecord, read

pytestmark = pytest.mark.slow

LAB = Path(__file__).parents[2] / "results" / "lab"
# By generation: the share of the peak, the speed-up of square kernels, and the time of a pass.
WAITED = {"6.0": (0.62683, 2.606, 113.21e-6), roofline.ALL: (0.73393, 2.1306, 71.795e-6)}
SYSTEMS = {"dgx1-p100": "P100 DGX-1", "gx8": "GX8"}


def judged(study, scale=100, by=lambda request: request.lab.system, systems=tuple(SYSTEMS), transport="auto"):
    """(system, relative error, whether the interval holds the measurement) of each point."""
    made = resnetx.predict(study=f"lab-{study}", lab={"system": list(systems), "scale": scale, "transport": transport})
    points = {what(point.request): point for point in made.points}
    found = []
    for path in (LAB / study / ("study" if transport == "auto" else f"study-{transport}")).glob("*/record.json"):
        run = read(path, RunRecord)
        point = points[what(run.request)]
        measured_s = 1 / run.iterations_per_s
        low_s, high_s = point.interval_s
        held = low_s <= measured_s <= high_s
        found.append((by(run.request), abs(point.iteration_s / measured_s - 1), held))
    return found


def what(asked):
    shares = (asked.gpus, asked.split, asked.replay_jitter, asked.accumulate, asked.checkpointing)
    return asked.lab, asked.model, asked.batch_size, asked.strategy, *shares


# Of results/lab/sharded, accumulate and gptx, which were measured later.
WAITED_LATER = {roofline.ALL: (0.66195, 2.4411, 20e-6)}


# Of results/lab/unseen: an H100, a V100 and a GeForce GTX 1080 Ti.
WAITED_UNSEEN = {roofline.ALL: (0.66075, 2.419, 20e-6), "7.0": (0.74823, 2.7714, 27.758e-6)}


def longer_s(fit, computing_s, moving_s, winograd, *_):
    """Passes as they were modelled then: a layer took the longer of computing and moving, not both."""
    speed = np.where(winograd, fit.square_speedup, 1.0) * fit.matmul_efficiency
    return np.maximum(computing_s / speed, moving_s) + fit.operation_s


def passes(layer, *sizes, counted=roofline._passes):
    """What a layer moves as it was counted then: layer normalisation as any layer without products."""
    return counted(msgspec.structs.replace(layer, kind=MODULE) if layer.kind == "layernorm" else layer, *sizes)


@contextmanager
def waited(parameters):
    """Rooflines as they were when runs waited them out."""
    known = roofline.fits()[roofline.ALL]
    then = {
        name: msgspec.structs.replace(known, matmul_efficiency=share, square_speedup=square, operation_s=pass_s)
        for name, (share, square, pass_s) in parameters.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "fits", lambda: then)
        patch.setattr(roofline, "duration_s", longer_s)
        patch.setattr(roofline, "_has_tf32", lambda gpu: False)  # in fp32 Winograd's algorithm was taken on any GPU
        patch.setattr(roofline, "transformer_fits", lambda: {})  # nothing was fitted to them
        patch.setattr(roofline, "_passes", passes)
        roofline._work.cache_clear()
        yield
    roofline._work.cache_clear()


@pytest.fixture(scope="module")
def rows():
    with waited(WAITED):
        return {study: judged(study) for study in ("truth", "paper")}


@pytest.fixture(scope="module")
def sharded():
    with waited(WAITED_LATER):
        return judged("sharded", scale=400, by=lambda request: request.strategy.kind)


def test_batches_in_parts_and_blocks_computed_again_take_as_long_as_is_predicted():
    with waited(WAITED_LATER):
        rows = judged("accumulate", scale=400)
    errors = [error for _, error, _ in rows]
    assert (len(errors), statistics.fmean(errors)) == (10, pytest.approx(0.005, abs=0.001))
    assert max(errors) < 0.025 and all(held for _, _, held in rows)


def test_width_moves_communication_at_equal_work_for_each_byte_as_is_predicted():
    with waited(WAITED_LATER):
        rows = judged("gptx", scale=250, systems=["pcie-gen5"])
    errors = [error for _, error, _ in rows]
    assert (len(errors), statistics.fmean(errors)) == (24, pytest.approx(0.027, abs=0.001))
    assert statistics.median(errors) < 0.015 and sum(held for _, _, held in rows) == 22


@pytest.mark.parametrize(("transport", "mean"), [("auto", 0.006), ("host", 0.013)])
def test_other_numbers_of_ranks_networks_shares_and_jitter_take_as_long_as_is_predicted(transport, mean):
    with waited(WAITED_UNSEEN):
        rows = judged("unseen", systems=["dgx1-p100"], transport=transport)
    errors = [error for _, error, _ in rows]
    assert (len(errors), statistics.fmean(errors)) == (12, pytest.approx(mean, abs=0.001))
    assert max(errors) < 0.025 and all(held for _, _, held in rows)


@pytest.mark.parametrize(
    ("kind", "points", "mean", "worst", "held"), [("fsdp", 20, 0.014, 0.033, 20), ("zero1", 10, 0.015, 0.053, 10)]
)
def test_what_is_shared_out_takes_as_long_as_is_predicted(sharded, kind, points, mean, worst, held):
    errors = [error for strategy, error, _ in sharded if strategy == kind]
    assert len(errors) == points
    assert statistics.fmean(errors) == pytest.approx(mean, abs=0.001)  # results/lab/sharded, which has logarithms
    assert max(errors) == pytest.approx(worst, abs=0.001)
    assert sum(holds for strategy, _, holds in sharded if strategy == kind) == held


@pytest.mark.parametrize(
    ("study", "points", "mean", "worst", "within_tenth"),
    [("truth", 70, 0.006, 0.04, 70), ("paper", 60, 0.016, 0.12, 59)],
)
def test_iterations_in_the_lab_are_as_predicted(rows, study, points, mean, worst, within_tenth):
    errors = [error for _, error, _ in rows[study]]
    assert len(errors) == points
    assert statistics.fmean(errors) == pytest.approx(mean, abs=0.001)  # docs/method/lab.md
    assert max(errors) < worst
    assert sum(error < 0.1 for error in errors) == within_tenth


@pytest.mark.parametrize(
    ("study", "system", "count"),
    [("truth", "dgx1-p100", 35), ("truth", "gx8", 34), ("paper", "dgx1-p100", 25), ("paper", "gx8", 27)],
)
def test_intervals_hold_as_many_as_is_said(rows, study, system, count):
    assert sum(held for name, _, held in rows[study] if name == system) == count


def test_rows_of_later_studies_are_errors_of_the_same_kind(sharded):
    by_start = {domain.what.partition(" ")[0]: domain for domain in domains(in_lab=True)}
    with waited(WAITED_LATER):
        later = {"GPT/x": judged("gptx", 250, systems=["pcie-gen5"]), "batches": judged("accumulate", 400)}
    with waited(WAITED_UNSEEN):
        later |= {"3,": judged("unseen", systems=["dgx1-p100"])}
        later |= {"the": judged("unseen", systems=["dgx1-p100"], transport="host")}
    kinds = {"FSDP": "fsdp", "ZeRO-1": "zero1"}
    later |= {name: [row for row in sharded if row[0] == kind] for name, kind in kinds.items()}
    for name, rows in later.items():
        errors = [error for _, error, _ in rows]
        assert by_start[name].mean_error == pytest.approx(statistics.fmean(errors), abs=0.0006)
        assert by_start[name].worst_error == pytest.approx(max(errors), abs=0.0006)


@pytest.mark.parametrize("study", ["truth", "paper"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_predictions_in_the_lab_carry_its_own_errors(rows, study, system):
    errors = [error for name, error, _ in rows[study] if name == system]
    (domain,) = [
        each
        for each in domains(in_lab=True)
        if f"links of a {SYSTEMS[system]} " in each.what and each.source == f"results/lab/{study}"
    ]
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(statistics.fmean(errors), abs=0.0006)
    assert domain.worst_error == pytest.approx(max(errors), abs=0.0006)
