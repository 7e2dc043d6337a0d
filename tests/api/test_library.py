"""The library: what `import resnetx` gives, with the examples of its documentation."""

import doctest
import importlib
import inspect
import logging
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import resnetx
from resnetx.api.topology import answer_to
from resnetx.api.topology_answers import Costed
from resnetx.api.trace import Traces
from resnetx.measure.probes import Finding
from resnetx.settings import keywords
from resnetx.settings.files import CONFIGS
from resnetx.settings.verbs import VERBS
from resnetx.traces import read_all

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in VERBS if name != "list"]


def test_importing_it_loads_nothing_heavy():
    program = "import sys; before = set(sys.modules); import resnetx; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    own = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert own == {"resnetx"}


def test_there_is_a_function_for_each_verb_with_its_settings_as_keywords():
    for name in FUNCTIONS:
        taken = inspect.signature(getattr(resnetx, name)).parameters.values()
        if not VERBS[name].settings:
            assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in taken), name
            continue
        (settings,) = [each for each in taken if each.kind is each.VAR_KEYWORD]
        declared = settings.annotation.__args__[0]
        assert declared is getattr(keywords, f"{name.title()}Keywords"), name
    assert set(resnetx.__all__) == {
        *FUNCTIONS,
        "ConfigError",
        "config_dir",
        "figures",
        "load",
        "observe",
        "plan",
        "validate",
    }
    assert set(resnetx.__all__) <= set(dir(resnetx))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        resnetx.nonsense  # noqa: B018


def test_a_module_of_the_same_name_does_not_hide_a_function():
    """`torchrun -m resnetx.train` needs the module, and something may import it."""
    importlib.import_module("resnetx.train")
    assert callable(resnetx.train)


EXAMPLES = [
    "resnetx.api.describe",
    "resnetx.api.load",
    "resnetx.api.predict",
    "resnetx.steering",
    "resnetx.api.topology",
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_docstrings(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 1
    assert found.failed == 0


@pytest.mark.slow
def test_the_examples_of_the_documentation(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(ROOT / "docs" / "library.md"), module_relative=False)
    assert found.attempted > 15
    assert found.failed == 0


def test_groups_are_dictionaries_structs_or_names_and_mean_the_same():
    by_name = resnetx.describe(model="resnetx", **{"model.x": 4})
    (given,) = by_name.requests
    for model in ({"kind": "resnetx", "x": 4}, {"x": 4}, given.model):
        assert resnetx.describe(model=model).requests == by_name.requests
    (cost,) = resnetx.topology("gx8", collective="allreduce", size=1024, devices=(0, 1))
    assert cost.devices == [0, 1]
    assert resnetx.topology(CONFIGS / "system" / "gx8.yaml")[0].system == "gx8"


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: resnetx.train(pick=2), "pick: not a setting of `resnetx train`"),
        (lambda: resnetx.sweep(pick=2), "pick: not a setting of `resnetx sweep`"),
        (lambda: resnetx.sweep(library=["nccl1", "nccl2"]), "library: not a setting of `resnetx sweep`"),
        (lambda: resnetx.describe(batch_sise=3), "batch_sise: no such setting; did you mean batch_size?"),
        (lambda: resnetx.describe(model={"kind": "alexnet", "x": 3}), "model.x: a setting of another model"),
        (lambda: resnetx.describe(batch_size=0), "batch_size=0: expected at least 1"),
        (lambda: resnetx.predict(systems=["gx8"], overlap={"input": 3}), "overlap.input=3: expected true or false"),
        (lambda: resnetx.plan(pick=2), "pick: not a setting of `resnetx sweep`"),
        (
            lambda: resnetx.validate("bench"),
            "validate=bench: no verb with published figures has that name. Known: predict",
        ),
        (lambda: resnetx.load("nowhere"), "nowhere: no such file or folder"),
        (lambda: resnetx.describe(model={"x": 2}, **{"model.x": 1}), "model.x: given twice, as 2 and as 1"),
        (lambda: resnetx.load(3), "3: expected a path, got int"),
        (lambda: resnetx.figures(3), "figures of a int: expected"),
    ],
)
def test_a_mistake_is_a_sentence(ask, sentence):
    with pytest.raises(resnetx.ConfigError) as refusal:
        ask()
    assert str(refusal.value).startswith(sentence)


