"""`resnetx predict` of imported traces: what their files do not say is asked for, or said."""

import json
from pathlib import Path

import pytest

from resnetx import record, workloads
from resnetx.cli import main
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.host import node_name
from resnetx.record import record_file
from resnetx.record.prediction import Prediction, measured_on
from tests.prediction.made_traces import batch, layer, trace
from tests.record.test_kineto_windows import Program

WORDS = ["systems=dgx1-v100", "gpus=[1,8]", "strategy=after"]


@pytest.fixture
def profile(tmp_path: Path):
    """Imports a program's profile without step marks; gives the folder of its trace."""

    def make(program: Program, *words: str) -> str:
        file = tmp_path / "net.json"
        top = {"deviceProperties": [{"id": 0, "name": program.name}], "traceEvents": program.events}
        file.write_text(json.dumps(top))
        assert main(["trace", "--import", str(file), "batch_size=8", f"results={tmp_path / 'results'}", *words]) == 0
        (trace,) = (tmp_path / "results").rglob("trace.json")
        return str(trace)

    return make


def trained(shapes: bool) -> Program:
    program = Program(name="Tesla V100-SXM2-16GB")
    program.set_up()
    for _ in range(3):
        program.backward(program.forward(took=900), [[1000, 1000]] if shapes else None)
        program.event("user_annotation", "Optimizer.step#SGD.step")
    return program


def test_the_screen_says_what_was_taken_for_an_iteration(profile, capsys) -> None:
    profile(trained(shapes=True))
    out = " ".join(capsys.readouterr().out.split())
    assert "net, batch 8 on v100-sxm2-16gb: medians of 3 iterations" in out
    assert "look: the profile has no step marks (ProfilerStep#n): its 3 optimizer steps ended 3 iterations" in out
    assert "no known size" not in out


def test_a_trace_without_shapes_asks_for_parameters_and_never_scales_linearly(profile, predict, capsys) -> None:
    trace = profile(trained(shapes=False))
    out = " ".join(capsys.readouterr().out.split())
    assert "look: the gradients have no known size (the profile has no shape" in out
    assert main(["predict", trace, *WORDS]) == 2
    assert "add parameters=, how many the whole model trains" in capsys.readouterr().err
    status, (one, eight) = predict(trace, *WORDS, "parameters=1e6")
    assert (status, one["gradient_bytes"], eight["gradient_bytes"]) == (0, 4_000_000, 4_000_000)
    assert eight["exposed_communication_s"] > 0
    assert eight["efficiency"] < 1


def test_stated_parameters_and_what_was_taken_are_inputs_that_are_shown(profile, tmp_path, capsys) -> None:
    trace = profile(trained(shapes=False))
    capsys.readouterr()
    assert main(["predict", trace, *WORDS, "parameters=1000000", f"out={tmp_path / 'kept'}", "--all"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1,000,000 parameters of 4 B, shared among the layers in proportion to their backward times" in out
    assert "its 3 optimizer steps ended 3 iterations" in out
    assert "one GPU's step as the imported trace has it" in out
    inputs = record.read(record_file("prediction", tmp_path / "kept"), Prediction).inputs
    assert {"gradients of net", "import of net"} <= {line.what for line in inputs if line.origin == "assumed"}


def test_the_memory_of_an_import_is_not_known(profile, capsys) -> None:
    trace = profile(trained(shapes=True))
    for word in ("memory=1GB", "memory_model=caffe"):
        assert main(["predict", trace, *WORDS, word]) == 2
        assert f"{word}: what the layers of the trace" in " ".join(capsys.readouterr().err.split())


def test_uneven_samples_make_ranks_wait_where_an_import_has_no_single_steps(profile, predict) -> None:
    trace = profile(trained(shapes=True))
    _, (_, eight) = predict(trace, *WORDS)
    _, (_, uneven) = predict(trace, *WORDS, "samples=uneven")
    assert uneven["iteration_s"] > 1.05 * eight["iteration_s"]


def test_a_forward_pass_alone_is_no_training(profile, capsys) -> None:
    program = Program(name="Tesla V100-SXM2-16GB")
    for _ in range(2):
        program.forward()
    trace = profile(program)
    assert "the profile has no backward pass" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", trace, *WORDS, "parameters=1000"]) == 2
    assert "has no backward pass, and a step of training has one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["model=alexnet", "parameters=1000"], "parameters=1000: of a workload by name they are known"),
        (["model=alexnet", "parameters=0"], "parameters=0: expected at least 1"),
        (["model=alexnet", "parameters=1.5"], "parameters=1.5: expected a whole number of parameters"),
    ],
)
def test_parameters_that_say_nothing_are_refused(words: list[str], sentence: str, capsys) -> None:
    assert main(["predict", "systems=gx8", "gpus=1", *words]) == 2
    assert sentence in capsys.readouterr().err


