"""Memory of a training step: against what PyTorch really saves, and the points that the paper reports missing."""

from importlib.metadata import version

import msgspec
import pytest

from resnetx import choices, workloads
from resnetx.choices import After, Bucket, Layerwise, NoExchange
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import parts_table
from resnetx.prediction.memory import FRAMEWORK_BYTES, images_of_a_test, step_bytes
from resnetx.prediction.roofline import PRECISION_BYTES
from resnetx.workloads import counts, tables
from resnetx.workloads.counts import parts_of, ready_order

ALEXNET, GOOGLENET = choices.AlexNetSettings(classes=1000), choices.GoogLeNetSettings(classes=1000)
WITHOUT_LRN = choices.AlexNetSettings(classes=1000, lrn=False)
DDP = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=False)
ALONE = NoExchange()
P100_BYTES = parts_table("gpus")["p100-sxm2-16gb"].memory_bytes.value


def resnetx(x):
    return choices.ResNetXSettings(x=x, width=64, classes=1000)


def size_of(model):
    return getattr(model, "image_size", 224)


def needed(model, batch_size, strategy=ALONE, convention="torch", precision="fp32", tested=0):
    request = requested(model, precision=precision)
    return step_bytes(request, workloads.table(model, size_of(model)), batch_size, strategy, convention, tested)


def requested(model, **changed):
    """A request of this model, whatever else it has."""
    fields = {"image_size": size_of(model), **changed}
    return msgspec.structs.replace(request_from(compose({"gpus": 1})), model=model, **fields)


def saved_bytes(table, image_size, batch_size, precision, checkpointing=False):
    """What the forward pass in PyTorch keeps for the backward pass, as it is counted, without parameters."""
    kept = counts.kept_outside if checkpointing else counts.kept
    widths = counts.widths(table, PRECISION_BYTES[precision])
    return sum(batch_size * kept_bytes.bytes_per_image for kept_bytes in kept(table, image_size, widths))


# ---- PyTorch


def really_saved_bytes(model, batch_size):
    """Bytes of all storages that autograd keeps, without those of parameters and buffers; nothing is computed."""
    import torch

    from resnetx.workloads.layers import without_elements

    with without_elements():
        network = workloads.build(model, size_of(model)).train()
    with torch.device("meta"):
        return saved_by(network, batch_size, size_of(model))


def saved_by(network, batch_size, image_size, device=None):
    import torch

    own = {tensor.untyped_storage()._cdata for tensor in [*network.parameters(), *network.buffers()]}
    storages = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = storage  # kept, so that no other comes to have its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = network(torch.empty(batch_size, 3, image_size, image_size, device=device))
        for logits in outputs if isinstance(outputs, tuple) else (outputs,):
            torch.nn.functional.cross_entropy(logits, torch.zeros(batch_size, dtype=torch.long, device=device))
    return sum(storage.nbytes() for storage in storages.values())


def really_saved_in_bf16(model, batch_size, monkeypatch):
    """The same under autocast to bf16 on a GPU that is none: tensors that have a device, but no elements."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from resnetx.workloads.layers import without_elements

    with without_elements():
        network = workloads.build(model, size_of(model)).train()
    with FakeTensorMode():
        for module in network.modules():
            for kept in (module._parameters, module._buffers):
                for name, tensor in [each for each in kept.items() if each[1] is not None]:
                    on_gpu = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    kept[name] = torch.nn.Parameter(on_gpu) if kept is module._parameters else on_gpu
        with monkeypatch.context() as patched:  # otherwise autocast finds no GPU, and does nothing
            patched.setattr(torch.cuda, "is_available", lambda: True)
            patched.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
            autocast = torch.autocast("cuda", dtype=torch.bfloat16)
        with autocast:
            return saved_by(network, batch_size, size_of(model), "cuda")


def test_the_probe_sees_what_a_real_run_saves():
    """Measured with tensors that have elements, on a CPU, torch 2.15: AlexNet at batch 2 saves 24,965,996 bytes."""
    assert really_saved_bytes(ALEXNET, 2) == pytest.approx(24_965_996, rel=0.01)


def besides_images(table, batch_size):
    """Bytes that no image adds, which counting leaves out; and of masks of dropout, which have a byte on GPUs only."""
    statistics = sum(8 * layer.output_shape[0] for layer in table if layer.kind == "batchnorm")
    read = {name for layer in table for name in layer.inputs}
    of_losses = 4 * sum(layer.name not in read for layer in table)
    masks = sum(3 * batch_size * layer.elements for layer in table if layer.kind == "dropout")
    drawn = sum(4 * batch_size for layer in table if layer.kind == "stochasticdepth")
    return statistics + of_losses + masks + drawn


def named(name):
    return choices.Torchvision(name=name, classes=1000)


@pytest.mark.parametrize(
    "model",
    [
        ALEXNET,
        GOOGLENET,
        resnetx(1),
        resnetx(8),
        *map(named, ("resnet18", "vgg11")),
        *(
            pytest.param(model, marks=pytest.mark.slow)
            for model in (
                choices.CifarNetSettings(classes=10),
                choices.AlexNet32Settings(classes=10),
                choices.ResNet20Settings(classes=10),
                choices.DenseNet40Settings(classes=10),
                choices.NasNetSettings(classes=10),
                choices.NasNetMobileSettings(classes=1000),
                *map(named, ("mobilenet_v2", "densenet121", "efficientnet_b0")),
            )
        ),
    ],
    ids=lambda model: model.label,
)
def test_saved_bytes_are_those_that_pytorch_saves(model):
    table = workloads.table(model, size_of(model))
    really = really_saved_bytes(model, 2) - besides_images(table, 2)
    assert saved_bytes(table, size_of(model), 2, "fp32") == really


@pytest.mark.slow
def test_what_a_table_does_not_say_is_left_out():
    """The sums of attention's heads, where it runs as on GPUs: fused."""
    table = workloads.table(named("vit_b_16"), 224)
    really = saved_by(workloads.build(named("vit_b_16"), 224).train(), 1, 224) - besides_images(table, 1)
    assert really - saved_bytes(table, 224, 1, "fp32") == 4 * 12 * 12 * 197


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [ALEXNET, GOOGLENET, resnetx(8), choices.Torchvision(name="vgg11", classes=1000)],
    ids=lambda each: each.label,
)
def test_in_half_precision_weights_are_copied_and_what_follows_lrn_is_full(model, monkeypatch):
    if tuple(map(int, version("torch").split(".")[:2])) < (2, 8):
        pytest.skip("torch 2.7 asks the driver before it convolves on a GPU that is none, and aborts")
    table = workloads.table(model, size_of(model))
    copies = 2 * counts.parameters(table, "torch")
    saved = saved_bytes(table, size_of(model), 8, "bf16") + copies
    assert saved == pytest.approx(really_saved_in_bf16(model, 8, monkeypatch), rel=0.015)


