"""`batch_size=max`: searched by trials, or counted."""

import resource

import msgspec
import pytest

import resnetx
from resnetx.api import largest
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.prediction.memory import step_bytes
from resnetx.record import RunRecord, cut_short
from resnetx.workloads import table


@pytest.mark.parametrize(
    ("most", "start"), [(1, 1), (1, 64), (2, 1), (37, 1), (37, 512), (64, 64), (999, 8), (1000, 1)]
)
def test_the_largest_batch_is_found_to_a_32nd_from_wherever_the_search_begins(most, start):
    tried = []

    def trial(images):
        tried.append(images)
        return "fits" if images <= most else "lacks"

    fits, lacks, limit = largest.searched(trial, start)
    assert limit == "memory"
    assert max(fits) <= most < min(lacks) <= max(fits) + max(1, max(fits) // largest.GAP)
    assert len(tried) == len(set(tried)) <= 20


def test_a_search_ends_where_nothing_fits_all_fits_or_a_step_takes_a_minute():
    with pytest.raises(ConfigError, match="not even one sample"):
        largest.searched(lambda images: "lacks", 4)
    assert largest.searched(lambda images: "fits", 4)[2] == "most"
    fits, lacks, limit = largest.searched(lambda images: "slow" if images >= 32 else "fits", 4)
    assert (max(fits), lacks, limit) == (32, set(), "time")


def test_processes_of_a_trial_have_a_limit_and_nothing_else_has_one():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with largest.limited(2**40):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 2**40
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


SETTINGS = {"model.x": 1, "image_size": 32, "batch_size": "max", "input": "synthetic", "memory_limit": "1GB"}


def test_points_that_differ_in_ranks_have_the_batch_of_the_most_and_say_how_it_was_found(monkeypatch, task_of):
    asked = []

    def supervise(task, folder):
        request = task.request
        asked.append((request.gpus, request.share(0), resource.getrlimit(resource.RLIMIT_DATA)[0]))
        outcome = "ok" if request.share(0) <= 50 else "oom"
        known = {"windows_s": [[0.1]] * request.gpus} if outcome == "ok" else {}
        ended: RunRecord = cut_short(task, 0.0, outcome, "" if outcome == "ok" else "no memory", **known)
        return ended

    monkeypatch.setattr("resnetx.measure.launch.launcher.supervise", supervise)
    monkeypatch.setattr(largest, "obstacle_to", lambda *_: "")
    trees = [compose({**SETTINGS, "gpus": gpus}) for gpus in (1, 2)] + [compose({**SETTINGS, "batch_size": 6})]
    one, two, none = largest.found(trees, SETTINGS)
    assert one is two
    assert none is None
    assert {gpus for gpus, _, _ in asked} == {2}
    assert {limit for _, _, limit in asked} == {one.limit_bytes}
    assert one.limit_bytes <= 10**9
    assert (one.per_rank, min(one.lacks)) == (50, 51)
    assert [(request.batch_size, request.scaling, request.memory_limit) for request in map(request_from, trees)] == [
        (50, "weak", None),
        (100, "weak", None),
        (6, "strong", 10**9),
    ]
    record = cut_short(msgspec.structs.replace(task_of(), largest_batch=one), 0.0, "ok", "")
    on_gpus = msgspec.structs.replace(one, limit_bytes=0)
    assert record.largest_batch == one
    assert cut_short(msgspec.structs.replace(task_of(), largest_batch=on_gpus), 0.0, "ok", "").largest_batch == on_gpus
    assert one.sentence.startswith("50 samples fit on each of 2 ranks, in ")


def test_a_prediction_takes_the_most_that_counted_memory_holds():
    made = resnetx.predict(systems=["dgx1-v100", "gx8"], model="resnetx", batch_size="max", gpus=[1, 4])
    request = request_from(compose({"model": "resnetx", "gpus": 4, "batch_size": 4}))
    for point in made.points:
        assert point.outcome == "ok"
        images, room = point.batch_size // point.gpus, {"dgx1-v100": 16 * 10**9, "gx8": 16 * 2**30}[point.system]
        needed = [
            step_bytes(request, table(request.model, 224), each, request.strategy, gpus=4)
            for each in (images, images + 1)
        ]
        assert needed[0] <= room < needed[1]
    told = next(line.value for line in made.inputs if line.what == "batch_size=max")
    assert told.startswith("306 images of ResNet/8")


def test_what_cannot_be_found_is_refused():
    for more, sentence in {
        "scaling=strong": "leave scaling out",
        "study=paper": "a study has its batches",
        "systems=cpu-host": "add memory=",
        "memory=700MB": "not even one sample",
    }.items():
        key, _, value = more.partition("=")
        given = {"systems": ["dgx1-v100"], "model": "alexnet", "batch_size": "max"} | {key: value}
        given = {name: each for name, each in given.items() if name != "model" or key != "study"}
        with pytest.raises(ConfigError, match=sentence):
            resnetx.predict(**given)


def test_what_is_counted_is_a_step_as_it_is_taken():
    def most(**more):
        given = {"systems": ["dgx1-v100"], "model": "gptx", "model.seq": 64, "gpus": 1}
        return resnetx.predict(**given, batch_size="max", **more).points[0].batch_size

    assert most(optimizer="adamw") < most() < most(checkpointing=True)


def test_a_batch_that_is_taken_in_parts_has_as_many_samples_in_each(monkeypatch):
    fits, lacks, _ = largest.searched(lambda images: "fits" if images <= 1000 else "lacks", 64, 3)
    assert not any(images % 3 for images in fits | lacks)
    assert max(fits) <= 1000 < min(lacks) <= max(fits) + max(fits) // largest.GAP + 3
    with pytest.raises(ConfigError, match="not even 3 samples, one for each part, fit on each rank"):
        largest.searched(lambda images: "lacks", 64, 3)
    given = {"systems": ["dgx1-v100"], "model": "gptx", "batch_size": "max", "gpus": [1, 4]}
    for point in resnetx.predict(**given, accumulate=3).points:
        assert point.outcome == "ok"
        assert point.batch_size % (3 * point.gpus) == 0

    def supervise(task, folder):
        ended: RunRecord = cut_short(task, 0.0, "ok" if task.request.share(0) <= 50 else "oom", "")
        return ended

    monkeypatch.setattr("resnetx.measure.launch.launcher.supervise", supervise)
    (found,) = largest.found([compose({**SETTINGS, "gpus": 1, "accumulate": 4})], SETTINGS)
    assert (found.per_rank, found.lacks[0]) == (48, 52)


def test_counting_ends_where_trials_would():
    tiny = {"model": "mlpx", "model.x": 1, "model.width": 8}
    made = resnetx.predict(systems=["dgx-h200"], batch_size="max", gpus=[2], **tiny)
    assert made.points[0].batch_size == 2 * largest.MOST
    told = next(line.value for line in made.inputs if line.what == "batch_size=max")
    assert told.startswith("1048576 images of MLP/1 width 8 on each GPU of dgx-h200, with which the search ends")


@pytest.mark.slow
def test_systems_are_compared_at_one_batch_only():
    alike, unlike = ["dgx1-v100", "dgx1-v100-32gb"], {"model": "alexnet", "batch_size": "max", "gpus": [2]}
    with pytest.raises(
        ConfigError, match=r"on each GPU of dgx1-v100 and \d+ on .* batch_size=\d+ scaling=weak, or predict"
    ):
        resnetx.compare(systems=alike, **unlike)
    assert resnetx.compare(systems=alike, memory="16GB", **unlike).points[0].margin
