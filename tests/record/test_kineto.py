"""Profiles of PyTorch in: real ones of a small network on the CPU, and one as a GPU's look."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule

from resnetx.errors import ConfigError
from resnetx.formats import kineto
from resnetx.formats.kineto_iterations import PRODUCT, precision_of
from resnetx.record.traces import TracedLayer
from resnetx.traces.trace_files import device_of
from resnetx.units import CPU

STEPS = 3
PROFILE = Path("profile.json")


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        y += x
        return self.relu(self.relu(y))


def network() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True))
    return nn.Sequential(stem, Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    images = torch.utils.data.TensorDataset(torch.randn(40, 3, 16, 16), torch.randint(0, 10, (40,)))
    return iter(torch.utils.data.DataLoader(images, batch_size=8))


@dataclass
class Profiled:
    profiler: profile
    file: dict[str, Any]
    found: kineto.Profile

    @property
    def layers(self) -> dict[str, TracedLayer]:
        return {layer.name: layer for layer in self.found.times.layers}

    def total_s(self, key: str) -> float:
        """Seconds of all events of a name, as the profiler adds them up itself."""
        return sum(each.cpu_time_total for each in self.profiler.key_averages() if each.key == key) / 1e6

    def below_steps_s(self, of_interest: Callable[[str], bool]) -> float:
        """Seconds of what is directly below a step, as the profiler's own tree of events has it."""
        return (
            sum(
                event.cpu_time_total
                for event in self.profiler.events()
                if event.cpu_parent is not None
                and event.cpu_parent.name.startswith("ProfilerStep")
                and of_interest(event.name)
            )
            / 1e6
        )


def profiled(folder: Path, *, steps: bool = True, odd: int | None = None, **options: Any) -> Profiled:
    """A profile of training steps; before one of them, `odd`, the network is run once more."""
    torch.manual_seed(0)
    model = network().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    source = batches()
    if steps:
        options["schedule"] = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for step in range(1 + STEPS if steps else 1):
            images, labels = next(source)
            optimizer.zero_grad()
            outputs = model(model[0](images)[:, :3]) if step == odd else model(images)
            loss = nn.functional.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()
            loss.item()
            if steps:
                profiler.step()
    path = folder / "profile.json"
    profiler.export_chrome_trace(str(path))
    return Profiled(profiler, json.loads(path.read_text()), kineto.parse(path.read_bytes(), path))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    return profiled(tmp_path_factory.mktemp("plain"), record_shapes=True)


