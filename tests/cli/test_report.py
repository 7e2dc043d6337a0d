"""The verb `report` as a user meets it."""

import time

import pytest

from resnetx import record
from resnetx.cli import main
from resnetx.record import SCHEMA, StudyFolder, StudyRecord, cut_short


@pytest.fixture
def study_on_disk(task_of, tmp_path):
    """A study whose only run failed, and one file that is no record."""
    task = task_of({"threads": 1})
    folder = StudyFolder(tmp_path / "results" / "node1" / "mine")
    run = folder.run(task.request.slug, 1)
    record.write(run.record, cut_short(task, time.time(), "failed", "made by a test"))
    broken = folder.run("broken", 1)
    broken.path.mkdir()
    broken.record.write_text("{")
    study = StudyRecord(
        kind="study", schema=SCHEMA, name="mine", about="", node="node1", points=[task.request], repeats=1, twins=0,
        baseline=1, convention="caffe", resnetx="0",
    )  # fmt: skip
    record.write(folder.study, study)
    return folder


def test_the_page_is_written_into_the_study_and_says_where(study_on_disk, capsys):
    assert main(["report", str(study_on_disk.path)]) == 0
    page = study_on_disk.report / "index.html"
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert "made by a test" in text
    assert "truncated or not JSON" in text


def test_a_record_that_is_no_text_or_nested_without_end_is_named_and_the_others_count(study_on_disk, capsys):
    for name, content in {"flipped": b'{"schema": 1, "outcome": "\xff"}', "deep": b'{"a": ' + b"[" * 100_000}.items():
        folder = study_on_disk.run(name, 1)
        folder.path.mkdir()
        folder.record.write_bytes(content)
    assert main(["report", str(study_on_disk.path)]) == 0
    err = capsys.readouterr().err
    for name, why in {
        "broken": "truncated",
        "flipped": "line 1: byte 0xff is not UTF-8",
        "deep": "nested too deeply",
    }.items():
        (line,) = [
            line for line in err.splitlines() if line.startswith(f"skipped: {study_on_disk.run(name, 1).record}: ")
        ]
        assert why in line
    assert "made by a test" in (study_on_disk.report / "index.html").read_text()


def test_a_folder_of_studies_is_reported_as_a_whole_and_elsewhere_if_asked(study_on_disk, tmp_path):
    above = study_on_disk.path.parent.parent
    assert main(["report", str(above), str(study_on_disk.path), f"out={tmp_path / 'out'}"]) == 0
    assert "mine on node1" in (tmp_path / "out" / "index.html").read_text()
    assert not study_on_disk.report.exists()


def test_a_study_that_cannot_be_read_is_skipped_and_the_others_are_reported(study_on_disk, capsys):
    above = study_on_disk.path.parent
    broken = StudyFolder(above / "broken")  # before the good one, by name
    broken.path.mkdir()
    broken.study.write_text('{"kind": "study", "sch')
    assert main(["report", str(above)]) == 0
    sentence = f"{broken.study}: truncated or not JSON"
    assert f"skipped: {sentence}" in capsys.readouterr().err
    text = (study_on_disk.report / "index.html").read_text()
    assert sentence in text
    assert "mine on node1" in text
    assert not broken.report.exists()


def test_studies_of_which_none_can_be_read_are_refused(study_on_disk, capsys):
    study_on_disk.study.write_text("{")
    assert main(["report", str(study_on_disk.path)]) == 2
    err = capsys.readouterr().err
    assert f"skipped: {study_on_disk.study}: truncated or not JSON" in err
    assert "none of the given studies can be read" in err
    assert not study_on_disk.report.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no study given"),
        (["{}", "bseline=2"], "bseline: no such setting; did you mean baseline?"),
        (["{}", "baseline=0"], "baseline=0: expected at least 1"),
        (["{}", "baseline=true"], "baseline=True: expected a number of GPUs"),
        (["{}", "baseline=two"], "baseline=two: expected a number of GPUs"),
        (["{}/nothing"], "contains no study"),
        (["{}", "out={}/study.json"], "out={}/study.json: cannot be written (File exists)"),
    ],
)
def test_a_mistake_is_a_sentence(study_on_disk, capsys, words, sentence):
    here = str(study_on_disk.path)
    assert main(["report", *(word.replace("{}", here) for word in words)]) == 2
    assert sentence.replace("{}", here) in capsys.readouterr().err
