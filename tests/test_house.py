"""The house holds: what must not load torch does not, and the test can tell."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import resnetx
from resnetx.errors import ConfigError
from resnetx.workloads import tables

PURE = [
    "resnetx",
    "resnetx.cli",
    "resnetx.api.bench",
    "resnetx.api.compare",
    "resnetx.api.describe",
    "resnetx.api.doctor",
    "resnetx.api.load",
    "resnetx.api.predict",
    "resnetx.steering",
    "resnetx.api.sweep",
    "resnetx.api.topology",
    "resnetx.api.trace",
    "resnetx.api.train",
    "resnetx.choices",
    "resnetx.config",
    "resnetx.host",
    "resnetx.interconnect.collectives.measured",
    "resnetx.measure.launch.launcher",
    "resnetx.measure.study_runs",
    "resnetx.measure.rank_process",
    "resnetx.prediction.predict",
    "resnetx.literature.training",
    "resnetx.record",
    "resnetx.traces",
    "resnetx.request",
    "resnetx.reporting.accuracy",
    "resnetx.reporting.compared_studies",
    "resnetx.reporting.page",
    "resnetx.reporting.charts.systems",
    "resnetx.reporting.study_scaling",
    "resnetx.reporting.compared_systems",
    "resnetx.reporting.charts.predictions",
    "resnetx.statistics",
    "resnetx.study",
    "resnetx.units",
    "resnetx.workloads",
    "resnetx.workloads.counts",
    "resnetx.workloads.tables",
]


def loaded_after(statements: str, python: str = sys.executable) -> set[str]:
    """Top-level packages in memory after a process of its own has executed something, whatever that prints."""
    program = f"{statements}; import sys; print(); print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.slow
def test_modules_that_need_no_device_load_no_torch(light_python):
    """One after the other in one process, which tells of each what has been loaded by then."""
    heavy = {"torch", "torchvision", "nvidia", "wandb"}
    each = f"print(importlib.import_module(name).__name__, {heavy} & {{*sys.modules}} or '')"
    program = f"import importlib, sys\nfor name in {PURE}:\n    {each}"
    done = subprocess.run([light_python, "-c", program], capture_output=True, text=True, check=True)
    assert [line.strip() for line in done.stdout.splitlines()] == PURE


def test_the_command_line_loads_hydra_only_when_a_verb_runs():
    assert not {"hydra", "omegaconf", "rich"} & loaded_after("import resnetx.cli")


@pytest.mark.slow
def test_the_papers_workloads_are_counted_without_torch(light_python):
    count = "[workloads.workload(model, size, 64, 'caffe') for model, size in tables.KEPT.values()]"
    counting = f"from resnetx import workloads; from resnetx.workloads import tables; {count}"
    assert "torch" not in loaded_after(counting, light_python)


@pytest.mark.slow
def test_describing_the_papers_workloads_loads_no_torch(light_python):
    assert "torch" not in loaded_after("from resnetx.cli import main; main(['describe'])", light_python)


@pytest.mark.slow
def test_counting_any_depth_loads_no_torch(light_python):
    words = ["describe", "model.x=20000", "model.width=32", "image_size=96", "--json"]
    assert "torch" not in loaded_after(f"from resnetx.cli import main; main({words})", light_python)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["describe"], ["train", "input=synthetic"]])
def test_refusing_a_name_loads_no_torch(words, light_python):
    if tables.installed_version() != tables.kept_classifiers().torchvision:
        pytest.skip("another torchvision is installed than the one whose classifiers are kept: it is asked itself")
    words = [*words, "model=torchvision", "model.name=resnet51"]
    assert "torch" not in loaded_after(f"from resnetx.cli import main; main({words})", light_python)


@pytest.mark.slow
def test_a_workload_that_is_not_kept_needs_torch_and_the_probe_sees_it(light_python):
    counting = "from resnetx import choices, workloads; workloads.table(choices.AlexNetSettings(classes=10), 96)"
    assert "torch" in loaded_after(counting, light_python)


READERS = {
    *("resnetx.formats.kineto", "resnetx.formats.kineto_windows", "resnetx.formats.logs", "resnetx.formats.nccl_table"),
    *("resnetx.formats.nccl_table", "resnetx.formats.nccl_tests", "resnetx.interconnect.survey.survey_sources"),
    *("resnetx.record.points_file", "resnetx.traces.trace_files"),
}  # of files that a prediction is seldom given


@pytest.mark.slow
def test_a_prediction_loads_readers_only_of_files_that_it_is_given(tmp_path, light_python):
    words = ["predict", "systems=gx8", "model=alexnet", "batch_size=256"]
    program = "import sys; from resnetx.cli import main; main(sys.argv[1:]); print(); print(*sys.modules)"

    def loaded(*more: str) -> set[str]:
        command = [light_python, "-c", program, *words, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        return READERS & set(done.stdout.splitlines()[-1].split())

    assert loaded() == set()
    (tmp_path / "nccl.yaml").write_text("source: typed\ngpus: 8\npoints: [{size: 64MiB, time_us: 911}]\n")
    assert loaded("calibration=nccl.yaml") == set()
    assert "resnetx.record.points_file" in loaded("out=made")


@pytest.mark.slow
def test_a_rank_of_a_run_file_loads_no_hydra():
    """Each rank of each run starts so; a run file needs none of the command line's grammar."""
    asked = """
from resnetx.cli import ranks
from resnetx.measure.launch import Moment
try:
    ranks.serve_run(["nowhere.json"], Moment.now())
except Exception:
    pass
"""
    assert "hydra" not in loaded_after(f"exec({asked!r})")
    assert "hydra" in loaded_after(f"exec({asked.replace('nowhere.json', 'pick=2')!r})")


