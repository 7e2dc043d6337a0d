from dataclasses import fields

import pytest

from resnetx.measure.rank.phases import StepParts
from resnetx.record import Device, Phases
from resnetx.reporting.study_scaling import limits

ON_GPU = {"devices": [Device(rank=0, node="n", index=0, name="H200", uuid="", pci_bus_id="")]}
PHASES = Phases(clock="CUDA events", begin_s=[[0.0]], **{field.name: [0.1] for field in fields(StepParts)})


@pytest.fixture
def point_of(request_of, brief_of, results_of):
    """Makes a point with a clean rate and the rates of its twins."""

    def make(clean, runs=1, settings=None, wobble=0.0, clean_run=None, kernels_s=None, **twins):
        request = request_of(settings or {"input": "dali"}, gpus=2, threads=1)
        rates = [1 + wobble * run for run in range(runs)]
        briefs = [brief_of(request, clean * rate, **(clean_run or {})) for rate in rates]
        for name, twin in twins.items():
            seen = {"kernels_s": kernels_s, "phases": PHASES} if name == "phases" else {}
            briefs += [brief_of(request.twins[name], twin * rate, **seen) for rate in rates]
        return results_of([request], briefs).points[0]

    return make


def medians(found):
    return {part: pytest.approx(share.median) for part, share in found.shares.items()}


def test_a_step_that_is_as_fast_without_anything_is_compute_bound(point_of):
    found = limits(point_of(100.0, synthetic=105.0, alone=110.0))
    assert medians(found) == {"compute": 1 - 5 / 105 - 10 / 110, "input": 5 / 105, "communication": 10 / 110}
    assert (found.verdict, found.why) == (None, "open: compute by 77 points, from one run")
    assert limits(point_of(100.0, runs=2, wobble=0.01, synthetic=105.0, alone=110.0)).why == "compute, by 77 points"
    assert found.step_s.median == pytest.approx(32 / 100)


@pytest.mark.parametrize(
    ("twins", "verdict"),
    [({"synthetic": 300.0, "alone": 101.0}, "input"), ({"synthetic": 101.0, "alone": 400.0}, "communication")],
)
def test_what_makes_the_step_much_shorter_when_left_out_is_the_limit(point_of, twins, verdict):
    assert limits(point_of(100.0, runs=2, wobble=0.01, **twins)).verdict == verdict


def test_time_without_kernels_that_no_input_explains_is_the_hosts(point_of):
    twins = {"synthetic": 110.0, "alone": 100.0, "phases": 90.0}
    found = limits(point_of(100.0, runs=2, **twins, clean_run=ON_GPU, kernels_s=[0.06, 0.068]))  # of 0.32 s
    assert found.shares["host"].median == pytest.approx(0.8 - 10 / 110)
    assert sum(share.median for share in found.shares.values()) == pytest.approx(1)
    assert found.verdict == "host"


def test_on_cpus_host_and_compute_are_one(point_of):
    found = limits(point_of(100.0, synthetic=100.0, alone=100.0))
    assert (found.unknown, "host" in found.shares) == ({}, False)


def test_on_gpus_whose_kernels_nobody_saw_there_is_no_verdict(point_of):
    twins = {"synthetic": 101.0, "alone": 101.0}
    found = limits(point_of(100.0, runs=2, **twins, clean_run=ON_GPU))
    assert (found.verdict, found.why) == (None, "unknown: the control run phases has not run")
    found = limits(point_of(100.0, runs=2, **twins, phases=90.0, clean_run=ON_GPU))
    assert (found.verdict, found.why) == (None, "unknown: the profiler saw no kernel")


def test_a_missing_twin_leaves_the_verdict_open(point_of):
    found = limits(point_of(100.0, synthetic=100.0))
    assert (found.verdict, found.margin) == (None, None)
    assert found.why == "unknown: the control run alone has not run"


def test_a_lead_that_the_runs_do_not_show_is_no_verdict(point_of):
    found = limits(point_of(100.0, runs=6, wobble=0.1, synthetic=210.0, alone=100.0))
    assert found.verdict is None
    assert found.margin.low <= 0 <= found.margin.high
    assert found.why == "open: input or compute"


def test_synthetic_input_on_one_rank_can_only_compute(request_of, brief_of, results_of):
    request = request_of(gpus=1, threads=1)
    found = limits(results_of([request], [brief_of(request, 10.0)]).points[0])
    assert (found.verdict, found.shares["compute"].median) == ("compute", 1.0)


def test_the_loaders_rate_and_the_watched_steps_stand_beside_the_clean_ones(point_of):
    found = limits(point_of(100.0, synthetic=101.0, alone=101.0, input=500.0, phases=95.0))
    assert found.loader_rate.median == pytest.approx(500)
    assert found.instrumented.median == pytest.approx(0.95)


def test_twins_that_took_longer_than_the_step_leave_no_share_known(point_of):
    """Without its exchange the step took 1.48 times as long: "compute 132.5 %, communication -32.5 %"."""
    found = limits(point_of(100.0, runs=2, wobble=0.01, synthetic=100.0, alone=100 / 1.325))
    assert (found.shares, found.verdict, found.margin) == ({}, None, None)
    assert set(found.unknown) == {"compute", "input", "communication"}
    assert found.why == "not known from these runs, which put communication at -32% of the step"


def test_a_twin_that_was_slower_by_chance_shows_a_share_of_nothing(point_of):
    found = limits(point_of(100.0, runs=2, wobble=0.01, synthetic=100.0, alone=99.5))
    assert medians(found) == {"compute": 1.0, "input": 0.0, "communication": 0.0}
    assert found.verdict == "compute"
