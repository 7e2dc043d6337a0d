"""The roofline: what binds a layer, how it follows batch, clock and precision; and the shipped fit is a fresh one."""

import subprocess
import sys
from dataclasses import astuple, replace
from itertools import product

import msgspec
import numpy as np
import pytest

from resnetx import choices, workloads
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import parts_table
from resnetx.literature import training_fit
from resnetx.literature.training_fit import held_out_errors, rooflines, rows
from resnetx.literature.training_rates import rates, training
from resnetx.prediction.host_step import filling
from resnetx.prediction.roofline import (
    ALL,
    MEMORY_EFFICIENCY,
    UNSEEN_FP32,
    Parameters,
    fits,
    fitted,
    fitted_without,
    modelled_step,
    ratios,
    transformer_fits,
    update_s,
    work,
)
from resnetx.workloads import tables
from resnetx.workloads.counts import Layer

P100, V100, A100, H200, RTX, MI325X, K80, B200 = (
    parts_table("gpus")[name]
    for name in (
        "p100-sxm2-16gb",
        "v100-sxm2-16gb",
        "a100-sxm4-80gb",
        "h200-sxm5-141gb",
        "rtx-3090",
        "mi325x-256gb",
        "k80-875mhz",
        "b200-180gb",
    )
)


def layer(name, kind, inputs, shape, parameters=(), multiply_adds=0):
    return Layer(
        name=name,
        kind=kind,
        inputs=inputs,
        output_shape=shape,
        in_place=False,
        parameters=parameters,
        multiply_adds=multiply_adds,
    )


# 32 x 32 pixels: a 1x1 and a 3x3 convolution to 64 channels, ReLU, and a strided 3x3 convolution.
ONE = layer("one", "conv", ("data",), (64, 32, 32), (3 * 64,), 3 * 64 * 1024)
THREE = layer("three", "conv", ("one",), (64, 32, 32), (9 * 64 * 64, 64), 9 * 64 * 64 * 1024)
RELU = layer("relu", "relu", ("three",), (64, 32, 32))
STRIDED = layer("strided", "conv", ("relu",), (64, 16, 16), (9 * 64 * 64,), 9 * 64 * 64 * 256)
NET = [ONE, THREE, RELU, STRIDED]
HALF = msgspec.structs.replace(
    fitted(),
    matmul_efficiency=0.5,
    square_speedup=2.0,
    memory_slowness=1.0,
    nchw_slowness=3.0,
    feeding=0.0,
    operation_s=1e-5,
)


def replace_figures(**figures):
    return msgspec.structs.replace(HALF, **figures)


def moving_s(elements, parameters=0, of_bytes=4):
    """Of 1000 images on a P100."""
    return (1000 * elements * of_bytes + 4 * parameters) / (MEMORY_EFFICIENCY * 732e9)


def times(batch_size=1000, gpu=P100, precision="fp32", clock_Hz=None, table=NET, model=HALF):
    return {each.name: each for each in modelled_step(model, table, 32, batch_size, gpu, precision, clock_Hz).layers}


def starting_s(peak_FLOPps=10.6e12):
    """Of a pass of one operation."""
    return 1e-5 * filling(peak_FLOPps)


# ---- the two roofs


def test_a_product_takes_its_flop_and_its_bytes_and_backward_is_twice_forward():
    strided = times()["strided"]
    computing_s = 2 * STRIDED.multiply_adds * 1000 / (0.5 * 10.6e12)
    assert strided.forward_s - starting_s() == pytest.approx(computing_s + moving_s(64 * (1024 + 256), 9 * 4096))
    assert strided.backward_s - starting_s() == pytest.approx(2 * (strided.forward_s - starting_s()))


def test_relu_is_bound_by_bytes():
    relu = times()["relu"]
    rate_Bps = MEMORY_EFFICIENCY * 732e9
    assert relu.forward_s - starting_s() == pytest.approx(2 * 64 * 1024 * 4 * 1000 / rate_Bps)
    assert relu.backward_s - starting_s() == pytest.approx(3 * 64 * 1024 * 4 * 1000 / rate_Bps)