def test_a_loaded_bench_a_trace_and_a_plan_show_their_answer_and_the_columns_of_the_screen(tmp_path):
    bench = resnetx.load(ROOT / "results/cpu-2core/bench/collectives_g2")
    assert repr(bench).startswith("Measured on cpu-2core, 2 ranks on CPU cores, gloo")
    assert "busbw GB/s" in repr(bench) and "In all rows: ranks 2, #wrong 0." in bench._repr_html_()
    copies = repr(resnetx.load(ROOT / "results/lab/degraded"))
    assert "same switch, slowest" in copies and "device copies, one way" in copies
    trace = read_all(ROOT / "results/cpu-2core/truth/trace")[0]
    assert repr(trace).startswith("Measured: a step of AlexNet takes ") and " step " in repr(trace)
    assert len(trace.rows()) == sum(len(batch.times.layers) for batch in trace.batches)
    plan = resnetx.plan(batch_size=16, gpus=[1, 2], repeats=3, twins=0, input="synthetic", results=tmp_path)
    assert repr(plan).startswith("6 runs of 2 cases, 0 of them control runs, about ")
    assert "gpus" in plan._repr_html_() and "runs 3." in repr(plan)


def test_a_plan_is_what_would_run(tmp_path):
    plan = resnetx.plan(batch_size=16, gpus=[1, 2], repeats=3, twins=0, input="synthetic", results=tmp_path)
    assert (plan.points, plan.reused, len(plan.rows())) == (2, 0, 6)
    assert sorted(row["gpus"] for row in plan.rows()) == [1, 1, 1, 2, 2, 2]
    assert plan.duration_s > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_was_loaded_is_compared_and_reported_as_its_folder_is(tmp_path):
    folder = ROOT / "results" / "cpu-2core" / "quickstart"
    study = resnetx.load(folder)
    assert resnetx.compare(study, study) == resnetx.compare(folder, folder)
    made = resnetx.predict(systems=["gx8", "dgx1-p100"], model="alexnet", gpus=[1, 2])
    assert (
        resnetx.compare(made).systems
        == resnetx.compare(systems=["gx8", "dgx1-p100"], model="alexnet", gpus=[1, 2]).systems
    )
    assert resnetx.report(study, out=tmp_path) == tmp_path / "index.html"
    for sides, sentence in (((study, made), "a prediction is given second"), ((study,), "1 path given")):
        with pytest.raises(resnetx.ConfigError, match=sentence):
            resnetx.compare(*sides)
    with pytest.raises(resnetx.ConfigError, match="a prediction: not accepted with papers="):
        resnetx.compare(made, papers="sth2017")


def test_a_group_that_is_given_in_part_keeps_its_other_defaults():
    (point,) = resnetx.predict(systems=["gx8"], model="alexnet", gpus=1, input="dali", overlap={"input": False}).points
    (other,) = resnetx.predict(
        systems=["gx8"], model="alexnet", gpus=1, input="dali", **{"overlap.input": False}
    ).points
    assert point == other


@pytest.mark.slow
def test_what_is_kept_is_loaded_as_what_it_is(tmp_path, undrawn):
    made = resnetx.predict(systems=["gx8", "dgx1-p100"], model="alexnet", gpus=[1, 2], out=tmp_path / "predicted")
    assert resnetx.load(tmp_path / "predicted") == made
    assert resnetx.load(tmp_path / "predicted" / "prediction.json") == made
    compared = resnetx.compare(systems=["gx8", "dgx1-p100"], model="alexnet", gpus=[1, 2], out=tmp_path / "compared")
    assert resnetx.load(tmp_path / "compared" / "systems.json") == compared
    assert {row["system"] for row in compared.rows()} == {"gx8", "dgx1-p100"}
    (tmp_path / "other.json").write_text('{"schema": 1, "kind": "recipe"}')
    with pytest.raises(resnetx.ConfigError, match="not a record of resnetx"):
        resnetx.load(tmp_path / "other.json")


