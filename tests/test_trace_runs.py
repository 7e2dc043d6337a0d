"""Traces put together from records of runs, and what they add up to."""

import msgspec
import pytest

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.record import GradientBucket, Phases, RecordError, RunFolder
from resnetx.record.traces import LayerTimes, TracedLayer
from resnetx.traces import communication_of, read_all, slowest, subject, sums

NO_CUDA = record.Unknown("a build without CUDA")
LAYERS = [
    TracedLayer(name="conv", forward_s=[1.0, 3.0], backward_s=[2.0, 6.0], communication_s=[], gradient_bytes=8),
    TracedLayer(name="loss", forward_s=[0.5, 0.5], backward_s=[0.5, 1.0], communication_s=[], gradient_bytes=0),
]


def times(**changed):
    plain = {
        "clock": "host", "layers": LAYERS, "input_s": [0.0], "input_wait_s": [0.25, 0.25],
        "host_to_device_s": [0.0, 0.0], "update_s": [0.5, 0.5], "step_s": [5.0, 12.0], "clean_step_s": [4.0, 10.0],
        "device_busy": None, "host_bound": False, "gradient_copy_Bps": 1e9,
    }  # fmt: skip
    return LayerTimes(**(plain | changed))


@pytest.fixture
def traced(record_of, record_environment, tmp_path):
    """Writes the record of a run as if it had measured; returns its folder."""

    def write(settings, layers=None, folder=None, device="CPU", **changed):
        found = record_of({"measure": "layers" if layers else "phases", "gpus": 1, "threads": 1, **settings})
        devices = [{"rank": 0, "node": "n", "index": 0, "name": device, "uuid": None, "pci_bus_id": None}]
        environment = record_environment(cpu="Xeon", torch="2.15.0", cuda=NO_CUDA)
        plain = {
            "outcome": "ok", "layers": layers, "environment": environment,
            "devices": msgspec.convert(devices, list[record.Device]), "peak_memory_bytes": [7],
            "unknown": {"layers.device_busy": "no device", "gpu_samples": "no GPU"},
        }  # fmt: skip
        ended = msgspec.structs.replace(found, **(plain | changed))
        place = RunFolder((folder or tmp_path / "trace") / ended.request.slug)
        record.write(place.record, ended)
        return place.path

    return write


PHASES = {
    "clock": "host", "step_s": [1.0, 1.0], "input_wait_s": [0.0, 0.0], "host_to_device_s": [0.0, 0.0],
    "forward_s": [0.0, 0.0], "backward_s": [0.0, 0.0], "exposed_communication_s": [0.0, 0.0],
    "optimizer_s": [0.0, 0.0], "begin_s": [[0.0, 10.0], [1.0, 10.5]],
}  # fmt: skip
BUCKET = GradientBucket(
    index=0,
    size_bytes=40,
    ready_s=[[1.0, 1.0], [1.0, 1.0]],
    start_s=[[2.0, 2.0], [4.0, 1.0]],  # on the one clock: 2 and 5 in the first step, 12 and 11.5 in the second
    end_s=[[7.0, 3.0], [5.0, 3.0]],  # 7 and 6, then 13 and 13.5
)


def test_a_trace_has_the_batches_of_its_runs_and_what_its_ranks_sent(traced, tmp_path):
    traced({"batch_size": 32}, times(step_s=[9.0]))
    traced({"batch_size": 8}, times())
    phases = msgspec.convert(PHASES, Phases)
    traced({"batch_size": 32, "gpus": 2, "strategy": "after"}, phases=phases, buckets=[BUCKET])
    traced({"batch_size": 64}, times(), outcome="failed")
    traced({"batch_size": 64, "gpus": 1}, phases=phases, buckets=[])  # a watched run of one rank sends nothing
    record.write(tmp_path / "trace" / "bench" / "record.json", {"kind": "bench", "schema": 1})
    (trace,) = read_all(tmp_path / "trace")
    assert [batch.batch_size for batch in trace.batches] == [8, 32]
    assert trace.batches[1].times.step_s == [9.0]
    assert (trace.workload, trace.device, trace.cpu, trace.software) == ("ResNet/8", "CPU", "Xeon", "torch 2.15.0")
    assert trace.request.batch_size == 8
    assert trace.unknown == {
        "sm_clock_Hz": "no GPU",
        "batches.0.times.device_busy": "no device",
        "batches.1.times.device_busy": "no device",
        "batches.0.times.host_s": "the run does not say",
        "batches.1.times.host_s": "the run does not say",
    }
    assert set(trace.unknown) == set(record.nulls(msgspec.to_builtins(trace)))
    (sent,) = trace.communication
    assert (sent.gpus, sent.batch_size, sent.strategy) == (2, 32, "after")
    (message,) = sent.messages
    assert message.size_bytes == 40
    assert message.waiting_s == [1.5, 0.25]
    assert message.transfer_s == [2.0, 1.5]