def test_square_kernels_at_stride_1_are_faster_than_their_flop_in_fp32_only():
    """And where there is no TF32."""
    assert work(NET, 32).square.tolist() == [False, True, False, False]
    three = times()["three"]
    moved = 2 * 64 * 1024, 9 * 4096 + 64
    computing_s = 2 * THREE.multiply_adds * 1000 / (2.0 * 0.5 * 10.6e12)
    assert three.forward_s - starting_s() == pytest.approx(computing_s + moving_s(*moved))
    half = times(precision="fp16", gpu=P100)["three"]
    assert half.forward_s - starting_s(21.2e12) == pytest.approx(computing_s + moving_s(*moved, of_bytes=2))
    model = replace_figures(square_speedup=1.0)
    assert times(gpu=A100)["three"] == times(gpu=A100, model=model)["three"]


def test_in_nchw_convolutions_on_tensor_cores_move_more():
    """No kernel in fp32 is faster than one in TF32."""
    for gpu, precision, more in (
        (P100, "fp16", 3.0),
        (P100, "fp32", 1.0),
        (A100, "tf32", 3**0.5),
        (A100, "fp32", 3**0.5),
    ):
        nhwc, nchw = (
            modelled_step(HALF, NET, 32, 1000, gpu, precision, channels_last=last).forwards_s for last in (True, False)
        )
        moved_s = moving_s(2 * 64 * 1024, 9 * 4096 + 64, of_bytes=2 if precision == "fp16" else 4)
        moved_s *= 732e9 / gpu.memory_Bps.value
        assert nchw[1] - nhwc[1] == pytest.approx((more - 1) * moved_s, rel=1e-3, abs=1e-12)
        assert nchw[2] == nhwc[2]


def test_what_products_read_and_write_takes_longer_the_more_tensor_cores_compute():
    """A V100 has eight times its peak in fp32."""
    fed = msgspec.structs.replace(HALF, feeding=0.5)
    plain, longer = (times(gpu=V100, precision="fp16", model=model) for model in (HALF, fed))
    moved_s = moving_s(64 * (1024 + 256), 9 * 4096, of_bytes=2) * 732 / 900
    assert longer["strided"].forward_s - plain["strided"].forward_s == pytest.approx((8**0.5 - 1) * moved_s, rel=0.01)
    assert longer["relu"] == plain["relu"]
    assert times(gpu=V100, model=fed) == times(gpu=V100)


def test_convolutions_of_each_channel_by_itself_go_by_memory_and_the_rows_of_their_kernels():
    """One program's ConvNeXt-T with kernels of 3, 5 and 7 pixels takes an A100 160, 190 and 223 ms
    (sail-sg/inceptionnext, README.md): what they take is between the first and the second power of the side."""
    slow = replace_figures(depthwise_slowness=7.0, feeding=0.5)

    def alone(side, precision="fp32"):
        table = [ONE, layer("alone", "conv", ("one",), (64, 32, 32), (side**2 * 64,), side**2 * 64 * 1024)]
        return times(precision=precision, table=table, model=slow)["alone"]

    for each, twice in ((alone(3).forward_s, 1), (alone(3).backward_s, 2)):
        by_row_s = 7 * 3 * moving_s(64 * 1024)
        assert each - starting_s() == pytest.approx(twice * (by_row_s + moving_s(2 * 64 * 1024, 9 * 64)))
    assert alone(7).forward_s - alone(3).forward_s == pytest.approx(7 * 4 * moving_s(64 * 1024), rel=1e-3)
    quarter_s = 7 * 3 * moving_s(64 * 1024, of_bytes=1)  # of half the bytes, half the time of each
    moved_s = moving_s(2 * 64 * 1024, 9 * 64, of_bytes=2)
    assert alone(3, "fp16").forward_s - starting_s(21.2e12) == pytest.approx(quarter_s + moved_s)


