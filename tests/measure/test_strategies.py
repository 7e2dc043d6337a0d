"""What each strategy sends, and that all ranks come out of a step with the same parameters."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from resnetx import choices, workloads
from resnetx.measure.machine import missing_feature
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.strategies import _Buckets, _Flat, called, layers, replicate
from resnetx.record import Unknown
from resnetx.workloads.counts import messages
from resnetx.workloads.layers import without_elements
from tests.measure.starting import run_ranks

ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))
SMALL = {"model.x": 3, "model.width": 16, "model.classes": 10, "image_size": 32, "batch_size": 8, "threads": 1}
CASES = [
    {"strategy": "bucket"},
    {"strategy": "bucket", "strategy.bucket_cap_mb": 0.005},
    {"strategy": "bucket", "strategy.gradient_as_bucket_view": False},
    {"strategy": "layerwise"},
    {"strategy": "after"},
    {"strategy": "server"},
    {"strategy": "none"},
]
if not missing_feature(choices.Bucket(bucket_cap_mb=None, first_bucket_mb=1.0, gradient_as_bucket_view=True)):
    CASES += [{"strategy": "bucket", "strategy.bucket_cap_mb": 0.02, "strategy.first_bucket_mb": 0.0005}]
NAMES = {"bucket": "DDP", "layerwise": "layerwise", "after": "after", "server": "server", "none": "none"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory, preloaded_python):
    """(case, answer) of every case, clean and watched: one start of two ranks."""
    folder = tmp_path_factory.mktemp("strategies")
    cases = [
        {**SMALL, **case, "measure": measure, "gpus": 2, "windows": 1}
        for case in CASES
        for measure in ("step", "phases")
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    program = Path(__file__).with_name("sent_by_strategies.py")
    run_ranks(preloaded_python, 2, program, folder / "cases.json", folder / "answers.json")
    return list(zip(cases, json.loads((folder / "answers.json").read_text()), strict=True))


def predicted(request):
    table = workloads.table(request.model, request.image_size)
    return [message.size_bytes for message in messages(table, request.strategy, request.precision)]


def test_what_torch_compiles_is_the_model_with_its_ddp_and_only_where_that_is_asked_for(request_of, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module, **options: compiled.append((module, options)) or module)
    model = nn.Linear(2, 2)
    for strategy in ("bucket", "after", "none"):
        replicate(model, request_of(SMALL, strategy=strategy), ALONE)
        assert compiled == []
    replicate(model, request_of(SMALL, compile="default"), ALONE)
    assert compiled == [(model, {"dynamic": False})]
    wrapped = types.SimpleNamespace(module=model)
    _Buckets(wrapped, "default")
    _Flat(model, "after", [list(model.parameters())], 2, None, "default")
    assert [module for module, _ in compiled[1:]] == [wrapped, model]


@pytest.mark.long
def test_a_compiled_model_has_the_gradients_of_the_model_itself(request_of):
    request = request_of(SMALL)
    model = workloads.build(request.model, request.image_size).train()
    images = torch.randn(4, 3, 32, 32)
    found = []
    for compile in ("none", "default"):
        model.zero_grad()
        called(model, compile)(images).logsumexp(1).sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
    for eager, compiled in zip(*found, strict=True):
        assert torch.allclose(eager, compiled, rtol=1e-3, atol=1e-5)


@pytest.mark.dist
def test_every_strategy_sends_the_predicted_messages(answers, request_of):
    for case, answer in answers:
        assert answer["name"] == NAMES[case["strategy"]]
        assert answer["sizes"] == predicted(request_of(case)), case
    # or the cases would have shown little: only the third and `after` send what the first does
    assert len({tuple(answer["sizes"]) for _, answer in answers}) == len(CASES) - 2


@pytest.mark.dist
def test_a_watch_sees_the_same_messages_leave_in_every_step(answers, request_of):
    for case, answer in answers:
        if answer["watched"]:
            steps = [step for seen in answer["watched"] for step in seen["latest"]]
            assert len(steps) == 2 * 3
            for step in steps:
                assert [message["size_bytes"] for message in step["sent"]] == predicted(request_of(case)), case


@pytest.mark.dist
def test_all_ranks_start_from_the_same_parameters_and_buffers(answers):
    for case, answer in answers:
        assert answer["begun_equal"], case


@pytest.mark.dist
def test_ranks_that_exchange_gradients_stay_equal_and_others_do_not(answers):
    for case, answer in answers:
        assert answer["equal"] == (case["strategy"] != "none"), case


@pytest.mark.dist
def test_only_a_parameter_server_keeps_the_momenta_to_itself(answers, request_of):
    for case, answer in answers:
        request = request_of(case)
        elements = sum(sum(layer.parameters) for layer in workloads.table(request.model, request.image_size))
        expected = [elements, 0] if case["strategy"] == "server" else [elements, elements]
        assert answer["momenta"] == expected, case


@pytest.mark.dist
def test_a_message_is_ready_then_sent_then_there_before_the_update(answers):
    for _, answer in answers:
        for seen in answer["watched"] or []:
            step_s, *parts_s = seen["parts"].values()
            assert step_s == pytest.approx(sum(parts_s), abs=1e-6)
            assert [step["begin_s"] for step in seen["latest"]] == sorted(step["begin_s"] for step in seen["latest"])
            for step in seen["latest"]:
                readies = [message["ready_s"] for message in step["sent"]]
                assert readies == sorted(readies)
                assert all(0 < each["ready_s"] <= each["start_s"] <= each["end_s"] for each in step["sent"])


@pytest.mark.dist
def test_only_what_is_sent_is_exposed(answers):
    for case, answer in answers:
        exposed = [seen["parts"]["exposed_communication_s"] for seen in answer["watched"] or []]
        assert all(bool(seconds) == (case["strategy"] != "none") for seconds in exposed), case


# ---- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "image_size"),
    [
        (choices.ResNetXSettings(x=2, width=8, classes=10), 32),
        (choices.GoogLeNetSettings(classes=10), 64),
        (choices.Torchvision(name="resnet18", classes=10), 64),
        (choices.Torchvision(name="convnext_tiny", classes=10), 64),
        (choices.Torchvision(name="vit_b_32", classes=10), 64),  # attention is one layer
    ],
)
def test_layers_are_those_of_the_layer_table(model, image_size):
    with without_elements():
        found = layers(workloads.build(model, image_size))
    table = workloads.table(model, image_size)
    predicted = messages(table, choices.Layerwise(), "fp32")
    sizes = [4 * sum(parameter.numel() for parameter in layer) for layer in found]
    assert sorted(sizes) == sorted(message.size_bytes for message in predicted)


# ---- flat buffers, without ranks ------------------------------------------------------------------------------------


class Sent:
    """A message that arrives when it is waited for: two ranks that have the same gradients."""

    def __init__(self, buffer):
        self.buffer = buffer

    def wait(self):
        self.buffer.mul_(2)


def flat(model, groups):
    sent = []

    def send(buffer):
        sent.append(buffer)
        return Sent(buffer)

    return _Flat(model, "layerwise", groups, 2, send), sent


def test_a_gradient_is_a_view_of_its_buffer_with_the_strides_of_its_parameter():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 3))
    model = model.to(memory_format=torch.channels_last)
    replica, sent = flat(model, layers(model))
    images = torch.randn(2, 3, 8, 8)
    for _ in range(2):  # the second backward pass writes into the buffers of the first
        expected = torch.autograd.grad(model(images).square().sum(), list(model.parameters()))
        replica(images).square().sum().backward()
        replica.finish()
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            assert torch.allclose(parameter.grad, gradient)
            assert parameter.grad.stride() == parameter.stride()
        assert [buffer.data_ptr() for buffer in sent[-2:]] == [
            model[2].weight.grad.data_ptr(),
            model[0].weight.grad.data_ptr(),
        ]
        model.zero_grad(set_to_none=True)
    assert replica.sizes() == [4 * (2 * 4 * 9 + 2), 4 * (4 * 3 * 9 + 4)]


def test_a_message_waits_for_the_last_of_its_gradients():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    replica, sent = flat(nn.ModuleList([first, second]), [[*first.parameters(), *second.parameters()]])
    second(torch.ones(2)).sum().backward()
    assert sent == []
    first(torch.ones(2)).sum().backward()
    assert len(sent) == 1
    replica.finish()


def test_a_layer_without_a_gradient_is_no_silent_difference_between_ranks():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    replica, _ = flat(model, layers(model))
    model[0](torch.ones(2)).sum().backward()
    with pytest.raises(AssertionError, match="no gradient"):
        replica.finish()


@pytest.mark.parametrize("strategy", NAMES)
def test_one_rank_trains_the_bare_model_whatever_the_strategy(strategy, request_of):
    model = nn.Linear(2, 2)
    replica = replicate(model, request_of(strategy=strategy), Ranks(0, 0, 1, torch.device("cpu")))
    assert (replica.name, replica.module) == ("bare", model)
    assert isinstance(replica.sizes(), Unknown)


# ---- what torch may lack --------------------------------------------------------------------------------------------


def bucket(**limits):
    return choices.Bucket(**{"bucket_cap_mb": None, "first_bucket_mb": None, "gradient_as_bucket_view": True, **limits})


def test_the_extra_cuda12_is_what_lacks_a_first_bucket_of_its_own():
    older = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8)  # as pyproject.toml has it
    assert bool(missing_feature(bucket(first_bucket_mb=2.0))) == older


def test_a_first_bucket_of_its_own_needs_a_ddp_that_has_a_list_of_limits(monkeypatch):
    def newer(bucket_cap_mb=None, bucket_cap_mb_list=None):
        """A DDP that has such a list."""

    def older(bucket_cap_mb=None):
        """One that has none."""

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", newer)
    assert missing_feature(bucket(first_bucket_mb=2.0)) == ""
    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", older)
    assert "strategy.first_bucket_mb=2: DDP of torch" in missing_feature(bucket(first_bucket_mb=2.0))
    assert missing_feature(bucket(bucket_cap_mb=2.0)) == ""
    assert missing_feature(choices.Layerwise()) == ""


def test_asking_for_what_every_torch_has_loads_no_torch():
    program = """
import sys
from resnetx import choices
from resnetx.measure.machine import missing_feature
assert missing_feature(choices.Bucket(bucket_cap_mb=1.0, first_bucket_mb=None, gradient_as_bucket_view=True)) == ""
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
