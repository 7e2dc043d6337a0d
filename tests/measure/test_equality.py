"""Equality of ranks with one process: it is found where it is, and no breach of a strategy goes unseen."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from resnetx.choices import Bucket
from resnetx.cli import main
from resnetx.measure.machine import missing_feature
from resnetx.measure.rank import equality
from resnetx.measure.rank.equality import TOLERANCE
from tests.measure.starting import run_ranks

SMALL = {"model.x": 1, "model.width": 16, "model.classes": 10, "image_size": 32, "threads": 1, "steps": 3}
STRATEGIES = [
    {"strategy": "bucket", "strategy.bucket_cap_mb": 0.005},
    {"strategy": "layerwise"},
    {"strategy": "after"},
    {"strategy": "server"},
    {"strategy": "zero1"},
]
GPT = {"model": "gptx", "model.x": 2, "model.width": 16, "model.heads": 2, "model.seq": 8, "model.vocabulary": 11}
FSDP = [{"strategy": "fsdp", "strategy.reshard": reshard} for reshard in (True, False)]
IN_PARTS = [{"optimizer": "adamw"}, {"accumulate": 2, "checkpointing": True}]
BROKEN = ["not reduced", "reduced twice", "sum, not mean", "slightly off", "stale", "equal weights"]


@pytest.fixture
def compared(preloaded_python, tmp_path):
    """Compares several cases (settings, breach) in one start of so many ranks: the equality of each."""

    def compare(cases, ranks):
        asked = [({**settings, "gpus": ranks}, breach) for settings, breach in cases]
        (tmp_path / "cases.json").write_text(json.dumps(asked))
        program = Path(__file__).with_name("compared_ranks.py")
        run_ranks(preloaded_python, ranks, program, tmp_path / "cases.json", tmp_path / "answers.json")
        return json.loads((tmp_path / "answers.json").read_text())

    return compare


@pytest.mark.dist
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_strategy_equals_one_process_with_even_and_uneven_shares(ranks, compared):
    even = STRATEGIES if ranks == 2 else []  # on more they are what the uneven ones are
    cases = [({**SMALL, **strategy, "batch_size": 12}, "") for strategy in [*even, *FSDP]]
    cases += [({**SMALL, **strategy, "batch_size": 11, "split": "uneven"}, "") for strategy in STRATEGIES]
    cases += [({**SMALL, "batch_size": 3, "scaling": "weak", "precision": "bf16"}, "")]
    for found in compared(cases, ranks):
        deviations = [found["double"]["loss"], *found["double"]["layers"].values()]
        assert found["equal"]
        assert max(deviations) < TOLERANCE / 1e3  # as the module's docstring claims
        assert found["statistics"] == "frozen"
        assert max(found["per_rank"]["layers"].values()) > 1e-3
        assert max(found["as_trained"]["layers"].values()) > 1e-9


@pytest.mark.dist
def test_transformers_equal_one_process_however_they_are_shared_out(compared):
    shared = [{"strategy": "bucket"}, {"strategy": "zero1"}, *FSDP]
    cases = [({**GPT, **strategy, "threads": 1, "steps": 2, "batch_size": 4}, "") for strategy in shared]
    cases += [({**case[0], **how}, "") for case in cases for how in IN_PARTS]
    cases += [({**GPT, "strategy": "after", "accumulate": 4, "threads": 1, "steps": 2, "batch_size": 8}, "")]
    for found in compared(cases, 2):
        assert found["equal"]
        assert found["statistics"] == "none"
        assert max(found["double"]["layers"].values()) < TOLERANCE / 1e3
        assert max(found["as_trained"]["layers"].values()) < 1e-4  # gradients of a sum instead of a mean: 1


@pytest.mark.dist
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
def test_no_breach_goes_unseen(compared, half):
    """Half of all pairs, in which each strategy has three breaches, and each breach breaks two or three strategies."""
    cases = [
        ({**SMALL, **strategy, "batch_size": 11, "split": "uneven"}, breach)
        for number, strategy in enumerate(STRATEGIES)
        for place, breach in enumerate(BROKEN)
        if (number + place) % 2 == half
    ]
    for (settings, breach), found in zip(cases, compared(cases, 2), strict=True):
        assert not found["equal"], (settings["strategy"], breach)


ALEXNET = {"model": "alexnet", "image_size": 67}
GOOGLENET = {"model": "googlenet", "image_size": 64}  # auxiliary classifiers, too
MOBILENET = {"model": "torchvision", "model.name": "mobilenet_v3_small", "image_size": 64}
OTHERS = [
    ({**GOOGLENET, "strategy": "layerwise"}, ""),
    *(({**MOBILENET, "strategy": "bucket"}, breach) for breach in ("", "slightly off")),
]
MORE = [
    ({**GOOGLENET, "strategy": "layerwise"}, "slightly off"),
    *(
        ({**network, "strategy": strategy}, "")
        for network, strategy in [(ALEXNET, "layerwise"), (GOOGLENET, "bucket"), (MOBILENET, "layerwise")]
    ),
]


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize(
    "networks",
    [OTHERS, pytest.param(MORE, marks=pytest.mark.long)],
    ids=["others", "more"],
)
def test_all_kinds_of_networks_equal_one_process(compared, networks):
    """Dropout, auxiliary classifiers, local response normalisation; no breach may hide in them either."""
    small = {"model.classes": 10, "threads": 1, "steps": 1, "batch_size": 5, "split": "uneven"}
    cases = [({**small, **network}, breach) for network, breach in networks]
    for (settings, breach), found in zip(cases, compared(cases, 2), strict=True):
        worst = max(found["double"]["layers"].values())
        assert found["equal"] == (not breach), (settings, breach, worst)
        assert breach or worst < TOLERANCE / 1e3, (settings, worst)


def test_dropout_is_off_and_containers_stay_in_training():
    inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    equality._without_chance(nn.Sequential(inner).train())
    assert [module.training for module in (inner, *inner)] == [True, False, False, False]


def test_frozen_statistics_are_those_of_the_batch(request_of):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    images = 4 + 3 * torch.randn(8, 3, 6, 6)
    equality._normalise_by(equality._without_chance(model), (images, torch.zeros(8)), request_of())
    activations = model(images)
    assert activations.mean((0, 2, 3)).abs().max() < 1e-5
    assert (activations.var((0, 2, 3)) - 1).abs().max() < 1e-4
    assert model[1].momentum == 0.1


@pytest.fixture
def doubled(request_of):
    """The limits of DDP's buckets, the first and all others, in double precision."""

    def limits(**strategy):
        strategy = equality._double(request_of(strategy)).strategy
        return strategy.first_bucket_mb, strategy.bucket_cap_mb

    return limits