def test_a_rank_started_by_hand_refuses_a_setting_of_another_verb():
    from resnetx.cli import ranks
    from resnetx.measure.launch import Moment

    with pytest.raises(ConfigError, match="not a setting of `resnetx train`"):
        ranks.serve_run(["pick=2"], Moment.now())


def _patterns():
    """(place, pattern, flags) of each regular expression that the package writes out, msgspec's among them."""
    for path in sorted(Path(resnetx.__file__).parent.rglob("*.py")):
        program = path.read_text()
        if not re.search(r"\bre\.|\bpattern=r", program):
            continue
        for node in ast.walk(ast.parse(program)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            flags = re.M if any(re.search(r"\bre\.M(ULTILINE)?\b", ast.unparse(each)) for each in node.args) else 0
            found = node.args[:1] if called.startswith("re.") else []
            found = [*found, *(each.value for each in node.keywords if each.arg == "pattern" and "Meta" in called)]
            for text in found:
                if isinstance(text, ast.Constant):
                    yield f"{path.name}:{node.lineno}", text.value, flags


def _ends_before_a_line_break(pattern, flags):
    """Whether `$` stands in a pattern for the end of a text, where it is also before a last line break."""
    parsed = re._parser.parse(pattern, flags)
    return not parsed.state.flags & re.M and "AT_END)" in repr(list(parsed))


@pytest.mark.slow
def test_no_pattern_takes_a_text_with_a_line_break_behind_it_for_the_text():
    found = list(_patterns())
    assert len(found) > 100 and any("A-Za-z0-9_.,:/@" in pattern for _, pattern, _ in found if isinstance(pattern, str))
    assert _ends_before_a_line_break("^a+$", 0) and not _ends_before_a_line_break(r"^a+\Z", 0)
    assert [place for place, pattern, flags in found if _ends_before_a_line_break(pattern, flags)] == []


def test_schemas_have_no_patterns():
    """Which other programs match in other ways."""
    for path in Path(resnetx.__file__).parent.rglob("*.schema.json"):
        assert '"pattern": "' not in path.read_text(), path


# ---- threads --------------------------------------------------------------------------------------------------------

# A type of which msgspec takes 0.5 s to make what it keeps, read by a second thread in the middle of that.
READ_BY_TWO = """
import threading, time
import msgspec
from resnetx.errors import prepared

def slowly():
    begun.set()
    time.sleep(0.5)
    return int

class Inner(msgspec.Struct):
    value: "slowly()"

class Outer(msgspec.Struct):
    inner: Inner

def read():
    found.append(msgspec.convert({"inner": {"value": 1}}, prepared(Outer)).inner.value)

found, begun = [], threading.Event()
one = threading.Thread(target=read)
one.start()
begun.wait()
read()
one.join()
print(found)
"""


@pytest.mark.slow
def test_two_threads_read_one_type_for_the_first_time(light_python):
    ended = subprocess.run([light_python, "-c", READ_BY_TWO], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "[1, 1]\n"), "-11: the second thread saw what was half made"


@pytest.mark.slow
def test_whatever_is_read_as_a_type_goes_through_what_threads_may_share():
    read = re.compile(r"msgspec\.(?:convert|json\.(?:decode|Decoder))\(")
    found = [
        (path.name, ast.unparse(node))
        for path in sorted(Path(resnetx.__file__).parent.rglob("*.py"))
        if read.search(program := path.read_text())
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Call) and read.match(ast.unparse(node))
    ]
    assert len(found) > 10
    allowed = {"msgspec.json.Decoder(kind)", "msgspec.json.decode(without_passwords(msgspec.json.encode(part)))"}
    assert [(name, call) for name, call in found if "prepared(" not in call and call not in allowed] == []