def test_layer_normalisation_in_half_precision_is_in_fp32_cast_to_it_and_back():
    norm = layer("norm", "layernorm", ("one",), (64, 32, 32), (64, 64))
    fp32, fp16 = (times(precision=each, table=[ONE, norm])["norm"] for each in ("fp32", "fp16"))
    assert fp32.backward_s - starting_s() == pytest.approx(moving_s(5 * 64 * 1024, 256))
    cast_s = moving_s(64 * 1024, of_bytes=12)  # twice, from two bytes to four or back
    assert fp16.forward_s - starting_s(21.2e12) == pytest.approx(moving_s(2 * 64 * 1024, 128) + cast_s)
    attention = layer("mixed", "causalattention", ("norm",), (64, 32, 32), (), 64 * 1024**2)
    language = times(precision="fp16", table=[ONE, norm, attention])["norm"]
    assert language.forward_s - starting_s(21.2e12) == pytest.approx(moving_s(2 * 64 * 1024, 128, of_bytes=2), rel=1e-4)


def test_tensorflow_and_mxnet_compute_what_follows_batch_normalisation_with_it_in_half_precision():
    shape = (64, 32, 32)
    norm, added, relu = (
        layer("norm", "batchnorm", ("one",), shape, (64, 64)),
        layer("added", "add", ("norm", "one"), shape),
        layer("relu", "relu", ("added",), shape),
    )

    def moved(framework, precision="fp16"):
        step = modelled_step(HALF, [ONE, norm, added, relu], 32, 1000, P100, precision, framework=framework)
        return [each.forward_s + each.backward_s for each in step.layers[1:]]

    alone, fused = moved(None), moved("mxnet")
    one_s = moving_s(64 * 1024, of_bytes=2)
    assert [before - after for before, after in zip(alone, fused, strict=True)] == pytest.approx(
        [0.0, 5 * one_s, 5 * one_s], abs=1e-9
    )
    assert moved("tensorflow") == fused
    assert moved("mxnet", "fp32") == moved(None, "fp32") and moved("cntk") == alone