@pytest.fixture(scope="module")
def with_modules(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    return profiled(tmp_path_factory.mktemp("modules"), record_shapes=True, with_stack=True)


# ---- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_modules_the_operations_of_the_forward_pass_are_the_layers(plain: Profiled) -> None:
    assert list(plain.layers) == [
        "conv2d",
        "relu_",
        "conv2d@1",
        "add_",  # batches that BatchNorm has seen
        "batch_norm",
        "add_@1",
        "relu",
        "relu@1",
        "adaptive_avg_pool2d",
        "flatten",
        "linear",
        "cross_entropy_loss",
        "unattributed",
    ]


@pytest.mark.slow
def test_with_modules_their_calls_are_the_layers(with_modules: Profiled) -> None:
    assert list(with_modules.layers) == [
        "Conv2d_0",
        "ReLU_0",
        "Conv2d_1",
        "BatchNorm2d_0",
        "Residual_0.add_",
        "ReLU_1",
        "ReLU_1@1",
        "AdaptiveAvgPool2d_0",
        "Flatten_0",
        "Linear_0",
        "cross_entropy_loss",
        "unattributed",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["plain", "with_modules"])
def test_gradients_are_those_of_the_parameters(which: str, request: pytest.FixtureRequest) -> None:
    sizes = [layer.gradient_bytes for layer in request.getfixturevalue(which).found.times.layers]
    conv, second, norm, linear = (3 * 9 * 4 + 4, 4 * 9 * 4, 4 + 4, 4 * 10 + 10)
    assert [size for size in sizes if size] == [4 * count for count in (conv, second, norm, linear)]


# ---- times ----------------------------------------------------------------------------------------------------------


def test_layers_take_what_the_profiler_says_of_their_operations(plain: Profiled) -> None:
    convs = [plain.layers["conv2d"], plain.layers["conv2d@1"]]
    assert sum(sum(conv.forward_s) for conv in convs) == pytest.approx(plain.total_s("aten::conv2d"))
    assert sum(plain.layers["linear"].forward_s) == pytest.approx(plain.total_s("aten::linear"))
    node = "autograd::engine::evaluate_function: ReluBackward0"
    relus = [plain.layers[name] for name in ("relu_", "relu", "relu@1")]
    assert sum(sum(relu.backward_s) for relu in relus) == pytest.approx(plain.total_s(node))
    assert all(len(layer.forward_s) == STEPS for layer in plain.layers.values())


@pytest.mark.parametrize("which", ["plain", "with_modules"])
@pytest.mark.slow
def test_nothing_is_lost_and_nothing_counts_twice(which: str, request: pytest.FixtureRequest) -> None:
    it: Profiled = request.getfixturevalue(which)
    layers = it.found.times.layers
    backward_s = (
        sum(each.cpu_time_total for each in it.profiler.key_averages() if each.key.startswith("autograd::engine::"))
        / 1e6
    )
    assert sum(sum(layer.backward_s) for layer in layers) == pytest.approx(backward_s)
    if which == "plain":  # with modules, events lie below them
        forward_s = it.below_steps_s(lambda name: name.startswith("aten::"))
        assert sum(sum(layer.forward_s) for layer in layers) == pytest.approx(forward_s)


def test_updates_input_and_steps_are_those_of_the_annotations(plain: Profiled) -> None:
    def annotated_s(word: str) -> list[float]:
        events = [event for event in plain.file["traceEvents"] if event.get("cat") == "user_annotation"]
        return [event["dur"] / 1e6 for event in sorted(events, key=lambda e: e["ts"]) if word in event["name"]]

    times = plain.found.times
    zero_s, step_s = annotated_s("zero_grad"), annotated_s("Optimizer.step")
    assert times.update_s == pytest.approx([a + b for a, b in zip(zero_s, step_s, strict=True)])
    assert times.input_wait_s == pytest.approx(annotated_s("enumerate(DataLoader)"))
    assert times.input_s == times.input_wait_s  # this loader has no processes that work ahead
    assert times.step_s == pytest.approx(annotated_s("ProfilerStep#"), rel=1e-4)
    parts_s = [sum(sum(layer.forward_s) + sum(layer.backward_s) for layer in times.layers)]
    assert sum(parts_s) + sum(times.update_s) + sum(times.input_s) < sum(times.step_s)


def test_the_loss_that_is_looked_at_is_no_layer(plain: Profiled) -> None:
    rest = plain.layers["unattributed"]
    looking_s = plain.below_steps_s(lambda name: name in ("aten::item", "aten::ones_like"))
    assert sum(rest.forward_s) == pytest.approx(looking_s)
    assert sum(rest.backward_s) == 0


# ---- what profiles may lack -----------------------------------------------------------------------------------------


def test_without_shapes_the_sizes_of_gradients_are_unknown_and_not_0(tmp_path: Path) -> None:
    it = profiled(tmp_path)
    assert {name for name, layer in it.layers.items() if layer.gradient_bytes != 0} == {
        "conv2d",
        "conv2d@1",
        "batch_norm",
        "linear",
    }
    assert all("record_shapes=True" in layer.gradient_bytes for layer in it.layers.values() if layer.gradient_bytes)


@pytest.mark.slow
def test_without_marks_a_profile_of_one_step_is_one_iteration(tmp_path: Path, plain: Profiled) -> None:
    found = profiled(tmp_path, steps=False, record_shapes=True).found
    assert [layer.name for layer in found.times.layers] == list(plain.layers)
    assert all(len(layer.forward_s) == 1 for layer in found.times.layers)
    assert found.taken == "its 1 optimizer step ended 1 iteration"


def test_an_iteration_that_executes_other_layers_is_left_out(tmp_path: Path, plain: Profiled) -> None:
    it = profiled(tmp_path, odd=2, record_shapes=True)
    assert it.found.left_out == 1
    assert list(it.layers) == list(plain.layers)
    assert len(it.found.times.step_s) == len(it.layers["linear"].forward_s) == STEPS - 1


def test_inference_has_layers_without_a_backward_pass(tmp_path: Path) -> None:
    model = network().eval()
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        model(images)
    profiler.export_chrome_trace(str(tmp_path / "profile.json"))
    layers = kineto.parse((tmp_path / "profile.json").read_bytes(), PROFILE).times.layers
    assert [layer.name for layer in layers][:3] == ["conv2d", "relu_", "conv2d@1"]
    assert all(layer.backward_s == [0.0] for layer in layers)


# ---- a GPU's profile ------------------------------------------------------------------------------------------------


class OnGpu:
    """Events as Kineto writes them of a CUDA program: the host's, and those of the device that a launch points to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.launched = 0

    def host(self, cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def kernel(
        self, launched: float, ts: float, dur: float, name: str = "k", cat: str = "kernel", tid: int = 1
    ) -> None:
        self.launched += 1
        link = {"correlation": self.launched}
        self.host("cuda_runtime", "cudaLaunchKernel", launched, 1, tid, **link)
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 20, "ts": ts, "dur": dur, "args": link}
        )

    def step(self, number: int, t: float) -> None:
        """A step of a linear layer from `t` on, of 100 us on the host; its kernels run 1,000 us later."""
        late = t + 1000
        self.host("user_annotation", f"ProfilerStep#{number}", t, 100)
        self.host("gpu_user_annotation", f"ProfilerStep#{number}", late, 300, tid=20)
        self.host("cpu_op", "aten::to", t + 1, 5)
        self.kernel(t + 2, late, 40, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy")
        self.host("cpu_op", "aten::linear", t + 10, 20, **{"External id": number, "Sequence number": 5})
        self.host("cpu_op", "aten::addmm", t + 12, 16, **{"External id": 50 + number, "Sequence number": 6})
        self.kernel(t + 13, late + 40, 30, "gemm")
        self.kernel(t + 15, late + 70, 7, "bias")
        node = "autograd::engine::evaluate_function: "
        self.host("cpu_op", node + "AddmmBackward0", t + 40, 10, 2, **{"Sequence number": 6})
        self.kernel(t + 41, late + 80, 50, "gemm_backward", tid=2)
        self.host("cpu_op", node + "torch::autograd::AccumulateGrad", t + 50, 5, 2)
        shapes = {"Input Dims": [[10, 4]], "Input type": ["c10::Half"]}
        self.host("cpu_op", "torch::autograd::AccumulateGrad", t + 51, 3, 2, **shapes)
        self.kernel(t + 52, late + 130, 4, "add", tid=2)
        self.kernel(t + 58, late + 100, 60, "ncclDevKernel_AllReduce_Sum_f16_RING_LL", tid=2)
        self.host("user_annotation", "Optimizer.step#SGD.step", t + 70, 20)
        self.host("cpu_op", "aten::_foreach_add_", t + 71, 10)
        self.kernel(t + 72, late + 160, 11, "multi_tensor")
        self.kernel(t + 95, late + 175, 3, "of nobody")

    def parse(self) -> kineto.Profile:
        # A group of one: NCCL's kernels are there, and nobody to share the work with.
        file = {"traceEvents": self.events, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}}
        return kineto.parse(json.dumps(file).encode(), PROFILE)


@pytest.fixture
def on_gpu() -> OnGpu:
    it = OnGpu()
    it.step(1, 0)
    it.step(2, 150)
    return it


def test_kernels_count_where_they_were_launched(on_gpu: OnGpu) -> None:
    times = on_gpu.parse().times
    linear, rest = times.layers
    assert linear == TracedLayer(
        name="linear", forward_s=[37e-6] * 2, backward_s=[54e-6] * 2, communication_s=[], gradient_bytes=2 * 40,
        products=[round(30 / 37, 3), round(50 / 54, 3)],
    )  # fmt: skip
    assert rest.name == "unattributed"
    assert rest.communication_s == [60e-6] * 2
    assert rest.forward_s == [3e-6] * 2
    assert times.host_to_device_s == [40e-6] * 2
    assert times.update_s == [11e-6] * 2
    assert times.clock == "torch.profiler (kernels)"


def test_a_step_is_as_long_as_the_device_takes_to_the_next(on_gpu: OnGpu) -> None:
    assert on_gpu.parse().times.step_s == pytest.approx([150e-6, 178e-6])


def test_a_kernel_without_its_launch_belongs_to_the_operation_that_it_names(on_gpu: OnGpu) -> None:
    before = on_gpu.parse().times.layers[0].forward_s
    lone = {"External id": 51, "correlation": 999}
    on_gpu.events.append(
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 20, "ts": 30, "dur": 5, "args": lone}
    )
    after = on_gpu.parse().times.layers[0].forward_s
    assert after == pytest.approx([before[0] + 5e-6, before[1]])


def test_what_lies_outside_of_the_steps_does_not_count(on_gpu: OnGpu) -> None:
    before = on_gpu.parse().times
    on_gpu.host("cpu_op", "aten::conv2d", -50, 20)
    on_gpu.kernel(-45, 10, 30)
    on_gpu.kernel(120, 1200, 30)  # between them
    assert on_gpu.parse().times == before


def test_the_host_takes_what_its_operations_take_without_waiting_for_the_device(on_gpu: OnGpu) -> None:
    launching_s = 5 + 20 + 10 + 5 + 20
    assert on_gpu.parse().times.launching_s == pytest.approx([launching_s * 1e-6] * 2)
    on_gpu.host("cuda_runtime", "cudaStreamSynchronize", 16, 12)
    assert on_gpu.parse().times.launching_s == pytest.approx([(launching_s - 12) * 1e-6, launching_s * 1e-6])


@pytest.mark.parametrize(
    ("kernel", "precision"),
    [  # as profiles have them
        ("ampere_sgemm_32x32_sliced1x4_tn", "fp32"),
        ("cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", "fp32"),
        ("maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt", "fp32"),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>(cutlass_80_simt_sgemm::Params)", "fp32"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", "tf32"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)", "tf32"),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "fp16"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn", "fp16"),
        ("sm80_xmma_wgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", "fp16"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "fp16"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "fp16"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "bf16"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", "bf16"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::bfloat16_t>>", "bf16"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", "fp16"),
        ("ampere_gcgemm_64x64_nt", None),
    ],
)  # fmt: skip
def test_kernels_of_products_are_told_by_their_names(kernel: str, precision: str | None) -> None:
    assert PRODUCT.search(kernel) and precision_of(kernel) == precision


@pytest.mark.parametrize(
    "kernel",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1>(cudnnTensorStruct, float const*)",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(int)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(int)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)",
        "triton_poi_fused_add_native_batch_norm_backward_relu_3",
        "multi_tensor_apply_kernel<SGD>",
    ],
)
def test_other_kernels_wait_for_memory(kernel: str) -> None:
    assert not PRODUCT.search(kernel)


def test_precisions_of_a_tenth_of_the_products_count_and_one_that_is_not_known_leaves_none() -> None:
    def precisions(*kernels: tuple[str, float]) -> list[str]:
        profile = OnGpu()
        for number in (0, 1):
            profile.step(number, 150 * number)
        profile.events = [event for event in profile.events if not str(event["name"]).startswith("gemm")]
        for number in (0, 1):
            for name, dur in kernels:
                profile.kernel(150 * number + 13, 150 * number + 1040, dur, name)
        return list(profile.parse().times.precisions)

    half, single = "ampere_fp16_s16816gemm_fp16_128x64", "ampere_sgemm_32x32"
    assert precisions((single, 2), (half, 8)) == ["fp16", "fp32"]
    assert precisions((single, 0.5), (half, 8)) == ["fp16"]
    assert precisions((half, 8), ("ampere_gcgemm_64x64_nt", 2)) == []


# ---- one of several processes ---


def grouped(world_size: int | None, *names: str) -> bytes:
    """A profile with events of these names, of a process group of so many."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": 10 * place, "dur": 5} for place, name in enumerate(names)
    ]
    group = {} if world_size is None else {"distributedInfo": {"backend": "gloo", "world_size": world_size}}
    return json.dumps({"traceEvents": events, **group}).encode()