@pytest.mark.slow
@pytest.mark.parametrize(("x", "s", "d", "h", "v", "batch"), [(0, 20, 48, 4, 101, 2), (3, 36, 96, 8, 77, 5)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_a_transformer_saves_is_counted_to_the_byte(x, s, d, h, v, batch, precision):
    """By its formulas (docs/families.md), by its table, and by PyTorch itself, on CPUs, whose attention is fused."""
    import torch
    from torch.nn import functional

    from resnetx.workloads.families import GptX

    network = GptX(x, d, h, s, v)
    own, storages = {tensor.untyped_storage()._cdata for tensor in network.parameters()}, {}

    def keep(tensor):
        if tensor.untyped_storage()._cdata not in own:
            storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    tokens = torch.randint(v, (batch, s))
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
    ):
        functional.cross_entropy(network(tokens).flatten(0, 1), torch.randint(v, (batch * s,)))
    really = sum(storage.nbytes() for storage in storages.values())

    block, ends, of_batch = 64 * s * d + 16 * s + 4 * h * s, 8 * s * d + 24 * s + 4 * s * v, 8 * s + 4
    if precision == "bf16":  # autocast keeps its copies of the weights, once for the whole batch
        block, ends, of_batch = block - 28 * s * d, ends - 2 * s * d, of_batch + 24 * x * d**2 + 2 * v * d
    assert really == batch * (x * block + ends) + of_batch
    table = tables.gptx(choices.GptXSettings(x=x, width=d, heads=h, seq=s, vocabulary=v), 0)
    assert saved_bytes(table, 0, batch, precision) == batch * (x * block + ends)


def test_saved_bytes_grow_with_the_batch_and_halve_with_the_precision():
    table = workloads.table(resnetx(8), 224)
    saved = saved_bytes(table, 224, 1, "fp32")
    assert saved_bytes(table, 224, 64, "fp32") == 64 * saved
    assert saved / 2 < saved_bytes(table, 224, 1, "bf16") < 0.55 * saved  # places of maxima stay int64


def test_a_step_needs_what_is_saved_and_three_or_four_times_the_parameters():
    table = tables.kept(GOOGLENET, 224)
    saved, parameters = saved_bytes(table, 224, 64, "fp32"), 4 * counts.parameters(table, "torch")
    rest = needed(GOOGLENET, 64) - FRAMEWORK_BYTES - saved
    assert 2 * parameters < rest < 4 * parameters + 0.2 * saved


@pytest.mark.parametrize("model", [ALEXNET, GOOGLENET, resnetx(8)], ids=lambda model: model.label)
def test_one_image_leaves_the_parameters(model):
    """AlexNet is all parameters: with DDP's buckets, four copies; gradients that live in them, three."""
    parameters = 4 * counts.parameters(workloads.table(model, size_of(model)), "torch")
    assert needed(model, 1, DDP) - needed(model, 1, ALONE) == parameters
    in_buckets = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)
    assert needed(model, 1, in_buckets) == needed(model, 1, Layerwise()) == needed(model, 1, After())
    assert needed(model, 1, in_buckets) < needed(model, 1, DDP)


