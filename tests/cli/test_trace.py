"""`resnetx trace` as a user meets it: what it runs, keeps and shows, and what it refuses."""

import json

import pytest

from resnetx.api.trace import layered, together
from resnetx.cli import main
from resnetx.host import node_name
from resnetx.traces import read_all
from resnetx.traces.trace_files import read

SMALL = ["input=synthetic", "model.x=1", "model.width=16", "model.classes=10", "image_size=32", "threads=1"]
QUICK = [*SMALL, "batch_size=8", "iterations=5", "steps=2", "warmup=3"]


def run(capsys, *words):
    status = main(["trace", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.dist
def test_every_batch_is_traced_once_and_kept(capsys, tmp_path, preloaded):
    results = f"results={tmp_path}"
    status, out, err = run(capsys, *QUICK, "gpus=[1,2]", results, "--json")
    assert status == 0, err
    (told,) = map(json.loads, out.splitlines())
    (folder,) = (tmp_path / node_name() / "trace").glob("resnet-1-width-16_32_fp32_*")
    (trace,) = read_all(folder)
    assert (told["workload"], told["source"]) == ("ResNet/1 width 16", str(folder)) == (trace.workload, trace.source)
    assert [batch.batch_size for batch in trace.batches] == [4, 8]
    for batch in trace.batches:
        assert len(batch.times.clean_step_s) == 3
        assert {len(layer.forward_s) for layer in batch.times.layers} == {6}  # 5, in windows of 2
        assert batch.peak_memory_bytes > 0
    (together,) = trace.communication
    assert (together.gpus, together.batch_size, together.strategy) == (2, 8, "bucket")
    sent = [message.size_bytes for message in together.messages]
    assert sum(sent) == sum(layer.gradient_bytes for layer in trace.batches[0].times.layers)
    for message in together.messages:
        assert len(message.waiting_s) == len(message.transfer_s) == 5
        assert min(message.waiting_s) >= 0
    assert trace.device == "CPU"
    for batch in trace.batches:
        again = read(folder / f"b{batch.batch_size}.tsv", batch_size=batch.batch_size, device="CPU").batches[0].times
        layers = {layer.name: layer for layer in again.layers}
        for layer in batch.times.layers:
            assert layers[layer.name].forward_s == pytest.approx(layer.forward_s, rel=1e-4)
            assert layers[layer.name].gradient_bytes == layer.gradient_bytes
    assert json.loads((folder / "timeline.json").read_text())["traceEvents"]
    assert trace.unknown["batches.0.times.device_busy"] == "a CPU rank has no device beside its host"

    before = {path: path.read_bytes() for path in folder.glob("*/record.json")}
    assert len(before) == 3
    status, out, err = run(capsys, *QUICK, "gpus=[1,2]", "strategy=[bucket,none]", results)
    assert status == 0
    assert "reused: 3 of 3 runs" in err
    assert "sum / step" in out and ": on 2 ranks at most " in " ".join(out.split())
    assert "waiting ms" not in out and len(out.splitlines()) <= 15
    status, out, err = run(capsys, *QUICK, "gpus=[1,2]", "strategy=[bucket,none]", results, "--all")
    assert "ResNet/1 width 16, batch 8 on CPU: medians of 6 iterations, host clock" in out
    assert "waiting ms" in out
    assert before == {path: path.read_bytes() for path in folder.glob("*/record.json")}


@pytest.mark.dist
def test_a_run_that_fails_is_told_and_tried_again(capsys, tmp_path):
    words = [*QUICK, "gpus=1", f"results={tmp_path}", "timeout=1"]
    status, out, err = run(capsys, *words)
    assert status == 1
    assert "timeout: not finished after timeout=1 seconds" in err
    assert "1 run failed; the first: " in err
    assert out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["iterations=0"], "iterations=0: expected at least 1"),
        (["iterations=many"], "iterations=many: expected a number of profiled iterations"),
        (["batch_size=8", "gpus=[1,3]"], "batch_size=8 does not divide over gpus=3"),
        (["timeout=[1,2]"], "give one value for each"),
        (["model=alexnet", "image_size=66"], "image_size=66: expected at least 67 for AlexNet"),
        (["results/x"], "results/x: `resnetx trace` measures; to import a file, add --import"),
        (["precision=fp16"], "precision=fp16: not on CPUs"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_one_sentence(capsys, tmp_path, words, sentence):
    small = [word for word in SMALL if "=" in word and not (word.startswith("model.") and "model=alexnet" in words)]
    status, out, err = run(capsys, *small, f"results={tmp_path}", *words)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_strong_scaling_shrinks_the_batch_of_a_rank(request_of):
    points = [request_of({"batch_size": 32, "gpus": gpus, "steps": 10}) for gpus in (1, 2, 4, 8)]
    runs = [each for point in points for each in layered(point, 100)]
    assert [(each.batch_size, each.gpus, each.steps, each.windows) for each in runs] == [
        (32, 1, 10, 10), (16, 1, 10, 10), (8, 1, 10, 10), (4, 1, 10, 10),
    ]  # fmt: skip
    assert {each.measure for each in runs} == {"layers"}


def test_uneven_shares_are_two_batches_and_strategies_share_a_run(request_of):
    point = request_of({"batch_size": 9, "gpus": 2, "split": "uneven"})
    assert [each.batch_size for each in layered(point, 3)] == [4, 5]
    other = request_of({"batch_size": 9, "gpus": 2, "split": "uneven", "strategy": "after"})
    assert layered(point, 3) == layered(other, 3)


def test_messages_are_timed_where_the_machine_has_the_ranks(request_of, monkeypatch):
    monkeypatch.setattr("resnetx.api.trace.cores", lambda: 4)
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 0)
    settings = {"batch_size": 32, "strategy": "layerwise"}
    assert together(request_of({**settings, "gpus": 1}), 50) == []
    assert together(request_of({**settings, "gpus": 8}), 50) == []
    assert together(request_of({**settings, "gpus": 4, "strategy": "none"}), 50) == []
    (timed,) = together(request_of({**settings, "gpus": 4}), 50)
    assert (timed.measure, timed.gpus, timed.batch_size, timed.strategy.kind) == ("phases", 4, 32, "layerwise")
    assert (timed.steps, timed.windows) == (50, 1)