BY_HAND = "tensor parallelism, or gradients averaged by hand (all-reduces, not DDP's)"


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["DistributedDataParallel.forward", "Optimizer.step#ZeroRedundancyOptimizer.step"], "ZeRO"),
        (["c10d::alltoall_base_"], "expert parallelism (all-to-all)"),
        (["c10d::send", "gloo:send"], "pipeline parallelism (sends and receives)"),
        (["ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"], "pipeline parallelism (sends and receives)"),
        (["c10d::_reduce_scatter_base_"], "sharded parameters (all-gathers and reduce-scatters)"),
        (["DistributedDataParallel.forward", "c10d::alltoall_base_"], "expert parallelism (all-to-all)"),
        (["_c10d_functional::all_reduce", "c10d::allreduce_"], BY_HAND),
        (["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"], BY_HAND),
    ],
)
@pytest.mark.parametrize("world_size", [None, 2])
def test_a_rank_of_several_is_refused_by_the_name_of_what_it_does(
    names: list[str], kind: str, world_size: int | None
) -> None:
    data = grouped(world_size, "aten::linear", *names)
    with pytest.raises(ConfigError, match=rf"^profile\.json: a profile of one rank of {re.escape(kind)}, whose layers"):
        kineto.parse(data, PROFILE)
    kineto.parse(grouped(1, "aten::linear", *names), PROFILE)


