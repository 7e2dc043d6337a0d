"""Named networks have the parameters that are published of them, and count as other programs count them."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import resnetx
from resnetx import choices, inputs, workloads
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.measure.rank import training
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.strategies import replicate
from resnetx.workloads import counts

# Trainable parameters, tensors, `conv` activations. Published: He et al. 2016, Table 6 (0.27 M, 1.7 M); Huang et al.
# 2017, Table 2 (1.0 M, 7.0 M); Zoph et al. 2018, Tables 1 and 4 (3.3 M, 5.3 M); Keras' NASNetMobile (5,326,716, of
# which 36,738 are not trained); Hugging Face's BertForMaskedLM and BertModel without its pooler; Devlin et al. 2019
# (110 M). AlexNet-32: below.
PUBLISHED = {
    "resnet20": (269_722, 59, 188_426),
    "resnet110": (1_727_962, 329, 1_048_586),
    "densenet40": (1_019_722, 119, 451_594),
    "densenet100": (6_979_642, 299, 1_142_794),
    "alexnet32": (1_756_426, 10, 82_506),
    "nasnet": (3_346_538, 936, 8_650_762),
    "nasnetmobile": (5_326_716 - 36_738, 742, 7_938_035),
    "bert": (109_514_298, 154, 42_467_328 + 512 * (768 + 30_522)),
}
ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_network_is_counted_from_its_name_alone(name: str) -> None:
    found = resnetx.describe(model=name, convention="conv")
    one, layers = found[0], found.layers()
    tensors = sum(len(layer.parameters) for layer in layers)
    assert (one.parameters, tensors, one.activations_per_image) == PUBLISHED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_it_is_predicted(name: str) -> None:
    for point in resnetx.predict(systems="dgx-h100", model=name, batch_size=64, gpus=[1, 8]).points:
        assert (point.outcome, point.iteration_s > point.communication_s) == ("ok", True)


def test_networks_of_torchvision_are_named_beside_them() -> None:
    eight = [*list(PUBLISHED)[:6], "mobilenet_v2", "vgg16"]
    assert len(resnetx.describe(model=eight)) == len(eight)


@pytest.mark.slow
def test_alexnet_for_24_pixels_has_what_the_tutorial_states_of_it() -> None:
    table = workloads.traced(choices.AlexNet32Settings(classes=10), 24)
    assert counts.parameters(table, "torch") == 1_068_298  # TensorFlow's tutorial "Convolutional Neural Networks"


def test_nasnet_mobile_multiplies_as_often_as_is_published() -> None:
    (one,) = resnetx.describe(model="nasnetmobile")
    assert one.flops_per_image / 2 == pytest.approx(564e6, rel=0.001)  # Zoph et al. 2018, Table 4


@pytest.mark.slow
@pytest.mark.parametrize("seq", [128, 512])
def test_the_encoder_of_bert_is_counted_at_any_length(seq: int) -> None:
    model = choices.BertSettings(seq=seq)
    table = workloads.table(model, 0)
    assert table == workloads.traced(model, 0)
    encoder = [layer for layer in table if not layer.name.startswith(("transform", "head"))]
    assert counts.parameters(encoder, "torch") == 108_891_648  # and 590,592 of a pooler are 109,482,240
    assert counts.activations(encoder, 0, "conv") == 12 * 9 * seq * 768


def test_bert_has_512_places() -> None:
    with pytest.raises(ConfigError, match=r"model\.seq=513: BERT-base has embeddings of 512 places"):
        resnetx.describe(**{"model": "bert", "model.seq": 513})


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_it_learns(name: str) -> None:
    small = {"model.seq": 16} if name == "bert" else {"image_size": 32 if name == "nasnetmobile" else 16}
    request = request_from(compose({"model": name, "input": "synthetic", "gpus": 1, "batch_size": 4, **small}))
    torch.manual_seed(0)
    replica = replicate(training.build(request, ALONE), request, ALONE)
    step, progress = training.training_step(replica, inputs.open_for(request, 0, ALONE.device), request, ALONE)
    for _ in range(2 if name == "bert" else 4):
        step()
        progress.note()
    assert progress.losses[-1] < progress.losses[0]


def built(name: str, **settings: int) -> tuple[torch.nn.Module, list[workloads.Layer], torch.Tensor]:
    """A network for two samples, its layers, and the samples."""
    words = {f"model.{key}": value for key, value in settings.items()}
    request = request_from(compose({"model": name, "input": "synthetic", "gpus": 1, "batch_size": 2, **words}))
    samples, _ = next(inputs.open_for(request, 0, ALONE.device))
    return training.build(request, ALONE), workloads.table(request.model, request.image_size), samples


@pytest.mark.slow  # others pass, too, but take fvcore a minute
@pytest.mark.parametrize("name", ["resnet20", "alexnet", "cifarnet", "mlpx"])
def test_activations_and_flop_are_those_of_fvcore(name: str) -> None:
    nn = pytest.importorskip("fvcore.nn")
    module, table, images = built(name)
    activations, flop = counts.activations(table, images.shape[-1], "conv"), counts.flops_per_image(table)
    for analysis, ours in ((nn.ActivationCountAnalysis, activations), (nn.FlopCountAnalysis, flop / 2)):
        found = analysis(module, images).unsupported_ops_warnings(False).tracer_warnings("none").by_operator()
        assert (found["conv"] + found["linear"]) / 2 == ours


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("resnet20", {}),
        ("densenet40", {}),
        ("alexnet32", {}),
        ("nasnet", {}),
        ("resnetx", {"x": 2, "width": 8}),
        ("gptx", {"x": 2, "width": 64, "seq": 16, "vocabulary": 101}),
        ("bert", {"seq": 16}),
    ],
)
def test_flop_are_those_of_torchs_counter_on_a_real_step(name: str, settings: dict[str, int]) -> None:
    """Forward, and in training three times that, but for the first layer's images; fused attention takes 3.5 times."""
    module, table, samples = built(name, **settings)
    with FlopCounterMode(display=False) as forward:
        outputs = module(samples)
    ours = 2 * counts.flops_per_image(table)
    attention = 4 * sum(layer.multiply_adds for layer in table if layer.kind.endswith("attention"))
    if attention and forward.get_total_flops() == ours - attention:
        pytest.skip("torch 2.7 counts no fused attention on CPUs")
    assert forward.get_total_flops() == ours
    if name == "nasnet":
        return  # torch counts the backward pass of a depthwise convolution as if it mixed all channels
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    of_images = 4 * table[0].multiply_adds
    assert backward.get_total_flops() == 2 * ours - of_images + attention // 2
