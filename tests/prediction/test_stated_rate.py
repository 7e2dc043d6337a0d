"""Rates of one GPU that are known: what follows from them at other batches, and how far off that was."""

import math
from statistics import fmean

import pytest

from resnetx import workloads
from resnetx.config import request_from
from resnetx.interconnect.system import load
from resnetx.prediction import compute
from resnetx.prediction.compute import of_point
from resnetx.prediction.published import training
from resnetx.prediction.scenario import Fabric, Point, Subject, TrainingSetup
from resnetx.prediction.stated_rate import BETWEEN, OUTSIDE, StatedRates
from resnetx.settings.compose import compose

TWO = StatedRates(((32, 195.0), (64, 219.0)), "stated", "rate=")


def computed(rates, images, system="dgx1-p100"):
    words = {"model": "torchvision", "model.name": "resnet50", "batch_size": 32, "input": "synthetic", "gpus": 1}
    request = request_from(compose(words))
    table = workloads.table(request.model, request.image_size)
    made = Subject.of(request, table, "torch")
    subject = Subject(**{**vars(made), "rates": rates})
    machine = load(system)
    return of_point(Point(subject, Fabric(machine, machine.library), (0,), images, TrainingSetup()), images)


def test_a_step_takes_what_the_rate_says_and_the_roofline_divides_it():
    known, modelled = computed(TWO, 32), computed(None, 32)
    assert known.step.compute_s == pytest.approx(32 / 195)
    shares = [[layer.forward_s / each.step.compute_s for layer in each.step.layers] for each in (known, modelled)]
    assert shares[0] == pytest.approx(shares[1])
    assert (known.source, known.error) == ("stated", 0.02)


def test_a_batch_between_known_ones_lies_between_their_rates_and_is_known_less_well():
    found = computed(TWO, 48)
    assert 195 < 48 / found.step.compute_s < 219
    assert found.error == pytest.approx(math.hypot(0.02, BETWEEN * math.log2(64 / 48) ** 0.5))
    assert "batch 48 follows the shape of the roofline" in found.note


def test_on_cpus_layers_share_the_step_by_their_flop():
    found = computed(TWO, 32, "cpu-host")
    assert found.step.compute_s == pytest.approx(32 / 195)
    by_name = {layer.name: layer for layer in found.step.layers}
    inner = by_name["layer2.1.conv2"]
    assert inner.backward_s == pytest.approx(2 * inner.forward_s)
    assert by_name["relu"].forward_s == 0
    assert "FLOP" in computed(TWO, 48, "cpu-host").note


@pytest.mark.slow
def test_nine_of_ten_published_rates_are_within_the_error_of_others_of_their_source():
    """Between two known batches, and from a single other one."""
    between, outside = [], []
    for entry in training().one_gpu:
        table = tuple(entry.table(entry.image_size))

        def step_s(batch, entry=entry, table=table):
            made = compute.of_roofline(table, entry.image_size, batch, entry.precision, entry.part, entry.clock_Hz)
            return made.step.compute_s

        measured = sorted(entry.images_per_s.items())
        for batch, rate in measured:
            others = [each for each in measured if each[0] != batch]
            if len(others) > 1 and others[0][0] < batch < others[-1][0]:
                between.append(is_within(tuple(others), batch, rate, step_s))
            outside += [is_within((other,), batch, rate, step_s) for other in others]
    assert (len(between), len(outside)) == (20, 184)
    assert 0.8 <= fmean(between) <= 0.97
    assert 0.85 <= fmean(outside) <= 0.97
    assert BETWEEN < OUTSIDE


def is_within(others, batch, rate, step_s):
    known = StatedRates(others, "stated", "a source", error=0.0)
    predicted = batch / (step_s(batch) * known.factor(batch, step_s))
    return abs(predicted / rate - 1) <= known.error_at(batch)