@pytest.mark.parametrize(
    ("names", "strategy"),
    [
        (["FSDP::all_gather_copy_out (0)", "gloo:all_gather"], "fsdp"),
        (["FullyShardedDataParallel.forward", "nccl:_all_gather_base"], "fsdp"),
        (["DistributedDataParallel.forward", "gloo:all_reduce"], "ddp"),
    ],
)
def test_a_rank_that_shares_the_data_alone_is_read(names: list[str], strategy: str) -> None:
    found = kineto.parse(grouped(2, "aten::linear", *names), PROFILE)
    assert found.rank is not None and (found.rank.strategy, found.rank.ranks) == (strategy, 2)
    assert found.times.layers[0].name == "linear"
    assert kineto.parse(grouped(1, "aten::linear", *names), PROFILE).rank is None


def test_a_group_whose_messages_are_not_seen_is_one_of_several_processes() -> None:
    with pytest.raises(ConfigError, match="one rank of a group of 4 processes"):
        kineto.parse(grouped(4, "aten::linear"), PROFILE)
    kineto.parse(grouped(None, "aten::linear"), PROFILE)


# ---- malformed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"traceEvents": [', "truncated or not JSON"),
        (b'{"runs": []}', "not a Chrome trace as torch.profiler exports it .*traceEvents"),
        (b'{"traceEvents": [{"ph": "X", "ts": "now"}]}', "not a Chrome trace"),
        (b'{"traceEvents": []}', "no operation of a forward pass"),
        (b'[{"ph": "X", "name": "f", "ts": 1, "dur": 2}]', "no operation of a forward pass"),
        (b'{"other": ' + b"[" * 100_000, "truncated or not JSON"),
        (b'{"traceEvents": [{"ph": "X", "name": "\xff"}]}', "truncated or not JSON|not a Chrome trace"),
    ],
)
def test_what_is_no_profile_is_refused_in_a_sentence(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^profile\.json: .*({message})"):
        kineto.parse(data, PROFILE)


@pytest.mark.parametrize(
    ("category", "name", "sentence"),
    [
        ("cuda_runtime", "cudaLaunchKernel", "launched kernels on a GPU, and it has none of them"),
        ("mtia_runtime", "execute", "was taken on MTIA"),
        ("cuda_runtime", "cudaDeviceSynchronize", ""),  # as profiling ends, also where all ran on a CPU
    ],
)
def test_steps_of_an_accelerator_without_its_kernels_are_not_of_a_cpu(category: str, name: str, sentence: str) -> None:
    data = json.loads(grouped(1, "aten::linear"))
    data["traceEvents"].append({"ph": "X", "cat": category, "name": name, "ts": 1, "dur": 2})
    profile = kineto.parse(json.dumps(data).encode(), PROFILE)
    if sentence:
        with pytest.raises(ConfigError, match=sentence):
            device_of(profile, CPU, {}, PROFILE)
    else:
        assert device_of(profile, CPU, {}, PROFILE) == CPU


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("AMD Radeon Graphics", "it says no model: state the GPU with device="),
        ("Radeon 7900", "so nothing is predicted"),
    ],
)
def test_a_gpu_whose_name_says_no_model_can_be_stated(name: str, sentence: str) -> None:
    profile = kineto.Profile(kineto.parse(grouped(1, "aten::linear"), PROFILE).times, None, 0, True, gpu=name)
    with pytest.raises(ConfigError, match=sentence):
        device_of(profile, None, {"mi250x-gcd": ["AMD Instinct MI250X"]}, PROFILE)
