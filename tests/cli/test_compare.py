"""The verb `compare` as a user meets it."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from resnetx import record
from resnetx.cli import main
from resnetx.record import SCHEMA, StudyFolder, StudyRecord, record_file
from resnetx.record.comparisons import Comparison


@pytest.fixture
def study_on_disk(record_of, tmp_path):
    """Writes a study of one point on one and on two ranks, each with six runs at about these images/s."""

    def make(node, *rates, name="mine", **settings):
        folder = StudyFolder(tmp_path / node / name)
        points = []
        for gpus, rate in enumerate(rates, 1):
            blank = record_of({"model.x": 1, "batch_size": 32, "threads": 1, **settings}, gpus=gpus)
            points.append(blank.request)
            for repeat in range(1, 7):
                images = blank.request.steps * blank.request.batch_size
                windows_s = [[images / rate * (1 + 0.001 * repeat)] * 2] * gpus
                run = msgspec.structs.replace(blank, outcome="ok", reason="", repeat=repeat, windows_s=windows_s)
                record.write(folder.run(blank.request.slug, repeat).record, run)
        study = StudyRecord(
            kind="study", schema=SCHEMA, name=name, about="", node=node, points=points, repeats=6, twins=0, baseline=1,
            convention="caffe", resnetx="0",
        )  # fmt: skip
        record.write(folder.study, study)
        return str(folder.path)

    return make


def run(capsys, *words):
    status = main(["compare", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_only_cases_that_a_test_has_judged_are_called_tested(study_on_disk, capsys):
    a, b = study_on_disk("node1", 10.0, 15.0), study_on_disk("node2", 10.1, 19.0)
    for path in Path(b).glob("*_g2_*/record.json"):
        made = record.read(path, record.RunRecord)
        failed = msgspec.structs.replace(made, outcome="failed", reason="made by a test", windows_s=None)
        record.write(path, failed)
    _, out, _ = run(capsys, a, b)
    assert "sure: t tests of 1 of 2 cases" in " ".join(out.split())


@pytest.mark.slow
def test_the_studies_the_conclusion_and_the_tables_are_shown(study_on_disk, capsys):
    a, b = study_on_disk("node1", 10.0, 15.0), study_on_disk("node2", 10.1, 19.0)
    status, out, err = run(capsys, a, b)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(
        "B trains 1.267 times (1.263 to 1.270) as fast as A on 2 GPUs: 2 of 2 common cases differ"
    )
    assert len(lines) <= 15 and lines[-1].endswith("page: out=FOLDER")
    assert "One-GPU rates agree within 3%" in out
    (row,) = [line.split() for line in lines if line.split()[:1] == ["2"]]
    assert (row[1], row[2:5]) == ("1.267", ["1.263", "to", "1.270"])
    assert any(line.startswith("In all rows: workload ResNet/1, batch 32") for line in lines)
    _, out, _ = run(capsys, a, b, "--all")
    assert out.splitlines()[-2:] == [f"A: study mine on node1 ({a})", f"B: study mine on node2 ({b})"]
    assert "Geometric means over the cases" in out


def test_a_folder_above_a_single_study_will_do(study_on_disk, capsys, tmp_path):
    study_on_disk("node1", 10.0)
    status, out, _ = run(capsys, str(tmp_path), str(tmp_path))
    assert status == 0
    assert "A and B are one study: every ratio is 1." in out


def test_json_and_the_record_say_the_same(study_on_disk, capsys, tmp_path):
    studies = [study_on_disk("node1", 10.0, 15.0), study_on_disk("node2", 20.0, 30.0, precision="bf16")]
    status, out, err = run(capsys, *studies, "--json", f"out={tmp_path / 'out'}")
    file = record_file("comparison", tmp_path / "out")
    written = {"record": file.name, "figure": "compared.svg", "page": "index.html"}
    assert (status, err) == (0, "".join(f"{what}: {file.with_name(name)}\n" for what, name in written.items()))
    answer, *fields = json.loads(out).items()
    assert answer[1].startswith("B trains 2.000 times (1.994 to 2.006) as fast as A on 2 GPUs: ")
    assert dict(fields) == json.loads(file.read_text())
    found = record.read(file, Comparison)
    assert [each.name for each in found.settings] == ["precision"]
    assert found.points[0].ratio.median == pytest.approx(2)


def test_the_baseline_is_chosen(study_on_disk, capsys):
    studies = [study_on_disk("node1", 10.0, 15.0), study_on_disk("node2", 20.0, 30.0)]
    assert "speed-up B / A: over 2 GPUs." in run(capsys, *studies, "baseline=2")[1]


def test_a_file_that_is_no_record_is_named_and_skipped(study_on_disk, capsys):
    a, b = study_on_disk("node1", 10.0), study_on_disk("node2", 20.0)
    broken = StudyFolder(Path(a)).run("broken", 1)
    broken.path.mkdir()
    broken.record.write_text("{")
    status, out, err = run(capsys, a, b)
    assert (status, "2.000" in out) == (0, True)
    assert f"skipped: {broken.record}: truncated or not JSON" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "compare: 0 paths given; expected two study folders, A and B"),
        (["{}/node1"], "compare: 1 path given"),
        (["{}/node1", "{}/node1", "{}/node1"], "compare: 3 paths given"),
        (["{}/node1", "{}/nowhere"], "nowhere: no such folder"),
        (
            ["{}", "{}/node1"],
            "{}: contains 3 studies; give the folder of one of them: node1/mine, node2/mine, node3/mine",
        ),
        (["{}/node1", "{}/node3"], "no case is in both studies: model.x is 1 in A and 4 in B"),
        (["{}/node1", "{}/node2", "bseline=2"], "bseline: no such setting; did you mean baseline?"),
        (["{}/node1", "{}/node2", "baseline=0"], "baseline=0: expected at least 1"),
        (["{}/node1", "{}/node2", "baseline=all"], "baseline=all: expected a number of GPUs"),
        (["{}/node1", "{}/node2", "out={}/node1/mine/study.json"], "study.json: cannot be written (File exists)"),
        (
            ["{}/node1", "{}/node2", "--fast"],
            "--fast: `resnetx compare` has no such flag; it has -q, --json, --all",
        ),
    ],
)
def test_a_mistake_is_one_sentence(study_on_disk, capsys, tmp_path, words, sentence):
    study_on_disk("node1", 10.0)
    study_on_disk("node2", 20.0)
    study_on_disk("node3", 20.0, **{"model.x": 4})
    status, _, err = run(capsys, *(word.replace("{}", str(tmp_path)) for word in words))
    assert status == 2
    assert sentence.replace("{}", str(tmp_path)) in err
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1


def test_a_study_file_that_is_none_is_refused(study_on_disk, capsys, tmp_path):
    a = study_on_disk("node1", 10.0)
    (tmp_path / "node1" / "mine" / "study.json").write_text("[]")
    status, _, err = run(capsys, a, a)
    assert (status, err.count("\n")) == (2, 1)
    assert "study.json: not a " in err


def test_studies_without_a_common_case_have_no_empty_table(capsys):
    """The cases of both stand there, with what is missing of each, and nothing is called sure."""
    assert main(["compare", "results/h100/one-gpu", "results/h100/one-gpu-rest"]) == 0
    said = capsys.readouterr().out
    assert "nothing to compare" in said and "rate B / A" not in said and "sure:" not in said
    assert re.search("resnet50 +128  bf16 +missing +3,640", said)