@pytest.mark.parametrize(
    ("kernel", "groups", "square"),
    [(9, 1, True), (25, 1, True), (9, 2, True), (7, 1, False), (1, 1, False), (9, 64, False)],
)
def test_which_kernels_are_square(kernel, groups, square):
    each = layer("each", "conv", ("one",), (64, 32, 32), (kernel * 64 * 64 // groups,), 1)
    assert work([ONE, each], 32).square.tolist() == [False, square]


@pytest.mark.slow
def test_channels_that_are_shuffled_in_five_dimensions_have_no_square_kernel():
    """ShuffleNet's convolutions read what was reshaped to groups and back."""
    model = choices.Torchvision(name="shufflenet_v2_x0_5", classes=1000)
    layers = tuple(workloads.table(model, 64))
    assert len(modelled_step(fitted(P100), layers, 64, 8, P100, "fp32").names) == len(layers)


def test_the_first_layer_needs_no_gradient_of_the_images():
    flop = work(NET, 32).flop
    assert flop[:, 0].tolist() == [2 * ONE.multiply_adds, 2 * ONE.multiply_adds]
    assert flop[:, 1].tolist() == [2 * THREE.multiply_adds, 4 * THREE.multiply_adds]


def test_a_pass_over_nothing_still_takes_its_time():
    assert times(batch_size=1)["relu"].forward_s == pytest.approx(starting_s(), rel=0.1)
    wide, narrow = (times(batch_size=1, gpu=gpu)["relu"].forward_s for gpu in (H200, K80))
    assert narrow > 4 * wide  # an operation fills a slow GPU for longer


# ---- batch, clock, precision


def test_layer_times_shrink_less_than_the_batch():
    large, small = (sum(each.forward_s for each in times(size).values()) for size in (64, 8))
    assert large / 8 < small < large


def test_the_clock_scales_products_and_not_memory():
    full, capped = times(), times(clock_Hz=1480e6 / 2)
    computing_s = 2 * STRIDED.multiply_adds * 1000 / (0.5 * 10.6e12)
    slower_s = {name: capped[name].forward_s - full[name].forward_s for name in ("strided", "relu")}
    filling_s = starting_s(10.6e12 / 2) - starting_s()
    assert slower_s == pytest.approx({"strided": computing_s + filling_s, "relu": filling_s})


def test_half_precision_moves_half_the_bytes():
    peaks = {"fp32": 15.7e12, "fp16": 125e12}
    full, half = (times(gpu=V100, precision=at)["relu"].forward_s - starting_s(peaks[at]) for at in peaks)
    assert half == pytest.approx(full / 2)


def test_a_precision_that_the_gpu_has_not_is_refused_with_those_it_has():
    with pytest.raises(ConfigError, match=r"precision=tf32: .*P100.*; give rate=, or use one of fp32, fp16$"):
        times(precision="tf32")


def test_gradients_are_those_of_the_parameters():
    assert [each.gradient_bytes for each in times().values()] == [4 * 192, 4 * (9 * 4096 + 64), 0, 4 * 9 * 4096]


def test_the_update_passes_over_the_parameters_five_times():
    assert update_s(HALF, 100e6, P100) == pytest.approx(1e-5 + 500e6 / (MEMORY_EFFICIENCY * 732e9))


def test_ratios_are_those_of_the_layers_times():
    found = ratios(HALF, NET, 32, 1000, measured_on=(P100, "fp32", None), wanted_on=(H200, "tf32", None))
    here, there = times(), times(gpu=H200, precision="tf32")
    for name, (forward, backward) in found.items():
        assert forward == pytest.approx(there[name].forward_s / here[name].forward_s)
        assert backward == pytest.approx(there[name].backward_s / here[name].backward_s)


# ---- the fit


@pytest.fixture(scope="module")
def all_rows():
    return rows()


def figures(roofline):
    return {name: value for name, value in msgspec.to_builtins(roofline).items() if isinstance(value, int | float)}


@pytest.mark.slow
def test_the_shipped_fit_is_a_fresh_one(all_rows):
    fresh = rooflines(all_rows)
    assert [each.generation for each in fresh] == [ALL, "1.2", "10.0", "3.7", "6.1", "7.0", "8.0", "8.6"]
    for each in fresh:
        assert figures(fits()[each.generation]) == pytest.approx(figures(each), rel=0.01), (
            "if the rates or the model were changed on purpose: python -m resnetx.literature.training_fit"
        )


@pytest.mark.slow
def test_the_shipped_fits_to_transformers_are_fresh_ones():
    """Their programs move two and three times what a table says, and what is not theirs is that of all GPUs."""
    fresh = training_fit.transformer_rooflines(training_fit.transformer_rows(), fitted())
    for each in fresh:
        assert figures(transformer_fits()[each.generation]) == pytest.approx(figures(each), rel=0.01)
        assert each.square_speedup == fitted().square_speedup
        assert 2 < each.memory_slowness < 3.1


def test_a_network_of_attention_is_a_transformer_on_any_gpu():
    attention = layer("mixed", "causalattention", ("data",), (64, 32, 32), (), 64 * 1024**2)
    assert fitted(P100, [attention], "fp16") is transformer_fits()["transformers in fp32"]  # it has no tensor cores
    assert fitted(V100, [layer("heads", "multiheadattention", ("data",), (64, 32, 32))], "fp16") is not fitted(V100)
    for gpu in (V100, A100, H200):
        assert fitted(gpu, [attention], "bf16") is transformer_fits()["transformers on tensor cores"]
        assert fitted(gpu, [attention], "fp32") is transformer_fits()["transformers in fp32"]
        assert fitted(gpu, NET, "bf16") is fitted(gpu)


def test_attention_that_is_slow_brings_long_sequences_nearer_to_short_ones():
    """Rates of one program from 512 to 32,768 tokens: 29 % too slow to 16 % too fast, as it moves less than others."""
    network = "24 blocks of 2048"
    own = [row for row in training_fit.transformer_rows() if row.rate.entry.network == network]
    model = transformer_fits()["transformers on tensor cores"]
    without = msgspec.structs.replace(model, attention_slowness=1.0)
    spans = []
    for each in (model, without):
        errors = [row.error(each) for row in own if row.generation == "9.0"]
        assert len(errors) == 8
        spans.append(max(errors) - min(errors))
    assert spans[0] < 0.46 < spans[1] - 0.1


def test_errors_are_what_is_said_of_them():
    """Held tight enough that a worse model, or a slip in the rates, is seen."""
    assert fitted().error < 0.14
    assert fitted().unseen_network_error < 0.16
    assert fitted().unseen_source_error < 0.15
    assert fitted().unseen_gpu_error < 0.155
    assert fitted(V100).error < 0.115
    assert fitted(V100).unseen_source_error < 0.14
    assert fitted(A100).unseen_source_error < 0.15
    assert fitted(B200).unseen_source_error < 0.075
    assert transformer_fits()["transformers on tensor cores"].unseen_source_error < 0.15


def test_leaving_out_is_worse_than_fitting():
    for each in (fitted(V100), fitted(A100), fitted()):
        assert each.fit_error < each.error < each.worst_error
        assert each.error < each.unseen_network_error


@pytest.mark.slow
def test_nine_of_ten_rates_are_within_the_error_that_intervals_have(all_rows):
    """Counted with the rate's publisher left out of the fit; of these, the fit to a generation has one or several."""
    inside = []
    for row in all_rows:
        entry = row.rate.entry
        model = fitted_without(entry.part, entry.publisher)
        error = abs(row.error(model))
        inside.append(error <= model.error_on(entry.part, entry.precision))
    assert 0.85 <= np.mean(inside) <= 0.95


def test_without_its_only_publisher_a_generation_is_one_that_nobody_measured():
    assert fitted(MI325X).publishers == ["mila-iqia/milabench"]
    left = fitted_without(MI325X, "mila-iqia/milabench")
    assert left.generation == ALL
    assert left.matmul_efficiency != fitted().matmul_efficiency
    assert fitted_without(MI325X, "somebody") is fitted(MI325X)
    assert left.error_on(MI325X, "fp32") == fitted().unseen_gpu_90  # nothing else is known of it


def test_a_generation_whose_rates_are_known_is_as_sure_as_these_by_a_fit_without_them(all_rows):
    """As for a P100 in fp32: of its nine rates, eight are within that."""
    unseen = fitted().unseen_generation_90
    assert sorted(unseen) == ["12.0", "6.0", "7.5", "8.9", "9.0"]
    assert fitted(P100).error_on(P100, "fp32") == unseen["6.0"] < fitted().unseen_gpu_90
    assert fitted(P100).error_on(P100, "fp16") == fitted().half_error_90 > unseen["6.0"]
    others = training_fit.fit([row for row in all_rows if row.rate.entry.outside is None and row.generation != "6.0"])
    errors = [abs(row.error(others)) for row in all_rows if row.generation == "6.0"]
    assert sum(error <= unseen["6.0"] for error in errors) == 8 == len(errors) - 1


def test_half_precision_is_no_surer_than_all_its_rates():
    assert fitted(V100).error_on(V100, "fp16") == fitted(V100).half_error_90 > fitted(V100).error_90
    assert fitted(K80).error_on(K80, "fp16") == fitted().half_error_90 > fitted(K80).error_90


def test_in_fp32_convolutions_of_ampere_and_newer_may_take_half_as_long_again():
    """AlexNet on an H100 is below the predicted rate by up to e^0.43."""
    without = [layer("fc", "linear", ("data",), (4,), (8,), 8)]
    assert fitted(H200).longer_on(H200, "fp32", NET) == UNSEEN_FP32 > fitted(H200).error_on(H200, "fp32")
    for gpu, precision, table in ((H200, "tf32", NET), (V100, "fp16", NET), (H200, "fp32", without)):
        assert fitted(gpu).longer_on(gpu, precision, table) == fitted(gpu).error_on(gpu, precision)


def test_tf32_takes_no_longer_than_fp32():
    """An L40S has twice the rate in TF32, an A100 eight times."""
    for name in ("rtx-4090", "l40s-48gb", "a100-sxm4-80gb"):
        gpu = parts_table("gpus")[name]
        for (model, size), last in product(tables.KEPT.values(), (True, False)):
            fp32, tf32 = (
                modelled_step(
                    fitted(), tables.kept(model, size), size, 256, gpu, precision, channels_last=last
                ).compute_s
                for precision in ("fp32", "tf32")
            )
            assert tf32 <= fp32
    model, size = tables.KEPT["googlenet"]
    none = msgspec.structs.replace(gpu.fp32_FLOPps, stated=None, source="not stated")
    unstated = msgspec.structs.replace(gpu, fp32_FLOPps=none)  # it is taken to be an eighth
    for precision, as_taken in (("tf32", True), ("bf16", False)):
        steps = [modelled_step(fitted(), tables.kept(model, size), size, 256, on, precision) for on in (gpu, unstated)]
        assert (steps[0].compute_s == steps[1].compute_s) == as_taken
        assert steps[0].compute_s >= steps[1].compute_s


@pytest.mark.slow
def test_a_row_that_is_left_out_has_no_say(all_rows):
    """Its error by the others stays what it is when its own rate is changed to nonsense."""
    own = [row for row in all_rows if row.generation == "6.0"]
    wrong = replace(own[0], rate=msgspec.structs.replace(own[0].rate, images_per_s=10 * own[0].rate.images_per_s))
    (right_error, *_), (wrong_error, *others) = (held_out_errors(chosen, id) for chosen in (own, [wrong, *own[1:]]))
    assert wrong_error == pytest.approx(right_error + np.log(10), abs=1e-3)
    assert np.mean(np.abs(others)) > 1.5 * np.mean(np.abs(held_out_errors(own, id)))


def test_a_fit_finds_the_figures_that_made_the_rates(all_rows):
    truth = Parameters(matmul_efficiency=0.55, square_speedup=1.8, depthwise_slowness=40.0, feeding=0.4)
    made = [
        replace(row, rate=msgspec.structs.replace(row.rate, images_per_s=row.rate.batch_size / row.predicted_s(truth)))
        for row in all_rows
    ]
    found = training_fit.fit(made)
    assert astuple(found) == pytest.approx(astuple(truth), rel=1e-3)


def test_a_generation_gets_the_fit_to_all_unless_its_own_is_better_on_what_it_has_not_seen():
    assert fitted(P100) is fitted(H200) is fitted()
    assert [fitted(gpu).generation for gpu in (V100, A100, B200, RTX)] == ["7.0", "8.0", "10.0", "8.6"]


def test_what_few_rates_do_not_determine_stays_that_of_all(all_rows):
    """A100 has rates at one batch size: an operation takes what it is drawn to, not what one rate happens to say."""
    own = [row for row in all_rows if row.generation == "8.0"]
    others = training_fit.fit([row for row in all_rows if row.rate.entry.outside is None and row.generation != "8.0"])
    alone, drawn = training_fit.fit(own[:2]), training_fit.fit(own[:2], others)
    distance = [abs(np.log(fit.square_speedup / others.square_speedup)) for fit in (alone, drawn)]
    assert distance[1] < 0.01
    assert astuple(training_fit.fit([], others)) == pytest.approx(astuple(others))


def test_one_network_tells_nothing_of_depthwise_convolutions(all_rows):
    """ConvNeXt is the only such network that Hopper has rates of."""
    others = training_fit.fit([row for row in all_rows if row.rate.entry.outside is None and row.generation != "9.0"])
    own = [row for row in all_rows if row.generation == "9.0"]
    assert {row.rate.entry.network for row in own if row.depthwise} == {"convnext_large"}
    drawn = training_fit.fit(own, others)
    assert drawn.depthwise_slowness == pytest.approx(others.depthwise_slowness, rel=1e-4)
    assert abs(np.log(drawn.matmul_efficiency / others.matmul_efficiency)) > 0.1


def test_no_figure_of_a_generation_stands_at_a_bound():
    for each in fits().values():
        assert 0.05 < each.matmul_efficiency < 0.95 and 1.05 < each.square_speedup < 3.95
        assert 2 < each.depthwise_slowness < 50 and 0.25 < each.memory_slowness < 9
        assert 1.05 < each.nchw_slowness < 5.5 and 0.02 < each.feeding < 1.9 and 2e-6 < each.operation_s < 5e-4


def test_the_source_says_how_far_off_it_is():
    assert "51 published one-GPU training rates of GPUs of compute capability 7.0" in fitted(V100).source
    assert "leave-one-out error 11%, worst 47%" in fitted(V100).source
    assert "GPUs left out whole 15%" in fitted().source


def test_every_rate_has_its_source_and_the_fit_to_all_leaves_out_only_what_says_why():
    assert all(rate.entry.source and rate.images_per_s > 0 for rate in rates())
    assert {entry.gpu for entry in training().one_gpu if entry.outside} == {"k80-562mhz", "mi325x-256gb"}
    of_images = [rate.entry for rate in rates() if rate.entry.network != "vit_b_16"]  # which is a transformer
    assert fitted().rows == sum(entry.outside is None for entry in of_images)


def test_ratios_of_flop_are_those_of_the_variants():
    """Three blocks of a ResNet v1 do 3/4 less in a 1x1 convolution; AlexNet's conv4 makes 128 channels more."""
    stated = {entry.network: entry.flop_ratio for entry in training().one_gpu if entry.gpu == "p100-sxm2-16gb"}
    table = {entry.network: entry.table(entry.image_size) for entry in training().one_gpu}
    total = {network: sum(layer.multiply_adds for layer in layers) for network, layers in table.items()}
    strided = sum(3 / 4 * channels * channels // 2 * side**2 for channels, side in ((256, 56), (512, 28), (1024, 14)))
    wider = (9 * 384 * 128 + 9 * 128 * 256) * 13**2
    auxiliary = sum(layer.multiply_adds for layer in table["inception_v3"] if layer.name.startswith("AuxLogits"))
    assert stated == pytest.approx(
        {
            "resnet50": 1 - strided / total["resnet50"],
            "resnet152": 1 - strided / total["resnet152"],
            "inception_v3": 1 - auxiliary / total["inception_v3"],
            "vgg16": 1,
            "alexnet": 1 + wider / total["alexnet"],
        },
        abs=6e-4,
    )


@pytest.mark.slow
def test_using_the_fit_loads_neither_scipy_nor_torch():
    program = """
import sys
from resnetx.interconnect.systems.system import load
from resnetx.prediction.roofline import fitted, modelled_step
from resnetx.workloads import tables
gpu = load("dgx1-p100").gpu_part(0)
model, size = tables.KEPT["googlenet"]
modelled_step(fitted(gpu), tables.kept(model, size), size, 32, gpu, "fp32", 1227e6).layers
print({"scipy", "torch"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_tallents_workloads_take_longer_at_the_capped_clock():
    table = tables.kept(choices.AlexNetSettings(classes=1000), 227)
    full, capped = (
        sum(each.forward_s for each in modelled_step(fitted(P100), table, 227, 64, P100, "fp32", clock).layers)
        for clock in (None, 1227e6)
    )
    assert 1 < capped / full <= 1480 / 1227