def test_double_precision_is_asked_for_without_autocast(request_of):
    assert equality._double(request_of({"precision": "bf16"})).precision == "fp32"


def test_double_precision_sends_the_same_gradients_together(doubled):
    assert doubled(**{"strategy.bucket_cap_mb": 10}) == (None, 20)
    if reason := missing_feature(Bucket(bucket_cap_mb=None, first_bucket_mb=1.0, gradient_as_bucket_view=True)):
        pytest.skip(reason)
    assert doubled() == (2, 50)
    assert doubled(**{"strategy.bucket_cap_mb": 10, "strategy.first_bucket_mb": 0.5}) == (1, 20)


def test_where_ddp_has_no_setting_for_its_first_bucket_its_own_limits_stay(doubled, monkeypatch):
    def older(bucket_cap_mb=None):
        """A DDP that has no list of limits."""

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", older)
    assert doubled() == (None, None)
    assert doubled(**{"strategy.bucket_cap_mb": 10}) == (None, 20)


def test_what_is_no_number_is_the_largest_deviation():
    assert equality._largest([float("nan"), 1.0]) != equality._largest([1.0])
    assert equality._largest([1.0, 2.0, 0.0]) == 2.0


# ---- the verb -------------------------------------------------------------------------------------------------------

WORDS = [f"{key}={value}" for key, value in {**SMALL, "input": "synthetic", "batch_size": 4}.items()]


@pytest.mark.dist
def test_verify_prints_the_verdict_and_leaves_a_record(tmp_path, capsys, preloaded):
    assert main(["verify", *WORDS, "strategy=after", f"results={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert "strategy=after: equal to one process" in printed
    assert "3 steps" in printed
    record = json.loads(next(tmp_path.rglob("record.json")).read_text())
    deviations = record["equality"]["double"]["layers"]
    worst = sorted(deviations, key=lambda layer: -deviations[layer])
    shown = [line.split()[0] for line in printed.splitlines() if line.split()[:1] and line.split()[0] in deviations]
    assert shown == worst[:4]
    assert f"{len(worst) - 4} more layers: --all" in printed
    assert record["equality"]["equal"]
    assert record["unknown"]["windows_s"] == "no part of measure=equality"


@pytest.mark.dist
def test_verify_ends_with_status_1_where_the_loss_is_no_number(tmp_path, capsys, preloaded):
    assert main(["verify", *WORDS, "optimizer.learning_rate=1e30", f"results={tmp_path}"]) == 1
    assert "optimizer.learning_rate=1e+30: the loss of one process is not finite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gpus=1"], "gpus=1: several ranks are compared with one"),
        (["strategy=none"], "strategy=none exchanges no gradients"),
        (["strategy=server", "precision=fp16"], "strategy=server with precision=fp16: whether gradients overflow"),
        (["strategy=server", "strategy.device=gpu"], "strategy.device=gpu: this machine has no GPU"),
        (["gpus=[2,4]"], "more than one case; `resnetx verify` compares one"),
        (["batch_size=5"], "batch_size=5 does not divide over gpus=2"),
    ],
)
def test_verify_refuses_what_it_cannot_compare_in_one_sentence(words, sentence, capsys):
    assert main(["verify", "input=synthetic", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
