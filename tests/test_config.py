import math

import msgspec
import pytest

from resnetx import choices, config
from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import check, images_from, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.request import Request


def test_the_defaults_describe_a_request_that_can_run(request_of):
    request = request_of()
    check(request)
    assert request.model == choices.ResNetXSettings(x=8, width=64, classes=1000)
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
    assert request_from(tree, present=8).threads == request_from(tree, present=8).input.threads == 2  # idle GPUs count


def test_different_requests_have_different_keys_and_equal_ones_the_same(request_of):
    assert request_of().key == request_of().key
    assert request_of().key != request_of(seed=1).key
    assert "resnet-8_b32_g1_" in request_of().slug


def test_settings_that_came_later_leave_the_keys_of_earlier_runs(request_of):
    """The key of the default request, as it was before there were `channels_last` and `memory_limit`."""
    assert request_of(threads=1).key == "a93c6683"
    assert request_of(threads=1, channels_last=True, memory_limit=None, graph=False).key == "a93c6683"
    assert request_of(channels_last=False).key != request_of().key
    assert request_of(memory_limit="16GB").key == request_of(memory_limit=16_000_000_000).key != request_of().key


def test_a_limit_of_memory_is_a_size(request_of):
    assert request_of(memory_limit="1.5GiB").memory_limit == 3 * 2**29
    for given in ("16Gb", "much", -1, 1.5):
        with pytest.raises(ConfigError, match=r"^memory_limit"):
            request_of(memory_limit=given)


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
        ({"devices": [-1]}, r"devices=-1: expected at least 0"),
        ({"strategy.bucket_cap_mb": 0}, r"strategy\.bucket_cap_mb=0.*: expected more than 0"),
        ({"input": "dali", "input.threads": 0}, r"input\.threads=0: expected at least 1"),
        ({"gpus": 10**9}, r"gpus=1000000000: expected at most 262144 \(Colossus has 200,000\)"),
        ({"model.x": 10**9}, r"model\.x=1000000000: expected at most 32768 \(.*158 GB"),
        ({"model.x": 10**30}, r"model\.x=10{30}: expected at most"),
        ({"model.width": 10**9}, r"model\.width=.*: expected at most 32768"),
        ({"model.classes": 1}, r"model\.classes=1: expected at least 2"),
        ({"model.classes": 10**9}, r"model\.classes=.*: expected at most 1000000 \(ImageNet-21k has 21,841\)"),
        ({"image_size": 10**6}, r"image_size=1000000: expected at most 4096"),
        ({"batch_size": 10**12}, r"batch_size=1000000000000: expected at most 268435456"),
        ({"batch_size": 2**24, "gpus": 64, "scaling": "weak"}, r"batch_size=1073741824: expected at most 268435456"),
        ({"seed": 2**64}, r"seed=18446744073709551616: expected at most 4294967295"),
        ({"seed": -1}, r"seed=-1: expected at least 0"),
        ({"threads": 10**6}, r"threads=1000000: expected at most 4096"),
        ({"optimizer.learning_rate": math.nan}, r"optimizer\.learning_rate=nan: expected a finite number"),
        ({"optimizer.momentum": math.inf}, r"optimizer\.momentum=inf: expected a finite number"),
        ({"optimizer.weight_decay": -1}, r"optimizer\.weight_decay=-1: expected at least 0"),
        ({"strategy.bucket_cap_mb": math.inf}, r"strategy\.bucket_cap_mb=inf: expected a finite number"),
        (
            {"strategy": "server", "gpus": 2, "precision": "fp16"},
            r"strategy=server with precision=fp16: .*use precision=bf16",
        ),
        ({"strategy": "server", "gpus": 2, "graph": True}, r"strategy=server with graph=true: .*leave out graph=true"),
        ({"registered": True}, r"registered=true: .*use strategy=bucket and gpus=2"),
        ({"registered": True, "gpus": 2, "strategy": "after"}, r"registered=true: .*use strategy=bucket"),
        (
            {"strategy": "fsdp", "gpus": 2, "precision": "fp16"},
            r"strategy=fsdp with precision=fp16: .*use precision=bf16",
        ),
        ({"strategy": "zero1", "gpus": 2, "compile": "default"}, r"strategy=zero1 with compile=default: not tried"),
        ({"accumulate": 3}, r"accumulate=3: batch_size=\d+ does not divide over gpus=1 in so many parts"),
        ({"accumulate": 3, "gpus": 4}, r"accumulate=3: batch_size=32 does not .*use batch_size=24 or 36"),
        ({"accumulate": 2, "graph": True}, r"accumulate=2 with graph=true: not tried"),
        ({"accumulate": 2, "strategy": "server", "gpus": 2}, r"accumulate=2 with strategy=server: each gradient goes"),
        ({"checkpointing": True, "model": "alexnet"}, r"checkpointing=true with model=alexnet: only families have"),
        ({"checkpointing": True, "measure": "layers"}, r"checkpointing=true with measure=layers: .*plain passes"),
        ({"optimizer": "adamw", "strategy": "server", "gpus": 2}, r"strategy=server with optimizer=adamw: .*by SGD"),
        ({"optimizer": "adamw", "optimizer.momentum": 1}, r"optimizer.momentum=1 with optimizer=adamw: .*below 1"),
        ({"optimizer": "adamw", "graph": True}, r"optimizer=adamw with graph=true: not tried"),
        ({"model": "gptx", "image_size": 64}, r"image_size=64: model=gptx reads tokens; leave it out"),
        ({"model": "gptx", "input": "dali"}, r"input=dali: model=gptx reads tokens, not images; use input=tokens"),
        ({"input": "tokens"}, r"input=tokens: model=resnetx reads images; use input=dali"),
        ({"model": "gptx", "model.heads": 7}, r"model\.width=768: does not divide over 7 heads"),
        ({"compile": "default", "graph": True}, r"compile=default with graph=true: not tried on any GPU yet"),
        ({"compile": "default", "measure": "layers"}, r"compile=default with measure=layers: .*no layers"),
        (
            {"compile": "default", "strategy": "layerwise", "gpus": 2},
            r"strategy=layerwise: .*use strategy=bucket, after",
        ),
        (
            {"strategy.first_bucket_mb": -1},
            r"strategy\.first_bucket_mb=-1: expected more than 0, or null for DDP's own",
        ),
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
        ("A", "a\0b", r"env\.A: its value contains a NUL character"),
        ("PET_STANDALONE", "1", r"env\.PET_STANDALONE: controls how ranks are started"),
        ("TORCHELASTIC_RUN_ID", "1", r"env\.TORCHELASTIC_RUN_ID: controls how"),
        ("RESNETX_RUN_FOLDER", "/tmp", r"env\.RESNETX_RUN_FOLDER: controls how"),
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
    for settings, sentence in (
        ({"timeout": 0}, r"timeout=0: expected at least 1$"),
        ({"timeout": "2000d"}, r"timeout=172800000: expected at most 2592000 \(30 days, in seconds\)"),
        ({"timeout": "9" * 400}, r"timeout=9+: expected a duration"),
        ({"budget": math.inf}, r"budget=inf: expected a finite number"),
        ({"repeats": 10**9}, r"repeats=1000000000: expected at most 1000"),
        ({"baseline": 0}, r"baseline=0: expected at least 1"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            run_settings_from(compose(settings))
    with pytest.raises(ConfigError, match=r"convention=x: not one of the known values \(caffe, torch, conv, saved\)"):
        run_settings_from(compose({"convention": "x"}))
    assert images_from(compose({"images.size": 256})).size == "256"
    for settings, sentence in (
        ({"images.classes": 0}, r"images\.classes=0: expected at least 1"),
        ({"images.workers": 0}, r"images\.workers=0: expected at least 1"),
        ({"images.workers": 10**6}, r"images\.workers=1000000: expected at most 1024"),
        ({"images.seed": -1}, r"images\.seed=-1: expected at least 0"),
        ({"images.classes": 10**5, "images.per_class": 10**6}, r"images\.classes x images\.per_class=100000000000: "),
    ):
        with pytest.raises(ConfigError, match=sentence):
            images_from(compose(settings))


def test_a_tilde_in_a_path_is_the_home_of_the_user(monkeypatch):
    monkeypatch.setenv("HOME", "/home/some one")
    tree = compose({"input": "torchvision", "input.root": "~/images", "results": "~", "systems": ["~/a.yaml", "gx8"]})
    assert (tree["input"]["root"], tree["results"]) == ("/home/some one/images", "/home/some one")
    assert tree["systems"] == ["/home/some one/a.yaml", "gx8"]
    assert request_from(tree).input.root == "/home/some one/images"
    assert compose({"results": "~nobody of that name/x"})["results"] == "~nobody of that name/x"
    assert compose({"results": "a~b"})["results"] == "a~b"


@pytest.mark.parametrize("word", ["out=~/x", 'out="~/x"', "out='~/x'"])
def test_a_tilde_on_the_command_line_needs_no_quotes(word, monkeypatch):
    monkeypatch.setenv("HOME", "/home/some one")
    assert settings_of([word]) == {"out": "/home/some one/x"}


@pytest.mark.parametrize("word", ["workload='a,~b'", "systems=['~/a b.yaml']", "env.HOME_PAGE='x=~y'"])
def test_what_is_quoted_is_left_as_it_is(word, monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    (value,) = settings_of([word]).values()
    assert value in ("a,~b", ["/h/a b.yaml"], "x=~y")


def test_tildes_in_a_list_of_paths(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    assert settings_of(["systems=[gx8,~/mine.yaml,~/b.yaml]"]) == {"systems": ["gx8", "/h/mine.yaml", "/h/b.yaml"]}


@pytest.mark.parametrize("given", [3, True, None, 1.5])
def test_a_choice_that_is_no_word_is_refused_with_the_known_ones(given):
    with pytest.raises(
        ConfigError, match=r"^model=(3|true|null|1\.5): no such model; known: alexnet, alexnet32, bert, cifarnet"
    ):
        compose({"model": given})
