"""Where the time of a step goes."""

import msgspec
import pytest

import resnetx
from resnetx.record.prediction import TimePart
from resnetx.reporting.predicted_answer import percents, predicted_curves, time_of_each
from resnetx.reporting.predicted_certainty import sure


def parts(point):
    return {part.name: part.share for part in point.parts}


def predicted(**settings):
    return resnetx.predict(**{"model": "alexnet", "batch_size": 256, "input": "synthetic", **settings}).points


@pytest.mark.slow
def test_parts_sum_to_the_step_and_useful_is_efficiency():
    made = resnetx.predict(systems=["dgx1-p100", "gx8", "dgx-h100"], study="paper", input=["synthetic", "dali"])
    points = [point for point in made.points if point.outcome == "ok"]
    assert len(points) > 400
    for point in points:
        shares = parts(point)
        assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
        assert point.parts[0].share == point.efficiency
        assert point.parts[0].interval == point.efficiency_interval
        assert all(0 <= end <= 1 for part in point.parts[1:] for end in (*part.interval, part.share))
        if point.baseline_gpus == 1:
            exposed = point.exposed_communication_s / point.iteration_s
            assert shares["communication"] == pytest.approx(exposed, abs=1e-9)
        assert all(part.interval[0] <= part.share <= part.interval[1] for part in point.parts)
        assert {part.share for part in point.parts} == {0, 1} or point.gpus > point.baseline_gpus


def test_with_weak_scaling_a_step_of_the_same_length_is_all_useful():
    eight = predicted(systems=["gx8"], gpus=[1, 8], scaling="weak")[-1]
    assert parts(eight)["useful"] == pytest.approx(eight.efficiency)
    assert abs(parts(eight)["smaller batches"]) < 0.05


@pytest.mark.parametrize(
    "settings",
    [
        {"systems": ["gx8"], "gpus": [8]},
        {"systems": ["gx8"], "gpus": [8], "strategy": "zero1"},
        {"systems": ["gx8"], "gpus": [8], "batch_size": 250, "split": "uneven"},
        {
            "systems": ["dgx1-p100"],
            "gpus": [4, 8],
            "batch_size": 1024,
            "input": "dali",
            "input.decoder": "cpu",
            "input.threads": 2,
        },
    ],
)
def test_no_part_is_less_than_nothing_and_useful_is_efficiency(settings):
    point = predicted(**settings)[-1]
    useful, *lost = point.parts
    assert (useful.share, useful.interval) == (point.efficiency, point.efficiency_interval)
    assert all(0 <= part.interval[0] <= part.share <= part.interval[1] <= 1 for part in lost)
    assert sum(parts(point).values()) == pytest.approx(1, abs=1e-9)
    whole = percents(point)
    assert f"{whole['useful']}%" == f"{point.efficiency:.0%}" and sum(whole.values()) == 100


def test_a_short_line_names_communication_and_every_large_loss():
    names = ("useful", "smaller batches", "host", "communication", "launching", "waiting", "input")
    shares = (0.56, 0.15, 0.13, 0.03, 0.07, 0.04, 0.02)
    (point,) = predicted(model="alexnet", batch_size=256, systems=["gx8"], gpus=[8])
    parts_of = [TimePart(name, share, (share, share)) for name, share in zip(names, shares, strict=True)]
    said = time_of_each(msgspec.structs.replace(point, parts=parts_of), 60)
    assert said.startswith("56% useful | 15 smaller batches | 13 ")
    assert " | 7 launching" in said and " | 3 exposed communication" in said and said.endswith(" | 6 other")


def test_the_batch_below_which_more_gpus_buy_nothing_stands_beside_what_its_host_takes():
    given = {"model": "resnet50", "precision": "fp16", "systems": ["dgx-a100"]}
    eight = predicted(**given, gpus=[1, 8], rate={256: 2470})[-1]
    assert eight.limited_by == "host"
    assert " launching (below 98 images per GPU) |" in time_of_each(eight)
    large = predicted(**given, gpus=[1, 8], rate={256: 2470}, batch_size=2048)[-1]
    assert "(below " not in time_of_each(large)
    bert = predicted(**{**given, "model": "bert"}, gpus=[1, 8], rate={64: 800}, batch_size=64)[-1]
    assert " sequences per GPU) |" in time_of_each(bert)


@pytest.mark.parametrize(("rate", "is_said"), [({256: 2470}, True), ({256: 2470, 32: 1700}, False)])
def test_errors_at_an_eighth_of_a_batch_are_said_where_its_rate_is_not_known(rate, is_said):
    asked = {"model": "resnet50", "batch_size": 256, "precision": "fp16", "gpus": [1, 8], "input": "synthetic"}
    made = resnetx.predict(systems=["dgx-a100"], rate=rate, **asked)
    told = " ".join(sure(made, predicted_curves(made.points)))
    assert ("an eighth of a batch" in told) == is_said
    assert "1.7%" in told


def test_an_update_that_is_shared_out_is_a_gain_in_words():
    sharded = {"model": "bert", "batch_size": 8, "scaling": "weak", "strategy": "fsdp", "optimizer": "adamw"}
    eight = predicted(systems=["dgx-a100"], gpus=[1, 8], precision="bf16", accumulate=2, **sharded)[-1]
    shares = parts(eight)
    assert [name for name, share in shares.items() if share < 0] == ["smaller batches"]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert time_of_each(eight).endswith(" gained: less computing") and "-" not in time_of_each(eight)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"straggler": 1.5}, "waiting"),
        ({"what_if.bandwidth": {"pcie3": 0.5}}, "communication"),
        ({"input": "dali", "input.decoder": "cpu"}, "input"),
        ({"host_time": "20ms"}, "host"),
        ({"host_step": "60ms"}, "launching"),
    ],
)
def test_what_makes_a_step_longer_is_the_part_that_grows(changed, part):
    (before,), (after,) = predicted(systems=["gx8"], gpus=[8]), predicted(systems=["gx8"], gpus=[8], **changed)
    old, new = parts(before), parts(after)
    grown_s = {name: new[name] * after.iteration_s - old[name] * before.iteration_s for name in new if name != "useful"}
    assert max(grown_s, key=grown_s.__getitem__) == part
