"""Traces from files: what a file is, its content says; what is imported is kept and read again."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from resnetx import record
from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.systems.system import parts_table
from resnetx.record import nulls
from resnetx.record.traces import Trace, TracedCommunication, TracedMessage
from resnetx.traces import trace_files
from tests.prediction.made_traces import batch, layer, trace

COLUMNS = "id name forward backward comm size\n0 data 100 0 0 0\n1 conv1 200 300 50 1024\n2 loss 10 5 0 0\n"


def profile(*, kernels: bool = True, shapes: bool = True, gpu: str = "", marked: bool = True) -> bytes:
    """One step of a linear layer, as Kineto writes it; `gpu`: the name that the file has for it."""
    node = "autograd::engine::evaluate_function: "
    of_gradient = {"Input Dims": [[10, 4]], "Input type": ["float"]} if shapes else {}
    host = [
        ("user_annotation", "ProfilerStep#1", 0, 100, {}),
        ("cpu_op", "aten::linear", 10, 20, {"Sequence number": 5}),
        ("cuda_runtime", "cudaLaunchKernel", 12, 1, {"correlation": 1}),
        ("cpu_op", node + "AddmmBackward0", 40, 10, {"Sequence number": 5}),
        ("cpu_op", node + "torch::autograd::AccumulateGrad", 50, 5, {}),
        ("cpu_op", "torch::autograd::AccumulateGrad", 51, 3, of_gradient),
    ]
    device = [("kernel", "gemm", 300, 7, {"correlation": 1})] if kernels else []
    events = [
        {
            "ph": "X",
            "cat": cat,
            "name": name,
            "ts": ts,
            "dur": dur,
            "pid": 1,
            "tid": 1 if cat != "kernel" else 7,
            "args": args,
        }
        for cat, name, ts, dur, args in host[not marked :] + device
    ]
    top = {"deviceProperties": [{"id": 0, "name": gpu, "totalGlobalMem": 34}]} if gpu else {}
    return json.dumps({"baseTimeNanoseconds": 1_500_000_000_000_000_000, "traceEvents": events, **top}).encode()


@pytest.fixture
def file(tmp_path: Path):
    def make(content: str | bytes, name: str = "alexnet.trace") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


# ---- what a file is -------------------------------------------------------------------------------------------------


def test_six_columns_become_a_trace_whose_gaps_have_reasons(file) -> None:
    path = file(COLUMNS)
    trace = trace_files.read(path, batch_size=1024, device="k80-562mhz")
    assert (trace.how, trace.workload, trace.device, trace.source) == ("imported", "alexnet", "k80-562mhz", str(path))
    (batch,) = trace.batches
    assert batch.batch_size == 1024
    assert [layer.name for layer in batch.times.layers] == ["conv1", "loss"]
    assert set(nulls(msgspec.to_builtins(trace))) == set(trace.unknown)
    assert trace.request is None


@pytest.mark.parametrize("packed", [False, True])
def test_a_profile_is_told_by_its_content_packed_or_not(file, packed: bool) -> None:
    path = file(gzip.compress(profile()) if packed else profile(), "whatever.txt")
    trace = trace_files.read(path, batch_size=8, device="v100-sxm2-16gb", workload="Linear")
    (layer,) = trace.batches[0].times.layers
    assert (layer.name, layer.forward_s, layer.gradient_bytes) == ("linear", [7e-6], 160)
    assert (trace.workload, trace.measured_at) == ("Linear", "2017-07-14T02:40:00+00:00")
    assert set(nulls(msgspec.to_builtins(trace))) == set(trace.unknown)


def test_a_profile_without_shapes_says_why_gradients_have_no_size(file) -> None:
    trace = trace_files.read(file(profile(shapes=False)), batch_size=8, device="v100-sxm2-16gb")
    (layer,) = trace.batches[0].times.layers
    assert layer.gradient_bytes is None
    assert "record_shapes=True" in trace.unknown["batches.0.times.layers.0.gradient_bytes"]
    with pytest.raises(FileError, match="its gradients have no known size, which six columns cannot say"):
        trace_files.export(trace, Path())
    (warning,) = trace.warnings
    assert "the gradients have no known size" in warning.message
    assert "parameters=" in warning.remedy


@pytest.mark.parametrize(
    ("kernels", "device", "message"),
    [
        (False, "v100-sxm2-16gb", "has no kernels of a GPU, and device=v100-sxm2-16gb is one"),
        (True, "CPU", "a profile of a GPU's kernels; expected device="),
    ],
)
def test_a_profile_of_the_host_is_none_of_a_gpu(file, kernels: bool, device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trace_files.read(file(profile(kernels=kernels)), batch_size=8, device=device)


PARTS = {name: part.product_names for name, part in parts_table("gpus").items()}


@pytest.mark.parametrize(
    ("gpu", "part"),
    [
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("A100-SXM4-40GB", "a100-sxm4-40gb"),  # by an older driver
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
    ],
)
def test_a_profile_names_its_gpu_and_another_one_is_refused(file, gpu: str, part: str) -> None:
    path = file(profile(gpu=gpu))
    for device in (None, part):
        trace = trace_files.read(path, batch_size=8, device=device, parts=PARTS)
        assert (trace.device, trace.warnings) == (part, [])
    with pytest.raises(ConfigError, match=rf"^device=h200-sxm5-141gb: {path} is of another GPU, {gpu} \({part}\); "):
        trace_files.read(path, batch_size=8, device="h200-sxm5-141gb", parts=PARTS)


def test_a_gpu_whose_name_is_not_described_is_what_device_states_if_it_may_be_that_model(file) -> None:
    path = file(profile(gpu="NVIDIA A100-PG509-200"))
    with pytest.raises(
        ConfigError, match=r"NVIDIA A100-PG509-200, a name that no .* if it is a100-sxm4-40gb or .*device="
    ):
        trace_files.read(path, batch_size=8, device=None, parts=PARTS)
    with pytest.raises(ConfigError, match=r"^device=h100-sxm5-80gb: .*is of the GPU NVIDIA A100-PG509-200"):
        trace_files.read(path, batch_size=8, device="h100-sxm5-80gb", parts=PARTS)
    (warning,) = trace_files.read(path, batch_size=8, device="a100-sxm4-40gb", parts=PARTS).warnings
    assert "NVIDIA A100-PG509-200, taken for a100-sxm4-40gb as device= states" in warning.message
    other = file(profile(gpu="NVIDIA GeForce GTX 9999"))
    with pytest.raises(ConfigError, match="is of the GPU NVIDIA GeForce GTX 9999, a name that no described GPU has"):
        trace_files.read(other, batch_size=8, device="a100-sxm4-40gb", parts=PARTS)


def test_a_profile_that_names_no_gpu_needs_its_device(file) -> None:
    with pytest.raises(ConfigError, match="does not say on which GPU it was taken; expected device=, one of a10"):
        trace_files.read(file(profile()), batch_size=8, device=None, parts=PARTS)


@pytest.mark.parametrize(
    ("category", "call", "maker", "device"),
    [
        ("cuda_runtime", "hipLaunchKernel", "of AMD", "v100-sxm2-16gb"),
        ("cuda_runtime", "cudaLaunchKernel", "of NVIDIA", "mi210-64gb"),
        ("xpu_runtime", "urEnqueueKernelLaunch", "Intel's", "v100-sxm2-16gb"),
    ],
)
def test_kernels_that_another_makers_runtime_launched_are_of_none_of_these_gpus(
    file, category: str, call: str, maker: str, device: str
) -> None:
    launch = f'{{"ph": "X", "cat": "{category}", "name": "{call}", "ts": 3, "dur": 1, "args": {{"correlation": 99}}}}, '
    content = profile().replace(b'"traceEvents": [', b'"traceEvents": [' + launch.encode(), 1)
    assert content != profile()
    with pytest.raises(ConfigError, match=f"^device={device}: the kernels of .* were launched on GPUs {maker}"):
        trace_files.read(file(content), batch_size=8, device=device, parts=PARTS)


def test_what_was_taken_for_an_iteration_is_a_warning_of_the_record(file, tmp_path: Path) -> None:
    path = kept(file(profile(marked=False)), tmp_path, 8)
    (warning,) = trace_files.read_trace(path).warnings
    assert warning.message.startswith("the profile has no step marks (ProfilerStep#n): each backward pass was taken")
    assert "prof.step()" in warning.remedy
    kept(file(profile(marked=False)), tmp_path, 16)
    assert trace_files.read_trace(path.parent.parent).warnings == [warning]  # of both batches


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no line has a layer"),
        (b"\x00\xff\xfe", "line 1: byte 0xff is not UTF-8; expected a trace or a profile"),
        (gzip.compress(profile())[:-20], "truncated or not gzip"),
        (b"\x1f\x8bnonsense", "truncated or not gzip"),
        (b'{"kind": "prediction"}', "not a Chrome trace as torch.profiler exports it"),
        (b"{", "truncated or not JSON"),
    ],
)
def test_what_is_neither_is_refused_with_the_file_named(file, content: bytes, message: str) -> None:
    path = file(content)
    with pytest.raises(ConfigError, match=rf"^{path}.*{message}"):
        trace_files.read(path, batch_size=8, device="CPU")


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path, file, monkeypatch) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: no such file"):
        trace_files.read(tmp_path / "none.json", batch_size=8, device="CPU")
    monkeypatch.setattr(trace_files, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="larger than"):
        trace_files.read(file(gzip.compress(b" " * 10_000)), batch_size=8, device="CPU")


@pytest.mark.slow
def test_an_import_whose_record_would_be_too_large_is_refused_before_it_is_made(file, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("resnetx.record.sealing.MAX_BYTES", 100_000)
    iteration = "".join(f"{index} l{index} 1 1 0 0\n" for index in range(100))
    path = file(gzip.compress(iteration.encode() * 50))
    assert path.stat().st_size < 2000
    with pytest.raises(FileError, match=r"50 iterations of 100 layers would be larger than .*fewer iterations"):
        kept(path, tmp_path / "results", 64)
    many = "".join(f"{index} l{index} 1 1 0 0\n" for index in range(700))
    with pytest.raises(FileError, match=r"1 iterations of 700 layers would be larger than"):
        kept(file(many), tmp_path / "results", 64)
    monkeypatch.setattr("resnetx.formats.six_columns.MAX_ROWS", 99)
    with pytest.raises(FileError, match="line 100: more than 99 rows; expected fewer iterations"):
        kept(path, tmp_path / "results", 64)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"MAX_GROUPS": 10}, r"about 6 events, of at most 5; profile fewer iterations"),
        ({"MAX_VALUES": 30}, r"values, of at most 30; profile fewer iterations"),
        ({"MAX_BYTES": 400}, r"larger than 100 B, with other characters than ASCII; profile fewer iterations"),
    ],
)
def test_a_profile_that_would_take_too_much_memory_is_refused_by_arithmetic(file, monkeypatch, limit, message) -> None:
    for name, value in limit.items():
        monkeypatch.setattr(f"resnetx.formats.chrome.{name}", value)
    path = file(profile(kernels=False).replace(b"aten::linear", "aten::größe".encode()))
    with pytest.raises(FileError, match=message):
        trace_files.read(path, batch_size=8, device="CPU")


def test_a_profile_of_endless_iterations_is_refused(file) -> None:
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": n, "dur": 1} for n in range(10_001)
    ]
    with pytest.raises(FileError, match=r"has 10,001 iterations; expected at most 10,000"):
        trace_files.read(file(json.dumps(steps)), batch_size=8, device="CPU")


def test_what_no_device_can_have_measured_is_refused(file) -> None:
    with pytest.raises(FileError, match="layer conv1 has times that are negative or without end, so this is no trace"):
        trace_files.read(file(COLUMNS.replace("200", "2e18")), batch_size=8, device="CPU")


def test_the_name_of_a_file_leads_nowhere_else(file, tmp_path: Path) -> None:
    for name in ("..%2f..%2fpwned", "a" * 200, "\x1b[2J", "\udcff", "模型"):
        target = kept(file(COLUMNS, f"{name}.tsv"), tmp_path / "results", 64)
        assert target.relative_to(tmp_path / "results" / "imported" / "trace").parts[1:] == ("b64", "trace.json")
        workload = trace_files.read_trace(target).workload
        assert workload.isprintable()
    kept(file(COLUMNS), tmp_path / "results", 64, workload="../../../../pwned")
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"results"}


# ---- what is kept ---------------------------------------------------------------------------------------------------


def kept(path: Path, results: Path, batch_size: int, **more: str) -> Path:
    return trace_files.import_(path, batch_size=batch_size, device="k80-562mhz", results=results, **more)


def test_what_is_imported_is_read_as_it_was(file, tmp_path: Path) -> None:
    path = file(COLUMNS)
    target = kept(path, tmp_path, 64)
    assert target == tmp_path / "imported" / "trace" / "alexnet_k80-562mhz" / "b64" / "trace.json"
    assert trace_files.read_trace(target) == trace_files.read(path, batch_size=64, device="k80-562mhz")
    assert trace_files.read_trace(target.parent) == trace_files.read_trace(target.parent.parent)


def test_the_batches_of_a_workload_are_one_trace(file, tmp_path: Path) -> None:
    large = kept(file(COLUMNS, "alexnet.64"), tmp_path, 64)
    kept(file(COLUMNS.replace("200", "120"), "alexnet.32"), tmp_path, 32)
    kept(file(COLUMNS.replace("200", "130"), "alexnet.32"), tmp_path, 32)  # again: it replaces the first
    trace: Trace = trace_files.read_trace(large.parent.parent)
    assert [(each.batch_size, each.times.layers[0].forward_s) for each in trace.batches] == [
        (32, [pytest.approx(130e-6)]),
        (64, [pytest.approx(200e-6)]),
    ]
    assert set(nulls(msgspec.to_builtins(trace))) == set(trace.unknown)
    assert trace.source == f"{tmp_path / 'alexnet.32'}, {tmp_path / 'alexnet.64'}"


def test_other_layers_are_another_workload(file, tmp_path: Path) -> None:
    kept(file(COLUMNS), tmp_path, 64)
    other = file(COLUMNS.replace("conv1", "conv7"), "alexnet.other")
    with pytest.raises(ConfigError, match=r"has other layers than alexnet on k80-562mhz .*give it another workload="):
        kept(other, tmp_path, 32)
    assert kept(other, tmp_path, 32, workload="AlexNet 7").is_file()


def test_files_of_others_need_their_batch_and_device(file, tmp_path: Path) -> None:
    path = file(COLUMNS)
    assert trace_files.read_trace(path, batch_size=8, device="k80-562mhz").batches[0].batch_size == 8
    with pytest.raises(ConfigError, match=r"import it with batch_size= and device= \(resnetx trace --import\)"):
        trace_files.read_trace(path)
    with pytest.raises(ConfigError, match="import it with device= "):
        trace_files.read_trace(path, batch_size=8)
    with pytest.raises(ConfigError, match="holds neither traced runs nor imported traces"):
        trace_files.read_trace(tmp_path)


def test_a_trace_of_a_newer_resnetx_is_refused(file, tmp_path: Path) -> None:
    target = kept(file(COLUMNS), tmp_path, 64)
    target.write_text(target.read_text().replace(f'"schema": {record.SCHEMA}', f'"schema": {record.SCHEMA + 1}'))
    with pytest.raises(record.NewerRecordError, match="update resnetx"):
        trace_files.read_trace(target)


def test_layers_that_were_sent_one_by_one_have_what_that_took(tmp_path: Path) -> None:
    layers = [
        layer("a", 1e-3, 2e-3, 400),
        layer("b", 1e-3, 2e-3),
        layer("c", 1e-3, 2e-3, 800),
    ]
    sent = TracedCommunication(
        gpus=2,
        batch_size=8,
        strategy="layerwise",
        messages=[
            TracedMessage(size_bytes=800, waiting_s=[9.0], transfer_s=[5e-6]),
            TracedMessage(size_bytes=400, waiting_s=[9.0], transfer_s=[3e-6]),
        ],
    )
    written = trace_files.export(trace(batch(4, layers), communication=[sent]), tmp_path)
    assert [file.name for file in written] == ["b4.tsv", "b4_g2.tsv", "timeline.json"]
    alone, together = (
        trace_files.read(file, batch_size=4, device="CPU").batches[0].times.layers for file in written[:2]
    )
    assert [each.communication_s for each in alone if each.name != "data"] == [[], [], []]
    assert [each.communication_s for each in together if each.name != "data"] == [[3e-6], [], [5e-6]]