# ---- Caffe


def points():
    """(workload, global batch, GPUs) of the paper's grid."""
    grid = [(ALEXNET, (256, 512)), (GOOGLENET, (256, 512)), *((resnetx(x), (16, 32, 64)) for x in (1, 2, 4, 8, 16, 32))]
    return [(model, batch, gpus) for model, batches in grid for batch in batches for gpus in (1, 2, 4, 8)]


def test_the_papers_missing_points_but_for_one_that_contradicts_another():
    too_large = {
        (model.label, batch, gpus)
        for model, batch, gpus in points()
        if needed(model, batch // gpus, After(), "caffe", tested=images_of_a_test(model, batch)) > P100_BYTES
    }
    missing = {("GoogLeNet", batch, gpus) for batch in (256, 512) for gpus in (1, 2)}
    missing |= {("ResNet/32", 64, gpus) for gpus in (1, 2)}
    assert missing - too_large == {("GoogLeNet", 256, 2)}
    assert too_large - missing == set()


def test_an_unknown_convention_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="Known: caffe, torch"):
        needed(ALEXNET, 1, convention="tensorflow")


@pytest.mark.parametrize("convention", ["torch", "caffe"])
def test_alexnet_of_1024_images_fits_into_a_k80_without_lrn(convention):
    """Shi et al. 2018, Table IV: a batch of 1,024 on each GPU of 12 GB, without LRN."""
    k80_bytes = parts_table("gpus")["k80-562mhz"].memory_bytes.value
    bare, whole = (
        step_bytes(requested(model, image_size=227), workloads.table(model, 227), 1024, DDP, convention)
        for model in (WITHOUT_LRN, ALEXNET)
    )
    assert bare < k80_bytes < whole


# ---- parts, states and blocks that are computed again

FAMILIES = [
    (choices.GptXSettings(x=3, width=64, heads=2, seq=16, vocabulary=101), 0),
    (choices.ResNetXSettings(x=3, width=16, classes=10), 64),
    (choices.MlpXSettings(x=3, width=64, classes=10), 32),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "image_size"), FAMILIES, ids=lambda each: getattr(each, "label", str(each)))
def test_blocks_that_are_computed_again_keep_their_inputs_and_take_their_flop(model, image_size):
    """What autograd keeps, and torch's own count of FLOP; statistics of a batch are not counted."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from resnetx.measure.rank.strategies import recompute_blocks

    shape = (4, *model.sample(image_size).shape)
    inputs = torch.randn(shape) if image_size else torch.randint(101, shape)
    labels = torch.randint(10, (4, *model.sample(image_size).labels))
    table, flop = workloads.table(model, image_size), []
    for checkpointing in (False, True):
        network, storages = workloads.build(model, image_size).train(), {}
        if checkpointing:
            recompute_blocks(network)
        own = {tensor.untyped_storage()._cdata for tensor in [*network.parameters(), *network.buffers()]}

        def keep(tensor, own=own, storages=storages):
            if tensor.untyped_storage()._cdata not in own:
                storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
            return tensor

        with FlopCounterMode(display=False) as counter:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                loss = workloads.loss(model, network(inputs), labels)
            loss.backward()
        flop.append(counter.get_total_flops())
        really = sum(storage.nbytes() for storage in storages.values())
        assert saved_bytes(table, image_size, 4, "fp32", checkpointing) == pytest.approx(really, abs=1300)
    blocks = counts.recomputed(table, image_size, counts.widths(table, 4))
    assert flop[1] - flop[0] == sum(8 * table[place].multiply_adds for block in blocks for place in block.computed)


GPT2 = choices.GptXSettings(x=12, width=768, heads=None, seq=1024, vocabulary=50257)


VIEWS = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)


@pytest.mark.parametrize("strategy", [VIEWS, choices.Zero1(), choices.Fsdp(reshard=True)], ids=lambda each: each.kind)
def test_a_step_in_parts_keeps_gradients_and_fewer_activations(strategy):
    table, whole = workloads.table(GPT2, 0), 497_759_232
    adamw = request_from(compose({"gpus": 1, "optimizer": "adamw"})).optimizer

    def needed(images, **how):
        return step_bytes(requested(GPT2, image_size=0, **how), table, images, strategy, gpus=8)

    assert needed(8, accumulate=4) - needed(2) == whole
    share = {"bucket": whole, "zero1": max(parts_of(ready_order(table, "fp32"), 8)), "fsdp": -(-whole // 8)}
    assert needed(8, optimizer=adamw) - needed(8) == share[strategy.kind]
    saved = saved_bytes(table, 0, 8, "fp32") - saved_bytes(table, 0, 8, "fp32", checkpointing=True)
    assert needed(8) - needed(8, checkpointing=True) == saved