# ---- zeros


def stored(tmp_path: Path, **times: object) -> str:
    layers = [layer("a", 1e-3, 2e-3, 4_000_000), layer("b", 1e-3, 2e-3, 8_000_000)]
    unknown = dict.fromkeys(("request", "sm_clock_Hz", "software", "measured_at", "batches.0"), "made up for a test")
    record.write(tmp_path / "trace.json", trace(batch(8, layers, **times), unknown=unknown))
    return str(tmp_path / "trace.json")


@pytest.mark.parametrize("times", [{"host_s": [0.0] * 3}, {"update_s": 0.0}, {"input_s": [0.0] * 3}])
def test_parts_that_took_no_time_divide_nothing(times: dict[str, object], tmp_path: Path, predict) -> None:
    status, (one, two) = predict(stored(tmp_path, **times), "systems=dgx-h200", "gpus=[1,2]", "strategy=after")
    assert status == 0
    assert 0 < one["iteration_s"] <= two["iteration_s"]


@pytest.mark.parametrize("name", ["step_s", "clean_s"])
def test_steps_that_took_no_time_are_refused(name: str, tmp_path: Path, capsys) -> None:
    path = stored(tmp_path, **{name: [0.0] * 12})
    assert main(["predict", path, "systems=dgx-h200", "gpus=[1,2]"]) == 2
    assert "step_s has steps that took no time, so this is no trace" in capsys.readouterr().err


def test_layers_that_took_no_time_are_not_rescaled(tmp_path: Path, capsys) -> None:
    request = request_from(compose({"model": "alexnet", "batch_size": 32, "strategy": "none", "input": "synthetic"}))
    table = workloads.table(request.model, request.image_size)
    layers = [layer(each.name, 0.0, 0.0, 4 * sum(each.parameters)) for each in table]
    unknown = dict.fromkeys(("sm_clock_Hz", "software", "measured_at", "batches.0"), "made up for a test")
    made = trace(batch(32, [*layers, layer("loss", 1e-3, 1e-3)]), request=request, how="measured", unknown=unknown)
    record.write(tmp_path / "trace.json", made)
    assert main(["predict", str(tmp_path / "trace.json"), "systems=dgx1-p100", "batch_size=32", "gpus=1"]) == 2
    assert "take no time in it, which rescales to nothing" in capsys.readouterr().err


# ---- where figures were measured


def test_only_what_this_machine_measured_was_measured_here() -> None:
    assert measured_on([node_name()] * 2) == "measured here"
    assert measured_on(["other"]) == "measured on other"
    assert measured_on([node_name(), "\x1b[2J"]) == f"measured on \\x1b[2J, {node_name()}"
    assert measured_on("abcde") == "measured on a, b, c and 2 more"
    assert measured_on([]) == "measured on a machine without a name"


def test_the_screen_names_the_machine_whose_rate_it_is(tmp_path: Path, monkeypatch, capsys) -> None:
    rate = Path(__file__).parents[2] / "results" / "cpu-2core" / "quickstart"
    words = ["predict", "systems=cpu-host", "model.x=1", "batch_size=16", "gpus=[1,2]", f"rate={rate}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "one rank's step measured on cpu-2core" in out
    assert "measured here" not in out
    monkeypatch.setattr("resnetx.record.prediction.node_name", lambda: "cpu-2core")
    assert main(words) == 0
    assert "one rank's step measured here" in capsys.readouterr().out
