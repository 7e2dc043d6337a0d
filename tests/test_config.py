import msgspec
import pytest

from resnetx import config
from resnetx.cli.compose import compose
from resnetx.config import Request, check, images_from, request_from, run_settings_from
from resnetx.errors import ConfigError


def test_the_defaults_describe_a_request_that_can_run(request_of):
    request = request_of()
    check(request)
    assert request.model == config.ResNetX(x=8, width=64, classes=1000)
    assert (request.image_size, request.batch_size, request.precision) == (224, 32, "fp32")


def test_the_image_size_is_the_models_own_unless_given(request_of):
    assert request_of(model="alexnet").image_size == 227
    assert request_of(model="alexnet", image_size=128).image_size == 128


def test_a_request_survives_json(request_of):
    request = request_of({"model": "torchvision", "model.name": "vgg16"}, gpus=2, devices=[3, 1])
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request


def test_threads_are_shared_out_for_the_largest_rank_count_of_a_comparison(monkeypatch):
    monkeypatch.setattr(config, "cores", lambda: 16)
    tree = compose({"gpus": 2})
    assert request_from(tree).threads == 8
    assert request_from(tree, max_gpus=8).threads == 2
    assert request_from(tree, max_gpus=8).input.threads == 2
    assert request_from(compose({"gpus": 2, "threads": 5}), max_gpus=8).threads == 5
    assert request_from(tree, max_gpus=64).threads == 1


def test_different_requests_have_different_keys_and_equal_ones_the_same(request_of):
    assert request_of().key == request_of().key
    assert request_of().key != request_of(seed=1).key
    assert "resnet-8_b32_g1_" in request_of().slug


def test_the_baseline_of_a_point_is_the_same_point_on_one_gpu(request_of):
    assert request_of(gpus=2, threads=1).baseline_key == request_of(gpus=1, threads=1).key
    assert request_of(gpus=2, batch_size=64, threads=1).baseline_key != request_of(gpus=1, threads=1).key


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_size": 10, "gpus": 4}, r"batch_size=10 does not divide over gpus=4.*use batch_size=8 or 12"),
        ({"batch_size": 1, "gpus": 4}, r"use batch_size=4,"),
        ({"gpus": 0}, r"gpus=0: expected at least 1"),
        ({"warmup": 2}, r"warmup=2: expected at least 3"),
        ({"model.x": 0}, r"model\.x=0: expected at least 1"),
        ({"model": "alexnet", "image_size": 66}, r"image_size=66: expected at least 67 for AlexNet"),
        ({"gpus": 2, "devices": [0]}, r"devices=\[0\]: expected 2 different GPU ids"),
        ({"gpus": 2, "devices": [1, 1]}, r"devices=\[1, 1\]: expected 2 different"),
        ({"devices": [-1]}, r"devices=\[-1\]: a GPU id is 0 or more"),
        ({"strategy.bucket_cap_mb": 0}, r"strategy\.bucket_cap_mb=0.*: expected more than 0"),
        ({"input": "dali", "input.threads": 0}, r"input\.threads=0: expected at least 1"),
    ],
)
def test_what_cannot_run_anywhere_is_refused_with_the_setting_to_change(request_of, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check(request_of(settings))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_size": "abc"}, r"batch_size=abc: expected a whole number"),
        ({"batch_size": 1.5}, r"batch_size=1\.5: expected a whole number"),
        ({"precision": "fp8"}, r"precision=fp8: not one of the known values \(fp32, tf32, bf16, fp16\)"),
        ({"gpus": [1, 2]}, r"gpus=\[1, 2\]: one run has one GPU count"),
        ({"input": "dali", "input.recipe": "x"}, r"input\.recipe=x: not one of the known values \(imagenet, paper\)"),
        ({"devices": 3}, r"devices=3: expected a list in brackets or nothing"),
        ({"optimizer.momentum": "much"}, r"optimizer\.momentum=much: expected a number"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_was_expected(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        request_from(compose(settings))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("A", "a\0b", r"env\.A: its value has a NUL character"),
        ("PET_STANDALONE", "1", r"env\.PET_STANDALONE: it decides how ranks are started"),
        ("TORCHELASTIC_RUN_ID", "1", r"env\.TORCHELASTIC_RUN_ID: it decides"),
        ("RESNETX_RUN_FOLDER", "/tmp", r"env\.RESNETX_RUN_FOLDER: it decides"),
    ],
)
def test_a_variable_that_no_rank_could_be_given_is_refused(request_of, name, value, sentence):
    """A run file from elsewhere may hold what no command line can."""
    with pytest.raises(ConfigError, match=sentence):
        check(msgspec.structs.replace(request_of(), env={name: value}))


def test_run_settings_and_images_are_checked_too():
    assert run_settings_from(compose({})).repeats == 6
    with pytest.raises(ConfigError, match="repeats=0: expected at least 1"):
        run_settings_from(compose({"repeats": 0}))
    with pytest.raises(ConfigError, match=r"convention=x: not one of the known values \(caffe, torch, conv\)"):
        run_settings_from(compose({"convention": "x"}))
    assert images_from(compose({"images.size": 256})).size == "256"
    with pytest.raises(ConfigError, match=r"images\.classes=0: expected at least 1"):
        images_from(compose({"images.classes": 0}))
