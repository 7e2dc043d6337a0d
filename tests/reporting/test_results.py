import json
import re
import shutil

import msgspec
import pytest

from resnetx import record
from resnetx.record import SCHEMA, RunRecord, StudyFolder, StudyRecord
from resnetx.reporting import study_scaling


@pytest.fixture
def folder(record_of, record_environment, tmp_path):
    """A study of one point with two good runs on two ranks."""
    blank = msgspec.structs.replace(
        record_of({"threads": 1, "batch_size": 32}, gpus=2), outcome="ok", reason="", environment=record_environment()
    )
    images = blank.request.steps * blank.request.batch_size
    folder = StudyFolder(tmp_path / "mine")
    for repeat in (1, 2):
        run = msgspec.structs.replace(blank, repeat=repeat, windows_s=[[images / 10.0, images / 10.0]] * 2)
        record.write(folder.run(run.request.slug, repeat).record, run)
    study = StudyRecord(
        kind="study", schema=SCHEMA, name="mine", about="", node="node1", points=[blank.request], repeats=2, twins=0,
        baseline=1, convention="caffe", resnetx="0",
    )  # fmt: skip
    record.write(folder.study, study)
    return folder


def first_run(folder):
    return next(run for run in folder.runs() if run.path.name.endswith("_r1"))


def good(folder):
    (point,) = study_scaling.load(folder).points
    return [run.folder.name.rpartition("_")[2] for run in point.good_runs]


@pytest.mark.parametrize("name", ["{}.bak", "a-copy-of-{}"])
def test_a_copy_of_a_run_is_set_aside_and_no_repeat(folder, name):
    original = first_run(folder).path
    shutil.copytree(original, copy := original.with_name(name.format(original.name)))
    assert good(folder) == ["r1", "r2"]
    (sentence,) = study_scaling.load(folder).skipped
    assert sentence == f"{copy}: not counted, as {original.name} holds run 1 of this case"


def test_two_copies_without_their_original_are_one_run(folder):
    original = first_run(folder).path
    for name in ("a", "b"):
        shutil.copytree(original, original.with_name(f"{name}_copied"))
    shutil.rmtree(original)
    assert good(folder) == ["copied", "r2"]
    assert len(study_scaling.load(folder).skipped) == 1


def without_a_field(tree):
    del tree["environment"]["python"]


def without_any_sample_of_gpus(tree):
    del tree["gpu_samples"]


def without_time(tree):
    tree["windows_s"] = [[0.0, 1.0], [0.0, 1.0]]


def with_unequal_windows(tree):
    tree["windows_s"] = [[1.0, 1.0], [1.0]]


def without_images(tree):
    tree["request"]["batch_size"] = 0


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (without_a_field, "missing required field `python`"),
        (without_any_sample_of_gpus, "Object missing required field `gpu_samples`"),
        (without_time, "windows_s: .* images in 0.0 s give no rate"),
        (with_unequal_windows, "windows_s: ranks have different numbers of windows, 1 to 2"),
        (without_images, "windows_s: 0 images in .* s give no rate"),
    ],
)
def test_a_record_of_another_shape_is_set_aside_and_the_others_count(folder, spoil, sentence):
    run = first_run(folder)
    tree = msgspec.to_builtins(record.read(run.record, RunRecord))
    spoil(tree)
    run.record.write_text(json.dumps(tree))
    assert good(folder) == ["r2"]
    (told,) = study_scaling.load(folder).skipped
    assert told.startswith(f"{run.record}: not a record of a run (")
    assert re.search(sentence, told)
