from typing import Any

import pytest

from resnetx.errors import ConfigError
from resnetx.workloads import counts
from resnetx.workloads.counts import Layer

SIZE = 2  # pixels: the image has 12 elements


def layer(name: str, inputs: str, elements: int = 10, **options: Any) -> Layer:
    """A layer whose kind is its name without digits."""
    facts = {"kind": name.rstrip("0123456789"), "in_place": False, "parameters": (), "multiply_adds": 0} | options
    return Layer(name=name, inputs=tuple(inputs.split()), output_shape=(elements,), **facts)


def caffe(*layers: Layer) -> int:
    return counts.activations(layers, SIZE, "caffe")


# ---- caffe ----------------------------------------------------------------------------------------------------------


def test_caffe_counts_the_image_the_label_and_every_blob() -> None:
    assert caffe(layer("conv", "data"), layer("pool", "conv", 5), layer("linear", "pool", 3)) == 12 + 1 + 10 + 5 + 3


@pytest.mark.parametrize("kind", ["relu", "dropout", "batchnorm"])
def test_in_caffe_relu_dropout_and_batchnorm_make_no_blob_whatever_pytorch_does(kind: str) -> None:
    for in_place in (True, False):
        assert caffe(layer("conv", "data"), layer(kind, "conv", in_place=in_place)) == 12 + 1 + 10


@pytest.mark.parametrize("kind", ["lrn", "add", "silu"])
def test_in_caffe_everything_else_makes_a_blob_whatever_pytorch_does(kind: str) -> None:
    for in_place in (True, False):
        assert caffe(layer("conv", "data"), layer(kind, "conv", in_place=in_place)) == 12 + 1 + 10 + 10


def test_caffe_copies_a_blob_for_each_of_several_readers() -> None:
    block = [layer("conv", "data"), layer("relu", "conv"), layer("conv1", "relu"), layer("add", "conv1 relu")]
    assert caffe(*block) == 12 + 1 + 10 + 2 * 10 + 10 + 10


def test_caffe_copies_the_image_and_the_label_too() -> None:
    heads = [layer("linear1", "data", 3), layer("linear2", "data", 3), layer("linear3", "data", 3)]
    assert caffe(*heads) == (12 + 3 * 12) + (1 + 3) + 3 * 3


def test_a_batch_normalisation_takes_6_parameters_a_channel_and_one() -> None:
    normalised = [layer("conv", "data", parameters=(90,)), layer("batchnorm", "conv", parameters=(7, 7))]
    assert counts.parameters(normalised, "caffe") == 90 + 6 * 7 + 1
    assert counts.parameters(normalised, "torch") == 90 + 14


# ---- torch and conv -------------------------------------------------------------------------------------------------


def test_torch_counts_the_tensors_that_are_made() -> None:
    table = [
        layer("conv", "data"),
        layer("batchnorm", "conv"),
        layer("relu", "batchnorm", in_place=True),
        layer("add", "relu relu", in_place=True),
        layer("pool", "add", 5),
    ]
    assert counts.activations(table, SIZE, "torch") == 10 + 10 + 5


def test_conv_counts_outputs_of_convolution_and_linear_layers() -> None:
    table = [
        layer("conv", "data"),
        layer("batchnorm", "conv"),
        layer("pool", "batchnorm", 5),
        layer("linear", "pool", 3),
    ]
    assert counts.activations(table, SIZE, "conv") == 10 + 3


# ---- what follows ---------------------------------------------------------------------------------------------------


def test_payload_is_by_convention_and_gradients_are_what_is_sent() -> None:
    table = [layer("conv", "data", parameters=(90, 10)), layer("batchnorm", "conv", parameters=(10, 10))]
    assert counts.payload_bytes(table, "caffe") == 4 * (100 + 61)
    assert counts.payload_bytes(table, "torch") == counts.gradient_bytes(table) == 4 * 120


def test_a_multiply_add_is_two_flop() -> None:
    assert (
        counts.flops_per_image([layer("conv", "data", multiply_adds=50), layer("linear", "conv", multiply_adds=7)])
        == 114
    )


def test_intensity_is_shared_out_over_the_gpus() -> None:
    per_batch = counts.intensity(activations_per_image=30, parameters=60, batch_size=16)
    assert per_batch == 8.0
    assert counts.intensity_per_gpu(per_batch, (1, 2, 8)) == {"1": 8.0, "2": 4.0, "8": 1.0}


def test_an_unknown_convention_is_refused_with_the_known_ones() -> None:
    for count in (
        lambda: counts.activations([], SIZE, "cafe"),
        lambda: counts.parameters([layer("a", "conv")], "cafe"),
    ):
        with pytest.raises(
            ConfigError, match=r"convention=cafe: .*did you mean caffe\? Known: caffe, conv, saved, torch"
        ):
            count()


# ---- blocks that are alike ------------------------------------------------------------------------------------------


def test_blocks_like_the_one_before_them_are_put_together() -> None:
    names = ["stem", *(f"blocks.{block}.{part}" for block in range(3) for part in ("conv", "relu")), "head"]
    folded = counts.folded([layer(name, "", kind="any") for name in names])
    assert [[each.name for each in some] for some in folded] == [
        ["stem"], ["blocks.0.conv"], ["blocks.0.relu"],
        ["blocks.1.conv", "blocks.1.relu", "blocks.2.conv", "blocks.2.relu"], ["head"],
    ]  # fmt: skip


def test_blocks_that_differ_are_kept_apart() -> None:
    layers = [layer("blocks.0.conv", ""), layer("blocks.1.conv", "", 20), layer("blocks.1.relu", "", 20)]
    assert counts.folded(layers) == [(each,) for each in layers]