def test_the_clock_of_a_trace_is_the_median_over_its_runs(traced, tmp_path):
    samples = [{"rank": 0, "time_s": [0.0, 1.0], "sm_clock_Hz": [1e9, 3e9], "power_W": None, "temperature_C": None,
                "busy": None, "throttle_reasons": None, "energy_J": None}]  # fmt: skip
    traced({"batch_size": 8}, times(), gpu_samples=msgspec.convert(samples, list[record.GpuSamples]))
    (trace,) = read_all(tmp_path / "trace")
    assert trace.sm_clock_Hz == 2e9
    assert "sm_clock_Hz" not in trace.unknown


def test_messages_without_times_are_left_out_and_torn_ones_named(record_of):
    phases = msgspec.convert(PHASES, Phases)
    plain = msgspec.structs.replace(record_of({"gpus": 2, "measure": "phases"}), phases=phases)
    untimed = msgspec.structs.replace(BUCKET, ready_s=None, start_s=None, end_s=None)
    assert communication_of(msgspec.structs.replace(plain, buckets=[untimed])).messages == []
    torn = msgspec.structs.replace(
        BUCKET, ready_s=[[1.0]], start_s=[[2.0]], end_s=[[3.0]]
    )  # of one rank, where two ran
    with pytest.raises(RecordError, match=r"resnet-8_b32_g2_phases_\w+: the times of its messages"):
        communication_of(msgspec.structs.replace(plain, buckets=[torn]))


def test_one_workload_is_one_trace_whatever_its_batches_gpus_and_strategies(request_of):
    one = subject(request_of({"batch_size": 32, "gpus": 1, "devices": [3]}))
    for other in ({"batch_size": 8}, {"gpus": 8, "strategy": "after"}, {"steps": 3, "windows": 7, "measure": "phases"}):
        assert subject(request_of({"threads": one.threads, **other})) == one
    for other in ({"precision": "bf16"}, {"image_size": 64}, {"model.x": 5}, {"threads": one.threads + 1}):
        assert subject(request_of({"threads": one.threads, **other})) != one


def test_several_workloads_are_read_together_but_not_as_one(traced, tmp_path):
    traced({"batch_size": 8}, times(), tmp_path / "trace" / "a")
    traced({"batch_size": 8, "model.x": 1}, times(), tmp_path / "trace" / "b")
    traced({"batch_size": 4, "model.x": 1}, times(), tmp_path / "trace" / "b")
    assert [(each.workload, len(each.batches), each.source) for each in read_all(tmp_path / "trace")] == [
        ("ResNet/8", 1, str(next((tmp_path / "trace" / "a").iterdir()))),
        ("ResNet/1", 2, str(tmp_path / "trace" / "b")),
    ]


def test_what_is_no_trace_is_named(traced, tmp_path):
    with pytest.raises(RecordError, match="nowhere: no such folder"):
        read_all(tmp_path / "nowhere")
    assert read_all(tmp_path) == []
    folder = traced({"batch_size": 8}, times())
    traced({"batch_size": 8, "steps": 3}, times())
    with pytest.raises(ConfigError, match=r"both trace batch 8 of ResNet/8; keep one"):
        read_all(tmp_path)
    traced({"batch_size": 16}, times(), device="NVIDIA H200")
    with pytest.raises(ConfigError, match=r"different devices \(CPU, NVIDIA H200\)"):
        read_all(tmp_path)
    RunFolder(folder).record.write_text('{"kind": "run", "schema"')
    with pytest.raises(RecordError, match=r"record\.json: truncated or not JSON"):
        read_all(tmp_path)


# ---- sums -----------------------------------------------------------------------------------------------------------


def test_parts_rest_and_step_add_up_in_every_iteration():
    found = sums(times())
    assert (found.forward_s, found.backward_s) == (2.5, 4.75)  # medians of 1.5 and 3.5, of 2.5 and 7
    assert (found.input_wait_s, found.update_s, found.step_s, found.clean_step_s) == (0.25, 0.5, 8.5, 7.0)
    assert found.rest_s == pytest.approx((0.25 + 0.75) / 2)
    assert found.instrumented_over_clean == pytest.approx((5 / 4 + 12 / 10) / 2)
    assert found.parts_over_clean == pytest.approx((4.75 / 4 + 11.25 / 10) / 2)


def test_a_window_is_held_against_the_clean_one_before_it():
    found = sums(times(step_s=[4.0, 6.0, 20.0, 20.0], clean_step_s=[5.0, 10.0]))
    assert found.instrumented_over_clean == pytest.approx((5 / 5 + 20 / 10) / 2)
    assert sums(times(clean_step_s=[1.0, 2.0, 3.0])).instrumented_over_clean is None  # two steps are no three windows


def test_what_an_imported_trace_lacks_is_not_made_up():
    lacking = times(input_s=[], input_wait_s=[], host_to_device_s=[], update_s=[], step_s=None, clean_step_s=None)
    found = sums(lacking)
    assert (found.forward_s, found.backward_s) == (2.5, 4.75)
    for missing in ("input_s", "update_s", "rest_s", "step_s", "clean_step_s", "instrumented_over_clean"):
        assert getattr(found, missing) is None
    assert sums(times(layers=[])).forward_s == 0.0


def test_the_slowest_layers_come_first():
    assert [layer.name for layer in slowest(LAYERS, 5)] == ["conv", "loss"]
    assert [layer.name for layer in slowest(LAYERS[::-1], 1)] == ["conv"]