def test_notes_go_to_logging(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "resnetx"):
        resnetx.predict(systems=["gx8"], model="alexnet", gpus=1, out=tmp_path)
    assert f"record: {tmp_path / 'prediction.json'}" in caplog.messages


@pytest.mark.slow
def test_collections_are_tables():
    found = resnetx.describe(model={"kind": "resnetx", "x": [1, 4]}, batch_size=64)
    frame = found.to_pandas()
    assert list(frame["workload"]) == ["ResNet/1", "ResNet/4"]
    assert list(frame["model.x"]) == [1, 4]
    heading, first, *_ = str(found.table()).splitlines()
    assert heading.split()[0] == "workload"
    assert first.split()[0] == "ResNet/1"
    assert found._repr_html_().count("<tr>") == 3
    assert len(found[:1]) == 1


@pytest.mark.slow
def test_figures_are_charts_that_a_notebook_shows():
    study = resnetx.load(ROOT / "results" / "cpu-2core" / "quickstart")
    charts = resnetx.figures(study)
    assert {"rate", "speedup", "lost"} <= set(charts)
    for chart in (*charts.values(), *resnetx.figures(resnetx.load(CONFIGS / "system" / "gx8.yaml")).values()):
        assert "vega-embed" in chart._repr_mimebundle_(None, None)["text/html"]


def test_every_kind_of_answer_of_topology_prints_what_its_records_hold():
    answer = answer_to(["gx8"], {"collective": "allreduce", "size": ["8", "64MiB"]})
    assert isinstance(answer, Costed)
    kept = [msgspec.to_builtins(record) for record in answer.records()]
    assert [each["size_bytes"] for each in kept] == [8, 2**26]


@pytest.mark.dist
def test_a_point_is_trained_and_a_collective_timed_from_python(tmp_path, preloaded):
    run = resnetx.train(
        model={"kind": "resnetx", "x": 1, "classes": 10}, image_size=32, batch_size=4, input="synthetic", warmup=3,
        steps=1, windows=1, gpus=1, results=tmp_path,
    )  # fmt: skip
    assert run.outcome == "ok", run.reason
    assert run.images_per_s > 0
    (folder,) = {path.parent for path in tmp_path.rglob("record.json")}
    assert resnetx.load(folder) == run


