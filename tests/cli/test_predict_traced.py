"""`resnetx predict TRACE communication=trace`: the messages of a trace as they were measured."""

import pytest

from resnetx import record
from resnetx.cli import main
from resnetx.record import record_file
from resnetx.record.prediction import Prediction
from tests.record.test_six_columns import TABLE_VI

K80 = ["systems=k80-10gbe", "communication=trace"]


@pytest.fixture
def imported(tmp_path):
    """Imports Table VI of Shi et al. 2018: AlexNet on two K80 GPUs, 1,024 images each, by Caffe-MPI."""

    def make(*words, text=TABLE_VI):
        file = tmp_path / "alexnet.tsv"
        file.write_text(text)
        given = ["device=k80-562mhz", "batch_size=1024", f"results={tmp_path / 'results'}", *words]
        assert main(["trace", "--import", str(file), *given]) == 0
        (trace,) = (tmp_path / "results").rglob("trace.json")
        return str(trace)

    return make


def wait_free_s(text=TABLE_VI):
    """Equations 4 and 5 of the paper, over the figures of its table: seconds of an iteration of two GPUs."""
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    (_, _, input_us, *_), *layers = rows
    forward, backward, sent = (sum(float(row[column]) for row in layers) for column in (2, 3, 4))
    ready = end = forward
    for row in reversed(layers):
        ready += float(row[3])
        if float(row[4]):
            end = max(end, ready) + float(row[4])
    assert forward + backward < end < forward + backward + sent
    return max(float(input_us), end) / 1e6


def test_shis_trace_is_predicted_with_its_own_messages(predict, imported):
    status, (one, two) = predict(imported("gpus=2"), *K80, "gpus=[1,2]")
    assert status == 0
    assert two["iteration_s"] == pytest.approx(wait_free_s())
    assert (two["strategy"], two["limiting_link"]) == ("layerwise", None)
    assert two["communication_s"] == pytest.approx(2.649, rel=0.001)  # column comm
    assert two["input_s"] == pytest.approx(1.2)  # the row of the layer data
    assert one["iteration_s"] < two["iteration_s"]
    assert one["communication_s"] == 0


def test_frameworks_overlap_the_same_messages_differently(predict, imported):
    _, found = predict(imported("gpus=2"), *K80, "gpus=2", "framework=[caffe-mpi,cntk]")
    overlapped, behind = found
    assert overlapped["iteration_s"] == pytest.approx(wait_free_s())
    assert behind["iteration_s"] - overlapped["iteration_s"] > 1  # of 2.7 s


def test_no_link_changes_a_traced_message(predict, imported):
    trace = imported("gpus=2")
    _, (here,) = predict(trace, *K80, "devices=0,4")
    _, (faster,) = predict(trace, *K80, "devices=0,4", "nodes=4", "network=hdr200")
    assert faster["iteration_s"] == here["iteration_s"]
    _, (modelled,) = predict(trace, K80[0], "gpus=2", "strategy=layerwise")
    assert modelled["communication_s"] < here["communication_s"] / 10
    assert modelled["limiting_link"]


def test_a_trace_that_does_not_say_its_gpus_is_taken_to_be_of_the_one_number_that_is_asked_for(imported, tmp_path):
    assert main(["predict", imported(), *K80, "gpus=[1,2]", f"out={tmp_path / 'kept'}"]) == 0
    made = record.read(record_file("prediction", tmp_path / "kept"), Prediction)
    (line,) = [each for each in made.inputs if each.what == "messages between 2 GPUs"]
    assert (line.origin, line.error) == ("assumed", 0.3)  # of a single iteration
    assert "does not say on how many GPUs" in line.value


@pytest.mark.parametrize(
    ("stated", "words", "sentence"),
    [
        ([], ["gpus=[2,4]"], "does not state its number of GPUs, and several are requested: gpus=[2, 4]"),
        (["gpus=2"], ["gpus=4"], "was measured on 2 GPUs, which says nothing of 4"),
        (["gpus=2"], ["gpus=2", "strategy=bucket"], "strategy=bucket has others; use strategy=layerwise or after"),
        (["gpus=2"], ["gpus=2", "batch_size=512"], "has the per-GPU batches 1024, and 512 is outside of them"),
        (["gpus=2"], ["gpus=2", "gradients=bf16"], "gradients: changes how messages are modelled"),
        (["gpus=2"], ["gpus=2", "what_if.latency=2"], "what_if.latency: changes how messages are modelled"),
    ],
)
def test_what_a_trace_does_not_say_of_its_messages_is_refused(stated, words, sentence, imported, capsys):
    trace = imported(*stated)
    assert main(["predict", trace, *K80, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_trace_without_communication_and_no_trace_at_all_are_refused(imported, capsys):
    silent = "0 data 100 0 0 0\n1 conv1 200 300 0 1024\n"
    assert main(["predict", imported(text=silent), *K80, "gpus=2"]) == 2
    assert "has no times of communication (of the six columns, comm)" in capsys.readouterr().err
    assert main(["predict", *K80, "model=alexnet"]) == 2
    assert "communication=trace: there is no trace whose messages it could take" in capsys.readouterr().err
