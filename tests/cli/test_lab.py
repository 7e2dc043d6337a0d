"""`resnetx lab`: its screen, and the words of the verb that runs inside."""

import json
import statistics
from pathlib import Path

import pytest

from resnetx.cli import words_inside
from resnetx.errors import ConfigError
from resnetx.measure import lab_ranks
from resnetx.traces import read_all
from tests.cli.run import run


def test_a_verb_in_the_lab_gets_its_settings():
    assert words_inside(["lab", "systems=gx8", "scale=50", "--", "bench", "gpus=2"]) == [
        "bench", "gpus=2", "lab.system=gx8", "lab.scale=50.0", "lab.transport=auto",
    ]  # fmt: skip


def test_several_systems_are_an_axis():
    assert "lab.system=[dgx1-p100,gx8]" in words_inside(["lab", "systems=[dgx1-p100,gx8]", "--", "sweep"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["systems=gx8", "--", "topology"], "topology: expected a verb that runs in the lab: train, sweep, bench"),
        (["systems=gx8", "--", "predict", "lab.transport=host"], "lab.transport=host: write transport=host before --"),
        (["lab.system=gx8", "--", "train"], "lab.system=gx8: write systems=gx8 before --"),
        (["systems=gx8", "gpus=2", "--", "train"], "gpus: belongs behind --, to the verb that runs in the lab"),
        (["gx9", "--", "train"], "gx9: the lab has settings"),
        (["--", "train"], "systems: none is given; expected the systems that the lab builds"),
    ],
)
def test_what_is_no_lab_is_one_sentence(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        words_inside(["lab", *words])


def test_a_machine_that_cannot_build_it_says_why(capsys, monkeypatch):
    monkeypatch.setattr(lab_ranks.os, "geteuid", lambda: 1000)
    status, out, _ = run(capsys, "lab", "systems=gx8", "gpus=2")
    assert status == 1
    assert "gpu0  riser0  0.131      0.131" in out
    assert "the lab needs root" in out
    status, _, err = run(capsys, "bench", "lab.system=gx8")
    assert (status, "the lab needs root" in err) == (2, True)


def test_networks_as_json(capsys):
    _, out, _ = run(capsys, "lab", "systems=dgx1-p100", "gpus=2", "--json")
    network = json.loads(out)
    assert network["ranks"] == ["gpu0", "gpu1"]
    assert [round(link["rate_Bps"] / 1e6) for link in network["links"]] == [184]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lab.scale=10"], "lab.scale: belongs to a lab; set lab.system, too"),
        (["lab.system=gx9"], "gx9"),
        (["lab.system=gx8", "lab.scale=0"], "lab.scale=0"),
        (["lab.system=gx8", "transport=socket", "gpus=2"], "in the lab gloo sends over its links; use lab.transport"),
        (["replay=gx8"], "replay=gx8"),
        (["replay=p100-sxm2-16gb", "input=dali"], "replay=p100-sxm2-16gb: no images are read; set input=synthetic"),
        (["replay=p100-sxm2-16gb", "measure=phases"], "only clean steps are replayed"),
    ],
)
def test_settings_of_the_lab_that_make_no_sense(capsys, words, sentence):
    status, _, err = run(capsys, "train", "model=alexnet", "input=synthetic", *words)
    assert status == 2
    assert sentence in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["replay=p100-sxm2-16gb", "library=nccl2"], "library: has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "transport=host"], "transport: has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "systems=dgx2"], "systems: has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "nodes=2"], "nodes: has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "rate=100"], "rate: has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "what_if.bandwidth={pcie3:2}"], "has no effect in the lab"),
        (["replay=p100-sxm2-16gb", "strategy=server", "strategy.device=gpu"], "use strategy.device=cpu"),
        ([], "what computing takes on cores that ranks share is not predicted; add replay="),
    ],
)
def test_a_prediction_in_the_lab_ignores_nothing(capsys, words, sentence):
    status, _, err = run(capsys, "predict", "model=alexnet", "batch_size=256", "gpus=2", "lab.system=gx8", *words)
    assert status == 2
    assert sentence in " ".join(err.split())


def test_unequal_ranks_and_jitter_are_predicted(capsys):
    def step_s(*more):
        words = ["model=cifarnet", "gpus=3", "lab.system=gx8", "strategy=after", "replay=p100-sxm2-16gb", *more]
        status, out, err = run(capsys, "predict", *words, "--json")
        assert status == 0, err
        return json.loads(out)["iteration_s"]

    uneven = step_s("batch_size=3070", "split=uneven")
    assert step_s("batch_size=3069") < uneven <= step_s("batch_size=3072")
    assert step_s("batch_size=3072", "replay_jitter=0.1") > 1.05 * step_s("batch_size=3072")


def test_what_is_replayed_has_no_other_rate(capsys):
    words = ["model=alexnet", "batch_size=256", "gpus=2", "systems=gx8", "replay=p100-sxm2-16gb", "rate=100"]
    status, _, err = run(capsys, "predict", *words)
    assert (status, "replay: has the times of a step already" in err) == (2, True)


TRACES = Path(__file__).parents[2] / "results" / "cpu-2core" / "truth" / "trace"


def test_a_trace_that_was_measured_here_is_waited_out(capsys):
    (folder,) = TRACES.glob("alexnet*")
    words = ["model=alexnet", "batch_size=8", "gpus=2", "lab.system=gx8", "lab.scale=100", "strategy=after"]
    status, out, err = run(capsys, "predict", *words, f"replay={folder}", "--json")
    assert status == 0, err
    point = json.loads(out)
    (trace,) = read_all(folder)
    step_s = statistics.median(trace.batches[0].times.clean_step_s)
    assert point["compute_s"] == pytest.approx(100 * step_s, rel=0.1)


@pytest.mark.slow
def test_traces_of_several_workloads_are_refused(capsys):
    words = ["model=alexnet", "batch_size=8", "gpus=2", "systems=gx8", f"replay={TRACES}"]
    status, _, err = run(capsys, "predict", *words)
    assert (status, "expected one workload: name its folder" in " ".join(err.split())) == (2, True)