@pytest.mark.slow
def test_a_script_without_a_guard_is_not_run_again_by_workers(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "print('begun')\nimport resnetx\n"
        "print(resnetx.images('it', images={'classes': 2, 'per_class': 2, 'size': '256', 'workers': 2}).images)\n"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["begun", "4"]


def test_numbers_of_numpy_are_numbers():
    (workload,) = resnetx.describe(model={"x": np.int64(4)}, batch_size=np.arange(64, 65))
    assert (workload.workload, workload.batch_size) == ("ResNet/4", 64)


def test_home_is_made_out_and_an_empty_group_is_no_study(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = resnetx.predict(systems=["gx8"], model="alexnet", gpus=1, out="~/kept")
    assert resnetx.load("~/kept") == made
    assert len(resnetx.describe(model={})) == 1


def test_models_of_ones_own(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "wide.yaml").write_text("kind: resnetx\nx: 4\nwidth: 128\nclasses: 10\n")
    with resnetx.config_dir(tmp_path):
        (workload,) = resnetx.describe(model="wide")
    assert workload.workload == "ResNet/4 width 128"


@pytest.mark.slow
@pytest.mark.parametrize("systems", [["dgx1-p100", "gx8"], ["gx8", "dgx1-p100"]])
@pytest.mark.parametrize("study", ["weak", "paper-alexnet-googlenet"])
def test_what_changes_a_result_is_a_warning(caplog, systems, study):
    """Whichever of the paper's workloads its systems are compared on, with its assumptions."""
    with caplog.at_level(logging.WARNING, "resnetx"):
        resnetx.compare(systems=systems, study=study, gpus=[4])
    assert any("as in the paper: clock=1227" in message for message in caplog.messages)


def test_help_of_a_verb_lists_its_settings():
    doc = resnetx.predict.__doc__
    assert "systems=[]: names" in doc and "model.x=8: residual blocks" in doc
    assert doc.index("systems=") < doc.index("precision=") < doc.index("straggler=")
    assert resnetx.predict.__doc__ == doc  # asked for twice


def test_what_is_printed_is_the_screen(capsys):
    made = resnetx.predict(systems="gx8", model="alexnet", batch_size=256)
    answer, headings, *rows = repr(made).splitlines()[0], *repr(made).splitlines()[2:]
    assert answer.startswith(
        "Predicted: on gx8, 8 GPUs train AlexNet, batch 256, 2.1 times (1.5 to 2.7) as fast as one GPU"
    )
    assert (headings.split()[:3], len(rows)) == (["GPUs", "images/s", "interval"], 4)
    assert [row.index(row.split()[0]) for row in rows] == [3] * 4  # numbers stand below the end of their heading
    assert "<p>Predicted: on gx8, 8 GPUs train AlexNet, batch 256" in made._repr_html_()


@pytest.mark.parametrize(
    ("one", "begins", "heading"),
    [
        (lambda: resnetx.predict(systems="gx8", model="alexnet").points[0], "Predicted: on gx8, one GPU", "images/s"),
        (lambda: resnetx.describe(model="alexnet")[0], "AlexNet, batch 32: 0.74 activations", "act./param."),
        (lambda: resnetx.topology("gx8", collective="allreduce")[0], "Predicted: allreduce of 64 MiB", "busbw GB/s"),
        (lambda: resnetx.explain(ROOT / "results/cpu-2core/quickstart")[1], "Measured: a step of", "% of the step"),
    ],
)
def test_one_record_shows_its_answer_and_its_columns(one, begins, heading):
    shown = repr(one())
    assert shown.startswith(begins) and heading in shown


def test_a_long_collection_shows_its_size():
    first, headings, *_, last = repr(resnetx.describe(study="paper")).splitlines()
    assert first.startswith("From 0.742 to 1,640 activations per parameter on each GPU: AlexNet 0.742 to 11.9, ")
    assert (headings.split()[:3], last) == (["workload", "image", "batch"], "... 22 rows")


PROGRAM = """
import resnetx

made = resnetx.predict(systems=["gx8"], model={"kind": "alexnet"}, gpus=[1, 8])
print([point.speedup for point in made.points], resnetx.load("it").name)
for finding in resnetx.doctor():
    print(finding.topic)
rates: dict[int, float] = {32: 2500}
resnetx.predict(systems="gx8", rate=rates)
resnetx.predict(systems="gx8", rate={32: 195, 64: 219})
resnetx.predict(systems="gx8", rate={"dgx1-v100": {32: 195}})
resnetx.predict(systms=["gx8"])
resnetx.predicty()
"""


@pytest.mark.long
def test_a_checker_of_types_finds_misspelt_settings_and_functions(tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 2, checked.stdout
    assert 'Unexpected keyword argument "systms"' in errors[0]
    assert 'no attribute "predicty"' in errors[1]


@pytest.mark.parametrize(
    ("record", "begins"),
    [
        (lambda: resnetx.topology("gx8"), "gx8: Cirrascale GX8 with 8 Tesla P100-PCIE"),
        (lambda: resnetx.topology("gx8", collective="allreduce", size=["1MiB", "64MiB"]), "Predicted: allreduce of 64"),
        (lambda: resnetx.topology("gx8", pick=2), "Predicted: on gx8 GPUs "),
        (lambda: resnetx.topology("new", gpus=4, like="pcie-gen5"), ""),
        (lambda: resnetx.lab(systems=["gx8"], scale=100), "The lab builds gx8 / 100 of "),
        (lambda: resnetx.load(next((ROOT / "results/cpu-2core/quickstart").glob("*_r1"))), "Measured on cpu-2core: "),
        (lambda: Traces(read_all(ROOT / "results/cpu-2core/truth/trace")), "Measured: a step of "),
    ],
)
def test_the_repr_of_what_a_verb_returns_begins_with_its_answer(record, begins):
    made = record()
    assert repr(made).startswith(begins)
    assert made.answer().sentences[0] in made._repr_html_()


def test_parts_of_records_show_themselves_in_a_line():
    """Each of what lists of records hold says its answer, as the records do."""
    lab = ROOT / "results/lab"
    compared = resnetx.compare(systems=["dgx1-p100", "gx8"], model="alexnet", batch_size=256, gpus=[2, 8])
    studies = resnetx.compare(lab / "paper/study", lab / "truth/study")
    checked = resnetx.compare(lab / "truth/prediction", lab / "truth/study")
    (made,) = resnetx.predict(systems=["gx8"], model="alexnet", batch_size=256, gpus=8).points
    explained = resnetx.explain(ROOT / "results/cpu-2core/quickstart")
    lines = [
        (made.parts[0], r"useful: \d+% \(\d+ to \d+\) of the step\."),
        (compared.points[0].sides[0], r"dgx1-p100, nccl2: .* iterations/s \(.* to .*\), limited by \w+\."),
        (compared.collectives[0], r"\w+ of .* over \d+ GPUs of dgx1-p100, nccl2: .* us, .* GB/s \(size / time\)\."),
        (compared.copies[0], "dgx1-p100: GPU 0 copies 4 B to GPU 1 in .* us."),
        (studies.points[0], "AlexNet, .*, 2 ranks: B trains 1.00 times .* as fast as A: too few runs to decide."),
        (checked.points[0], "AlexNet, .*, 2 ranks of dgx1-p100: 6.64 s predicted, 6.64 s measured, [+]0.0%."),
        (explained[1].parts[1], "input: 19.7 ms."),
        (studies.settings[0], "windows: 3 in A, 5 in B."),
        (studies.means[0], r"gpus=2: B trains 1.00 times \(1.00 to 1.00\) as fast as A, the mean of 6 cases\."),
        (
            studies.points[0].request,
            "AlexNet, batch 256, 227 px, fp32, gpus=2, strategy=after, input=synthetic, lab=.*",
        ),
        (checked.totals[0], r"dgx1-p100, gloo: off by 0.7% in the mean, .*; 31 of 35 measurements in the interval\."),
        (checked.advantages[0], "AlexNet, batch 256, gpus=2, dgx1-p100: strategy=after over layerwise: 0.801 times.*"),
        (made.gpu, r"p100-pcie-16gb \(GP100\), 1,303 MHz, memory at 732 GB/s\."),
        (compared.points[0].sides[0].iterations_per_s, r"[\d.]+ \([\d.]+ to [\d.]+\)\."),
        (compared.points[0].margin, "Margin: first dgx1-p100, second gx8, ratio.value .*"),
        (Finding("system", "ok", "Python 3.11", ""), "system: ok: Python 3.11.*"),
    ]
    for part, line in lines:
        assert re.fullmatch(line, repr(part)), repr(part)


def test_a_bench_says_its_rate_with_its_ends_and_that_no_copy_is_right():
    collectives = resnetx.load(ROOT / "results/cpu-2core/bench/collectives_g2")
    assert "allreduce reaches 1.01 GB/s (0.87 to 1.24) bus bandwidth at 16 MiB" in repr(collectives)
    copies = resnetx.load(ROOT / "results/lab/links/gx8-copies")
    wrong = [msgspec.structs.replace(cell, wrong=1) for cell in copies.cells]
    assert "device copies, one way: no result is right" in repr(msgspec.structs.replace(copies, cells=wrong))


def test_systems_between_which_no_difference_is_shown_have_the_largest_ratio_in_the_answer():
    compared = resnetx.compare(systems=["gx8", "dgx1-p100"], model="resnet50", batch_size=128, gpus=8)
    assert re.match(
        r"Predicted: with nccl2, no difference is shown: dgx1-p100 is \S+ times \(0\.\d to [12]\.\d\) as fast as gx8\.",
        repr(compared),
    )
