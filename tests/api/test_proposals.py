"""`describe intensity=`: settings of each family near a target, and what is in the way where there are none."""

import pytest

import resnetx
from resnetx.errors import ConfigError


@pytest.mark.slow
@pytest.mark.parametrize("intensity", [0.1, 1, 10, 100, 1000, 10_000])
def test_two_families_come_within_5_percent_of_any_intensity_and_fit(intensity):
    found = resnetx.describe(intensity=intensity, gpus=8, memory="80GB")
    near = [each for each in found if not each.limited_by]
    assert len(near) >= 2
    for each in near:
        assert each.on_each == pytest.approx(intensity, rel=0.05)
        assert each.memory_bytes <= 80e9


def test_what_is_proposed_can_be_typed():
    (first, *_) = resnetx.describe(intensity=100, gpus=8, memory="16GB", convention="torch")
    (typed,) = resnetx.describe(**_words(first.settings), convention="torch", gpus=8)
    assert (typed.workload, typed.intensity_per_gpu["8"]) == (first.workload, pytest.approx(first.on_each))


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_step_needs_the_memory_that_a_prediction_counts(gpus):
    """One rank has no buckets of gradients."""
    (first, *_) = resnetx.describe(intensity=100, gpus=gpus, memory="16GB")
    (point,) = resnetx.predict(systems="dgx-a100", gpus=gpus, **_words(first.settings)).points
    assert point.memory_bytes == first.memory_bytes


def _words(settings):
    words = (word.split("=") for word in settings.split())
    return {name: int(value) if value.isdigit() else value for name, value in words}


@pytest.mark.slow
def test_what_is_in_the_way_is_said():
    limits = {each.family: each.limited_by for each in resnetx.describe(intensity=10_000, gpus=8, memory="8GB")}
    assert limits["resnetx"] == ""
    assert limits["gptx"] == "what comes nearer needs more than 8.00 GB on each GPU"
    wide = {each.family: each.limited_by for each in resnetx.describe(intensity=0.01)}
    assert wide["resnetx"].startswith("one sample on each GPU is 0.434 in its widest member")


def test_the_users_own_job_is_located():
    *_, own = resnetx.describe(intensity=50, gpus=8, model="resnet50", batch_size=256)
    assert (own.family, own.on_each) == ("", pytest.approx(256 / 8 * 11_114_984 / 25_557_032))
    said = " ".join(resnetx.describe(intensity=50, gpus=8, model="resnet50", batch_size=256).answer().sentences)
    assert "Your resnet50 of batch 256 is at 13.92, 0.278 times that" in said


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"memory": "8GB"}, "memory: limits what intensity= proposes"),
        ({"intensity": 1, "gpus": [1, 2]}, "give one value for each setting"),
        ({"intensity": 0}, "intensity=0"),
        ({"intensity": "abc"}, "intensity=abc: expected a number"),
        ({"intensity": 1, "gpus": 2.5}, "gpus=2.5: expected a whole number"),
        ({"intensity": 1, "memory": "abc"}, "memory=abc: expected a size"),
        ({"intensity": 1, "memory": "1MB"}, "no member of resnetx fits"),
    ],
)
def test_refusals(settings, fault):
    with pytest.raises(ConfigError, match=fault):
        resnetx.describe(**settings)


@pytest.mark.slow
def test_the_map_has_all_families_by_both_measures(tmp_path):
    resnetx.describe(intensity=50, gpus=8, model="resnet50", batch_size=256, out=tmp_path)
    lines = (tmp_path / "map.csv").read_text().splitlines()
    places = {line.split(",")[0]: line for line in lines[1:]}
    assert {"resnetx", "gptx", "mlpx", "resnet50"} <= set(places)
    assert lines[0].endswith("flop_per_byte,activations_per_parameter_per_gpu")
