"""Composing: what is given stays what it is, whether on the command line or in a file."""

import hydra
import pytest
from omegaconf import OmegaConf

from resnetx import study
from resnetx.cli.words import settings_of
from resnetx.compose import compose, points_of
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.table import GROUPS


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    return "${oc.env:A_SECRET}"


def test_what_looks_like_an_interpolation_is_text_on_the_command_line(secret):
    words = ["input=torchvision", f"input.root={secret}", f"env.A={secret}", f"systems=[{secret}]"]
    (point,) = points_of(settings_of(words))[1]
    tree = compose(point)
    assert (tree["input"]["root"], tree["env"], tree["systems"]) == (secret, {"A": secret}, secret)


@pytest.mark.parametrize("text", ["${oc.env:A_SECRET}", "${oc.env", "${batch_size}", "a ${foo:${bar}} b", "???"])
def test_and_in_a_study(tmp_path, secret, text):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"grids:\n  - {{model: alexnet, input: torchvision, input.root: '{text}', env.NCCL_ALGO: '{text}'}}\n"
    )
    (point,) = study.points(study.load(str(path)), {})
    request = request_from(compose(point))
    assert (request.input.root, request.env) == (text, {"NCCL_ALGO": text})


@pytest.mark.parametrize(
    "given", ["${oc.env:A_SECRET}", "../model/alexnet", "alexnet,resnetx", "alexnet\n", None, ["a"]]
)
def test_the_choice_of_a_group_is_one_of_its_names(secret, given):
    with pytest.raises(ConfigError, match=r"no such model( \(did you mean |; known: )(alexnet|resnetx)") as refusal:
        compose({"model": given})
    assert "hunter2" not in str(refusal.value)


def test_a_choice_of_ones_own_is_read_within_bounds(tmp_path):
    from resnetx.settings.files import searching

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "deep.yaml").write_text("kind: " + "[" * 100_000)
    with searching([tmp_path]), pytest.raises(ConfigError, match=r"deep.yaml, line 1: nested more than 32 deep"):
        compose({"model": "deep"})


def test_settings_are_changed_and_only_the_environment_has_room_for_others():
    tree = compose({"model.x": 3, "env.A": 1, "what_if.bandwidth": {"nvlink1": 2}})
    assert (tree["model"]["x"], tree["env"], tree["what_if"]) == (
        3,
        {"A": 1},
        {"bandwidth": {"nvlink1": 2}, "latency": 1},
    )
    for key in ("model.y", "env.a.b", "batch_size.a", "hydra.run.dir", "a..b", ""):
        with pytest.raises(ConfigError, match="no such setting"):
            compose({key: 1})
    assert compose({})["model"]["x"] != 3


@pytest.mark.parametrize("word", ["a=\udcff", 'model.x="m\udcf4"'])
def test_a_word_that_is_no_text_is_refused_as_such(word):
    with pytest.raises(ConfigError, match="not valid UTF-8"):
        settings_of([word])


@pytest.mark.parametrize("word", ["a=choice(" + "2," * 3000 + "3)", "~" + "a" * 3000])
def test_a_long_word_is_not_repeated(word):
    with pytest.raises(ConfigError) as refusal:
        settings_of([word])
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("word", ["a=" + "[" * 3000, "a=" + "1" * 5000, "a=${"])
def test_a_word_that_nobody_can_parse_is_refused_in_a_sentence(word):
    with pytest.raises(ConfigError, match="not of the form key=value") as refusal:
        settings_of([word])
    assert len(str(refusal.value)) < 500


CHOICES = [(group, choice) for group in GROUPS for choice in sorted(choices(group))]


@pytest.mark.slow
@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_hydra_composes_the_same_of_our_files(group, choice):
    """They are a configuration of Hydra's, which others may compose; input is named, as ours follows a model."""
    point = {"input": "synthetic"} | {group: choice}
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        theirs = OmegaConf.to_container(hydra.compose("config", [f"{name}={of}" for name, of in point.items()]))
    assert compose(point) == theirs


def test_classifiers_of_torchvision_have_images_as_their_weights_take_them():
    sizes = {
        name: compose({"model": "torchvision", "model.name": name})["image_size"]
        for name in ("inception_v3", "efficientnet_b4", "resnet50")
    }
    assert sizes == {"inception_v3": 299, "efficientnet_b4": 380, "resnet50": None}  # 224
    assert compose({"model": "torchvision", "model.name": "inception_v3", "image_size": 320})["image_size"] == 320
    assert compose({"model": "alexnet"})["image_size"] is None  # 227, its own
